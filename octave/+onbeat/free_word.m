function word = free_word (s, name)
  % A name that a field of a struct can have, and that this struct has not.
  % `/imu` is `imu`, as in the MAT files of the Python package.
  word = regexprep (regexprep (name, '[^a-zA-Z0-9_]', '_'), '^_+', '');
  if isempty (regexp (word, '^[a-zA-Z]', 'once'))
    word = ['c' word];
  end
  first = word(1:min (end, 59));
  word = word(1:min (end, 63));
  number = 2;
  while isfield (s, word)
    word = sprintf ('%s_%d', first, number);
    number = number + 1;
  end
end
