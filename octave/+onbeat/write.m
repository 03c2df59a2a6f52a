function write (out, message)
  % Publishes a struct on a channel of onbeat.writer. Fields that it does not have are 0 or empty.
  %
  % Raises onbeat:type if an earlier record did not fit its type, onbeat:ring:write if the channel has ended.
  try
    out.write (jsonencode (message));
  catch why
    onbeat.fail (why);
  end
end
