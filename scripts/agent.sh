#!/bin/sh
# Builds the agent for guests as a static program of 3 MB at most, beside the programs of a profile.
# usage: agent.sh FOLDER [target]; the default is the static target of this machine
set -eu

target=${2:-$(uname -m)-unknown-linux-musl}
if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]; then
    command -v rustup >/dev/null 2>&1 || {
        echo "agent: Rust's standard library for $target is missing, and rustup, which installs it, is not installed" >&2
        exit 2
    }
    rustup target add "$target"
fi
# It has no C in it: Rust's own linker does for every machine.
case $target in
    aarch64-*) export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld ;;
    x86_64-*) export CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld ;;
esac
"${CARGO:-cargo}" build --profile guest --locked --target "$target" -p onbeat-guest
mkdir -p "$1"
install -m 755 "${CARGO_TARGET_DIR:-target}/$target/guest/onbeat-guest" "$1/"
length=$(stat -c %s "$1/onbeat-guest")
echo "the agent for $target: $length bytes"
[ "$length" -le 3000000 ] || { echo "agent: 3,000,000 bytes at most have room in small guests" >&2; exit 1; }
