#!/usr/bin/env python3
"""What `onbeat watch` adds to the wake-up latency of the loop that it watches.

    sudo python3 tests/watch/cost.py --onbeat target/release/onbeat [--turns 12]

In turns a loop of 1 ms (planted_loop.c, its own clock) is alone, watched without causes, and watched with them; the first four seconds, in
which the loop is looked for, do not count. Prints the median over turns of the difference to the turn alone before it, with the interval
that a sign test gives at 95 %, for p10, p25, p50 and p99.
"""

import argparse
import json
import math
import subprocess
import tempfile
from pathlib import Path

MODES = {"measuring": ["--no-causes"], "with causes": []}
COUNTED, UNCOUNTED = 4_000, 5_000
FIGURES = ["p10_ns", "p25_ns", "p50_ns", "p99_ns"]


def turn(loop, onbeat, options):
    """The loop's own percentiles, alone where there are no options."""
    cycles = COUNTED + UNCOUNTED
    program = subprocess.Popen([loop, "latency", str(cycles), str(COUNTED)], stdout=subprocess.PIPE, text=True)
    with tempfile.TemporaryDirectory() as directory:
        watch = None
        if options is not None:
            words = [onbeat, "watch", str(program.pid), "--for", "60s", *options]
            watch = subprocess.Popen(words, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        printed, _ = program.communicate()
        if watch and watch.wait() not in (0, 1, 3):
            raise SystemExit(f"onbeat watch ended with {watch.returncode}")
    return json.loads(printed)


def interval(values):
    """The median and its interval by the sign test."""
    ordered = sorted(values)
    n, below, rank = len(ordered), 0.0, 0
    while rank < n // 2:
        below += math.comb(n, rank) / 2**n
        if below > 0.025:
            break
        rank += 1
    low = max(rank - 1, 0)
    return ordered[n // 2], ordered[low], ordered[n - 1 - low]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onbeat", required=True)
    parser.add_argument("--turns", type=int, default=12)
    words = parser.parse_args()
    onbeat = str(Path(words.onbeat).resolve())
    with tempfile.TemporaryDirectory() as directory:
        loop = str(Path(directory) / "planted_loop")
        source = Path(__file__).with_name("planted_loop.c")
        subprocess.run(["cc", "-O2", "-o", loop, source, "-lpthread"], check=True)
        added = {mode: {figure: [] for figure in FIGURES} for mode in MODES}
        alone = {figure: [] for figure in FIGURES}
        for _ in range(words.turns):
            for mode, options in MODES.items():
                before, watched = turn(loop, onbeat, None), turn(loop, onbeat, options)
                for figure in FIGURES:
                    alone[figure].append(before[figure])
                    added[mode][figure].append(watched[figure] - before[figure])

    print("| | " + " | ".join(figure.removesuffix("_ns") for figure in FIGURES) + " |")
    print("|---|" + "---|" * len(FIGURES))
    print("| alone | " + " | ".join(f"{sorted(alone[figure])[len(alone[figure]) // 2] / 1e3:.1f} µs" for figure in FIGURES) + " |")
    for mode, figures in added.items():
        cells = []
        for figure in FIGURES:
            median, low, high = interval(figures[figure])
            cells.append(f"{median / 1e3:+.1f} µs ({low / 1e3:+.1f} to {high / 1e3:+.1f})")
        print(f"| {mode} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
