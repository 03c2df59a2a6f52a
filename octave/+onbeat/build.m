function build ()
  % Compiles the function that copies pictures once, beside this package; onbeat.frame uses it from the next start on.
  %
  % In Octave it needs mkoctfile (Debian: octave-dev), in MATLAB a C compiler that mex knows. Without it pictures are the same, and
  % cost a copy more.
  folder = fileparts (fileparts (mfilename ('fullpath')));
  sources = fullfile (folder, 'src');
  headers = fullfile (fileparts (folder), 'include');
  if ~exist (fullfile (headers, 'onbeat_frames.h'), 'file')
    headers = sources;
  end
  if exist ('OCTAVE_VERSION', 'builtin')
    [said, status] = mkoctfile ('-O2', ['-I' headers], '-o', fullfile (folder, 'onbeat_frame_copy.oct'), ...
                                fullfile (sources, 'onbeat_frame_copy.cc'));
    if status ~= 0
      error ('onbeat:build', 'mkoctfile has not compiled onbeat_frame_copy.cc: %s', said);
    end
  else
    mex (['-I' headers], '-R2018a', '-outdir', folder, fullfile (sources, 'onbeat_frame_copy.c'));
  end
end
