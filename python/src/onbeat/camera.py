"""Pictures of a running camera, as numpy arrays without a copy. include/onbeat_frames.h specifies the memory.

    import onbeat.camera

    with onbeat.camera.open("left") as left:
        frame = left.newest(timeout=1.0)
        use(frame.pixels)               # height x width x channels, uint8, a view of shared memory
        if not frame.is_valid():        # the camera has overwritten it meanwhile
            ...

No lock is held and no thread is started. A ring of four slots keeps a picture for two further ones; `frame.copy()` returns an
array of its own, and whether it is whole. A camera that continues with another size, or was started again, is followed.
"""

import json
import mmap
import os
import re
import sys
import time
from pathlib import Path

import numpy as np

from . import runtime_dir
from .errors import OnbeatError

_MAGIC = int.from_bytes(b"ONBEATFR", "little")
_VERSION = 1
_HEADER_BYTES = 1024
_MOST_BYTES, _BLOCK_BYTES, _MOST_SIDE = 1536 << 20, 512, 16384
_STAMPS_AT, _STAMP_WORDS, _ALIGN = 4096, 16, 2 << 20
#: Words of the header.
_STATE, _FIRST, _NEWEST, _DROPPED, _RECONNECTIONS, _STATUS = 5, 18, 40, 48, 49, 64
_COLUMNS, _ROWS, _DECODED = 1, 2, 3
_LOOK_EVERY, _CHECK_EVERY = 0.0005, 0.1
_PID_BITS = 22


class CameraError(OnbeatError):
    """A camera cannot be opened or read."""

    code = "onbeat:camera"


class NoCamera(CameraError):
    """The camera does not run."""

    code = "onbeat:camera:no_camera"


class CameraEnded(CameraError):
    """The camera has ended or was killed, and its newest picture was taken."""

    code = "onbeat:camera:ended"


def open(name: str) -> "Camera":  # noqa: A001 (as onbeat.ring.open)
    """Opens a camera; the first picture is the newest one there is."""
    return Camera(name)


class Frame:
    """A picture in shared memory: `pixels` is a view, of height x width x channels, or height x width if gray.

    With `--layout decoded` it has one dimension: I420. Times are of CLOCK_MONOTONIC, in ns. `passed_over` is the number of frames
    between the one taken before and this one.
    """

    def __init__(self, pixels, stamp, sequence, passed_over):
        self.pixels: np.ndarray = pixels
        self.number = int(stamp[1])
        self.capture_ns = int(stamp[2])
        self.received_ns = int(stamp[3])
        self.decoded_ns = int(stamp[4])
        self.published_ns = int(stamp[5])
        self.source_ns = int(stamp[6])
        self.dropped_before = int(stamp[8])
        self.passed_over: int = passed_over
        self._sequence = sequence

    def is_valid(self) -> bool:
        """Whether the memory still holds this picture."""
        return int(self._sequence[0]) == 2 * self.number

    def copy(self) -> tuple[np.ndarray, bool]:
        """Returns a copy, and whether the picture was whole when it was complete."""
        copied = self.pixels.copy(order="K")
        return copied, self.is_valid()


def _frame_bytes(head: list[int]) -> int:
    width, height, channels, layout = head[10:14]
    if layout == _DECODED and channels == 3:
        return width * height + 2 * ((width + 1) // 2) * ((height + 1) // 2)
    return width * height * channels


def _is_consistent(head: list[int]) -> bool:
    """Checks the sizes in a header against each other."""
    width, height, channels, layout = head[10:14]
    if not (1 <= width <= _MOST_SIDE and 1 <= height <= _MOST_SIDE and 4 <= head[6] <= 64):
        return False
    if channels not in (1, 3) or layout not in (_COLUMNS, _ROWS, _DECODED):
        return False
    slot_bytes = (_frame_bytes(head) + _ALIGN - 1) // _ALIGN * _ALIGN
    right = [_ALIGN + head[6] * slot_bytes, slot_bytes, _ALIGN, _STAMPS_AT, _frame_bytes(head)]
    return [head[2], head[7], head[8], head[9], head[14]] == right and head[2] <= _MOST_BYTES and head[17] <= 3072


class Camera:
    """The reading end of a camera."""

    def __init__(self, name: str):
        if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}", name):
            raise CameraError(f"{name!r} is not the name of a camera")
        self.name = name
        self._last = 0
        self._received = self._passed_over = 0
        self._open()

    def _open(self) -> None:
        file, path = self._find()
        try:
            raw = os.pread(file, _HEADER_BYTES, 0)
            if len(raw) < _HEADER_BYTES or not any(raw[:8]):
                raise CameraError(f"camera {self.name} is starting; open it again in a moment")
            if int.from_bytes(raw[:8], sys.byteorder) != _MAGIC:
                raise CameraError(f"{path} does not hold the pictures of a camera")
            # The magic number is written last: what is read after it has been seen is complete.
            head = [int(word) for word in np.frombuffer(os.pread(file, _HEADER_BYTES, 0), dtype="u8")]
            if head[1] != _VERSION:
                raise CameraError(f"the pictures of {self.name} have version {head[1]}, this package reads {_VERSION}")
            found = os.fstat(file)
            held = min(found.st_size, found.st_blocks * _BLOCK_BYTES)
            if not _is_consistent(head) or held < head[2]:
                raise CameraError(f"{path} does not hold the pictures of a camera: its sizes contradict each other")
            memory = mmap.mmap(file, head[2], access=mmap.ACCESS_READ)
        finally:
            os.close(file)
        self._head = head
        self._words = np.frombuffer(memory, dtype="u8", count=_ALIGN // 8)
        self._bytes = np.frombuffer(memory, dtype="u1")
        self._last = max(int(self._words[_NEWEST]) - 1, int(self._words[_FIRST]), self._last)
        text = bytes(self._bytes[1024 : 1024 + head[17]]).decode(errors="replace")
        #: The camera's text about its source.
        self.description: dict = json.loads(text) if text.startswith("{") else {}

    def _find(self) -> tuple[int, Path]:
        name = f"{self.name}.frames"
        with runtime_dir.existing() as directories:
            for directory in directories:
                try:
                    return directory.open_file(name, _MOST_BYTES), directory.path / name
                except FileNotFoundError:
                    continue
        start = f"onbeat camera run SOURCE --name {self.name}"
        raise NoCamera(f"camera {self.name} is not running; start it with: {start}")

    def __enter__(self) -> "Camera":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Forgets the memory. Views that were returned keep it as long as they exist."""
        self._words = self._bytes = None

    def _word(self, place: int) -> int:
        if self._words is None:
            raise CameraError(f"camera {self.name} is closed; open it again")
        return int(self._words[place])

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the pictures."""
        width, height, channels, layout = self._head[10:14]
        if layout == _DECODED:
            return (self._head[14],)
        return (height, width) if channels == 1 else (height, width, channels)

    def has_new(self) -> bool:
        """Whether a picture can be taken at once."""
        return self._word(_NEWEST) > self._last

    def newest(self, timeout: float = 0.0) -> Frame | None:
        """Takes the newest picture if it is new; `None` after `timeout` seconds. Raises `CameraEnded`."""
        return self._take(timeout, in_order=False)

    def next(self, timeout: float = 0.0) -> Frame | None:
        """Takes the next picture in order; those overwritten before are counted in `passed_over`."""
        return self._take(timeout, in_order=True)

    def stats(self) -> dict[str, int]:
        """Returns how many frames were taken and passed over, how many were dropped before publication, and reconnections."""
        return {
            "received": self._received,
            "passed_over": self._passed_over,
            "dropped": self._word(_DROPPED),
            "reconnections": self._word(_RECONNECTIONS),
        }

    def status(self) -> str:
        """Returns why no pictures come, in one sentence; empty if they do."""
        for _ in range(3):
            before = self._word(_STATUS)
            length = min(self._word(_STATUS + 1), 496)
            text = bytes(self._bytes[528 : 528 + length]).decode(errors="replace")
            if before % 2 == 0 and self._word(_STATUS) == before:
                return text
        return ""

    def _take(self, timeout: float, *, in_order: bool) -> Frame | None:
        self._wait(timeout)
        newest, slots = self._word(_NEWEST), self._head[6]
        if newest <= self._last:
            return None
        oldest = max(newest + 1 - (slots - 2), self._word(_FIRST) + 1)
        number = max(self._last + 1, oldest) if in_order else newest
        at = _STAMPS_AT // 8 + number % slots * _STAMP_WORDS
        stamp = self._words[at : at + 9].copy()
        sequence = self._words[at : at + 1]
        if int(stamp[0]) != 2 * number or int(sequence[0]) != 2 * number:
            return None
        begin = self._head[8] + number % slots * self._head[7]
        passed_over = number - self._last - 1
        self._last = number
        self._received += 1
        self._passed_over += passed_over
        return Frame(self._shaped(self._bytes[begin : begin + self._head[14]]), stamp, sequence, passed_over)

    def _shaped(self, pixels: np.ndarray) -> np.ndarray:
        width, height, channels, layout = self._head[10:14]
        if layout == _COLUMNS:
            planes = pixels.reshape(channels, width, height)
            return planes[0].T if channels == 1 else planes.transpose(2, 1, 0)
        return pixels.reshape(self.shape)

    def _wait(self, timeout: float) -> None:
        end = time.monotonic() + timeout
        check = time.monotonic() + _CHECK_EVERY
        while not self.has_new():
            now = time.monotonic()
            if now >= check or timeout <= 0:
                self._check_alive()
                check = now + _CHECK_EVERY
            if now >= end:
                return
            time.sleep(min(_LOOK_EVERY, max(end - now, 0)))

    def _check_alive(self) -> None:
        state, writer = self._word(_STATE), self._head[4]
        if state == 3:
            self._open()
            return
        pid = writer & ((1 << _PID_BITS) - 1)
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            is_alive = fields[0] not in "ZXx" and int(fields[19]) == writer >> _PID_BITS
        except (OSError, IndexError, ValueError):
            is_alive = False
        if (state == 1 and is_alive) or self.has_new():
            return
        try:
            self._open()
        except CameraError:
            pass
        else:
            # Another process is this camera now.
            if self._head[4] != writer:
                self._last = self._word(_FIRST)
                return
        has_ended = f"camera {self.name} has ended" if state == 2 else f"camera {self.name}, process {pid}, is gone"
        raise CameraEnded(has_ended)
