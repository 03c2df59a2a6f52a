"""Decoders for the records of a channel, chosen by its encoding and by that of its definition."""

import json
import re
from dataclasses import replace
from os import PathLike
from pathlib import Path

import numpy as np

from . import _columns, _idl
from ._columns import Column
from ._raw import LogError, RawChannel
from .definition import Field, TypeMismatch, check, is_plain, parse

#: Types of ROS 1 that its definitions use without defining them.
_TIMES = {
    "time": [Field("secs", "uint32", None), Field("nsecs", "uint32", None)],
    "duration": [Field("secs", "int32", None), Field("nsecs", "int32", None)],
}
#: The parts of the file of a service and of an action, and the messages that ROS 2 makes of an action's parts; @ is its name.
_PARTS = {"SRV": ("Request", "Response"), "ACTION": ("Goal", "Result", "Feedback")}
_OF_ACTION = {
    "FeedbackMessage": "unique_identifier_msgs/UUID goal_id\n@_Feedback feedback\n",
    "SendGoal_Request": "unique_identifier_msgs/UUID goal_id\n@_Goal goal\n",
    "SendGoal_Response": "bool accepted\nbuiltin_interfaces/Time stamp\n",
    "GetResult_Request": "unique_identifier_msgs/UUID goal_id\n",
    "GetResult_Response": "int8 status\n@_Result result\n",
}
_EVENT = "service_msgs/ServiceEventInfo info\n@_Request[<=1] request\n@_Response[<=1] response\n"
#: What these messages use, and a log does not define.
_COMMON = {
    "service_msgs/msg/ServiceEventInfo": "uint8 event_type\nbuiltin_interfaces/Time stamp\nuint8[16] client_gid\nint64 sequence_number\n",
    "unique_identifier_msgs/msg/UUID": "uint8[16] uuid\n",
    "action_msgs/msg/GoalInfo": "unique_identifier_msgs/UUID goal_id\nbuiltin_interfaces/Time stamp\n",
    "action_msgs/msg/GoalStatus": "GoalInfo goal_info\nint8 status\n",
    "action_msgs/msg/GoalStatusArray": "GoalStatus[] status_list\n",
}
#: Deepest JSON that is taken apart into fields.
_MOST_JSON = 32


def definitions(types: list[str | PathLike] | str | PathLike | None) -> dict[str, str]:
    """Reads `.msg` files, or all of folders, as texts by the names of their types."""
    found = {}
    for path in [types] if isinstance(types, (str, PathLike)) else types or []:
        path = Path(path)
        files = sorted(path.rglob("*.msg")) if path.is_dir() else [path]
        if not files:
            raise LogError(f"{path} has no .msg files")
        for file in files:
            folder = file.parent.parent if file.parent.name == "msg" else file.parent
            try:
                found[f"{folder.name}/msg/{file.stem}"] = file.read_text(encoding="utf-8-sig", errors="replace")
            except OSError as why:
                raise LogError(f"cannot read {file}: {why.strerror}") from None
    return found


def decoder(channel: RawChannel, types: dict[str, str]):
    """Returns a decoder, or None and the reason."""
    if channel.why:
        return None, channel.why
    name, of = channel.schema.name, channel.schema.encoding
    try:
        match channel.encoding:
            case "json":
                return Json(), ""
            case "protobuf" if of == "protobuf":
                return Protobuf(name, channel.schema.text), ""
            case "cdr" | "ros1":
                records = Records(channel, types)
                return (OneByOne(records) if check(records.types, records.name) else records), ""
    except (TypeMismatch, ValueError, TypeError, LookupError, RecursionError) as why:
        return None, ", ".join(filter(None, (channel.encoding, name))) + f": {why}"
    encoding = channel.encoding or "no encoding"
    return None, f"the encoding {encoding} with {'the definition ' + of if of else 'no definition'} is not decoded"


class Records:
    """CDR of ROS 2, and the encoding of ROS 1."""

    def __init__(self, channel: RawChannel, types: dict[str, str]):
        self._is_ros1 = channel.encoding == "ros1"
        self.types, self.name = _types(channel, types)
        self.is_flat = not self._is_ros1 and not check(self.types, self.name) and _is_flat(self.types, self.name)
        #: The encoding that records have, by that which their header names.
        self._found: dict[_columns.Encoding, _columns.Encoding] = {}
        #: Records with bytes that no field has: their definition may be another one.
        self.longer = 0

    def columns(self, payloads) -> tuple[dict[str, Column], np.ndarray, str]:
        groups, good, why = self._groups(payloads)
        if not groups:
            return {}, good, why
        found = []
        for encoding, rows in groups:
            begins, ends = payloads.begins[rows], payloads.ends[rows]
            columns, complete, left = self._by(encoding, payloads, begins, ends)
            own, sound = encoding, complete & (left < encoding.surplus)
            for other in self._others(encoding):
                if sound.all():
                    break
                again, also, remains = self._by(other, payloads, begins, ends)
                if (also & (remains < other.surplus)).sum() > sound.sum():
                    columns, complete, left, own = again, also, remains, other
                    sound = complete & (left < own.surplus)
            self._found[encoding] = own
            self.longer += int((complete & ~sound).sum())
            good[rows] &= complete
            found.append(columns)
        if len(found) == 1:
            return found[0], good, why or "its bytes end within a field"
        order = np.argsort(np.concatenate([rows for _, rows in groups]), kind="stable")
        whole = {name: Column.joined([of[name] for of in found]).take(order) for name in found[0]}
        return whole, good, why or "its bytes end within a field"

    def _by(self, encoding: _columns.Encoding, payloads, begins: np.ndarray, ends: np.ndarray):
        return _columns.Decoder(self.types, payloads.data, encoding).columns(self.name, begins, ends)

    def _groups(self, payloads) -> tuple[list[tuple[_columns.Encoding, np.ndarray]], np.ndarray, str]:
        """The encodings of the records, each with the rows that have it, and which records have one: each says its own."""
        count = len(payloads)
        if self._is_ros1 or not count:
            encoding = _columns.ROS1 if self._is_ros1 else _columns.cdr(b"\0\1\0\0")
            return [(encoding, np.arange(count))], np.ones(count, bool), ""
        good = payloads.ends - payloads.begins >= 4
        at = np.where(good, payloads.begins, 0)
        heads = payloads.data[at].astype("u2") << 8 | payloads.data[np.minimum(at + 1, len(payloads.data) - 1)]
        kinds, counts = np.unique(heads[good], return_counts=True)
        if not len(kinds):
            return [], good, "its records are shorter than the header of CDR"
        usual = kinds[np.argmax(counts)]
        encodings = {kind: _columns.cdr(bytes([int(kind) >> 8, int(kind) & 255, 0, 0])) for kind in kinds}
        known = [kind for kind in kinds if encodings[kind] is not None]
        if not known:
            why = f"its records begin with {usual >> 8:02x} {usual & 255:02x}, an encoding that is not read"
            return [], np.zeros(count, bool), why
        good &= np.isin(heads, known)
        # What has none is read as most are, and left out.
        most = max(known, key=lambda kind: counts[kinds == kind][0])
        heads = np.where(good, heads, most)
        groups = [(encodings[kind], np.flatnonzero(heads == kind)) for kind in known]
        return groups, good, "" if good.all() else "it does not begin as CDR"

    def _others(self, encoding: _columns.Encoding) -> list[_columns.Encoding]:
        """What the same header can stand for, too."""
        found = []
        if not self._is_ros1 and any(field.kind == "wstring" for fields in self.types.values() for field in fields):
            # Fast CDR 1, of ROS 2 before Jazzy, has four bytes for a letter.
            found.append(replace(encoding, wide=4))
        if encoding.delimited:
            # Structures without an annotation are final for Cyclone DDS, and appendable for the standard.
            found.append(replace(encoding, delimited=encoding.delimited ^ {""}))
        return found

    def one(self, data: bytes) -> dict:
        encoding = _columns.ROS1 if self._is_ros1 else _columns.cdr(data)
        if encoding is None:
            raise LogError(f"the record begins with {data[:2].hex(' ')}, an encoding that is not read")
        try:
            return _columns.message(self.types, self.name, data, self._found.get(encoding, encoding))
        except ValueError as why:
            raise LogError(str(why)) from None


class OneByOne:
    """Records of a type that holds a list of its own: they have no columns but the first fields, with dicts in lists."""

    def __init__(self, records: Records):
        self._objects = _Objects()
        self._objects.one = records.one
        self.one = records.one

    def columns(self, payloads) -> tuple[dict[str, Column], np.ndarray, str]:
        return self._objects.columns(payloads)


def _types(channel: RawChannel, own: dict[str, str]) -> tuple[dict[str, list[Field]], str]:
    schema = channel.schema
    parts = schema.name.split("/")
    name = f"{parts[0]}/msg/{parts[-1]}" if len(parts) > 1 else schema.name
    text = schema.text.decode(errors="replace")
    match schema.encoding:
        case "ros2msg":
            return parse(name, _as_messages(schema.name, text)), name
        case "ros1msg":
            return _ros1(name, text), name
        case "ros2idl" | "omgidl":
            found = _idl.parse(text)
            name = schema.name if schema.name in found else schema.name.replace("::", "/")
            check(found, name)
            return found, name
        case "" | "unknown":
            # `unknown` is what rosbag2 writes where it finds no definition.
            if not name:
                raise TypeMismatch("its channel names no type")
            if name not in own:
                raise TypeMismatch(f"the log has no definition of {schema.name}; load(..., types=FOLDER) takes .msg files")
            return _from_files(name, own), name
    raise TypeMismatch(f"a definition in {schema.encoding} is not read")


def _as_messages(name: str, text: str) -> str:
    """rosbag2 (Jazzy and later) writes the file of a service or an action, and not the messages that ROS 2 makes of it."""
    begin = re.match(r"={3,}[ \t]*\r?\n(SRV|ACTION): *(\S+)[ \t\r]*(?:\n|\Z)", text)
    if not begin:
        return text
    kind, of = begin.groups()
    own, *others = re.split(r"^(?=={3,}[ \t]*\r?$)", text[begin.end() :], maxsplit=1, flags=re.MULTILINE)
    parts = re.split(r"^---[ \t]*\r?$", own, flags=re.MULTILINE)
    types = _COMMON | {f"{of}_{part}": one for part, one in zip(_PARTS[kind], parts, strict=False)}
    services = [of]
    if kind == "ACTION":
        types |= {f"{of}_{part}": one.replace("@", of) for part, one in _OF_ACTION.items()}
        services = [f"{of}_SendGoal", f"{of}_GetResult"]
    types |= {f"{service}_Event": _EVENT.replace("@", service) for service in services}
    if name not in types:
        return text
    return types.pop(name) + "".join(f"\n===\nMSG: {other}\n{one}" for other, one in types.items()) + "\n" + "".join(others)


def _from_files(name: str, own: dict[str, str]) -> dict[str, list[Field]]:
    found: dict[str, list[Field]] = {}
    wanted = [name]
    while wanted:
        of = wanted.pop()
        if of in found:
            continue
        if of not in own:
            raise TypeMismatch(f"{name} needs the definition of {of}, which is not among the given .msg files")
        found |= _alone(of, own[of])
        wanted += [field.kind for field in found[of] if not is_plain(field.kind)]
    check(found, name)
    return found


def _alone(name: str, text: str) -> dict[str, list[Field]]:
    from .definition import _fields

    return {name: _fields(name, text)}


def _ros1(name: str, text: str) -> dict[str, list[Field]]:
    """ROS 1 has times of its own, signed bytes, and `Header` without its package."""
    from .definition import _fields, _full_name

    parts = re.split(r"^={3,}[ \t]*\r?\nMSG: *(.+)(?:\n|\Z)", text, flags=re.MULTILINE)
    texts = {name: parts[0]} | {_full_name(other.strip(), name): of for other, of in zip(parts[1::2], parts[2::2], strict=True)}
    types: dict[str, list[Field]] = dict(_TIMES)
    for of, definition in texts.items():
        fields = []
        for field in _fields(of, definition):
            short = field.kind.split("/")[-1]
            kind = field.kind
            if kind == "byte":
                kind = "int8"
            elif short in _TIMES and kind not in texts:
                kind = short
            elif short == "Header" and kind not in texts:
                kind = "std_msgs/msg/Header"
            fields.append(Field(field.name, kind, field.count))
        types[of] = fields
    check(types, name)
    return types


def _is_flat(types: dict[str, list[Field]], name: str) -> bool:
    """Returns whether all lists are of numbers, and no text is wide: then records of one layout are one array."""
    return all(
        field.kind != "wstring"
        and (field.count is None or (is_plain(field.kind) and field.kind != "string"))
        and (is_plain(field.kind) or _is_flat(types, field.kind))
        for field in types[name]
    )


class _Objects:
    """Records that are decoded one by one to dicts."""

    def one(self, data: bytes) -> dict:
        raise NotImplementedError

    def columns(self, payloads) -> tuple[dict[str, Column], np.ndarray, str]:
        good, why, rows = np.ones(len(payloads), bool), "", []
        for row in range(len(payloads)):
            try:
                rows.append(_flat(self.one(payloads[row])))
            except (ValueError, LogError) as error:
                good[row], why = False, why or str(error)
                rows.append({})
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: Column(_values([row.get(name) for row in rows])) for name in names}, good, why


def _flat(value, prefix: str = "", depth: int = 0) -> dict:
    if not isinstance(value, dict):
        return {prefix or "value": value}
    if not value and not prefix:
        return {}
    if not value or depth >= _MOST_JSON:
        return {prefix: value}
    found = {}
    for name, inner in value.items():
        found |= _flat(inner, f"{prefix}.{name}" if prefix else name, depth + 1)
    return found


def _values(values: list) -> np.ndarray:
    """Numbers as an array of numbers; whatever else as objects, with None where a record has no such field."""
    kinds = {type(value) for value in values}
    if kinds == {bool} or (kinds and kinds <= {int, float}):
        try:
            found = np.array(values)
            if found.dtype.kind in "iufb" and (kinds != {int, float} or all(abs(v) < 1 << 53 for v in values)):
                return found
        except OverflowError:
            pass
    objects = np.empty(len(values), object)
    for row, value in enumerate(values):
        objects[row] = value
    return objects


class Json(_Objects):
    """JSON: a field for each value, those of inner objects by names with dots."""

    def one(self, data: bytes) -> dict:
        try:
            return json.loads(data)
        except RecursionError:
            raise ValueError("JSON is nested too deeply") from None


class Protobuf(_Objects):
    """Protocol buffers, by the official library and the descriptors in the log."""

    def __init__(self, name: str, descriptors: bytes):
        try:
            from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
            from google.protobuf.message import DecodeError
        except ImportError:
            raise TypeMismatch("protocol buffers need the package protobuf; install it by pip") from None
        files = descriptor_pb2.FileDescriptorSet()
        try:
            files.ParseFromString(descriptors)
        except DecodeError:
            raise TypeMismatch("its definition is not a FileDescriptorSet") from None
        pool, left = descriptor_pool.DescriptorPool(), {file.name: file for file in files.file}

        def add(file) -> None:
            if left.pop(file.name, None) is None:
                return
            for needed in file.dependency:
                if needed in left:
                    add(left[needed])
            pool.Add(file)

        for file in list(files.file):
            add(file)
        try:
            self._class = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
        except KeyError:
            raise TypeMismatch(f"its definition does not have the message {name}") from None
        self._wrong = DecodeError

    def one(self, data: bytes) -> dict:
        found = self._class()
        try:
            found.ParseFromString(data)
        except self._wrong as why:
            raise ValueError(str(why)) from None
        return _of_protobuf(found)


def _of_protobuf(message) -> dict:
    found = {}
    for field in message.DESCRIPTOR.fields:
        inner, value = field.message_type, getattr(message, field.name)
        if inner is not None and inner.GetOptions().map_entry:
            is_message = inner.fields_by_name["value"].message_type is not None
            value = {str(key): _of_protobuf(it) if is_message else it for key, it in value.items()}
        elif hasattr(value, "MergeFrom") and inner is None or _is_repeated(field):
            value = [_of_protobuf(it) if inner is not None else it for it in value]
        elif inner is not None:
            value = _of_protobuf(value) if message.HasField(field.name) else None
        elif getattr(field, "has_presence", False) and not (field.has_default_value or message.HasField(field.name)):
            # Of `optional`, and of `oneof`: absent is not 0.
            value = None
        found[field.name] = value
    return found


def _is_repeated(field) -> bool:
    is_repeated = getattr(field, "is_repeated", None)
    return is_repeated if isinstance(is_repeated, bool) else field.label == field.LABEL_REPEATED
