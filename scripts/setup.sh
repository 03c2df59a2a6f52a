#!/bin/sh
# Installs the missing Debian packages of a command when permitted; otherwise prints their names.
# usage: setup.sh bench|test|peers|kernels|dist|firmware
set -eu

# program or command that tests for it:package:purpose
bench_wants="cc:build-essential:linking
hackbench:rt-tests:the load of the paper
ping:iputils-ping:the load of the paper"
test_wants="$bench_wants
c++:g++:the control header in C++
zsh:zsh:completion in zsh
fish:fish:completion in fish
stress-ng:stress-ng:tests of loads
java:default-jdk-headless:reading run files with Java
octave:octave:controllers in Octave
pkg-config:pkg-config:the C library
tshark:tshark:reading packets as Wireshark does
powerpc-linux-gnu-gcc:gcc-powerpc-linux-gnu:packets on a big-endian processor
echo '#include <string.h>' | powerpc-linux-gnu-gcc -E -:libc6-dev-powerpc-cross:packets on a big-endian processor
qemu-ppc-static:qemu-user-static:packets on a big-endian processor
mvn:maven:reading run files with Java
node:nodejs:the page
npm:npm:the page
trace-cmd:trace-cmd:reading trace.dat files
chromium:chromium:looking at the page
ffmpeg:ffmpeg:decoding pictures of cameras
python3 -c 'import ensurepip':python3-venv:reading spikes and exports with Python"
# The version that compiled the checked-in BPF objects: Debian 12 has it.
if command -v apt-cache >/dev/null 2>&1 && { apt-cache show clang-14 || { [ "$(id -u)" = 0 ] && apt-get update -qq && apt-cache show clang-14; }; } >/dev/null 2>&1; then
    test_wants="$test_wants
clang-14:clang-14:comparing the BPF objects
llvm-strip-14:llvm-14:comparing the BPF objects"
fi
peers_wants="$test_wants
sockperf:sockperf:round trips beside another tool"
# busybox must be static: it is the first program of the guests
kernels_wants="$bench_wants
qemu-system-x86_64:qemu-system-x86:the guests
command -v busybox && ! ldd \$(command -v busybox):busybox-static:the shell in the guests
strip:binutils:a small binary in the guests
python3:python3:the guests' runner"
dist_wants="cc:build-essential:linking
mvn:maven:the jar of the package
musl-gcc:musl-tools:compression of logs in a static binary
apt-ftparchive:apt-utils:the index of a repository
umoci:umoci:an image without a daemon
skopeo:skopeo:a second reader of the image
gpg:gpg:signatures
python3 -c 'import ensurepip':python3-venv:the wheel
command -v busybox && ! ldd \$(command -v busybox):busybox-static:a root without a libc
mmdebstrap:mmdebstrap:bare roots of Debian and Ubuntu
qemu-aarch64-static:qemu-user-static:the programs for AArch64
mke2fs:e2fsprogs:the disk of a Debian guest
ls /usr/lib/ISOLINUX/isolinux.bin:isolinux:a guest that boots from a disc
ls /usr/lib/syslinux/modules/bios/ldlinux.c32:syslinux-common:a guest that boots from a disc
xorriso:xorriso:a guest that boots from a disc
virt-xml-validate:libvirt-clients:definitions for libvirt
xmllint:libxml2-utils:definitions for libvirt"
firmware_wants="arm-none-eabi-gcc:gcc-arm-none-eabi:the device's compiler
echo '#include <string.h>' | arm-none-eabi-gcc -E -:libnewlib-arm-none-eabi:the device's C library
qemu-system-arm:qemu-system-arm:the device's board
cc:build-essential:linking"

case "${1:-}" in
    bench) wants=$bench_wants ;;
    test) wants=$test_wants ;;
    peers) wants=$peers_wants ;;
    kernels) wants=$kernels_wants ;;
    dist) wants=$dist_wants ;;
    firmware) wants=$firmware_wants ;;
    *) echo "usage: $0 bench|test|peers|kernels|dist|firmware" >&2; exit 2 ;;
esac

# A disk that fills up while all is compiled fails in any place, and not with its reason.
needs_kb=7000000
free_kb=$(df -Pk . | awk 'NR == 2 { print $4 }')
if [ "$1" = test ] && [ ! -e target/debug/.fingerprint ] && [ "$free_kb" -lt $needs_kb ]; then
    echo "the first \`make test\` writes some 6 GB below target, and $(pwd) has $((free_kb / 1000)) MB left: $((needs_kb / 1000)) MB should be free" >&2
    exit 2
fi

if ! command -v cargo >/dev/null 2>&1; then
    echo "onbeat is built with Rust 1.89 or later, and cargo is not to be found; install it as https://rustup.rs says" >&2
    exit 2
fi

# Debian's packages of these programs enable a service, so they are unpacked for the tests and not installed.
unpack() { # PACKAGE PROGRAM
    to=$(dirname "$0")/../target/$1
    if command -v "${2##*/}" >/dev/null 2>&1 || [ -x "$to/$2" ] || ! command -v apt-get >/dev/null 2>&1; then
        return
    fi
    mkdir -p "$to"
    (
        cd "$to"
        apt-get download -qq "$1" 2>/dev/null || { apt-get update -qq && apt-get download -qq "$1"; }
        dpkg -x "$1"_*.deb .
    ) >/dev/null 2>&1 || echo "could not fetch $1; its tests say what they lack" >&2
}
if [ "$1" = test ]; then
    unpack linuxptp usr/sbin/ptp4l
    unpack prometheus usr/bin/promtool
fi

missing=$(printf '%s\n' "$wants" | while IFS=: read -r program package purpose; do
    case $program in
        *" "*) sh -c "$program" >/dev/null 2>&1 || echo "$package" ;;
        *) command -v "$program" >/dev/null 2>&1 || echo "$package" ;;
    esac
done | sort -u | tr '\n' ' ')
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "not installed: $missing(names of Debian packages); onbeat goes on without them and says what it lacks" >&2
    exit 0
fi

# Packages that the lists of this system know: of several names apt-get installs none where it does not know one, such as chromium on Ubuntu.
known() { # PACKAGE...
    for package in "$@"; do
        if LC_ALL=C apt-cache policy "$package" 2>/dev/null | grep -q 'Candidate: [^(]'; then printf '%s ' "$package"; fi
    done
}
# Sets missing to the known ones, and names the others; without lists no package is known.
leave_unknown_out() {
    # shellcheck disable=SC2086 # a list of packages is several words
    available=$(known $missing)
    [ -n "$available" ] || return 0
    unknown=$(for package in $missing; do case " $available" in *" $package "*) ;; *) printf ' %s' "$package" ;; esac; done)
    [ -z "$unknown" ] || echo "not in the package lists of this system:$unknown; onbeat goes on without them and says what it lacks" >&2
    missing=$available
}

if [ "$(id -u)" = 0 ]; then root=""; elif sudo -n true 2>/dev/null; then root="sudo"; else
    leave_unknown_out
    echo "not installed, and not permitted to install: $missing" >&2
    echo "  sudo apt-get install $missing" >&2
    exit 0
fi
$root apt-get update -qq || true
leave_unknown_out
echo "installing $missing"
install="env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing"
# shellcheck disable=SC2086 # several words
$root $install >/dev/null || {
    echo "could not install: $missing; onbeat goes on without them and says what it lacks" >&2
}
