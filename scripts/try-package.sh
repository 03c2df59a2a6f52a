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

# shellcheck source=scripts/try-verdict.sh
. /try/try-verdict.sh

files >/try/before

tar -xzf ./onbeat-*-linux.tar.gz
./onbeat-*-linux/onbeat --version
for file in share/man/onbeat-bench.1 share/completions/onbeat.bash share/completions/_onbeat share/completions/onbeat.fish; do
    [ -s ./onbeat-*-linux/$file ] || fail "the archive has no $file"
done
verdict ./onbeat-*-linux/onbeat
rm -rf /var/lib/onbeat

apt-get install -y -qq --no-install-recommends ./onbeat_*.deb >/try/said 2>&1 || { cat /try/said; fail "the package does not install"; }
onbeat --version
apt-get purge -y -qq onbeat >/try/said 2>&1 || { cat /try/said; fail "the package does not uninstall"; }

# From the repository, as from a server: apt checks its signature.
cp apt/onbeat-archive-keyring.gpg /usr/share/keyrings/
echo "deb [signed-by=/usr/share/keyrings/onbeat-archive-keyring.gpg] file:///try/apt ./" >/etc/apt/sources.list.d/onbeat.list
apt-get update -qq -o Dir::Etc::SourceList=/dev/null -o APT::Get::List-Cleanup=0 >/try/said 2>&1 || { cat /try/said; fail "apt does not accept the repository"; }
apt-get install -y -qq --no-install-recommends onbeat >/try/said 2>&1 || { cat /try/said; fail "the package does not install from the repository"; }
apt-cache policy onbeat | grep -q 'file:/try/apt' || fail "apt does not know where onbeat is from"
verdict onbeat
rm /usr/share/keyrings/onbeat-archive-keyring.gpg /etc/apt/sources.list.d/onbeat.list
for file in /usr/bin/onbeat-gateway /usr/bin/onbeat-camera /usr/bin/onbeat-fleet /usr/lib/onbeat/onbeat-guest /usr/share/man/man1/onbeat-bench.1.gz /usr/share/bash-completion/completions/onbeat \
    /usr/share/zsh/vendor-completions/_onbeat /usr/share/fish/vendor_completions.d/onbeat.fish \
    /usr/share/onbeat/onbeat.jar /usr/share/onbeat/octave/+onbeat/frame.m /usr/share/onbeat/octave/src/onbeat_frame_copy.cc \
    /usr/share/onbeat/octave/src/onbeat_frames.h /usr/share/onbeat/python/onbeat/camera.py \
    /usr/share/onbeat/python/onbeat/fleet/sql/worst.sql /usr/lib/systemd/system/onbeat-fleet.timer \
    /usr/share/doc/onbeat/copyright; do
    # A bare root may be configured without manuals and documents; dpkg lists them all the same.
    dpkg -L onbeat | grep -qx "$file" || fail "the package has no $file"
done
dpkg-query -W -f 'Package: ${Package} ${Version}\nDepends: ${Depends}\nRecommends: ${Recommends}\nSize: ${Installed-Size} KiB\n' onbeat

# What undoes settings that hold after each boot stays until the package is purged.
mkdir -p /var/lib/onbeat
echo '{}' >/var/lib/onbeat/persisted.json
apt-get remove -y -qq onbeat >/try/said 2>&1 || { cat /try/said; fail "the package does not uninstall"; }
[ -e /var/lib/onbeat/persisted.json ] || fail "the record of persisted settings went with the package"
grep -q 'tune persist --remove' /try/said || { cat /try/said; fail "the removal does not name the settings that stay"; }
apt-get purge -y -qq onbeat >/try/said 2>&1 || { cat /try/said; fail "the package cannot be purged"; }
files >/try/after
diff /try/before /try/after || fail "the package left these files behind"

library=$(find . -maxdepth 1 -name 'libonbeat-dev_*.deb')
[ -n "$library" ] || { echo "skipped: libonbeat-dev was not built"; exit 0; }
# An older release has an older libc than the machine that built it: apt refuses, with that as its reason.
if ! apt-get install -y -qq --no-install-recommends "$library" >/try/said 2>&1; then
    grep -q libc6 /try/said || { cat /try/said; fail "libonbeat-dev does not install"; }
    echo "skipped: libonbeat-dev does not install here, since its libc is newer"
    exit 0
fi
apt-get purge -y -qq libonbeat-dev >/try/said 2>&1 || { cat /try/said; fail "libonbeat-dev does not uninstall"; }
files >/try/after
diff /try/before /try/after || fail "libonbeat-dev left these files behind"
