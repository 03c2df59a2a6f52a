#!/bin/sh
# Builds the release files in target/dist: an archive with a static binary, a Debian package of the same binary, and one of the C library.
# usage: dist.sh [target]; the default target is that of this machine; another one is, for example, aarch64-unknown-linux-musl
set -eu

cargo=${CARGO:-cargo}
machine=$(uname -m)
target=${1:-$machine-unknown-linux-musl}
# The version that docs/packages.md describes; options of later versions may differ.
cargo_deb=3.8.0
tools=target/tools
dist=target/dist

if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]; then
    if ! command -v rustup >/dev/null 2>&1; then
        echo "Rust's standard library for $target is missing, and rustup, which installs it, is not installed" >&2
        exit 2
    fi
    rustup target add "$target"
fi

if [ "$("$tools/bin/cargo-deb" --version 2>/dev/null)" != "$cargo_deb" ]; then
    "$cargo" install cargo-deb --version "$cargo_deb" --locked --root "$tools"
fi

# The clients of the package: one jar, whatever the machine.
command -v mvn >/dev/null 2>&1 || { echo "mvn, which builds the jar of the package, is not installed (package maven)" >&2; exit 2; }
mvn -q -B -f java/pom.xml package

"$cargo" build --profile dist --locked --target "$target" -p onbeat-cli -p onbeat-gateway -p onbeat-camera -p onbeat-fleet --features onbeat-gateway/ros2
# Another architecture's library would need its libc and compiler here.
library=no
if [ "$machine" = "${target%%-*}" ]; then
    library=yes
    "$cargo" build --profile dist --locked --target "$machine-unknown-linux-gnu" -p onbeat-c
fi
built=target/$target/dist
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)

# Cargo keeps the build scripts of this profile in the same folder, so that nothing is built behind this line.
rm -rf "$dist"
mkdir -p "$dist"
"$tools/bin/cargo-deb" -p onbeat-cli --no-build --locked --profile dist --target "$target" --output "$dist/"

[ "$library" = no ] || sh scripts/dist-library.sh "$version"

# For any system: the jar, and the toolbox for MATLAB with it.
if command -v mvn >/dev/null 2>&1; then
    (cd java && mvn -q -B package)
    cp java/target/onbeat.jar "$dist/onbeat-$version.jar"
    python3 scripts/dist-toolbox.py "$version" java/target/onbeat.jar "$dist/onbeat-$version.mltbx"
else
    echo "dist: without the jar and the toolbox for MATLAB: Maven is not installed (package maven)" >&2
fi

name=onbeat-$version-${target%%-*}-linux
mkdir -p "$dist/$name"
cp "$built/onbeat" "$built/onbeat-gateway" "$built/onbeat-camera" "$built/onbeat-fleet" README.md GLOSSARY.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE \
    crates/onbeat-report/assets/LICENSE-DejaVu "$dist/$name/"
cp -r share include "$dist/$name/"
clients=$dist/$name/share/onbeat
mkdir -p "$clients/python"
cp java/target/onbeat.jar "$clients/"
cp -r octave "$clients/"
cp include/onbeat_frames.h include/onbeat_ring.h "$clients/octave/src/"
cp -r python/src/onbeat "$clients/python/"
find "$clients" -name __pycache__ -prune -exec rm -r {} +
# A reproducible archive: sorted by name, owned by nobody, with the time of the commit.
tar -C "$dist" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" \
    -czf "$dist/$name.tar.gz" "$name"
rm -rf "${dist:?}/$name"

(cd "$dist" && sha256sum -- * >SHA256SUMS && cat SHA256SUMS)
