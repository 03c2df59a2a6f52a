#!/usr/bin/env python3
"""Runs each test module once, in the order of `lanes.py`, and the examples of the documentation beside them.

    python3 tests/runner/run.py [NAME ...]

With names, only modules whose name contains one of them. The output of each is printed when it has ended; the last lines name
the tests that were skipped, with their reasons, and the modules that failed, with what their tests said. Exit status 1 when one has.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time

import lanes


def main():
    # A shell that starts this in the background ignores SIGINT for it, and so would every program that a test interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    words = sys.argv[1:]
    tests = [test for test in lanes.built() if not words or any(word in test.name for word in words)]
    failed = {}
    skipped = []
    printing = threading.Lock()

    def print_end(name, passed, seconds, output):
        with printing:
            shown = without_successes(output) if passed else output
            print(f"\n     Running {name}, {seconds:.1f} s{'' if passed else ': FAILED'}\n{shown.rstrip()}", flush=True)
            skipped.extend(f"{name}, {skip}" for skip in skips(output))
            if not passed:
                failed[name] = why_failed(output)

    def take(test):
        started = time.time()
        status, output = test.run()
        print_end(test.name, status == 0, time.time() - started, output)

    documented = threading.Thread(target=run_examples, args=(print_end,))
    if not words:
        documented.start()
    lanes.in_lanes(tests, take)
    if not words:
        documented.join()

    print(f"\nskipped here: {len(skipped)}")
    for skip in sorted(skipped):
        print(f"  {skip}")
    count = len(tests) + (not words)
    print(f"\ntest modules: {count - len(failed)} passed, {len(failed)} failed")
    for name, why in sorted(failed.items()):
        print(f"  FAILED {name}")
        print("".join(f"    {line}\n" for line in why), end="")
    sys.exit(1 if failed else 0)


def without_successes(output):
    """The output without what tests that pass have printed, such as the panics that they provoke."""
    return re.sub(r"^successes:\n.*?(?=^test result: )", "", output, flags=re.DOTALL | re.MULTILINE)


LINES_OF_A_FAILURE = 30
LETTERS_OF_A_LINE = 500


def why_failed(output):
    """
    What the tests that failed have said, shortened: of a long run often only the last lines are kept.

    >>> why_failed("test a ... FAILED\\n\\nfailures:\\n\\n---- a stdout ----\\npanicked at b.rs:1:\\nleft: 1\\n\\n\\nfailures:\\n    a\\n\\ntest result: FAILED")
    ['---- a stdout ----', 'panicked at b.rs:1:', 'left: 1']
    >>> why_failed("killed\\n")
    ['killed']
    """
    parts = re.split(r"^failures:\n", output, flags=re.MULTILINE)
    told = parts[-2] if len(parts) > 2 else output
    lines = [line[:LETTERS_OF_A_LINE] for line in told.splitlines() if line.strip()]
    half = LINES_OF_A_FAILURE // 2
    return lines if len(lines) <= LINES_OF_A_FAILURE else [*lines[:half], f"[{len(lines) - 2 * half} lines]", *lines[-half:]]


IGNORED = re.compile(r"test (?:\[skipped: (?P<kind>.*?)\] +)?(?P<name>.+?) +\.\.\. ignored(?:, (?P<built_in>.*)| \((?P<mimic>.*)\))?")


def skips(output):
    """
    Tests that were skipped, whole or in part, with their reasons: lines of their output that begin with "skipped", and what a harness ignored.

    >>> skips("---- reads_a_clock stdout ----\\nskipped: no clock here\\nsuccesses:\\nskipped: of no test")
    ['reads_a_clock: skipped: no clock here', 'skipped: of no test']
    >>> skips("test [skipped: zsh is not installed] zsh_completes words  ... ignored")
    ['zsh_completes words: skipped: zsh is not installed']
    >>> skips("test a_peer_answers ... ignored (no python3)\\ntest b ... ignored, too long\\ntest c ... ignored\\ntest d ... ok")
    ['a_peer_answers: skipped: no python3', 'b: skipped: too long', 'c: skipped without a reason']
    """
    found = []
    test = ""
    for line in output.splitlines():
        if ignored := IGNORED.fullmatch(line):
            reason = ignored["kind"] or ignored["built_in"] or ignored["mimic"]
            found.append(f"{ignored['name']}: skipped{f': {reason}' if reason else ' without a reason'}")
        elif head := re.fullmatch(r"---- (\S+) stdout ----", line):
            test = f"{head[1]}: "
        elif line.startswith(("skipped: ", "skipped in part: ")):
            found.append(test + line)
        elif line == "successes:":
            test = ""
    return found


def run_examples(print_end):
    started = time.time()
    # They are linked while other tests shield a CPU.
    flags = subprocess.run(["sh", "scripts/link-flags.sh"], cwd=lanes.REPOSITORY, check=True, stdout=subprocess.PIPE, text=True).stdout
    environment = dict(os.environ, RUST_TEST_THREADS=lanes.TEST_THREADS, RUSTDOCFLAGS=f"{os.environ.get('RUSTDOCFLAGS', '')} {flags.strip()}".strip())
    command = ["cargo", "test", "--locked", "--workspace", "--doc", "--no-fail-fast"]
    run = lanes.start(command, lanes.REPOSITORY, environment, lowest=True)
    output, _ = run.communicate()
    print_end("examples of the documentation", run.returncode == 0, time.time() - started, output)


if __name__ == "__main__":
    main()
