% Reads a channel of pyzmq by jeromq until a number arrives, and sends the last message back.
% octave jeromq.m FROM TO NAME LAST FILE REPOSITORY JAR...
words = argv ();
[from, to, name, last, file, repository] = words{1:6};
addpath (fullfile (repository, 'octave'));
for i = 7:numel (words)
  javaaddpath (words{i});
end

own = onbeat.publisher (to);
messages = onbeat.subscribe (from, [name '/there'], 'demo_msgs/msg/State', file);
sum_of_numbers = 0;
newest = 0;
columns = 0;
while newest < str2double (last)
  [M, at, numbers] = onbeat.drain (messages, {'n', 'joints'}, 1000);
  if ~isempty (M)
    sum_of_numbers = sum_of_numbers + sum (M(:, 1));
    columns = size (M, 2);
    newest = double (numbers(end));
  end
end
s = onbeat.stats (messages);
printf ('counted\n');
fflush (stdout);

% The next message is sent back until Python has it and ends this.
message = [];
while isempty (message)
  message = messages.next (int32 (250));
end
fields = onbeat.to_struct (message);
printf ('{"sum": %d, "columns": %d, "received": %d, "lost": %d, "joints": %d, "leg": "%s"}\n', sum_of_numbers, columns, s.received, s.lost, ...
        sum (fields.joints), fields.leg);
fflush (stdout);
while true
  own.publish ([name '/back'], message.bytes ());
  pause (0.02);
end
