function command (robot, joints, rad)
  % Sets target positions of joints in rad: a name and a number, or a cell of names and a vector.
  %
  % Raises onbeat:robot if an earlier command was refused, or the robot has stopped. Warns with onbeat:robot:waiting, once for
  % each reason, if the robot runs and does not follow.
  try
    before = char (robot.waiting ());
    if ischar (joints)
      robot.command (joints, rad);
    elseif numel (joints) == 1
      robot.command (joints{1}, rad);
    else
      robot.command (joints, rad(:));
    end
    waiting = char (robot.waiting ());
  catch why
    onbeat.fail (why);
  end
  if ~isempty (waiting) && ~strcmp (waiting, before)
    warning ('onbeat:robot:waiting', '%s', waiting);
  end
end
