#!/usr/bin/env python3
"""Runs every test binary many times and prints, for each, how often it passed.

    python3 tests/limits/repeat.py [--quiet 50] [--stressed 20] [--only NAME,...] [--minutes 30] [--results FILE] [--snapshot DIR]

Binaries run in three lanes at once. Those whose time is virtual (PURE below) fill the CPUs; those that mostly wait and leave the
machine as it is (WAITING) run two at a time; all others, which load the machine, change it or measure it, run one at a time.
A quiet run therefore means: no other work than the tests themselves. The stressed ones run beside `stress-ng --cpu 4` as well.

A run passes when the binary exits with status 0: nothing is retried. Counts are kept in the results file with the commits
they were taken on, so that a table that takes hours is made in several sittings: `--minutes` or Ctrl-C ends this one after
the runs under way, the same command resumes it, and a run that was killed with the script is not counted. The output of
each failed run is kept beside the results file; `--forget NAME,...` clears the counts of a test whose defect is fixed.

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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
# Longer than any binary takes beside stress-ng: a run that reaches it hangs.
LIMIT_S = 1200
# As in the Makefile: most tests wait.
TEST_THREADS = "4"
# Binaries that read no clock and no setting of the machine, and share nothing but a temporary directory of their own. A name that
# no binary has is an error, here and below.
PURE = {
    "onbeat": """advice cause_adds_up cause_classify cause_evidence cause_pages cause_perfetto net_packet
        net_plan record_events record_spec record_windows report_compare report_effects report_every_release report_every_series report_extremes
        report_modes report_page report_rows report_spikes report_statistics report_summary report_sweeps report_tables
        report_verdict""",
    "onbeat-ethercat": "onbeat_ethercat layout_spec",
    "onbeat-robot": """bus_chain bus_places bus_rate_limits bus_setup bus_spec bus_tampering_search robot_bus robot_goals
        robot_ladder robot_limits robot_moves robot_resume robot_view""",
    "onbeat-rt": "cycle_spec edge_loop_spec frame_spec relative_spec",
    "onbeat-segment": """sim_commands sim_determinism sim_devices sim_esi sim_ethercrab sim_faults sim_mailbox sim_registers
        sim_states sim_two_hundred""",
    "onbeat-tune": "catalogue explain lint",
}
# Binaries that mostly wait for runs of their own: with a state directory of their own where they need one, without a shield, without
# figures that other work could spoil. None of them kills an onbeat or reads all that another prints: the next start on the
# machine removes what a killed one has left, and says so.
WAITING = {
    "onbeat": "net_packet_elsewhere net_rtt_faults",
    "onbeat-c": "c_library",
    "onbeat-cli": """abused abused_inputs bus_queries completion exports_open_elsewhere help limits long_live output_is_not_lost
        robot_esi run_files_open_in_java run_findings spec spikes_open_in_perfetto tables tune_machines vm_commands""",
    "onbeat-message": "messages_match",
}
# What tests fetch or build once, kept in a snapshot.
FETCHED = """target/clients-venv target/exports-venv target/maindevices-venv target/messages-venv target/tmp tests/java/target""".split()
# What `cargo test` builds beside the test binaries.
BUILT_BESIDE = """target/debug/onbeat target/debug/examples/level_foot target/debug/deps/libonbeat_c.a
    target/debug/deps/libonbeat_c.so""".split()


def built():
    """All test binaries: name, package directory and executable, from cargo's own messages."""
    command = ["cargo", "test", "--locked", "--workspace", "--no-run", "--message-format=json"]
    output = subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True).stdout
    for line in output.splitlines():
        message = json.loads(line)
        if message.get("reason") != "compiler-artifact" or not message["executable"] or not message["profile"]["test"]:
            continue
        package = str(Path(message["manifest_path"]).parent)
        name = f"{Path(package).name} {message['target']['name']}" + (" (bin)" if "bin" in message["target"]["kind"] else "")
        yield name, package, message["executable"]


def commit():
    """The commit that is run, short, with a plus sign when the tree differs from it."""
    return subprocess.run(
        ["git", "describe", "--always", "--abbrev=7", "--dirty=+", "--exclude=*"], cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


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
    tests = list(built())
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True).stdout
    for name in filter(None, tracked.split("\0")):
        if (REPOSITORY / name).exists():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, place / name, follow_symlinks=False)

    for executable in [REPOSITORY / name for name in BUILT_BESIDE] + [Path(executable) for _, _, executable in tests]:
        target = place / executable.relative_to(REPOSITORY)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        link_or_copy(executable, target)
    for name in FETCHED:
        if (REPOSITORY / name).exists():
            shutil.rmtree(place / name, ignore_errors=True)
            shutil.copytree(REPOSITORY / name, place / name, symlinks=True, copy_function=link_or_copy)

    listing.parent.mkdir(parents=True, exist_ok=True)
    listing.write_text(json.dumps({"commit": commit(), "tests": tests}))


def go_on_in_snapshot(place, arguments):
    """Runs this script again, in a mount namespace where `place` is the tree."""
    if os.geteuid() != 0:
        sys.exit("--snapshot mounts the kept tree over this one, which needs root; without root, run a clone that nobody edits")
    place.mkdir(parents=True, exist_ok=True)
    keep_snapshot(place)
    script = 'mount --bind "$0" "$1" && cd "$1" && shift && exec "$@"'
    inner = [sys.executable, "tests/limits/repeat.py", *arguments, "--list", "target/repeat/tests.json"]
    os.execvp("unshare", ["unshare", "--mount", "--propagation=private", "sh", "-c", script, str(place), str(REPOSITORY), *inner])


def run_once(package, executable):
    """Exit status and output of one run, started as `cargo test` starts it, out of reach of the terminal's Ctrl-C."""
    environment = dict(os.environ, CARGO_MANIFEST_DIR=package, RUST_TEST_THREADS=TEST_THREADS)
    run = subprocess.Popen(
        [executable], cwd=package, env=environment, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    try:
        output, _ = run.communicate(timeout=LIMIT_S)
        return run.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGKILL)
        output, _ = run.communicate()
        return None, f"{output}\nno end after {LIMIT_S} s\n"


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
        entry["seconds"] += seconds
        if status != 0:
            place = self.path.with_name(f"{name.replace(' ', '-')}-{condition}-{entry['failed']}.log")
            place.write_text(output)
            print(f"FAILED {name} ({condition}): {place}", flush=True)
        # Renamed over the old file: killed at any moment, one of the two is whole.
        written = self.path.with_suffix(".new")
        written.write_text(json.dumps(self.entries, indent=1, sort_keys=True))
        written.replace(self.path)


def is_of(group, name):
    package, _, target = name.partition(" ")
    return target in group.get(package, "").split()


def lanes(tests):
    """Each lane with the binaries that may run at once in it."""
    pure = [test for test in tests if is_of(PURE, test[0])]
    waiting = [test for test in tests if is_of(WAITING, test[0])]
    return [(os.cpu_count(), pure), (2, waiting), (1, [test for test in tests if test not in pure and test not in waiting])]


def bring(test, condition, wanted, results, is_over):
    """Brings one binary to its number of runs, unless the time is over first."""
    name, package, executable = test
    entry = results.entry(name, condition)
    while entry["passed"] + entry["failed"] < wanted:
        if is_over():
            return
        started = time.time()
        status, output = run_once(package, executable)
        results.add(name, condition, status, time.time() - started, output)
    print(f"{condition}: {name} {entry['passed']} of {entry['passed'] + entry['failed']}", flush=True)


def repeat(tests, condition, wanted, results, is_over):
    """Brings each binary to its number of runs, all lanes at once."""
    pools = [(ThreadPoolExecutor(together), members) for together, members in lanes(tests)]
    started = [pool.submit(bring, test, condition, wanted, results, is_over) for pool, members in pools for test in members]
    for ended in started:
        ended.result()


def table(tests, results):
    print("| test binary | one run | quiet | beside stress-ng |\n|---|--:|--:|--:|")
    for name, _, _ in sorted(tests):
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
    parser.add_argument("--results", type=Path, default=REPOSITORY / "target/repeat/results.json")
    parser.add_argument("--forget", default="")
    parser.add_argument("--snapshot", type=Path)
    # The test binaries of a snapshot, with their commit.
    parser.add_argument("--list", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def known_tests(listing):
    """All test binaries and their commit: those of a snapshot, or of the tree, which are built."""
    if listing:
        kept = json.loads(listing.read_text())
        known, of_commit = kept["tests"], kept["commit"]
    else:
        known, of_commit = list(built()), commit()
    names = {name for name, _, _ in known}
    listed = {f"{package} {target}" for group in (PURE, WAITING) for package, targets in group.items() for target in targets.split()}
    if absent := sorted(listed - names):
        sys.exit(f"PURE or WAITING names what is not a test binary: {', '.join(absent)}")
    return known, of_commit


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
    tests = [test for test in known if not only or any(word in test[0] for word in only)]

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
    failed = sum(entry["failed"] for name, _, _ in tests for entry in results.entries.get(name, {}).values())
    sys.exit(1 if failed else 0)


main()
