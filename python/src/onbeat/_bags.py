"""Reads bags of ROS 2 (SQLite, and the folder around all of them), bags of ROS 1, and logs of LCM."""

import os
import re
import shutil
import sqlite3
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ._mcap import MESSAGE_HEAD
from ._raw import LogError, RawChannel, RawLog, Schema

SQLITE = b"SQLite format 3\0"
ROSBAG = b"#ROSBAG V2.0\n"
LCM = b"\xed\xa1\xda\x01"
ZSTD = b"\x28\xb5\x2f\xfd"
#: A file that was compressed by zstd begins with it, or as pzstd writes it with a frame that has no content.
PACKED = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")
#: Largest chunk, record and unpacked file, in bytes.
_MOST_CHUNK = 256 << 20
_MOST_UNPACKED = 64 << 30
_MOST_CHANNELS = 4096


class _Collected:
    """The channels of a log by key, as they come."""

    def __init__(self, path: Path, wanted: set[str] | None, skips: bool):
        self.log, self._wanted, self._skips = RawLog(path), wanted, skips
        self.channels: dict[object, RawChannel] = {}

    def channel(self, key: object, make: Callable[[], RawChannel]) -> RawChannel:
        found = self.channels.get(key)
        if found is None:
            if len(self.channels) >= _MOST_CHANNELS:
                raise LogError(f"{self.log.path} has more than {_MOST_CHANNELS} channels")
            found = make()
            found.id = len(self.channels)
            found.is_wanted = self._wanted is None or found.topic in self._wanted
            self.channels[key] = found
            self.log.channels.append(found)
        return found

    def define(self, of: RawChannel, topic: str, encoding: str, schema: Schema, texts: dict[str, str]) -> None:
        """Defines a channel whose records came first."""
        count = self.log.damaged.pop(of.topic, 0)
        if count:
            self.log.damaged[topic] = self.log.damaged.get(topic, 0) + count
        of.topic, of.encoding, of.schema, of.texts, of.why = topic, encoding, schema, texts, ""
        of.is_wanted = self._wanted is None or topic in self._wanted

    def damaged(self, why: str) -> None:
        if not self._skips:
            raise LogError(f"{self.log.path} is damaged: {why}; `damaged='skip'` loads the rest, and counts")
        self.log.damage.append(why)


def folder(path: Path, read: Callable[[Path], RawLog], wanted: set[str] | None, skips: bool) -> RawLog:
    """Reads the files of a ROS 2 bag, in the order of its `metadata.yaml`."""
    try:
        about = (path / "metadata.yaml").read_text(encoding="utf-8", errors="replace")
    except OSError:
        about = ""
    names = re.findall(r"^\s*-\s+(?!\s|\w+:\s|[\"']\w+[\"']:)[\"']?(.+?\.(?:mcap|db3)(?:\.zstd)?)[\"']?\s*$", about, re.MULTILINE)
    # Named in `relative_file_paths` and again in `files`.
    found = [next((one for one in _places(path, name) if one.exists()), None) for name in names]
    missing = dict.fromkeys(Path(name).name for name, file in zip(names, found, strict=True) if file is None)
    files = list(dict.fromkeys(file for file in found if file is not None))
    there = [one for one in path.iterdir() if re.search(r"\.(mcap|db3)(\.zstd)?$", one.name)]
    named = {str(one).removesuffix(".zstd") for one in files}
    # A packed file beside the unpacked one has the same records; `bag_10` is behind `bag_9`.
    others = [one for one in there if one.suffix != ".zstd" or one.with_suffix("") not in there]
    others = [one for one in others if str(one).removesuffix(".zstd") not in named]
    others.sort(key=lambda one: (len(one.name.removesuffix(".zstd")), one.name))
    if not files:
        files, others = others, []
        if not files:
            raise LogError(f"{path} is not a bag: it has neither .mcap nor .db3 files")
    whole = _Collected(path, wanted, skips)
    if not about:
        whole.log.cut = "the folder has no metadata.yaml: its recorder was killed, or it was not copied whole"
    for name in missing:
        whole.damaged(f"the file {name}, which metadata.yaml names, is missing")
    logs = []
    for file in files:
        try:
            logs.append(read(file))
        except LogError as why:
            if len(files) == 1:
                raise
            whole.damaged(str(why))
    whole.log.is_complete = all(log.is_complete for log in logs) and bool(about)
    for log in logs:
        _append(whole, log)
    stated = re.search(r"^( *)relative_file_paths:.*?^\1message_count: *(\d+)", about, re.MULTILINE | re.DOTALL) or re.search(
        r"^( *)message_count: *(\d+)\s*$.*^\1relative_file_paths:", about, re.MULTILINE | re.DOTALL
    )
    read_ = sum(len(rows) for channel in whole.log.channels for rows in channel.rows)
    read_ += sum(len(channel.payloads) for channel in whole.log.channels)
    is_whole = wanted is None and not (whole.log.damage or whole.log.damaged or whole.log.cut)
    if stated and is_whole and read_ < int(stated[2]):
        whole.damaged(f"{read_} of {stated[2]} records were found, which metadata.yaml states")
    if others:
        why = f"files that metadata.yaml does not name are not read: {len(others)}, the first is {others[0].name}"
        whole.log.damage.append(why)
    return whole.log


def _places(folder: Path, name: str) -> list[Path]:
    """Where a file that `metadata.yaml` names can be: older versions name the folder too, and the player of ROS 2 leaves the
    unpacked file beside the packed one. A name leads nowhere else."""
    parts = [part for part in Path(name).parts if part not in ("/", "..")]
    ends = ["/".join(parts[at:]) for at in range(len(parts))]
    return [folder / one for end in ends for one in (end, end.removesuffix(".zstd"))]


def _append(whole: _Collected, log: RawLog) -> None:
    whole.log.damage += log.damage
    whole.log.gaps += log.gaps
    whole.log.cut = whole.log.cut or (f"{log.path.name}: {log.cut}" if log.cut else "")
    for topic, count in log.damaged.items():
        whole.log.damaged[topic] = whole.log.damaged.get(topic, 0) + count
    for topic, counts in log.account.items():
        own = whole.log.account.setdefault(topic, {})
        for name, count in counts.items():
            own[name] = own.get(name, 0) + count
    for channel in log.channels:
        # Records of MCAP are kept in another form than those of SQLite.
        key = (channel.topic, channel.encoding, channel.schema, tuple(sorted(channel.texts.items())), channel.why, bool(channel.rows))
        of = whole.channel(key, lambda c=channel: RawChannel(c.topic, c.encoding, c.schema, c.texts, c.why))
        of.rows += channel.rows
        of.payloads += channel.payloads
        of.times += channel.times
        of.numbers += channel.numbers


def unpack_messages(channel: RawChannel, damaged: Callable[[str, int], None]) -> None:
    """Unpacks the messages that ROS 2 has compressed one by one. CDR begins with a zero, a frame of zstd with another byte."""
    if channel.encoding != "cdr":
        return
    head = MESSAGE_HEAD.itemsize
    magic = np.frombuffer(ZSTD, "u1")
    if not any(
        rows.shape[1] >= head + len(magic) and (rows[:, head : head + len(magic)] == magic).all(axis=1).any() for rows in channel.rows
    ) and not any(payload.startswith(ZSTD) for payload in channel.payloads):
        return
    try:
        import zstandard
    except ImportError:
        raise LogError(f"messages of {channel.topic} are compressed: they need the package zstandard; install it by pip") from None
    for rows in channel.rows:
        heads = rows[:, :head].copy().view(MESSAGE_HEAD)[:, 0]
        for row, of in zip(rows, heads, strict=True):
            channel.add(int(of["times"][0]), int(of["number"]), row[head:].tobytes())
    channel.rows = []
    unpack = zstandard.ZstdDecompressor(max_window_size=_MOST_CHUNK)
    kept, why, bad = [], "", 0
    for row, payload in enumerate(channel.payloads):
        try:
            if payload.startswith(ZSTD):
                channel.payloads[row] = unpack.stream_reader(payload).read(_MOST_CHUNK)
            kept.append(row)
        except zstandard.ZstdError as error:
            why, bad = why or f"record {row + 1} of {channel.topic} cannot be unpacked: {error}", bad + 1
    if bad:
        damaged(why, bad)
        for name in ("payloads", "times", "numbers"):
            setattr(channel, name, [getattr(channel, name)[row] for row in kept])


def unpacked(path: Path, read: Callable[[Path], RawLog], skips: bool) -> RawLog:
    """Reads a log that was compressed as a whole by zstd; with `skips`, as far as it can be unpacked."""
    try:
        import zstandard
    except ImportError:
        raise LogError(f"{path} needs the package zstandard; install it by pip") from None
    with tempfile.TemporaryDirectory() as place, path.open("rb") as packed:
        file = Path(place) / path.stem
        unpack = zstandard.ZstdDecompressor(max_window_size=_MOST_CHUNK)
        reader, size, damage = unpack.stream_reader(packed, read_across_frames=True), 0, ""
        try:
            with file.open("wb") as out:
                # What is read with the damage is not handed over: in short pieces, that is little.
                while piece := reader.read(1 << 14):
                    size += len(piece)
                    if size > _MOST_UNPACKED:
                        raise LogError(f"{path} has more than {_MOST_UNPACKED >> 30} GiB when unpacked")
                    out.write(piece)
        except zstandard.ZstdError as why:
            damage = f"{path} cannot be decompressed: {why}"
            if not size or not skips:
                rest = "; `damaged='skip'` loads what is before" if size else ""
                raise LogError(damage + rest) from None
        if not size:
            raise LogError(f"{path} cannot be decompressed: it ends before the end of its first block")
        try:
            log = read(file)
        except LogError as why:
            raise LogError(str(why).replace(str(file), str(path))) from None
        log.path = path
        log.damage += [damage] if damage else []
        return log


def sqlite(path: Path, wanted: set[str] | None, skips: bool) -> RawLog:
    """Reads the database of a ROS 2 bag. What a killed recorder has left in a journal is put in, or taken back, in a copy."""
    file = path.resolve()
    left = [of for of in (file.with_name(file.name + end) for end in ("-wal", "-journal")) if _is_left(of)]
    reader = _Sqlite(path, wanted, skips)
    cut, whole = _missing_pages(file)
    if not left and file.stat().st_size == whole:
        return reader.read(file, cut)
    with tempfile.TemporaryDirectory() as place:
        before = {of: (of.stat().st_size, of.stat().st_mtime_ns) for of in [file, *left]}
        for of in before:
            shutil.copyfile(of, Path(place) / of.name)
        if any(of.stat().st_size != size or of.stat().st_mtime_ns != at for of, (size, at) in before.items()):
            raise LogError(f"{path} is being recorded; load it when the recorder has ended")
        copy = Path(place) / file.name
        if left:
            merged = sqlite3.connect(copy)
            try:
                merged.execute("pragma journal_mode=delete")
            except sqlite3.DatabaseError as why:
                raise LogError(f"{path} is damaged: its {left[0].name} cannot be merged: SQLite says: {why}") from None
            finally:
                merged.close()
        cut, whole = _missing_pages(copy)
        os.truncate(copy, whole)
        return reader.read(copy, cut)


def _is_left(journal: Path) -> bool:
    """The first byte of a journal that is over is 0."""
    try:
        with journal.open("rb") as file:
            return file.read(1) not in (b"", b"\0")
    except FileNotFoundError:
        return False


def _missing_pages(path: Path) -> tuple[str, int]:
    """Whether a database states more pages than it has, and the bytes of whole ones: SQLite would fill the last one with zeros."""
    with path.open("rb") as file:
        head = file.read(100).ljust(100, b"\0")
    size, bytes_ = int.from_bytes(head[16:18], "big"), path.stat().st_size
    size = 1 << 16 if size == 1 else max(size, 512)
    pages, stated = bytes_ // size, int.from_bytes(head[28:32], "big")
    # Writers of old left the number as it was, and did not count this change.
    if stated <= pages or head[24:28] != head[92:96]:
        return "", bytes_
    why = f"the file has {pages} of the {stated} pages of its database: it was not copied whole, or its recorder was killed"
    return why, pages * size


class _Sqlite:
    def __init__(self, path: Path, wanted: set[str] | None, skips: bool):
        self._path, self._log = path, _Collected(path, wanted, skips)
        self._topics: dict[int, RawChannel] = {}
        self._found = 0

    def read(self, path: Path, cut: str) -> RawLog:
        file = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            file.execute("pragma trusted_schema=off")
            if cut:
                # SQLite reads no database that has fewer pages than it states, unless it is to be mended.
                file.execute("pragma writable_schema=on")
            self._define(file)
            stated = self._indexed(file, path.stat().st_size)
            self._log.log.cut = self._rows(file, cut) or cut
            if stated > self._found and not (self._log.log.cut or self._log.log.damage):
                self._log.damaged(f"its index of times has {stated} rows, and {self._found} were found")
            self._log.log.is_complete = not (self._log.log.cut or self._log.log.damage)
        except sqlite3.DatabaseError as why:
            self._log.damaged(f"SQLite says: {why}")
        finally:
            file.close()
        return self._log.log

    def _define(self, file: sqlite3.Connection) -> None:
        tables = {name for (name,) in file.execute("select name from sqlite_master where type='table'")}
        if not {"topics", "messages"} <= tables:
            raise LogError(f"{self._path} is a database of SQLite, and not a ROS 2 bag: it has no tables topics and messages")
        schemas = {}
        if "message_definitions" in tables:
            rows = file.execute("select topic_type, encoding, encoded_message_definition from message_definitions")
            schemas = {name: Schema(name, encoding, text.encode()) for name, encoding, text in rows if text is not None}
        for id_, name, kind, encoding in file.execute("select id, name, type, serialization_format from topics"):
            # The definition of a service or an action has its own name, and not that of the message made of it.
            made = re.fullmatch(r"(.+/(?:srv|action)/.+?)(?:(?:_SendGoal|_GetResult)?_Event|_FeedbackMessage)", kind)
            of = schemas.get(kind) or schemas.get(made[1] if made else "") or Schema(kind, "", b"")
            schema = Schema(kind, of.encoding, of.text)
            self._topics[id_] = self._log.channel(id_, lambda n=name, e=encoding, s=schema: RawChannel(n, e, s, {}))

    def _indexed(self, file: sqlite3.Connection, most: int) -> int:
        """Rows of a damaged page can be gone without an error; the index of times has them. Counted before the rows are
        read: a recorder may add some meanwhile. At most as many as bytes: pages of a damaged index may lead to one another."""
        count = "select count(*) from (select 1 from messages indexed by timestamp_idx limit ?)"
        try:
            return file.execute(count, (most,)).fetchone()[0]
        except sqlite3.DatabaseError:
            # Not every bag has this index.
            return 0

    def _rows(self, file: sqlite3.Connection, cut: str) -> str:
        """Takes all rows in the order of their numbers; returns why they end early."""
        at = -(1 << 63)
        while True:
            try:
                for id_, topic, at_ns, data in file.execute(f"{_SELECT} order by id", (at,)):
                    if id_ < at:
                        raise sqlite3.DatabaseError(f"row {id_} is behind row {at - 1}")
                    self._take(id_, topic, at_ns, data)
                    at = id_ + 1
                return ""
            except sqlite3.DatabaseError as error:
                at = damaged = max(at, 0)
                row = _row(file, at)
                if row and (row[0] == at or at == 0):
                    # Python has read one ahead.
                    self._take(*row)
                    at = row[0] + 1
                    continue
                # A search can pass over rows that reading one by one finds damaged.
                at = row[0] if row else _sound_row(file, damaged)
                if at is None:
                    return cut or f"rows from {damaged} on cannot be read: SQLite says: {error}"
                why = f"rows {damaged} to {at - 1} of messages cannot be read: SQLite says: {error}"
                if cut:
                    self._log.log.damage.append(why)
                else:
                    self._log.damaged(why)

    def _take(self, id_: int, topic: object, at_ns: object, data: object) -> None:
        if not isinstance(topic, int) or not isinstance(at_ns, int):
            raise sqlite3.DatabaseError(f"row {id_} has no topic or no time")
        self._found += 1
        of = self._topics.get(topic)
        if of is None:
            make = lambda: RawChannel(f"(topic {topic})", "", Schema("", "", b""), {}, "the bag does not define its topic")  # noqa: E731
            of = self._topics[topic] = self._log.channel(topic, make)
        if of.is_wanted:
            payload = data if isinstance(data, bytes) else str(data or "").encode()
            of.add(max(at_ns, 0), len(of.payloads) & 0xFFFFFFFF, payload)


_SELECT = "select id, topic_id, timestamp, data from messages where id >= ?"


def _row(file: sqlite3.Connection, at: int) -> tuple | None:
    """The first row from a number on: None if it cannot be read, empty without one."""
    try:
        row = file.execute(f"{_SELECT} order by id limit 1", (at,)).fetchone()
        return () if row is None else row if isinstance(row[1], int) and isinstance(row[2], int) else None
    except sqlite3.DatabaseError:
        return None


def _sound_row(file: sqlite3.Connection, damaged: int) -> int | None:
    """The first row behind damaged ones. Those of a page are consecutive: it is found by doubling and by halves."""
    steps = [damaged + (1 << bit) for bit in range(62)]
    sound = next((bit for bit, at in enumerate(steps) if _row(file, at) is not None), None)
    if sound is None:
        return None
    low, high = steps[sound - 1] if sound else damaged, steps[sound]
    while high - low > 1:
        at = (low + high) // 2
        low, high = (at, high) if _row(file, at) is None else (low, at)
    return high


class _Short(Exception):
    """A record is longer than what is left."""


def _fields(data: bytes) -> dict[str, bytes]:
    """The header of a record of ROS 1: lengths, names and values."""
    found, at = {}, 0
    while at + 4 <= len(data):
        (length,) = struct.unpack_from("<I", data, at)
        name, equals, value = data[at + 4 : at + 4 + length].partition(b"=")
        if not equals or at + 4 + length > len(data):
            raise _Short("the header of a record contradicts its length")
        found[name.decode(errors="replace")] = value
        at += 4 + length
    return found


def _rosbag_record(data: np.ndarray, at: int) -> tuple[dict[str, bytes], int, int]:
    """Header, begin and end of the content of a record."""

    def length(place: int) -> int:
        if place + 4 > len(data):
            raise _Short("the file ends within a record")
        return int.from_bytes(data[place : place + 4].tobytes(), "little")

    head = length(at)
    begin = at + 4 + head
    end = begin + 4 + length(begin)
    if end > len(data):
        raise _Short(f"the record at byte {at} claims {end - at} bytes, and {len(data) - at} are left")
    return _fields(data[at + 4 : begin].tobytes()), begin + 4, end


class _Rosbag:
    def __init__(self, path: Path, data: np.ndarray, wanted: set[str] | None, skips: bool):
        self._data, self._log = data, _Collected(path, wanted, skips)
        self._connections: dict[int, RawChannel] = {}
        self._chunks, self._stated = 0, None
        #: Whether the index is where the head of a closed bag says.
        self._is_closed = False
        #: Messages of each connection in the last chunk: the index behind it counts them, too.
        self._found: dict[int, int] = {}

    def read(self) -> RawLog:
        at, log = len(ROSBAG), self._log.log
        log.is_complete = True
        while at < len(self._data):
            try:
                fields, begin, end = _rosbag_record(self._data, at)
                if "op" not in fields:
                    # Such as zeros that a file system leaves where power failed.
                    raise _Short(f"the record at byte {at} is not one of a bag")
                self._take(fields, begin, end, at)
                at = end
            except _Short as why:
                log.is_complete = False
                self._found = {}
                after = self._next(at)
                if after == len(self._data) or not self._is_closed:
                    log.cut = log.cut or f"{why}: its writer was killed, or it was not copied whole"
                else:
                    self._log.damaged(str(why))
                at = after
        if self._stated is not None and not (self._is_closed or log.cut):
            log.is_complete, log.cut = False, "the bag has no index: its recorder was killed, or it was not copied whole"
        if self._stated and self._chunks != self._stated and not (log.damage or log.cut):
            self._log.damaged(f"{self._chunks} of {self._stated} chunks were found")
        return log

    def _next(self, at: int) -> int:
        """Where the next chunk or index begins after a damaged record."""
        for window in range(at + 1, len(self._data), 1 << 24):
            piece = self._data[window : window + (1 << 24) + 64].tobytes()
            for found in re.finditer(rb"\x04\0\0\0op=[\x04-\x07]", piece):
                # Fields of the header can be before its `op`.
                for place in range(found.start() - 4, max(found.start() - 128, -1), -1):
                    try:
                        if "op" in _rosbag_record(self._data, window + place)[0]:
                            return window + place
                    except _Short:
                        continue
        return len(self._data)

    def _take(self, fields: dict[str, bytes], begin: int, end: int, at: int) -> None:
        match fields.get("op", b"")[:1]:
            case b"\x03":
                if by := fields.get("encryptor", b"").decode(errors="replace"):
                    raise LogError(f"{self._log.log.path} is encrypted by {by}: `rosbag decrypt` makes one that can be read")
                self._stated = int.from_bytes(fields.get("chunk_count", b""), "little")
                # The index of a bag without connections has no bytes.
                end = len(self._data) + (fields.get("conn_count") == bytes(4))
                self._is_closed = 0 < int.from_bytes(fields.get("index_pos", b""), "little") < end
            case b"\x05":
                self._chunks += 1
                self._found = {}
                chunk, place = self._unpacked(fields, begin, end, at), 0
                try:
                    while place < len(chunk):
                        inner, content, after = _rosbag_record(chunk, place)
                        self._record(inner, chunk[content:after].tobytes(), at)
                        place = after
                except _Short as why:
                    self._log.damaged(f"in the chunk at byte {at}, {why}")
            case b"\x04" if "ver" in fields:
                self._compare(fields)
            case b"\x06" if "ver" in fields:
                pass
            case _:
                self._record(fields, self._data[begin:end].tobytes(), at)

    def _compare(self, index: dict[str, bytes]) -> None:
        id_, count = int.from_bytes(index.get("conn", b""), "little"), int.from_bytes(index.get("count", b""), "little")
        missing = count - self._found.get(id_, 0)
        if missing > 0:
            topic = self._connections[id_].topic if id_ in self._connections else f"(connection {id_})"
            if not self._log.log.damage:
                self._log.damaged(f"{missing} of {count} messages of {topic} in a chunk are missing")
            self._log.log.damaged[topic] = self._log.log.damaged.get(topic, 0) + missing

    def _unpacked(self, fields: dict[str, bytes], begin: int, end: int, at: int) -> np.ndarray:
        size, how = int.from_bytes(fields.get("size", b""), "little"), fields.get("compression", b"")
        data = self._data[begin:end]
        if how == b"none":
            return data
        if size > _MOST_CHUNK:
            raise LogError(f"{self._log.log.path}: the chunk at byte {at} claims {size} bytes; at most {_MOST_CHUNK} are read")
        try:
            if how == b"bz2":
                import bz2

                whole = bz2.BZ2Decompressor().decompress(data.tobytes(), size)
            elif how == b"lz4":
                import lz4.frame

                whole = lz4.frame.LZ4FrameDecompressor().decompress(data.tobytes(), max_length=size)
            else:
                raise ValueError(f"its compression {how[:32]!r} is not known; none, bz2 and lz4 are")
        except (OSError, RuntimeError, EOFError, ValueError) as why:
            self._log.damaged(f"the chunk at byte {at} cannot be decompressed: {why}")
            return np.empty(0, "u1")
        if len(whole) != size:
            self._log.damaged(f"the chunk at byte {at} has {len(whole)} bytes, and claims {size}")
        return np.frombuffer(whole, "u1")

    def _record(self, fields: dict[str, bytes], content: bytes, at: int) -> None:
        conn, time = fields.get("conn", b""), fields.get("time", b"")
        id_ = int.from_bytes(conn, "little")
        if fields.get("op") == b"\x07" and len(conn) == 4:
            about = _fields(content)
            topic = fields.get("topic", b"").decode(errors="replace")
            name = about.get("type", b"").decode(errors="replace")
            schema = Schema(name, "ros1msg", about.get("message_definition", b""))
            texts = {key: about[key].decode(errors="replace") for key in ("callerid", "latching") if key in about}
            of = self._connections[id_] = self._log.channel(id_, lambda: RawChannel(topic, "ros1", schema, texts))
            if of.why:
                # Its definition was damaged, and is repeated at the end.
                self._log.define(of, topic, "ros1", schema, texts)
        elif fields.get("op") == b"\x02" and len(conn) == 4 and len(time) == 8:
            seconds, ns = struct.unpack("<II", time)
            self._found[id_] = self._found.get(id_, 0) + 1
            make = lambda: RawChannel(f"(connection {id_})", "", Schema("", "", b""), {}, "the bag does not define it")  # noqa: E731
            of = self._connections.get(id_) or self._log.channel(id_, make)
            if of.is_wanted or of.why:
                of.add(seconds * 1_000_000_000 + ns, len(of.payloads) & 0xFFFFFFFF, content)
        else:
            self._log.damaged(f"the record at byte {at}, or one in that chunk, is not one of a bag")


def rosbag(path: Path, data: np.ndarray, wanted: set[str] | None, skips: bool) -> RawLog:
    """Reads a bag of ROS 1, version 2.0."""
    return _Rosbag(path, data, wanted, skips).read()


def lcm(path: Path, data: np.ndarray, wanted: set[str] | None, skips: bool) -> RawLog:
    """Reads a log of LCM. Its payloads are bytes: a log has no definitions."""
    log, at = _Collected(path, wanted, skips), 0
    bytes_ = memoryview(data)
    log.log.is_complete = True
    while at < len(data):
        head = bytes(bytes_[at : at + 28])
        sound = head[:4] == LCM and len(head) == 28
        if sound:
            number, at_us, name, size = struct.unpack(">QQII", head[4:])
            end = at + 28 + name + size
            sound = name <= 1024 and size <= _MOST_CHUNK and end <= len(data)
            is_long = end > len(data) and name <= 1024 and size <= _MOST_CHUNK
            if is_long and _find(bytes_, LCM, at + 1) == len(data):
                log.log.is_complete = False
                log.log.cut = f"the file ends within the event at byte {at}"
                break
        if not sound:
            if len(head) < 28 and head.startswith(LCM[: len(head)]):
                log.log.is_complete, log.log.cut = False, f"the file ends within the event at byte {at}"
                break
            after = _find(bytes_, LCM, at + 1)
            log.damaged(f"bytes {at} to {after} are not an event of LCM")
            at = after
            continue
        topic = bytes(bytes_[at + 28 : at + 28 + name]).decode(errors="replace")
        make = lambda t=topic: RawChannel(  # noqa: E731
            t, "lcm", Schema("", "", b""), {}, "an LCM log has no definitions; `onbeat message convert --file TYPES.lcm` adds them"
        )
        of = log.channel(topic, make)
        if of.is_wanted:
            of.add(at_us * 1000 if at_us < 1 << 53 else 0, number & 0xFFFFFFFF, bytes(bytes_[at + 28 + name : end]))
        at = end
    return log.log


def _find(data: memoryview, what: bytes, begin: int) -> int:
    window = 1 << 20
    for at in range(begin, len(data), window):
        found = bytes(data[at : at + window + len(what)]).find(what)
        if found >= 0:
            return at + found
    return len(data)
