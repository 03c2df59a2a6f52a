#!/bin/sh
# Tries what `make dist` made in a bare root of another Debian release: install, bench to a verdict, uninstall, nothing left.
# usage: test-dist.sh [release]...; trixie unless given
set -eu

dist=target/dist
[ $# -gt 0 ] || set -- trixie

skip() {
    echo "skipped: $1"
    exit 0
}

[ "$(id -u)" = 0 ] || skip "making a root and entering it need root"
command -v mmdebstrap >/dev/null 2>&1 || skip "mmdebstrap is not installed: apt-get install mmdebstrap"
unshare --mount --pid --fork true 2>/dev/null || skip "namespaces are not permitted here"
[ -n "$(find "$dist" -name '*.deb' 2>/dev/null)" ] || { echo "$dist holds no package; run make dist" >&2; exit 2; }

here=$(cd "$(dirname "$0")" && pwd)
for release in "$@"; do
    root=$(mktemp -d)
    # shellcheck disable=SC2064 # the root of now
    trap "rm -rf '$root'" EXIT
    # `apt` is the smallest root in which `apt-get install ./onbeat.deb` works.
    if ! mmdebstrap --quiet --variant=apt --include=libc-bin "$release" "$root" >"$root.log" 2>&1; then
        echo "skipped: no root of Debian $release can be made: $(tail -n 1 "$root.log")"
        rm -rf "$root" "$root.log"
        continue
    fi
    rm -f "$root.log"

    mkdir -p "$root/try"
    cp "$dist"/*.deb "$dist"/*.tar.gz "$here/try-package.sh" "$root/try/"
    # A mount and process namespace of its own: what is mounted and started for the try ends with it.
    unshare --mount --pid --fork --kill-child sh -eu -c '
        mount --rbind /dev "$1/dev"
        mount -t proc proc "$1/proc"
        mount --rbind /sys "$1/sys"
        chroot "$1" /bin/sh -eu /try/try-package.sh' sh "$root"
    echo "Debian $release: the package installs, measures, and leaves nothing"
    rm -rf "$root"
    trap - EXIT
done
