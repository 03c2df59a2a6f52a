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

function row = row_of (array, place)
  row = int8 (javaMethod ('get', 'java.lang.reflect.Array', array, place - 1));
end

own = javaObject ('onbeat.PictureWays', height, width, channels);
times = [];
if has_arrays
  for k = 1:min (rounds, 3) + 1
    t = tic ();
    % Octave converts arrays of one dimension, so that the others are loops. Of a picture that would take a minute, 16 rows are
    % measured, and all take as many times longer.
    part = height;
    if channels > 1, part = 16; end
    img = zeros (height, width, channels, 'uint8');
    if channels == 1
      data = own.grayArray ();
      for y = 1:height
        img(y, :) = typecast (row_of (data, y), 'uint8');
      end
    else
      data = own.array ();
      for y = 1:part
        row = javaMethod ('get', 'java.lang.reflect.Array', data, y - 1);
        for x = 1:width
          img(y, x, :) = typecast (row_of (row, x), 'uint8');
        end
      end
    end
    times(k) = toc (t) * height / part;
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
