#!/bin/sh
# Takes the README's picture of a report: the first screen of the page of a run directory, light, 1,400 px wide, in 64 colours.
# usage: report-picture.sh RUN [PICTURE]    (PICTURE is docs/report.png by default; ONBEAT=path of the program)
# Needs Node with the viewer's packages, Chromium and pngquant.
set -eu

repository=$(cd "$(dirname "$0")/.." && pwd)
onbeat=${ONBEAT:-$repository/target/release/onbeat}
colours=64

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
    echo "usage: $0 RUN [PICTURE]" >&2
    exit 2
fi
run=$1
picture=${2:-$repository/docs/report.png}

if [ ! -x "$onbeat" ]; then
    echo "$onbeat is not a program; run \`cargo build --release\`, or set ONBEAT to the path of onbeat" >&2
    exit 2
fi
if ! command -v pngquant >/dev/null 2>&1; then
    echo "pngquant is not installed; run \`apt-get install pngquant\`" >&2
    exit 2
fi
if [ ! -d "$repository/viewer/node_modules" ]; then
    (cd "$repository/viewer" && npm ci --no-audit --no-fund >&2)
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The exit status is the verdict of the run; without a page it is an error, which is printed.
"$onbeat" report "$run" --html "$work/report.html" >/dev/null || [ -f "$work/report.html" ] || exit 2
(cd "$repository/viewer" && node test/run.mjs picture "$work/report.html" "$work/picture.png" >/dev/null)
pngquant --force --strip --speed 1 --output "$picture" "$colours" "$work/picture.png"
echo "$picture: $(wc -c <"$picture") bytes"
