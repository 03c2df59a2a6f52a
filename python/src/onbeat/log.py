"""Reads logs: MCAP files that `onbeat message record` and `onbeat robot run --log` write, and those of ROS 2.

    import onbeat

    log = onbeat.load("walk.mcap")
    cycles = log["walker/cycle"]
    cycles["actual_rad"]            # cycles x joints, rad
    cycles.at_ns                    # release of each cycle, CLOCK_MONOTONIC
    log.account                     # received and lost records of each channel

A log whose writer was killed is read up to its last complete chunk. A million messages take about a second.
"""

import json
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

import numpy as np

from .definition import Layout, parse
from .errors import OnbeatError
from .ring import Batch

_MAGIC = b"\x89MCAP0\r\n"
_FOOTER, _SCHEMA, _CHANNEL, _MESSAGE, _CHUNK, _NOTE = 0x02, 0x03, 0x04, 0x05, 0x06, 0x0C
#: Bytes of a record before its content: kind and length.
_HEAD = 9
#: A message before its payload.
_MESSAGE_HEAD = np.dtype([("kind", "u1"), ("length", "<u8"), ("channel", "<u2"), ("number", "<u4"), ("times", "<u8", 2)])
#: Longest chunk, decompressed, and what one compressed byte of LZ4 can stand for.
_MOST_CHUNK = 256 << 20
_LZ4_RATIO, _LZ4_MORE = 255, 1 << 16
#: Bytes that two messages of a channel have in common.
_SAME = 11


class LogError(OnbeatError):
    """A file is not a log, or cannot be read."""

    code = "onbeat:log"


class LoggedChannel(Batch):
    """All records of a channel in a log, as numpy arrays: `channel["field"]` has a row for each record.

    `at_ns` are the times of the records by CLOCK_MONOTONIC if onbeat wrote the log, else as `utc_ns`: ns since 1970. A field
    whose length varies from record to record is an array of arrays.
    """

    utc_ns: np.ndarray
    type: str
    _varying: dict[str, np.ndarray]

    def __getitem__(self, field: str) -> np.ndarray:
        return self._varying[field] if field in self._varying else super().__getitem__(field)

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields."""
        return (*super().fields, *self._varying)

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns all fields, and `number` and `at_ns`, as a dict of arrays."""
        return {"number": self.numbers, "at_ns": self.at_ns} | {name: self[name] for name in self.fields}


class Log(dict[str, LoggedChannel]):
    """The channels of a log by name.

    `account` has the number of records received and lost for each channel, `gaps` each loss; both are empty for a log that
    onbeat did not write. `is_complete` is False if the writer was killed.
    """

    account: dict[str, dict[str, int]]
    gaps: list[dict[str, str]]
    is_complete: bool

    def save_mat(self, path: str | PathLike) -> None:
        """Writes a MAT file (version 5) with a struct for each channel, for MATLAB and Octave. Needs scipy."""
        try:
            from scipy.io import savemat
        except ImportError:
            raise LogError("MAT files need scipy; install it by `pip install scipy`") from None
        plain = {_word(name): {_word(k): v for k, v in of.arrays().items()} for name, of in self.items()}
        savemat(path, plain, long_field_names=True, do_compression=True)


def load(path: str | PathLike, channels: list[str] | None = None) -> Log:
    """Reads a log, all channels or only these. Raises `LogError` if the file is not a log."""
    path = Path(path)
    try:
        data = np.memmap(path, dtype="u1", mode="r") if path.stat().st_size else np.empty(0, "u1")
    except OSError as why:
        raise LogError(f"cannot read {path}: {why.strerror}") from None
    if data[: len(_MAGIC)].tobytes() != _MAGIC:
        raise LogError(f"{path} is not an MCAP file")
    try:
        return _Reader(path, data, channels).log()
    except (ArithmeticError, LookupError, MemoryError, RuntimeError, TypeError, ValueError) as why:
        raise LogError(f"{path} is damaged: {why or type(why).__name__}") from why


def _word(name: str) -> str:
    """A name that MATLAB allows for a field."""
    return "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name)


class _Reader:
    """Reads records in the order of the file."""

    def __init__(self, path: Path, data: np.ndarray, wanted: list[str] | None):
        self._path = path
        self._data = data
        self._wanted = wanted
        self._schemas: dict[int, tuple[str, str]] = {}
        #: Topic, schema, texts.
        self._channels: dict[int, tuple[str, int, dict[str, str]]] = {}
        #: Matrices of bytes, a row for each message with its head.
        self._parts: dict[int, list[np.ndarray]] = {}
        self._log = Log()
        self._log.account, self._log.gaps, self._log.is_complete = {}, [], False

    def log(self) -> Log:
        at = len(_MAGIC)
        while (record := _record(self._data, at)) is not None:
            kind, content = record
            if kind == _CHUNK:
                self._scan(self._decompressed(content))
            elif kind == _MESSAGE:
                # A log without chunks is one chunk.
                at = self._messages(self._data, at)
                continue
            elif kind == _FOOTER:
                self._log.is_complete = True
                break
            else:
                self._define(kind, content)
            at += _HEAD + len(content)
        for channel in self._channels:
            self._add(channel)
        return self._log

    def _scan(self, chunk: np.ndarray) -> None:
        at = 0
        while (record := _record(chunk, at)) is not None:
            kind, content = record
            if kind == _MESSAGE:
                at = self._messages(chunk, at)
                continue
            self._define(kind, content)
            at += _HEAD + len(content)

    def _messages(self, data: np.ndarray, at: int) -> int:
        """Takes consecutive messages of one channel and one length; returns where they end."""
        wide = _HEAD + _length(data, at)
        if wide < _MESSAGE_HEAD.itemsize:
            raise LogError(f"{self._path}: the message at byte {at} is shorter than its head")
        end, look = at + wide, 16
        while end + wide <= len(data):
            count = min((len(data) - end) // wide, look)
            rows = data[end : end + count * wide].reshape(count, wide)
            same = (rows[:, :_SAME] == data[at : at + _SAME]).all(axis=1)
            matching = count if same.all() else int(np.argmin(same))
            end += matching * wide
            look *= 2
            if matching < count:
                break
        channel = int.from_bytes(data[at + _HEAD : at + _SAME].tobytes(), "little")
        self._parts.setdefault(channel, []).append(data[at:end].reshape(-1, wide))
        return end

    def _define(self, kind: int, content: np.ndarray) -> None:
        if kind == _SCHEMA:
            texts = _Texts(content, 2)
            name, encoding = texts.text(), texts.text()
            self._schemas[_u16(content, 0)] = (name, texts.text() if encoding == "ros2msg" else "")
        elif kind == _CHANNEL:
            texts = _Texts(content, 4)
            topic, encoding = texts.text(), texts.text()
            is_wanted = encoding == "cdr" and (self._wanted is None or topic in self._wanted)
            if is_wanted and _u16(content, 2) in self._schemas:
                self._channels[_u16(content, 0)] = (topic, _u16(content, 2), texts.pairs())
        elif kind == _NOTE:
            texts = _Texts(content, 0)
            name, pairs = texts.text(), texts.pairs()
            if name == "onbeat:account":
                counts = {name: int(pairs[name]) for name in ("received", "lost", "gaps")}
                self._log.account[pairs["channel"]] = counts
            elif name == "onbeat:lost":
                self._log.gaps.append(pairs)

    def _decompressed(self, content: np.ndarray) -> np.ndarray:
        size = int.from_bytes(content[16:24].tobytes(), "little")
        texts = _Texts(content, 28)
        compression = texts.text()
        data = content[texts.at + 8 :]
        if compression == "":
            return data
        if compression not in ("lz4", "zstd"):
            raise LogError(f"{self._path}: the compression {compression!r} is not known; lz4 and zstd are")
        # Neither the chunk's claim nor that of the compressed frame is believed.
        most = min(_MOST_CHUNK, len(data) * _LZ4_RATIO + _LZ4_MORE if compression == "lz4" else _MOST_CHUNK)
        if size > most:
            raise LogError(f"{self._path}: a chunk of {len(data)} bytes claims {size} bytes; at most {most} are read")
        try:
            if compression == "lz4":
                import lz4.frame

                whole = lz4.frame.LZ4FrameDecompressor().decompress(data.tobytes(), max_length=size)
            else:
                import zstandard

                decompressor = zstandard.ZstdDecompressor(max_window_size=_MOST_CHUNK)
                try:
                    whole = decompressor.stream_reader(data.tobytes()).read(size)
                except zstandard.ZstdError as why:
                    raise LogError(f"{self._path}: a chunk cannot be decompressed: {why}") from None
            return np.frombuffer(whole, "u1")
        except ImportError as why:
            raise LogError(f"{self._path} needs the package {why.name}; install it by pip") from None

    def _add(self, id_: int) -> None:
        topic, schema, texts = self._channels[id_]
        name, text = self._schemas[schema]
        parts = self._parts.get(id_, [])
        types = parse(name, text)
        groups: list[np.ndarray] = []
        for rows in _joined(parts):
            groups.extend(_records(types, name, rows))

        heads = [rows[:, : _MESSAGE_HEAD.itemsize].copy().view(_MESSAGE_HEAD)[:, 0] for rows in _joined(parts)]
        head = np.concatenate(heads) if heads else np.empty(0, _MESSAGE_HEAD)
        numbers = head["number"].astype("u8")
        # The file has the low 32 bits.
        numbers[1:] += np.cumsum(numbers[1:] < numbers[:-1], dtype="u8") << np.uint64(32)
        utc_ns = head["times"][:, 0].copy()
        offset = int(texts.get("onbeat:utc_offset_ns", "0"))
        description = json.loads(texts.get("onbeat:description") or "{}")

        lost = self._log.account.get(topic, {}).get("lost", 0)
        records, varying = _merged(groups)
        logged = LoggedChannel(numbers, utc_ns - np.uint64(offset), records, lost, description)
        logged.utc_ns, logged.type, logged._varying = utc_ns, name, varying
        self._log[topic] = logged


def _joined(parts: list[np.ndarray]) -> Iterator[np.ndarray]:
    """Joins neighbours of the same length."""
    begin = 0
    for place in range(1, len(parts) + 1):
        if place == len(parts) or parts[place].shape[1] != parts[begin].shape[1]:
            yield parts[begin] if place == begin + 1 else np.concatenate(parts[begin:place])
            begin = place


def _records(types: dict, name: str, rows: np.ndarray) -> Iterator[np.ndarray]:
    """Yields records of consecutive messages with the same layout."""
    payload_at = _MESSAGE_HEAD.itemsize
    while len(rows):
        layout = Layout(types, name, rows[0, payload_at:].tobytes())
        fits = layout.fits(rows[:, payload_at:])
        kept = len(rows) if fits.all() else int(np.argmin(fits))
        fields = layout.dtype.fields or {}
        dtype = np.dtype(
            {
                "names": list(fields),
                "formats": [format_ for format_, *_ in fields.values()],
                "offsets": [at + payload_at for _, at, *_ in fields.values()],
                "itemsize": rows.shape[1],
            }
        )
        yield np.ascontiguousarray(rows[:kept]).view(dtype)[:, 0]
        rows = rows[kept:]


def _merged(groups: list[np.ndarray]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Returns records with one layout, and the fields that vary from record to record."""
    if not groups:
        return np.empty(0, np.dtype([])), {}
    if len(groups) == 1 or all(group.dtype == groups[0].dtype for group in groups):
        return (groups[0] if len(groups) == 1 else np.concatenate(groups)), {}

    names = [name for name in groups[0].dtype.names if all(name in group.dtype.names for group in groups)]
    steady = [name for name in names if len({group.dtype[name] for group in groups}) == 1]
    records = np.empty(sum(map(len, groups)), [(name, groups[0].dtype[name]) for name in steady])
    for name in steady:
        records[name] = np.concatenate([group[name] for group in groups])

    varying = {}
    for name in names:
        if name not in steady:
            values = [value for group in groups for value in group[name]]
            varying[name] = np.empty(len(values), object)
            varying[name][:] = values
    return records, varying


class _Texts:
    """Reads texts one after the other, each with its length."""

    def __init__(self, content: np.ndarray, at: int):
        self._content = content
        self.at = at

    def _bytes(self) -> bytes:
        length = int.from_bytes(self._content[self.at : self.at + 4].tobytes(), "little")
        self.at += 4 + length
        return self._content[self.at - length : self.at].tobytes()

    def text(self) -> str:
        return self._bytes().decode(errors="replace")

    def pairs(self) -> dict[str, str]:
        inner = _Texts(np.frombuffer(self._bytes(), "u1"), 0)
        found = {}
        while inner.at < len(inner._content):
            name = inner.text()
            found[name] = inner.text()
        return found


def _u16(content: np.ndarray, at: int) -> int:
    return int.from_bytes(content[at : at + 2].tobytes(), "little")


def _length(data: np.ndarray, at: int) -> int:
    return int.from_bytes(data[at + 1 : at + _HEAD].tobytes(), "little")


def _record(data: np.ndarray, at: int) -> tuple[int, np.ndarray] | None:
    """Returns kind and content of a record; None at the end, or where a writer was killed."""
    if at + _HEAD > len(data):
        return None
    end = at + _HEAD + _length(data, at)
    return (int(data[at]), data[at + _HEAD : end]) if end <= len(data) else None
