#!/usr/bin/env python3
"""What `onbeat watch` costs: the wake-up latency that it adds to the loop that it watches, its own CPU time and memory.

    sudo python3 tests/watch/cost.py --onbeat target/release/onbeat [--turns 12] [latency|own|threads|flood]...

In turns a loop of 1 ms (planted_loop.c, its own clock) is alone, watched without causes, and watched with them; the first four seconds, in
which the loop is looked for, do not count. Prints the median over turns of the difference to the turn alone before it, with the interval
that a sign test gives at 95 %, for p10, p25, p50 and p99.

`own` prints its CPU time, start and choice of the loop included, and the largest memory at one loop of 1 kHz; `threads` the same for 40 loops at once,
and that each release is measured, skipped or counted as not seen; `flood` what it does when the loop begins to change threads without end.
"""

import argparse
import json
import math
import os
import subprocess
import tempfile
import time
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


def used(words, directory):
    """Output, exit status, CPU time as a part of one core, and the largest memory in MiB, of one command."""
    before = time.monotonic()
    with open(Path(directory) / "said", "w+") as said:
        process = subprocess.Popen(words, cwd=directory, stdout=said, stderr=subprocess.STDOUT, text=True)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        output = said.read()
    part = (usage.ru_utime + usage.ru_stime) / (time.monotonic() - before)
    return output, process.returncode, part, usage.ru_maxrss / 1024


def own_cost(loop, onbeat):
    for mode, options in MODES.items():
        with tempfile.TemporaryDirectory() as directory:
            program = subprocess.Popen([loop, "latency", "40000", "1"], stdout=subprocess.DEVNULL)
            output, status, part, mib = used([onbeat, "watch", str(program.pid), "--for", "30s", *options], directory)
            program.kill()
            program.wait()
        if status not in (0, 1, 3):
            raise SystemExit(f"onbeat watch ended with {status}: {output}")
        print(f"own cost, 30 s, {mode}: {part:.2%} of a core, {mib:.1f} MiB")


def many_threads(loop, onbeat, count=40, seconds=10):
    with tempfile.TemporaryDirectory() as directory:
        program = subprocess.Popen([loop, "threads", str(count), "60000"])
        chosen = [word for k in range(count) for word in ("--thread", f"loop-{k}")]
        output, status, part, mib = used([onbeat, "watch", str(program.pid), "--for", f"{seconds}s", "--out", "runs", *chosen], directory)
        program.kill()
        program.wait()
        if status not in (0, 1, 3):
            raise SystemExit(f"onbeat watch ended with {status}: {output}")
        cells = []
        for run in sorted(path for path in (Path(directory) / "runs").iterdir() if not path.is_symlink()):
            shown = subprocess.run([onbeat, "report", str(run), "--json"], stdout=subprocess.PIPE, text=True, check=True)
            cells.append(json.loads(shown.stdout)["cells"][0])
    assert len(cells) == count, f"{len(cells)} runs of {count} threads"
    slots, lost, skipped = (sum(cell[key] for cell in cells) for key in ("slots", "lost", "skipped"))
    samples = sum(cell["series"]["release_latency"]["count"] for cell in cells)
    # A skipped release has a latency too: that until the next start.
    assert samples + lost == slots, f"{samples} samples and {lost} not seen of {slots} releases"
    least = min(cell["slots"] for cell in cells)
    print(f"{count} threads of 1 ms, {seconds} s: {slots:,} releases, least of a thread {least:,}, {skipped:,} skipped, {lost:,} not seen; "
          f"{part:.1%} of a core, {mib:.1f} MiB")


def flood(loop, onbeat):
    with tempfile.TemporaryDirectory() as directory:
        program = subprocess.Popen([loop, "flood", "6000"])
        output, status, part, mib = used([onbeat, "watch", str(program.pid), "--for", "30s"], directory)
        program.kill()
        program.wait()
    print(f"flood: status {status}, {part:.1%} of a core, {mib:.1f} MiB\n{output}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onbeat", required=True)
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("parts", nargs="*", metavar="PART", help="latency, own, threads, flood; all by default")
    words = parser.parse_args()
    parts = words.parts or ["latency", "own", "threads", "flood"]
    onbeat = str(Path(words.onbeat).resolve())
    with tempfile.TemporaryDirectory() as directory:
        loop = str(Path(directory) / "planted_loop")
        source = Path(__file__).with_name("planted_loop.c")
        subprocess.run(["cc", "-O2", "-o", loop, source, "-lpthread"], check=True)
        for name, part in {"own": own_cost, "threads": many_threads, "flood": flood}.items():
            if name in parts:
                part(loop, onbeat)
        if "latency" not in parts:
            return
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
