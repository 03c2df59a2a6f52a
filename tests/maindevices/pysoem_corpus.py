"""pysoem on generated devices of ESI files: each to OP, then cycles with the exact working counter.

Arguments: the onbeat binary and a JSON file with the cases: name, file of the segment, start-up values, working counter, bytes of outputs and
inputs of a device. Runs in a private network namespace (`unshare --net`), as root. Prints one line of JSON.
"""

import json
import sys
import time

import pysoem

from segment import INTERFACE, result_alone, running

SAFEOP, OP = 4, 8
CYCLES = 50
# The library gives up at a reply that a busy machine delays by some milliseconds, and says so only by
# a state that is not reached.
TRIES = 5
# Terms of the library.
DEVICES, MAIN_DEVICE = "slaves", "Master"


def setting_up(bus, startup):
    """Returns the function that the library calls before SAFEOP."""

    def write(place):
        for index, subindex, complete, data in startup:
            getattr(bus, DEVICES)[place].sdo_write(index, subindex, bytes.fromhex(data), complete)

    return write


def of_case(onbeat, case):
    with running(onbeat, case["file"]) as end:
        bus = getattr(pysoem, MAIN_DEVICE)()
        bus.open(INTERFACE)
        try:
            for _ in range(TRIES):
                seen = brought_up(bus, case)
                if "failed" not in seen:
                    break
            return seen
        finally:
            bus.state = 1
            bus.write_state()
            bus.close()
            end()


def brought_up(bus, case):
    found = 0
    for _ in range(50):
        found = bus.config_init()
        if found > 0:
            break
        time.sleep(0.05)
    devices = getattr(bus, DEVICES)
    for device in devices:
        device.config_func = setting_up(bus, case["startup"])
    bus.config_map()
    if bus.state_check(SAFEOP, 5_000_000) != SAFEOP:
        bus.read_state()
        return {"failed": "SAFEOP", "codes": [device.al_status for device in devices]}
    bus.send_processdata()
    bus.receive_processdata(100_000)
    bus.state = OP
    bus.write_state()
    for _ in range(200):
        bus.send_processdata()
        bus.receive_processdata(100_000)
        if bus.state_check(OP, 50_000) == OP:
            break
    else:
        return {"failed": "OP"}
    seen = []
    for _ in range(CYCLES):
        bus.send_processdata()
        seen.append(bus.receive_processdata(200_000))
    # A reply that is lost because the machine is busy is not a wrong one.
    wrong = [counter for counter in seen if counter not in (case["counter"], -1)]
    lengths = [[len(device.output), len(device.input)] for device in devices]
    return {"found": found, "exact": seen.count(case["counter"]), "wrong": wrong, "lengths": lengths}


def main():
    write_result = result_alone()
    onbeat, path = sys.argv[1:]
    with open(path) as file:
        cases = json.load(file)
    write_result([of_case(onbeat, case) for case in cases])


main()
