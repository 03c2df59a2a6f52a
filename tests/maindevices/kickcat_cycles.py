"""KickCAT on the simulated humanoid: all devices to OP, then cycles whose working counters it checks itself.

Arguments: the onbeat binary, the number of cycles. Runs in a network namespace of its own (`unshare --net`), as root. Prints one line
of JSON, behind what the library says.
"""

import json
import sys
import time

from kickcat import Access, Bus, State, create_link
from segment import INTERFACE, running

MOST_BYTES = 8192
IDENTITY, VENDOR = 0x1018, 1


def bring_up(bus):
    bus.init(1.0)
    bus.create_mapping(MOST_BYTES)
    bus.request_state(State.SAFE_OP)
    bus.wait_for_state(State.SAFE_OP, 5.0)
    for device in bus.slaves():
        if device.output_size:
            device.set_output_bytes(bytes(device.output_size))
    bus.process_data_no_check()
    bus.request_state(State.OPERATIONAL)
    bus.wait_for_state(State.OPERATIONAL, 5.0, bus.process_data_no_check)


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
    with running(onbeat, "humanoid") as end:
        link = create_link(INTERFACE, "")
        # It waits this long again and again while it brings devices up; a busy machine keeps a reply back for some milliseconds.
        link.set_timeout(0.02)
        bus = Bus(link)
        began = time.monotonic()
        bring_up(bus)
        told = {"devices": len(bus.slaves()), "seconds_to_op": round(time.monotonic() - began, 3), **cycles(bus, count)}
        told["vendor"] = int.from_bytes(bus.read_sdo(bus.slaves()[1], IDENTITY, VENDOR, Access.PARTIAL, 4, 1.0), "little")
        told["segment"] = end()
    print(json.dumps(told))


main()
