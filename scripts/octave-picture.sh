#!/bin/sh
# Makes docs/guide/octave.png and prints the output that docs/guide/octave.md shows: a knee of the simulated humanoid, commanded from Octave.
# usage: octave-picture.sh [ONBEAT]; needs octave, gnuplot-nox, ghostscript, fonts-freefont-otf, pngquant and Java with Maven
set -eu

cd "$(dirname "$0")/.."
onbeat=${1:-target/release/onbeat}
[ -f java/target/onbeat.jar ] || (cd java && mvn -q package)
[ -n "${JAVA_HOME:-}" ] || JAVA_HOME=$(dirname "$(dirname "$(readlink -f "$(command -v java)")")")
export JAVA_HOME ONBEAT="$onbeat"

out=$(mktemp -d)
"$onbeat" robot run humanoid --trajectory commander --name guide --for 30s --no-causes --out "$out/run" >"$out/robot" 2>&1 &
robot=$!
trap 'kill "$robot" 2>/dev/null || true; rm -rf "$out"' EXIT
until "$onbeat" message list --json 2>/dev/null | grep -q guide/cycle; do sleep 0.1; done
sleep 4 # The drives are enabled, and the trajectory is faded in.

octave --quiet --no-window-system examples/knee.m guide "$out/knee.png" 2>"$out/errors" || { cat "$out/errors" >&2; exit 1; }
if command -v pngquant >/dev/null 2>&1; then pngquant --force --output docs/guide/octave.png 32 "$out/knee.png"; else cp "$out/knee.png" docs/guide/octave.png; fi
