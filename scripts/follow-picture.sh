#!/bin/sh
# Makes docs/follow-marker.png and prints what docs/camera.md shows: examples/follow_marker.sh, drawn from its log.
# usage: follow-picture.sh [ONBEAT]; needs octave, gnuplot-nox, ghostscript, fonts-freefont-otf, pngquant and Java with Maven
set -eu

cd "$(dirname "$0")/.."
onbeat=$(readlink -f "${1:-target/release/onbeat}")
[ -f java/target/onbeat.jar ] || (cd java && mvn -q package)
[ -n "${JAVA_HOME:-}" ] || JAVA_HOME=$(dirname "$(dirname "$(readlink -f "$(command -v java)")")")
export JAVA_HOME ONBEAT="$onbeat"

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
examples/follow_marker.sh 16 "$out/follow.mcap" "$out/seen.mat"
octave --quiet --no-window-system scripts/follow-picture.m "$out/follow.mcap" "$out/seen.mat" "$out/follow.png" 2>"$out/errors" || { cat "$out/errors" >&2; exit 1; }
if command -v pngquant >/dev/null 2>&1; then pngquant --force --output docs/follow-marker.png 64 "$out/follow.png"; else cp "$out/follow.png" docs/follow-marker.png; fi
