"""A controller in Python: reads three joints of a robot and commands a fourth, at 100 Hz. examples/README.md describes it.

python3 examples/level_foot.py walker 10
"""

import math
import sys
import time

import onbeat

TILT_RAD, TILT_HZ = 0.15, 0.5
HZ = 100

robot, seconds = sys.argv[1], float(sys.argv[2])
with onbeat.ring.open(f"{robot}/cycle") as cycles, onbeat.robot.Commander(robot) as commander:
    names = [joint["name"] for joint in cycles.description["joints"]]
    leg = [names.index(name) for name in ("waist pitch", "left hip pitch", "left knee")]

    began = time.monotonic()
    for step in range(round(seconds * HZ)):
        cycle = cycles.latest()
        if cycle is not None:
            tilt = TILT_RAD * math.sin(2 * math.pi * TILT_HZ * (time.monotonic() - began))
            # Valid for 0.25 s: without the next command the robot holds, and then stops safely.
            commander.command({"left ankle pitch": tilt - sum(cycle["actual_rad"][leg])})
        time.sleep(max(began + (step + 1) / HZ - time.monotonic(), 0))
# Leaving the block in order keeps the last targets; leaving it by an exception stops the robot safely.
