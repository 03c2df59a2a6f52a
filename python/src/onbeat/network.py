"""Channels of LCM, ZeroMQ and ROS 2 in one call, by the program onbeat, which ends with this process.

    plans = onbeat.subscribe("udpm://239.255.76.67:7667", "PLAN", type="planner/msg/plan_t", file="planner.lcm")
    batch = plans.drain(timeout=1.0)
    onbeat.publish("planner/plan", {"speed": 0.5}, type="planner/msg/plan_t", file="planner.lcm", to="udpm://239.255.76.67:7667")

A channel of this computer is read by `onbeat.ring.open`.
"""

import contextlib
import itertools
import json
import math
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import IO

from . import ring
from .errors import OnbeatError
from .program import program, reason

_NUMBERS = itertools.count(1)
#: Time within which a network is joined, in s.
_JOINED_WITHIN = 10.0


class NetworkError(OnbeatError):
    """A network cannot be joined, or a message is not of its type. The text is the program's."""

    code = "onbeat:network"


def _files(file: str | os.PathLike | Sequence) -> list[str]:
    one = [file] if isinstance(file, (str, os.PathLike)) else list(file)
    return [word for each in one for word in ("--file", os.fspath(each))]


def _last_line(process: subprocess.Popen, said: IO[bytes]) -> str:
    process.wait()
    if said.seekable():
        said.seek(0)
    return reason(said.read(), f"exit status {process.returncode}")


class Subscription(ring.Reader):
    """A channel of a network, read as one of this computer. Closing it leaves the network."""

    def __init__(self, url: str, remote: str, type: str, file):  # noqa: A002 (as the command line has it)
        topic = re.sub(r"[^\w.-]", "_", remote.strip("/"), flags=re.ASCII)[:64] or "all"
        channel = f"sub-{os.getpid()}-{next(_NUMBERS)}/{topic}"
        words = [program(), "message", "receive", remote, channel, "--from", url, "--type", type, "--until-input-ends"]
        # A file: the program would stop at a pipe that its warnings have filled, as nobody reads them.
        self._said = tempfile.TemporaryFile()
        self._gateway = subprocess.Popen(
            [*words, *_files(file)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=self._said
        )
        end = time.monotonic() + _JOINED_WITHIN
        while True:
            try:
                super().__init__(channel, "oldest")
                return
            except ring.RingError:
                # Its writer is about to make it.
                time.sleep(0.005)
            if self._gateway.poll() is not None:
                raise NetworkError(_last_line(self._gateway, self._said))
            if time.monotonic() > end:
                self._gateway.kill()
                raise NetworkError(f"{url} was not joined within {_JOINED_WITHIN:g} s: {_last_line(self._gateway, self._said)}")

    def close(self) -> None:
        """Leaves the network. Arrays that were returned stay valid."""
        super().close()
        self._gateway.stdin.close()
        try:
            self._gateway.wait(5)
        except subprocess.TimeoutExpired:
            self._gateway.kill()
            self._gateway.wait()
        self._said.close()


def subscribe(url: str, remote: str, *, type: str, file: str | os.PathLike | Sequence = ()) -> Subscription:  # noqa: A002
    """Joins `udpm://GROUP:PORT` (LCM), `tcp://ADDRESS:PORT` (ZeroMQ) or `ros2://DOMAIN` for the channel `remote`.

    `type` and `file` are those of `onbeat message receive`: `PACKAGE/msg/Name`, and its definition in `.msg` or `.lcm`; onbeat's own
    types need no file. Raises `NetworkError`.
    """
    return Subscription(url, remote, type, file)


class Publisher:
    """A channel of this computer, and of a network: a record for each message."""

    def __init__(self, channel: str, type: str, file=(), to: str | None = None, remote: str | None = None):  # noqa: A002
        words = [program(), "message", "publish", channel, "--type", type, *_files(file)]
        words += ["--to", to] if to else []
        words += ["--remote", remote] if remote else []
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._answer()

    def publish(self, message: Mapping) -> int:
        """Publishes a message; returns its number. Missing fields have their default, or are 0 or empty."""
        line = json.dumps(_plain(message), allow_nan=False)
        if self._process.stdin.closed:
            raise NetworkError("the publisher is closed")
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise NetworkError(_last_line(self._process, self._process.stderr)) from None
        answer = self._answer()
        if "refused" in answer:
            raise NetworkError(answer["refused"])
        return answer["published"]

    def has_ended(self) -> bool:
        """Whether the program that publishes has ended, or was killed."""
        return self._process.poll() is not None

    def close(self) -> None:
        """Ends the channel; what was published is sent."""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._process.stderr.close()

    def __enter__(self) -> "Publisher":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def _answer(self) -> dict:
        line = self._process.stdout.readline()
        if not line:
            raise NetworkError(_last_line(self._process, self._process.stderr))
        return json.loads(line)


def _plain(value):
    """A message as JSON has it: arrays of numpy are lists, and numbers that are not finite are null."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return list(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


_PUBLISHERS: dict[tuple, Publisher] = {}


def publish(
    channel: str,
    message: Mapping,
    *,
    type: str,  # noqa: A002
    file: str | os.PathLike | Sequence = (),
    to: str | None = None,
    remote: str | None = None,
) -> int:
    """Publishes a message on a channel of this computer and, with `to`, on a network; returns its number.

    The first call makes the channel, which ends with this process. Raises `NetworkError`: if the channel has ended, the next call makes
    it again.
    """
    # A forked process that wrote into the pipe of its parent would take the answers of the parent's messages.
    key = (os.getpid(), channel, type, to, remote)
    if key not in _PUBLISHERS:
        _PUBLISHERS[key] = Publisher(channel, type, file, to, remote)
    try:
        return _PUBLISHERS[key].publish(message)
    except NetworkError:
        if _PUBLISHERS[key].has_ended():
            _PUBLISHERS.pop(key).close()
        raise
