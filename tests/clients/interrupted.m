% Reads every cycle of a robot and commands a joint until Ctrl-C, again and again, in one Octave. Read by octave_interrupted.rs, which writes
%   start (NAME, REPOSITORY, CLASSES), then work (ROUND) in every round, then finish ()
1;

function start (name, repository, classes)
  global cycles robot first newest torn
  javaaddpath (classes);
  addpath (fullfile (repository, 'octave'));
  cycles = onbeat.open ([name '/cycle']);
  robot = onbeat.commander (name);
  record = onbeat.next (cycles, 60000);
  first = record.number;
  newest = first;
  torn = 0;
  printf ('started\n');
  fflush (stdout);
end

function work (round)
  global cycles robot newest torn
  printf ('round %d\n', round);
  fflush (stdout);
  while true
    onbeat.command (robot, 'left knee', 0.3 + 0.1 * mod (round, 2));
    [M, at, numbers] = onbeat.drain (cycles, {'release_ns', 'cycle', 'inputs_new'}, 20);
    check (M, at, numbers);
    m = onbeat.next (cycles, 5);
    if ~isempty (m)
      check ([m.release_ns, m.cycle, m.inputs_new], m.at, m.number);
    end
  end
end

% The time of a record is the release in its payload; numbers and cycles only grow.
function check (M, at, numbers)
  global newest torn
  if isempty (M)
    return;
  end
  numbers = double (numbers);
  if any (abs (M(:, 1) / 1e9 - at) > 1e-6) || any (diff (M(:, 2)) < 1) || any (diff (numbers) < 1) || numbers(1) <= newest
    torn = torn + 1;
  end
  newest = numbers(end);
end

function finish ()
  global cycles robot first torn
  onbeat.command (robot, 'left knee', 0.2);
  [M, at, numbers] = onbeat.drain (cycles, {'release_ns', 'cycle', 'inputs_new'}, 5000);
  check (M, at, numbers);
  s = onbeat.stats (cycles);
  printf ('{"torn": %d, "first": %d, "last": %d, "received": %d, "lost": %d}\n', torn, first, numbers(end), s.received, s.lost);
  fflush (stdout);
  robot.leave ();
end
