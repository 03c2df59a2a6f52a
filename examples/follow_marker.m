% The second of two instances: turns the head of a robot after the marker that track_marker.m publishes.
% examples/README.md describes it, follow_marker.sh runs it.
%
%   octave examples/follow_marker.m head 20
words = argv ();
[name, seconds] = deal (words{1}, str2double (words{2}));
repository = fileparts (fileparts (mfilename ('fullpath')));
if numel (words) > 2, classes = words{3}; else, classes = fullfile (repository, 'java/target/onbeat.jar'); end
javaaddpath (classes);
addpath (fullfile (repository, 'octave'));

view_rad = [1.2 0.9];                                    % what the camera sees, to the right and downwards
marker = onbeat.open ([name '/marker']);
robot = onbeat.commander (name);
ages = [];

began = tic ();
while toc (began) < seconds
  try
    m = onbeat.latest (marker);
  catch why
    if ~strcmp (why.identifier, 'onbeat:ring:ended'), rethrow (why); end
    break;                                               % the tracker has ended
  end
  if isempty (m)
    pause (0.002);
    continue;
  end
  % Valid for 0.25 s: without further pictures the robot holds, and then stops safely.
  onbeat.command (robot, {'neck yaw', 'neck pitch'}, [-m.x m.y] .* view_rad);
  now = double (javaMethod ('nanoTime', 'java.lang.System')) / 1e9;   % CLOCK_MONOTONIC, the clock of pictures and cycles
  ages(end + 1) = 1e3 * (now - m.captured_s);
end
robot.leave ();

ages = sort (ages);
at = @(part) ages(max (1, ceil (part * numel (ages))));
counts = onbeat.stats (marker);
printf ('follower: %d commands, %d records lost; picture to command p50 %.1f ms, p99 %.1f ms, max %.1f ms\n', ...
        numel (ages), counts.lost, at (0.5), at (0.99), ages(end));
