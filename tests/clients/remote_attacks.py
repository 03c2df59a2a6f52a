"""What a third party on the network can do to a robot: HOST KEY OTHER_KEY. Prints the outcome of each attack in JSON.

Every attack commands the left shoulder; the honest commander beside it commands the left knee alone.
"""

import json
import random
import socket
import struct
import sys
import threading
import time
import warnings

import onbeat
from onbeat import remote

host, key, other_key = sys.argv[1:4]
warnings.simplefilter("ignore")
outcomes = {}
SHOULDER = {"left shoulder pitch": 0.5}
#: Longest wait for what must come.
PATIENCE_S = 60


def sentence(attack):
    """Returns what the attack raises."""
    try:
        return str(attack())
    except onbeat.OnbeatError as why:
        return str(why)


def link(with_key=key):
    """A connection below the client's own checks, with its welcome."""
    own = remote._Link(host, remote.PORT, remote._key_of(with_key), 5.0)
    kind, payload = own.frame(5.0)
    assert kind == 1, kind
    described = json.loads(payload[8:])
    place = [joint["name"] for joint in described["joints"]].index("left shoulder pitch")
    return own, int.from_bytes(payload[:8], "little"), place


def frame(own, stamp, place, rad=0.5, lifetime_us=250_000):
    """The bytes of a command, whose number is used up."""
    content = struct.pack("<BQ", 2, own._sent + 1) + struct.pack("<QIHHd", stamp, lifetime_us, 1, place, rad)
    own._sent += 1
    return struct.pack("<I", len(content) + 16) + content + remote._mac(own._to_robot, content)[:16]


def until_refused(command):
    """Commands again and again until it is refused: a busy machine may take seconds for an answer."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        command()
        time.sleep(0.05)


def answers(own, within=None):
    """Frames until the connection ends, or for a time behind the first one; the last one is why it ended."""
    found, end = [], time.monotonic() + PATIENCE_S
    try:
        while time.monotonic() < end:
            got = own.frame(0.1)
            if got is not None:
                if within is not None and not found:
                    end = time.monotonic() + within
                kind, payload = got
                found.append([kind, payload[8] if kind == 3 else json.loads(payload) if kind == 4 else 0])
    except onbeat.OnbeatError as why:
        found.append(str(why))
    return found


# ---- keys
outcomes["other_key"] = sentence(lambda: onbeat.connect(host, key=other_key))
reader = onbeat.connect(host)
outcomes["reads_without_key"] = reader.next(timeout=5.0) is not None
outcomes["commands_without_key"] = sentence(lambda: until_refused(lambda: reader.command(SHOULDER)))
reader.abandon()
outcomes["other_port"] = sentence(lambda: onbeat.connect(f"{host}:779l", key=key))
outcomes["other_name"] = sentence(lambda: onbeat.connect(host, key=key, name="another"))

# ---- the honest commander, until the end
honest = onbeat.connect(host, key=key)
lines = {"followed": 0, "why": ""}
stop = threading.Event()


def command_honestly():
    try:
        while not stop.is_set():
            honest.command({"left knee": 0.2})
            lines["followed"] += 1
            time.sleep(0.02)
    except onbeat.OnbeatError as why:
        lines["why"] = str(why)


commanding = threading.Thread(target=command_honestly)
commanding.start()
time.sleep(0.5)

# ---- beside it
second = onbeat.connect(host, key=key)
outcomes["second_commander"] = sentence(lambda: until_refused(lambda: second.command(SHOULDER)))
second.abandon()

own, now, place = link()
forged = bytearray(frame(own, now, place))
forged[-1] ^= 1
own._socket.sendall(forged)
outcomes["forged"] = answers(own)

own, now, place = link()
own._socket.sendall(frame(own, now, place, rad=float("nan")))
outcomes["not_a_number"] = answers(own, 0.5)

random.seed(5)
endings = []
for _ in range(50):
    strange = socket.create_connection((host, remote.PORT))
    strange.settimeout(5)
    begin = remote._MAGIC if random.random() < 0.5 else b""
    try:
        strange.sendall(begin + random.randbytes(random.randrange(1, 5000)))
        while strange.recv(65536):
            pass
        endings.append("ended")
    except ConnectionError:
        endings.append("ended")
    except socket.timeout:
        endings.append("open")
    strange.close()
outcomes["strange_bytes"] = {how: endings.count(how) for how in set(endings)}
many = []
for _ in range(200):
    many.append(socket.create_connection((host, remote.PORT)))
time.sleep(0.5)
outcomes["honest_beside_200_connections"] = lines["why"]
for each in many:
    each.close()
stop.set()
commanding.join()
outcomes["honest"] = lines
honest.close()
time.sleep(0.2)

# ---- as the commander itself
own, now, place = link()
captured = frame(own, now - 1_000_000_000, place)
own._socket.sendall(captured)
outcomes["too_late"] = answers(own, 0.5)
own._socket.sendall(frame(own, now + 60_000_000_000, place))
outcomes["from_the_future"] = answers(own, 0.5)
own._socket.sendall(captured)
outcomes["replayed"] = answers(own)
own, now, place = link()
own._socket.sendall(captured)
outcomes["replayed_in_another_connection"] = answers(own)
own, now, place = link()
own._socket.sendall(struct.pack("<I", 1 << 30) + bytes(100))
outcomes["claimed_length"] = answers(own)

fast = onbeat.connect(host, key=key)


def runs_away():
    for _ in range(5000):
        fast.command({"left knee": 0.2})
    until_refused(lambda: fast.command({"left knee": 0.2}))


outcomes["too_fast"] = sentence(runs_away)
fast.abandon()
print(json.dumps(outcomes), flush=True)
