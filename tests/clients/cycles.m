% Reads all cycles of a robot in Octave and prints what it saw, as JSON.
% octave cycles.m CHANNEL REPOSITORY CLASSES
words = argv ();
[channel, repository, classes] = words{1:3};
javaaddpath (classes);
addpath (fullfile (repository, 'octave'));

cycles = [];
while isempty (cycles)
  try
    cycles = onbeat.open (channel);
  catch why
    if ~strcmp (why.identifier, 'onbeat:ring:no_channel') && ~strcmp (why.identifier, 'onbeat:ring:not_a_ring')
      rethrow (why);
    end
    pause (0.01);
  end
end
cycles.rewind ();
printf ('open\n');

all_numbers = zeros (0, 1);
columns = 0;
ended = '';
first = onbeat.next (cycles, 60000);
all_numbers(end + 1, 1) = first.number;
joints = numel (first.actual_rad);
while isempty (ended)
  try
    [M, at, numbers, lost] = onbeat.drain (cycles, {'cycle', 'actual_rad'}, 1000);
    all_numbers = [all_numbers; double(numbers)];
    columns = max (columns, size (M, 2));
  catch why
    ended = why.identifier;
  end
end
s = onbeat.stats (cycles);
in_order = all (diff (all_numbers) > 0);
words = {'false', 'true'};
printf ('{"count": %d, "first": %d, "last": %d, "in_order": %s, "lost": %d, "columns": %d, "joints": %d, "ended": "%s"}\n', ...
        numel (all_numbers), all_numbers(1), all_numbers(end), words{in_order + 1}, s.lost, columns, joints, ended);
