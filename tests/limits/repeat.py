#!/usr/bin/env python3
"""Runs every test binary many times and prints, for each, how often it passed.

    python3 tests/limits/repeat.py [--quiet 50] [--stressed 20] [--only NAME,...] [--minutes 30] [--results FILE]

The quiet runs have the machine to themselves, one test binary at a time; the stressed ones run beside `stress-ng --cpu 4`.
A run passes when the binary exits with status 0: nothing is retried. Counts are kept in the results file with the commits
they were taken on, so that a table that takes hours is made in several sittings; `--minutes` ends this one. The output of each
failed run is kept beside the results file; `--forget NAME,...` clears the counts of a test whose defect is fixed.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
# Longer than any binary takes beside stress-ng: a run that reaches it hangs.
LIMIT_S = 1200


def built():
    """All test binaries: name, package directory and executable, from cargo's own messages."""
    command = ["cargo", "test", "--locked", "--workspace", "--no-run", "--message-format=json"]
    output = subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True).stdout
    for line in output.splitlines():
        message = json.loads(line)
        if message.get("reason") != "compiler-artifact" or not message["executable"] or not message["profile"]["test"]:
            continue
        package = Path(message["manifest_path"]).parent
        name = f"{package.name} {message['target']['name']}" + (" (bin)" if "bin" in message["target"]["kind"] else "")
        yield name, package, message["executable"]


def commit():
    """The commit that is run, short, with a plus sign when the tree differs from it."""
    return subprocess.run(
        ["git", "describe", "--always", "--abbrev=7", "--dirty=+", "--exclude=*"], cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


def run_once(package, executable):
    """Exit status and output of one run, started as `cargo test` starts it."""
    environment = dict(os.environ, CARGO_MANIFEST_DIR=str(package), ONBEAT=str(REPOSITORY / "target/release/onbeat"))
    try:
        done = subprocess.run(
            [executable], cwd=package, env=environment, timeout=LIMIT_S, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired as hung:
        return None, f"{hung.stdout or ''}\nno end after {LIMIT_S} s\n"


class Results:
    """Counts by test binary and condition, on disk after each run."""

    def __init__(self, path):
        self.path = path
        self.commit = commit()
        self.entries = json.loads(path.read_text()) if path.exists() else {}

    def entry(self, name, condition):
        empty = {"passed": 0, "failed": 0, "seconds": 0.0, "commits": []}
        return self.entries.setdefault(name, {}).setdefault(condition, empty)

    def add(self, name, condition, status, seconds, output):
        entry = self.entry(name, condition)
        if self.commit not in entry["commits"]:
            entry["commits"].append(self.commit)
        entry["passed" if status == 0 else "failed"] += 1
        entry["seconds"] += seconds
        if status != 0:
            place = self.path.with_name(f"{name.replace(' ', '-')}-{condition}-{entry['failed']}.log")
            place.write_text(output)
            print(f"FAILED {name} ({condition}): {place}", flush=True)
        self.path.write_text(json.dumps(self.entries, indent=1, sort_keys=True))


def repeat(tests, condition, wanted, results, end):
    """Brings each binary to its number of runs, in cargo's order, until the time is over."""
    for name, package, executable in tests:
        entry = results.entry(name, condition)
        while entry["passed"] + entry["failed"] < wanted:
            if time.time() > end:
                return
            started = time.time()
            status, output = run_once(package, executable)
            results.add(name, condition, status, time.time() - started, output)
        print(f"{condition}: {name} {entry['passed']} of {entry['passed'] + entry['failed']}", flush=True)


def table(tests, results):
    print("| test binary | one run | quiet | beside stress-ng |\n|---|--:|--:|--:|")
    for name, _, _ in sorted(tests):
        cells = [results.entry(name, condition) for condition in ("quiet", "stressed")]
        runs = [cell["passed"] + cell["failed"] for cell in cells]
        one = f"{cells[0]['seconds'] / runs[0]:.1f} s" if runs[0] else "-"
        shares = [f"{cell['passed']} of {count}" if count else "-" for cell, count in zip(cells, runs)]
        print(f"| {name} | {one} | {shares[0]} | {shares[1]} |")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--quiet", type=int, default=50)
    arguments.add_argument("--stressed", type=int, default=20)
    arguments.add_argument("--only", default="")
    arguments.add_argument("--minutes", type=float, default=1e9)
    arguments.add_argument("--results", type=Path, default=REPOSITORY / "target/repeat/results.json")
    arguments.add_argument("--forget", default="")
    given = arguments.parse_args()

    given.results.parent.mkdir(parents=True, exist_ok=True)
    results = Results(given.results)
    for name in filter(None, given.forget.split(",")):
        results.entries.pop(name, None)
    only = [word for word in given.only.split(",") if word]
    tests = [test for test in built() if not only or any(word in test[0] for word in only)]
    end = time.time() + 60 * given.minutes

    repeat(tests, "quiet", given.quiet, results, end)
    if given.stressed and time.time() < end:
        stress = subprocess.Popen(["stress-ng", "--cpu", "4", "--quiet"])
        try:
            repeat(tests, "stressed", given.stressed, results, end)
        finally:
            stress.terminate()
            stress.wait()

    table(tests, results)
    commits = {commit for entry in results.entries.values() for counts in entry.values() for commit in counts["commits"]}
    print(f"\nCommits: {', '.join(sorted(commits))}.")
    failed = sum(entry["failed"] for name, _, _ in tests for entry in results.entries.get(name, {}).values())
    sys.exit(1 if failed else 0)


main()
