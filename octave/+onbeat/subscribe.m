function messages = subscribe (address, name, type, file)
  % Subscribes to a channel of LCM, ZeroMQ or ROS 2 in one call.
  %
  %   plans = onbeat.subscribe ('udpm://239.255.76.67:7667', 'PLAN', 'planner/msg/plan_t', 'planner.lcm');
  %   goals = onbeat.subscribe ('ros2://0', 'goal', 'arm_msgs/msg/Goal', 'arm_msgs/msg/Goal.msg');
  %   cycles = onbeat.subscribe ('tcp://127.0.0.1:5556', 'walker/cycle', 'onbeat_msgs/msg/Cycle', 'Cycle.msg');
  %
  % onbeat.next, onbeat.drain, onbeat.latest and onbeat.stats read it; messages.close () ends it, as does the end of this session. What is
  % sent before the publisher knows of the subscription is not received. ZeroMQ (tcp) needs the jar alone, on any system; LCM and ROS 2
  % are received by the program onbeat, which is started (the variable ONBEAT, else PATH). The definition of a type of onbeat, for tcp, is
  % what `onbeat message type CHANNEL` prints. Identifiers of errors: onbeat:java:no_jar, onbeat:zmq, onbeat:network, onbeat:type.
  if nargin < 4
    file = '';
  end
  try
    if strncmp (address, 'tcp:', 4) && ~isempty (file) && isempty (regexp (file, '\.lcm$', 'once'))
      messages = javaMethod ('open', 'onbeat.ZmqSubscription', address, name, type, fileread (file));
    else
      messages = javaMethod ('open', 'onbeat.Subscription', address, name, type, file);
    end
  catch why
    onbeat.fail (why);
  end
end
