function await (cycles, ms)
  % Waits until a record can be read, at most ms milliseconds, in parts: Ctrl-C takes effect between two of them.
  most = 250;
  try
    while ~cycles.await (int32 (min (ms, most))) && ms > most
      ms = ms - most;
    end
  catch why
    onbeat.fail (why);
  end
end
