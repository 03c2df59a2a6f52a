"""A loop by asyncio, as people write it: asyncio_loop.py PERIOD_US CYCLES [STAMPS].

Writes a line for each cycle into STAMPS: the release that it meant and the start, in ns of CLOCK_MONOTONIC.
"""

import asyncio
import sys
import time


async def loop(period_s, cycles):
    due = asyncio.get_running_loop().time() + period_s
    stamps = []
    for _ in range(cycles):
        await asyncio.sleep(due - asyncio.get_running_loop().time())
        stamps.append((int(due * 1e9), time.monotonic_ns()))
        due += period_s
    return stamps


stamps = asyncio.run(loop(int(sys.argv[1]) / 1e6, int(sys.argv[2])))
if len(sys.argv) > 3:
    with open(sys.argv[3], "w", encoding="ascii") as file:
        file.writelines(f"{release} {start}\n" for release, start in stamps)
