function messages = subscribe (address, name, type, file)
  % Subscribes to a channel of a ZeroMQ publisher: onbeat message send walker/cycle --to tcp://127.0.0.1:5556.
  %
  %   javaaddpath ('java/target/dependency/jeromq-0.6.0.jar');
  %   system ('onbeat message type walker/cycle > Cycle.msg');                     % where the robot runs
  %   cycles = onbeat.subscribe ('tcp://127.0.0.1:5556', 'walker/cycle', 'onbeat_msgs/msg/Cycle', 'Cycle.msg');
  %
  % onbeat.next, onbeat.drain, onbeat.latest and onbeat.stats read it; what is sent before the publisher knows of it is not
  % received. Identifiers of errors: onbeat:java:no_jar, onbeat:zmq:no_jeromq, onbeat:zmq, onbeat:type.
  try
    messages = javaMethod ('open', 'onbeat.ZmqSubscription', address, name, type, fileread (file));
  catch why
    onbeat.fail (why);
  end
end
