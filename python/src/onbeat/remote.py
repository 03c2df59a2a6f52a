"""One object for a robot, on this computer or on another one.

    import onbeat

    r = onbeat.connect("robot.local", key="robot.key")      # or onbeat.connect("walker"), on this computer
    r.command({"left knee": 0.3})                           # rad, valid for 0.25 s
    batch = r.drain(timeout=1.0)                            # all cycles since the last call

On the robot's computer: `onbeat message key robot.key`, then `onbeat message command walker --from tcp://0.0.0.0:7791 --key
robot.key`. Without a key, a robot of another computer can be read. docs/remote.md specifies the bytes. No thread is started.
"""

import hashlib
import hmac
import json
import os
import re
import secrets
import select
import socket
import struct
import time
import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType

import numpy as np

from . import ring
from .definition import Layout, parse
from .ring import Batch
from .robot import CommandError, Commander, NotFollowedWarning

#: Where a robot listens unless it is told otherwise; its channels are on the next port.
PORT = 7791
_MAGIC = b"onbeat remote 1\n"
_TAG, _HEAD = 16, 9
_PING, _COMMAND, _LEAVE = 1, 2, 3
_WELCOME, _PONG, _ANSWER, _NOTICE = 1, 2, 3, 4
_TOO_LATE = 1
#: Longest frame that a robot may send, and longest message of a channel, in bytes.
_MOST_FRAME, _MOST_MESSAGE = 2 << 20, 1 << 24
#: Intervals between two comparisons of the clocks: beside commands, and before one.
_COMPARE_EVERY_NS, _COMPARE_BEFORE_NS = 1_000_000_000, 10_000_000_000
#: Without an answer for longer, the robot is not reached, in ns.
_ANSWERED_WITHIN_NS = 1_000_000_000
#: Records that may wait here, not yet read.
_MOST_WAITING = 1 << 16


def _mac(key: bytes, content: bytes) -> bytes:
    return hmac.new(key, content, hashlib.sha256).digest()


def _has_bytes(of: socket.socket, timeout: float) -> bool:
    """Waits until something can be read. `select.select` takes no descriptor from 1024 on."""
    poll = select.poll()
    poll.register(of, select.POLLIN)
    return bool(poll.poll(max(timeout, 0) * 1e3))


def _key_of(key: str | os.PathLike | None) -> bytes | None:
    if key is None:
        return None
    try:
        found = bytes.fromhex(Path(key).read_text().strip())
    except (OSError, ValueError) as why:
        raise CommandError(f"cannot read the key {key}: {why}") from None
    if len(found) != 32:
        raise CommandError(f"the key {key} does not have 64 hexadecimal digits; `onbeat message key FILE` creates one")
    return found


class _Link:
    """An authenticated connection: frames to a robot and from it."""

    def __init__(self, host: str, port: int, key: bytes | None, timeout: float):
        self.robot = f"{host}:{port}"
        try:
            self._socket = socket.create_connection((host, port), timeout)
        except OSError as why:
            raise CommandError(
                f"cannot connect to {self.robot}: {why}; on the robot's computer runs"
                f" `onbeat message command NAME --from tcp://ADDRESS:{port}`"
            ) from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._timeout = timeout
        self._bytes = b""
        nonce = secrets.token_bytes(32)
        self.asked_ns = time.monotonic_ns()
        self._socket.sendall(_MAGIC + nonce + bytes([key is not None]))
        greeting = self._exactly(len(_MAGIC) + 32)
        if not greeting.startswith(_MAGIC):
            raise CommandError(f"{self.robot} does not speak the protocol of onbeat, or another version of it")
        session = _mac(key or b"", b"onbeat remote 1 session" + nonce + greeting[len(_MAGIC) :])
        self._to_robot = _mac(session, b"to the robot")
        self._from_robot = _mac(session, b"from the robot")
        self._sent = self._received = 0
        self._has_key = key is not None

    def _exactly(self, count: int) -> bytes:
        while len(self._bytes) < count:
            self._fill(self._timeout)
        taken, self._bytes = self._bytes[:count], self._bytes[count:]
        return taken

    def _fill(self, timeout: float) -> bool:
        """Reads what has arrived; False after the timeout."""
        if not _has_bytes(self._socket, timeout):
            if timeout >= self._timeout:
                raise CommandError(f"{self.robot} does not answer within {self._timeout:g} s")
            return False
        try:
            read = self._socket.recv(1 << 16)
        except OSError as why:
            raise CommandError(f"the connection to {self.robot} has ended: {why}") from None
        if not read:
            raise CommandError(f"{self.robot} has ended the connection")
        self._bytes += read
        return True

    def _frame(self) -> tuple[int, bytes] | None:
        if len(self._bytes) < 4:
            return None
        length = int.from_bytes(self._bytes[:4], "little")
        if not _HEAD + _TAG <= length <= _MOST_FRAME:
            raise CommandError(f"{self.robot} sends a frame of {length} bytes, which is not of this protocol")
        if len(self._bytes) < 4 + length:
            return None
        content, tag = self._bytes[4 : 4 + length - _TAG], self._bytes[4 + length - _TAG : 4 + length]
        self._bytes = self._bytes[4 + length :]
        if not hmac.compare_digest(_mac(self._from_robot, content)[:_TAG], tag):
            key = "does not have this key" if self._has_key else "is changed on its way"
            raise CommandError(f"{self.robot} {key}: a frame of it is not authentic")
        self._received += 1
        if int.from_bytes(content[1:_HEAD], "little") != self._received:
            raise CommandError(f"a frame of {self.robot} is missing or replayed")
        return content[0], content[_HEAD:]

    def frame(self, timeout: float) -> tuple[int, bytes] | None:
        """Returns the next frame; None after the timeout, 0 never waits."""
        end = time.monotonic() + timeout
        while (found := self._frame()) is None:
            if not self._fill(min(end - time.monotonic(), self._timeout / 2)) and time.monotonic() >= end:
                return None
        return found

    def send(self, kind: int, payload: bytes) -> int:
        """Sends a frame; returns its number."""
        self._sent += 1
        content = struct.pack("<BQ", kind, self._sent) + payload
        frame = struct.pack("<I", len(content) + _TAG) + content + _mac(self._to_robot, content)[:_TAG]
        try:
            self._socket.sendall(frame)
        except OSError as why:
            raise CommandError(f"{self.robot} is not reached any more: {why}") from None
        return self._sent

    def close(self) -> None:
        self._socket.close()


class RemoteCommander:
    """As `onbeat.robot.Commander`, for a robot of another computer."""

    def __init__(self, host: str, port: int, key: bytes | None, lifetime: float, timeout: float):
        self._link = _Link(host, port, key, timeout)
        found = self._link.frame(timeout)
        if found is None or found[0] != _WELCOME:
            raise CommandError(f"{self._link.robot} does not answer within {timeout:g} s")
        now = time.monotonic_ns()
        #: The robot's clock and ours at one instant, and how far apart the two can be.
        self._clocks = (int.from_bytes(found[1][:8], "little"), now, now - self._link.asked_ns)
        self.described: dict = json.loads(found[1][8:])
        self.name: str = self.described["robot"]
        self.joints: dict[str, dict[str, float]] = {}
        self._places: dict[str, int] = {}
        for place, joint in enumerate(self.described["joints"]):
            name = joint.pop("name")
            self._places.setdefault(name, place)
            self.joints.setdefault(name, joint)
        self.lifetime = min(lifetime, self.described["lifetime_ms"] / 1e3)
        #: Whether this computer may command: by its key, or by its user.
        self.may_command: bool = self.described["commands"]
        #: Why the robot does not follow; empty while it does.
        self.waiting = ""
        #: Commands that reached the robot after their lifetime.
        self.too_late = 0
        self._ended = ""
        self._asked_ns = self._answered_ns = 0
        #: After a command that was too late, the clocks are compared before the next one.
        self._is_doubtful = False
        #: Numbers of the commands that were not answered yet, with the times at which they were sent.
        self._unanswered: deque[tuple[int, int]] = deque()
        for _ in range(3):
            self._compare(timeout)

    def command(self, targets: Mapping[str, float]) -> None:
        """Sets target positions in rad, valid for `lifetime` seconds from now. Joints that are not named keep their targets.

        Raises `CommandError` when an earlier command was refused, the robot has stopped, or does not answer for a second.
        """
        self._read()
        self._check()
        items = [(self._place(joint), float(rad)) for joint, rad in targets.items()]
        now = time.monotonic_ns()
        if self._is_doubtful or now - self._clocks[1] > _COMPARE_BEFORE_NS:
            self._is_doubtful = False
            self._clocks = (*self._clocks[:2], 1 << 62)
            self._compare(max(self.lifetime, 0.1))
        elif now - self._asked_ns > _COMPARE_EVERY_NS:
            self._ask()
        number = self._link.send(
            _COMMAND,
            struct.pack("<QIH", self._robot_ns(), round(self.lifetime * 1e6), len(items))
            + b"".join(struct.pack("<Hd", place, rad) for place, rad in items),
        )
        self._unanswered.append((number, time.monotonic_ns()))

    def close(self) -> None:
        """Takes leave: the robot keeps its last targets until another process commands it."""
        if not self._ended:
            try:
                self._link.send(_LEAVE, struct.pack("<Q", self._robot_ns()))
                end = time.monotonic() + 1
                while time.monotonic() < end and not self._ended:
                    self._take(self._link.frame(0.1))
            except CommandError:
                pass
        self.abandon()

    def abandon(self) -> None:
        """Ends without taking leave: the robot holds, and then stops safely."""
        self._ended = self._ended or "the commander has ended"
        self._link.close()

    def _check(self) -> None:
        if self._ended:
            raise CommandError(self._ended)
        if self._unanswered and time.monotonic_ns() - self._unanswered[0][1] > _ANSWERED_WITHIN_NS:
            # A script that paused has not read the answer yet.
            self._ended = f"{self._link.robot} has not answered for a second: {self.name} holds, and then stops safely"
            self._link.close()
            raise CommandError(self._ended)

    def _place(self, joint: str) -> int:
        if joint not in self._places:
            raise CommandError(f"{self.name} has no joint {joint!r}; it has {', '.join(self._places)}")
        return self._places[joint]

    def _robot_ns(self) -> int:
        """The robot's clock now, at the earliest: the clocks differ by 0.1 % at most."""
        robot, own, _ = self._clocks
        since = time.monotonic_ns() - own
        return robot + since - since // 1000

    def _ask(self) -> None:
        self._asked_ns = time.monotonic_ns()
        self._link.send(_PING, struct.pack("<Q", self._asked_ns))

    def _compare(self, timeout: float) -> None:
        """Asks for the robot's time, and waits for it."""
        before = self._asked_ns
        self._ask()
        end = time.monotonic() + timeout
        while self._answered_ns <= before:
            left = end - time.monotonic()
            if left <= 0:
                raise CommandError(f"{self._link.robot} does not answer within {timeout:g} s")
            self._take(self._link.frame(left))

    def _read(self) -> None:
        while not self._ended and (found := self._link.frame(0)) is not None:
            self._take(found)

    def _take(self, found: tuple[int, bytes] | None) -> None:
        kind, payload = found or (0, b"")
        if kind == _PONG:
            asked, robot = struct.unpack("<QQ", payload)
            now = time.monotonic_ns()
            self._answered_ns = asked
            # The better comparison counts: an old one grows worse by what clocks drift.
            if now - asked < self._clocks[2] + (now - self._clocks[1]) // 1000:
                self._clocks = (robot, now, now - asked)
        elif kind == _ANSWER:
            number, outcome, age_us = struct.unpack("<QBI", payload)
            while self._unanswered and self._unanswered[0][0] <= number:
                self._unanswered.popleft()
            if outcome == _TOO_LATE:
                self.too_late += 1
                self._is_doubtful = True
                self._wait(f"a command was {age_us / 1e3:g} ms old when it reached {self.name}, and lives {self.lifetime * 1e3:g} ms")
            elif outcome == 0:
                self.waiting = ""
        elif kind == _NOTICE:
            said = json.loads(payload)
            if said.get("left"):
                self._ended = "the commander has left"
            elif "waiting" in said:
                self._wait(said["waiting"])
            elif "ended" in said:
                self._ended = said["ended"]
                self._link.close()
            elif "refused" in said:
                raise CommandError(said["refused"])

    def _wait(self, why: str) -> None:
        is_new = why and not self.waiting
        self.waiting = why
        if is_new:
            warnings.warn(why, NotFollowedWarning, stacklevel=4)


class RemoteReader:
    """A channel that another computer publishes by ZeroMQ, read as `onbeat.ring.Reader` reads one of this computer.

    Times of its records are by CLOCK_MONOTONIC of that computer: `time.monotonic_ns()` here is another clock.
    """

    def __init__(self, host: str, port: int, described: dict, timeout: float):
        self.channel: str = described["channel"]
        self.type: str = described["type"]
        self.schema: str = described["schema"]
        self.description: dict = json.loads(described["description"] or "{}")
        self._types = parse(self.type, self.schema)
        self._layout: Layout | None = None
        self._waiting: deque[tuple[int, int, bytes]] = deque()
        self._received = self._lost = self._previous = 0
        try:
            self._socket = socket.create_connection((host, port), timeout)
        except OSError as why:
            raise ring.RingError(f"cannot read {self.channel} from {host}:{port}: {why}") from None
        greeting = bytearray(64)
        greeting[0], greeting[9], greeting[10] = 0xFF, 0x7F, 3
        greeting[12:16] = b"NULL"
        ready = b"\x05READY\x0bSocket-Type" + struct.pack(">I", 3) + b"SUB"
        self._socket.sendall(bytes(greeting) + bytes([4, len(ready)]) + ready)
        name = b"\x01" + self.channel.encode()
        self._socket.sendall(bytes([0, len(name)]) + name)
        self._bytes = bytearray()
        self._at = 0
        self._frames: list[bytes] = []
        self._is_greeted = False
        self._ended = ""

    def __enter__(self) -> "RemoteReader":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Ends the subscription."""
        self._ended = self._ended or f"the reader of {self.channel} is closed"
        self._socket.close()

    @property
    def pending(self) -> int:
        """Number of records that have arrived and were not read yet."""
        self._fill(0)
        return len(self._waiting)

    def has_new(self) -> bool:
        """Whether a record can be read at once."""
        return self.pending > 0

    def stats(self) -> dict[str, int]:
        """Returns how many records were received and lost on the way, by the gaps in their numbers, and how many are pending."""
        pending = self.pending
        return {"received": self._received, "lost": self._lost, "pending": pending}

    def drain(self, timeout: float = 0.0, most: int | None = None) -> Batch:
        """Returns all records since the last call, at most `most`; waits up to `timeout` seconds for the first one."""
        if most is not None and most < 0:
            raise ValueError(f"most is {most}; use None for all records")
        self._await(timeout)
        return self._take(len(self._waiting) if most is None else most)

    def next(self, timeout: float = 0.0) -> np.void | None:
        """Returns the next record; `None` after `timeout` seconds."""
        self._await(timeout)
        batch = self._take(1)
        return batch.records[0] if len(batch) else None

    def latest(self) -> np.void | None:
        """Returns the newest record, and passes over those before it without counting them as lost."""
        self._fill(0)
        if self._waiting:
            self._previous = self._waiting[-1][0] - 1
            self._waiting = deque([self._waiting[-1]])
        return self.next()

    def batches(self, timeout: float = 1.0) -> Iterator[Batch]:
        """Yields batches until the robot has ended, or nothing came for `timeout` seconds."""
        while True:
            try:
                batch = self.drain(timeout)
            except ring.WriterEnded:
                return
            if not len(batch):
                return
            yield batch

    def _await(self, timeout: float) -> None:
        end = time.monotonic() + timeout
        self._fill(0)
        while not self._waiting:
            left = end - time.monotonic()
            if self._ended:
                raise ring.WriterEnded(self._ended)
            if left <= 0:
                return
            self._fill(left)

    def _fill(self, timeout: float) -> None:
        while not self._ended and len(self._waiting) < _MOST_WAITING:
            if not _has_bytes(self._socket, timeout):
                return
            timeout = 0
            try:
                read = self._socket.recv(1 << 18)
            except OSError as why:
                read, self._ended = b"", f"the connection of {self.channel} has ended: {why}"
            if not read:
                self._ended = self._ended or f"the publisher of {self.channel} has ended"
                return
            self._bytes += read
            self._split()

    def _split(self) -> None:
        """Takes whole frames out of what has arrived."""
        bytes_, at = self._bytes, 0
        if not self._is_greeted:
            if len(bytes_) < 64:
                return
            if bytes_[0] != 0xFF or bytes_[10] < 3:
                raise ring.RingError(f"what publishes {self.channel} does not speak ZeroMQ")
            self._is_greeted, at = True, 64
        while len(bytes_) - at >= 2:
            flags, length, head = bytes_[at], bytes_[at + 1], 2
            if flags & 2:
                if len(bytes_) - at < 9:
                    break
                length, head = int.from_bytes(bytes_[at + 1 : at + 9], "big"), 9
            if length > _MOST_MESSAGE or len(self._frames) > 16:
                raise ring.RingError(f"a message of {self.channel} of {length} bytes, and at most {_MOST_MESSAGE} are read")
            if len(bytes_) - at < head + length:
                break
            frame = bytes(bytes_[at + head : at + head + length])
            at += head + length
            if flags & 4:
                continue
            self._frames.append(frame)
            if not flags & 1:
                self._put(self._frames)
                self._frames = []
        del bytes_[:at]

    def _put(self, frames: list[bytes]) -> None:
        if len(frames) >= 3 and frames[0] == self.channel.encode() and len(frames[2]) == 16:
            number, at_ns = struct.unpack("<QQ", frames[2])
            self._waiting.append((number, at_ns, frames[1]))

    def _take(self, most: int) -> Batch:
        """The records that are alike in their lengths, in the order of their arrival."""
        records: list[tuple[int, int, bytes]] = []
        layout = self._layout
        while self._waiting and len(records) < most:
            number, at_ns, payload = self._waiting[0]
            row = np.frombuffer(payload, "u1").reshape(1, -1)
            if layout is None or len(payload) != layout.bytes or not layout.fits(row).all():
                if records:
                    break
                layout = self._layout = Layout(self._types, self.type, payload)
            records.append(self._waiting.popleft())
        lost = 0
        for number, _, _ in records:
            if self._previous and number > self._previous + 1:
                lost += number - self._previous - 1
            self._previous = number
        self._lost += lost
        self._received += len(records)
        numbers = np.array([record[0] for record in records], "u8")
        at_ns = np.array([record[1] for record in records], "u8")
        dtype = layout.dtype if layout else np.dtype([])
        rows = np.frombuffer(b"".join(record[2] for record in records), dtype) if records else np.empty(0, dtype)
        return Batch(numbers, at_ns, rows, lost, self.description)


class Robot:
    """A robot of this computer or of another one: what it publishes, and its commander from the first command on.

    Leaving a `with` block in order keeps the last targets; leaving it by an exception stops the robot safely.
    """

    def __init__(self, name: str, cycles, commander):
        #: Name of the robot.
        self.name = name
        #: Its channel `NAME/cycle`: `onbeat.ring.Reader`, or one like it.
        self.cycles = cycles
        self._commander = None if callable(commander) else commander
        self._become = commander if callable(commander) else None

    @property
    def commander(self):
        """The commander: `onbeat.robot.Commander`, or one like it."""
        if self._commander is None:
            self._commander = self._become()
        return self._commander

    @property
    def joints(self) -> dict[str, dict[str, float]]:
        """The joints with their limits in rad and rad/s."""
        return self.commander.joints

    @property
    def waiting(self) -> str:
        """Why the robot does not follow; empty while it does."""
        return self._commander.waiting if self._commander else ""

    def command(self, targets: Mapping[str, float]) -> None:
        """Sets target positions in rad; see `onbeat.robot.Commander.command`."""
        self.commander.command(targets)

    def drain(self, timeout: float = 0.0, most: int | None = None) -> Batch:
        """Returns all cycles since the last call."""
        return self.cycles.drain(timeout, most)

    def next(self, timeout: float = 0.0) -> np.void | None:
        """Returns the next cycle; `None` after `timeout` seconds."""
        return self.cycles.next(timeout)

    def latest(self) -> np.void | None:
        """Returns the newest cycle."""
        return self.cycles.latest()

    def stats(self) -> dict[str, int]:
        """Returns how many cycles were received and lost, and how many are pending."""
        return self.cycles.stats()

    def close(self) -> None:
        """Takes leave: the robot keeps its last targets."""
        if self._commander:
            self._commander.close()
        self.cycles.close()

    def abandon(self) -> None:
        """Ends without taking leave: a robot that was commanded holds, and then stops safely."""
        if self._commander:
            self._commander.abandon()
        self.cycles.close()

    def __enter__(self) -> "Robot":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _why: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()


def _address(robot: str) -> tuple[str, int]:
    """Returns computer and port; an IPv6 address without brackets has no port."""
    has_port = robot.count(":") == 1 or "]:" in robot
    host, port = robot.rsplit(":", 1) if has_port else (robot, str(PORT))
    host = host.strip("[]")
    if not (host and re.fullmatch("[0-9]{1,5}", port) and int(port) < 1 << 16):
        raise CommandError(f"{robot!r} is not the address of a robot; write HOST, HOST:PORT or [ADDRESS]:PORT")
    return host, int(port)


def connect(
    robot: str,
    key: str | os.PathLike | None = None,
    *,
    name: str | None = None,
    lifetime: float = 0.25,
    timeout: float = 5.0,
) -> Robot:
    """Finds a robot: one that runs on this computer by its name, any other one by its computer, `HOST`, `HOST:PORT` or
    `[ADDRESS]:PORT`.

    `key` is the file of its key; without one it can be read, and commanded on its own computer. `name` is the name that the robot must
    have: a connection to another one is refused. `lifetime` is the time in s for which a command is valid.
    """
    if f"{robot}/cycle" in ring.channels():
        return Robot(robot, ring.open(f"{robot}/cycle"), lambda: Commander(robot, lifetime))
    host, port = _address(robot)
    commander = RemoteCommander(host, port, _key_of(key), lifetime, timeout)
    if name is not None and commander.name != name:
        commander.abandon()
        raise CommandError(f"{robot} is the robot {commander.name}, not {name}")
    found = [of for of in commander.described["channels"] if of["channel"] == f"{commander.name}/cycle"]
    if not found or not commander.described["telemetry"]:
        raise CommandError(f"{robot} does not publish {commander.name}/cycle")
    cycles = RemoteReader(host, commander.described["telemetry"], found[0], timeout)
    return Robot(commander.name, cycles, commander)
