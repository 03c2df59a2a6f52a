% Runs the commands of docs/guide/messages.md in order and compares what they print: octave guide.m FILE REPOSITORY CLASSES
% Prints a line of JSON: how many were compared, those that were not run with the reason, and the first that printed other things.
words = argv ();
[file, repository, classes] = words{1:3};
javaaddpath (classes);
warning ('off', 'all');
addpath (fullfile (repository, 'octave'));
guide_text = fileread (file);
guide_parts = regexp (guide_text, '```matlab\n(.*?)```\n\n```text\n(.*?)```', 'tokens');
guide_found = struct ('compared', 0, 'skipped', 0, 'reason', '', 'wrong', '');
for guide_part = 1:numel (guide_parts)
  [guide_code, guide_wanted] = guide_parts{guide_part}{:};
  try
    guide_printed = evalc (guide_code);
  catch guide_why
    if ~isempty (strfind (guide_why.message, 'without ROS 2'))
      guide_found.skipped = guide_found.skipped + 1;
      guide_found.reason = guide_why.message;
      continue;
    end
    guide_printed = ['error: ' guide_why.message];
  end
  if ~strcmp (strtrim (guide_printed), strtrim (guide_wanted))
    guide_found.wrong = sprintf ('%s\nprints\n%s\nand not\n%s', guide_code, guide_printed, guide_wanted);
    break;
  end
  guide_found.compared = guide_found.compared + 1;
end
disp (jsonencode (guide_found));
fflush (stdout);
