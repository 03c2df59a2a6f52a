"""The other end of the tests of LCM: the Python package `lcm` sends back what it receives.

    lcm_echo.py GATEWAY URL ORDER...    starts the gateway once for each ORDER (a verb, a blank, JSON), in this network namespace,
                                        and echoes every message of a channel X/there on X/back
"""

import select
import subprocess
import sys

import lcm

gateway, url, *orders = sys.argv[1:]
peer = lcm.LCM(url)
echoed = 0


def echo(channel, data):
    global echoed
    peer.publish(channel.removesuffix("/there") + "/back", data)
    echoed += 1


subscription = peer.subscribe(".*/there", echo)
subscription.set_queue_capacity(0)
started = []
for order in orders:
    verb, text = order.split(" ", 1)
    started.append(subprocess.Popen([gateway, verb, text], stdout=subprocess.PIPE, text=True))
    print(started[-1].stdout.readline().strip(), flush=True)
# The test closes the standard input at its end.
while not select.select([sys.stdin], [], [], 0)[0]:
    peer.handle_timeout(20)
for process in started:
    process.terminate()
    print(process.communicate()[0].strip(), flush=True)
print(echoed, flush=True)
