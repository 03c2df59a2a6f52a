#!/bin/sh
# Runs what makes no system call under Miri, which finds undefined behaviour: the memory that onbeat-rt shares, and images, rings and goals
# of onbeat-control in plain memory.
set -eu
cd "$(dirname "$0")/.."
if ! cargo +nightly miri --version >/dev/null 2>&1; then
    echo "skipped: no nightly toolchain with miri; rustup toolchain install nightly --component miri,rust-src" >&2
    exit 0
fi
export MIRIFLAGS="-Zmiri-disable-isolation"
export CARGO_TARGET_DIR=target/miri
# Under Miri a case takes a thousand times as long.
export PROPTEST_CASES=4
# What shares memory or calls the system; the rest has no unsafe code, and takes hours here.
cargo +nightly miri test --locked -p onbeat-rt --lib -- ring:: latest:: broadcast:: sys::
cargo +nightly miri test --locked -p onbeat-control --lib -- abi:: device_table:: error_record:: stats::
