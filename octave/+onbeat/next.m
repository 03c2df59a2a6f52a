function m = next (cycles, ms)
  % Returns the next record as a struct, or [] after ms milliseconds; 0 never waits.
  %
  % Numbers are in columns. `number` is the number of the record, `at` its time in s (CLOCK_MONOTONIC).
  if nargin > 1 && ms > 0
    onbeat.await (cycles, ms);
  end
  try
    m = onbeat.to_struct (cycles.next (int32 (0)));
  catch why
    onbeat.fail (why);
  end
end
