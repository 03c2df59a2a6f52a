"""Reads logs: MCAP files, bags of ROS 2 (SQLite or MCAP) and of ROS 1, and logs of LCM.

    import onbeat

    log = onbeat.load("walk.mcap")
    cycles = log["walker/cycle"]
    cycles["actual_rad"]            # cycles x joints, rad
    cycles.at_ns                    # release of each cycle, CLOCK_MONOTONIC
    log.account                     # received, lost, damaged and not decoded records of each channel

Every record of the file is in the result, or counted in `account` with the reason; what is missing is warned of as well. A log
whose writer was killed is read up to its last complete chunk. A million messages take about a second.
"""

import json
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from . import _bags, _columns, _decode
from ._mcap import MAGIC, MESSAGE_HEAD, McapReader
from ._raw import LogError, RawChannel, RawLog
from .definition import Layout, TypeMismatch
from .ring import Batch

__all__ = ["ChannelInfo", "Log", "LogError", "LogWarning", "LoggedChannel", "channels", "load"]


#: How files begin that are not logs, and what they are.
_OTHERS = {
    b"\x1f\x8b": "it is compressed by gzip: unpack it with gunzip",
    b"BZh": "it is compressed by bzip2: unpack it with bunzip2",
    b"\xfd7zXZ": "it is compressed by xz: unpack it with unxz",
    b"PK\3\4": "it is a ZIP archive: unpack it with unzip",
    b"ULog\x01\x12\x35": "it is a ULog of PX4, which is not read",
    b"version ": "perhaps it is a pointer of Git LFS: `git lfs pull` fetches the log",
    b"<!": "it is a page of the web, perhaps of a download that failed",
}


class LogWarning(UserWarning):
    """Some records of a log are missing, or were not decoded."""


class LoggedChannel(Batch):
    """All records of a channel in a log, as numpy arrays: `channel["field"]` has a row for each record.

    `at_ns` are the times of the records by CLOCK_MONOTONIC if onbeat wrote the log, else as `utc_ns`: ns since 1970; records
    are in the order of their times. A field whose length varies from record to record is an array of arrays. Elements of a
    list of messages have one field for all: `transforms.header.frame_id` has an array for each record. Texts are `bytes`.
    """

    utc_ns: np.ndarray
    type: str
    encoding: str
    #: Number of the channel in the file, for each record: several writers of a topic are merged.
    sources: np.ndarray
    #: Why the records were not decoded; empty if they were. Then they have the field `payload`, the bytes.
    why: str
    _columns: dict
    _payloads: "_Payloads"
    _one: object

    def __getitem__(self, name: str) -> np.ndarray:
        if name in self._columns:
            column = self._columns[name]
            if isinstance(column, _columns.Column):
                column = self._columns[name] = column.array()
            return column
        indexed = re.fullmatch(r"(.+?)\[(\d+)\](.*)", name)
        if indexed and indexed[1] + indexed[3] in self._columns:
            return self._element(indexed[1] + indexed[3], int(indexed[2]))
        names = ", ".join(self.fields or ["none"])
        raise KeyError(f"the message has no field {name!r}; it has {names}")

    def _element(self, name: str, place: int) -> np.ndarray:
        lists = self[name]
        short = sum(len(one) <= place for one in lists)
        if short:
            raise KeyError(f"{short} of {len(lists)} records have no element {place} of {name!r}; channel[{name!r}] has all")
        return np.array([one[place] for one in lists]) if lists.dtype == object else lists[:, place]

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields."""
        return tuple(self._columns)

    def payload(self, row: int) -> bytes:
        """Returns the bytes of a record."""
        return self._payloads[row]

    def message(self, row: int) -> dict:
        """Returns a record as a dict, with dicts and lists within it. Raises `LogError` if it is not decoded."""
        if self.why:
            raise LogError(f"the records are not decoded: {self.why}")
        return self._one(self._payloads[row])

    def messages(self) -> Iterator[dict]:
        """Yields each record as a dict."""
        return (self.message(row) for row in range(len(self)))

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns all fields, and `number` and `at_ns`, as a dict of arrays."""
        return {"number": self.numbers, "at_ns": self.at_ns} | {name: self[name] for name in self.fields}


class Log(dict[str, LoggedChannel]):
    """The channels of a log by name.

    `account` has for each channel the records `received` and `lost` while onbeat recorded, those `damaged` in the file, and
    those `not_decoded` with the `reason`; `gaps` has each loss. `is_complete` is False if the writer was killed; `damage` has
    a sentence for each damaged place.
    """

    account: dict[str, dict]
    gaps: list[dict[str, str]]
    is_complete: bool
    damage: list[str]

    def save_mat(self, path: str | PathLike) -> None:
        """Writes a MAT file (version 5) with a struct for each channel, for MATLAB and Octave. Needs scipy."""
        try:
            from scipy.io import savemat
        except ImportError:
            raise LogError("MAT files need scipy; install it by `pip install scipy`") from None
        plain = {}
        for name, of in self.items():
            # A field that is called `number` does not replace the numbers of its records.
            fields = [("number", of.numbers), ("at_ns", of.at_ns), *((field, of[field]) for field in of.fields)]
            plain[name] = _worded((field, _for_matlab(values, of.why)) for field, values in fields)
        plain = _worded(plain.items())
        savemat(path, plain, long_field_names=True, do_compression=True)


@dataclass(frozen=True)
class ChannelInfo:
    """What a log says about a channel."""

    topic: str
    type: str
    encoding: str
    records: int
    #: Why its records are not decoded; empty if they are.
    why: str


def load(
    path: str | PathLike,
    channels: list[str] | str | None = None,
    *,
    damaged: str = "raise",
    types: list[str | PathLike] | str | PathLike | None = None,
) -> Log:
    """Reads a log, all channels or only these.

    `path` is an `.mcap` file, the folder of a ROS 2 bag or its `.db3` file, a ROS 1 `.bag`, or an `.lcmlog`. Raises `LogError`
    if it is none, or damaged; with `damaged="skip"` the sound part is read, and the rest counted in `account`. `types` are
    `.msg` files, `PACKAGE/msg/Name.msg`, or folders of them, for bags without definitions (ROS 2 Humble and earlier, SQLite).
    """
    if damaged not in ("raise", "skip"):
        raise ValueError(f'damaged is "raise" or "skip", not {damaged!r}')
    wanted = [channels] if isinstance(channels, str) else channels
    raw = _raw(Path(path), None if wanted is None else set(wanted), damaged == "skip")
    known = {channel.topic for channel in raw.channels}
    for topic in wanted or []:
        if topic not in known:
            raise LogError(f"{path} has no channel {topic}; it has {', '.join(sorted(known)) or 'none'}")
    return _Loading(raw, damaged == "skip", _decode.definitions(types)).log()


def channels(path: str | PathLike) -> list[ChannelInfo]:
    """Returns what a log has: topic, type, encoding and number of records of each channel."""
    raw = _raw(Path(path), None, True)
    found = []
    for channel in raw.channels:
        decoder, why = _decode.decoder(channel, {})
        records = sum(map(len, channel.rows)) + len(channel.payloads)
        found.append(ChannelInfo(channel.topic, channel.schema.name, channel.encoding, records, "" if decoder else why))
    return found


def _raw(path: Path, wanted: set[str] | None, skips: bool) -> RawLog:
    """Reads a file in the format that its first bytes name."""
    if path.is_dir():
        return _bags.folder(path, lambda file: _raw(file, wanted, skips), wanted, skips)
    try:
        data = np.memmap(path, dtype="u1", mode="r") if path.stat().st_size else np.empty(0, "u1")
    except OSError as why:
        raise LogError(f"cannot read {path}: {why.strerror}") from None
    begin = data[:64].tobytes()
    try:
        if begin.startswith(MAGIC):
            return McapReader(path, data, wanted, skips).read()
        if begin.startswith(_bags.SQLITE):
            return _bags.sqlite(path, wanted, skips)
        if begin.startswith(_bags.ROSBAG):
            return _bags.rosbag(path, data, wanted, skips)
        if begin.startswith(_bags.LCM):
            return _bags.lcm(path, data, wanted, skips)
        if _bags.PACKED.match(begin):
            return _bags.unpacked(path, lambda file: _raw(file, wanted, skips), skips)
    except (ArithmeticError, LookupError, MemoryError, RuntimeError, TypeError, ValueError) as why:
        raise LogError(f"{path} is damaged: {why or type(why).__name__}") from why
    if path.suffix == ".lcmlog" and skips and len(data):
        return _bags.lcm(path, data, wanted, skips)
    hints = [f"; {what}" for first, what in _OTHERS.items() if begin.startswith(first)]
    hint = hints[0] if hints else "" if len(data) else "; it is empty"
    raise LogError(f"{path} is not a log: it begins as none of MCAP, a ROS 2 bag (SQLite), a ROS 1 bag and an LCM log{hint}")


def _word(name: str) -> str:
    """A name that MATLAB allows for a field."""
    word = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name).lstrip("_")
    return word if word[:1].isalpha() else "c" + word


def _for_matlab(value: object, why: str) -> object:
    """The same values with texts, which are bytes here, as texts; as numbers those of a channel that is not decoded. What is
    absent is empty, and an integer of more than 64 bits is rounded."""
    if value is None:
        return np.empty((0, 0))
    if isinstance(value, dict):
        return _worded((str(name), _for_matlab(one, why)) for name, one in value.items())
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        return float(str(value))
    if isinstance(value, list) and _are_numbers(value):
        return [_for_matlab(one, why) for one in value]
    if isinstance(value, list):
        cells = np.empty(len(value), object)
        cells[:] = value
        value = cells
    if isinstance(value, bytes):
        return np.frombuffer(value, "u1") if why else value.decode(errors="replace")
    if isinstance(value, np.ndarray) and value.dtype.kind == "S":
        return np.char.decode(value, "utf-8", "replace")
    if isinstance(value, np.ndarray) and value.dtype == object:
        cells = np.empty(value.size, object)
        for place, one in enumerate(value.flat):
            cells[place] = _for_matlab(one, why)
        return cells.reshape(value.shape)
    return value


def _are_numbers(value: object) -> bool:
    """Whether a list is a vector or a matrix."""
    if isinstance(value, list):
        return all(_are_numbers(one) for one in value)
    return isinstance(value, (int, float))


def _worded(of: Iterable[tuple[str, object]]) -> dict[str, object]:
    """The same values by names that MATLAB allows, each by one of its own."""
    found: dict[str, object] = {}
    for name, value in of:
        whole = _word(name)
        word, number = whole[:63], 2
        while word in found:
            word, number = f"{whole[:59]}_{number}", number + 1
        found[word] = value
    return found


class _Payloads:
    """Payloads of records: rows of matrices with a head before each, or pieces of an array."""

    def __init__(self, channel: RawChannel):
        if channel.rows:
            flat = [rows.reshape(-1) for rows in channel.rows]
            self.data = flat[0] if len(flat) == 1 else np.concatenate(flat)
            lengths = np.concatenate([np.full(len(rows), rows.shape[1], "i8") for rows in channel.rows])
            self.ends = np.cumsum(lengths)
            self.begins = self.ends - lengths + MESSAGE_HEAD.itemsize
            self.head = MESSAGE_HEAD.itemsize
            heads = [rows[:, : self.head].copy().view(MESSAGE_HEAD)[:, 0] for rows in channel.rows]
            head = np.concatenate(heads)
            self.numbers, self.times = _whole_numbers(head["number"]), head["times"][:, 0].copy()
        else:
            self.data = np.frombuffer(b"".join(channel.payloads), "u1")
            lengths = np.array([len(payload) for payload in channel.payloads], "i8")
            self.ends = np.cumsum(lengths)
            self.begins = self.ends - lengths
            self.head = 0
            self.numbers, self.times = np.array(channel.numbers, "u8"), np.array(channel.times, "u8")

    def __len__(self) -> int:
        return len(self.begins)

    def __getitem__(self, row: int) -> bytes:
        return self.data[self.begins[row] : self.ends[row]].tobytes()

    def taken(self, order: np.ndarray) -> None:
        """Brings the records into another order, or keeps some of them."""
        self.begins, self.ends = self.begins[order], self.ends[order]
        self.numbers, self.times = self.numbers[order], self.times[order]
        self.head = -1

    def matrix(self) -> np.ndarray | None:
        """A row for each record with its head, if all have one length and the order of the file."""
        wide = int(self.ends[0] - self.begins[0]) + self.head if len(self) and self.head >= 0 else 0
        if wide <= 0 or len(self.data) != wide * len(self) or (self.ends - self.begins != wide - self.head).any():
            return None
        return np.ascontiguousarray(self.data).reshape(-1, wide)


def _whole_numbers(low: np.ndarray) -> np.ndarray:
    """The file has the low 32 bits."""
    numbers = low.astype("u8")
    back = low[1:] < low[:-1]
    # A counter that is not one, such as that of a log of others, goes back often or by little.
    wraps = back & (low[:-1].astype("i8") - low[1:].astype("i8") > 1 << 31)
    numbers[1:] += np.cumsum(wraps, dtype="u8") << np.uint64(32)
    return numbers


class _Loading:
    """Decodes the channels of a log, and accounts for their records."""

    def __init__(self, raw: RawLog, skips: bool, types: dict[str, str]):
        self._raw, self._skips, self._types = raw, skips, types
        self._log = Log()
        self._log.account = {topic: dict(of) for topic, of in raw.account.items()}
        self._log.gaps, self._log.is_complete, self._log.damage = raw.gaps, raw.is_complete, raw.damage
        self._missing: list[str] = []

    def log(self) -> Log:
        for topic, count in self._raw.damaged.items():
            self._note(topic, "damaged", count, "")
        for channel in self._raw.channels:
            if channel.is_wanted:
                self._add(channel)
        self._missing += [f"damage: {why}" for why in self._raw.damage[:3]]
        if len(self._raw.damage) > 3:
            self._missing.append(f"{len(self._raw.damage) - 3} more damaged places")
        if self._raw.cut:
            self._missing.append(self._raw.cut)
        if self._missing:
            warnings.warn(f"{self._raw.path}: {'; '.join(self._missing)}", LogWarning, stacklevel=4)
        return self._log

    def _note(self, topic: str, what: str, count: int, why: str) -> None:
        of = self._log.account.setdefault(topic, {})
        of[what] = of.get(what, 0) + count
        if why:
            of["reason"] = why
        words = {"damaged": "damaged and left out", "not_decoded": "not decoded, only as bytes"}[what]
        self._missing.append(f"{count} of {topic} {words}" + (f" ({why})" if why else ""))

    def _unpack(self, channel: RawChannel) -> None:
        def damaged(why: str, count: int) -> None:
            if not self._skips:
                raise LogError(f"{self._raw.path} is damaged: {why}; `damaged='skip'` loads the others, and counts")
            self._note(channel.topic, "damaged", count, why)

        _bags.unpack_messages(channel, damaged)

    def _add(self, channel: RawChannel) -> None:
        self._unpack(channel)
        payloads = _Payloads(channel)
        if (payloads.times[1:] < payloads.times[:-1]).any():
            payloads.taken(np.argsort(payloads.times, kind="stable"))
        decoder, why = _decode.decoder(channel, self._types)
        found, why = self._decoded(channel, decoder, payloads, why)

        lost = self._log.account.get(channel.topic, {}).get("lost", 0)
        offset = channel.texts.get("onbeat:utc_offset_ns", "0")
        offset = int(offset) if offset.isdigit() else 0
        at_ns = payloads.times - np.uint64(offset)
        records = found if isinstance(found, np.ndarray) else np.empty(len(payloads), np.dtype([]))
        logged = LoggedChannel(payloads.numbers, at_ns, records, lost, _description(channel))
        logged.utc_ns, logged.type, logged.encoding = payloads.times, channel.schema.name, channel.encoding
        logged.sources = np.full(len(payloads), channel.id, "u2")
        logged.why, logged._payloads, logged._one = why, payloads, decoder.one if decoder else None
        if isinstance(found, np.ndarray):
            logged._columns = {name: found[name] for name in found.dtype.names or ()}
        else:
            logged._columns = found
        self._keep(channel, logged)

    def _decoded(self, channel: RawChannel, decoder, payloads: "_Payloads", why: str):
        if decoder is not None:
            found = _fast(decoder, payloads)
            if found is not None:
                return found, ""
            columns, good, why = decoder.columns(payloads)
            if longer := getattr(decoder, "longer", 0):
                of = f"{longer} of {channel.topic} have more bytes than {channel.schema.name}"
                self._missing.append(f"{of}: their type may be another")
            bad = np.flatnonzero(~good)
            if not len(bad):
                return columns, ""
            if len(bad) < len(good):
                if not self._skips:
                    sentence = f"record {bad[0] + 1} of {len(good)} of {channel.topic} is not {channel.schema.name or channel.encoding}: {why}"
                    raise LogError(f"{self._raw.path} is damaged: {sentence}; `damaged='skip'` loads the others, and counts")
                kept = np.flatnonzero(good)
                payloads.taken(kept)
                self._note(channel.topic, "damaged", len(bad), why)
                return {name: column.take(kept) for name, column in columns.items()}, ""
        if len(payloads):
            self._note(channel.topic, "not_decoded", len(payloads), why)
        raw = np.empty(len(payloads), object)
        raw[:] = [payloads[row] for row in range(len(payloads))]
        return {"payload": raw}, why

    def _keep(self, channel: RawChannel, logged: LoggedChannel) -> None:
        other = self._log.get(channel.topic)
        if other is None:
            self._log[channel.topic] = logged
        elif (other.type, other.encoding, other.fields, other.why) == (logged.type, logged.encoding, logged.fields, logged.why):
            self._log[channel.topic] = _together(other, logged)
        elif not len(other):
            self._log[channel.topic] = logged
        elif len(logged):
            self._log[f"{channel.topic} [{channel.id}]"] = logged


def _description(channel: RawChannel) -> dict:
    try:
        found = json.loads(channel.texts.get("onbeat:description") or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _fast(decoder, payloads: _Payloads) -> np.ndarray | None:
    """Returns all records as one structured array where their lists and texts have one length each."""
    rows = payloads.matrix()
    if rows is None or not getattr(decoder, "is_flat", False):
        return None
    head = payloads.head
    try:
        layout = Layout(decoder.types, decoder.name, rows[0, head:].tobytes())
    except (TypeMismatch, ValueError):
        return None
    if (rows[:, head : head + 2] != (0, 1)).any() or not layout.fits(rows[:, head:]).all():
        return None
    if not 0 <= rows.shape[1] - head - layout.end < _columns.Encoding().surplus:
        return None
    fields = layout.dtype.fields or {}
    dtype = np.dtype(
        {
            "names": list(fields),
            "formats": [format_ for format_, *_ in fields.values()],
            "offsets": [at + head for _, at, *_ in fields.values()],
            "itemsize": rows.shape[1],
        }
    )
    return rows.view(dtype)[:, 0]


def _together(first: LoggedChannel, second: LoggedChannel) -> LoggedChannel:
    """Merges the records of two writers of a topic in the order of their times."""
    order = np.argsort(np.concatenate([first.utc_ns, second.utc_ns]), kind="stable")

    def both(name: str) -> np.ndarray:
        return np.concatenate([getattr(first, name), getattr(second, name)])[order]

    merged = LoggedChannel(both("numbers"), both("at_ns"), np.empty(len(order), np.dtype([])), first.lost, first.description)
    for name in ("utc_ns", "sources"):
        setattr(merged, name, both(name))
    merged.type, merged.encoding, merged.why, merged._one = first.type, first.encoding, first.why, first._one
    merged._columns = {name: _merged(first[name], second[name])[order] for name in first.fields}
    payloads = [*(first.payload(row) for row in range(len(first))), *(second.payload(row) for row in range(len(second)))]
    merged._payloads = [payloads[row] for row in order]
    return merged


def _merged(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    if first.shape[1:] == second.shape[1:] and first.dtype.kind == second.dtype.kind:
        return np.concatenate([first, second])
    rows = np.empty(len(first) + len(second), object)
    for row, value in enumerate([*first, *second]):
        rows[row] = value
    return rows


