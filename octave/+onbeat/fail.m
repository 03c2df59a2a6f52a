function fail (why)
  % Raises the error of a call of the Java client again, with its identifier.
  found = regexp (why.message, '(onbeat:[a-z_:]*[a-z_]): ([^\n]*)', 'tokens', 'once');
  if ~isempty (found)
    error (found{1}, '%s', found{2});
  end
  if ~isempty (regexp (why.message, 'ClassNotFound|NoClassDefFound|class name', 'once'))
    error ('onbeat:java:no_jar', 'the jar of onbeat is not in the class path; call onbeat.install () first');
  end
  rethrow (why);
end
