#!/usr/bin/env python3
"""Figures of `onbeat watch` beside those of the programs themselves: the table of docs/watch.md.

    sudo tests/watch/beside.py target/debug/onbeat [--for 6s] [NAME...]

Each program runs alone for a few seconds before and after the measurement and notes each of its cycles. Of its notes those are taken whose release is
within the run of onbeat: by their time stamps; for cyclictest, which prints none, by the latencies of the spikes, whose indexes onbeat knows.
A program that is not installed is named with the reason.
"""

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent


class Skipped(Exception):
    """Why a program was not run."""


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise Skipped(f"{program} is not installed")


def compiled(work, name, *libraries):
    need("cc")
    built = work / name
    subprocess.run(["cc", "-O2", "-o", built, HERE / f"{name}.c", *libraries], check=True)
    return str(built)


class Run:
    """A run of onbeat watch: its summary, and the unix times of its first release and of its end."""

    def __init__(self, summary, file):
        self.summary, self.cell, self.period_ns = summary, summary["cells"][0], summary["period_ns"]
        notes = [json.loads(line[len("#[onbeat: ") : -1]) for line in file.read_text(encoding="utf-8").splitlines() if line.startswith("#[onbeat: ")]
        began = next(note["block"]["t"] for note in notes if "block" in note)
        self.has_grid = next(note["run"]["timing"]["wait"] for note in notes if "run" in note) == "sleep"
        self.first_s = summary["started_unix_s"] + began
        until = max(note["interval"]["t"] + note["interval"]["length"] for note in notes if "interval" in note)
        self.seconds = self.cell["slots"] * self.period_ns / 1e9 if self.has_grid else until - began

    def figures(self, series="release_latency"):
        of = self.cell["series"][series]
        by_p = {one["p"]: one["value_ns"] for one in of["percentiles"]}
        counts = {"slots": self.cell["slots"], "skipped": self.cell["skipped"], "not seen": self.cell["lost"]}
        return {"p50": by_p[50.0], "p99": by_p[99.0], "max": of["max_ns"], **counts}

    def notes(self, stamps, offset_ns):
        """The notes of the program whose release is in the run."""
        lines = Path(stamps).read_text(encoding="ascii").splitlines()
        first = self.first_s * 1e9 - offset_ns - self.period_ns / 2
        return [note for note in (tuple(map(int, line.split())) for line in lines) if first <= note[0] < first + self.seconds * 1e9]


def watched(onbeat, pid, work, seconds, *more):
    out = work / "runs"
    command = [onbeat, "watch", str(pid), "--for", f"{seconds}s", "--json", "--no-causes", "--out", str(out), *more]
    answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if answer.returncode not in (0, 1, 3):
        raise Skipped(f"onbeat: {answer.stderr.strip()}")
    return Run(json.loads(answer.stdout), out / "latest" / "watch.onbeat.hlog")


def percentile(ordered, p):
    return ordered[min(len(ordered) - 1, int(len(ordered) * p / 100))]


def own_figures(values, count=None):
    ordered = sorted(values)
    return {"p50": percentile(ordered, 50), "p99": percentile(ordered, 99), "max": ordered[-1], "cycles": len(values) if count is None else count}


def latencies(notes):
    return [start - release for release, start in notes]


def periods(notes):
    return [after[1] - before[1] for before, after in zip(notes, notes[1:])]


class Program:
    """A program with notes of its own cycles."""

    def __init__(self, command, series="release_latency", clock=time.CLOCK_MONOTONIC, env=()):
        self.command, self.series, self.clock, self.env = command, series, clock, env
        self.own = latencies if series == "release_latency" else periods

    def run(self, onbeat, seconds, work):
        stamps = work / "stamps"
        command = self.command(work, stamps)
        offset = time.time_ns() - time.clock_gettime_ns(self.clock)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=dict(os.environ, **{key: str(stamps) for key in self.env})) as process:
            time.sleep(1.5)
            try:
                run = watched(onbeat, process.pid, work, seconds)
                process.wait(timeout=120)
            finally:
                process.kill()
        notes = run.notes(stamps, offset)
        # Their release had passed when the cycle before began: a program that catches up does not wait for them.
        at_once = sum(after[0] <= before[1] for before, after in zip(notes, notes[1:]))
        return {**own_figures(self.own(notes), len(notes)), "without a wait": at_once}, run.figures(self.series)


def cycles_of(seconds, period_us):
    return str(int((seconds + 7) * 1e6 / period_us))


def c_loop(kind, period_us, seconds, priority=80):
    return lambda work, stamps: [compiled(work, "foreign_loop", "-lpthread"), kind, str(period_us), cycles_of(seconds, period_us), str(priority)]


def python_loop(period_us, seconds):
    return lambda work, stamps: [sys.executable, str(HERE / "asyncio_loop.py"), str(period_us), cycles_of(seconds, period_us), str(stamps)]


def java_loop(period_us, seconds):
    def command(work, stamps):
        need("javac", "java")
        subprocess.run(["javac", "-d", work, HERE / "ForeignLoop.java"], check=True)
        return ["java", "-cp", str(work), "ForeignLoop", str(period_us), cycles_of(seconds + 2, period_us), str(stamps)]
    return command


def octave_loop(period_us, seconds):
    def command(work, stamps):
        need("octave-cli")
        return ["octave-cli", "--norc", str(HERE / "foreign_loop.m"), str(period_us), cycles_of(seconds, period_us), str(stamps)]
    return command


def cyclictest(onbeat, seconds, work):
    """cyclictest -v prints number and latency of each cycle and no time: aligned by the spikes."""
    need("cyclictest")
    printed = work / "printed"
    with printed.open("w") as out, subprocess.Popen(["cyclictest", "-t1", "-p80", "-i1000", "-v", "-m"], stdout=out) as process:
        time.sleep(1.5)
        try:
            run = watched(onbeat, process.pid, work, seconds, "--spikes-over", "20us")
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()
    own = {}
    for line in printed.read_text(encoding="ascii").splitlines():
        if match := re.fullmatch(r"\s*0:\s*(\d+):\s*(\d+)", line):
            own[int(match[1])] = int(match[2]) * 1000
    spikes = [(spike["index"], spike["wakeup_latency_ns"]) for spike in run.cell["spikes"]]
    if len(spikes) < 10:
        raise Skipped(f"{len(spikes)} spikes are too few to find the cycles of the run among those of the program")

    def distance(shift):
        return statistics.median(abs(own.get(index + shift, 0) - latency) for index, latency in spikes)

    shift = min(range(max(own) - run.cell["slots"] + 1), key=distance)
    values = [own[k + shift] for k in range(run.cell["slots"]) if k + shift in own]
    return own_figures(values), run.figures()


def jackd(onbeat, seconds, work):
    need("jackd")
    client = compiled(work, "jack_cycles", "-ldl")
    env = dict(os.environ, JACK_NO_AUDIO_RESERVATION="1")
    server = subprocess.Popen(["jackd", "-r", "-P70", "-R", "-d", "dummy", "-r", "48000", "-p", "48"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
    try:
        time.sleep(2)
        offset = time.time_ns() - time.monotonic_ns()
        stamps = work / "stamps"
        noting = subprocess.Popen([client, cycles_of(seconds, 1000), stamps], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
        time.sleep(1.5)
        run = watched(onbeat, server.pid, work, seconds)
        noting.wait(timeout=120)
        notes = run.notes(stamps, offset)
        return own_figures(periods([(0, begun) for begun, _ in notes]), len(notes)), run.figures("observed_period")
    finally:
        server.terminate()
        server.wait()


def ptp4l(onbeat, seconds, work):
    """ptp4l counts the sync messages that it sends; pmc reads them before and after."""
    program = shutil.which("ptp4l") or next(map(str, (HERE.parents[1] / "target" / "linuxptp").glob("usr/sbin/ptp4l")), None)
    pmc = shutil.which("pmc") or next(map(str, (HERE.parents[1] / "target" / "linuxptp").glob("usr/sbin/pmc")), None)
    if not program or not pmc:
        raise Skipped("ptp4l is not installed")
    need("ip")
    space = f"onbeat-beside-{os.getpid()}"
    inside = ["ip", "netns", "exec", space]
    config = work / "ptp4l.conf"
    config.write_text(f"[global]\ntime_stamping software\nlogSyncInterval -5\nuds_address {work}/ptp4l\n", encoding="ascii")
    subprocess.run(["ip", "netns", "add", space], check=True)
    try:
        for words in (["link", "add", "v0", "type", "veth", "peer", "name", "v1"], ["link", "set", "v0", "up"], ["link", "set", "v1", "up"]):
            subprocess.run([*inside, "ip", *words], check=True)
        with subprocess.Popen([*inside, program, "-i", "v0", "-f", config, "-m"], stdout=subprocess.DEVNULL) as process:
            time.sleep(9)

            def sent():
                asked = ["GET PORT_STATS_NP"]
                answer = subprocess.run([*inside, pmc, "-u", "-b", "0", "-s", f"{work}/ptp4l", "-i", f"{work}/pmc", *asked], stdout=subprocess.PIPE, text=True, timeout=20).stdout
                found = re.search(r"tx_Sync\s+(\d+)", answer)
                return int(found[1]) if found else None

            before, at = sent(), time.monotonic()
            run = watched(onbeat, process.pid, work, seconds)
            after, until = sent(), time.monotonic()
            process.terminate()
        if before is None or after is None:
            raise Skipped("pmc has no counters of ptp4l")
        each_ns = (until - at) * 1e9 / max(1, after - before)
        return {"p50": each_ns, "p99": None, "max": None, "cycles": round(run.seconds * 1e9 / each_ns)}, run.figures("observed_period")
    finally:
        subprocess.run(["ip", "netns", "del", space])


def linuxcnc(onbeat, seconds, work):
    """LinuxCNC's servo thread without a machine; `sampler` notes each period that `timedelta` sees."""
    need("halcmd", "halsampler", "/usr/lib/linuxcnc/realtime")
    # Root needs a user to name; the thread is a real-time one only where LinuxCNC finds such a kernel.
    work.chmod(0o777)
    env = dict(os.environ, RTAPI_UID=os.environ.get("RTAPI_UID", "65534"), HOME=str(work))
    quiet = {"env": env, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}

    def hal(words):
        subprocess.run(["halcmd", *words.split()], check=True, **quiet)

    subprocess.run(["/usr/lib/linuxcnc/realtime", "start"], check=True, **quiet)
    try:
        for words in ("loadrt threads name1=servo period1=1000000", "loadrt timedelta count=1", "loadrt sampler depth=20000 cfg=s"):
            hal(words)
        for words in ("addf timedelta.0 servo", "addf sampler.0 servo", "net period timedelta.0.out sampler.0.pin.0"):
            hal(words)
        # From the start on, and not from that of its reader: the samples wait for it.
        at = time.monotonic()
        hal("start")
        pid = int(subprocess.run(["pgrep", "-o", "rtapi_app"], stdout=subprocess.PIPE, text=True, check=True).stdout)
        time.sleep(1)
        printed = work / "periods"
        with printed.open("w") as out:
            noting = subprocess.Popen(["halsampler"], stdout=out, env=env)
            run = watched(onbeat, pid, work, seconds)
            noting.send_signal(signal.SIGINT)
            until = time.monotonic()
            noting.wait(timeout=20)
        values = [int(line) for line in printed.read_text(encoding="ascii").split() if line.lstrip("-").isdigit()]
        own = own_figures(values)
        return {**own, "cycles": round(len(values) * run.seconds / (until - at))}, run.figures("observed_period")
    finally:
        subprocess.run(["halcmd", "stop"], **quiet)
        subprocess.run(["/usr/lib/linuxcnc/realtime", "stop"], **quiet)


def programs(seconds):
    def of(run, series="observed_period"):
        return type("Own", (), {"run": staticmethod(run), "series": series})

    stamps = ("FOREIGN_LOOP_STAMPS",)
    return {
        "cyclictest": of(cyclictest, "release_latency"),
        "C absolute": Program(c_loop("absolute", 1000, seconds), env=stamps),
        "C realtime": Program(c_loop("realtime", 1000, seconds), env=stamps, clock=time.CLOCK_REALTIME),
        "C relative": Program(c_loop("relative", 1000, seconds + 4), env=stamps),
        "C twice": Program(c_loop("twice", 1000, seconds), env=stamps),
        "C timerfd": Program(c_loop("timerfd", 1000, seconds), env=stamps),
        "C poll": Program(c_loop("poll", 2000, seconds + 4), "observed_period", env=stamps),
        "Python asyncio": Program(python_loop(10000, seconds + 4), "observed_period"),
        "Java": Program(java_loop(5000, seconds + 4), "observed_period"),
        "Octave": Program(octave_loop(10000, seconds + 4), "observed_period", clock=time.CLOCK_REALTIME),
        "jackd": of(jackd),
        "ptp4l": of(ptp4l),
        "LinuxCNC": of(linuxcnc),
    }


def us(ns):
    return "" if ns is None else f"{ns / 1000:,.1f}"


def row(name, series, own, watch):
    figures = [f"{us(own[one])} | {us(watch[one])}" for one in ("p50", "p99", "max")]
    counts = f"{own['cycles']:,} | {watch['slots']:,} | {watch['skipped']} | {watch['not seen']}"
    return f"| {name} | {series.replace('_', ' ')} | {' | '.join(figures)} | {counts} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("onbeat", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--for", dest="seconds", type=lambda text: float(text.rstrip("s")), default=6.0)
    parser.add_argument("--at-once", type=int, default=1, help="programs that run at the same time: where only counts and ratios are compared")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each program")
    typed = parser.parse_intermixed_args()
    known = programs(typed.seconds)
    if not typed.json:
        print("| program | of | own p50 | watch p50 | own p99 | watch p99 | own max | watch max | own cycles | releases | skipped | not seen |")
        print("|---|---|---|---|---|---|---|---|---|---|---|---|")

    def line(name):
        with tempfile.TemporaryDirectory() as work:
            try:
                own, watch = known[name].run(typed.onbeat, typed.seconds, Path(work))
            except Skipped as why:
                return json.dumps({"program": name, "not_run": str(why)}) if typed.json else f"{name}: not run: {why}"
        series = known[name].series
        return json.dumps({"program": name, "series": series, "own": own, "watch": watch}) if typed.json else row(name, series, own, watch)

    with ThreadPoolExecutor(typed.at_once) as running:
        for said in running.map(line, typed.names or known):
            print(said, flush=True)


if __name__ == "__main__":
    main()
