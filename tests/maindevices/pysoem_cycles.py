"""pysoem on the simulated humanoid: all devices to OP, then cycles with the exact working counter.

Arguments: the onbeat binary, the number of cycles. Runs in a network namespace of its own (`unshare --net`), as root.
Prints one line of JSON.
"""

import json
import signal
import subprocess
import sys
import time

import pysoem

INTERFACE = "ecat0"
OP = 8
# Words of the library's own, which are not ours.
DEVICES, MAIN_DEVICE = "slaves", "Master"


def start(onbeat):
    """The segment, once it says that its devices answer."""
    command = [onbeat, "segment", "run", "humanoid", "--veth", INTERFACE]
    segment = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in segment.stderr:
        if "answer on" in line:
            return segment
        print(line, end="", file=sys.stderr)
    sys.exit("the segment does not start")


def bring_up(bus):
    # A busy machine may keep the first answer back for longer than the library waits.
    found = 0
    for _ in range(50):
        found = bus.config_init()
        if found > 0:
            break
        time.sleep(0.05)
    bus.config_map()
    if bus.state_check(4, 5_000_000) != 4:
        sys.exit(f"SAFEOP is not reached, {found} devices found")
    bus.send_processdata()
    bus.receive_processdata(100_000)
    bus.state = OP
    bus.write_state()
    for _ in range(200):
        bus.send_processdata()
        bus.receive_processdata(100_000)
        if bus.state_check(OP, 50_000) == OP:
            return found
    sys.exit("OP is not reached")


def cycles(bus, count):
    expected, exact, lost, others, took = bus.expected_wkc, 0, 0, [], []
    for _ in range(count):
        began = time.perf_counter_ns()
        bus.send_processdata()
        seen = bus.receive_processdata(200_000)
        took.append((time.perf_counter_ns() - began) / 1000)
        if seen == expected:
            exact += 1
        elif seen < 0:
            lost += 1
        else:
            others.append(seen)
    took.sort()
    at = {f"p{share}_us": took[min(len(took) * share // 100, len(took) - 1)] for share in (50, 99)}
    return {"expected": expected, "exact": exact, "lost": lost, "others": others, **at}


def main():
    onbeat, count = sys.argv[1], int(sys.argv[2])
    segment = start(onbeat)
    try:
        bus = getattr(pysoem, MAIN_DEVICE)()
        bus.open(INTERFACE)
        began = time.monotonic()
        found = bring_up(bus)
        took = time.monotonic() - began
        told = {"devices": found, "listed": len(getattr(bus, DEVICES)), "seconds_to_op": round(took, 3), **cycles(bus, count)}
        bus.close()
    finally:
        segment.send_signal(signal.SIGINT)
        said, _ = segment.communicate(timeout=10)
    told["segment"] = said.strip()
    print(json.dumps(told))


main()
