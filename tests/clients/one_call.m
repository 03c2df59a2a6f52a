% Publishes a struct and subscribes in one call each, over LCM; saves what was received: octave one_call.m NAME FOLDER REPOSITORY CLASSES
words = argv ();
[name, folder, repository, classes] = words{1:4};
javaaddpath (classes);
addpath (fullfile (repository, 'octave'));

url = 'udpm://239.255.76.67:7667?ttl=0';
type = 'plan_msgs/msg/Plan';
file = fullfile (folder, 'plan_msgs/msg/Plan.msg');
plans = onbeat.subscribe (url, 'PLAN', type, file);
message = [];
while isempty (message)
  onbeat.publish ([name '/plan'], struct ('name', 'octave', 'speeds', [0.5 1.5], 'legs', 2), type, file, url, 'PLAN');
  message = onbeat.next (plans, 200);
end
why = '';
try
  onbeat.publish ([name '/plan'], struct ('speed', 1), type, file, url, 'PLAN');
catch refused
  why = refused.message;
end

% Fields of the message do not take the place of the record's number and time.
mark = {[name '/mark'], struct('number', 7, 'at', 0.5), 'mark_msgs/msg/Mark', {'int32 number', 'float64 at'}};
onbeat.publish (mark{:});
marks = onbeat.open (mark{1});
onbeat.publish (mark{:});
mark = onbeat.next (marks, 10000);
assert ([mark.number, mark.number_2, mark.at_2], [2, 7, 0.5]);

% A message is a plain struct: saved and loaded, it is the same.
place = [tempname() '.mat'];
save ('-7', place, 'message');
again = load (place);
delete (place);
printf ('{"name": "%s", "speeds": [%g, %g], "legs": %d, "same": %d, "refused": "%s"}\n', message.name, message.speeds, message.legs, ...
        isequal (again.message, message), why);
fflush (stdout);
pause (600);
