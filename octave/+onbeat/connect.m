function r = connect (robot, key)
  % Connects to a robot: on this computer by its name, on another one by the name or address of that computer.
  %
  %   r = onbeat.connect ('robot.local', 'robot.key');             % or onbeat.connect ('walker'), on this computer
  %   onbeat.command (r, {'left knee', 'right knee'}, [0.3 0.2]);   % rad, valid for 0.25 s
  %   [M, at] = onbeat.drain (r, {'actual_rad'}, 1000);             % all cycles since the last call
  %   r.leave ();                                                   % the robot keeps its last targets
  %
  % Times of cycles are by CLOCK_MONOTONIC of the robot's computer.
  % On the robot's computer: onbeat message key robot.key, then
  % onbeat message command walker --from tcp://0.0.0.0:7791 --key robot.key. Without a key, a robot of another computer can be read.
  % onbeat.next, onbeat.latest, onbeat.stats and onbeat.joints take r too. Without leave, as after a kill or r.close (), a robot that was
  % commanded holds and then stops safely. Identifiers of errors: onbeat:java:no_jar, onbeat:robot, onbeat:ring, onbeat:zmq.
  if nargin < 2
    key = '';
  end
  try
    r = javaMethod ('connect', 'onbeat.Robot', robot, key);
  catch why
    onbeat.fail (why);
  end
end
