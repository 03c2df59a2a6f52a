function [img, n, t, times] = picture (cam, ms, in_order)
  % Takes a picture for onbeat.frame and onbeat.each.
  persistent is_octave copies
  if isempty (is_octave)
    is_octave = exist ('OCTAVE_VERSION', 'builtin') > 0;
    % Compiled by onbeat.build, it copies once; otherwise the picture goes through an array of Java.
    copies = exist ('onbeat_frame_copy', 'file') == 3;
  end
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
    if copies
      img = compiled (cam, in_order);
      is_taken = ~isempty (img);
    elseif in_order
      is_taken = cam.next (int32 (0));
    else
      is_taken = cam.newest (int32 (0));
    end
    if ~is_taken
      return;
    end
    if copies
      % It is there.
    elseif is_octave
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

function img = compiled (cam, in_order)
  % A picture that the camera overwrites meanwhile is counted as passed over.
  img = [];
  for k = 1:3
    n = cam.claim (in_order);
    if n == 0
      return;
    end
    img = onbeat_frame_copy (char (cam.name ()), double (cam.generation ()), double (n));
    if ~isempty (img)
      return;
    end
    cam.overtaken ();
  end
end
