#!/bin/sh
# Runs every fuzz target for FUZZ_SECONDS (20 by default). Arguments: names of targets, by default all of them.
#
# With a nightly toolchain and cargo-fuzz, the targets run with the address sanitizer. Otherwise the stable compiler builds them with
# coverage only. Skipped targets are printed with their reason.
set -eu
cd "$(dirname "$0")"

seconds=${FUZZ_SECONDS:-20}
cargo=${CARGO:-cargo}
all=$(sed -n 's|^path = "fuzz_targets/\(.*\).rs"|\1|p' Cargo.toml)
targets=${*:-$all}
options="-max_total_time=$seconds -max_len=16384 -verbosity=0 -print_final_stats=1"
mkdir -p artifacts

skip_all() {
    for target in $targets; do
        echo "fuzz: $target skipped: $1"
    done
    exit 0
}

# libFuzzer is C++.
for compiler in "${CXX:-c++}" g++ clang++; do
    command -v "$compiler" >/dev/null 2>&1 && break
done
command -v "$compiler" >/dev/null 2>&1 || skip_all "no C++ compiler for libFuzzer (package g++)"
if ! why=$($cargo fetch --locked 2>&1); then
    case $why in
        # Otherwise an outdated lock file would skip every target unnoticed.
        *"lock file"*) echo "fuzz: Cargo.lock is out of date; run: cd fuzz && $cargo fetch" >&2 && exit 2 ;;
        *) skip_all "dependencies cannot be fetched: $(echo "$why" | tail -n 1)" ;;
    esac
fi

if cargo +nightly fuzz --version >/dev/null 2>&1; then
    for target in $targets; do
        echo "fuzz: $target, $seconds s, with the address sanitizer"
        mkdir -p "target/found/$target"
        # shellcheck disable=SC2086
        cargo +nightly fuzz run --fuzz-dir . "$target" "target/found/$target" "corpus/$target" -- $options
    done
    exit 0
fi

echo "fuzz: no nightly toolchain with cargo-fuzz; using the stable compiler, without the address sanitizer"
host=$(rustc -vV | sed -n 's/^host: //p')
flags="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table -Clink-dead-code"
RUSTFLAGS="$flags" $cargo build --locked --release --target "$host" $(for target in $targets; do echo "--bin $target"; done)

# As many at a time as there are CPUs; the output of each is printed when it ends. xargs fails when one of them has failed.
export seconds options found="target/found" built="target/$host/release"
# shellcheck disable=SC2016,SC2086 # expanded by the inner shell; several words
printf '%s\n' $targets | xargs -P "$(nproc)" -I '{}' sh -c '
    target=$1
    mkdir -p "$found/$target"
    status=0
    "$built/$target" $options -artifact_prefix="artifacts/$target-" "$found/$target" "corpus/$target" >"$found/$target.log" 2>&1 || status=$?
    printf "fuzz: %s, %s s\n%s\n" "$target" "$seconds" "$(cat "$found/$target.log")"
    exit $status
' fuzz '{}'
