"""A second MainDevice for two seconds on the cable of a running robot: pysoem assigns its own station addresses to the devices.

Arguments: the onbeat binary, and the file of the robot. Runs in a private network namespace (`unshare --net`), as root, in a writable
directory. Prints one line of JSON: the output of the robot, its exit status, and the devices' AL states as the segment reports them.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pysoem

from segment import INTERFACE, result_alone, running

OP = 8
MAIN_DEVICE = "Master"
TIMEOUT_S = 120


def states(onbeat):
    status = subprocess.run([onbeat, "segment", "status", "--json"], check=True, capture_output=True, text=True)
    return [device["al_state"] for device in json.loads(status.stdout)["devices"]]


def until(what, holds):
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > TIMEOUT_S:
            sys.exit(f"timeout: {what}")
        time.sleep(0.05)


def main():
    onbeat, file = sys.argv[1:]
    write_result = result_alone()
    with running(onbeat, file), open("said", "w+") as said:
        words = ["robot", "run", file, "--interface", INTERFACE, "--trajectory", "sine", "--name", f"foreign-{os.getpid()}"]
        more = ["--period", "5ms", "--no-causes", "--out", "runs"]
        robot = subprocess.Popen([onbeat, *words, *more], stdout=said, stderr=said)
        until("all in OP", lambda: set(states(onbeat)) == {OP})

        bus = getattr(pysoem, MAIN_DEVICE)()
        bus.open(INTERFACE)
        began, found = time.monotonic(), 0
        while time.monotonic() - began < 2:
            found = max(found, bus.config_init())
        bus.close()

        # The second MainDevice has ended. What it would bring back to OP in spite of its judgement, it
        # would within a second.
        until("judged", lambda: "it may have changed places" in Path("said").read_text())
        time.sleep(1)
        after = states(onbeat)
        robot.send_signal(signal.SIGTERM)
        status = robot.wait(timeout=TIMEOUT_S)
        said.seek(0)
        result = {"found": found, "states": after, "status": status, "said": said.read()}
    write_result(result)


main()
