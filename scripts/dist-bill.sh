#!/bin/sh
# Writes the bills of materials (CycloneDX, JSON) of the programs of a target: every crate in them, with version, licence and checksum.
# usage: dist-bill.sh TARGET; dist.sh starts it
set -eu

target=$1
cargo_cyclonedx=0.5.9
tools=target/tools
dist=$PWD/target/dist
if ! "$tools/bin/cargo-cyclonedx" cyclonedx --version 2>/dev/null | grep -qF "$cargo_cyclonedx"; then
    "${CARGO:-cargo}" install cargo-cyclonedx --version "$cargo_cyclonedx" --locked --root "$tools"
fi

# It writes beside each manifest: into a copy of the tracked files, so that none is left in the repository.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git ls-files -z -- Cargo.toml Cargo.lock crates include tests | tar -c --null --files-from=- -f - | tar -x -C "$work" -f -
(cd "$work" && "$OLDPWD/$tools/bin/cargo-cyclonedx" cyclonedx --quiet --format json --spec-version 1.5 --target "$target" \
    --features onbeat-gateway/ros2)
for program in cli gateway camera fleet; do
    name=onbeat-$program
    [ "$program" != cli ] || name=onbeat
    # The folder of the copy says nothing about the program.
    sed "s|?download_url=file://[^\"#]*||g; s|path+file://$work/||g" "$work/crates/onbeat-$program/onbeat-$program.cdx.json" \
        >"$dist/$name-${target%%-*}.cdx.json"
done
