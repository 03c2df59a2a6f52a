function [img, n, t, times] = frame (cam, ms)
  % Returns the newest picture as a height x width x channels matrix of uint8, or [] after ms milliseconds; 0 never waits.
  %
  %   [img, n, t] = onbeat.frame (cam, 100);
  %
  % A picture is returned once. n is its number, t its capture time in s (CLOCK_MONOTONIC, the clock of a robot's cycles), times are
  % those of capture, reception, decoding and publication.
  if nargin < 2
    ms = 0;
  end
  [img, n, t, times] = onbeat.picture (cam, ms, false);
end
