#!/bin/sh
# Fetches lwIP as Debian's source package into a directory, and checks that it is the version that the firmware was tried with: lwip.sh DIRECTORY
# Debian's own signatures are checked by apt; the sums are those of the signed .dsc. Fetched from where the system's apt has Debian from; nothing of it is changed.
set -eu
into=$1
version=2.1.3+dfsg1
sum=0a8276d09fc4e97bbba2f953d74af2388fc2195ea156be9d7589e297a68fde24
archive=lwip_$version.orig.tar.xz
mkdir -p "$into/lists/partial"
cd "$into"
if [ ! -f "$archive" ]; then
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -f "$keys" ] || { echo "lwip.sh: $keys is missing: install debian-archive-keyring, or put $archive into $into" >&2; exit 2; }
    from=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Identifier: Packages' | grep ' bookworm main$' | head -n 1)
    [ -n "$from" ] || { echo "lwip.sh: apt has no source of Debian bookworm; put $archive into $into" >&2; exit 2; }
    echo "deb-src [signed-by=$keys] $from" > sources.list
    set -- -qq -o Dir::Etc::SourceList="$PWD/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$PWD/lists" -o APT::Sandbox::User=root
    apt-get "$@" update && apt-get "$@" source --download-only lwip ||
        { echo "lwip.sh: the source package lwip cannot be fetched from Debian; put $archive into $into" >&2; exit 2; }
fi
[ -f "$archive" ] || { echo "lwip.sh: Debian has another version of lwip than $version; put $archive into $into" >&2; exit 2; }
echo "$sum  $archive" | sha256sum --check --quiet - || { echo "lwip.sh: $into/$archive is not lwIP $version" >&2; exit 2; }
[ -f lwip/src/core/init.c ] || { mkdir -p lwip && tar -xJf "$archive" -C lwip --strip-components=1; }
