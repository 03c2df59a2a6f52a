"""Reads all cycles of a robot with the Python package and prints what it saw, as JSON."""

import json
import sys
import time

import numpy as np
import onbeat.ring

channel, pace = sys.argv[1], float(sys.argv[2])
end = time.monotonic() + 60
while True:
    try:
        cycles = onbeat.ring.open(channel, start="oldest")
        break
    except onbeat.ring.RingError:
        if time.monotonic() > end:
            raise
        time.sleep(0.01)
print("open", flush=True)

numbers, worst, ended = [], 0, ""
position = 0x6064
# Numbers of the process image at each bit: one of 64 bits can be in nine bytes.
agrees = True
for at, bits, number in [(4, 64, -0x7EDCBA9876543211), (7, 61, -5), (3, 16, 300), (0, 64, 1 << 62), (5, 1, 1), (9, 8, -128)]:
    image = ((number % (1 << bits)) << at).to_bytes(16, "little")
    agrees &= onbeat.ring._bits(np.frombuffer(image, "u1").reshape(1, -1), at, bits)[0] == number
typed = onbeat.ring._typed
for kind, bits, raw, number in [(6, 16, -1, 65535), (3, 16, -1, -1), (0, 16, -1, -1), (0x1B, 64, -1, (1 << 64) - 1), (8, 32, 0x41AC0000, 21.5), (8, 32, -0x3E540000, -21.5), (0x11, 64, 0x3FE0 << 48, 0.5)]:
    agrees &= typed(np.array([raw], "<i8"), kind, bits)[0] == number
while not ended:
    try:
        batch = cycles.drain(timeout=1.0)
    except onbeat.ring.WriterEnded as why:
        ended = str(why)
        break
    if not len(batch):
        continue
    numbers.append(batch.numbers)
    worst = max(worst, int(batch["wakeup_latency_ns"].max()))
    knee = batch.joint("left knee")
    actual = batch["actual_rad"][:, knee]
    raw = batch.value("left knee", position)
    # The joint's position follows from the drive's in the same cycle.
    moved = np.flatnonzero(np.diff(raw) != 0)
    agrees &= bool(np.all(np.sign(np.diff(raw))[moved] == np.sign(np.diff(actual))[moved]))
    time.sleep(pace)

numbers = np.concatenate(numbers)
stats = cycles.stats()
said = []
for end_of in (cycles.latest, cycles.close, cycles.close, cycles.latest):
    try:
        end_of()
    except onbeat.ring.RingError as why:
        said.append(why.code)
print(
    json.dumps(
        {
            "count": len(numbers),
            "first": int(numbers[0]),
            "last": int(numbers[-1]),
            "in_order": bool((np.diff(numbers.astype("i8")) > 0).all()),
            "stats": stats,
            "worst_ns": worst,
            "agrees": bool(agrees),
            "type": cycles.type,
            "joints": len(cycles.description["joints"]),
            "ended": ended,
            "at_end": said,
        }
    )
)
