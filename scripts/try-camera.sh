#!/bin/sh
# Runs inside a bare root with Octave and Java, started by test-dist.sh: the package, and eight lines of Octave from its own paths.
set -eu

export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
cd /try

apt-get install -y -qq --no-install-recommends ./onbeat_*.deb >/try/said 2>&1 || { cat /try/said; exit 1; }
JAVA_HOME=$(dirname "$(dirname "$(readlink -f /usr/bin/java)")")
export JAVA_HOME
onbeat camera run test:1920x1080@30 --name left >/try/account 2>/try/camera &
camera=$!
trap 'kill "$camera" 2>/dev/null || true' EXIT
for _ in $(seq 100); do
    onbeat camera list --json 2>/dev/null | grep -q '"name":"left"' && break
    sleep 0.1
done

cat >/try/eight.m <<'OCTAVE'
javaaddpath ('/usr/share/onbeat/onbeat.jar');
addpath ('/usr/share/onbeat/octave');
cam = onbeat.camera ('left');
for k = 1:30
  [img, n, t] = onbeat.frame (cam, 2000); numbers(k) = n;
  assert (size (img), [1080 1920 3]); assert (class (img), 'uint8');
end
assert (all (diff (numbers) > 0)); printf ('30 pictures in order, from %d to %d\n', numbers(1), numbers(end));
OCTAVE
octave-cli --quiet /try/eight.m
kill -INT "$camera"
wait "$camera"
cat /try/account
