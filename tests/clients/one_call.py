"""Publishes and subscribes in one call each, over LCM in CDR and in its own encoding, and over ZeroMQ: NAME FOLDER."""

import json
import subprocess
import sys
import time

import onbeat

name, folder = sys.argv[1:3]
MSG = {"type": "plan_msgs/msg/Plan", "file": f"{folder}/plan_msgs/msg/Plan.msg"}
LCM = {"type": "plan_msgs/msg/plan_t", "file": f"{folder}/plan.lcm"}
ways = {
    "cdr_by_lcm": ("udpm://239.255.76.67:7667?ttl=0", "PLAN", MSG, {}),
    "lcm_by_lcm": ("udpm://239.255.76.68:7668?ttl=0", "PLAN", LCM, {"n": 2}),
    "cdr_by_zeromq": ("tcp://127.0.0.1:5591", "plan", MSG, {}),
}
said = {}
subscriptions = []
for way, (url, remote, of, more) in ways.items():
    plans = onbeat.subscribe(url, remote, **of)
    subscriptions.append(plans)
    batch, number, end = [], 0, time.monotonic() + 30
    while not len(batch) and time.monotonic() < end:
        # A subscriber of ZeroMQ may join after the first one.
        message = {"name": way, "speeds": [0.5, 1.5], "legs": 2, **more}
        number = onbeat.publish(f"{name}/{way}", message, **of, to=url, remote=remote)
        batch = plans.drain(timeout=0.2)
    said[way] = [batch["name"][0].decode(), batch["speeds"][0].tolist(), int(batch["legs"][0])] if len(batch) else number

# Without a type they are bytes.
words = [onbeat.program.program(), "message", "receive", "plan", f"{name}/plain", "--from", ways["cdr_by_zeromq"][0], "--until-input-ends"]
receiver = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
plain, batch, end = None, [], time.monotonic() + 30
while not len(batch) and time.monotonic() < end:
    onbeat.publish(f"{name}/cdr_by_zeromq", {"name": "bytes"}, **MSG, to=ways["cdr_by_zeromq"][0], remote="plan")
    try:
        plain = plain or onbeat.ring.open(f"{name}/plain", "oldest")
        batch = plain.drain(timeout=0.2)
    except onbeat.ring.RingError:
        time.sleep(0.05)
said["plain"] = bytes(batch["payload"][0][:4]).hex() if len(batch) else ""
for wrong in ({"speed": 1}, {"legs": 300}, {"name": 3}):
    try:
        onbeat.publish(f"{name}/cdr_by_lcm", wrong, **MSG, to=ways["cdr_by_lcm"][0], remote="PLAN")
    except onbeat.OnbeatError as why:
        said[next(iter(wrong))] = str(why)
try:
    onbeat.publish("planner", {}, **MSG)
except onbeat.OnbeatError as why:
    said["channel"] = str(why)
try:
    onbeat.subscribe("udpm://nowhere", "PLAN", **MSG)
except onbeat.OnbeatError as why:
    said["nowhere"] = str(why)
said["channels"] = [of.channel for of in subscriptions]
print(json.dumps(said), flush=True)
time.sleep(600)
