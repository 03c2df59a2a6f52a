% Walks a robot of another computer, as walk.py does: octave walk.m HOST KEY SECONDS REPOSITORY CLASSES
words = argv ();
[host, key, seconds, repository, classes] = words{1:5};
seconds = str2double (seconds);
javaaddpath (classes);
addpath (fullfile (repository, 'octave'));

joints = {'left hip pitch', 'left knee', 'left ankle pitch', 'right hip pitch', 'right knee', 'right ankle pitch'};
r = onbeat.connect (host, key);
places = onbeat.joints (r, joints);
low = inf (1, 6);
high = -inf (1, 6);
first = 0;
last = 0;
step = 0;
began = tic ();
while true
  now_s = toc (began);
  lifts = max (sin (pi * now_s + [0 0 0 pi pi pi]), 0);
  onbeat.command (r, joints, [-0.2 0.4 -0.2 -0.2 0.4 -0.2] .* lifts);
  [M, at, numbers] = onbeat.drain (r, {'actual_rad'});
  if ~isempty (M)
    if first == 0
      first = double (numbers(1));
    end
    last = double (numbers(end));
    low = min ([low; M(:, places)], [], 1);
    high = max ([high; M(:, places)], [], 1);
  end
  step = step + 1;
  if seconds > 0 && now_s > seconds && last > 0
    s = onbeat.stats (r);
    printf ('{"commands": %d, "first": %d, "last": %d, "received": %d, "lost": %d, ', step, first, last, s.received, s.lost);
    printf ('"travelled_rad": [%s]}\n', strjoin (arrayfun (@(x) sprintf ('%.4f', x), high - low, 'UniformOutput', false), ', '));
    fflush (stdout);
    seconds = 0;
  end
  pause (max (step / 100 - toc (began), 0));
end
