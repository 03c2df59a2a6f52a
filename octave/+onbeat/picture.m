function [img, n, t, times] = picture (cam, ms, in_order)
  % Takes a picture for onbeat.frame and onbeat.each.
  most = 250;
  img = [];
  n = 0;
  t = 0;
  times = zeros (1, 4);
  try
    % In parts: Ctrl-C takes effect between two of them.
    while ~cam.await (int32 (min (ms, most)))
      if ms <= most
        return;
      end
      ms = ms - most;
    end
    if in_order
      is_taken = cam.next (int32 (0));
    else
      is_taken = cam.newest (int32 (0));
    end
    if ~is_taken
      return;
    end
    if exist ('OCTAVE_VERSION', 'builtin')
      java_matrix_autoconversion (true, 'local');
      img = cam.matrix ();
    else
      size_of = double (cam.size ());
      img = reshape (typecast (cam.pixels (), 'uint8'), size_of(:)');
    end
    n = cam.number ();
    times = double (cam.times ())';
    t = times(1);
  catch why
    onbeat.fail (why);
  end
end
