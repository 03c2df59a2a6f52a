"""What four settings of a loop are worth on this machine, and how often a placebo seems to be worth something.

    make worth
    make worth ARGS="--for 60s --placebos 40"

Prints Markdown: the machine, a row per setting, and the trials of the placebo. Needs a quiet machine and the rights
for real-time priority and locked memory; as root the placebo also writes a setting of the host back as it is.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

# Setting, options of its own, and the direction that is expected.
SETTINGS = [
    ("proc.policy", ["--load", "cpu"], "lower"),
    ("proc.mlock", ["--load", "idle"], "lower"),
    # It delays each wake-up by up to 50 us, which the median shows; the p99 of a guest is mostly its host's.
    ("timer.slack", ["--load", "idle", "--at", "p50"], "lower"),
    ("proc.spin", ["--load", "idle", "--tuning", "P"], "lower"),
]
PLACEBO = "placebo"
# Most of 20 placebos that may seem to be worth something.
MOST_VISIBLE = 1


def measured(onbeat, setting, options, out):
    """Returns the JSON object of one measurement."""
    command = [onbeat, "tune", "measure", setting, *options, "--json", "--out", out]
    # Results of a benchmark are not those that `tune check` shows to the user.
    environment = {**os.environ, "ONBEAT_STATE_DIR": os.path.join(out, "state")}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment)
    # 0 lower with it, 1 higher with it, 3 no visible effect.
    if ran.returncode not in (0, 1, 3):
        sys.exit(f"{' '.join(command)}: {ran.stderr.strip()}")
    return json.loads(ran.stdout)


def time_words(ns):
    return f"{ns / 1e6:.2f} ms" if ns >= 1e6 else f"{ns / 1e3:.1f} us"


def row(setting, result, expected):
    direction = "lower" if result["ratio"] < 1 else "higher"
    found = direction if result["visible"] else "no visible effect"
    verdict = "as expected" if found == expected else f"expected {expected}"
    factor = "x {ratio:.2f} [{low:.2f}, {high:.2f}]".format(**result)
    without, with_it = time_words(result["without_ns"]), time_words(result["with_ns"])
    compared = f"{result['percentile']} {result['series'].replace('_', ' ')}"
    return (f"| `{setting}` | {result['load']} | {result['without']} | {compared} | {without} | {with_it} | {factor} "
            f"| {found}: {verdict} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--onbeat", default="target/release/onbeat")
    parser.add_argument("--for", dest="duration", default="90s", help="time of each setting")
    parser.add_argument("--placebo-for", default="12s", help="time of each trial of the placebo")
    parser.add_argument("--placebos", type=int, default=20, help="number of trials")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as out:
        rows = []
        machine = None
        for setting, options, expected in SETTINGS:
            result = measured(arguments.onbeat, setting, [*options, "--for", arguments.duration], out)
            machine = result["machine"]
            rows.append(row(setting, result, expected))

        trials = []
        for seed in range(1, arguments.placebos + 1):
            options = ["--load", "idle", "--for", arguments.placebo_for, "--seed", str(seed)]
            trials.append(measured(arguments.onbeat, PLACEBO, options, out))

    guest = f", a guest of {machine['guest_of']}" if machine["guest_of"] else ""
    print(f"{machine['processor']}, {machine['cpus']} CPUs, Linux {machine['kernel']}{guest}\n")
    print("| setting | load | without | compared | without it | with it | ratio | found |")
    print("|---|---|---|---|--:|--:|--:|---|")
    print("\n".join(rows))

    visible = [trial for trial in trials if trial["visible"]]
    ratios = sorted(trial["ratio"] for trial in trials)
    print(f"\nPlacebo: no visible effect in {len(trials) - len(visible)} of {len(trials)} trials", end="")
    if ratios:
        print(f"; ratios from {ratios[0]:.2f} to {ratios[-1]:.2f}")
    for trial in visible:
        print(f"- visible: x {trial['ratio']:.2f} [{trial['low']:.2f}, {trial['high']:.2f}]")
    return 1 if len(visible) * 20 > MOST_VISIBLE * len(trials) else 0


if __name__ == "__main__":
    sys.exit(main())
