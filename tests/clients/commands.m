% Commands a joint at 100 Hz while it reads every cycle, in Octave; then waits to be killed.
% octave commands.m NAME SECONDS REPOSITORY CLASSES
words = argv ();
[name, seconds, repository, classes] = words{1:4};
javaaddpath (classes);
addpath (fullfile (repository, 'octave'));

robot = [];
while isempty (robot)
  try
    robot = onbeat.commander (name);
    cycles = onbeat.open ([name '/cycle']);
  catch why
    if ~any (strcmp (why.identifier, {'onbeat:robot', 'onbeat:ring:no_channel'}))
      rethrow (why);
    end
    pause (0.05);
  end
end

place = onbeat.joints (cycles, 'left knee');
numbers = zeros (0, 1);
steps = zeros (0, 1);
times = zeros (0, 1);
running = 0;
positions = zeros (0, 1);
commands = 0;
began = tic ();
for step = 1:round (100 * str2double (seconds))
  onbeat.command (robot, {'left knee', 'right knee'}, [0.3 + 0.2 * sin(pi * toc (began)), 0.1]);
  commands = commands + 1;
  [M, at, more] = onbeat.drain (cycles, {'dt_ns', 'actual_rad', 'robot_phase'});
  if ~isempty (M)
    numbers = [numbers; double(more)];
    steps = [steps; M(:, 1)];
    times = [times; at(:)];
    running = running + sum (M(:, end) == 2);
    positions = [positions; M(:, 1 + place)];
  end
  pause (max (step / 100 - toc (began), 0));
end

try
  onbeat.command (robot, {'left knee', 'right knee'}, [0.3 0.1 0.2]);
  error ('two joints take three targets');
catch why
  assert (why.identifier, 'onbeat:robot');
end

refused = '';
try
  onbeat.command (robot, 'left knee', 9);
  for i = 1:6000
    pause (0.01);
    onbeat.command (robot, 'left knee', 0.3);
  end
catch why
  refused = why.message;
end
s = onbeat.stats (cycles);
printf ('{"commands": %d, "count": %d, "first": %d, "last": %d, "lost": %d, "travelled_rad": %g, "refused": "%s", ', commands, ...
        numel (numbers), numbers(1), numbers(end), s.lost, max (positions) - min (positions), strrep (refused, '"', '\"'));
% Time between the first and the last cycle, and periods that the cycles in between stand for, skipped ones included.
printf ('"ms": %.6f, "periods": %.6f, "period_ns": %d, "running": %d}\n', (times(end) - times(1)) * 1e3, sum (steps(2:end)) / 1e6, min (steps(2:end)), ...
        running);
fflush (stdout);
pause (60);
