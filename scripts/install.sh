#!/bin/sh
# Installs the C library, its headers and its pkg-config file, and with `all` the program, its man pages and completions too.
# usage: install.sh library|all; variables PREFIX (/usr/local), DESTDIR, PROFILE (release); BUILT, a folder with what is built already
set -eu

cargo=${CARGO:-cargo}
prefix=${PREFIX:-/usr/local}
to=${DESTDIR:-}$prefix
profile=${PROFILE:-release}
what=${1:-all}

case $what in
    library) packages="-p onbeat-c" ;;
    all) packages="-p onbeat-c -p onbeat-cli -p onbeat-gateway -p onbeat-camera -p onbeat-fleet" ;;
    *) echo "usage: $0 library|all" >&2; exit 2 ;;
esac

cd "$(dirname "$0")/.."
folder=$profile
case $profile in dev | test) folder=debug ;; esac
built=${BUILT:-${CARGO_TARGET_DIR:-target}/$folder}
# shellcheck disable=SC2086 # several words
[ -n "${BUILT:-}" ] || "$cargo" build --locked --profile "$profile" $packages
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)

put() { # MODE FILE FOLDER [NAME]
    mkdir -p "$to/$3"
    install -m "$1" "$2" "$to/$3/${4:-$(basename "$2")}"
}

for header in include/onbeat.h include/onbeat_ring.h include/onbeat_frames.h include/onbeat_control.h include/onbeat_net.h; do
    put 644 "$header" include
done
put 644 "$built/libonbeat_c.a" lib libonbeat.a
put 755 "$built/libonbeat_c.so" lib "libonbeat.so.$version"
ln -sf "libonbeat.so.$version" "$to/lib/libonbeat.so.0"
ln -sf libonbeat.so.0 "$to/lib/libonbeat.so"
mkdir -p "$to/lib/pkgconfig"
sed "s|@prefix@|$prefix|; s|@version@|$version|" crates/onbeat-c/onbeat.pc.in >"$to/lib/pkgconfig/onbeat.pc"

if [ "$what" = all ]; then
    put 755 "$built/onbeat" bin
    put 755 "$built/onbeat-gateway" bin
    put 755 "$built/onbeat-camera" bin
    put 755 "$built/onbeat-fleet" bin
    for file in octave/+onbeat/*.m; do put 644 "$file" share/onbeat/octave/+onbeat; done
    for file in octave/src/* include/onbeat_frames.h include/onbeat_ring.h; do put 644 "$file" share/onbeat/octave/src; done
    for file in python/src/onbeat/*.py python/src/onbeat/py.typed; do put 644 "$file" share/onbeat/python/onbeat; done
    for file in python/src/onbeat/fleet/*.py python/src/onbeat/fleet/tables.json; do put 644 "$file" share/onbeat/python/onbeat/fleet; done
    for file in python/src/onbeat/fleet/sql/*.sql; do put 644 "$file" share/onbeat/python/onbeat/fleet/sql; done
    # Built by `mvn package`, where Maven is.
    [ ! -f java/target/onbeat.jar ] || put 644 java/target/onbeat.jar share/onbeat
    for page in share/man/*.1; do put 644 "$page" share/man/man1; done
    put 644 share/completions/onbeat.bash share/bash-completion/completions onbeat
    put 644 share/completions/_onbeat share/zsh/site-functions
    put 644 share/completions/onbeat.fish share/fish/vendor_completions.d
fi
# The loader finds a library of /usr/local by its cache alone.
case $to in
/usr | /usr/local) [ "$(id -u)" != 0 ] || ! command -v ldconfig >/dev/null 2>&1 || ldconfig ;;
esac
echo "installed below $to"
