#!/bin/sh
# Tries what `make dist` made where nothing of onbeat is: bare roots of other systems, an image, an environment of Python, and
# `cargo install`. One line installs, and a bench gives its verdict.
# usage: test-dist.sh [root]...; a root is a release of Debian or Ubuntu, `busybox`, `alpine`, `arm`, `image`, `wheel`,
# `bill` or `cargo`
# variables: ALPINE, Alpine's archive alpine-minirootfs-*.tar.gz; PROFILE, that of `cargo install` (release)
set -eu

dist=$PWD/target/dist
here=$PWD/scripts
# Roots as they are made, by release: each try unpacks one of its own.
roots=$PWD/target/roots
# Of Ubuntu's archive since 2018. Debian 12 does not package its keys.
ubuntu_key=F6ECB3762474EDA9D21B7022871920D1991BC93C
# The processor of the roots.
machine=$(uname -m)
[ $# -gt 0 ] || set -- bookworm trixie noble busybox alpine arm image wheel bill cargo

[ -s "$dist/SHA256SUMS" ] || { echo "$dist holds no release files; run make dist" >&2; exit 2; }
(cd "$dist" && sha256sum --quiet --check SHA256SUMS)

work=$(mktemp -d)
# The kernel keeps an emulator that was registered, also after this script.
leave() {
    if [ -e "$work/binfmt/onbeat-test" ]; then echo -1 >"$work/binfmt/onbeat-test"; fi
    umount "$work/binfmt" 2>/dev/null || true
    rm -rf "$work"
}
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir -p "$roots"

fail() {
    echo "failed: $1" >&2
    exit 1
}

# Whether roots can be entered; says why not, once for each root.
may_enter() { # ROOT
    if [ "$(id -u)" != 0 ]; then
        echo "skipped: $1: making a root and entering it need root"
    elif ! unshare --mount --pid --fork true 2>/dev/null; then
        echo "skipped: $1: namespaces are not permitted here"
    else
        return 0
    fi
    return 1
}

# The key that signs Ubuntu's archive, from its own package: unpacked without a check, and then only the key with the known fingerprint.
ubuntu_keyring() { # RELEASE
    keyring=$roots/ubuntu-archive-keyring.gpg
    [ ! -s "$keyring" ] || return 0
    mmdebstrap --quiet --variant=extract --include=ubuntu-keyring --aptopt='Acquire::AllowInsecureRepositories "true"' \
        --aptopt='APT::Get::AllowUnauthenticated "true"' "$1" "$work/keys" >"$work/log" 2>&1 || return 1
    mkdir -m 700 "$work/gpg"
    gpg --homedir "$work/gpg" --quiet --no-default-keyring --keyring "$work/keys/usr/share/keyrings/ubuntu-archive-keyring.gpg" \
        --export "$ubuntu_key" >"$work/keyring" 2>"$work/log" && [ -s "$work/keyring" ] || return 1
    mv "$work/keyring" "$keyring"
}

# As Debian names the processor of the roots.
architecture() {
    case $machine in
        x86_64) echo amd64 ;;
        aarch64) echo arm64 ;;
        *) echo "$machine" ;;
    esac
}

# A root of a release with further packages, in $work/root; false, with the reason, where it cannot be made.
make_root() { # RELEASE PACKAGES
    command -v mmdebstrap >/dev/null 2>&1 || { echo "skipped: $1: mmdebstrap is not installed: apt-get install mmdebstrap"; return 1; }
    archive=$roots/$1-$machine-$(echo "$2" | tr ',' '+').tar
    if [ ! -s "$archive" ]; then
        keyring=""
        if grep -qs "^[^,]*,[^,]*,$1," /usr/share/distro-info/ubuntu.csv; then
            ubuntu_keyring "$1" || { echo "skipped: $1: the key of Ubuntu's archive cannot be had: $(tail -n 1 "$work/log")"; return 1; }
        fi
        # `apt` is the smallest root in which `apt-get install ./onbeat.deb` works.
        # Whether this machine runs another processor's programs is known by then, under a name that mmdebstrap does not look for.
        if ! mmdebstrap --quiet --variant=apt --architectures="$(architecture)" --skip=check/qemu --include="$2" \
            ${keyring:+"--keyring=$keyring"} "$1" "$archive.part.tar" >"$work/log" 2>&1; then
            echo "skipped: no root of $1 with $2 can be made: $(tail -n 1 "$work/log")"
            rm -f "$archive.part.tar"
            return 1
        fi
        mv "$archive.part.tar" "$archive"
    fi
    unpack "$archive"
}

unpack() { # ARCHIVE
    rm -rf "$work/root"
    mkdir "$work/root"
    # Devices are the host's, mounted for the try.
    tar -C "$work/root" --exclude='./dev/*' -xf "$1"
}

# Runs a command in $work/root. A mount and process namespace of its own: what is mounted and started for the try ends with it.
pids=--pid
inside() { # COMMAND...
    mkdir -p "$work/root/dev" "$work/root/proc" "$work/root/sys"
    # shellcheck disable=SC2016,SC2086 # of the inner shell; a word or none
    unshare --mount $pids --fork --kill-child sh -eu -c '
        root=$1
        shift
        mount --rbind /dev "$root/dev"
        mount -t proc proc "$root/proc"
        mount --rbind /sys "$root/sys"
        exec chroot "$root" "$@"' sh "$work/root" "$@"
}

try_script() { # SCRIPT
    mkdir -p "$work/root/try"
    cp "$dist"/*_"$(architecture)".deb "$dist/onbeat-"*"-$machine-linux.tar.gz" "$here/try-verdict.sh" "$here/$1" "$work/root/try/"
    cp -r "$work/apt" "$work/root/try/"
    inside /bin/sh -eu "/try/$1"
    rm -rf "$work/root"
}

# The repository, signed by a key that is gone after the test.
sign() {
    [ ! -d "$work/apt" ] || return 0
    mkdir -m 700 "$work/signer"
    GNUPGHOME=$work/signer
    export GNUPGHOME
    gpg --batch --quiet --passphrase '' --quick-generate-key onbeat-test default default 1d 2>"$work/log" || { cat "$work/log"; fail "no key to sign with"; }
    ONBEAT_SIGN_KEY=onbeat-test sh "$here/dist-repository.sh" "$work/apt"
    gpgconf --kill all
    unset GNUPGHOME
}

try_release() { # RELEASE
    may_enter "$1" || return 0
    sign
    if make_root "$1" libc-bin; then
        try_script try-package.sh
        echo "$1: the package installs, from its file and from the repository, measures, and leaves nothing"
    fi
    if [ -n "$(find "$dist" -name 'libonbeat-dev_*.deb')" ] && make_root "$1" gcc,libc6-dev,pkg-config; then
        try_script try-library.sh
    fi
    # Octave is some 500 MB: with one release.
    if [ "$1" = trixie ] && make_root "$1" octave,default-jre-headless; then
        try_script try-camera.sh
        echo "$1: Octave reads a camera from the package's own paths"
    fi
}

# A root without any libc, whose one program is busybox.
try_busybox() {
    may_enter busybox || return 0
    busybox=$(command -v busybox) && ! ldd "$busybox" >/dev/null 2>&1 ||
        { echo "skipped: busybox: no static busybox is installed: apt-get install busybox-static"; return 0; }
    rm -rf "$work/root"
    mkdir -p "$work/root/bin" "$work/root/tmp"
    cp "$busybox" "$work/root/bin/busybox"
    for program in $("$busybox" --list); do ln -s busybox "$work/root/bin/$program" 2>/dev/null || true; done
    sign
    try_script try-archive.sh
    echo "busybox: the archive's program measures without a libc"
}

try_alpine() {
    may_enter alpine || return 0
    [ -s "${ALPINE:-}" ] || { echo "skipped: alpine: its root is not downloaded by this test; give it as ALPINE=alpine-minirootfs-VERSION-MACHINE.tar.gz"; return 0; }
    unpack "$ALPINE"
    grep -q '^ID=alpine' "$work/root/etc/os-release" || fail "$ALPINE holds no root of Alpine"
    sign
    try_script try-archive.sh
    echo "alpine: the archive's program measures"
}

# What was built for AArch64, its processor emulated by QEMU; other programs of the machine run as before.
try_arm() {
    archive=$(find "$dist" -name 'onbeat-*-aarch64-linux.tar.gz')
    [ -n "$archive" ] || { echo "skipped: arm: no archive for AArch64 was built; give make TARGETS='$(uname -m)-unknown-linux-musl aarch64-unknown-linux-musl'"; return 0; }
    emulator=$(command -v qemu-aarch64-static) || { echo "skipped: arm: no emulator is installed: apt-get install qemu-user-static"; return 0; }
    may_enter arm || return 0
    mkdir -p "$work/binfmt"
    mount -t binfmt_misc binfmt_misc "$work/binfmt" 2>"$work/log" || { echo "skipped: arm: $(cat "$work/log")"; return 0; }
    # Until the end of the try the kernel starts programs of this processor in the emulator, which bench needs for its cells.
    magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
    mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
    printf '%s' ":onbeat-test:M::$magic:$mask:$emulator:F" >"$work/binfmt/register"
    try_arm_archive
    try_arm_wheel
    machine=aarch64
    sign
    if make_root trixie libc-bin; then
        try_script try-package.sh
        echo "arm: the package for arm64 installs on trixie, from its file and from the repository, measures, and leaves nothing"
    fi
    machine=$(uname -m)
    echo -1 >"$work/binfmt/onbeat-test"
    umount "$work/binfmt"
    echo "skipped: arm: what needs a board: BPF and perf counters, which the emulator refuses; system calls by name, since the kernel is this machine's; every figure"
    echo "skipped: arm: ARMv7 is not built: onbeat-cause knows system calls of 64-bit processors only"
}

# The archive in a root with nothing else: a bench, the causes of spikes by tracefs, a robot, and captures of boards.
try_arm_archive() {
    rm -rf "$work/root"
    mkdir -p "$work/root/tmp"
    tar -xzf "$archive" -C "$work/root"
    mv "$work/root"/onbeat-* "$work/root"/onbeat
    for program in onbeat-gateway onbeat-camera onbeat-fleet onbeat-guest; do inside "/onbeat/$program" --version; done
    status=0
    for words in "--version" "bench --for 10s --tunings none --loads idle,cpu=50% --limit 5ms --at 90 --out /tmp/runs" \
        "measure timer --for 10s --spikes-over 100us --out /tmp/runs" "robot run humanoid --for 5s --out /tmp/runs"; do
        # Events name threads by the host's process numbers.
        case $words in measure*) pids="" ;; *) pids=--pid ;; esac
        # shellcheck disable=SC2086 # several words
        inside /onbeat/onbeat $words >"$work/out" 2>&1 || status=$?
        case $status in 0 | 1 | 3) ;; *) cat "$work/out"; fail "onbeat $words for AArch64 ended with $status" ;; esac
        grep -E '^verdict  |^onbeat ' "$work/out" || { cat "$work/out"; fail "onbeat $words for AArch64 gave no verdict"; }
        case $words in measure*) grep -E '^Cause analysis took' "$work/out" || { cat "$work/out"; fail "tracefs gives no causes for AArch64"; } ;; esac
    done
    pids=--pid
    # Judged alike on any processor: a capture holds all that is read of a machine.
    program=target/$(uname -m)-unknown-linux-musl/dist/onbeat
    for board in board pi; do
        cp "crates/onbeat-tune/tests/machines/$board.tar.gz" "$work/root/tmp/"
        inside /onbeat/onbeat tune check --from "/tmp/$board.tar.gz" >"$work/emulated" 2>&1 || { cat "$work/emulated"; fail "tune check of $board for AArch64"; }
        "$program" tune check --from "crates/onbeat-tune/tests/machines/$board.tar.gz" >"$work/native" 2>&1
        diff "$work/native" "$work/emulated" || fail "tune check judges $board otherwise on AArch64"
    done
    rm -rf "$work/root"
    echo "arm: the archive's program for AArch64 measures, analyses causes by tracefs, runs a robot, and judges captures of a Raspberry Pi 4 and 5 as here"
}

# pip takes the wheel as on a board, and its program runs.
try_arm_wheel() {
    wheel=$(find "$dist" -name 'onbeat-*_aarch64.whl')
    [ -n "$wheel" ] || fail "no wheel for AArch64"
    python3 -m venv "$work/pip" || { echo "skipped: arm: python3 with venv is not installed (package python3-venv)"; return 0; }
    for platform in manylinux_2_17_aarch64 musllinux_1_2_aarch64; do
        rm -rf "$work/root"
        "$work/pip/bin/pip" --quiet --disable-pip-version-check install --no-deps --only-binary=:all: --platform "$platform" \
            --target "$work/root" "$wheel" || fail "pip does not take the wheel for $platform"
    done
    inside /bin/onbeat --version
    inside /bin/onbeat-fleet --version
    rm -rf "$work/root"
    echo "arm: pip takes the wheel for AArch64, with glibc and with musl, and its programs run"
}

# The image: its digest, every blob's name, and a bench in it.
try_image() {
    image=$(find "$dist" -name "onbeat-*-$(uname -m)-oci.tar")
    [ -n "$image" ] || fail "no image for this machine"
    mkdir "$work/layout"
    tar -C "$work/layout" -xf "$image"
    (cd "$work/layout/blobs/sha256" && for blob in *; do echo "$blob  $blob"; done | sha256sum --quiet --check) || fail "a blob is not what its name says"
    digest=$(cat "${image%.tar}.digest")
    [ -f "$work/layout/blobs/sha256/${digest#sha256:}" ] || fail "the image has no manifest $digest"
    if command -v skopeo >/dev/null 2>&1; then
        [ "$(skopeo inspect --format '{{.Digest}}' "oci-archive:$image")" = "$digest" ] || fail "skopeo reads another digest than $digest"
    else
        echo "skipped: image: skopeo, a second reader of its digest, is not installed"
    fi
    version=$(basename "$image" | cut -d- -f2)
    target=$(uname -m)-unknown-linux-musl
    if command -v umoci >/dev/null 2>&1 && [ -d "target/$target/dist" ]; then
        SOURCE_DATE_EPOCH=$(stat --format=%Y "$work/layout/index.json") sh "$here/dist-image.sh" "$version" "$target" "$work"
        cmp "$image" "$work/${image##*/}" || fail "the image made a second time has other bytes"
    fi
    may_enter image || return 0
    umoci raw unpack --image "$work/layout:$version" "$work/root" 2>"$work/log" || { cat "$work/log"; fail "umoci does not unpack the image"; }
    status=0
    inside /usr/bin/onbeat bench --for 10s --tunings none,P --loads idle,cpu=50% --limit 5ms --at 90 --out /runs >"$work/out" 2>&1 || status=$?
    grep -qE '^verdict  (PASS|FAIL|INCONCLUSIVE)' "$work/out" && [ "$status" != 2 ] || { cat "$work/out"; fail "the bench in the image gave no verdict"; }
    grep -E '^verdict  ' "$work/out" | head -n 1
    [ -s "$work/root/runs/latest/report.html" ] || fail "no report from the image"
    rm -rf "$work/root"
    echo "image: $digest, and a bench in it"
}

# pip, in an environment of its own: the program, the client, and that systems with musl take the same file.
try_wheel() {
    wheel=$(find "$dist" -name "onbeat-*_$(uname -m).whl")
    [ -n "$wheel" ] || fail "no wheel for this machine"
    python3 -m venv "$work/venv" || { echo "skipped: wheel: python3 with venv is not installed (package python3-venv)"; return 0; }
    pip="$work/venv/bin/pip --quiet --disable-pip-version-check"
    $pip install "$wheel" || { echo "skipped: wheel: numpy and lz4, which it needs, cannot be installed from PyPI"; return 0; }
    "$work/venv/bin/onbeat" --version
    "$work/venv/bin/onbeat-fleet" --version
    (cd "$work" && env -u ONBEAT venv/bin/python -c "
import onbeat
taken = onbeat.bench(duration='10s', tunings=['none', 'P'], loads=['idle'], limit='5ms', at=90)
print('verdict ', taken.verdict['sentence'])
print(onbeat.program.program())") >"$work/said" || { cat "$work/said"; fail "the client does not bench"; }
    cat "$work/said"
    grep -qE '^verdict  (PASS|FAIL|INCONCLUSIVE)' "$work/said" || fail "the client gives no verdict"
    grep -qxF "$work/venv/bin/onbeat" "$work/said" || fail "the client does not start the program of the wheel"
    $pip install --no-deps --only-binary=:all: --platform "musllinux_1_2_$(uname -m)" --target "$work/musl" "$wheel" || fail "pip does not take the wheel for musl"
    cmp "$work/musl/bin/onbeat" "$work/venv/bin/onbeat" || fail "the wheel has another program for musl"
    echo "wheel: pip installs the program and the client, with glibc and with musl"
}

# The bills of materials keep to CycloneDX's schema, and name what the programs are made of.
try_bill() {
    python3 -m venv "$work/bill" || { echo "skipped: bill: python3 with venv is not installed (package python3-venv)"; return 0; }
    "$work/bill/bin/pip" --quiet --disable-pip-version-check install "cyclonedx-python-lib[json-validation]>=11,<12" ||
        { echo "skipped: bill: the validator cannot be installed from PyPI"; return 0; }
    "$work/bill/bin/python" - "$dist"/*.cdx.json <<'PYTHON'
import json, pathlib, sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

assert len(sys.argv) > 4, "fewer bills than programs"
for name in sys.argv[1:]:
    text = pathlib.Path(name).read_text()
    if wrong := JsonStrictValidator(SchemaVersion.V1_5).validate_str(text):
        sys.exit(f"failed: {name}: {wrong}")
    components = json.loads(text)["components"]
    without = [one["name"] for one in components if not one.get("licenses")]
    assert not without, f"{name}: no licence of {without}"
    assert any(one["name"] == "rustix" for one in components), f"{name} does not name rustix"
    print(f"bill: {pathlib.Path(name).name}: {len(components)} components, each with its licence; valid CycloneDX 1.5")
PYTHON
}

# `cargo install --path`, each program of its own.
try_cargo() {
    for program in cli gateway camera fleet; do
        "${CARGO:-cargo}" install --quiet --locked --path "crates/onbeat-$program" --profile "${PROFILE:-release}" --target-dir target \
            --root "$work/cargo"
    done
    for program in onbeat onbeat-gateway onbeat-camera onbeat-fleet; do "$work/cargo/bin/$program" --version; done
    # onbeat finds the gateway beside itself.
    "$work/cargo/bin/onbeat" message key "$work/robot.key"
    echo "cargo: cargo install builds onbeat, and the gateway, the camera and the fleet by themselves"
}

for root in "$@"; do
    case $root in
        busybox | alpine | arm | image | wheel | bill | cargo) "try_$root" ;;
        *) try_release "$root" ;;
    esac
done
