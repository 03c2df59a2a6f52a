% The ways of the article "Streaming HD Video in Real-Time" (2017), from Octave; a line for each with times in ms.
words = strsplit (getenv ('ONBEAT_BENCH'), char (10));
[camera, folder] = deal (words{1:2});
numbers = cellfun (@str2double, words(3:7));
[width, height, channels, rounds, has_arrays] = deal (numbers(1), numbers(2), numbers(3), numbers(4), numbers(5));
jar = fullfile (folder, 'onbeat.jar');
if ~exist (jar, 'file'), jar = fullfile (folder, 'java/target/onbeat.jar'); end
javaaddpath (jar);
addpath (fullfile (folder, 'octave'));
java_matrix_autoconversion (true);

function report (name, times)
  printf ('%s%s\n', name, sprintf (' %.4f', 1e3 * times(2:end)));
end

own = javaObject ('onbeat.PictureWays', height, width, channels);
times = [];
if has_arrays
  for k = 1:min (rounds, 3) + 1
    t = tic ();
    if channels == 1
      data = own.grayArray ();
      img = reshape (typecast (data(:), 'uint8'), height, width);
    else
      data = own.array ();
      img = reshape (typecast (int8 (data(:)), 'uint8'), height, width, channels);
    end
    times(k) = toc (t);
    if times(k) > 5, times(k + 1) = times(k); break; end
  end
  report ('array', times);
end

file = [tempname('/dev/shm') '.jpg'];
times = [];
for k = 1:min (rounds, 10) + 1
  t = tic ();
  data = own.jpeg ();
  id = fopen (file, 'w'); fwrite (id, data, 'int8'); fclose (id);
  img = imread (file);
  times(k) = toc (t);
end
delete (file);
report ('jpeg', times);

times = [];
for k = 1:rounds + 1
  t = tic ();
  data = typecast (own.rows (), 'uint8');
  if channels == 1
    img = transpose (reshape (data, width, height));
  else
    pixels = reshape (data, 3, width, height);
    img = cat (3, transpose (reshape (pixels(3, :, :), width, height)), transpose (reshape (pixels(2, :, :), width, height)), ...
               transpose (reshape (pixels(1, :, :), width, height)));
  end
  times(k) = toc (t);
end
report ('rows', times);

times = [];
for k = 1:rounds + 1
  t = tic ();
  img = reshape (typecast (own.columns (), 'uint8'), height, width, channels);
  times(k) = toc (t);
end
report ('columns', times);

% The ring's own file: 2 MiB, then the slots.
cam = onbeat.camera (camera);
name = char (cam.file ());
id = fopen (name);
slot = ceil (width * height * channels / 2^21) * 2^21;
times = [];
for k = 1:rounds + 1
  cam.await (int32 (5000));
  n = double (cam.claim (false));
  t = tic ();
  fseek (id, 2^21 + mod (n, 4) * slot, 'bof');
  img = reshape (fread (id, width * height * channels, 'uint8=>uint8'), height, width, channels);
  times(k) = toc (t);
end
fclose (id);
report ('shared', times);

times = [];
for k = 1:rounds + 1
  cam.await (int32 (5000));
  pause (0.02);                                          % as a program that is at work meanwhile
  t = tic ();
  img = onbeat.frame (cam, 0);
  times(k) = toc (t);
  assert (size (img, 1), height);
end
if exist ('onbeat_frame_copy', 'file') == 3, report ('compiled', times); else, report ('onbeat', times); end
