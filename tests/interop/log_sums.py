"""What `log_sums.m` prints about a log, by onbeat.load in Python.

    log_sums.py FOLDER COUNT
"""

import re
import sys

import numpy as np
import onbeat


def flat(values):
    if isinstance(values, (np.ndarray, list, tuple)) and not (isinstance(values, np.ndarray) and values.dtype.kind in "biuf"):
        found = [flat(one) for one in values]
        return sum(count for count, _ in found), sum(total for _, total in found)
    if isinstance(values, (bytes, str)):
        return 1, len(values.encode() if isinstance(values, str) else values)
    numbers = np.asarray(values, "f8").ravel()
    return len(numbers), float(numbers[np.isfinite(numbers)].sum())


for turn in range(int(sys.argv[2])):
    for log in (f"{turn}.mcap", f"{turn}_bag"):
        print(f"== {log}")
        for name, channel in onbeat.load(f"{sys.argv[1]}/{log}").items():
            for field in channel.fields:
                count, total = flat(channel[field])
                print(name, re.sub(r"[^a-zA-Z0-9_]", "_", field), count, f"{total:.9g}")
