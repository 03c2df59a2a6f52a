"""A peer to which a log is played: the Python packages `pyzmq` and `cyclonedds` receive what `onbeat message play` sends.

    play_peer.py zmq URL FOLDER CHANNELS COMMAND...    subscribes, starts COMMAND, receives until nothing is missing
    play_peer.py ros2 DOMAIN FOLDER CHANNELS COMMAND...

CHANNELS is JSON: the type and the number of messages of each channel. A file of FOLDER has the messages of a channel in the order in
which they came: number and time in ns (64 bits; 0 where the network has none), length (32 bits), bytes. Prints the account of COMMAND.
"""

import json
import struct
import subprocess
import sys
import time
from pathlib import Path

#: Longest pause in which nothing arrives, in s, after COMMAND has ended or before.
PATIENCE = 30


class Zmq:
    """A subscriber by the library of ZeroMQ."""

    def __init__(self, url, channels):
        import zmq

        self.subscriber = zmq.Context().socket(zmq.SUB)
        self.subscriber.set_hwm(0)
        for name in channels:
            self.subscriber.subscribe(name.encode())
        self.subscriber.connect(url)

    def take(self):
        while self.subscriber.poll(20):
            name, payload, head = self.subscriber.recv_multipart()
            yield name.decode(), struct.unpack("<QQ", head), payload


class Ros2:
    """A node that decodes what it reads, and encodes it again."""

    def __init__(self, domain, channels):
        from ros2_peer import Node

        self.nodes = {
            name: Node(int(domain), "reliable", of["type"], name, f"{name}/none") for name, of in channels.items()
        }

    def take(self):
        for name, node in self.nodes.items():
            node.wait(0.002)
            for message in node.reader.take(500):
                # That a writer is gone is a sample too.
                if message.sample_info.valid_data:
                    yield name, (0, 0), message.serialize(use_version_2=False)


network, address, folder, channels, *command = sys.argv[1:]
channels = json.loads(channels)
peer = {"zmq": Zmq, "ros2": Ros2}[network](address, channels)
files = {name: open(Path(folder) / name.replace("/", ":"), "wb") for name in channels}
player = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
missing = sum(of["count"] for of in channels.values())
heard = time.monotonic()
while missing > 0 and time.monotonic() - heard < PATIENCE:
    for name, (number, at_ns), payload in peer.take():
        files[name].write(struct.pack("<QQI", number, at_ns, len(payload)) + payload)
        missing -= 1
        heard = time.monotonic()
for file in files.values():
    file.close()
print(player.communicate(timeout=PATIENCE)[0].strip())
