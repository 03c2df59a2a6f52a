#!/usr/bin/env python3
"""Measures the effect of advice on this machine: spikes by cause without and with it, in turns.

    tests/advice/tried.py ONBEAT [ROUNDS] [SECONDS]

Each round is one bench (tunings in turns, blocks shuffled) under the paper load, then each probe without and with its
advice. Counts spikes over 200 us whose main cause is one that the advice is for, per 10,000 releases. The effect is the
ratio of the counts with and without it; its 95 % interval is a bootstrap over rounds (10,000 draws, fixed seed). A pair with
fewer than ten spikes without the advice is printed as inconclusive.

Prints Markdown. Needs root and a quiet machine.
"""
import json
import random
import subprocess
import sys
import tempfile

TUNINGS = ["none", "P", "M", "C", "PM", "PC", "PMC", "PMCS"]
# Advice, causes it is for, cell without it, cell with it.
BENCH = [
    ("priority", ["preempted"], "none", "P"),
    ("priority", ["preempted"], "M", "PM"),
    ("move-thread", ["preempted"], "none", "C"),
    ("others-off", ["kernel_section", "interrupts_off"], "P", "PC"),
    ("others-off", ["kernel_section", "interrupts_off"], "PM", "PMC"),
    ("move-softirq", ["softirq"], "none", "C"),
    ("lock-memory", ["page_fault"], "none", "M"),
    ("spin", ["late_idle_exit", "late_timer", "timer_interrupt", "wake_up_path"], "PMC", "PMCS"),
]
# Advice, causes it is for, words of the probe without it, words with it.
PROBES = [
    (
        "no-lock",
        ["lock_wait", "own_wait"],
        ["sharing", "--sharing", "plain", "--hog", "--hold", "200us"],
        ["sharing", "--sharing", "wait-free", "--hog", "--hold", "200us"],
    ),
    (
        "ask-first",
        ["own_wait"],
        ["bus", "--exchange", "same-cycle"],
        ["bus", "--exchange", "pipelined"],
    ),
]


def cells(onbeat, words):
    """The cells of one run, by tuning."""
    with tempfile.TemporaryDirectory() as folder:
        command = [onbeat, *words, "--spikes-over", "200us", "--json"]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if ran.returncode not in (0, 1):
            sys.exit(f"tried: {' '.join(command)} ended with {ran.returncode}: {ran.stderr.strip()}")
        summary = json.loads(ran.stdout)
    return {cell["tuning"]: cell for cell in summary["cells"] if cell["permitted"] and cell["load"] != "idle" or len(summary["loads"]) == 1}


def count(cell, kinds):
    """Spikes with one of these main causes, and releases."""
    spikes = sum(cell.get("causes", {}).get(kind, {}).get("spikes", 0) for kind in kinds)
    return spikes, cell["slots"]


def rate(pairs):
    spikes, slots = (sum(column) for column in zip(*pairs))
    return 1e4 * spikes / slots if slots else 0.0


def row(advice, kinds, without_with, where):
    without = [pair[0] for pair in without_with]
    total = sum(spikes for spikes, _ in without)
    before, after = rate(without), rate([pair[1] for pair in without_with])
    words = f"| `{advice}` | {', '.join(kinds)} | {where} | {before:.1f} | {after:.1f} |"
    if total < 10:
        return f"{words} {total} spikes without it: inconclusive |"
    draw = random.Random(1)
    quotients = []
    for _ in range(10_000):
        drawn = [draw.choice(without_with) for _ in without_with]
        lower = rate([pair[0] for pair in drawn])
        if lower > 0:
            quotients.append(rate([pair[1] for pair in drawn]) / lower)
    if after == 0.0:
        slots = sum(pair[1][1] for pair in without_with)
        # The rule of three: no event in n trials leaves up to 3 / n with 95 % confidence.
        return f"{words} none; at most {3e4 / slots:.1f} of 10,000 with 95 % confidence |"
    quotients.sort()
    low, high = quotients[len(quotients) * 25 // 1000], quotients[len(quotients) * 975 // 1000 - 1]
    return f"{words} × {after / before:.3f} ({low:.3f} to {high:.3f}) |"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    onbeat = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    seconds = int(sys.argv[3]) if len(sys.argv) > 3 else 48
    benches, probes = [], []
    for turn in range(rounds):
        print(f"tried: turn {turn + 1} of {rounds}", file=sys.stderr)
        words = ["bench", "--tunings", ",".join(TUNINGS), "--loads", "paper", "--for", f"{seconds}s"]
        benches.append(cells(onbeat, words))
        ran = []
        for _, _, without, with_it in PROBES:
            # Which comes first changes from turn to turn.
            order = [without, with_it] if turn % 2 == 0 else [with_it, without]
            found = [next(iter(cells(onbeat, ["measure", *words, "--for", "4s"]).values())) for words in order]
            ran.append(found if turn % 2 == 0 else found[::-1])
        probes.append(ran)
    print("| advice | main cause | without, with | spikes per 10,000 releases without | with | effect (95 % interval) |")
    print("|---|---|---|--:|--:|---|")
    for advice, kinds, without, with_it in BENCH:
        pairs = [(count(bench[without], kinds), count(bench[with_it], kinds)) for bench in benches if without in bench and with_it in bench]
        print(row(advice, kinds, pairs, f"{without}, {with_it} under the 2009 stress mix (`paper`)") if pairs else f"| `{advice}` | not permitted here |")
    for place, (advice, kinds, without, with_it) in enumerate(PROBES):
        pairs = [(count(ran[place][0], kinds), count(ran[place][1], kinds)) for ran in probes]
        print(row(advice, kinds, pairs, f"`measure {' '.join(without)}`, `{' '.join(with_it[1:])}`"))


main()
