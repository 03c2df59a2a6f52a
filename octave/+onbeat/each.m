function [img, n, t, times] = each (cam, ms)
  % Returns the next picture in order, or [] after ms milliseconds; as onbeat.frame, which returns the newest one.
  %
  % Pictures that were overwritten before are counted: stats = cam.stats () is [taken, passed over, dropped before publication].
  if nargin < 2
    ms = 0;
  end
  [img, n, t, times] = onbeat.picture (cam, ms, true);
end
