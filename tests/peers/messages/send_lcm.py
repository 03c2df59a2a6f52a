"""Sends messages of 256 bytes by the package lcm at a rate: send_lcm.py URL CHANNEL RATE SECONDS; prints their number."""

import sys
import time

import lcm

url, channel, rate, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
peer = lcm.LCM(url)
message = bytes(256)
sent, began = 0, time.monotonic()
while (now := time.monotonic() - began) < seconds:
    for _ in range(int(now * rate) - sent):
        peer.publish(channel, message)
        sent += 1
    time.sleep(0.001)
# What is not received of the last ones is known by these.
time.sleep(0.5)
for _ in range(5):
    peer.publish(channel, message)
    time.sleep(0.05)
print(sent + 5, time.monotonic() - began)
