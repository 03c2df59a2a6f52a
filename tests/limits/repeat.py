#!/usr/bin/env python3
"""Runs every test binary many times and prints, for each, how often it passed.

    python3 tests/limits/repeat.py [--quiet 50] [--stressed 20] [--only NAME,...] [--minutes 30] [--results FILE] [--snapshot DIR]

Binaries run in the lanes of `lanes.py`, as `make test` runs them. A quiet run therefore means: no other work than the tests
themselves. The stressed ones run beside `stress-ng --cpu 4` as well.

A run passes when the binary exits with status 0: nothing is retried. Counts are kept in the results file with the commits
they were taken on, so that a table that takes hours is made in several sittings, on several machines: `--minutes` or Ctrl-C ends this
one after the runs under way, the same command resumes it, and a run that was killed with the script is not counted. The output of
each failed run is kept in target/repeat; `--forget NAME,...` clears the counts of a test whose defect is fixed. `--minutes 0` prints the
table of what was counted.

With `--snapshot DIR` later edits do not matter: the tree and its test binaries are kept in DIR when the command first runs, and this
and later sittings run from there, with the results in DIR. Paths are compiled into the binaries, so DIR is mounted over the
tree for the tests alone, which needs root.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import lanes
from lanes import REPOSITORY, TestBinary

COUNTS = "tests/limits/repetitions.json"
FAILED_OUTPUT = REPOSITORY / "target/repeat"
# What tests fetch or build once, kept in a snapshot.
FETCHED = """target/clients-venv target/exports-venv target/interop-venv target/maindevices-venv target/messages-venv target/tmp
    tests/java/target""".split()
# What `cargo test` builds beside the test binaries.
BUILT_BESIDE = """target/debug/onbeat target/debug/onbeat-gateway target/debug/examples/level_foot target/debug/deps/libonbeat_c.a
    target/debug/deps/libonbeat_c.so""".split()


def commit():
    """The commit that is run, short, with a plus sign when the tree differs from it in more than the counts."""
    git = lambda *words: subprocess.run(["git", *words], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    head = git("rev-parse", "--short=7", "HEAD").stdout.strip()
    changed = git("diff", "--quiet", "HEAD", "--", ".", f":!{COUNTS}").returncode
    return f"{head}+" if changed else head


def link_or_copy(source, target):
    """Cargo replaces its files and never writes into them, so that a link keeps the old one."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def keep_snapshot(place):
    """Copies the tree with its test binaries to `place`, with the list of them last: without it, a snapshot is not whole."""
    listing = place / "target/repeat/tests.json"
    if listing.exists():
        return
    tests = lanes.built()
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True).stdout
    for name in filter(None, tracked.split("\0")):
        if (REPOSITORY / name).exists():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, place / name, follow_symlinks=False)

    for executable in [REPOSITORY / name for name in BUILT_BESIDE] + [Path(test.executable) for test in tests]:
        target = place / executable.relative_to(REPOSITORY)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        link_or_copy(executable, target)
    for name in FETCHED:
        if (REPOSITORY / name).exists():
            shutil.rmtree(place / name, ignore_errors=True)
            shutil.copytree(REPOSITORY / name, place / name, symlinks=True, copy_function=link_or_copy)

    listing.parent.mkdir(parents=True, exist_ok=True)
    listing.write_text(json.dumps({"commit": commit(), "tests": [[test.name, test.package, test.executable] for test in tests]}))


def go_on_in_snapshot(place, arguments):
    """Runs this script again, in a mount namespace where `place` is the tree."""
    if os.geteuid() != 0:
        sys.exit("--snapshot mounts the kept tree over this one, which needs root; without root, run a clone that nobody edits")
    place.mkdir(parents=True, exist_ok=True)
    keep_snapshot(place)
    script = 'mount --bind "$0" "$1" && cd "$1" && shift && exec "$@"'
    inner = [sys.executable, "tests/limits/repeat.py", *arguments, "--list", "target/repeat/tests.json"]
    os.execvp("unshare", ["unshare", "--mount", "--propagation=private", "sh", "-c", script, str(place), str(REPOSITORY), *inner])


class Results:
    """Counts by test binary and condition, on disk after each run."""

    def __init__(self, path, of_commit):
        self.path = path
        self.commit = of_commit
        self.entries = json.loads(path.read_text()) if path.exists() else {}
        self.lock = threading.RLock()

    def entry(self, name, condition):
        empty = {"passed": 0, "failed": 0, "seconds": 0.0, "commits": []}
        with self.lock:
            return self.entries.setdefault(name, {}).setdefault(condition, empty)

    def add(self, name, condition, status, seconds, output):
        with self.lock:
            self.count(self.entry(name, condition), name, condition, status, seconds, output)

    def count(self, entry, name, condition, status, seconds, output):
        if self.commit not in entry["commits"]:
            entry["commits"].append(self.commit)
        entry["passed" if status == 0 else "failed"] += 1
        entry["seconds"] = round(entry["seconds"] + seconds, 2)
        if status != 0:
            FAILED_OUTPUT.mkdir(parents=True, exist_ok=True)
            place = FAILED_OUTPUT / f"{name.replace(' ', '-')}-{condition}-{entry['failed']}.log"
            place.write_text(output)
            print(f"FAILED {name} ({condition}): {place}", flush=True)
        # Renamed over the old file: killed at any moment, one of the two is whole.
        written = self.path.with_suffix(".new")
        rows = (f" {json.dumps(name)}: {json.dumps(entry, sort_keys=True)}" for name, entry in sorted(self.entries.items()))
        written.write_text("{\n" + ",\n".join(rows) + "\n}\n")
        written.replace(self.path)


def bring(test, condition, wanted, results, is_over):
    """Brings one binary to its number of runs, unless the time is over first."""
    entry = results.entry(test.name, condition)
    while entry["passed"] + entry["failed"] < wanted:
        if is_over():
            return
        started = time.time()
        status, output = test.run(gives_way=condition == "quiet")
        results.add(test.name, condition, status, time.time() - started, output)
    print(f"{condition}: {test.name} {entry['passed']} of {entry['passed'] + entry['failed']}", flush=True)


def repeat(tests, condition, wanted, results, is_over):
    """Brings each binary to its number of runs, the short ones first: most of a sitting's rows are whole."""

    def seconds(test):
        entries = [results.entry(test.name, any_condition) for any_condition in ("quiet", "stressed")]
        return sum(entry["seconds"] for entry in entries) / max(sum(entry["passed"] + entry["failed"] for entry in entries), 1)

    lanes.in_lanes(sorted(tests, key=seconds), lambda test: bring(test, condition, wanted, results, is_over))


def table(tests, results):
    print("| test binary | one run | quiet | beside stress-ng |\n|---|--:|--:|--:|")
    for name in sorted(test.name for test in tests):
        cells = [results.entry(name, condition) for condition in ("quiet", "stressed")]
        runs = [cell["passed"] + cell["failed"] for cell in cells]
        one = f"{cells[0]['seconds'] / runs[0]:.1f} s" if runs[0] else "-"
        shares = [f"{cell['passed']} of {count}" if count else "-" for cell, count in zip(cells, runs)]
        print(f"| {name} | {one} | {shares[0]} | {shares[1]} |")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quiet", type=int, default=50)
    parser.add_argument("--stressed", type=int, default=20)
    parser.add_argument("--only", default="")
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--results", type=Path, default=REPOSITORY / COUNTS)
    parser.add_argument("--forget", default="")
    parser.add_argument("--snapshot", type=Path)
    # The test binaries of a snapshot, with their commit.
    parser.add_argument("--list", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def known_tests(listing):
    """All test binaries and their commit: those of a snapshot, or of the tree, which are built."""
    if not listing:
        return lanes.built(), commit()
    kept = json.loads(listing.read_text())
    known = [TestBinary(*test) for test in kept["tests"]]
    lanes.require_names(known)
    return known, kept["commit"]


def main():
    given = arguments()
    if given.snapshot and not given.list:
        go_on_in_snapshot(given.snapshot.resolve(), sys.argv[1:])
    known, of_commit = known_tests(given.list)

    given.results.parent.mkdir(parents=True, exist_ok=True)
    results = Results(given.results, of_commit)
    for name in filter(None, given.forget.split(",")):
        results.entries.pop(name, None)
    only = [word for word in given.only.split(",") if word]
    tests = [test for test in known if not only or any(word in test.name for word in only)]

    stopped = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: stopped.set())
    end = time.time() + 60 * given.minutes
    is_over = lambda: stopped.is_set() or time.time() > end

    repeat(tests, "quiet", given.quiet, results, is_over)
    if given.stressed and not is_over():
        stress = subprocess.Popen(["stress-ng", "--cpu", "4", "--quiet"], start_new_session=True)
        try:
            repeat(tests, "stressed", given.stressed, results, is_over)
        finally:
            stress.terminate()
            stress.wait()

    table(tests, results)
    commits = {commit for entry in results.entries.values() for counts in entry.values() for commit in counts["commits"]}
    print(f"\nCommits: {', '.join(sorted(commits))}.")
    failed = sum(entry["failed"] for test in tests for entry in results.entries.get(test.name, {}).values())
    sys.exit(1 if failed else 0)


main()
