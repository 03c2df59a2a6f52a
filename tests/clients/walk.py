"""Walks a robot of another computer: HOST KEY SECONDS, then prints what it saw, and goes on until it is killed.

The feet are lifted in turn, at 100 Hz, by hip, knee and ankle; every cycle is read.
"""

import json
import math
import sys
import time

import numpy as np
import onbeat

host, key, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
joints = ["left hip pitch", "left knee", "left ankle pitch", "right hip pitch", "right knee", "right ankle pitch"]
r = onbeat.connect(host, key=key)
first, last, low, high = None, None, None, None
began = time.monotonic()
step = 0
while True:
    now = time.monotonic() - began
    lifts = [max(math.sin(2 * math.pi * 0.5 * now + turn), 0) for turn in (0, math.pi)]
    bends = [bend * lift for lift in lifts for bend in (-0.2, 0.4, -0.2)]
    r.command(dict(zip(joints, bends, strict=True)))
    cycles = r.drain()
    if len(cycles):
        first = first or int(cycles.numbers[0])
        last = int(cycles.numbers[-1])
        seen = cycles["actual_rad"][:, [cycles.joint(joint) for joint in joints]]
        low = seen.min(axis=0) if low is None else np.minimum(low, seen.min(axis=0))
        high = seen.max(axis=0) if high is None else np.maximum(high, seen.max(axis=0))
    step += 1
    if seconds and now > seconds and last:
        s = r.stats()
        said = {"commands": step, "first": first, "last": last, "received": s["received"], "lost": s["lost"]}
        print(json.dumps({**said, "travelled_rad": [round(float(each), 4) for each in high - low]}), flush=True)
        seconds = 0
    time.sleep(max(began + step * 0.01 - time.monotonic(), 0))
