"""The other end of the tests of logs: the readers and writers of MCAP and of ROS 2 for Python.

    logs.py same LOG WANTED       mcap_ros2 decodes every message of LOG and encodes the same bytes; WANTED has them
    logs.py write FILE HOW        writes a log with the package mcap, compressed in this way
    logs.py load LOG              what onbeat.load finds, as JSON
    logs.py mat FILE LOG          a MAT file has the matrices of LOG
    logs.py agree LOG             onbeat.load and mcap_ros2 find the same values
"""

import json
import struct
import sys
import time
from pathlib import Path

import numpy as np
import onbeat
from mcap.reader import make_reader
from mcap.writer import CompressionType, Writer
from mcap_ros2._dynamic import generate_dynamic, serialize_dynamic
from mcap_ros2.decoder import DecoderFactory

KNEE = "float64 angle\nfloat32[3] all\nint16 torque\nstring name\n"


def plain(value):
    """A decoded message as a dictionary, which the encoder takes."""
    if hasattr(value, "__slots__"):
        return {name: plain(getattr(value, name)) for name in value.__slots__}
    return [plain(one) for one in value] if isinstance(value, list) else value


def same(log, wanted):
    data, at, counts = wanted.read_bytes(), 0, {}
    with log.open("rb") as file:
        codecs = {}
        for schema, channel, message in make_reader(file).iter_messages(log_time_order=False):
            (length,) = struct.unpack_from("<I", data, at)
            assert message.data == data[at + 4 : at + 4 + length], f"{channel.topic}, {message.sequence}"
            at += 4 + length
            if schema.id not in codecs:
                text = schema.data.decode()
                codecs[schema.id] = generate_dynamic(schema.name, text), serialize_dynamic(schema.name, text)
            decoders, encoders = codecs[schema.id]
            again = encoders[schema.name](decoders[schema.name](message.data))
            assert again == message.data, f"{schema.name}: {message.data.hex()} {again.hex()}"
            counts[schema.name] = counts.get(schema.name, 0) + 1
    assert at == len(data)
    print(json.dumps(counts))


def write(path, how):
    """A log of others: two channels in turns, one of them with texts of different lengths."""
    compression = {"lz4": CompressionType.LZ4, "zstd": CompressionType.ZSTD}.get(how, CompressionType.NONE)
    encode = serialize_dynamic("demo_msgs/msg/Knee", KNEE)["demo_msgs/msg/Knee"]
    with path.open("wb") as out:
        writer = Writer(out, compression=compression, chunk_size=4096, use_chunking=how != "unchunked")
        writer.start(profile="ros2")
        schema = writer.register_schema("demo_msgs/msg/Knee", "ros2msg", KNEE.encode())
        topics = [writer.register_channel(topic, "cdr", schema) for topic in ("/left", "/right")]
        for n in range(1000):
            for side, channel in enumerate(topics):
                name = "x" * (n % 3) if side else "knee"
                message = {"angle": n + 0.5 * side, "all": [n, side, -n], "torque": -n, "name": name}
                writer.add_message(channel, log_time=n * 1000, publish_time=n * 1000, sequence=n, data=encode(message))
        writer.finish()


def load(path):
    began = time.monotonic()
    log = onbeat.load(path)
    took = time.monotonic() - began
    channels = {}
    for name, of in log.items():
        numbers = of.numbers.astype("i8")
        channels[name] = {
            "rows": len(of),
            "first": int(numbers[0]) if len(of) else 0,
            "last": int(numbers[-1]) if len(of) else 0,
            "missing": int((np.diff(numbers) - 1).sum()),
            "type": of.type,
            "fields": list(of.fields),
            "sums": {f: float(np.sum(of[f].astype("f8"))) for f in of.fields if of[f].dtype.kind in "fiub"},
        }
    print(json.dumps({"channels": channels, "account": log.account, "gaps": log.gaps, "complete": log.is_complete, "s": took}))


def agree(path):
    log = onbeat.load(path)
    with path.open("rb") as file:
        places = dict.fromkeys(log, 0)
        reader = make_reader(file, decoder_factories=[DecoderFactory()])
        for _, channel, message, decoded in reader.iter_decoded_messages(log_time_order=False):
            of, row = log[channel.topic], places[channel.topic]
            places[channel.topic] += 1
            assert int(of.utc_ns[row]) == message.log_time
            assert int(of.numbers[row]) % 2**32 == message.sequence
            for field in of.fields:
                theirs, ours = getattr(decoded, field), of[field][row]
                theirs = theirs.encode() if isinstance(theirs, str) else theirs
                theirs = list(theirs) if isinstance(theirs, bytes) and ours.ndim else theirs
                assert np.array_equal(np.asarray(theirs), np.asarray(ours)), f"{field}, row {row}: {ours} {theirs}"
    assert places == {name: len(of) for name, of in log.items()}
    print(json.dumps(places))


def mat(path, log):
    """The matrices that Octave saved are those of the log; so are those that Python saves."""
    from scipy.io import loadmat

    own = onbeat.load(log)
    again = path.with_suffix(".again.mat")
    points = own["demo/points"]
    points._columns["name"] = np.array(["Küche".encode(), *[b""] * (len(points) - 1)], object)
    points._columns["label"] = np.array([b"", *["Größe".encode()] * (len(points) - 1)])
    points._columns["number"] = np.arange(len(points)) + 100
    own["demo.points"] = points
    own.save_mat(again)
    for file in (path, again):
        found = loadmat(file)["demo_points"][0, 0]
        assert np.array_equal(found["values"], own["demo/points"]["values"]), file
        assert np.array_equal(found["n"].ravel(), own["demo/points"]["n"]), file
    assert found["name"][0, 0].item() == "Küche" and found["label"][-1].strip() == "Größe", found
    assert found["number_2"].ravel()[0] == 100 and found["number"].ravel()[0] == points.numbers[0], "the number of the record"
    assert "demo_points_2" in loadmat(again), "a channel whose name is the same word"
    print(json.dumps(found["values"].shape))


if __name__ == "__main__":
    verb, *rest = sys.argv[1:]
    if verb == "write":
        write(Path(rest[0]), rest[1])
    else:
        {"same": same, "load": load, "agree": agree, "mat": mat}[verb](*map(Path, rest))
