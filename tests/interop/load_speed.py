"""Times onbeat.load on a log of a million messages of /imu, in Python and Octave, beside the official reader in turns.

    load_speed.py FOLDER CLASSES [COUNT]      CLASSES is a class path with the Java client and aircompressor

The log is one that the package mcap writes, with chunks of 1 MiB in zstd, as the recorder of ROS 2 does. The official reader only
passes over the bytes of the messages; onbeat.load decodes them. The ratio is that of each pair of runs.
"""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onbeat
from mcap.reader import make_reader
from mcap.writer import Writer
from rosbags.typesys import Stores, get_typestore

PAIRS = 5
TYPE = "sensor_msgs/msg/Imu"
folder, classes = Path(sys.argv[1]), sys.argv[2]
count = int(sys.argv[3]) if len(sys.argv) > 3 else 1_000_000
root = Path(__file__).parents[2]


def written(path):
    store = get_typestore(Stores.ROS2_JAZZY)
    of = store.types
    noise = np.random.default_rng(1).normal(size=(count, 6))
    matrix = np.zeros(9)
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start("ros2", "load_speed")
        schema = writer.register_schema(TYPE, "ros2msg", store.generate_msgdef(TYPE, ros_version=2)[0].encode())
        channel = writer.register_channel("/imu", "cdr", schema)
        for n, row in enumerate(noise):
            stamp = of["builtin_interfaces/msg/Time"](n // 1000, n % 1000 * 1_000_000)
            header = of["std_msgs/msg/Header"](stamp, "imu_link")
            turn = of["geometry_msgs/msg/Quaternion"](0.0, 0.0, 0.0, 1.0)
            rates, forces = (of["geometry_msgs/msg/Vector3"](*part) for part in (row[:3].tolist(), row[3:].tolist()))
            data = bytes(store.serialize_cdr(of[TYPE](header, turn, matrix, rates, matrix, forces, matrix), TYPE))
            writer.add_message(channel, log_time=n * 1_000_000, publish_time=n * 1_000_000, sequence=n, data=data)
        writer.finish()


def loaded(path):
    began = time.monotonic(), time.process_time()
    channel = onbeat.load(path)["/imu"]
    total = float(channel["angular_velocity.x"].sum())
    assert len(channel) == count
    return time.monotonic() - began[0], time.process_time() - began[1], total


def passed(path):
    began = time.monotonic(), time.process_time()
    with path.open("rb") as file:
        assert sum(1 for _ in make_reader(file).iter_messages()) == count
    return time.monotonic() - began[0], time.process_time() - began[1]


def show(name, runs):
    """The time that passed, and the CPU time, which depends less on what else the machine does."""
    print(name)
    for what, seconds in zip(("elapsed", "CPU"), zip(*runs, strict=True), strict=True):
        middle = statistics.median(seconds)
        print(f"  {what:<8} median {middle:6.2f} s   best {min(seconds):6.2f} s   worst {max(seconds):6.2f} s   of {len(seconds)}")


def by_octave(path):
    paths = " ".join(f"javaaddpath ('{one}');" for one in classes.split(os.pathsep))
    script = f"""
{paths} addpath ('{root}/octave');
for i = 1:{PAIRS}
  began = cputime (); tic; log = onbeat.load ('{path}'); s = toc;
  printf ('%.3f %.3f %d %.6f\\n', s, cputime () - began, rows (log.imu.angular_velocity_x), sum (log.imu.angular_velocity_x));
  clear log;
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
    return [line.split() for line in octave.stdout.splitlines()]


log = folder / "imu.mcap"
written(log)
own, theirs = [], []
for _ in range(PAIRS):
    seconds, cpu, total = loaded(log)
    own.append((seconds, cpu))
    theirs.append(passed(log))
print(f"{count} messages, {log.stat().st_size} bytes")
show("onbeat.load, Python", own)
show("mcap, Python, bytes only", theirs)
for place, what in enumerate(("elapsed", "CPU")):
    ratios = sorted(one[place] / other[place] for one, other in zip(own, theirs, strict=True))
    print(f"ratio of a pair, {what}: median {statistics.median(ratios):.3f}, {ratios[0]:.3f} to {ratios[-1]:.3f}")
lines = by_octave(log)
assert len(lines) == PAIRS
assert all(int(found) == count and abs(float(sum_) - total) < 1e-3 for _, _, found, sum_ in lines), lines
show("onbeat.load, Octave", [(float(line[0]), float(line[1])) for line in lines])
