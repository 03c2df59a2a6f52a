#!/bin/sh
# Runs inside a bare root, started by test-dist.sh: the archive's binary first, then the package, then that of the C library.
set -eu

export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
cd /try

files() {
    # What apt and dpkg keep of their own, and what is mounted, is not the package's.
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /try -o -path /var/log -o -path /var/cache \
        -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /tmp \) -prune -o -print | sort
}

fail() {
    echo "failed: $1" >&2
    exit 1
}

verdict() {
    # A bare machine may hold the limit or break it; either is a verdict. No cell shields a CPU: this is somebody's machine.
    status=0
    "$@" bench --for 10s --tunings none,P --loads idle,cpu=50% --limit 5ms --at 90 --out /try/runs >/try/out 2>&1 || status=$?
    grep -qE '(PASS|FAIL|INCONCLUSIVE)' /try/out && [ "$status" -le 2 ] || { cat /try/out; fail "$* bench gave no verdict"; }
    grep -E '^verdict' /try/out
    [ -s /try/runs/latest/report.html ] || fail "no report"
    rm -rf /try/runs
}

files >/try/before

tar -xzf ./*.tar.gz
./onbeat-*-linux/onbeat --version
verdict ./onbeat-*-linux/onbeat
rm -rf /var/lib/onbeat

apt-get install -y -qq --no-install-recommends ./onbeat_*.deb >/try/apt 2>&1 || { cat /try/apt; fail "the package does not install"; }
onbeat --version
verdict onbeat
for file in /usr/bin/onbeat-gateway /usr/share/man/man1/onbeat-bench.1.gz /usr/share/bash-completion/completions/onbeat \
    /usr/share/zsh/vendor-completions/_onbeat /usr/share/fish/vendor_completions.d/onbeat.fish \
    /usr/share/doc/onbeat/copyright; do
    # A bare root may be configured without manuals and documents; dpkg lists them all the same.
    dpkg -L onbeat | grep -qx "$file" || fail "the package has no $file"
done
dpkg-query -W -f 'Package: ${Package} ${Version}\nDepends: ${Depends}\nRecommends: ${Recommends}\nSize: ${Installed-Size} KiB\n' onbeat

apt-get remove -y -qq onbeat >/try/apt 2>&1 || { cat /try/apt; fail "the package does not uninstall"; }
files >/try/after
diff /try/before /try/after || fail "the package left these files behind"

library=$(find . -name 'libonbeat-dev_*.deb')
[ -n "$library" ] || { echo "skipped: libonbeat-dev was not built"; exit 0; }
# An older release has an older libc than the machine that built it: apt refuses, with that as its reason.
if ! apt-get install -y -qq --no-install-recommends "$library" >/try/apt 2>&1; then
    grep -q libc6 /try/apt || { cat /try/apt; fail "libonbeat-dev does not install"; }
    echo "skipped: libonbeat-dev does not install here, since its libc is newer"
    exit 0
fi
apt-get purge -y -qq libonbeat-dev >/try/apt 2>&1 || { cat /try/apt; fail "libonbeat-dev does not uninstall"; }
files >/try/after
diff /try/before /try/after || fail "libonbeat-dev left these files behind"

# The rest as somebody who writes a controller does it; the root is thrown away behind it.
apt-get install -y -qq --no-install-recommends "$library" ./onbeat_*.deb gcc libc6-dev pkg-config >/try/apt 2>&1 ||
    { cat /try/apt; fail "a C compiler and the packages do not install together"; }
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

# /dev is that of the host, and with it the names of robots.
robot=try-package-$$
onbeat robot run humanoid --trajectory commander --period 5ms --name "$robot" --for 60s --no-causes --out /try/robot >/try/out 2>&1 &
for wait in $(seq 300); do
    [ -e "/dev/shm/onbeat:$robot:cycle" ] && break
    kill -0 $! 2>/dev/null && [ "$wait" -lt 300 ] || { cat /try/out; fail "the robot does not publish its cycles"; }
    sleep 0.1
done
for program in shared static; do
    "./$program" "$robot" 2 >/try/said 2>&1 || { cat /try/said; fail "the C example with the $program library does not run"; }
    echo "C example, $program library: $(tail -n 1 /try/said)"
done
kill -INT $!
wait $! || true
