function [values, at, numbers, lost] = drain (cycles, fields, ms)
  % Returns fields of all records since the last call as one matrix: a row for each record.
  %
  %   [M, at] = onbeat.drain (cycles, {'wakeup_latency_ns', 'actual_rad'}, 1000);
  %
  % Waits up to ms milliseconds for the first record; 0 never waits. `at` are times in s (CLOCK_MONOTONIC), `numbers` the
  % numbers of the records, `lost` how many were lost before the first one.
  if ischar (fields)
    fields = {fields};
  end
  if nargin > 2 && ms > 0
    onbeat.await (cycles, ms);
  end
  try
    table = cycles.drain (fields, int32 (0));
  catch why
    onbeat.fail (why);
  end
  values = reshape (table.values (), table.rows (), table.columns ());
  at = table.at ();
  numbers = table.numbers ();
  lost = table.lost ();
end
