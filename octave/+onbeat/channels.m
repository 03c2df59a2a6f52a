function found = channels (file)
  % Returns the channels of a log as a struct array: channel, type, encoding, records, and why its records are not decoded.
  %
  %   found = onbeat.channels ('drive.mcap');
  %   {found.channel}
  %
  % Identifiers of errors: onbeat:java:no_jar, onbeat:log.
  found = struct ('channel', {}, 'type', {}, 'encoding', {}, 'records', {}, 'why', {});
  try
    reader = javaMethod ('open', 'onbeat.Log', file, true);
    names = strsplit (char (reader.channelNames ()), char (10));
    for i = 1:numel (names)
      if ~isempty (names{i})
        of = reader.channel (names{i});
        found(end + 1) = struct ('channel', names{i}, 'type', char (of.type ()), 'encoding', char (of.encoding ()), ...
                                 'records', of.rows (), 'why', char (of.why ()));
      end
    end
  catch why
    onbeat.fail (why);
  end
end
