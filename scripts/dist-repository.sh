#!/bin/sh
# Makes a folder that apt installs from: the Debian packages of target/dist with their index. Any web server, or file://, serves it.
# With ONBEAT_SIGN_KEY (a key of gpg), the index is signed, and the public key lies beside it.
# usage: dist-repository.sh [folder]; target/dist/apt unless given. dist.sh starts it after it has made the packages
set -eu

dist=target/dist
repository=${1:-$dist/apt}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
command -v apt-ftparchive >/dev/null 2>&1 || { echo "dist: apt-ftparchive, which makes the index, is not installed (package apt-utils)" >&2; exit 2; }

rm -rf "$repository"
mkdir -p "$repository"
# The same files where that is possible, not a second copy of them.
ln "$dist"/*.deb "$repository/" 2>/dev/null || cp "$dist"/*.deb "$repository/"
cd "$repository"
apt-ftparchive packages . >Packages
gzip -9nk Packages
# Outside the folder first, since it would list itself. Its fields are those by which a user pins or prefers this origin.
index=$(mktemp)
apt-ftparchive -o APT::FTPArchive::Release::Origin=onbeat -o APT::FTPArchive::Release::Label=onbeat \
    -o APT::FTPArchive::Release::Suite=stable release . >"$index"
mv "$index" Release
chmod 644 Release
# The time of the commit, as of all release files.
sed -i "s/^Date: .*/Date: $(date --utc --date="@$SOURCE_DATE_EPOCH" '+%a, %d %b %Y %H:%M:%S +0000')/" Release
if [ -n "${ONBEAT_SIGN_KEY:-}" ]; then
    gpg --batch --yes --local-user "$ONBEAT_SIGN_KEY" --clearsign --output InRelease Release
    gpg --batch --yes --export "$ONBEAT_SIGN_KEY" >onbeat-archive-keyring.gpg
fi
