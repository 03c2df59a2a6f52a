"""The commands of `onbeat message`, and a peer with the library of LCM and the classes of its own lcm-gen.

    lcm_commands.py ONBEAT FILE.lcm FOLDER COUNT    prints what was received, and the accounts of the commands, as JSON

Messages on STATE become a channel, which is sent on BACK and recorded; the log is played on AGAIN.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import lcm
from lcm_types import generated, random_messages

URL = "udpm://239.255.76.67:7667?ttl=0"
TYPE = "demo_lcm/msg/all_t"
#: Messages on the way at a time.
BATCH = 20
WITHIN = 60

onbeat, file, folder, count = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
channel = f"lcm-commands-{os.getpid()}/state"
log = folder / "state.mcap"
class_ = generated(Path(file), folder).all_t
running = {}


def command(verb, *arguments):
    """Starts a command; returns once it has said what it does."""
    process = subprocess.Popen(
        [onbeat, "message", verb, *arguments, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    said = process.stderr.readline()
    if verb[:4] not in said:
        process.kill()
        sys.exit(f"{verb}: {said}")
    running[verb] = process


def account(verb):
    return json.loads(running.pop(verb).communicate()[0])


def wait_for(messages, number):
    """Handles what arrives until this list has that number of messages."""
    end = time.monotonic() + WITHIN
    while len(messages) < number:
        peer.handle_timeout(20)
        if time.monotonic() > end:
            sys.exit(f"{len(messages)} of {number} messages within {WITHIN} s")


peer = lcm.LCM(f"{URL}&recv_buf_size=1000000")
came = {"BACK": [], "AGAIN": []}
for name, messages in came.items():
    # Decoded by LCM's class, which checks the fingerprint, and encoded by it again.
    peer.subscribe(name, lambda _, data, to=messages: to.append(class_.decode(data).encode())).set_queue_capacity(0)

try:
    command("receive", "STATE", channel, "--from", URL, "--type", TYPE, "--file", file)
    command("send", channel, "--to", URL, "--remote", "BACK", "--file", file)
    command("record", channel, "--out", str(log))
    sent = random_messages(class_, count)
    # Another class than that of the channel: counted, and in no record.
    peer.publish("STATE", b"\1\2\3\4\5\6\7\x08")
    # A command has begun once it passes messages on.
    hello = 0
    while not came["BACK"]:
        peer.publish("STATE", sent[0])
        hello += 1
        peer.handle_timeout(100)
    wait_for(came["BACK"], hello)
    came["BACK"].clear()
    for first in range(0, count, BATCH):
        batch = sent[first : first + BATCH]
        for message in batch:
            peer.publish("STATE", message)
        wait_for(came["BACK"], first + len(batch))

    # The others end with their channel. After Ctrl-C a slow disk would leave a recording no time for its account.
    running["receive"].send_signal(signal.SIGINT)
    accounts = {verb: account(verb) for verb in ("receive", "record", "send")}
    command("play", str(log), channel, "--to", URL, "--remote", "AGAIN", "--file", file, "--rate", "10", "--delay", "0s")
    everything = [sent[0]] * hello + sent
    wait_for(came["AGAIN"], len(everything))
    accounts["play"] = account("play")
    assert came["BACK"] == sent, "other bytes than sent"
    assert came["AGAIN"] == everything, "other bytes than recorded"
    result = {"sent": len(everything), "back": len(came["BACK"]), "again": len(came["AGAIN"]), "accounts": accounts}
    print(json.dumps(result))
finally:
    for process in running.values():
        process.kill()
