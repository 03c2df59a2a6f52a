function cells = of_texts (texts)
  % Returns texts of the Java client as a cell column.
  if exist ('OCTAVE_VERSION', 'builtin')
    lengths = texts.byteLengths ();
    if texts.isPlain ()
      letters = char (texts.all ());
    else
      letters = char (uint8 (reshape (texts.allBytes (), 1, [])));
    end
  else
    lengths = texts.lengths ();
    letters = char (texts.all ());
  end
  if isempty (lengths)
    cells = cell (0, 1);
  else
    cells = reshape (mat2cell (reshape (letters, 1, []), 1, reshape (lengths, 1, [])), [], 1);
  end
end
