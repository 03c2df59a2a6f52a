function command (robot, joints, rad)
  % Sets target positions of joints in rad: a name and a number, or a cell of names and a vector.
  %
  % Raises onbeat:robot if an earlier command was refused, or the robot has stopped.
  try
    if ischar (joints)
      robot.command (joints, rad);
    elseif numel (joints) == 1
      robot.command (joints{1}, rad);
    else
      robot.command (joints, rad(:));
    end
  catch why
    onbeat.fail (why);
  end
end
