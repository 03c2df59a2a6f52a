function cycles = open (channel)
  % Opens a channel of a running robot or bus, such as 'walker/cycle', for records from now on.
  %
  %   javaaddpath ('java/target/onbeat.jar');
  %   addpath ('octave');
  %   cycles = onbeat.open ('walker/cycle');
  %
  % onbeat.next, onbeat.drain, onbeat.latest and onbeat.stats read it. Identifiers of errors:
  % onbeat:java:no_jar, onbeat:ring:no_channel, onbeat:ring:not_a_ring, onbeat:ring:refused,
  % onbeat:ring:ended, onbeat:type.
  try
    cycles = javaMethod ('open', 'onbeat.Ring', channel);
  catch why
    onbeat.fail (why);
  end
end
