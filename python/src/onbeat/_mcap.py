"""Reads the records of MCAP files (https://mcap.dev/spec) that anyone may have made."""

import zlib
from pathlib import Path

import numpy as np

from ._raw import LogError, RawChannel, RawLog, Schema

MAGIC = b"\x89MCAP0\r\n"
_HEADER, _FOOTER, _SCHEMA, _CHANNEL, _MESSAGE, _CHUNK, _INDEX, _ATTACHMENT = 1, 2, 3, 4, 5, 6, 7, 9
_STATISTICS, _NOTE, _END = 0x0B, 0x0C, 0x0F
#: Kinds of records from which a damaged file is read on.
_KINDS = frozenset(range(1, 16))
#: Bytes of a record before its content: kind and length.
_HEAD = 9
#: A message before its payload.
MESSAGE_HEAD = np.dtype([("kind", "u1"), ("length", "<u8"), ("channel", "<u2"), ("number", "<u4"), ("times", "<u8", 2)])
#: Longest chunk, decompressed, and what one compressed byte of LZ4 can stand for.
_MOST_CHUNK = 256 << 20
_LZ4_RATIO, _LZ4_MORE = 255, 1 << 16
#: Bytes that two messages of a channel have in common.
_SAME = 11
#: Most channels of a file.
_MOST_CHANNELS = 4096


class _Damage(Exception):
    """A record or chunk is not what its writer wrote."""


class McapReader:
    """Reads records in the order of the file; where it is damaged, with `skips`, from the next sound record on."""

    def __init__(self, path: Path, data: np.ndarray, wanted: set[str] | None, skips: bool):
        self._path, self._data, self._wanted, self._skips = path, data, wanted, skips
        self._schemas: dict[int, Schema] = {}
        self._channels: dict[int, RawChannel] = {}
        #: Channels whose definition, or that of whose type, was not found yet: a log repeats them behind the messages.
        self._undefined: set[int] = set()
        #: Messages read of each channel, wanted or not, and said to be there by what the file has at its end.
        self._read: dict[int, int] = {}
        self._stated: dict[int, int] | None = None
        self._is_chunked = self._is_behind = False
        #: Whether messages were read that no chunk's checksum covers: that of the whole data section does.
        self._is_unchecked = False
        #: Kinds of records that were passed over where they do not belong; each is said once.
        self._misplaced: set[int] = set()
        #: Up to where a chunk that is not compressed was read when it was found damaged.
        self._scanned = 0
        self._log = RawLog(path)
        self._is_closed = len(data) >= 2 * len(MAGIC) and data[-len(MAGIC) :].tobytes() == MAGIC

    def read(self) -> RawLog:
        at = len(MAGIC)
        while at < len(self._data):
            try:
                at = self._record_at(at)
            except _Damage as why:
                if not self._is_closed and self._runs_out(at):
                    cut = f"the file ends within the record at byte {at}: its writer was killed, or it was not copied whole"
                    self._log.cut = self._log.cut or cut
                    # A chunk that is not compressed has whole records; and it may be the length that is damaged.
                    is_packed = bool(self._data[at] == _CHUNK and self._data[at + _HEAD + 28 : at + _HEAD + 32].any())
                    at = len(self._data) if is_packed else self._next_sound(at)
                else:
                    at = self._resume(at, str(why))
        if not (self._log.is_complete or self._log.cut or self._log.damage):
            self._log.cut = "the file was not closed: its writer was killed, or it was not copied whole"
        self._log.is_complete = self._log.is_complete and not self._log.cut
        self._compare()
        for id_ in self._undefined:
            self._channels[id_].is_wanted = self._wanted is None or self._channels[id_].topic in self._wanted
        self._log.channels = list(self._channels.values())
        return self._log

    def _runs_out(self, at: int) -> bool:
        return at + _HEAD > len(self._data) or at + _HEAD + _length(self._data, at) > len(self._data)

    def _record_at(self, at: int) -> int:
        """Takes the record at a byte; returns where the next one begins."""
        kind, content = _record(self._data, at)
        after = at + _HEAD + len(content)
        if kind == _CHUNK:
            self._is_chunked = True
            self._scan(self._decompressed(content, at), at)
        elif kind == _MESSAGE:
            # A log without chunks is one chunk.
            self._is_unchecked = True
            return self._messages(self._data, at)
        elif kind == _FOOTER:
            self._footer(content, at, after)
            return len(self._data)
        elif kind == 0:
            raise _Damage("a record of kind 0 is not one of MCAP")
        else:
            if not self._is_behind and not _belongs(kind, content, at):
                self._pass_over(kind, at)
                if not _is_sound(self._data, after):
                    # Its length, too, is not what was written.
                    return self._next_sound(at)
            self._is_behind |= kind == _END
            self._define(kind, content)
        return after

    def _pass_over(self, kind: int, at: int) -> None:
        """Says that a record is not one that belongs among messages: it may have been one before it was damaged."""
        if kind in self._misplaced:
            return
        self._misplaced.add(kind)
        why = f"the record at byte {at} is of kind {kind}, which does not belong there; it was passed over"
        if kind in _KINDS:
            self._damaged(why, at)
        else:
            # Records of a program's own, or of a later version, are permitted.
            self._log.damage.append(why)

    def _scan(self, chunk: np.ndarray, of: int) -> None:
        at = 0
        try:
            while at < len(chunk):
                kind, content = _record(chunk, at)
                if kind == _MESSAGE:
                    at = self._messages(chunk, at)
                    continue
                if kind == 0:
                    raise _Damage("a record of kind 0 is not one of MCAP")
                if kind in (_SCHEMA, _CHANNEL):
                    self._define(kind, content)
                else:
                    self._pass_over(kind, of)
                at += _HEAD + len(content)
        except _Damage as why:
            place = chunk.__array_interface__["data"][0] - self._data.__array_interface__["data"][0] + at
            self._scanned = place if of < place < len(self._data) else 0
            raise _Damage(f"in the chunk at byte {of}, {why}") from None

    def _messages(self, data: np.ndarray, at: int) -> int:
        """Takes consecutive messages of one channel and one length; returns where they end."""
        _record(data, at)
        wide = _HEAD + _length(data, at)
        if wide < MESSAGE_HEAD.itemsize:
            raise _Damage(f"the message at byte {at} is shorter than its head")
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
        id_ = int.from_bytes(data[at + _HEAD : at + _SAME].tobytes(), "little")
        self._read[id_] = self._read.get(id_, 0) + (end - at) // wide
        channel = self._channels.get(id_)
        if channel is None:
            channel = self._placeholder(id_)
        if channel.is_wanted:
            channel.rows.append(data[at:end].reshape(-1, wide))
        return end

    def _placeholder(self, id_: int) -> RawChannel:
        self._undefined.add(id_)
        of = self._new(id_, RawChannel(f"(channel {id_})", "", Schema("", "", b""), {}, "the file does not define its channel"))
        of.is_wanted = True
        return of

    def _new(self, id_: int, channel: RawChannel) -> RawChannel:
        if len(self._channels) >= _MOST_CHANNELS:
            raise LogError(f"{self._path} has more than {_MOST_CHANNELS} channels")
        channel.id = id_
        channel.is_wanted = self._wanted is None or channel.topic in self._wanted
        self._channels[id_] = channel
        return channel

    def _define(self, kind: int, content: np.ndarray) -> None:
        try:
            if kind == _SCHEMA:
                texts = _Texts(content, 2)
                schema = Schema(texts.text(), texts.text(), texts.bytes())
                # A log repeats its definitions behind the messages.
                if self._schemas.setdefault(_u16(content, 0), schema) != schema:
                    self._conflict("definition", _u16(content, 0))
            elif kind == _CHANNEL:
                self._define_channel(content)
            elif kind == _NOTE:
                texts = _Texts(content, 0)
                self._log.note(texts.text(), texts.pairs())
            elif kind == _STATISTICS:
                self._stated = _statistics(content)
            elif kind == _END and len(content) >= 4:
                self._check_data(int.from_bytes(content[:4].tobytes(), "little"), content)
        except IndexError as why:
            raise _Damage(f"a record of kind {kind} contradicts its own length: {why}") from None

    def _conflict(self, what: str, id_: int) -> None:
        """Says that messages may be of two types. What a definition behind all of them contradicts was used by none."""
        if not self._is_behind:
            self._damaged(f"the {what} {id_} is defined twice, and differently", 0)

    def _define_channel(self, content: np.ndarray) -> None:
        id_, texts = _u16(content, 0), _Texts(content, 4)
        known = self._channels.get(id_) if id_ not in self._undefined else None
        if known and self._is_behind:
            return
        topic, encoding = texts.text(), texts.text()
        schema, why = self._schemas.get(_u16(content, 2)), ""
        if known:
            own = (topic, encoding, schema or Schema("", "", b""), texts.pairs())
            if own != (known.topic, known.encoding, known.schema, known.texts):
                self._conflict("channel", id_)
            return
        self._undefined.discard(id_)
        if schema is None and _u16(content, 2):
            why = "the file does not have the definition of its type"
            self._undefined.add(id_)
        channel = RawChannel(topic, encoding, schema or Schema("", "", b""), texts.pairs(), why)
        known = self._channels.pop(id_, None)
        channel.rows = known.rows if known else []
        self._new(id_, channel)

    def _check_data(self, stated: int, content: np.ndarray) -> None:
        if stated and self._is_unchecked:
            end = content.__array_interface__["data"][0] - self._data.__array_interface__["data"][0] - _HEAD
            found = zlib.crc32(memoryview(np.ascontiguousarray(self._data[:end])))
            if found != stated:
                self._damaged(f"the checksum of the messages is {found:08x}, and {stated:08x} was written: some byte has changed", 0)

    def _footer(self, content: np.ndarray, at: int, after: int) -> None:
        self._log.is_complete = self._data[after : after + len(MAGIC)].tobytes() == MAGIC
        if not self._log.is_complete and after + len(MAGIC) < len(self._data):
            raise _Damage(f"the record at byte {at} is one that ends a file, and {len(self._data) - after} bytes are behind it")
        begin, stated = int.from_bytes(content[:8].tobytes(), "little"), int.from_bytes(content[16:20].tobytes(), "little")
        end = after - 4
        if stated and 0 < begin < end and zlib.crc32(memoryview(np.ascontiguousarray(self._data[begin:end]))) != stated:
            # The index is damaged, and not the messages.
            self._stated = None
            self._log.damage.append("the checksum of the index is wrong; the messages were read without it")

    def _compare(self) -> None:
        """Names messages that the file states at its end, and that were not found."""
        for id_, stated in (self._stated or {}).items():
            missing = stated - self._read.get(id_, 0)
            if missing > 0:
                channel = self._channels.get(id_)
                topic = channel.topic if channel else f"(channel {id_})"
                if channel is None or channel.is_wanted:
                    self._log.damaged[topic] = self._log.damaged.get(topic, 0) + missing
                if not self._log.damage and self._is_closed:
                    self._damaged(f"{missing} of {stated} messages of {topic} are missing", missing)

    def _damaged(self, why: str, at: int) -> None:
        # What is behind the place where a file was cut is more than it promises.
        if not (self._skips or self._log.cut):
            raise LogError(f"{self._path} is damaged: {why}; `damaged='skip'` loads the rest, and counts")
        self._log.damage.append(why)

    def _resume(self, at: int, why: str) -> int:
        """Counts a damaged record; returns where the next sound one begins."""
        self._damaged(why, at)
        whole = at + _HEAD + _length(self._data, at) if at + _HEAD <= len(self._data) else len(self._data)
        if whole <= len(self._data) and _is_sound(self._data, whole):
            return whole
        return self._next_sound(max(at, self._scanned))

    def _next_sound(self, at: int) -> int:
        """Where the next record begins from which on records follow one another."""
        kinds = (_CHUNK, _INDEX, _END, _FOOTER, _SCHEMA, _CHANNEL) if self._is_chunked else tuple(_KINDS)
        window = 1 << 20
        for begin in range(at + 1, len(self._data), window):
            piece = self._data[begin : begin + window + _HEAD]
            places = max(len(piece) - _HEAD + 1, 0)
            likely = np.isin(piece[:places], kinds)
            for high in range(5, _HEAD):
                likely &= piece[high : high + places] == 0
            for place in np.flatnonzero(likely).tolist():
                if _is_sound(self._data, begin + place, 3):
                    return begin + place
        return len(self._data)

    def _decompressed(self, content: np.ndarray, at: int) -> np.ndarray:
        try:
            texts = _Texts(content, 28)
            compression = texts.text()
            texts.need(8)
        except IndexError as why:
            raise _Damage(f"the chunk at byte {at} contradicts its own length: {why}") from None
        size = int.from_bytes(content[16:24].tobytes(), "little")
        stated = int.from_bytes(content[24:28].tobytes(), "little")
        stored = int.from_bytes(content[texts.at : texts.at + 8].tobytes(), "little")
        data = content[texts.at + 8 :]
        if stored > len(data):
            raise _Damage(f"the chunk at byte {at} has {len(data)} bytes, and claims {stored}")
        # A later version may add fields; what is no record behind the chunk has its length damaged.
        if stored < len(data) and not _is_sound(self._data, at + _HEAD + len(content)):
            raise _Damage(f"the chunk at byte {at} has {len(data)} bytes, and needs {stored}")
        whole = decompressed(self._path, compression, data[:stored], size, at)
        self._is_unchecked |= not stated
        if stated:
            found = zlib.crc32(memoryview(np.ascontiguousarray(whole)))
            if found != stated:
                raise _Damage(f"the chunk at byte {at} has the checksum {found:08x}, and {stated:08x} was written")
        return whole


def decompressed(path: Path, compression: str, data: np.ndarray, size: int, at: int) -> np.ndarray:
    """Decompresses a chunk; neither its claim nor that of the compressed frame is believed."""
    if compression == "":
        return data
    if compression not in ("lz4", "zstd"):
        raise _Damage(f"the compression {compression[:32]!r} of the chunk at byte {at} is not known; lz4 and zstd are")
    most = min(_MOST_CHUNK, len(data) * _LZ4_RATIO + _LZ4_MORE if compression == "lz4" else _MOST_CHUNK)
    if size > most:
        raise _Damage(f"a chunk of {len(data)} bytes claims {size} bytes; at most {most} are read")
    try:
        if compression == "lz4":
            import lz4.frame

            try:
                whole = lz4.frame.LZ4FrameDecompressor().decompress(data.tobytes(), max_length=size)
            except RuntimeError as why:
                raise _Damage(f"the chunk at byte {at} cannot be decompressed: {why}") from None
        else:
            import zstandard

            try:
                decompressor = zstandard.ZstdDecompressor(max_window_size=_MOST_CHUNK)
                whole = decompressor.stream_reader(data.tobytes()).read(size)
            except zstandard.ZstdError as why:
                raise _Damage(f"the chunk at byte {at} cannot be decompressed: {why}") from None
    except ImportError as why:
        raise LogError(f"{path} needs the package {why.name}; install it by pip") from None
    if len(whole) != size:
        raise _Damage(f"the chunk at byte {at} has {len(whole)} bytes, and claims {size}")
    return np.frombuffer(whole, "u1")


def _statistics(content: np.ndarray) -> dict[int, int]:
    if len(content) < 46:
        raise IndexError("statistics of fewer than 46 bytes")
    pairs = content[46 : 46 + int.from_bytes(content[42:46].tobytes(), "little")]
    pairs = pairs[: len(pairs) // 10 * 10].tobytes()
    pieces = [pairs[at : at + 10] for at in range(0, len(pairs), 10)]
    return {int.from_bytes(piece[:2], "little"): int.from_bytes(piece[2:], "little") for piece in pieces}


class _Texts:
    """Reads texts one after the other, each with its length. Raises `IndexError` for one that is not complete."""

    def __init__(self, content: np.ndarray, at: int):
        self._content = content
        self.at = at

    def need(self, bytes_: int) -> None:
        if self.at + bytes_ > len(self._content):
            raise IndexError(f"{self.at + bytes_} of {len(self._content)} bytes")

    def bytes(self) -> bytes:
        self.need(4)
        length = int.from_bytes(self._content[self.at : self.at + 4].tobytes(), "little")
        self.at += 4
        self.need(length)
        self.at += length
        return self._content[self.at - length : self.at].tobytes()

    def text(self) -> str:
        return self.bytes().decode(errors="replace")

    def pairs(self) -> dict[str, str]:
        inner = _Texts(np.frombuffer(self.bytes(), "u1"), 0)
        found = {}
        while inner.at < len(inner._content):
            name = inner.text()
            found[name] = inner.text()
        return found


def _u16(content: np.ndarray, at: int) -> int:
    if at + 2 > len(content):
        raise IndexError(f"{at + 2} of {len(content)} bytes")
    return int.from_bytes(content[at : at + 2].tobytes(), "little")


def _length(data: np.ndarray, at: int) -> int:
    return int.from_bytes(data[at + 1 : at + _HEAD].tobytes(), "little")


def _record(data: np.ndarray, at: int) -> tuple[int, np.ndarray]:
    """Returns kind and content of a record."""
    if at + _HEAD > len(data):
        raise _Damage(f"{len(data) - at} bytes are left at byte {at}, and a record has {_HEAD} at least")
    end = at + _HEAD + _length(data, at)
    if end > len(data):
        raise _Damage(f"the record at byte {at} claims {end - at - _HEAD} bytes, and {len(data) - at - _HEAD} are left")
    return int(data[at]), data[at + _HEAD : end]


def _belongs(kind: int, content: np.ndarray, at: int) -> bool:
    """Returns whether a record outside of chunks can be among messages."""
    if kind == _INDEX:
        # A later version may add a field.
        return len(content) >= 6 and 0 <= len(content) - 6 - int.from_bytes(content[2:6].tobytes(), "little") < 16
    return kind in (_SCHEMA, _CHANNEL, _ATTACHMENT, _NOTE, _END) or kind == _HEADER and at == len(MAGIC)


def _is_sound(data: np.ndarray, at: int, depth: int = 2) -> bool:
    """Returns whether records follow one another from here on."""
    for _ in range(depth):
        if at == len(data) or data[at : at + len(MAGIC)].tobytes() == MAGIC:
            return True
        if at + _HEAD > len(data) or int(data[at]) not in _KINDS:
            return False
        at += _HEAD + _length(data, at)
        if at > len(data):
            return False
    return True
