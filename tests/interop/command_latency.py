"""Times a command to a robot of another computer, over the loopback, from the call to the cycle whose set-point it is; beside one
by the robot's own computer, in turns.

    command_latency.py ONBEAT [TURNS]      ONBEAT is the program; 200 commands in each of TURNS (5) turns of both ways

Times are by CLOCK_MONOTONIC: before the call, and the release of the first cycle whose target is the commanded one.
"""

import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onbeat.ring

program = sys.argv[1]
turns = int(sys.argv[2]) if len(sys.argv) > 2 else 5
COMMANDS, JOINT, PORT = 200, "left knee", 7793
name = f"latency-{os.getpid()}"
dice = random.Random(1)


def wait_for(what):
    end = time.monotonic() + 60
    while True:
        try:
            return what()
        except onbeat.OnbeatError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def latencies(robot, cycles, target):
    """Commands at random phases of the cycle; returns ns from the call to the release of the cycle that has the target."""
    cycles.drain()
    given = []
    for _ in range(COMMANDS):
        target += 1e-5
        given.append((time.monotonic_ns(), target))
        robot.command({JOINT: target})
        time.sleep(dice.uniform(0.006, 0.008))
    time.sleep(0.05)
    batches = []
    while len(batch := cycles.drain()):
        batches.append(batch)
    at = np.concatenate([batch.at_ns for batch in batches]).astype("i8")
    wanted = np.concatenate([batch["target_rad"][:, batch.joint(JOINT)] for batch in batches])
    found = []
    for sent, target in given:
        rows = np.flatnonzero(np.abs(wanted - target) < 1e-9)
        if len(rows):
            found.append(int(at[rows[0]]) - sent)
    return found, target


def show(way, found, of):
    ms = np.sort(np.array(found)) / 1e6
    p50, p99 = np.percentile(ms, [50, 99])
    print(f"{way:<7} p50 {p50:6.3f} ms   p99 {p99:7.3f} ms   worst {ms[-1]:7.3f} ms   {len(ms)} of {of} commands in a cycle of their own")
    return p50


place = tempfile.TemporaryDirectory()
os.environ |= {"ONBEAT_STATE_DIR": place.name, "ONBEAT": program}
# No late cycle stops it, neither by its ladder nor by the watchdogs of its drives.
text = (Path(__file__).parents[2] / "crates/onbeat-ethercat/src/description/humanoid.toml").read_text()
for table, setting in (("[segment]", "watchdog_ms = 6000"), ("[robot]", "following_ms = 60000")):
    assert f"{table}\n" in text
    text = text.replace(f"{table}\n", f"{table}\n{setting}\n", 1)
file = Path(place.name) / "humanoid.toml"
file.write_text(text + "\n[robot.ladder]\ndegrade_at = 1000000\nstop_at = 1000000\n[robot.goal]\nlost_ms = 4000\n")
robot = subprocess.Popen(
    [program, "robot", "run", file, "--trajectory", "commander", "--name", name, "--for", "10min", "--no-causes", "--out", place.name],
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)
listener = None
try:
    cycles = wait_for(lambda: onbeat.ring.open(f"{name}/cycle"))
    listener = subprocess.Popen(
        [program, "message", "command", name, "--from", f"tcp://127.0.0.1:{PORT}", "--no-telemetry"], stderr=subprocess.DEVNULL
    )
    from onbeat.remote import RemoteCommander
    from onbeat.robot import Commander

    def settled(way):
        """Commands until the robot follows: it enables its drives first."""
        end = time.monotonic() + 60
        while True:
            way.command({JOINT: target})
            batch = cycles.drain(timeout=1.0)
            if len(batch) and abs(batch["target_rad"][-1, batch.joint(JOINT)] - target) < 1e-9:
                return
            assert time.monotonic() < end, "the robot does not follow"
            time.sleep(0.01)

    target, all_ = 0.2, {"local": [], "remote": []}
    wait_for(lambda: RemoteCommander("127.0.0.1", PORT, None, 0.25, 5.0).close())
    for _ in range(turns):
        for way in all_:
            commander = wait_for(lambda w=way: Commander(name) if w == "local" else RemoteCommander("127.0.0.1", PORT, None, 0.25, 5.0))
            settled(commander)
            found, target = latencies(commander, cycles, target)
            all_[way] += found
            commander.close()
            time.sleep(0.2)
    batch = cycles.drain(timeout=1.0)
    period = float(np.median(np.diff(batch.at_ns.astype("i8")))) / 1e6
    print(f"cycle {period:.3f} ms")
    local, remote = (show(way, found, turns * COMMANDS) for way, found in all_.items())
    print(f"remote is {remote - local:.3f} ms later than local at p50; remote p50 is {remote / period:.2f} cycles")
finally:
    for process in (listener, robot):
        if process is not None:
            process.terminate()
            process.wait()
