function log = load (file)
  % Reads a log (MCAP) as a struct with a field for each channel, and in it a matrix for each field of its messages.
  %
  %   log = onbeat.load ('walk.mcap');
  %   plot (log.walker_cycle.at, log.walker_cycle.actual_rad);
  %   save ('-v7', 'walk.mat', '-struct', 'log');
  %
  % A row of a matrix is a record. `at` are times in s (CLOCK_MONOTONIC), `number` the numbers of the records, `lost` how many
  % records did not reach the log; characters of names that are not letters or digits become `_`. Identifiers of errors:
  % onbeat:java:no_jar, onbeat:log, onbeat:type.
  log = struct ();
  try
    reader = javaMethod ('open', 'onbeat.Log', file);
    names = strsplit (char (reader.channelNames ()), char (10));
    for i = 1:numel (names)
      if ~isempty (names{i})
        channel = reader.channel (names{i});
        word = regexprep (names{i}, '[^a-zA-Z0-9]', '_');
        if isempty (regexp (word, '^[a-zA-Z]', 'once'))
          word = ['c' word];
        end
        log.(word) = matrices (channel, reader.lost (names{i}));
      end
    end
  catch why
    onbeat.fail (why);
  end
end

function s = matrices (channel, lost)
  rows = channel.rows ();
  s = struct ('lost', lost, 'at', channel.at (), 'number', channel.numbers ());
  fields = strsplit (char (channel.fieldNames ()), ' ');
  for i = 1:numel (fields)
    if ~isempty (fields{i})
      columns = channel.columns (fields{i});
      word = regexprep (fields{i}, '[^a-zA-Z0-9_]', '_');
      s.(word) = reshape (channel.values (fields{i}), rows, columns);
    end
  end
end
