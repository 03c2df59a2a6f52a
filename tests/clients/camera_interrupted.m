% Takes pictures of a camera until Ctrl-C, again and again, in one Octave. Read by camera_interrupted.rs, which writes
%   start (NAME, REPOSITORY, CLASSES), then work (ROUND) in every round, then finish ()
1;

function start (name, repository, classes)
  global cam newest torn checked
  javaaddpath (classes);
  addpath (fullfile (repository, 'octave'));
  cam = onbeat.camera (name);
  torn = 0;
  checked = 0;
  newest = 0;
  [img, newest] = onbeat.frame (cam, 5000);
  printf ('started\n');
  fflush (stdout);
end

function work (round)
  global cam
  printf ('round %d\n', round);
  fflush (stdout);
  while true
    if mod (round, 2)
      [img, n] = onbeat.frame (cam, 20);
    else
      [img, n] = onbeat.each (cam, 20);
    end
    check (img, n);
  end
end

% Every pixel of a test picture follows from the number that is painted on it; numbers only grow.
function check (img, n)
  global newest torn checked
  if isempty (img)
    return;
  end
  bits = double (img(3, 3:4:127, 1) > 127);
  number = sum (bits .* 2 .^ (31:-1:0));
  wave = @(p) (mod (p, 256) < 128) .* 2 .* mod (p, 256) + (mod (p, 256) >= 128) .* (511 - 2 * mod (p, 256));
  [x, y] = meshgrid (0:199, 16:119);
  right = cat (3, wave (x + number), wave (2 * (floor (y / 16) * 16) + number), wave (floor (x / 2) + 64 + number));
  if ~isequal (double (img(17:120, :, :)), right) || n <= newest
    torn = torn + 1;
  end
  newest = n;
  checked = checked + 1;
end

function finish ()
  global cam torn checked
  [img, n] = onbeat.frame (cam, 5000);
  check (img, n);
  s = cam.stats ();
  printf ('{"torn": %d, "checked": %d, "taken": %d, "passed_over": %d, "last": %d}\n', torn, checked, s(1), s(2), n);
  fflush (stdout);
end
