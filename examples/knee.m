% The script of docs/guide/octave.md: commands a knee at 100 Hz, reads every cycle of the robot at 1 kHz meanwhile, and draws both.
%
%   octave examples/knee.m walker knee.png
words = argv ();
[robot, picture] = deal (words{1:2});
repository = fileparts (fileparts (mfilename ('fullpath')));
javaaddpath (fullfile (repository, 'java/target/onbeat.jar'));
addpath (fullfile (repository, 'octave'));

cycles = onbeat.open ([robot '/cycle']);
commander = onbeat.commander (robot);
knee = onbeat.joints (cycles, 'left knee');
joints = numel (onbeat.joints (cycles));

goals = zeros (600, 2);                                  % time in s, command in rad
rows = cell (600, 1);
began = tic ();
for step = 1:600
  goal = 0.5 + 0.3 * sign (sin (2 * pi * 0.4 * step / 100)) * (step < 400) + 0.2 * sin (2 * pi * step / 100) * (step >= 400);
  onbeat.command (commander, 'left knee', goal);
  [M, at] = onbeat.drain (cycles, {'target_rad', 'actual_rad'});
  if ~isempty (M)
    rows{step} = [at, M(:, [knee, joints + knee])];      % a row for each cycle: time, target, actual
    goals(step, :) = [at(end), goal];
  end
  pause (max (step / 100 - toc (began), 0));
end
commander.leave ();

rows = vertcat (rows{:});
goals = goals(goals(:, 1) > 0, :);
s = onbeat.stats (cycles);
printf ('%d commands, %d cycles read, %d lost, period %.6f s\n', 600, s.received, s.lost, median (diff (rows(:, 1))));
printf ('largest following error %.4f rad\n', max (abs (rows(:, 2) - rows(:, 3))));

if isempty (available_graphics_toolkits ()), graphics_toolkit ('gnuplot'); end
figure ('visible', 'off', 'position', [0 0 900 400]);
t = @(at) at - rows(1, 1);
stairs (t (goals(:, 1)), goals(:, 2), 'color', [0.5 0.5 0.5], 'linewidth', 1);
hold ('on');
plot (t (rows(:, 1)), rows(:, 2), 'color', [0.90 0.62 0.00], 'linewidth', 5);
plot (t (rows(:, 1)), rows(:, 3), 'color', [0.00 0.45 0.70], 'linewidth', 1.5);
legend ('command (Octave, 100 Hz)', 'target (robot, 1 kHz)', 'actual (drive, 1 kHz)', 'location', 'northeast');
xlabel ('s');
ylabel ('left knee, rad');
axis ([0 6 0 1.1]);
grid ('on');
set (gca (), 'gridcolor', [0.85 0.85 0.85]);
print (picture, '-dpng', '-r90');
