function s = to_struct (message)
  % Converts a message of the Java client to a struct; [] stays [].
  s = [];
  if isempty (message)
    return;
  end
  s = struct ('number', message.number (), 'at', message.at ());
  names = strsplit (char (message.fieldNames ()), ' ');
  for i = 1:numel (names)
    name = strrep (names{i}, '.', '_');
    name = regexprep (name, '[^a-zA-Z0-9_]', '_');
    if message.isText (names{i})
      of_field = onbeat.of_texts (message.getTexts (names{i}));
      s.(name) = of_field{1};
    else
      s.(name) = message.get (names{i});
    end
  end
end
