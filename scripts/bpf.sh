#!/bin/sh
# Compiles the BPF programs anew, and compares them with the checked-in objects. Only one version of clang writes the same bytes.
set -eu

version=14.0.6
case $(clang-14 --version 2>/dev/null) in
    *"version $version"*) ;;
    *) echo "skipped: the BPF objects are not compared: clang $version is not installed (package clang-14 of Debian 12)" >&2; exit 0 ;;
esac
command -v llvm-strip-14 >/dev/null || { echo "skipped: the BPF objects are not compared: llvm-strip-14 is not installed (package llvm-14)" >&2; exit 0; }
to=$PWD/target/bpf
shared=$PWD/crates/onbeat-cause/bpf
rm -rf "$to"
bytes=0
for from in crates/onbeat-cause/bpf crates/onbeat-ethercat/bpf; do
    mkdir -p "$to/$from"
    make -s -C "$from" -f "$shared/Makefile" TO="$to/$from"
    for built in "$to/$from"/*.bpf.o; do
        checked_in=$from/${built##*/}
        cmp "$built" "$checked_in" || { echo "$checked_in is not what $from has in C; CONTRIBUTING.md has the command" >&2; exit 1; }
        bytes=$((bytes + $(wc -c <"$checked_in")))
    done
    for checked_in in "$from"/*.bpf.o; do
        [ -f "$to/$from/${checked_in##*/}" ] || { echo "$checked_in has no source" >&2; exit 1; }
    done
done
[ "$bytes" -le 102400 ] || { echo "the BPF objects have $bytes bytes, more than 100 KiB" >&2; exit 1; }
echo "BPF objects: $bytes bytes, as compiled by clang $version"
