"""Commands the joints of a running robot.

    onbeat robot run humanoid --trajectory commander --name walker      # in another terminal

    import onbeat.robot

    with onbeat.robot.Commander("walker") as robot:
        while True:
            robot.command({"left knee": 0.3})       # valid for 0.25 s

A command is valid for a time. A script that stops, or is killed, leaves a robot that holds and then stops safely.
"""

import json
import os
import subprocess
import time
import warnings
from collections.abc import Mapping
from types import TracebackType

from .errors import OnbeatError
from .program import program, reason


class CommandError(OnbeatError):
    """A command was refused, or the robot takes none. The text is the program's."""

    code = "onbeat:robot"


class NotFollowedWarning(UserWarning):
    """A robot follows no command for a second, or a commanded joint has no power. The text is the program's."""

    code = "onbeat:robot:waiting"


class Commander:
    """The one process that commands a robot. `joints` has the limits of each joint in rad and rad/s.

    Leaving a `with` block in order keeps the last targets; leaving it by an exception stops the robot safely.
    """

    def __init__(self, name: str, lifetime: float = 0.25):
        words = [program(), "message", "command", name, "--lifetime", f"{round(lifetime * 1e6)}us"]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        first = self._process.stdout.readline()
        if not first:
            raise CommandError(self._why())
        head = json.loads(first)
        self.joints: dict[str, dict[str, float]] = {joint.pop("name"): joint for joint in head["joints"]}
        self.lifetime: float = head["lifetime_ms"] / 1e3
        os.set_blocking(self._process.stdout.fileno(), False)
        self._said = b""
        #: Why the robot does not follow; empty while it does.
        self.waiting = ""

    def command(self, targets: Mapping[str, float]) -> None:
        """Sets target positions in rad. Joints that are not named keep their targets.

        Raises `CommandError` when an earlier command was refused or the robot has stopped. Warns with `NotFollowedWarning`
        when the robot runs and does not follow; `waiting` is that sentence.
        """
        self._check()
        line = ", ".join(f"{joint}={float(rad)!r}" for joint, rad in targets.items())
        self._write(line + "\n")

    def close(self) -> None:
        """Takes leave: the robot keeps its last targets until another process commands it."""
        if self._process.poll() is None:
            try:
                self._write("leave\n")
            except CommandError:
                pass
        self._end()

    def abandon(self) -> None:
        """Ends without taking leave: the robot holds, and then stops safely."""
        self._end()

    def __enter__(self) -> "Commander":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _why: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def _write(self, line: str) -> None:
        try:
            self._process.stdin.write(line.encode())
        except BrokenPipeError:
            raise CommandError(self._why()) from None

    def _check(self) -> None:
        if self._process.poll() is not None:
            raise CommandError(self._why())
        self._said += self._process.stdout.read() or b""
        while b"\n" in self._said:
            line, _, self._said = self._said.partition(b"\n")
            answer = json.loads(line)
            if "refused" in answer:
                raise CommandError(answer["refused"])
            self.waiting = answer["waiting"]
            if self.waiting:
                warnings.warn(self.waiting, NotFollowedWarning, stacklevel=3)

    def _why(self) -> str:
        self._process.wait()
        if self._process.stderr.closed:
            return "the commander has ended"
        return reason(self._process.stderr.read(), "the commands are not accepted any more")

    def _end(self) -> None:
        self._process.stdin.close()
        end = time.monotonic() + 5
        while self._process.poll() is None and time.monotonic() < end:
            time.sleep(0.005)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            stream.close()
