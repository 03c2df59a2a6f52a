"""Random messages in LCM's encoding, by the Python classes that its own lcm-gen writes.

    lcm_types.py FILE.lcm FOLDER COUNT    writes FOLDER/TYPE: a length of 4 bytes, little-endian, before each message;
                                          prints the fingerprints
"""

import importlib
import json
import random
import struct
import subprocess
import sys
from pathlib import Path

BOUNDS = {"int8_t": 1 << 7, "int16_t": 1 << 15, "int32_t": 1 << 31, "int64_t": 1 << 63}
FLOATS = [0.0, -0.0, 1.5, -1e30, 1e-40, float("inf")]


def single(random_, of):
    if of in BOUNDS:
        bound = BOUNDS[of]
        return random_.choice([-bound, bound - 1, 0, random_.randrange(-bound, bound)])
    if of == "byte":
        return random_.randrange(256)
    if of == "boolean":
        return random_.random() < 0.5
    if of in ("float", "double"):
        value = random_.choice(FLOATS) if random_.random() < 0.2 else random_.uniform(-1e3, 1e3)
        return struct.unpack("f", struct.pack("f", value))[0] if of == "float" else value
    if of == "string":
        return "".join(random_.choice("abc xyzäß€") for _ in range(random_.randrange(12)))
    return message(random_, getattr(package, of.split(".")[-1]))


def several(random_, of, sizes):
    if not sizes:
        return single(random_, of)
    values = [several(random_, of, sizes[1:]) for _ in range(sizes[0])]
    return bytes(values) if of == "byte" else values


def message(random_, class_):
    made = class_()
    fields = list(zip(class_.__slots__, class_.__typenames__, class_.__dimensions__))
    counted = {size for _, _, sizes in fields for size in sizes or [] if isinstance(size, str)}
    for name, of, sizes in fields:
        if name in counted:
            value = random_.randrange(5)
        else:
            whole = [getattr(made, size) if isinstance(size, str) else size for size in sizes or []]
            value = several(random_, of, whole)
        setattr(made, name, value)
    return made


def generated(file, folder):
    """Has lcm-gen write the classes of a file into a folder; returns their package."""
    global package
    generator = Path(sys.executable).with_name("lcm-gen")
    subprocess.run([generator, "-p", "--ppath", folder, file], check=True, stdout=subprocess.DEVNULL)
    sys.path.insert(0, str(folder))
    package = importlib.import_module("demo_lcm")
    return package


def random_messages(class_, count):
    """Returns encoded messages, the same in every run."""
    random_ = random.Random(class_.__name__)
    return [message(random_, class_).encode() for _ in range(count)]


if __name__ == "__main__":
    file, folder, count = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    package = generated(file, folder)
    fingerprints = {}
    for name in ("inner_t", "empty_t", "all_t"):
        class_ = getattr(package, name)
        messages = random_messages(class_, count)
        folder.joinpath(name).write_bytes(b"".join(struct.pack("<I", len(one)) + one for one in messages))
        fingerprints[name] = f"{class_._get_hash_recursive([]):016x}"
    print(json.dumps(fingerprints))
