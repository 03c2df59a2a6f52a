"""pysoem on simulated devices: all of them to OP, then cycles with the exact working counter.

Arguments: the onbeat binary and the number of cycles. `--ring FILE`: pysoem runs its cable redundancy on both ends of this segment, and the
cable is cut for a third of the cycles; the default is the humanoid. `--period-us N`: period of the cycles; by default without a pause.
Runs in a private network namespace (`unshare --net`), as root. Prints one line of JSON.
"""

import argparse
import json
import subprocess
import sys
import time

import pysoem

from segment import FAR_END, INTERFACE, result_alone, running

SAFEOP, OP = 4, 8
# The library gives up at a reply that a busy machine delays by some milliseconds, and says so only by
# a state that is not reached.
TRIES = 5
# Terms of the library.
DEVICES, MAIN_DEVICE = "slaves", "Master"


def configured(bus):
    """Configures the devices; returns their number, and whether all are in SAFEOP."""
    # A busy machine can delay the first reply beyond the timeout of the library.
    found = 0
    for _ in range(50):
        found = bus.config_init()
        if found > 0:
            break
        time.sleep(0.05)
    try:
        bus.config_map()
    except pysoem.ConfigMapError as error:
        print(error, file=sys.stderr)
    return found, bus.state_check(SAFEOP, 5_000_000) == SAFEOP


def bring_up(bus):
    for _ in range(TRIES):
        found, is_in_safeop = configured(bus)
        if is_in_safeop:
            break
    else:
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


def cycles(bus, count, period_s, events):
    """Runs cycles. `events`: functions to call before a cycle, by its number."""
    expected, exact, lost, others, took = bus.expected_wkc, 0, 0, [], []
    release = time.monotonic()
    for number in range(count):
        events.get(number, lambda: None)()
        release = max(release + period_s, time.monotonic())
        if period_s > 0:
            time.sleep(max(release - time.monotonic(), 0))
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
    """Returns events that cut the cable before a device after a third of the cycles and repair it after two thirds."""
    command = [onbeat, "segment"]
    return {
        count // 3: lambda: subprocess.run([*command, "fault", "cut", "--device", device], check=True, capture_output=True),
        count * 2 // 3: lambda: subprocess.run([*command, "heal"], check=True, capture_output=True),
    }


def frames(onbeat):
    """Returns the number of frames that the segment has received."""
    status = subprocess.run([onbeat, "segment", "status", "--json"], check=True, capture_output=True, text=True)
    return json.loads(status.stdout)["counts"]["sent"]


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("onbeat")
    parser.add_argument("count", type=int)
    parser.add_argument("--ring")
    parser.add_argument("--period-us", type=float, default=0)
    return parser.parse_args()


def main():
    given = arguments()
    onbeat, count, ring = given.onbeat, given.count, given.ring
    write_result = result_alone()
    with running(onbeat, ring or "humanoid") as end:
        bus = getattr(pysoem, MAIN_DEVICE)()
        bus.open(INTERFACE, *([FAR_END] if ring else []))
        began = time.monotonic()
        found = bring_up(bus)
        took = time.monotonic() - began
        result = {"devices": found, "listed": len(getattr(bus, DEVICES)), "seconds_to_op": round(took, 3), "frames": frames(onbeat)}
        result |= cycles(bus, count, given.period_us / 1e6, cut(onbeat, "left ankle", count) if ring else {})
        bus.close()
        result["segment"] = end()
    write_result(result)


main()
