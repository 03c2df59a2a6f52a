"""What a live view costs the loop: a walking humanoid with and without a browser that shows it, in turns.

usage: python3 tests/view/cost.py [--onbeat PATH] [--pairs 8] [--for 10s] [--chromium PATH]

Each pair is a run with a viewer and one without, in random order. Printed per figure: the mean of the runs without, the mean difference
and its 95 % interval from a bootstrap over pairs; and the CPU share of the view's thread. The viewer reads the events as a browser does;
with --chromium it is a headless Chromium, whose own drawing takes CPU time from everything else on a small machine.
"""

import argparse
import json
import os
import random
import re
import subprocess
import tempfile
import threading
import urllib.request

FIGURES = [
    ("release latency, mean", "release_latency", 100.0, "mean_ns"),
    ("release latency, 99 %", "release_latency", 99.0, "max_ns"),
    ("execution time, mean", "execution_time", 100.0, "mean_ns"),
    ("execution time, 99 %", "execution_time", 99.0, "max_ns"),
]
RESAMPLES = 10_000


def reader(address):
    """Reads the events until the run ends."""
    with urllib.request.urlopen(address + "events") as events:
        while events.read1(65536):
            pass


def looked_at(address, chromium):
    """Starts what looks at the view; returns what ends it."""
    if chromium is None:
        thread = threading.Thread(target=reader, args=(address,), daemon=True)
        thread.start()
        return lambda: thread.join(10)
    folder = tempfile.TemporaryDirectory()
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", f"--user-data-dir={folder.name}", "--remote-debugging-port=0"]
    browser = subprocess.Popen([chromium, *options, address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end():
        browser.terminate()
        browser.wait()
        folder.cleanup()

    return end


def run(args, folder, has_viewer):
    """Runs the robot once; returns the figures, and the CPU share of the view in percent."""
    command = [args.onbeat, "robot", "run", "humanoid", "--trajectory", "gait", "--for", args.duration, "--no-causes", "--json", "--out", folder]
    # Both publish their cycles; one has a view.
    command += ["--name", f"cost-{os.getpid()}"] + (["--view"] if has_viewer else [])
    robot = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "ONBEAT_STATE_DIR": folder})
    end, said = None, []

    def listen():
        nonlocal end
        for line in robot.stderr:
            said.append(line)
            address = re.search(r"live view: (http://\S+)", line)
            if address:
                end = looked_at(address[1], args.chromium)

    listening = threading.Thread(target=listen)
    listening.start()
    out = robot.stdout.read()
    robot.wait()
    listening.join()
    if end:
        end()
    series = json.loads(out)["run"]["cells"][0]["series"]
    figures = [next(low[what] for low in series[tag]["low"] if low["q"] == q) for _, tag, q, what in FIGURES]
    share = re.search(r"([\d.]+) % of a CPU", "".join(said))
    return figures, float(share[1]) if share else None


def interval(differences, dice):
    """Mean of the differences, and its 95 % interval from a bootstrap."""
    means = sorted(sum(dice.choices(differences, k=len(differences))) / len(differences) for _ in range(RESAMPLES))
    return sum(differences) / len(differences), means[RESAMPLES // 40], means[-RESAMPLES // 40]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--onbeat", default="target/release/onbeat")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--for", dest="duration", default="10s")
    parser.add_argument("--chromium")
    args = parser.parse_args()

    dice = random.Random(1)
    pairs, shares = [], []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.pairs):
            pair = {}
            for has_viewer in dice.sample([True, False], 2):
                pair[has_viewer], share = run(args, folder, has_viewer)
                shares += [share] if has_viewer else []
            pairs.append(pair)
            print(f"pair {number + 1} of {args.pairs}", flush=True)

    print(f"{'':24}{'without, us':>12}{'difference, us':>16}   95 % interval, us")
    for place, (name, *_) in enumerate(FIGURES):
        without = sum(pair[False][place] for pair in pairs) / len(pairs)
        mean, low, high = interval([pair[True][place] - pair[False][place] for pair in pairs], dice)
        print(f"{name:24}{without / 1e3:12.2f}{mean / 1e3:16.2f}   {low / 1e3:.2f} to {high / 1e3:.2f}")
    print(f"CPU share of the view's thread: {min(shares):.2f} to {max(shares):.2f} % of a CPU, in {len(shares)} runs")


if __name__ == "__main__":
    main()
