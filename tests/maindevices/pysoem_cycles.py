"""pysoem on simulated devices: all of them to OP, then cycles with the exact working counter.

Arguments: the onbeat binary, the number of cycles, and the file of a ring if it is to be one: then pysoem runs its cable redundancy on
both ends, and the cable is cut for a third of the cycles. Without a file it is the humanoid. Runs in a network namespace of its own
(`unshare --net`), as root. Prints one line of JSON.
"""

import json
import subprocess
import sys
import time

import pysoem

from segment import FAR_END, INTERFACE, running

OP = 8
# Words of the library's own, which are not ours.
DEVICES, MAIN_DEVICE = "slaves", "Master"


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


def cycles(bus, count, events):
    """Events are what happens before a cycle, by its number."""
    expected, exact, lost, others, took = bus.expected_wkc, 0, 0, [], []
    for number in range(count):
        events.get(number, lambda: None)()
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


def cut(onbeat, device, count):
    """The cable before a device, cut after a third of the cycles and whole again after two."""
    order = [onbeat, "segment"]
    return {
        count // 3: lambda: subprocess.run([*order, "fault", "cut", "--device", device], check=True, capture_output=True),
        count * 2 // 3: lambda: subprocess.run([*order, "heal"], check=True, capture_output=True),
    }


def main():
    onbeat, count, ring = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    with running(onbeat, *(ring or ["humanoid"])) as end:
        bus = getattr(pysoem, MAIN_DEVICE)()
        bus.open(INTERFACE, *([FAR_END] if ring else []))
        began = time.monotonic()
        found = bring_up(bus)
        took = time.monotonic() - began
        told = {"devices": found, "listed": len(getattr(bus, DEVICES)), "seconds_to_op": round(took, 3)}
        told |= cycles(bus, count, cut(onbeat, "left ankle", count) if ring else {})
        bus.close()
        told["segment"] = end()
    print(json.dumps(told))


main()
