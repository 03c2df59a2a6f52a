#!/bin/sh
# Prints rustc's flags for a program that is linked while tests run: one thread, where the linker is lld.
#
# lld crashes when the CPUs that it may use become more while it runs (as in llvm/llvm-project#73960), and a shield that is undone
# gives a CPU back. While a CPU was taken and given back some 15 times a second, 61 of 195 links crashed; with one thread, none of 133.
# usage: RUSTFLAGS="$(link-flags.sh)" cargo ...
set -eu

flags="-C link-arg=-Wl,--threads=1"
tried=$(mktemp -d)
trap 'rm -rf "$tried"' EXIT

# Other linkers refuse the option.
echo 'fn main() {}' >"$tried/main.rs"
# shellcheck disable=SC2086 # several words
if ${RUSTC:-rustc} $flags -o "$tried/main" "$tried/main.rs" 2>/dev/null; then
    echo "$flags"
fi
