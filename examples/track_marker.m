% The first of two instances: finds a bright disc in the pictures of a camera, and publishes its position on a channel.
% examples/README.md describes it, follow_marker.sh runs it.
%
%   octave examples/track_marker.m head 20
words = argv ();
[name, seconds] = deal (words{1}, str2double (words{2}));
repository = fileparts (fileparts (mfilename ('fullpath')));
if numel (words) > 2, classes = words{3}; else, classes = fullfile (repository, 'java/target/onbeat.jar'); end
javaaddpath (classes);
addpath (fullfile (repository, 'octave'));

% x and y are parts of the picture's width and height from its middle, to the right and downwards.
fields = {'float64 x', 'float64 y', 'float64 pixels', 'uint64 frame', 'float64 captured_s', 'float64 published_s'};
cam = onbeat.camera (name);
[found, missed] = deal (0);
seen = [];

began = tic ();
while toc (began) < seconds
  [img, n, t, times] = onbeat.frame (cam, 100);          % height x width x 3, uint8; [] after 100 ms
  if isempty (img), continue; end
  [height, width, ~] = size (img);
  top = round (height / 6);                              % the test source has number and time in the upper corner
  bright = img(top + 1:end, :, 1) > 128;
  [down, right] = find (bright);
  if isempty (down)
    missed = missed + 1;
    continue;
  end
  found = found + 1;
  x = (mean (right) - 0.5) / width - 0.5;
  y = (mean (down) - 0.5 + top) / height - 0.5;
  found_at = struct ('x', x, 'y', y, 'pixels', numel (down), 'frame', n, 'captured_s', t, 'published_s', times(4));
  onbeat.publish ([name '/marker'], found_at, 'tracker_msgs/msg/Marker', fields);
  seen = struct ('img', img, 'x', x, 'y', y, 'n', n);
end

counts = cam.stats ();
printf ('tracker: %d pictures with a marker, %d without, %d passed over, %d dropped by the camera\n', found, missed, counts(2:3));
if numel (words) > 3 && ~isempty (seen)
  save ('-v7', words{4}, '-struct', 'seen');             % the last picture, for follow_picture.m
end
