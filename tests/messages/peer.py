"""Messages by rosbags, which knows nothing of onbeat.

    peer.py make FOLDER COUNT    random messages of each type, encoded by rosbags, and the hashes of the types
    peer.py python FOLDER        decodes and encodes them with the generated Python classes
"""

import importlib.util
import json
import random
import struct
import sys
from pathlib import Path

import numpy as np
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

OWN = Path(__file__).parent / "msg"
ONBEAT = Path(__file__).parents[2] / "crates/onbeat-message/msg"
#: The field of a message without fields.
EMPTY = "structure_needs_at_least_one_member"
FLOATS = [0.0, -0.0, 1.5, -1e30, 1e-40, float("inf"), float("nan")]


def typestore():
    store = get_typestore(Stores.EMPTY)
    types = {}
    for path in sorted(OWN.glob("*/msg/*.msg")):
        types |= get_types_from_msg(path.read_text(), f"{path.parts[-3]}/msg/{path.stem}")
    for path in sorted(ONBEAT.glob("*.msg")):
        types |= get_types_from_msg(path.read_text(), f"onbeat_msgs/msg/{path.stem}")
    store.register(types)
    return store, list(types)


def number(random_, kind):
    if kind.startswith("float"):
        value = random_.choice(FLOATS) if random_.random() < 0.2 else random_.uniform(-1e3, 1e3)
        return np.float32(value) if kind == "float32" else value
    if kind == "bool":
        return random_.random() < 0.5
    if kind == "byte":
        # rosbags encodes no others.
        return random_.randrange(128)
    kind = {"char": "uint8"}.get(kind, kind)
    info = np.iinfo(kind)
    return random_.choice([int(info.min), int(info.max), random_.randint(int(info.min), int(info.max))])


def text(random_, most):
    word = "".join(random_.choice("abc xyzäß€") for _ in range(random_.randrange(30)))
    while most and len(word.encode()) > most:
        word = word[:-1]
    return word


def several(random_, store, description, count):
    values = [single(random_, store, description) for _ in range(count)]
    node, inner = description
    if node.name == "BASE" and inner[0] != "string":
        kind = {"byte": "uint8", "char": "uint8"}.get(inner[0], inner[0])
        return np.array(values, dtype=kind)
    return values


def single(random_, store, description):
    node, inner = description
    if node.name == "BASE":
        kind, most = inner
        return text(random_, most) if kind == "string" else number(random_, kind)
    if node.name == "NAME":
        return message(random_, store, inner)
    of, count = inner
    if node.name == "ARRAY":
        return several(random_, store, of, count)
    return several(random_, store, of, random_.randrange((count or 6) + 1))


def message(random_, store, name):
    fields = store.fielddefs[name][1]
    values = (0 if field == EMPTY else single(random_, store, of) for field, of in fields)
    return store.types[name](*values)


def make(folder, count):
    store, names = typestore()
    for name in names:
        random_ = random.Random(name)
        with (folder / (name.replace("/", "-") + ".bin")).open("wb") as out:
            for _ in range(count):
                data = bytes(store.serialize_cdr(message(random_, store, name), name))
                out.write(struct.pack("<I", len(data)) + data)
    print(json.dumps({name: store.hash_rihs01(name) for name in names}))


def encoded(path):
    data = path.read_bytes()
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        yield data[at + 4 : at + 4 + length]
        at += 4 + length


def generated(folder):
    """Decodes with the generated class, compares values with rosbags, and encodes again."""
    store, names = typestore()
    counts = {}
    for name in names:
        stem = name.replace("/", "-")
        spec = importlib.util.spec_from_file_location(stem.replace("-", "_"), folder / f"{stem}.py")
        module = importlib.util.module_from_spec(spec)
        # As an import does: a dataclass looks for its module there.
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        class_ = getattr(module, name.split("/")[-1])
        assert class_.TYPE == name and class_.HASH == store.hash_rihs01(name), name
        assert class_.decode(class_().encode()) == class_(), f"{name}: the default"
        counts[name] = 0
        for data in encoded(folder / f"{stem}.bin"):
            own = class_.decode(data)
            assert own.encode() == data, f"{name}: {data.hex()}"
            counts[name] += 1
            if counts[name] <= 100:
                same(own, store.deserialize_cdr(data, name), name)
    print(json.dumps(counts))


def same(own, other, where):
    for field in other.__dataclass_fields__:
        if field.startswith("__") or field == EMPTY:
            continue
        here = getattr(own, field, None) if hasattr(own, field) else getattr(own, field + "_")
        there = getattr(other, field)
        if hasattr(there, "__dataclass_fields__"):
            same(here, there, f"{where}.{field}")
        elif isinstance(there, np.ndarray):
            np.testing.assert_array_equal(np.array(list(here), dtype=there.dtype), there)
        elif isinstance(there, list) and there and hasattr(there[0], "__dataclass_fields__"):
            for one, two in zip(here, there, strict=True):
                same(one, two, f"{where}.{field}")
        else:
            assert here == there or here != here, f"{where}.{field}: {here} {there}"


if sys.argv[1] == "make":
    make(Path(sys.argv[2]), int(sys.argv[3]))
else:
    generated(Path(sys.argv[2]))
