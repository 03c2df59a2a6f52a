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
    # A bare machine may hold the limit, break it, or leave it undecided in ten seconds: 0, 1 and 3 are verdicts. No cell shields a CPU: this is somebody's machine.
    status=0
    "$@" bench --for 10s --tunings none,P --loads idle,cpu=50% --limit 5ms --at 90 --out /try/runs >/try/out 2>&1 || status=$?
    grep -qE '(PASS|FAIL|INCONCLUSIVE)' /try/out && [ "$status" -le 3 ] && [ "$status" != 2 ] || { cat /try/out; fail "$* bench gave no verdict"; }
    grep -E '^verdict' /try/out
    [ -s /try/runs/latest/report.html ] || fail "no report"
    rm -rf /try/runs
}

files >/try/before

tar -xzf ./*.tar.gz
./onbeat-*-linux/onbeat --version
for file in share/man/onbeat-bench.1 share/completions/onbeat.bash share/completions/_onbeat share/completions/onbeat.fish; do
    [ -s ./onbeat-*-linux/$file ] || fail "the archive has no $file"
done
verdict ./onbeat-*-linux/onbeat
rm -rf /var/lib/onbeat

apt-get install -y -qq --no-install-recommends ./onbeat_*.deb >/try/apt 2>&1 || { cat /try/apt; fail "the package does not install"; }
onbeat --version
verdict onbeat
for file in /usr/bin/onbeat-gateway /usr/bin/onbeat-camera /usr/bin/onbeat-fleet /usr/share/man/man1/onbeat-bench.1.gz /usr/share/bash-completion/completions/onbeat \
    /usr/share/zsh/vendor-completions/_onbeat /usr/share/fish/vendor_completions.d/onbeat.fish \
    /usr/share/onbeat/onbeat.jar /usr/share/onbeat/octave/+onbeat/frame.m /usr/share/onbeat/octave/src/onbeat_frame_copy.cc \
    /usr/share/onbeat/octave/src/onbeat_frames.h /usr/share/onbeat/python/onbeat/camera.py \
    /usr/share/onbeat/python/onbeat/fleet/sql/worst.sql /usr/lib/systemd/system/onbeat-fleet.timer \
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
