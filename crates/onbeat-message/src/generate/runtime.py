"""Messages with their codec: CDR, little-endian. Generated from their definitions by `onbeat message generate`."""

from __future__ import annotations

import struct as _struct
from dataclasses import dataclass as _dataclass
from dataclasses import field as _field

# A field may have this name.
_classmethod = classmethod

_HEADER = bytes([0, 1, 0, 0])


class _Writer:
    """Encodes fields in order. Each is aligned to its size, counted from the end of the header."""

    def __init__(self):
        self.body = bytearray()

    def align(self, size):
        self.body.extend(bytes(-len(self.body) % size))

    def number(self, code, size, value):
        self.align(size)
        self.body += _struct.pack("<" + code, value)

    def count(self, values, count, most):
        """Writes the number of values, unless the type states it."""
        if count is not None and len(values) != count:
            raise ValueError(f"{len(values)} values given, the type has {count}")
        if most is not None and len(values) > most:
            raise ValueError(f"{len(values)} values given, the type has at most {most}")
        if count is None:
            self.number("I", 4, len(values))

    def numbers(self, code, size, values, count, most):
        self.count(values, count, most)
        if len(values) > 0:
            self.align(size)
            self.body += bytes(values) if code == "B" else _struct.pack(f"<{len(values)}{code}", *values)

    def text(self, text, most):
        raw = text.encode("utf-8", "surrogateescape")
        if most and len(raw) > most:
            raise ValueError(f"a text of {len(raw)} bytes given, the type has at most {most}")
        self.number("I", 4, len(raw) + 1)
        self.body += raw + b"\0"

    def wide(self, text, most):
        raw = text.encode("utf-16-le", "surrogatepass")
        if most and len(raw) > 2 * most:
            raise ValueError(f"a wide text of {len(raw) // 2} units given, the type has at most {most}")
        self.number("I", 4, len(raw) // 2)
        self.body += raw

    def each(self, values, count, most, write):
        self.count(values, count, most)
        for value in values:
            write(value)


class _Reader:
    """Decodes fields in order."""

    def __init__(self, data):
        data = memoryview(data)
        if bytes(data[:2]) != _HEADER[:2]:
            raise ValueError("the message does not begin with 00 01: it is not CDR, little-endian")
        self.body = data[4:]
        self.at = self.depth = 0

    def take(self, size, align):
        begin = self.at + -self.at % align
        self.at = begin + size
        if self.at > len(self.body):
            raise ValueError(f"the message of {len(self.body) + 4} bytes is not complete")
        return self.body[begin : self.at]

    def number(self, code, size):
        return _struct.unpack("<" + code, self.take(size, size))[0]

    def numbers(self, code, size, count):
        count = self.number("I", 4) if count is None else count
        if count == 0:
            return []
        return list(_struct.unpack(f"<{count}{code}", self.take(count * size, size)))

    def octets(self, count):
        return bytes(self.take(self.number("I", 4) if count is None else count, 1))

    def text(self):
        return bytes(self.take(self.number("I", 4), 1))[:-1].decode("utf-8", "surrogateescape")

    def wide(self):
        return bytes(self.take(2 * self.number("I", 4), 1)).decode("utf-16-le", "surrogatepass")

    def each(self, count, read):
        self.depth += 1
        if self.depth > 128:
            raise ValueError("lists in the message are nested more than 128 times")
        values = [read() for _ in range(self.number("I", 4) if count is None else count)]
        self.depth -= 1
        return values


class _Message:
    def encode(self):
        """Returns the message as bytes."""
        out = _Writer()
        self._write(out)
        return _HEADER + bytes(out.body)

    @classmethod
    def decode(cls, data):
        """Returns the message in `data`. Bytes behind its last field are ignored."""
        return cls._read(_Reader(data))
