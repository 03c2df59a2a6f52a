function places = joints (cycles, names)
  % Returns the places of joints in the arrays of a cycle; without names, the names of all joints.
  %
  %   knee = onbeat.joints (cycles, 'left knee');
  %   plot (at, M(:, knee));                                  % M: actual_rad by onbeat.drain
  %
  % Raises onbeat:joint for a name that the robot does not have.
  described = jsondecode (char (cycles.description ()));
  all = {described.joints.name};
  if nargin < 2
    places = all;
    return;
  end
  if ischar (names)
    names = {names};
  end
  places = zeros (1, numel (names));
  for i = 1:numel (names)
    place = find (strcmp (all, names{i}), 1);
    if isempty (place)
      error ('onbeat:joint', 'the robot has no joint "%s"; it has %s', names{i}, strjoin (all, ', '));
    end
    places(i) = place;
  end
end
