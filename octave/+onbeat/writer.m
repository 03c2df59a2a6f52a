function out = writer (channel, type, fields)
  % Creates a channel of this machine, for records that other programs read by onbeat.open, as the cycles of a robot.
  %
  %   marker = onbeat.writer ('tracker/marker', 'tracker_msgs/msg/Marker', {'float64 x', 'float64 y'});
  %   onbeat.write (marker, struct ('x', 0.1, 'y', 0.2));
  %   marker.close ();
  %
  % Fields are those of a .msg file, a cell for each. The channel ends with close, or with this process. The program onbeat is the
  % one in the variable ONBEAT, else the one in PATH. Identifiers of errors: onbeat:java:no_jar, onbeat:ring:write.
  try
    out = javaMethod ('open', 'onbeat.ChannelWriter', channel, type, strjoin (cellstr (fields), sprintf ('\n')));
  catch why
    onbeat.fail (why);
  end
end
