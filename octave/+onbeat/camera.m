function cam = camera (name)
  % Opens a running camera, such as 'left', for its pictures from now on.
  %
  %   javaaddpath ('java/target/onbeat.jar');
  %   addpath ('octave');
  %   cam = onbeat.camera ('left');                 % onbeat camera run SOURCE --name left
  %   [img, n, t] = onbeat.frame (cam, 100);
  %
  % onbeat.frame takes the newest picture, onbeat.each one after the other. No lock is held between calls or within one: Ctrl-C at
  % any line leaves nothing. Identifiers of errors: onbeat:java:no_jar, onbeat:camera:no_camera, onbeat:camera:ended,
  % onbeat:camera:not_frames, onbeat:ring:refused.
  try
    cam = javaMethod ('open', 'onbeat.Frames', name);
  catch why
    onbeat.fail (why);
  end
end
