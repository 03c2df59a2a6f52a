"""Reads channels: records that robots and buses publish in shared memory. include/onbeat_ring.h specifies the memory.

    import onbeat.ring

    with onbeat.ring.open("walker/cycle") as cycles:
        batch = cycles.drain(timeout=1.0)
        batch["actual_rad"]         # cycles x joints, rad
        batch.at_ns                 # release of each cycle, CLOCK_MONOTONIC

The writer is never delayed, and no thread is started. A reader that falls behind further than the ring is long
counts what it lost: `stats()["lost"]`.
"""

import json
import mmap
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from . import runtime_dir
from .definition import Layout, parse, texts_of
from .errors import OnbeatError
from .runtime_dir import Refused

_MAGIC = int.from_bytes(b"ONBEATRG", "little")
_VERSION = 1
#: Words of the header.
_STATE, _WRITTEN = 5, 40
_HEADER_BYTES = 384
#: Maximum length of a schema and of a description, of a ring, and unit of the allocated size of a file, in bytes.
_MOST_TEXT, _MOST_BYTES, _BLOCK_BYTES = 16 << 20, 1536 << 20, 512
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}:[A-Za-z0-9_.-]{1,64}")
#: Words of a slot before its payload: sequence, time, length.
_HEAD_WORDS = 3
#: A writer of a billion records a second reaches it after a century.
_MOST_RECORDS = 1 << 62
#: Interval between two looks at an empty ring, and between two checks of its writer, in s.
_LOOK_EVERY, _CHECK_EVERY = 0.0005, 0.1
_PID_BITS = 22
#: Data types of numbers without a sign: BOOLEAN, UNSIGNED8 to UNSIGNED64, BYTE to DWORD, and arrays of bits (ETG.1020).
_UNSIGNED = {0x01, 0x05, 0x06, 0x07, *range(0x16, 0x21), *range(0x2D, 0x40)}


class RingError(OnbeatError):
    """A channel cannot be opened or read."""

    code = "onbeat:ring"


class NoChannel(RingError):
    """The channel does not exist."""

    code = "onbeat:ring:no_channel"


class WriterEnded(RingError):
    """The writer has ended, was killed, or was replaced, and everything it had published was read."""

    code = "onbeat:ring:ended"


def channels() -> list[str]:
    """Returns the names of all channels of this user and of root, such as `walker/cycle`.

    Raises `onbeat.runtime_dir.Refused` if a directory of shared objects cannot be trusted.
    """
    found = set()
    with runtime_dir.existing() as directories:
        for directory in directories:
            for name in filter(_NAME.fullmatch, directory.names()):
                try:
                    os.close(directory.open_file(name, _MOST_BYTES))
                except (Refused, FileNotFoundError):
                    continue
                found.add(name.replace(":", "/"))
    return sorted(found)


def open(channel: str, start: str = "newest") -> "Reader":  # noqa: A001 (as onbeat.ring.open)
    """Opens a channel. `start` is `newest`, for records from now on, or `oldest`, for those that are kept."""
    return Reader(channel, start)


class Batch:
    """Consecutive records as numpy arrays: `batch["field"]` has a row for each record.

    `numbers` are the numbers of the records, `at_ns` their times (CLOCK_MONOTONIC, ns), `lost` the number of records
    that were lost before the first one.
    """

    def __init__(self, numbers, at_ns, records, lost, description):
        self.numbers: np.ndarray = numbers
        self.at_ns: np.ndarray = at_ns
        self.records: np.ndarray = records
        self.lost: int = lost
        self.description: dict = description

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, field: str) -> np.ndarray:
        if field not in (self.records.dtype.names or ()):
            names = ", ".join(self.records.dtype.names or ["none"])
            raise KeyError(f"the message has no field {field!r}; it has {names}")
        return texts_of(self.records[field], self.records.dtype[field])

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields."""
        return self.records.dtype.names or ()

    def joint(self, name: str) -> int:
        """Returns the column of a joint in `target_rad` and the other arrays of joints."""
        names = [joint["name"] for joint in self.description.get("joints", [])]
        if name not in names:
            raise KeyError(f"the robot has no joint {name!r}; it has {', '.join(names)}")
        return names.index(name)

    def value(self, device: str, index: int, entry: int = 0, part: str = "inputs") -> np.ndarray:
        """Returns a value of the process image, such as `value("left knee", 0x6064)`: one number per record.

        `part` is `inputs` or `outputs`. Numbers are of the value's data type; those of an unknown one have a sign. A value of one
        bit is 0 or 1.
        """
        found = [
            value
            for value in self.description.get(part, [])
            if (value["device"], value["index"], value["entry"]) == (device, index, entry)
        ]
        if not found:
            raise KeyError(f"the {part} have no value {index:04x}:{entry} of {device!r}")
        whole = _bits(self[part], found[0]["bit_at"], found[0]["bits"])
        return _typed(whole, found[0].get("type", 0), found[0]["bits"])


def _bits(image: np.ndarray, at: int, bits: int) -> np.ndarray:
    """Takes `bits` bits of each row, at most 64, with a sign if there is more than one."""
    bits = min(bits, 64)
    bytes_ = image[:, at // 8 : (at + bits + 7) // 8]
    taken = np.unpackbits(bytes_.astype("u1"), axis=1, bitorder="little")[:, at % 8 : at % 8 + bits]
    whole = np.zeros((len(image), 64), "u1")
    whole[:, :bits] = taken
    if bits > 1:
        whole[:, bits:] = taken[:, -1:]
    return np.packbits(whole, axis=1, bitorder="little").view("<i8")[:, 0]


def _typed(whole: np.ndarray, kind: int, bits: int) -> np.ndarray:
    """Reads numbers with a sign as those of a data type (ETG.1020), 0 for an unknown one."""
    if (kind, bits) == (0x08, 32):
        return whole.astype("<u4").view("<f4")
    if (kind, bits) == (0x11, 64):
        return whole.view("<f8")
    if kind not in _UNSIGNED or bits > 64:
        return whole
    return whole.view("<u8") if bits == 64 else whole & ((1 << bits) - 1)


def _is_consistent(head: list[int]) -> bool:
    """Checks the sizes in a header against each other."""
    total, slots, slot_bytes, slots_at = head[2], head[6], head[7], head[8]
    schema_bytes, description_at, description_bytes = head[9], head[10], head[11]
    if total > _MOST_BYTES or max(schema_bytes, description_bytes) > _MOST_TEXT:
        return False
    if slots < 2 or slots & (slots - 1) or slot_bytes < 64 or slot_bytes % 64:
        return False
    is_in_order = description_at == _HEADER_BYTES + _whole_lines(schema_bytes)
    return (
        is_in_order
        and slots_at == description_at + _whole_lines(description_bytes)
        and total == slots_at + slots * slot_bytes
    )


def _whole_lines(length: int) -> int:
    return (length + 63) // 64 * 64


def _description(text: str, path: Path) -> dict:
    try:
        return json.loads(text) if text else {}
    except ValueError:
        raise RingError(f"{path} is not a ring of onbeat: its description is not valid JSON") from None


class _Plain:
    """The layout of records without a type."""

    def __init__(self, length: int):
        self.bytes = length
        self.dtype = np.dtype([("payload", "u1", (length,))])

    def fits(self, messages: np.ndarray) -> np.ndarray:
        return np.ones(len(messages), bool)


class Reader:
    """The reading end of a channel. Records of a channel without a type have the field `payload`, their bytes."""

    def __init__(self, channel: str, start: str = "newest"):
        if not re.fullmatch(r"[\w.-]{1,64}/[\w.-]{1,64}", channel, flags=re.ASCII):
            raise RingError(f"{channel!r} is not the name of a channel; write NAME/TOPIC")
        if start not in ("newest", "oldest"):
            raise ValueError(f"start is {start!r}; use 'newest' or 'oldest'")
        self.channel = channel
        self._map(*self._find())
        self._received = 0
        self._lost = 0
        self._layout: Layout | _Plain | None = None
        newest = self._newest()
        self._next = newest + 1 if start == "newest" else max(newest - (self._slots - 2), 1)

    def _find(self) -> tuple[int, Path]:
        """Opens the file of the channel in the first directory that has one."""
        name = self.channel.replace("/", ":")
        with runtime_dir.existing() as directories:
            for directory in directories:
                try:
                    return directory.open_file(name, _MOST_BYTES), directory.path / name
                except FileNotFoundError:
                    continue
        others = ", ".join(channels()) or "none"
        raise NoChannel(f"channel {self.channel} does not exist; there are: {others}")

    def _map(self, file: int, path: Path) -> None:
        try:
            raw = os.pread(file, _HEADER_BYTES, 0)
            if len(raw) < _HEADER_BYTES or not any(raw[:8]):
                raise RingError(f"the ring of {self.channel} is not complete; open it again in a moment")
            if int.from_bytes(raw[:8], sys.byteorder) != _MAGIC:
                raise RingError(f"{path} is not a ring of onbeat: it begins with other bytes")
            # The magic number is written last: what is read after it has been seen is complete.
            head = [int(word) for word in np.frombuffer(os.pread(file, _HEADER_BYTES, 0), dtype="u8")]
            if head[1] != _VERSION:
                raise RingError(f"the ring of {self.channel} has version {head[1]}, this package reads {_VERSION}")
            if not _is_consistent(head):
                raise RingError(f"{path} is not a ring of onbeat: the sizes in its header contradict each other")
            found = os.fstat(file)
            held = min(found.st_size, found.st_blocks * _BLOCK_BYTES)
            if held < head[2]:
                sizes = f"its header states {head[2]} bytes, and {held} are allocated"
                raise RingError(f"{path} is not a complete ring: {sizes}")
            self._memory = mmap.mmap(file, head[2], access=mmap.ACCESS_READ)
        finally:
            os.close(file)
        self._bytes = head[2]
        self._words = np.frombuffer(self._memory, dtype="u8", count=head[2] // 8)
        self._writer = head[4]
        self._slots, slot_bytes, slots_at = head[6], head[7], head[8]
        slots = self._words[slots_at // 8 : slots_at // 8 + self._slots * slot_bytes // 8]
        self._ring = slots.reshape(self._slots, slot_bytes // 8)
        raw = bytes(self._memory[160:320])
        #: Name of the type, such as `onbeat_msgs/msg/Cycle`.
        self.type = raw.split(b"\0")[0].decode(errors="replace")
        #: Hash of the type, as ROS 2 writes it.
        self.hash = "RIHS01_" + bytes(self._memory[128:160]).hex()
        #: Definition of the type.
        self.schema = bytes(self._memory[_HEADER_BYTES : _HEADER_BYTES + head[9]]).decode(errors="replace")
        text = bytes(self._memory[head[10] : head[10] + head[11]]).decode(errors="replace")
        #: The writer's text about this channel: joints, devices, values.
        self.description: dict = _description(text, path)
        self._types = parse(self.type, self.schema)

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Forgets the memory. Arrays that were returned are copies and stay valid."""
        self._words = self._ring = None
        self._memory.close()

    def _newest(self) -> int:
        """Returns the number of the newest record."""
        if self._words is None:
            raise RingError(f"the reader of {self.channel} is closed; open the channel again")
        newest = int(self._words[_WRITTEN])
        if newest > _MOST_RECORDS:
            raise RingError(f"the ring of {self.channel} states {newest} records, more than can have been written")
        return newest

    @property
    def pending(self) -> int:
        """Number of records published and not yet read."""
        return max(self._newest() + 1 - self._next, 0)

    def has_new(self) -> bool:
        """Whether a record can be read at once."""
        return self.pending > 0

    def stats(self) -> dict[str, int]:
        """Returns how many records were received and lost by this reader, and how many are pending."""
        return {"received": self._received, "lost": self._lost, "pending": self.pending}

    def drain(self, timeout: float = 0.0, most: int | None = None) -> Batch:
        """Returns all records since the last call, at most `most`.

        Waits up to `timeout` seconds for the first one; 0 never waits. The batch is empty after the timeout. Raises
        `WriterEnded` when the writer has ended and everything was read.
        """
        if most is not None and most < 0:
            raise ValueError(f"most is {most}; use None for all records")
        self._wait(timeout)
        return self._take(self._slots if most is None else most)

    def next(self, timeout: float = 0.0) -> np.void | None:
        """Returns the next record; `None` after `timeout` seconds. `record["field"]` is the value of a field."""
        self._wait(timeout)
        batch = self._take(1)
        return batch.records[0] if len(batch) else None

    def latest(self) -> np.void | None:
        """Returns the newest record, and passes over those before it without counting them as lost; `None` if there is no new one.

        Raises `WriterEnded` as `next` does.
        """
        self._wait(0.0)
        self._next = max(self._next, self._newest())
        batch = self._take(1)
        return batch.records[0] if len(batch) else None

    def batches(self, timeout: float = 1.0) -> Iterator[Batch]:
        """Yields batches until the writer has ended, or nothing came for `timeout` seconds."""
        while True:
            try:
                batch = self.drain(timeout)
            except WriterEnded:
                return
            if not len(batch):
                return
            yield batch

    def _wait(self, timeout: float) -> None:
        end = time.monotonic() + timeout
        check = time.monotonic() + _CHECK_EVERY
        while not self.pending:
            now = time.monotonic()
            if now >= check or timeout <= 0:
                self._check_alive()
                check = now + _CHECK_EVERY
            if now >= end:
                return
            time.sleep(min(_LOOK_EVERY, max(end - now, 0)))

    def _check_alive(self) -> None:
        if (left := self._memory.size()) < self._bytes:
            sizes = f"{left} of its {self._bytes} bytes are left, and no record can be read"
            raise RingError(f"the ring of {self.channel} was truncated: {sizes}; start its writer again")
        state = int(self._words[_STATE])
        if self.pending:
            return
        if state == 2:
            raise WriterEnded(f"the writer of {self.channel} has ended")
        if state == 3:
            raise WriterEnded(f"the writer of {self.channel} was replaced; open the channel again")
        pid = self._writer & ((1 << _PID_BITS) - 1)
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            is_alive = fields[0] not in "ZXx" and int(fields[19]) == self._writer >> _PID_BITS
        except (OSError, IndexError, ValueError):
            is_alive = False
        # It may have ended in order in between.
        if not is_alive and int(self._words[_STATE]) == state and not self.pending:
            raise WriterEnded(f"the writer of {self.channel}, process {pid}, is gone; start it again")

    def _take(self, most: int) -> Batch:
        """Copies records, then drops, as lost, those that the writer has overwritten in the meantime."""
        lost = 0
        while True:
            newest = self._newest()
            behind = newest - self._next
            if behind >= self._slots - 1:
                lost += self._skip_to(newest)
                continue
            last = min(newest, self._next + most - 1)
            numbers = np.arange(self._next, last + 1, dtype="u8")
            copied, overwritten = self._copy(numbers)
            if overwritten == len(numbers) > 0:
                lost += self._skip_to(self._newest())
                continue
            self._next = last + 1
            self._lost += overwritten
            self._received += len(numbers) - overwritten
            return self._batch(numbers[overwritten:], copied[overwritten:], lost + overwritten)

    def _skip_to(self, newest: int) -> int:
        oldest = max(newest - (self._slots - 2), 1) + self._slots // 8
        first = max(oldest, self._next + 1)
        lost = first - self._next
        self._lost += lost
        self._next = first
        return lost

    def _copy(self, numbers: np.ndarray) -> tuple[np.ndarray, int]:
        """Returns a copy of the slots of consecutive records, and how many of them, the first ones, are overwritten.

        The order of these loads is that of the program on x86-64, where loads are not reordered with each other.
        """
        if len(numbers) == 0:
            return self._ring[:0].copy(), 0
        first = int(numbers[0]) % self._slots
        until_end = min(len(numbers), self._slots - first)
        parts = [self._ring[first : first + until_end], self._ring[: len(numbers) - until_end]]
        before = np.concatenate([part[:, 0] for part in parts])
        copied = np.concatenate(parts)
        after = np.concatenate([part[:, 0] for part in parts])
        wanted = numbers * np.uint64(2)
        wrong = np.flatnonzero((before != wanted) | (after != wanted))
        return copied, int(wrong[-1]) + 1 if len(wrong) else 0

    def _batch(self, numbers: np.ndarray, copied: np.ndarray, lost: int) -> Batch:
        if len(numbers) == 0:
            dtype = self._layout.dtype if self._layout else np.dtype([])
            return Batch(numbers, copied[:, 1], np.empty(0, dtype), lost, self.description)
        length = int(copied[0, 2])
        payload = copied[:, _HEAD_WORDS:].view("u1")
        if length > payload.shape[1]:
            raise RingError(f"a record of {self.channel} states {length} bytes, and a slot has {payload.shape[1]}")
        if self._layout is None or length != self._layout.bytes or not self._layout.fits(payload[:1]).all():
            self._layout = Layout(self._types, self.type, payload[0, :length].tobytes()) if self.type else _Plain(length)
        same = (copied[:, 2] == length) & self._layout.fits(payload)
        if not same.all():
            # Records of other lengths begin the next batch.
            kept = int(np.argmin(same))
            self._next -= len(numbers) - kept
            self._received -= len(numbers) - kept
            numbers, copied, payload = numbers[:kept], copied[:kept], payload[:kept]
        rows = np.ascontiguousarray(payload[:, :length])
        records = rows.view(self._layout.dtype).reshape(len(rows)) if length else np.empty(len(rows), self._layout.dtype)
        return Batch(numbers, copied[:, 1].copy(), records, lost, self.description)
