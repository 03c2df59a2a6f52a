"""Times onbeat.load on a log of a million messages: five times each, the best and the worst, in Python, Octave and mcap_ros2.

    load_speed.py LOG CLASSES      CLASSES is a folder with the Java client, compiled
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import onbeat
from mcap.reader import make_reader

TIMES = 5
log, classes = sys.argv[1:]
root = Path(__file__).parents[2]


def show(name, seconds):
    print(f"{name:<28} best {min(seconds):6.2f} s   worst {max(seconds):6.2f} s   of {len(seconds)}")


def loaded():
    began = time.monotonic()
    channel = onbeat.load(log)["demo/state"]
    total = float(channel["joints"].sum())
    return time.monotonic() - began, len(channel), total


runs = [loaded() for _ in range(TIMES)]
rows, total = runs[0][1:]
print(f"{rows} messages, {os.path.getsize(log)} bytes")
show("onbeat.load, Python", [run[0] for run in runs])

script = f"""
javaaddpath ('{classes}'); addpath ('{root}/octave');
for i = 1:{TIMES}
  tic; log = onbeat.load ('{log}'); s = toc;
  printf ('%.3f %d %.6f\\n', s, rows (log.demo_state.joints), sum (log.demo_state.joints(:)));
end
"""
java = Path(subprocess.run(["sh", "-c", 'readlink -f "$(command -v java)"'], stdout=subprocess.PIPE, text=True).stdout.strip())
octave = subprocess.run(
    ["octave", "--quiet", "--no-window-system", "--eval", script],
    stdout=subprocess.PIPE,
    text=True,
    check=True,
    env=os.environ | {"JAVA_HOME": str(java.parents[1])},
)
lines = [line.split() for line in octave.stdout.splitlines()]
assert all(int(found) == rows and abs(float(sum_) - total) < 1e-3 for _, found, sum_ in lines), octave.stdout
show("onbeat.load, Octave", [float(line[0]) for line in lines])

began = time.monotonic()
with open(log, "rb") as file:
    assert sum(1 for _ in make_reader(file).iter_messages()) == rows
show("mcap, Python, no decoding", [time.monotonic() - began])
