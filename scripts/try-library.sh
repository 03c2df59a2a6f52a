#!/bin/sh
# Runs inside a root with a C compiler, started by test-dist.sh: what somebody does who writes a controller in C.
set -eu

export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
cd /try

# shellcheck source=scripts/try-verdict.sh
. /try/try-verdict.sh

if ! apt-get install -y -qq --no-install-recommends ./onbeat_*.deb ./libonbeat-dev_*.deb >/try/said 2>&1; then
    # An older release has an older libc than the machine that built the library.
    grep -q libc6 /try/said || { cat /try/said; fail "onbeat and libonbeat-dev do not install together"; }
    echo "skipped: libonbeat-dev does not install here, since its libc is newer"
    exit 0
fi

mkdir /try/example
cd /try/example
cp /usr/share/doc/libonbeat-dev/examples/level_foot.c .
onbeat message generate c onbeat_msgs/msg/Cycle >cycle.h
compile="cc -std=c11 -O2 -Wall -Wextra -Werror -I. level_foot.c"
# shellcheck disable=SC2046,SC2086 # several words
$compile $(pkg-config --cflags --libs onbeat) -lm -o shared || fail "the C example does not build with libonbeat.so"
# shellcheck disable=SC2046,SC2086
$compile $(pkg-config --cflags onbeat) -l:libonbeat.a $(pkg-config --static --libs onbeat | sed 's/-lonbeat//') -lm -o static ||
    fail "the C example does not build with libonbeat.a"
ldd shared | grep -q libonbeat.so.0 || fail "the C example does not use libonbeat.so.0"
if ldd static | grep -q libonbeat; then fail "libonbeat.a was not used"; fi

# A directory of its own: /run may be that of the host, and with it the names of robots.
robot=try-package-$$
export ONBEAT_RUNTIME_DIR=/try/shared
onbeat robot run humanoid --trajectory commander --period 5ms --name "$robot" --for 60s --no-causes --out /try/robot >/try/out 2>&1 &
for wait in $(seq 300); do
    [ -e "$ONBEAT_RUNTIME_DIR/$robot:cycle" ] && break
    kill -0 $! 2>/dev/null && [ "$wait" -lt 300 ] || { cat /try/out; fail "the robot does not publish its cycles"; }
    sleep 0.1
done
for program in shared static; do
    "./$program" "$robot" 2 >/try/said 2>&1 || { cat /try/said; fail "the C example with the $program library does not run"; }
    echo "C example, $program library: $(tail -n 1 /try/said)"
done
kill -INT $!
wait $! || true
echo "the C example builds with libonbeat-dev, shared and static, and commands a robot"
