"""Logs as people have them, one kind each: what onbeat.load finds in it, and what the gateway lists and plays.

    log_cases.py FOLDER GATEWAY     writes the logs, checks values and counts; prints the number of records of each channel
"""

import json
import os
import shutil
import sqlite3
import struct
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import onbeat
from mcap.writer import CompressionType, IndexType, Writer
from rosbags.rosbag1 import Writer as Bag1
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as Bag
from rosbags.typesys import Stores, get_typestore

STORE = get_typestore(Stores.ROS2_JAZZY)
STORE1 = get_typestore(Stores.ROS1_NOETIC)
FLOAT = "std_msgs/msg/Float64"
folder, program = Path(sys.argv[1]), sys.argv[2]
counts = {}


def make(name, *values):
    return STORE.types[name](*values)


def header(n):
    return make("std_msgs/msg/Header", make("builtin_interfaces/msg/Time", n, 5), "base")


def float64(n):
    return make(FLOAT, n / 2)


def tf(n, transforms):
    transform = make(
        "geometry_msgs/msg/Transform",
        make("geometry_msgs/msg/Vector3", 1.0, 2.0, 3.0 + n),
        make("geometry_msgs/msg/Quaternion", 0.0, 0.0, 0.0, 1.0),
    )
    one = "geometry_msgs/msg/TransformStamped"
    return make("tf2_msgs/msg/TFMessage", [make(one, header(n), f"child{k}", transform) for k in range(transforms)])


def joints(n):
    names = [f"j{k}" for k in range(n)]
    return make("sensor_msgs/msg/JointState", header(n), names, np.arange(n) + 0.5, np.zeros(n), np.zeros(0))


def diagnostics(n):
    pairs = [make("diagnostic_msgs/msg/KeyValue", f"k{k}", "v" * k) for k in range(n)]
    status = "diagnostic_msgs/msg/DiagnosticStatus"
    return make("diagnostic_msgs/msg/DiagnosticArray", header(n), [make(status, 1, "a", "b", "c", pairs)] * (n % 3))


def ros2(name, topic, messages, **how):
    """A log of one topic of ROS 2."""
    path, kind = folder / f"{name}.mcap", messages[0].__msgtype__
    with path.open("wb") as file:
        writer = Writer(file, **how)
        writer.start("ros2")
        schema = writer.register_schema(kind, "ros2msg", STORE.generate_msgdef(kind, ros_version=2)[0].encode())
        channel = writer.register_channel(topic, "cdr", schema)
        for n, one in enumerate(messages):
            data = bytes(STORE.serialize_cdr(one, kind))
            writer.add_message(channel, log_time=n, publish_time=n, sequence=n, data=data)
        writer.finish()
    return path


def other(name, encoding, schema, data, topic="/other"):
    """Ten messages in another encoding beside ten of ROS 2, with an attachment and metadata."""
    path = folder / f"{name}.mcap"
    with path.open("wb") as file:
        writer = Writer(file, compression=CompressionType.LZ4)
        writer.start("")
        of = writer.register_channel(topic, encoding, writer.register_schema(*schema) if schema else 0)
        beside = writer.register_channel("/f", "cdr", writer.register_schema(FLOAT, "ros2msg", b"float64 data\n"))
        for n in range(10):
            writer.add_message(of, log_time=n, publish_time=n, data=data)
            writer.add_message(beside, log_time=n, publish_time=n, data=bytes(STORE.serialize_cdr(float64(n), FLOAT)))
        writer.add_attachment(1, 2, "calibration.yaml", "text/plain", b"a: 1")
        writer.add_metadata("made", {"by": "hand"})
        writer.finish()
    return path


def gateway(verb, path, **more):
    order = json.dumps({"log": str(path), "most_memory": 1 << 28} | more)
    done = subprocess.run([program, verb, order], stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def played(path, topics):
    """Plays a log into rings of this test; returns the number of records of each topic."""
    channels = [{"topic": topic, "remote": f"case-{os.getpid()}/{n}"} for n, topic in enumerate(topics)]
    account = gateway("play", path, channels=channels, rate=0)
    assert "error" not in account, f"{path}: {account}"
    return {of["channel"]: of["received"] for of in account["channels"]}


def opened(path, wanted, not_decoded=(), **how):
    """Loads a log, which has these counts, also as the gateway lists and plays it; only these channels are not decoded, and said to be."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        log = onbeat.load(path, **how)
    assert {name: len(of) for name, of in log.items()} == wanted, f"{path}: {log}"
    assert {name for name, of in log.account.items() if of.get("not_decoded")} == set(not_decoded), f"{path}: {log.account}"
    assert bool(caught) == bool(not_decoded or log.damage or not log.is_complete), f"{path}: {caught}"
    account = gateway("list", path)
    assert {of["channel"]: of["records"] for of in account["channels"]} == wanted, f"{path}: {account}"
    assert played(path, wanted) == wanted, path
    counts[path.name] = wanted
    return log


def encodings():
    both = {"/other": 10, "/f": 10}
    log = opened(other("json", "json", ("X", "jsonschema", b"{}"), b'{"a": 1, "b": {"c": "d"}}'), both)
    assert log["/other"]["a"].tolist() == [1] * 10 and log["/other"].message(3) == {"a": 1, "b": {"c": "d"}}
    assert log["/f"]["data"].tolist() == [n / 2 for n in range(10)]
    assert gateway("convert", folder / "json.mcap", out=str(folder / "json.copy"))["not_copied"] == 2
    log = opened(other("no_schema", "json", None, b'{"a": 1}'), both)
    assert log["/other"]["a"].tolist() == [1] * 10
    log = opened(other("protobuf", "protobuf", ("X", "protobuf", b"\x08\x01"), b"\x08\x02"), both, ["/other"])
    assert log["/other"].payload(9) == b"\x08\x02" and "definition" in log["/other"].why
    log = opened(other("flatbuffer", "flatbuffer", ("X", "flatbuffer", b"\0"), b"\0\1\2\3"), both, ["/other"])
    assert log["/other"]["payload"][0] == b"\0\1\2\3"
    log = opened(other("ros1", "ros1", ("std_msgs/Float64", "ros1msg", b"float64 data\n"), struct.pack("<d", 1.5)), both)
    assert log["/other"]["data"].tolist() == [1.5] * 10
    # With an address in a comment, as rosidl carries it over.
    note = b'@verbatim (language="comment", text="see https://wiki.ros.org" "\\n" "/* all */")'
    idl = b"=" * 80 + b"\nIDL: std_msgs/msg/Float64\nmodule std_msgs { module msg { " + note
    idl += b" struct Float64 { double data; }; }; };\n"
    log = opened(other("idl", "cdr", (FLOAT, "ros2idl", idl), b"\0\1\0\0" + struct.pack("<d", 1.5)), both)
    assert log["/other"]["data"].tolist() == [1.5] * 10
    # As rosbag2 writes it: first the type, then the files that it needs; and a parent that is not there.
    own = "module a { struct S : b::P { b::E e; octet d[b::N]; }; };"
    used = "module b { const long N = 2; @bit_bound(8) enum E { A, B }; typedef octet O; struct P { O o; }; };"
    for name, files in (("files", (own, used)), ("needed-first", (used, own))):
        idl = "".join("=" * 80 + f"\nIDL: a/msg/S\n{file}\n" for file in files).encode()
        log = opened(other(name, "cdr", ("a::S", "ros2idl", idl), b"\0\1\0\0\7\1\2\3"), both)
        assert log["/other"].message(0) == {"o": 7, "e": 1, "d": [2, 3]}
    log = opened(other("parent", "cdr", ("S", "omgidl", b"struct S : P { octet o; };"), b"\0\1\0\0\7\1"), both, ["/other"])
    assert "the type P is not defined" in log["/other"].why
    idl = b"@mutable struct P { octet o; }; struct S { P p; octet o; };"
    log = opened(other("mutable", "cdr", ("S", "omgidl", idl), b"\0\1\0\0" + bytes(20)), both, ["/other"])
    assert "P is or has mutable" in log["/other"].why
    # XCDR2 has the length of a structure that others may extend before it, and here one of them has done so.
    idl = b"@appendable struct P { long a; }; struct S { P p; double b; sequence<P> q; };"
    data = b"\0\11\0\0" + struct.pack("<IIiidIIIi", 36, 8, 9, 77, 2.5, 12, 1, 4, 5)
    log = opened(other("appendable", "cdr", ("S", "omgidl", idl), data), both)
    assert log["/other"].message(0) == {"p": {"a": 9}, "b": 2.5, "q": [{"a": 5}]}
    assert (log["/other"]["p.a"][9], log["/other"]["b"][9], log["/other"]["q.a"][9]) == (9, 2.5, 5)
    # One without an annotation is final for Cyclone DDS, and by the standard it is not.
    idl = b"struct P { long a; }; @final struct S { P p; double b; };"
    for name, lengths in (("final", b""), ("standard", struct.pack("<I", 4))):
        data = b"\0\7\0\0" + lengths + struct.pack("<id", 9, 2.5)
        log = opened(other(name, "cdr", ("S", "omgidl", idl), data), both)
        assert log["/other"]["p.a"].tolist() == [9] * 10 and log["/other"].message(1) == {"p": {"a": 9}, "b": 2.5}
    # What is neither read nor used is no obstacle; a constant is that of its module.
    idl = b"module b { const long N = 1; }; module a { const long N = 7; enum E { ZERO, ONE }; const long M = 2 * b::N * E::ONE;"
    idl += b" @bit_bound(8) bitmask F { LOW, HIGH }; union U switch (long) { case 1: long x; }; struct R; typedef sequence<R> Rs;"
    idl += b" struct R { octet o; }; struct S { F f; char c; octet d[M + 010]; Rs rest; }; };"
    data = b"\0\1\0\0\3A" + bytes(range(10)) + struct.pack("<IB", 1, 5)
    log = opened(other("omgidl", "cdr", ("a::S", "omgidl", idl), data), both)
    assert log["/other"].message(0) == {"f": 3, "c": 65, "d": list(range(10)), "rest": [{"o": 5}]}


def interfaces():
    """rosbag2 records services and actions with the text of their file, and a type that it could not find with none."""
    both, line = {"/other": 10, "/f": 10}, "=" * 80 + "\n"
    stamp, one = struct.pack("<iI", 7, 8), struct.pack("<I4x", 1)
    text = f"{line}SRV: demo/srv/Add\nint64 a  # first\nint64 b\n---\nOther sum\n\n{line}MSG: demo/Other\nfloat64 x\n"
    data = b"\0\1\0\0\2\0\0\0" + stamp + bytes(range(16)) + b"\0" * 4 + struct.pack("<q", 5) + one + struct.pack("<qqI4x", 3, 4, 0)
    log = opened(other("service", "cdr", ("demo/srv/Add_Event", "ros2msg", text.encode()), data), both)["/other"]
    assert log["info.sequence_number"].tolist() == [5] * 10 and [it.tolist() for it in log["request.b"]] == [[4]] * 10
    assert log.message(0)["response"] == [] and log.message(0)["info"]["client_gid"] == list(range(16))

    text = f"{line}ACTION: demo/action/Go\r\nint32 goal\r\n---\r\n---\r\nfloat32[] left\r\n".encode()
    data = b"\0\1\0\0" + bytes(range(16)) + struct.pack("<Iff", 2, 0.5, 1.5)
    log = opened(other("feedback", "cdr", ("demo/action/Go_FeedbackMessage", "ros2msg", text), data), both)["/other"]
    assert log.message(0) == {"goal_id": {"uuid": list(range(16))}, "feedback": {"left": [0.5, 1.5]}}
    data = b"\0\1\0\0" + struct.pack("<I", 1) + bytes(range(16)) + stamp + b"\4"
    log = opened(other("status", "cdr", ("action_msgs/msg/GoalStatusArray", "ros2msg", text), data), both)["/other"]
    assert [it.tolist() for it in log["status_list.status"]] == [[4]] * 10
    log = opened(other("unknown", "cdr", ("demo/msg/Lost", "unknown", b""), data), both, ["/other"])["/other"]
    assert "has no definition of demo/msg/Lost" in log.why


def broken_json():
    """A text that is not JSON is left out and counted, and hides no other."""
    path = folder / "broken_json.mcap"
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start("")
        of = writer.register_channel("/other", "json", 0)
        for n in range(10):
            writer.add_message(of, log_time=n, publish_time=n, data=b'{"a": 1' + (b"}" if n != 3 else b"d}"))
        writer.finish()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        log = onbeat.load(path, damaged="skip")
    assert log["/other"]["a"].tolist() == [1] * 9 and log.account["/other"]["damaged"] == 1 and len(caught) == 1
    counts[path.name] = {"/other": 9}


def wide():
    """Fast CDR 2 has two bytes for a unit of UTF-16, Fast CDR 1 four."""
    for name, unit, order in (("wide_2", "<H", b"\0\1\0\0"), ("wide_4", "<I", b"\0\1\0\0"), ("wide_4_big", ">I", b"\0\0\0\0")):
        text = "hä🤖"
        units = np.frombuffer(text.encode("utf-16-le"), "<u2").tolist()
        data = order + struct.pack(unit[0] + "I", len(units)) + b"".join(struct.pack(unit, one) for one in units)
        schema = ("example_interfaces/msg/WString", "ros2msg", b"wstring data\n")
        log = opened(other(name, "cdr", schema, data), {"/other": 10, "/f": 10})
        assert log["/other"]["data"].tolist() == [text] * 10, log["/other"]["data"]
        assert log["/other"].message(0) == {"data": text}


def lists():
    log = opened(ros2("tf", "/tf", [tf(n, 1 + 2 * (n % 2)) for n in range(6)]), {"/tf": 6})
    assert [len(one) for one in log["/tf"]["transforms.child_frame_id"]] == [1, 3] * 3
    assert [one.tolist() for one in log["/tf"]["transforms.transform.translation.z"]][:2] == [[3.0], [4.0] * 3]
    log = opened(ros2("tf_empty_first", "/tf", [tf(n, n % 3) for n in range(6)]), {"/tf": 6})
    assert [len(one) for one in log["/tf"]["transforms.header.stamp.sec"]] == [0, 1, 2] * 2
    log = opened(ros2("joints_grow", "/js", [joints(n) for n in range(6)]), {"/js": 6})
    assert [one.tolist() for one in log["/js"]["name"]][2:4] == [[b"j0", b"j1"], [b"j0", b"j1", b"j2"]]
    assert [one.tolist() for one in log["/js"]["position"]][2] == [0.5, 1.5]
    log = opened(ros2("diagnostics", "/diagnostics", [diagnostics(n) for n in range(6)]), {"/diagnostics": 6})
    for n in range(6):
        found = log["/diagnostics"].message(n)["status"]
        assert [[pair["key"] for pair in one["values"]] for one in found] == [[f"k{k}".encode() for k in range(n)]] * (n % 3)


def twice():
    path = folder / "twice.mcap"
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start("ros2")
        schema = writer.register_schema(FLOAT, "ros2msg", b"float64 data\n")
        of = [writer.register_channel("/f", "cdr", schema, {"writer": name}) for name in "ab"]
        for n in range(20):
            data = bytes(STORE.serialize_cdr(float64(n), FLOAT))
            writer.add_message(of[n % 2], log_time=n, publish_time=n, data=data)
        writer.finish()
    log = opened(path, {"/f": 20})
    assert log["/f"]["data"].tolist() == [n / 2 for n in range(20)] and len(set(log["/f"].sources)) == 2

    # Two versions of a type under one name.
    path = folder / "versions.mcap"
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start("ros2")
        schemas = [writer.register_schema(FLOAT, "ros2msg", f"{kind} data\n".encode()) for kind in ("float64", "float32")]
        of = [writer.register_channel("/f", "cdr", schema) for schema in schemas]
        for n in range(20):
            data = b"\0\1\0\0" + struct.pack(("<d", "<f")[n % 2], n / 2)
            writer.add_message(of[n % 2], log_time=n, publish_time=n, data=data)
        writer.finish()
    assert onbeat.load(path)["/f"]["data"].tolist() == [n / 2 for n in range(20)]


def damaged():
    """A byte of the last but one message is changed, in chunks of a message each."""
    path = ros2("damaged", "/f", [float64(n) for n in range(200)], chunk_size=1, compression=CompressionType.NONE)
    whole = bytearray(path.read_bytes())
    place = bytes(whole).index(bytes(STORE.serialize_cdr(float64(198), FLOAT)))
    whole[place + 6] ^= 255
    path.write_bytes(whole)
    try:
        onbeat.load(path)
        raise SystemExit("a damaged log was loaded")
    except onbeat.OnbeatError as why:
        assert "checksum" in str(why), why
    log = opened(path, {"/f": 199}, damaged="skip")
    assert log.account["/f"]["damaged"] == 1 and 99.0 not in log["/f"]["data"]
    assert len(gateway("list", path)["damage"]) == 1
    # The chunk that defines the channel, which the file defines again behind its messages.
    path = ros2("first", "/f", [float64(n) for n in range(200)], chunk_size=1, compression=CompressionType.NONE)
    path.write_bytes(path.read_bytes().replace(b"float64 data", b"float64 date", 1))
    log = opened(path, {"/f": 199}, damaged="skip")
    assert log["/f"]["data"].tolist() == [n / 2 for n in range(1, 200)] and log.account["/f"]["damaged"] == 1
    # Without chunks, or with those that have no checksum, there is one of all.
    for name, how in (("plain", {"use_chunking": False}), ("unchecked", {"enable_crcs": False, "compression": CompressionType.NONE})):
        path = ros2(f"changed_{name}", "/f", [float64(n) for n in range(20)], enable_data_crcs=True, **how)
        assert not (opened(path, {"/f": 20}).damage or gateway("list", path)["damage"])
        whole = bytearray(path.read_bytes())
        whole[bytes(whole).index(bytes(STORE.serialize_cdr(float64(18), FLOAT))) + 6] ^= 255
        path.write_bytes(whole)
        log = opened(path, {"/f": 20}, damaged="skip")
        assert "checksum" in log.damage[0] and "checksum" in gateway("list", path)["damage"][0]


def orders():
    """Computers of both byte orders publish to a topic; each record says its own."""
    path = folder / "orders.mcap"
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start("ros2")
        of = writer.register_channel("/f", "cdr", writer.register_schema(FLOAT, "ros2msg", b"float64 data\n"))
        for n in range(20):
            data = struct.pack("<xBxxd", 1, n / 2) if n % 3 else struct.pack(">xxxxd", n / 2)
            writer.add_message(of, log_time=n, publish_time=n, data=data)
        writer.finish()
    log = opened(path, {"/f": 20})
    assert log["/f"]["data"].tolist() == [n / 2 for n in range(20)], log["/f"]["data"]
    assert log["/f"].message(0) == {"data": 0.0} and log["/f"].message(6) == {"data": 3.0}


def inserted():
    """A byte too many in a chunk that is not compressed: what is before it counts once."""
    path = ros2("inserted", "/f", [float64(n) for n in range(200)], compression=CompressionType.NONE, enable_crcs=False)
    whole = bytearray(path.read_bytes())
    place = bytes(whole).index(bytes(STORE.serialize_cdr(float64(100), FLOAT)))
    whole[place + 12 : place + 12] = b"\xff"
    path.write_bytes(whole)
    log = opened(path, {"/f": 101}, damaged="skip")
    assert log["/f"]["data"].tolist() == [n / 2 for n in range(101)], log["/f"]["data"]


def misplaced():
    """The kind of the last chunk but one is changed in a file that states nowhere how many it has."""
    for name, kind in (("index", 7), ("footer", 2), ("own", 0x86)):
        how = dict(chunk_size=1, compression=CompressionType.NONE, index_types=IndexType.NONE, use_statistics=False)
        path = ros2(f"misplaced_{name}", "/f", [float64(n) for n in range(200)], **how)
        whole = bytearray(path.read_bytes())
        data = bytes(whole).index(bytes(STORE.serialize_cdr(float64(198), FLOAT)))
        place = bytes(whole).rindex(b"\6", 0, data - 60)
        assert whole[place + 2 : place + 9] == bytes(7), place
        whole[place] = kind
        path.write_bytes(whole)
        log = opened(path, {"/f": 199}, damaged="skip")
        assert len(log.damage) == 1 and f"byte {place} is" in log.damage[0], log.damage
        assert len(gateway("list", path)["damage"]) == 1


def absent():
    """Fields that a record does not have: they are not 0, and empty in MATLAB."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
    from scipy.io import loadmat

    file = FileDescriptorProto(name="a.proto", package="a", syntax="proto3")
    of = file.message_type.add(name="M")
    of.oneof_decl.add(name="_x")
    of.field.add(name="x", number=1, type=5, label=1, oneof_index=0, proto3_optional=True)
    of.field.add(name="y", number=2, type=5, label=1)
    schema = ("a.M", "protobuf", FileDescriptorSet(file=[file]).SerializeToString())
    for name, how, data in (("optional", ("protobuf", schema), b"\x10\x02"), ("null", ("json", None), b'{"x": null, "y": 2}')):
        log = opened(other(name, *how, data), {"/other": 10, "/f": 10})
        assert [*log["/other"]["x"]] == [None] * 10 and log["/other"]["y"].tolist() == [2] * 10
        log.save_mat(folder / "absent.mat")
        assert loadmat(folder / "absent.mat")["other"]["x"][0, 0][0, 9].size == 0
    opened(other("matrix", "json", None, b'{"m": [[1, 2], [3, 4]]}'), {"/other": 10, "/f": 10}).save_mat(folder / "matrix.mat")
    assert loadmat(folder / "matrix.mat")["other"]["m"][0, 0][0, 9].tolist() == [[1, 2], [3, 4]]


def longer():
    """Records with bytes that their definition does not have: it may be that of another version."""
    path = other("longer", "cdr", (FLOAT, "ros2msg", b"float64 data\n"), struct.pack("<xBxxdd", 1, 1.5, 2.5))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        log = onbeat.load(path)
    assert log["/other"]["data"].tolist() == [1.5] * 10
    assert [f"10 of /other have more bytes than {FLOAT}" in str(it.message) for it in caught] == [True], caught


def redefined():
    """A definition that becomes another one: records that may be of either are damage."""
    path = ros2("redefined", "/f", [float64(1)], use_chunking=False, enable_crcs=False)
    whole = path.read_bytes()
    begin = whole.index(FLOAT.encode()) - 15
    end = begin + 9 + int.from_bytes(whole[begin + 1 : begin + 9], "little")
    path.write_bytes(whole[:end] + whole[begin:end].replace(b"float64", b"float32") + whole[end:])
    try:
        raise AssertionError(onbeat.load(path))
    except onbeat.OnbeatError as why:
        assert "defined twice" in str(why), why
    assert len(opened(path, {"/f": 1}, damaged="skip").damage) == len(gateway("list", path)["damage"]) == 1


def bags():
    """In both formats of ROS 2, one without definitions as those of Humble, and a log of LCM."""
    for plugin in StoragePlugin:
        path = folder / f"bag_{plugin.name.lower()}"
        with Bag(path, version=9, storage_plugin=plugin) as bag:
            of = bag.add_connection("/f", FLOAT, typestore=STORE)
            for n in range(30):
                bag.write(of, n, STORE.serialize_cdr(float64(n), FLOAT))
        log = opened(path, {"/f": 30})
        assert log["/f"]["data"].tolist() == [n / 2 for n in range(30)]

    # A name that YAML quotes, a map that is indented by more, and beside them a file that is not of the bag.
    path, name = folder / "drive", "drive 10:30_0.db3"
    path.mkdir()
    for copy in (name, "other.db3"):
        shutil.copy(folder / "bag_sqlite3" / "bag_sqlite3.db3", path / copy)
    about = f'  relative_file_paths:\n    - "{name}"\n  message_count: 30\n  files:\n    -   path: "{name}"\n        message_count: 30\n'
    (path / "metadata.yaml").write_text(f"rosbag2_bagfile_information:\n{about}")
    opened(path, {"/f": 30})

    path = folder / "humble.db3"
    shutil.copy(folder / "bag_sqlite3" / "bag_sqlite3.db3", path)
    with sqlite3.connect(path) as database:
        database.execute("drop table message_definitions")
    database.close()
    log = opened(path, {"/f": 30}, ["/f"])
    assert "has no definition of std_msgs/msg/Float64" in log["/f"].why
    types = folder / "types" / "std_msgs" / "msg"
    types.mkdir(parents=True)
    (types / "Float64.msg").write_text("float64 data\n")
    log = opened(path, {"/f": 30}, types=folder / "types")
    assert log["/f"]["data"].tolist() == [n / 2 for n in range(30)]

    path = folder / "service.db3"
    shutil.copy(folder / "bag_sqlite3" / "bag_sqlite3.db3", path)
    text = "=" * 80 + "\nSRV: demo/srv/Ask\n---\nfloat64 x\n"
    with sqlite3.connect(path) as database:
        database.execute("update topics set type = 'demo/srv/Ask_Event'")
        database.execute("update message_definitions set topic_type = 'demo/srv/Ask', encoded_message_definition = ?", (text,))
        event = b"\0\1\0\0\1\0\0\0" + bytes(28) + struct.pack("<qIId", 7, 0, 1, 2.5)
        database.execute("update messages set data = ?", (event,))
    database.close()
    log = opened(path, {"/f": 30})
    assert log["/f"].message(0)["response"] == [{"x": 2.5}] and log["/f"]["info.sequence_number"][3] == 7

    crashed(folder / "bag_sqlite3" / "bag_sqlite3.db3")

    path = folder / "cut.bag"
    with Bag1(path) as bag:
        of = bag.add_connection("/f", FLOAT, typestore=STORE1)
        bag.chunk_threshold = 1000
        for n in range(200):
            bag.write(of, n, STORE1.serialize_ros1(float64(n), FLOAT))
    whole = path.read_bytes()
    # The length of a message, its kind, and its connection: none is lost or doubled without a word.
    place = whole.index(struct.pack("<II", 8, 0)[:4] + struct.pack("<d", 20.0))
    for at in (place + 1, whole.rindex(b"op=\2", 0, place) + 3, whole.rindex(b"conn=\0", 0, place) + 1):
        (folder / "changed.bag").write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            log = onbeat.load(folder / "changed.bag", damaged="skip")
        values = log["/f"]["data"].tolist()
        assert 180 < len(values) < 200 and len(set(values)) == len(values), values
        assert log.account["/f"]["damaged"] == 200 - len(values) and log.damage, log.account
        listed = gateway("list", folder / "changed.bag")
        assert listed["channels"][0]["records"] == len(values) and listed["damage"], listed
    # As a killed recorder leaves it: up to a whole record, without the index.
    path.write_bytes(whole[: int.from_bytes(whole[whole.index(b"index_pos=") + 10 :][:8], "little")])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log = onbeat.load(path)
    assert len(log["/f"]) == 200 and not log.is_complete, log
    path.write_bytes(whole[: len(whole) // 2])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        log = onbeat.load(path)
    records = len(log["/f"])
    assert 20 < records < 150 and not log.is_complete and len(caught) == 1, f"{records} {caught}"
    account = gateway("list", path)
    assert account["channels"][0]["records"] == records and account["cut"], account

    import lcm

    events = lcm.EventLog(str(folder / "events.lcmlog"), "w", overwrite=True)
    for n in range(10):
        events.write_event(n, "EXAMPLE", bytes([n]) * n)
    events.close()
    log = opened(folder / "events.lcmlog", {"EXAMPLE": 10}, ["EXAMPLE"])
    assert log["EXAMPLE"].payload(3) == b"\3\3\3"


def crashed(bag):
    """As a killed recorder leaves them: the newest rows in a WAL, half a change and its undoing in a journal; and a cut file."""
    for mode, end, wanted in (("wal", "-wal", 2030), ("delete", "-journal", 30)):
        path, work = folder / f"crashed_{mode}.db3", folder / f"work_{mode}.db3"
        shutil.copy(bag, work)
        database = sqlite3.connect(work, isolation_level=None)
        for how in (f"journal_mode={mode}", "cache_size=5", "wal_autocheckpoint=0"):
            database.execute(f"pragma {how}")
        database.execute("begin")
        rows = [(1, 100 + n, bytes(STORE.serialize_cdr(float64(n), FLOAT))) for n in range(2000)]
        database.executemany("insert into messages(topic_id, timestamp, data) values(?, ?, ?)", rows)
        if mode == "wal":
            database.execute("commit")
        for of in ("", end):
            shutil.copy(f"{work}{of}", f"{path}{of}")
        before, beside = path.read_bytes(), sorted(folder.glob(f"{path.name}*"))
        log = onbeat.load(path)
        assert len(log["/f"]) == wanted and log.is_complete, f"{path}: {log}"
        assert gateway("list", path)["channels"][0]["records"] == wanted
        assert path.read_bytes() == before and sorted(folder.glob(f"{path.name}*")) == beside, "the files were changed"
        if mode == "wal":
            database.execute("pragma wal_checkpoint(truncate)")
            cut = folder / "cut.db3"
            # Within a page, which SQLite would fill with zeros.
            cut.write_bytes(work.read_bytes()[: work.stat().st_size * 6 // 10 // 4096 * 4096 + 1000])
            # The number of rows of a page, which SQLite believes.
            short = bytearray(work.read_bytes())
            short[next(at for at in range(len(short) - 4096, 0, -4096) if short[at] == 13 and short[at + 4] > 9) + 4] -= 2
            (folder / "short.db3").write_bytes(short)
        database.close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = len(onbeat.load(cut)["/f"])
    assert 500 < wanted < 1500, wanted
    log = opened(cut, {"/f": wanted})
    assert log["/f"]["data"].tolist() == [*(n / 2 for n in range(30)), *(n / 2 for n in range(wanted - 30))]
    assert "pages of its database" in gateway("list", cut)["cut"]
    why = "its index of times has 2030 rows, and 2028 were found"
    assert gateway("list", folder / "short.db3")["cut"] == why
    try:
        raise AssertionError(onbeat.load(folder / "short.db3"))
    except onbeat.OnbeatError as error:
        assert why in str(error), error


for check in (encodings, interfaces, broken_json, wide, lists, twice, damaged, orders, inserted, misplaced, absent, longer, redefined, bags):
    check()
print(json.dumps(counts))
