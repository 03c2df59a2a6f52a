"""The peer of jeromq: `pyzmq` publishes to a program in Java or Octave, which sends back what it receives.

    jeromq_peer.py echo FILE COMMAND...      sends the messages of FILE (length in 32 bits, bytes), expects the same bytes
    jeromq_peer.py count COUNT COMMAND...    sends numbered messages, of which some are missing

COMMAND subscribes to jeromq/there at FROM and publishes jeromq/back at TO.
"""

import json
import struct
import subprocess
import sys
import time

import zmq

FROM, TO = "tcp://127.0.0.1:5561", "tcp://127.0.0.1:5562"
NAME = b"jeromq"
#: Messages on the way at a time.
BATCH = 200
WITHIN = 60
#: Numbers that are not sent.
MISSING = (500, 501, 900)

how, what, *command = sys.argv[1:]
# A publisher of this type receives the subscriptions.
publisher = zmq.Context.instance().socket(zmq.XPUB)
publisher.set_hwm(0)
publisher.bind(FROM)
subscriber = zmq.Context.instance().socket(zmq.SUB)
subscriber.set_hwm(0)
subscriber.subscribe(NAME)
subscriber.connect(TO)


def send(number, payload):
    publisher.send_multipart([NAME + b"/there", payload, struct.pack("<QQ", number, time.monotonic_ns())])


def received(within):
    """Returns the payload of the next message; None if none comes."""
    if not subscriber.poll(within * 1000):
        return None
    name, payload, head = subscriber.recv_multipart()
    assert name == NAME + b"/back" and len(head) == 16, (name, head)
    return payload


def await_subscription():
    if not publisher.poll(WITHIN * 1000):
        sys.exit("no subscription arrives")
    assert publisher.recv() == b"\1" + NAME + b"/there"


def echo(messages):
    sent, hello, mark = 0, messages[0], messages[1]
    first = None
    while first is None:
        sent += 1
        send(sent, hello)
        first = received(0.05)
        if sent > 20 * WITHIN:
            sys.exit("no message comes back")
    # What else is on the way arrives before the mark.
    sent += 1
    send(sent, mark)
    while received(WITHIN) != mark:
        pass
    for begin in range(0, len(messages), BATCH):
        batch = messages[begin : begin + BATCH]
        for message in batch:
            sent += 1
            send(sent, message)
        for message in batch:
            assert received(WITHIN) == message, "other bytes than sent"
    process.stdin.write(b"\n")
    process.stdin.close()
    return {"sent": sent, "account": json.loads(process.stdout.readline())}


def state(number, joints):
    return b"\0\1\0\0" + struct.pack("<Q14dII", number, *joints, 0, 5) + b"left\0"


def count(number):
    for each in range(1, number + 1):
        if each not in MISSING:
            send(each, state(each, [0.5] * 14))
    # Sent before, it might be counted with them.
    assert process.stdout.readline() == b"counted\n", "the numbers do not arrive"
    last = state(number + 1, range(14))
    send(number + 1, last)
    said = json.loads(process.stdout.readline())
    assert received(WITHIN) == last, "other bytes than sent"
    process.kill()
    return said | {"missing": len(MISSING), "sum_missing": sum(MISSING)}


process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
try:
    await_subscription()
    if how == "echo":
        data, messages = open(what, "rb").read(), []
        while data:
            (length,) = struct.unpack_from("<I", data)
            messages.append(data[4 : 4 + length])
            data = data[4 + length :]
        print(json.dumps(echo(messages)))
    else:
        print(json.dumps(count(int(what))))
finally:
    process.kill()
