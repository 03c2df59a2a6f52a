#!/bin/sh
# Takes the pictures of a walking humanoid in docs, in 64 colours: the live view and the page of the run, both themes, wide
# and narrow.
# usage: live-view-pictures.sh [FOLDER]    (FOLDER is docs by default; ONBEAT=path of the program)
# Needs Node with the viewer's packages, Chromium and pngquant.
set -eu

repository=$(cd "$(dirname "$0")/.." && pwd)
colours=64
folder=$(cd "${1:-$repository/docs}" && pwd)

if ! command -v pngquant >/dev/null 2>&1; then
    echo "pngquant is not installed; run \`apt-get install pngquant\`" >&2
    exit 2
fi
if [ ! -d "$repository/viewer/node_modules" ]; then
    (cd "$repository/viewer" && npm ci --no-audit --no-fund >&2)
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$repository/viewer" && node test/run.mjs live_pictures "$work")
for picture in "$work"/*.png; do
    to=$folder/$(basename "$picture")
    pngquant --force --strip --speed 1 --output "$to" "$colours" "$picture"
    echo "$to: $(wc -c <"$to") bytes"
done
