function jar = install (jar)
  % Puts the jar of onbeat on Java's class path, unless it is there; returns its file.
  %
  %   addpath ('octave');
  %   onbeat.install ();                 % the jar beside this folder, as in the toolbox, else that of the repository
  %   onbeat.install ('/opt/onbeat.jar');
  %
  % Raises onbeat:java:no_jar without a jar.
  if nargin < 1
    here = fileparts (fileparts (mfilename ('fullpath')));
    places = {fullfile(here, 'onbeat.jar'), fullfile(fileparts (here), 'java', 'target', 'onbeat.jar')};
  else
    places = {jar};
  end
  is_there = cellfun (@(place) exist (place, 'file') == 2, places);
  if ~any (is_there)
    error ('onbeat:java:no_jar', 'no jar of onbeat at %s; `mvn package` in the folder java makes it', strjoin (places, ' or '));
  end
  jar = places{find(is_there, 1)};
  known = javaclasspath ('-all');
  if ~iscell (known)
    known = {known};
  end
  if ~any (strcmp (known, jar))
    javaaddpath (jar);
  end
end
