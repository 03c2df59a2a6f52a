function m = latest (cycles)
  % Returns the newest record as a struct, or [] if there is none; those before it are passed over.
  try
    m = onbeat.to_struct (cycles.latest ());
  catch why
    onbeat.fail (why);
  end
end
