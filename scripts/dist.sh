#!/bin/sh
# Builds the release files in target/dist; docs/packages.md lists them.
# usage: dist.sh [target]...; the default is the static target of this machine; another one is aarch64-unknown-linux-musl
set -eu

cargo=${CARGO:-cargo}
machine=$(uname -m)
[ $# -gt 0 ] || set -- "$machine-unknown-linux-musl"
# The versions that docs/packages.md describes; options of later ones may differ.
cargo_deb=3.8.0
maturin=1.16.0
cargo_zigbuild=0.24.1
ziglang=0.15.2
tools=$PWD/target/tools
dist=$PWD/target/dist
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
# Every archive has the time of the commit, so that the same commit gives the same bytes.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

missing() {
    echo "dist: $1" >&2
    exit 2
}

# A program of PyPI, in the environment of the tools.
python_tool() { # PACKAGE VERSION
    [ -x "$tools/python/bin/pip" ] || python3 -m venv "$tools/python" || missing "python3 has no venv (package python3-venv)"
    "$tools/python/bin/pip" install --quiet --disable-pip-version-check "$1==$2" || missing "$1 $2 cannot be installed from PyPI"
}

prepare() {
    for target in "$@"; do
        [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ] || continue
        command -v rustup >/dev/null 2>&1 ||
            missing "Rust's standard library for $target is missing, and rustup, which installs it, is not installed"
        rustup target add "$target"
    done
    if [ "$("$tools/bin/cargo-deb" --version 2>/dev/null)" != "$cargo_deb" ]; then
        "$cargo" install cargo-deb --version "$cargo_deb" --locked --root "$tools"
    fi
    command -v mvn >/dev/null 2>&1 || missing "mvn, which builds the jar of the package, is not installed (package maven)"
    python_tool maturin "$maturin"
    for target in "$@"; do
        [ "$machine" != "${target%%-*}" ] || continue
        # Zig brings a C compiler and musl for every architecture.
        python_tool cargo-zigbuild "$cargo_zigbuild"
        python_tool ziglang "$ziglang"
    done
}

# The programs of a target, and the wheel. Maturin builds the programs that the wheel holds, and the other packages hold the same files.
build() { # TARGET
    zig=""
    verb=build
    if [ "$machine" != "${1%%-*}" ]; then
        zig=--zig
        verb=zigbuild
    fi
    # A static program needs neither libc: the wheel is for both. The tags name the oldest systems that pip serves, not what is needed.
    # shellcheck disable=SC2086 # nothing, or one word
    (cd python && PATH="$tools/python/bin:$PATH" maturin build --quiet --profile dist --target "$1" $zig \
        --compatibility manylinux_2_17 musllinux_1_2 --out "$dist")
    PATH="$tools/python/bin:$PATH" "$cargo" "$verb" --profile dist --locked --target "$1" \
        -p onbeat-gateway -p onbeat-camera --features onbeat-gateway/ros2
    CARGO="$cargo" sh scripts/agent.sh "target/$1/dist" "$1"
    "$tools/bin/cargo-deb" -p onbeat-cli --no-build --locked --profile dist --target "$1" --output "$dist/"
}

# A reproducible archive: sorted by name, owned by nobody, with the time of the commit.
pack() { # FOLDER FILE NAME
    tar -C "$1" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf - "$3" | gzip -9n >"$2"
}

archive() { # TARGET
    built=target/$1/dist
    name=onbeat-$version-${1%%-*}-linux
    work=$(mktemp -d)
    mkdir "$work/$name"
    cp "$built/onbeat" "$built/onbeat-gateway" "$built/onbeat-camera" "$built/onbeat-fleet" "$built/onbeat-guest" README.md GLOSSARY.md CHANGELOG.md \
        LICENSE-MIT LICENSE-APACHE crates/onbeat-report/assets/LICENSE-DejaVu "$work/$name/"
    cp -r share include "$work/$name/"
    clients=$work/$name/share/onbeat
    mkdir -p "$clients/python"
    cp java/target/onbeat.jar "$clients/"
    cp -r octave "$clients/"
    cp include/onbeat_frames.h include/onbeat_ring.h "$clients/octave/src/"
    cp -r python/src/onbeat "$clients/python/"
    find "$clients" -name __pycache__ -prune -exec rm -r {} +
    pack "$work" "$dist/$name.tar.gz" "$name"
    rm -rf "$work"
}

prepare "$@"
# The clients of the packages: one jar, whatever the machine.
(cd java && mvn -q -B package)
# Cargo keeps the build scripts of this profile in folders beside the release files.
mkdir -p "$dist"
rm -rf "$dist/apt"
find "$dist" -maxdepth 1 -type f ! -name '.*' -delete
for target in "$@"; do
    build "$target"
    archive "$target"
    sh scripts/dist-image.sh "$version" "$target"
    sh scripts/dist-bill.sh "$target"
    # Another architecture's library would need its libc and compiler here.
    if [ "$machine" = "${target%%-*}" ]; then
        "$cargo" build --profile dist --locked --target "$machine-unknown-linux-gnu" -p onbeat-c
        sh scripts/dist-library.sh "$version"
    fi
done
# For any system: the jar, and the toolbox for MATLAB with it.
cp java/target/onbeat.jar "$dist/onbeat-$version.jar"
python3 scripts/dist-toolbox.py "$version" java/target/onbeat.jar "$dist/onbeat-$version.mltbx"
sh scripts/dist-repository.sh

(
    cd "$dist"
    find . apt -maxdepth 1 -type f ! -name '.*' ! -name SHA256SUMS -printf '%H/%P\n' | sed 's|^\./||' | LC_ALL=C sort | xargs sha256sum >"$OLDPWD/target/sums"
    mv "$OLDPWD/target/sums" SHA256SUMS
    cat SHA256SUMS
)
[ -z "${ONBEAT_SIGN_KEY:-}" ] || gpg --batch --yes --local-user "$ONBEAT_SIGN_KEY" --armor --detach-sign "$dist/SHA256SUMS"
