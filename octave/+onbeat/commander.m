function robot = commander (name)
  % Becomes the one commander of a robot: onbeat robot run FILE --trajectory commander --name NAME.
  %
  %   robot = onbeat.commander ('walker');
  %   onbeat.command (robot, {'left knee', 'right knee'}, [0.3 0.2]);     % rad, valid for 0.25 s
  %   robot.leave ();                                                     % the robot keeps its last targets
  %
  % Without leave, as after Ctrl-C, a kill or robot.close (), the robot holds and then stops safely.
  try
    robot = javaMethod ('open', 'onbeat.Commander', name);
  catch why
    onbeat.fail (why);
  end
end
