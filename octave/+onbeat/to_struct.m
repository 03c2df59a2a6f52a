function s = to_struct (message)
  % Converts a message of the Java client to a struct; [] stays []. A field of the message that is called number or at gets number_2
  % or at_2, as in onbeat.load: number and at are those of the record.
  s = [];
  if isempty (message)
    return;
  end
  s = struct ('number', message.number (), 'at', message.at ());
  names = strsplit (char (message.fieldNames ()), ' ');
  for i = 1:numel (names)
    if isempty (names{i})
      continue;
    end
    name = regexprep (names{i}, '[^a-zA-Z0-9_]', '_');
    if isfield (s, name)
      name = onbeat.free_word (s, names{i});
    end
    if message.isText (names{i})
      of_field = onbeat.of_texts (message.getTexts (names{i}));
      s.(name) = of_field{1};
    else
      s.(name) = message.get (names{i});
    end
  end
end
