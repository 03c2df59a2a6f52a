"""What the readers of all formats of logs have in common: channels with records that are not decoded yet."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .errors import OnbeatError


class LogError(OnbeatError):
    """A file is not a log, cannot be read, or is damaged."""

    code = "onbeat:log"


@dataclass(frozen=True)
class Schema:
    """Definition of a type, as a log has it."""

    name: str
    encoding: str
    text: bytes


@dataclass
class RawChannel:
    """A channel of a log with its records."""

    topic: str
    encoding: str
    schema: Schema
    texts: dict[str, str]
    #: Why the records cannot be decoded; empty if they can.
    why: str = ""
    id: int = 0
    is_wanted: bool = True
    #: Of MCAP: matrices of bytes, a row for each message with its head.
    rows: list[np.ndarray] = field(default_factory=list)
    #: Of the others: payloads, times in ns since 1970, numbers.
    payloads: list[bytes] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)

    def add(self, at_ns: int, number: int, payload: bytes) -> None:
        self.payloads.append(payload)
        self.times.append(at_ns)
        self.numbers.append(number)


class RawLog:
    """Everything that a file has."""

    def __init__(self, path: Path):
        self.path = path
        self.channels: list[RawChannel] = []
        self.account: dict[str, dict] = {}
        self.gaps: list[dict[str, str]] = []
        self.is_complete = False
        #: Why the file ends early; empty if it does not.
        self.cut = ""
        #: What is damaged, in sentences, and how many records of which channel are missing for that.
        self.damage: list[str] = []
        self.damaged: dict[str, int] = {}

    def note(self, name: str, pairs: dict[str, str]) -> None:
        """Takes what onbeat has written about its own losses."""
        if name == "onbeat:account":
            counts = {name: int(pairs[name]) for name in ("received", "lost", "gaps") if pairs.get(name, "").isdigit()}
            self.account[pairs.get("channel", "")] = counts
        elif name == "onbeat:lost":
            self.gaps.append(pairs)
