% Prints for each channel and field of logs its number of numbers and their sum, or its number of texts and their letters.
function log_sums (folder, count)
  for turn = 0:count - 1
    names = {sprintf('%d.mcap', turn), sprintf('%d_bag', turn)};
    for i = 1:2
      printf ('== %s\n', names{i});
      sums (onbeat.load ([folder '/' names{i}]));
    end
  end
end

function sums (log)
  for name = fieldnames (log).'
    s = log.(name{1});
    for field = fieldnames (s).'
      if any (strcmp (field{1}, {'lost', 'at', 'number', 'onbeat_channel', 'onbeat_type'}))
        continue;
      end
      [count, total] = flat (s.(field{1}));
      printf ('%s %s %d %.9g\n', s.onbeat_channel, field{1}, count, total);
    end
  end
end

function [count, total] = flat (values)
  if iscell (values)
    count = 0;
    total = 0;
    for i = 1:numel (values)
      [more, also] = flat (values{i});
      count = count + more;
      total = total + also;
    end
  elseif ischar (values)
    count = 1;
    total = numel (values);
  else
    values = double (values(:));
    count = numel (values);
    total = sum (values(isfinite (values)));
  end
end
