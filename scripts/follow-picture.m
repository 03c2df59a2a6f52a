% Draws a run of examples/follow_marker.sh: the last picture that was tracked, and the head of the robot beside the marker.
words = argv ();
[file, seen, picture] = deal (words{1:3});
repository = fileparts (fileparts (mfilename ('fullpath')));
javaaddpath (fullfile (repository, 'java/target/onbeat.jar'));
addpath (fullfile (repository, 'octave'));

log = onbeat.load (file, 'channels', {'head/marker', 'head/cycle'});
seen = load (seen);
cycle = log.head_cycle;
moved = find (max (cycle.actual_rad) - min (cycle.actual_rad) > 0.1);
assert (numel (moved) == 2);                             % neck yaw and neck pitch
t0 = log.head_marker.captured_s(1);
wanted = [-1.2 * log.head_marker.x, 0.9 * log.head_marker.y];
actual = cycle.actual_rad(:, moved);

if isempty (available_graphics_toolkits ()), graphics_toolkit ('gnuplot'); end
figure ('visible', 'off', 'position', [0 0 1100 400]);
subplot ('position', [0.01 0.16 0.35 0.72]);
image (seen.img);
axis ('image', 'off');
hold ('on');
[height, width, ~] = size (seen.img);
[cx, cy] = deal ((seen.x + 0.5) * width + 0.5, (seen.y + 0.5) * height + 0.5);
plot ([cx - 40, cx + 40], [cy cy], 'color', [0.90 0.62 0.00], 'linewidth', 2);
plot ([cx cx], [cy - 40, cy + 40], 'color', [0.90 0.62 0.00], 'linewidth', 2);
title (sprintf ('picture %d, as Octave has it', seen.n));
subplot ('position', [0.45 0.16 0.53 0.72]);
colours = [0.00 0.45 0.70; 0.00 0.62 0.45];
hold ('on');
for k = 1:2
  stairs (log.head_marker.captured_s - t0, wanted(:, k), 'color', [0.90 0.62 0.00], 'linewidth', 4);
  plot (cycle.at - t0, actual(:, k), 'color', colours(k, :), 'linewidth', 1.5);
end
legend ('marker', 'neck yaw, actual', 'marker', 'neck pitch, actual', 'location', 'southeast');
xlabel ('s since the first picture');
ylabel ('rad');
last = log.head_marker.captured_s(end) - t0;
xlim ([0 last]);
grid ('on');
set (gca (), 'gridcolor', [0.85 0.85 0.85]);
print (picture, '-dpng', '-r90');

% How long the head is behind the marker: the shift at which both agree best.
at = (1:0.01:last - 1)';
marker_yaw = interp1 (log.head_marker.captured_s - t0, wanted(:, 1), at);
shifts = 0:0.005:0.6;
off = arrayfun (@(shift) sqrt (mean ((interp1 (cycle.at - t0, actual(:, 1), at + shift) - marker_yaw) .^ 2)), shifts);
[best, place] = min (off);
printf ('the head follows the marker by %.0f ms, then within %.4f rad RMS\n', 1e3 * shifts(place), best);
