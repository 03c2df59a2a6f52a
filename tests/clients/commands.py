"""Commands a joint at 100 Hz while it reads every cycle; then waits to be killed, or ends in order."""

import json
import math
import sys
import time

import numpy as np
import onbeat.ring
import onbeat.robot

name, ending, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
end = time.monotonic() + 60
while True:
    try:
        commander = onbeat.robot.Commander(name)
        cycles = onbeat.ring.open(f"{name}/cycle")
        break
    except onbeat.OnbeatError:
        if time.monotonic() > end:
            raise
        time.sleep(0.05)

low, high = (commander.joints["left knee"][key] for key in ("low_rad", "high_rad"))
numbers, positions, commands = [], [], 0
refused = ""
# The robot enables its drives first; a command that comes too early is not evaluated.
began = time.monotonic()
while time.monotonic() - began < seconds:
    target = low + (high - low) * (0.4 + 0.1 * math.sin(2 * math.pi * 0.5 * (time.monotonic() - began)))
    commander.command({"left knee": target})
    commands += 1
    batch = cycles.drain()
    if len(batch):
        numbers.append(batch.numbers)
        positions.append(batch["actual_rad"][:, batch.joint("left knee")])
    time.sleep(0.01)
# Nothing of a refused command is followed: the right knee stays.
after = onbeat.ring.open(f"{name}/cycle")
right = commander.joints["right knee"]
try:
    commander.command({"right knee": (right["low_rad"] + right["high_rad"]) / 2, "left knee": high + 1})
    for _ in range(6000):
        time.sleep(0.01)
        commander.command({"left knee": low})
except onbeat.robot.CommandError as why:
    refused = str(why)
    commander.command({"left knee": low})
    time.sleep(0.2)
batch = after.drain()

numbers, positions = np.concatenate(numbers), np.concatenate(positions)
travelled = float(positions.max() - positions.min())
print(
    json.dumps(
        {
            "commands": commands,
            "count": len(numbers),
            "first": int(numbers[0]),
            "last": int(numbers[-1]),
            "lost": cycles.stats()["lost"],
            "travelled_rad": travelled,
            "refused": refused,
            "moved_by_refused_rad": float(np.ptp(batch["target_rad"][:, batch.joint("right knee")])),
        }
    ),
    flush=True,
)
if ending == "leave":
    commander.close()
    commander.close()
    try:
        commander.command({"left knee": low})
        sys.exit("a commander that has left takes commands")
    except onbeat.robot.CommandError:
        pass
else:
    time.sleep(60)
