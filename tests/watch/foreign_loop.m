% A loop by pause, as in a script: octave-cli foreign_loop.m PERIOD_US CYCLES [STAMPS]
%
% Writes a line for each cycle into STAMPS: when it began to wait plus the period, and the start, in ns of the wall clock.
words = argv();
period = str2double(words{1}) / 1e6;
cycles = str2double(words{2});
stamps = zeros(cycles, 2);
for k = 1:cycles
  stamps(k, 1) = time() + period;
  pause(period);
  stamps(k, 2) = time();
end
if numel(words) > 2
  file = fopen(words{3}, "w");
  fprintf(file, "%.0f %.0f\n", stamps' * 1e9);
  fclose(file);
end
