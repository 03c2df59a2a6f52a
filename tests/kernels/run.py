#!/usr/bin/env python3
"""Boots Debian's kernels under QEMU's software emulation and has `init` check there what onbeat bench changes and puts back.

Needs qemu-system-x86_64, busybox (static), hackbench, ping, strip, apt-get and dpkg-deb; `scripts/setup.sh kernels` installs
them. Kernel packages are downloaded by name and unpacked below --work; nothing is installed, no source list is changed.
"""

import argparse
import concurrent.futures
import functools
import gzip
import lzma
import pathlib
import re
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
# What the package names of a kernel look like: 6.1.0-56 in Debian 12, 6.12.117+deb12 since.
SERIES = {"6.1": r"6\.1\.[0-9]+-[0-9]+", "6.12": r"6\.12\.[0-9]+\+deb[0-9]+", "newest": r"[0-9.]+\+deb[0-9]+"}
FLAVOURS = {"cloud": "cloud-amd64", "stock": "amd64", "rt": "rt-amd64"}
# Suites that hold newer kernels than the host's own sources do; taken from the host's own mirror.
NEWER_SUITES = ["trixie-backports", "sid"]
# The HPET shows the host's time. On a busy host the kernel may take the TSC for many times slower than it is.
COMMAND_LINE = "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check tsc=unstable"
TOOLS = ["hackbench", "ip", "ping"]


def output(*words, **options):
    return subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE, **options).stdout


class Apt:
    """apt-get with lists of its own: the host's sources and the newer suites."""

    def __init__(self, root):
        sites = output("apt-get", "indextargets", "--format", "$(ORIGIN) $(LABEL) $(SITE)", "Identifier: Packages")
        debian = [line.split()[2] for line in sites.splitlines() if line.startswith("Debian Debian ")]
        if not debian:
            sys.exit("no Debian mirror among the sources of apt-get: kernels are downloaded from there. Add one and run apt-get update")
        for directory in ["lists/partial", "cache/archives/partial"]:
            (root / directory).mkdir(parents=True, exist_ok=True)
        own = pathlib.Path("/etc/apt/sources.list")
        lines = [own.read_text() if own.exists() else ""] + [f"deb {debian[0]} {suite} main" for suite in NEWER_SUITES]
        (root / "sources.list").write_text("\n".join(lines) + "\n")
        places = {"Etc::SourceList": root / "sources.list", "State::Lists": root / "lists", "Cache": root / "cache"}
        self.options = [f"-oDir::{name}={path.resolve()}" for name, path in places.items()]
        self.options += ["-oAcquire::Languages=none", "-oAPT::Sandbox::User=root"]
        subprocess.run(["apt-get", *self.options, "-qq", "update"], check=False)

    def newest(self, pattern):
        """The package whose name matches, with the highest version."""
        found = output("apt-cache", *self.options, "search", "--names-only", f"^{pattern}$")
        names = [line.split(" - ")[0] for line in found.splitlines()]
        madison = output("apt-cache", *self.options, "madison", *names) if names else ""
        versions = [[part.strip() for part in line.split("|")][:2] for line in madison.splitlines()]
        later = lambda a, b: 1 if subprocess.call(["dpkg", "--compare-versions", a[1], "gt", b[1]]) == 0 else -1
        return max(versions, key=functools.cmp_to_key(later), default=(None, None))

    def unpack(self, package, into):
        into.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", *self.options, "-qq", "download", package], check=True, cwd=into)
        for deb in into.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", deb, into], check=True)
            deb.unlink()


def kernel(apt, word, work):
    """Name and image of a kernel such as 6.1 or newest-rt."""
    series, _, flavour = word.partition("-")
    package, _ = apt.newest(f"linux-image-{SERIES[series]}-{FLAVOURS[flavour or 'cloud']}")
    if package is None:
        sys.exit(f"no package of kernel {word} in the sources of apt-get")
    release = package.removeprefix("linux-image-")
    image = work / f"vmlinuz-{release}"
    if not image.exists():
        unpacked = work / "unpacked"
        apt.unpack(package, unpacked)
        # Since 7.3 the image is in a package that linux-image only depends on.
        if not list(unpacked.rglob("vmlinuz*")):
            apt.unpack(f"linux-binary-{release}", unpacked)
        # As the kernel loads it: not compressed.
        for module in [*unpacked.rglob("veth.ko"), *unpacked.rglob("veth.ko.xz")]:
            packed = module.read_bytes()
            veth_of(image).write_bytes(lzma.decompress(packed) if module.suffix == ".xz" else packed)
        shutil.copy(next(unpacked.rglob("vmlinuz*")), image)
        shutil.rmtree(unpacked)
    return release, image


def veth_of(image):
    """The module for private cables, beside the image."""
    return image.with_name(f"veth-{image.name}.ko")


def archive(files):
    """Files as the kernel takes them at boot, format newc (Documentation/driver-api/early-userspace/buffer-format.rst)."""
    directories = {str(parent): None for path in files for parent in pathlib.PurePath(path).parents if parent.name}
    entries = sorted({**directories, **files}.items()) + [("TRAILER!!!", b"")]
    parts = []
    for number, (path, content) in enumerate(entries):
        mode, content = (0o040755, b"") if content is None else (0o100755, content)
        name = path.encode() + b"\0"
        fields = [number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0]
        header = b"070701" + b"".join(b"%08x" % field for field in fields) + name
        parts += [header, b"\0" * (-len(header) % 4), content, b"\0" * (-len(content) % 4)]
    return b"".join(parts)


def initramfs(onbeat, image, work):
    stripped = work / "onbeat"
    subprocess.run(["strip", "-o", stripped, onbeat], check=True)
    files = {"init": (HERE / "init").read_bytes(), "bin/onbeat": stripped.read_bytes()}
    files["bin/busybox"] = pathlib.Path(shutil.which("busybox")).read_bytes()
    files["etc/hosts"] = b"127.0.0.1 localhost\n"
    for program in [str(onbeat)] + [shutil.which(tool) for tool in TOOLS]:
        linked = subprocess.run(["ldd", program], check=False, text=True, capture_output=True).stdout
        for library in re.findall(r"(/\S+) \(", linked):
            files[library.lstrip("/")] = pathlib.Path(library).read_bytes()
    for tool in TOOLS:
        files[f"bin/{tool}"] = pathlib.Path(shutil.which(tool)).read_bytes()
    if veth_of(image).exists():
        files["veth.ko"] = veth_of(image).read_bytes()
    path = work / f"initramfs-{image.name}.gz"
    path.write_bytes(gzip.compress(archive(files), 1, mtime=0))
    return path


def boot(image, ramdisk, cgroup, options, log):
    """Runs a guest to its end or the time limit; its checks, as (name, result, why)."""
    words = ["timeout", "--foreground", str(options.limit), "qemu-system-x86_64", "-cpu", "max"]
    # One thread for all CPUs: with several, a CPU may run into code that another one is patching, which no kernel expects.
    words += ["-accel", "tcg,thread=single"]
    words += ["-smp", "2", "-m", "1G", "-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot"]
    words += ["-kernel", image, "-initrd", ramdisk]
    words += ["-append", f"{COMMAND_LINE} onbeat.cgroup={cgroup} onbeat.for={options.duration} onbeat.checks={options.checks}"]
    checks = []
    with open(log, "w", buffering=1) as kept, subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as guest:
        for line in guest.stdout:
            kept.write(line)
            found = re.search(r"CHECK (\S+) (ok|failed|absent) ?([^\r\n]*)", line)
            if found:
                checks.append(found.groups())
    if not any(name == "end" for name, _, _ in checks):
        checks.append(("end", "failed", f"the guest did not come to its end within {options.limit} s, see {log}"))
    return checks


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onbeat", required=True, type=pathlib.Path, help="the binary to test")
    parser.add_argument("--work", required=True, type=pathlib.Path, help="directory for kernels, initramfs and logs")
    parser.add_argument("--kernels", default="6.1,6.12,newest", help="comma-separated; with -stock or -rt for that flavour")
    parser.add_argument("--cgroups", default="v2,v2-cpuset,v1,none", help="comma-separated, see init")
    parser.add_argument("--for", dest="duration", default="20s", help="duration of the bench in the guest")
    parser.add_argument("--checks", default="all", choices=["all", "bpf"], help="bpf: that the BPF programs load, and nothing else")
    parser.add_argument("--limit", type=int, default=900, help="time limit of a guest in seconds")
    parser.add_argument("--jobs", type=int, default=1, help="guests at the same time")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    apt = Apt(options.work / "apt")
    kernels = [kernel(apt, word, options.work) for word in options.kernels.split(",")]
    disks = {image: initramfs(options.onbeat, image, options.work) for _, image in kernels}
    guests = [(release, image, cgroup) for release, image in kernels for cgroup in options.cgroups.split(",")]
    counts = {"ok": 0, "failed": 0, "absent": 0}

    def run(guest):
        release, image, cgroup = guest
        started = time.monotonic()
        checks = boot(image, disks[image], cgroup, options, options.work / f"{release}-{cgroup}.log")
        for name, result, why in checks:
            print(f"CHECK kernel={release} cgroup={cgroup} {name} {result} {why}".rstrip(), flush=True)
        print(f"kernel={release} cgroup={cgroup} took {time.monotonic() - started:.0f} s", flush=True)
        return checks

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for checks in pool.map(run, guests):
            for _, result, _ in checks:
                counts[result] += 1
    absent = f", {counts['absent']} not in the kernel" if counts["absent"] else ""
    print(f"{counts['ok']} passed, {counts['failed']} failed{absent}")
    sys.exit(1 if counts["failed"] or not counts["ok"] else 0)


main()
