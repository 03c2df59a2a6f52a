#!/bin/sh
# Tries `cargo install --path`, and what `make dist` made in a bare root of another Debian release: install, bench to a verdict,
# uninstall, nothing left.
# usage: test-dist.sh [release]...; trixie unless given
set -eu

dist=target/dist
[ $# -gt 0 ] || set -- trixie

# `cargo install --path`, with what `make build` has built.
installed=$(mktemp -d)
"${CARGO:-cargo}" install --quiet --locked --path crates/onbeat-cli --target-dir target --root "$installed"
"$installed/bin/onbeat" --version
rm -rf "$installed"

skip() {
    echo "skipped: $1"
    exit 0
}

[ "$(id -u)" = 0 ] || skip "making a root and entering it need root"
command -v mmdebstrap >/dev/null 2>&1 || skip "mmdebstrap is not installed: apt-get install mmdebstrap"
unshare --mount --pid --fork true 2>/dev/null || skip "namespaces are not permitted here"
[ -n "$(find "$dist" -name '*.deb' 2>/dev/null)" ] || { echo "$dist holds no package; run make dist" >&2; exit 2; }

here=$(cd "$(dirname "$0")" && pwd)

# Makes a bare root with further packages; false, with the reason, where that is not possible.
make_root() { # RELEASE PACKAGES
    root=$(mktemp -d)
    # shellcheck disable=SC2064 # the root of now
    trap "rm -rf '$root'" EXIT
    # `apt` is the smallest root in which `apt-get install ./onbeat.deb` works.
    if ! mmdebstrap --quiet --variant=apt --include="$2" "$1" "$root" >"$root.log" 2>&1; then
        echo "skipped: no root of Debian $1 with $2 can be made: $(tail -n 1 "$root.log")"
        rm -rf "$root" "$root.log"
        return 1
    fi
    rm -f "$root.log"
}

# Runs a script of this folder in the root, and removes the root.
run_in_root() { # SCRIPT
    mkdir -p "$root/try"
    cp "$dist"/*.deb "$dist"/*.tar.gz "$here/$1" "$root/try/"
    # A mount and process namespace of its own: what is mounted and started for the try ends with it.
    unshare --mount --pid --fork --kill-child sh -eu -c '
        mount --rbind /dev "$1/dev"
        mount -t proc proc "$1/proc"
        mount --rbind /sys "$1/sys"
        chroot "$1" /bin/sh -eu "/try/$2"' sh "$root" "$1"
    rm -rf "$root"
    trap - EXIT
}

for release in "$@"; do
    if make_root "$release" libc-bin; then
        run_in_root try-package.sh
        echo "Debian $release: the package installs, measures, and leaves nothing"
    fi
    if [ -n "$(find "$dist" -name 'libonbeat-dev_*.deb')" ] && make_root "$release" gcc,libc6-dev,pkg-config; then
        run_in_root try-library.sh
    fi
    if make_root "$release" octave,default-jre-headless; then
        run_in_root try-camera.sh
        echo "Debian $release: Octave reads a camera from the package's own paths"
    fi
done
