"""The other end of the tests of networks: the Python packages `lcm`, `pyzmq` and `cyclonedds` send back what they receive.

    echo.py GATEWAY lcm URL "" ORDER...       starts the gateway once for each ORDER (a verb, a blank, JSON), in this network
    echo.py GATEWAY zmq FROM TO ORDER...      namespace, and echoes every message of a channel X/there on X/back
    echo.py GATEWAY ros2 X,DOMAIN,RELIABILITY TYPE ORDER...
    echo.py GATEWAY ihmc X,DOMAIN CLASSES ORDER...
"""

import select
import subprocess
import sys
import time


class Lcm:
    """Receives and sends by the library of LCM."""

    def __init__(self, url, _):
        import lcm

        self.echoed = 0
        self.peer = lcm.LCM(url)
        self.peer.subscribe(".*/there", self.echo).set_queue_capacity(0)

    def echo(self, channel, data):
        self.peer.publish(channel.removesuffix("/there") + "/back", data)
        self.echoed += 1

    def handle(self):
        self.peer.handle_timeout(20)


class Zmq:
    """Subscribes at one address and publishes at another by the library of ZeroMQ."""

    def __init__(self, from_, to):
        import zmq

        self.echoed = 0
        context = zmq.Context()
        self.publisher = context.socket(zmq.PUB)
        self.publisher.set_hwm(0)
        self.publisher.bind(to)
        self.subscriber = context.socket(zmq.SUB)
        self.subscriber.set_hwm(0)
        self.subscriber.subscribe(b"")
        self.subscriber.connect(from_)

    def handle(self):
        while self.subscriber.poll(20):
            name, payload, head = self.subscriber.recv_multipart()
            assert len(head) == 16, head
            self.publisher.send_multipart([name.removesuffix(b"/there") + b"/back", payload])
            self.echoed += 1


class Ros2:
    """Decodes and encodes again, as a node that subscribes and publishes."""

    def __init__(self, topic, type_name):
        from ros2_peer import Node

        self.echoed = 0
        name, domain, reliability = topic.split(",")
        self.numbers = reliability == "best_effort"
        self.node = Node(int(domain), reliability, type_name, f"{name}/there", f"{name}/back")

    def handle(self):
        self.node.wait(0.02)
        for message in self.node.reader.take(200):
            # That a writer is gone is a sample too.
            if not message.sample_info.valid_data:
                continue
            # Where messages may be lost, the test counts by the numbers of this sender.
            if self.numbers:
                message.header.stamp.sec = self.echoed
            self.node.writer.write(message)
            self.echoed += 1


class Ihmc:
    """IHMC's ROS 2 in Java, in a process of its own; CLASSES are those of `ihmc/Echo.java` and its libraries."""

    def __init__(self, topic, classes):
        name, domain = topic.split(",")
        command = ["java", "-cp", classes, "Echo", domain, f"{name}/there", f"{name}/back"]
        self.java = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def handle(self):
        time.sleep(0.02)

    @property
    def echoed(self):
        lines = self.java.communicate()[0].splitlines()
        return int([line for line in lines if line.startswith("echoed ")][0].split()[1])


gateway, network, *rest = sys.argv[1:]
peer, orders = {"lcm": Lcm, "zmq": Zmq, "ros2": Ros2, "ihmc": Ihmc}[network](*rest[:2]), rest[2:]
started = []
for order in orders:
    verb, text = order.split(" ", 1)
    started.append(subprocess.Popen([gateway, verb, text], stdout=subprocess.PIPE, text=True))
    print(started[-1].stdout.readline().strip(), flush=True)
# The test closes the standard input at its end.
while not select.select([sys.stdin], [], [], 0)[0]:
    peer.handle()
for process in started:
    process.terminate()
    print(process.communicate()[0].strip(), flush=True)
print(peer.echoed, flush=True)
