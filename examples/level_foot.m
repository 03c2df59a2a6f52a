% A controller in Octave: reads three joints of a robot and commands a fourth, at 100 Hz. examples/README.md describes it.
%
%   octave examples/level_foot.m walker 10
words = argv ();
[robot, seconds] = deal (words{1}, str2double (words{2}));
repository = fileparts (fileparts (mfilename ('fullpath')));
if numel (words) > 2, classes = words{3}; else, classes = fullfile (repository, 'java/target/onbeat.jar'); end
javaaddpath (classes);
addpath (fullfile (repository, 'octave'));

tilt_rad = 0.15; tilt_hz = 0.5; hz = 100;
cycles = onbeat.open ([robot '/cycle']);
leg = onbeat.joints (cycles, {'waist pitch', 'left hip pitch', 'left knee'});
commander = onbeat.commander (robot);

began = tic ();
for step = 1:round (seconds * hz)
  cycle = onbeat.latest (cycles);
  if ~isempty (cycle)
    tilt = tilt_rad * sin (2 * pi * tilt_hz * toc (began));
    % Valid for 0.25 s: without the next command the robot holds, and then stops safely.
    onbeat.command (commander, 'left ankle pitch', tilt - sum (cycle.actual_rad(leg)));
  end
  pause (max (step / hz - toc (began), 0));
end
commander.leave ();
