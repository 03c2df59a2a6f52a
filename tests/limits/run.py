#!/usr/bin/env python3
"""Runs each test binary once, in the order of `lanes.py`, and the examples of the documentation beside them.

    python3 tests/limits/run.py [NAME ...]

With names, only binaries whose name contains one of them. The output of each is printed when it has ended; the last lines name
those that failed. Exit status 1 when one has.
"""

import sys
import threading
import time

import lanes


def main():
    words = sys.argv[1:]
    tests = [test for test in lanes.built() if not words or any(word in test.name for word in words)]
    failed = []
    printing = threading.Lock()

    def print_end(name, passed, seconds, output):
        with printing:
            print(f"\n     Running {name}, {seconds:.1f} s{'' if passed else ': FAILED'}\n{output.rstrip()}", flush=True)
            if not passed:
                failed.append(name)

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

    count = len(tests) + (not words)
    print(f"\ntest binaries: {count - len(failed)} passed, {len(failed)} failed")
    for name in sorted(failed):
        print(f"  FAILED {name}")
    sys.exit(1 if failed else 0)


def run_examples(print_end):
    started = time.time()
    command = ["cargo", "test", "--locked", "--workspace", "--doc", "--no-fail-fast"]
    run = lanes.start(command, lanes.REPOSITORY, lowest=True)
    output, _ = run.communicate()
    print_end("examples of the documentation", run.returncode == 0, time.time() - started, output)


if __name__ == "__main__":
    main()
