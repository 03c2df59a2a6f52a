function [log, account] = load (file, varargin)
  % Reads a log as a struct with a field for each channel, and in it a matrix for each field of its messages.
  %
  %   log = onbeat.load ('walk.mcap');
  %   plot (log.walker_cycle.at, log.walker_cycle.actual_rad);
  %   log = onbeat.load ('drive.mcap', 'channels', {'/imu', '/tf'});
  %   [log, account] = onbeat.load ('drive.mcap', 'damaged', 'skip');
  %   save ('-v7', 'walk.mat', '-struct', 'log');
  %
  % MCAP files, bags of ROS 2 (the folder, or one of its files, .mcap or .db3, compressed or not) and logs of LCM are read; a ROS 1
  % bag is converted to MCAP by the program onbeat (the variable ONBEAT, else PATH). 'types', FOLDER names a folder of .msg files for
  % bags without definitions (.db3 of ROS 2 Humble and earlier). A row of a matrix is a record; lists whose lengths differ are cells
  % with a row vector for each record, and texts are cells. `at` are times in s (CLOCK_MONOTONIC for logs of onbeat, else since
  % 1970), `number` the numbers of the records, `lost` how many records did not reach the log, `onbeat_channel` and `onbeat_type`
  % names as the log has them. Characters of names that are not letters or digits become `_`, and those at the beginning are left
  % out: /imu is log.imu. Messages in JSON are decoded to `json`, a cell, and each number that all have at the top to a column;
  % what cannot be decoded is in `payload`, a cell of bytes.
  %
  % `account` is a struct array with a row for each channel of which records are damaged or not decoded: channel, what, count,
  % reason; a warning, onbeat:log:account, says the same. A damaged log is an error unless 'damaged' is 'skip'. Identifiers of
  % errors: onbeat:java:no_jar, onbeat:log, onbeat:type.
  [wanted, skips, types] = options (varargin);
  [mcap, is_made, defects] = as_mcap (file, skips);
  log = struct ();
  try
    reader = javaMethod ('open', 'onbeat.Log', mcap, skips, types);
    if is_made
      delete (mcap);
    end
    names = strsplit (char (reader.channelNames ()), char (10));
    names = names(~cellfun (@isempty, names));
    if ~isempty (wanted)
      for i = 1:numel (wanted)
        if ~any (strcmp (names, wanted{i}))
          error ('onbeat:log', '%s has no channel %s; it has %s', file, wanted{i}, strjoin (names, ', '));
        end
      end
      names = wanted;
    end
    for i = 1:numel (names)
      channel = reader.channel (names{i});
      log.(onbeat.free_word (log, names{i})) = matrices (channel, names{i}, reader.lost (names{i}));
    end
    lines = [defects, {char(reader.account ())}];
    account = accounted (strjoin (lines(~cellfun (@isempty, lines)), char (10)), file);
  catch why
    if is_made && exist (mcap, 'file')
      delete (mcap);
    end
    onbeat.fail (why);
  end
end

function [wanted, skips, types] = options (given)
  wanted = {};
  skips = false;
  types = '';
  for i = 1:2:numel (given)
    if i == numel (given)
      error ('onbeat:log', 'the option %s has no value', given{i});
    elseif strcmp (given{i}, 'channels')
      wanted = given{i + 1};
      if ischar (wanted)
        wanted = {wanted};
      end
    elseif strcmp (given{i}, 'damaged') && any (strcmp (given{i + 1}, {'skip', 'raise'}))
      skips = strcmp (given{i + 1}, 'skip');
    elseif strcmp (given{i}, 'types') && ischar (given{i + 1})
      types = given{i + 1};
    else
      error ('onbeat:log', 'options are ''channels'', NAMES; ''damaged'', ''skip'' or ''raise''; and ''types'', FOLDER');
    end
  end
end

function [mcap, is_made, defects] = as_mcap (file, skips)
  % Bags of ROS 1 need bzip2, which the program has. Defects are lines as in the account of the reader.
  mcap = file;
  is_made = false;
  defects = {};
  if isempty (regexp (file, '\.bag$', 'once')) || exist (file, 'dir')
    return;
  end
  mcap = [tempname() '.mcap'];
  program = getenv ('ONBEAT');
  if isempty (program)
    program = 'onbeat';
  end
  [status, said] = system ([quoted(program) ' message convert --json ' quoted(file) ' ' quoted(mcap) ' 2>&1']);
  if status ~= 0
    error ('onbeat:log', 'the program onbeat has not converted %s: %s', file, strtrim (said));
  end
  is_made = true;
  about = jsondecode (said);
  damage = {};
  if iscell (about.damage)
    damage = reshape (about.damage, 1, []);
  end
  if ~skips && ~isempty (damage)
    delete (mcap);
    error ('onbeat:log', '%s is damaged: %s; onbeat.load (file, ''damaged'', ''skip'') loads the rest, and counts', file, damage{1});
  end
  if ~isempty (about.cut)
    damage{end + 1} = about.cut;
  end
  defects = cellfun (@(why) sprintf ('\tdamaged\t0\t%s', why), damage, 'UniformOutput', false);
end

function word = quoted (path)
  % A word of the shell, whatever is in it.
  if ispc ()
    word = ['"' path '"'];
  else
    word = ['''' strrep(path, '''', '''\''''') ''''];
  end
end

function s = matrices (channel, name, lost)
  s = struct ('lost', lost, 'at', channel.at (), 'number', channel.numbers (), 'onbeat_channel', name);
  s.onbeat_type = char (channel.type ());
  fields = strsplit (char (channel.fieldNames ()), ' ');
  for i = 1:numel (fields)
    if isempty (fields{i})
      continue;
    end
    values = column (channel, fields{i});
    if strcmp (char (channel.encoding ()), 'json') && isempty (char (channel.why ()))
      % A text that this decoder does not take stays one.
      s.json = cellfun (@jsondecode, values, 'UniformOutput', false, 'ErrorHandler', @(why, text) text);
      s = json_columns (s);
    elseif strcmp (fields{i}, 'payload') && ~isempty (char (channel.why ()))
      s.payload = cellfun (@uint8, values, 'UniformOutput', false);
    else
      s.(onbeat.free_word (s, fields{i})) = values;
    end
  end
end

function s = json_columns (s)
  if isempty (s.json) || ~all (cellfun (@isstruct, s.json))
    return;
  end
  names = fieldnames (s.json{1});
  for i = 1:numel (names)
    has = cellfun (@(one) isscalar (one) && isfield (one, names{i}) && isscalar (one.(names{i})) ...
                   && (isnumeric (one.(names{i})) || islogical (one.(names{i}))), s.json);
    if all (has)
      s.(onbeat.free_word (s, names{i})) = cellfun (@(one) double (one.(names{i})), s.json);
    end
  end
end

function values = column (channel, field)
  levels = channel.levels (field);
  if channel.isText (field)
    values = onbeat.of_texts (channel.texts (field));
  elseif channel.columns (field) > 0 || levels == 0
    values = reshape (channel.values (field), channel.rows (), channel.columns (field));
    return;
  else
    values = channel.values (field);
    counts = channel.counts (field, levels - 1);
    if levels == 1 && isempty (char (channel.why ())) && ~isempty (counts) && all (counts == counts(1))
      values = reshape (values, counts(1), numel (counts)).';
      return;
    end
    values = parts (reshape (values, 1, []), counts);
    levels = levels - 1;
  end
  for level = levels - 1:-1:0
    values = parts (reshape (values, 1, []), channel.counts (field, level));
  end
end

function cells = parts (row, counts)
  % A cell for each count, with as many elements of the row.
  cells = cell (numel (counts), 1);
  last = 0;
  for i = 1:numel (counts)
    cells{i} = row(:, last + 1:last + counts(i));
    last = last + counts(i);
  end
end

function account = accounted (text, file)
  account = struct ('channel', {}, 'what', {}, 'count', {}, 'reason', {});
  if isempty (text)
    return;
  end
  lines = strsplit (text, char (10));
  sentences = cell (size (lines));
  for i = 1:numel (lines)
    parts_of = strsplit (lines{i}, char (9), 'CollapseDelimiters', false);
    account(i) = struct ('channel', parts_of{1}, 'what', parts_of{2}, 'count', str2double (parts_of{3}), 'reason', parts_of{4});
    if isempty (parts_of{1})
      sentences{i} = parts_of{4};
    else
      sentences{i} = sprintf ('%s of %s %s (%s)', parts_of{3}, parts_of{1}, strrep (parts_of{2}, '_', ' '), parts_of{4});
    end
  end
  warning ('onbeat:log:account', '%s: %s', file, strjoin (sentences, '; '));
end
