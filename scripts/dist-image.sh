#!/bin/sh
# Makes an OCI image of the static programs, without a daemon, as an archive of its layout, and writes its digest beside it.
# usage: dist-image.sh VERSION TARGET [FOLDER]; into target/dist unless given. dist.sh starts it after it has built the programs
set -eu

version=$1
target=$2
built=target/$target/dist
name=${3:-target/dist}/onbeat-$version-${target%%-*}-oci
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
case ${target%%-*} in
    x86_64) architecture=amd64 ;;
    aarch64) architecture=arm64 ;;
    *) architecture=${target%%-*} ;;
esac
command -v umoci >/dev/null 2>&1 || { echo "dist: umoci, which makes the image, is not installed (package umoci)" >&2; exit 2; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
# The working folder of the image is a volume of the user's: runs are written there.
mkdir -p "$root/usr/bin" "$root/usr/share/doc/onbeat" "$root/tmp" "$root/var/lib" "$root/runs"
chmod 1777 "$root/tmp"
install -m 755 "$built/onbeat" "$built/onbeat-gateway" "$built/onbeat-camera" "$built/onbeat-fleet" "$root/usr/bin/"
install -m 644 LICENSE-MIT LICENSE-APACHE crates/onbeat-report/assets/LICENSE-DejaVu "$root/usr/share/doc/onbeat/"
find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +

when=$(date --utc --date="@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
image=$work/layout:$version
umoci init --layout "$work/layout"
umoci new --image "$image"
umoci insert --image "$image" --history.created "$when" --history.created_by "make dist" "$root" /
umoci config --image "$image" --no-history --created "$when" --architecture "$architecture" --os linux \
    --config.entrypoint /usr/bin/onbeat --config.workingdir /runs --config.env PATH=/usr/bin \
    --config.label org.opencontainers.image.title=onbeat --config.label "org.opencontainers.image.version=$version" \
    --config.label "org.opencontainers.image.licenses=MIT OR Apache-2.0"
umoci gc --layout "$work/layout"

tar -C "$work/layout" --sort=name --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw --mtime="@$SOURCE_DATE_EPOCH" \
    -cf "$name.tar" oci-layout index.json blobs
sed -n 's/.*"digest":"\(sha256:[0-9a-f]*\)".*/\1/p' "$work/layout/index.json" >"$name.digest"
[ -s "$name.digest" ] || { echo "dist: the image's index names no digest" >&2; exit 1; }
