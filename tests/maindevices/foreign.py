"""A foreign MainDevice for three seconds on the cable of a robot that runs: pysoem gives the devices stations of its own.

Arguments: the onbeat binary, and the file of the robot. Runs in a network namespace of its own (`unshare --net`), as root, in a directory
that it may write to. Prints one line of JSON: what the robot said, its exit status, and the devices' AL states by the segment's account.
"""

import json
import os
import signal
import subprocess
import sys
import time

import pysoem

from segment import INTERFACE, result_alone, running

OP = 8
MAIN_DEVICE = "Master"
PATIENCE_S = 30


def states(onbeat):
    status = subprocess.run([onbeat, "segment", "status", "--json"], check=True, capture_output=True, text=True)
    return [device["al_state"] for device in json.loads(status.stdout)["devices"]]


def until(what, holds):
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > PATIENCE_S:
            sys.exit(f"never came true: {what}")
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
        while time.monotonic() - began < 3:
            found = max(found, bus.config_init())
        bus.close()

        # It is gone; what the robot makes of the cable shows in what it does from here on.
        time.sleep(3)
        after = states(onbeat)
        robot.send_signal(signal.SIGTERM)
        status = robot.wait(timeout=PATIENCE_S)
        said.seek(0)
        told = {"found": found, "states": after, "status": status, "said": said.read()}
    write_result(told)


main()
