"""The other end of the test of logs of all kinds: random messages of every type of ROS 2 by the official writers.

    log_kinds.py SEED COUNT FOLDER GATEWAY    writes COUNT logs in each format; onbeat.load finds each value of each record, in
                                              the log and in what `onbeat message convert` makes of it; what was damaged is
                                              counted or refused by both
"""

import json
import random
import subprocess
import sys
import warnings
from dataclasses import fields
from pathlib import Path

import numpy as np
import onbeat
from mcap.writer import CompressionType, IndexType, Writer
from rosbags.rosbag1 import Writer as Bag1
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin
from rosbags.rosbag2 import Writer as Bag2
from rosbags.typesys import Stores, get_typestore

STORE = get_typestore(Stores.ROS2_JAZZY)
STORE1 = get_typestore(Stores.ROS1_NOETIC)
NUMBERS = {"bool": "?", "byte": "u1", "octet": "u1", "char": "u1", "float32": "f4", "float64": "f8"} | {
    f"{u}int{b}": f"{'u' if u else 'i'}{b // 8}" for u in ("", "u") for b in (8, 16, 32, 64)
}


def of_ros1(found):
    """rosbags names the parts of times as ROS 2 does, and has a sign for seconds."""
    if isinstance(found, dict):
        if set(found) == {"sec", "nanosec"}:
            return {"secs": found["sec"], "nsecs": found["nanosec"]}
        return {name: of_ros1(one) for name, one in found.items()}
    return [of_ros1(one) for one in found] if isinstance(found, list) else found


def number(kind, dice):
    dtype = np.dtype(NUMBERS[kind])
    if dtype.kind == "b":
        return bool(dice.getrandbits(1))
    if dtype.kind == "f":
        return float(np.asarray(dice.uniform(-1e6, 1e6), dtype))
    if kind in ("byte", "octet", "char"):
        # rosbags has a sign for some of them.
        return dice.randint(0, 127)
    info = np.iinfo(dtype)
    return dice.randint(info.min, info.max)


def text(dice):
    return "".join(dice.choice("abc äé漢 _/") for _ in range(dice.choice((0, 1, 3, 9))))


def value(store, of, dice, depth=0):
    """A random value of a field as rosbags describes it: (kind, detail)."""
    kind, detail = of
    kind = getattr(kind, "name", kind)
    if kind == "BASE":
        name = detail[0] if isinstance(detail, tuple) else detail
        return text(dice) if name in ("string", "wstring") else number(name, dice)
    if kind == "NAME":
        return message(store, detail, dice, depth + 1)
    inner, count = detail
    if kind == "SEQUENCE":
        most = count or 4
        count = dice.randint(0, min(most, 4 if depth < 3 else 1))
    base = inner[1][0] if getattr(inner[0], "name", "") == "BASE" and isinstance(inner[1], tuple) else inner[1]
    values = [value(store, inner, dice, depth) for _ in range(count)]
    return np.array(values, NUMBERS[base]) if base in NUMBERS else values


def message(store, name, dice, depth=0):
    if name.startswith("builtin_interfaces/"):
        return store.types[name](dice.randint(0, 2**31 - 1), dice.randint(0, 2**31 - 1))
    definition = store.get_msgdef(name)
    # A message without fields has a byte, which ROS 2 writes as 0.
    empty = "structure_needs_at_least_one_member"
    return store.types[name](*(0 if field == empty else value(store, of, dice, depth) for field, of in definition.fields))


def plain(of):
    if hasattr(of, "__msgtype__"):
        return {f.name: plain(getattr(of, f.name)) for f in fields(of) if is_member(f)}
    if isinstance(of, np.ndarray):
        return of.tolist()
    if isinstance(of, list):
        return [plain(one) for one in of]
    return of.encode() if isinstance(of, str) else of


def is_member(field):
    """rosbags has constants as fields too."""
    return field.name not in ("__msgtype__", "structure_needs_at_least_one_member") and "ClassVar" not in str(field.type)


def tidy(found):
    """Our dict, with texts as bytes: wide ones are `str`."""
    if isinstance(found, dict):
        return {name: tidy(one) for name, one in found.items()}
    if isinstance(found, list):
        return [tidy(one) for one in found]
    return found.encode() if isinstance(found, str) else found


def paths(of, prefix=""):
    """The columns of a record: those of lists of messages have a list of values."""
    found = {}
    for name, one in of.items():
        path = prefix + name
        if isinstance(one, dict):
            found |= paths(one, path + ".")
        elif isinstance(one, list) and one and isinstance(one[0], dict):
            rows = [paths(inner, path + ".") for inner in one]
            for key in {key for row in rows for key in row}:
                found[key] = [row.get(key, []) for row in rows]
        else:
            found[path] = one
    return found


def listed(of):
    if isinstance(of, np.ndarray):
        return [listed(one) for one in of]
    if isinstance(of, np.generic):
        return listed(of.item())
    return of.encode() if isinstance(of, str) else of


def compare(channel, wanted, where):
    assert len(channel) == len(wanted), f"{where}: {len(channel)} of {len(wanted)} records"
    assert not channel.why, f"{where}: {channel.why}"
    for row, (at_ns, known) in enumerate(wanted):
        assert int(channel.utc_ns[row]) == at_ns, f"{where}, row {row}: time"
        found = tidy(channel.message(row))
        assert found == known, f"{where}, row {row}:\n{found}\n{known}"
        for path, column in paths(known).items():
            if path in channel.fields:
                ours = listed(channel[path][row])
                # A list within a list that has no elements is not told from one that is not there; `message` above does.
                assert pruned(ours) == pruned(column), f"{where}, row {row}, {path}: {ours} {column}"
            else:
                # A list of messages without elements has the columns of its messages.
                assert any(name.startswith(path + ".") for name in channel.fields), f"{where}: no {path}"
                assert not any(map(flat, [column])), f"{where}, row {row}, {path}: {column}"


def pruned(column):
    if not isinstance(column, list):
        return column
    return [one for one in map(pruned, column) if one != []]


def flat(column):
    """Whether a list has a value at any depth."""
    return any(map(flat, column)) if isinstance(column, list) else True


def load(path, **how):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        log = onbeat.load(path, **how)
    return log, [str(one.message) for one in caught]


def types_of(store):
    # Encodings of these are beyond both: rosbags has no wstring in sequences of ROS 1, and so on.
    skipped = {"rosgraph_msgs/msg/Clock"}
    return sorted(name for name in store.types if "/msg/" in name and name not in skipped)


def records(store, names, dice, times):
    return [(name, message(store, name, dice), at) for at in times for name in names]


def mcap(path, dice, names):
    how = dict(
        compression=dice.choice(list(CompressionType)),
        chunk_size=dice.choice((1, 500, 1 << 20)),
        use_chunking=dice.random() < 0.8,
        index_types=dice.choice((IndexType.ALL, IndexType.NONE, IndexType.CHUNK)),
        use_statistics=dice.random() < 0.7,
        enable_crcs=dice.random() < 0.8,
        repeat_channels=dice.random() < 0.8,
        repeat_schemas=dice.random() < 0.8,
    )
    wanted = {}
    with path.open("wb") as file:
        writer = Writer(file, **how)
        writer.start("ros2", "test")
        ids = {}
        order = list(range(dice.choice((1, 7))))
        if dice.random() < 0.3:
            dice.shuffle(order)
        for name, one, at in records(STORE, names, dice, order):
            for copy in range(dice.choice((1, 1, 2))):
                key = name, copy
                if key not in ids:
                    definition = STORE.generate_msgdef(name, ros_version=2)[0].encode()
                    schema = writer.register_schema(name, "ros2msg", definition)
                    ids[key] = writer.register_channel("/" + name, "cdr", schema, {"copy": str(copy)})
                data = bytes(STORE.serialize_cdr(one, name, little_endian=True))
                at_ns = 10**9 + at * 100 + copy * 10
                writer.add_message(ids[key], log_time=at_ns, publish_time=at_ns, sequence=at, data=data)
                wanted.setdefault("/" + name, []).append((at_ns, plain(one)))
        writer.finish()
    return {topic: sorted(rows, key=lambda row: row[0]) for topic, rows in wanted.items()}, how


def bag2(path, dice, names):
    """A bag in one file or several, whose topics have other numbers in each, compressed or not in every way there is."""
    wanted = {}
    plugin = dice.choice(list(StoragePlugin))
    modes = [CompressionMode.NONE, CompressionMode.FILE, CompressionMode.MESSAGE]
    mode = dice.choice(modes + [CompressionMode.STORAGE] * (plugin is StoragePlugin.MCAP))
    parts, files, about = dice.choice((1, 1, 3)), [], ""
    path.mkdir()
    for number in range(parts):
        part = path.with_name(f"{path.name}_{number}")
        bag = Bag2(part, version=9, storage_plugin=plugin)
        bag.set_compression(mode, CompressionFormat.ZSTD)
        own = dice.sample(names, dice.randint(1, len(names))) if number else names
        with bag:
            of = {name: bag.add_connection("/" + name, name, typestore=STORE) for name in own}
            for name, one, at in records(STORE, own, dice, range(5 * number, 5 * number + 5)):
                bag.write(of[name], 10**9 + at, bytes(STORE.serialize_cdr(one, name)))
                wanted.setdefault("/" + name, []).append((10**9 + at, plain(one)))
        about = (part / "metadata.yaml").read_text()
        (file,) = (one for one in part.iterdir() if one.suffix != ".yaml")
        files.append(file.rename(path / file.name).name)
    if parts > 1:
        # As the recorder of ROS 2 names the files of a bag that it has split.
        names_of = "\n".join(f"  - old_name/{name}" for name in files)
        count = sum(map(len, wanted.values()))
        about = f"rosbag2_bagfile_information:\n  version: 5\n  relative_file_paths:\n{names_of}\n  message_count: {count}\n"
    (path / "metadata.yaml").write_text(about)
    return wanted, f"{plugin}, {mode}, {parts} files"


def bag1(path, dice, names):
    wanted = {}
    bag = Bag1(path)
    how = dice.choice((None, *Bag1.CompressionFormat))
    if how is not None:
        bag.set_compression(how)
    with bag:
        of = {name: bag.add_connection("/" + name, name, typestore=STORE1) for name in names}
        for name, one, at in records(STORE1, names, dice, range(5)):
            bag.write(of[name], 10**9 + at, bytes(STORE1.serialize_ros1(one, name)))
            wanted.setdefault("/" + name, []).append((10**9 + at, of_ros1(plain(one))))
    return wanted


def lcmlog(path, dice):
    import lcm

    wanted = {}
    log = lcm.EventLog(str(path), "w", overwrite=True)
    for at in range(50):
        topic, data = dice.choice(("POSE", "state")), dice.randbytes(dice.choice((0, 8, 200)))
        log.write_event(10**9 + at, topic, data)
        wanted.setdefault(topic, []).append(((10**9 + at) * 1000, data))
    log.close()
    found, said = load(path)
    assert set(found) == set(wanted) and len(said) == 1
    for topic, rows in wanted.items():
        assert [(int(at), found[topic].payload(row)) for row, at in enumerate(found[topic].utc_ns)] == rows
        assert found.account[topic]["not_decoded"] == len(rows)


def all_equal(path, wanted, where):
    log, said = load(path)
    assert not said, f"{where}: {said}"
    assert set(log) == set(wanted), f"{where}: {set(log) ^ set(wanted)}"
    for topic, rows in wanted.items():
        compare(log[topic], rows, f"{where}, {topic}")


def converted(path, wanted, where):
    """The gateway makes an MCAP file of a log, with the same values."""
    out = path.with_name(path.name + ".converted.mcap")
    account = gateway("convert", path, out)
    assert not account.get("error") and not account["cut"] and not account["damage"], f"{where}: {account}"
    assert account["records"] == sum(map(len, wanted.values())), f"{where}: {account}"
    all_equal(out, wanted, f"{where}, converted")
    out.unlink()


def gateway(verb, path, out):
    order = {"log": str(path), "most_memory": 1 << 28} | ({"out": str(out)} if out else {})
    done = subprocess.run([GATEWAY, verb, json.dumps(order)], stdout=subprocess.PIPE, text=True)
    assert done.returncode in (0, 2), f"{path}: {done}"
    return json.loads(done.stdout.splitlines()[-1])


def damaged(path, wanted, how, dice):
    """A changed byte is an error, or counted, or was in nothing that matters; no record is wrong in silence."""
    whole = bytearray(path.read_bytes())
    # This writer has checksums for chunks only.
    has_sums = how["enable_crcs"] and how["use_chunking"]
    outcome = {"refused": 0, "counted": 0, "harmless": 0}
    for _ in range(8):
        changed = bytearray(whole)
        changed[dice.randrange(8, len(changed))] ^= 1 << dice.randrange(8)
        other = path.with_suffix(".damaged.mcap")
        other.write_bytes(changed)
        account = gateway("list", other, None)
        found = sum(of["records"] for of in account.get("channels", []))
        is_said = account.get("error") or account["cut"] or account["damage"]
        assert is_said or found >= sum(map(len, wanted.values())), f"{other}: {account}"
        try:
            log, _ = load(other)
        except onbeat.OnbeatError:
            outcome["refused"] += 1
            try:
                log, _ = load(other, damaged="skip")
                counted = sum(of.get("damaged", 0) + of.get("not_decoded", 0) for of in log.account.values())
                found = sum(len(of) for of in log.values())
                total = sum(map(len, wanted.values()))
                assert counted or found >= total or log.damage, f"{found} of {total} records, {log.account}"
                outcome["counted"] += 1
            except onbeat.OnbeatError:
                pass
            continue
        outcome["harmless"] += 1
        if has_sums:
            for topic, rows in wanted.items():
                found = log.get(topic)
                known = log.account.get(topic, {})
                assert found is not None or log.account or log.damage or not log.is_complete, f"{topic} is missing in silence: {log.account}"
                if found is not None and not known and not found.why and not log.damage:
                    values = [tidy(one) for one in found.messages()]
                    assert values == [row for _, row in rows], f"{topic} has other values in silence"
    return outcome


def main(seed, count, folder):
    print(f"seed {seed}", file=sys.stderr)
    dice = random.Random(seed)
    names = types_of(STORE)
    # Times are no messages of ROS 1.
    names1 = [name for name in types_of(STORE1) if not name.startswith("builtin_interfaces/")]
    done = {"mcap": 0, "bag2": 0, "bag1": 0, "lcm": 0, "types": 0, "refused": 0, "counted": 0, "harmless": 0}
    dice.shuffle(names)
    dice.shuffle(names1)
    each = max(len(names) // count, 1)
    for turn in range(count):
        some = names[turn * each : (turn + 1) * each] if turn < count - 1 else names[turn * each :]
        some1 = names1[turn * each : (turn + 1) * each] if turn < count - 1 else names1[turn * each :]
        done["types"] += len(some)
        path = folder / f"{turn}.mcap"
        wanted, how = mcap(path, dice, some)
        all_equal(path, wanted, f"seed {seed}, {path}, {how}")
        converted(path, wanted, f"seed {seed}, {path}, {how}")
        for outcome, number_of in damaged(path, wanted, how, dice).items():
            done[outcome] += number_of
        wanted, how = bag2(folder / f"{turn}_bag", dice, some)
        all_equal(folder / f"{turn}_bag", wanted, f"seed {seed}, bag {turn}, {how}")
        converted(folder / f"{turn}_bag", wanted, f"seed {seed}, bag {turn}, {how}")
        if some1:
            wanted = bag1(folder / f"{turn}.bag", dice, some1)
            all_equal(folder / f"{turn}.bag", wanted, f"seed {seed}, {turn}.bag")
            converted(folder / f"{turn}.bag", wanted, f"seed {seed}, {turn}.bag")
        lcmlog(folder / f"{turn}.lcmlog", dice)
        for kind in ("mcap", "bag2", "bag1", "lcm"):
            done[kind] += 1
    print(json.dumps(done))


if __name__ == "__main__":
    GATEWAY = sys.argv[4]
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
