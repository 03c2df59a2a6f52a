function number = publish (channel, message, type, file, to, remote)
  % Publishes a struct on a channel of this computer, and on a network; returns the number of the record.
  %
  %   onbeat.publish ('planner/plan', struct ('speed', 0.5), 'planner/msg/Plan', 'planner/msg/Plan.msg');
  %   onbeat.publish ('tracker/marker', struct ('x', 0.1), 'tracker_msgs/msg/Marker', {'float64 x', 'float64 y'});
  %   onbeat.publish ('planner/plan', plan, 'planner/msg/plan_t', 'planner.lcm', 'udpm://239.255.76.67:7667?ttl=1', 'PLAN');
  %   onbeat.publish ('planner/plan', plan, 'planner/msg/Plan', 'planner/msg/Plan.msg', 'ros2://0');
  %
  % The definition is a file, or a cell with its fields. Fields missing in the struct have their default, or are 0 or empty; one that the type does not have is refused. The first call makes the channel by
  % the program onbeat (the variable ONBEAT, else PATH), which ends with this session; `clear all` ends all channels. If the channel has
  % ended, which is an error, the next call makes it again.
  % Identifiers of errors: onbeat:java:no_jar, onbeat:network.
  persistent open_channels
  if isempty (open_channels)
    open_channels = containers.Map ();
  end
  given = {'', '', '', ''};
  if nargin > 2
    given{1} = type;
  end
  if nargin > 3
    given{2} = strjoin (cellstr (file), sprintf ('\n'));
  end
  if nargin > 4
    given{3} = to;
  end
  if nargin > 5
    given{4} = remote;
  end
  key = strjoin ([{channel}, given([1 3 4])], ' ');
  try
    if ~isKey (open_channels, key)
      open_channels(key) = javaMethod ('open', 'onbeat.Publisher', channel, given{:});
    end
    own = open_channels(key);
    number = own.publish (jsonencode (message));
  catch why
    if isKey (open_channels, key)
      own = open_channels(key);
      if own.hasEnded ()
        remove (open_channels, key);
      end
    end
    onbeat.fail (why);
  end
end
