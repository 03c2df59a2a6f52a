#!/bin/sh
# Packs the Debian package libonbeat-dev in target/dist: the C library for the GNU libc, its headers and its pkg-config file.
# usage: dist-library.sh VERSION; dist.sh starts it after it has built the library
set -eu

version=$1
target=$(uname -m)-unknown-linux-gnu
built=target/$target/dist
dist=target/dist

for tool in dpkg-deb dpkg objdump strip; do
    command -v "$tool" >/dev/null 2>&1 || { echo "skipped: libonbeat-dev, since $tool is not installed (dpkg, binutils)"; exit 0; }
done

# musl makes no shared library, so this one is of the system's libc: at least the version whose symbols it needs.
libc=$(objdump -T "$built/libonbeat_c.so" | sed -n 's/.*GLIBC_\([0-9.]*\).*/\1/p' | sort -V | tail -n 1)

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
BUILT="$built" PREFIX=/usr DESTDIR="$root" sh scripts/install.sh library >/dev/null
strip --strip-debug "$root/usr/lib/libonbeat.a"
docs=$root/usr/share/doc/libonbeat-dev
mkdir -p "$root/DEBIAN" "$docs/examples"
cp LICENSE-MIT "$docs/copyright"
cp LICENSE-APACHE "$docs/"
cp examples/level_foot.c "$docs/examples/"
cat >"$root/DEBIAN/control" <<CONTROL
Package: libonbeat-dev
Version: $version-1
Architecture: $(dpkg --print-architecture)
Maintainer: The onbeat authors
Section: libdevel
Priority: optional
Depends: libc6 (>= $libc), libgcc-s1
Installed-Size: $(du -sk "$root/usr" | cut -f1)
Description: C library of onbeat
 A real-time control loop for one's own controller, and messages in shared
 memory: libonbeat.so, libonbeat.a, headers, and onbeat.pc.
CONTROL
dpkg-deb --root-owner-group --build "$root" "$dist/libonbeat-dev_$version-1_$(dpkg --print-architecture).deb"
