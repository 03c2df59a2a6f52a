function rows = rows (cycles, fields)
  % Chooses fields for reading record by record, one call each: the numbers of the fields in a column.
  %
  %   rows = onbeat.rows (cycles, {'cycle', 'actual_rad'});
  %   row = rows.next (int32 (0));                       % [] if there is none; never waits
  %
  % onbeat.await waits for a record so that Ctrl-C takes effect; onbeat.drain takes many records in one call.
  if ischar (fields)
    fields = {fields};
  end
  rows = cycles.rows (fields);
end
