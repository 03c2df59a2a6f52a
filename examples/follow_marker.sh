#!/bin/sh
# Two instances of Octave that know each other by a channel only: one tracks a marker in the pictures of a camera, the other one turns
# the head of the simulated humanoid after it. Headless; examples/README.md describes it.
# usage: follow_marker.sh [SECONDS [LOG.mcap [SEEN.mat]]]; ONBEAT, NAME, ROBOT, CLASSES in the environment replace the defaults below
set -eu

examples=$(cd "$(dirname "$0")" && pwd)
seconds=${1:-12} log=${2:-} seen=${3:-}
: "${ONBEAT:=onbeat}" "${NAME:=head}" "${ROBOT:=humanoid}" "${CLASSES:=$examples/../java/target/onbeat.jar}"
[ -n "${JAVA_HOME:-}" ] || JAVA_HOME=$(dirname "$(dirname "$(readlink -f "$(command -v java)")")")
export ONBEAT JAVA_HOME

scratch=$(mktemp -d)
children=
end() {
    # In the reverse order: nobody loses whom it reads.
    for child in $children; do kill -TERM "$child" 2>/dev/null || true; done
    for child in $children; do wait "$child" 2>/dev/null || true; done
    rm -rf "$scratch"
}
trap end EXIT
trap 'exit 130' INT TERM

# Ends with a sentence if a process has ended, or if what is waited for has not come within a minute.
await() {
    what=$1 process=$2
    shift 2
    for _ in $(seq 600); do
        if "$@" 2>/dev/null; then return 0; fi
        if ! kill -0 "$process" 2>/dev/null; then break; fi
        sleep 0.1
    done
    echo "follow_marker.sh: $what did not start" >&2
    cat "$scratch"/*.errors >&2
    exit 2
}
has_channel() { "$ONBEAT" message list --json | grep -q "\"$NAME/$1\""; }
has_camera() { "$ONBEAT" camera list --json | grep -q "\"name\":\"$NAME\""; }

"$ONBEAT" camera run test:640x480@30+marker --name "$NAME" >"$scratch/camera.account" 2>"$scratch/camera.errors" &
camera=$! children="$camera"
await "the camera" "$camera" has_camera

"$ONBEAT" robot run "$ROBOT" --trajectory commander --name "$NAME" --no-causes ${ROBOT_OPTIONS:-} --out "$scratch/run" \
    >"$scratch/robot.account" 2>"$scratch/robot.errors" &
robot=$! children="$robot $children"
await "the robot" "$robot" has_channel cycle

octave="octave --quiet --no-window-system"
# The tracker runs longer: a follower without pictures is one that has lost its commander.
$octave "$examples/track_marker.m" "$NAME" $((seconds + 6)) "$CLASSES" $seen >"$scratch/tracker.account" 2>"$scratch/tracker.errors" &
tracker=$! children="$tracker $children"
await "the tracker" "$tracker" has_channel marker

if [ -n "$log" ]; then
    "$ONBEAT" message record "$NAME/marker" "$NAME/cycle" --out "$log" >"$scratch/log.account" 2>"$scratch/log.errors" &
    recorder=$! children="$recorder $children"
fi
if ! $octave "$examples/follow_marker.m" "$NAME" "$seconds" "$CLASSES" 2>"$scratch/follower.errors"; then
    cat "$scratch"/*.errors >&2
    exit 2
fi
if [ -n "$log" ]; then
    kill -TERM "$recorder" && wait "$recorder" || { cat "$scratch/log.errors" >&2; exit 2; }
fi
wait "$tracker" || { cat "$scratch/tracker.errors" >&2; exit 2; }
cat "$scratch/tracker.account"
