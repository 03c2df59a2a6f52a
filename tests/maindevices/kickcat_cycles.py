"""KickCAT on the simulated humanoid: all devices to OP, then cycles whose working counters KickCAT checks.

Arguments: the onbeat binary, the number of cycles. Runs in a private network namespace (`unshare --net`), as root. Prints one line
of JSON.
"""

import sys
import time

from kickcat import Access, Bus, State, create_link
from segment import INTERFACE, result_alone, running

MOST_BYTES = 8192
# KickCAT fails at the first reply that a busy machine delays too long.
TRIES = 5
IDENTITY, VENDOR = 0x1018, 1
# Terms of the library.
DEVICES = "slaves"


def tried(action):
    for left in reversed(range(TRIES)):
        try:
            return action()
        except RuntimeError as error:
            if left == 0:
                raise
            print(error, file=sys.stderr)


def bring_up(link):
    bus = Bus(link)
    bus.init(1.0)
    bus.create_mapping(MOST_BYTES)
    bus.request_state(State.SAFE_OP)
    bus.wait_for_state(State.SAFE_OP, 5.0)
    for device in getattr(bus, DEVICES)():
        if device.output_size:
            device.set_output_bytes(bytes(device.output_size))
    bus.process_data_no_check()
    bus.request_state(State.OPERATIONAL)
    bus.wait_for_state(State.OPERATIONAL, 5.0, bus.process_data_no_check)
    return bus


def cycles(bus, count):
    refused = []
    for _ in range(count):
        try:
            bus.process_data()
        except RuntimeError as error:
            refused.append(str(error))
    return {"exact": count - len(refused), "refused": refused[:5]}


def main():
    onbeat, count = sys.argv[1], int(sys.argv[2])
    write_result = result_alone()
    with running(onbeat, "humanoid") as end:
        link = create_link(INTERFACE, "")
        # Timeout of each frame during bring-up; a busy machine delays a reply by some milliseconds.
        link.set_timeout(0.02)
        began = time.monotonic()
        bus = tried(lambda: bring_up(link))
        devices = getattr(bus, DEVICES)()
        result = {"devices": len(devices), "seconds_to_op": round(time.monotonic() - began, 3), **cycles(bus, count)}
        vendor = tried(lambda: bus.read_sdo(devices[1], IDENTITY, VENDOR, Access.PARTIAL, 4, 1.0))
        result["vendor"] = int.from_bytes(vendor, "little")
        result["segment"] = end()
    write_result(result)


main()
