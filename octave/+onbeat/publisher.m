function own = publisher (address)
  % Listens as a ZeroMQ publisher: onbeat message receive plan planner/plan --from tcp://127.0.0.1:5557.
  %
  %   own = onbeat.publisher ('tcp://127.0.0.1:5557');
  %   own.publish ('plan', message.bytes ());              % bytes of a message, or those of a class by onbeat message generate java
  %
  % Identifiers of errors: onbeat:java:no_jar, onbeat:zmq:no_jeromq, onbeat:zmq.
  try
    own = javaMethod ('open', 'onbeat.ZmqPublisher', address);
  catch why
    onbeat.fail (why);
  end
end
