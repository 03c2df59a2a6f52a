"""Reads a channel in batches until the message LAST: read.py CHANNEL LAST [SECONDS]; prints what it read and lost."""

import json
import sys
import time

import onbeat.ring

channel, last = sys.argv[1], int(sys.argv[2])
reader = onbeat.ring.open(channel)
print("ready", flush=True)
received = lost = newest = 0
first, began, busy = None, None, 0.0
while newest < last:
    try:
        batch = reader.drain(timeout=1.0)
    except onbeat.ring.WriterEnded:
        break
    if not len(batch):
        continue
    now = time.monotonic()
    began = began or now
    numbers = batch["n"]
    first = int(numbers[0]) if first is None else first
    newest = int(numbers[-1])
    received += len(batch)
took = time.monotonic() - began if began else 0
print(json.dumps({"received": received, "lost": reader.stats()["lost"], "first": first, "newest": newest, "took_s": took}))
