"""Decodes the records of a channel field by field, all records at once, whatever the lengths of their texts and sequences.

A field of n records is a `Column`: its numbers or texts one after the other, and for each list around them how many elements
it has in each record. Lengths and counts are a stranger's: each is compared with the bytes that are left of its record.
"""

from dataclasses import dataclass, field

import numpy as np

from .definition import _NUMBERS, Field, is_plain

#: Bytes of a list from which on it is copied as one piece rather than element by element.
_LONG = 128
#: Most messages within each other.
_MOST_DEPTH = 128
#: Longest text that is compared with the others of its column.
_SHORT = 256


@dataclass(frozen=True)
class Encoding:
    """How numbers and lists are laid out."""

    #: Largest alignment, in bytes; 1 for none.
    align: int = 8
    is_little: bool = True
    #: Bytes before the first field.
    header: int = 4
    #: A text ends with a zero, which its length counts.
    has_zero: bool = True
    #: An empty message is a byte.
    pads_empty: bool = True
    #: XCDR2: lists of other things than numbers have their length in bytes before them.
    has_delimiters: bool = False
    #: Structures with one of these annotations have their length before them, too.
    delimited: frozenset[str] = frozenset()
    #: Bytes of a letter of a wide text.
    wide: int = 2

    @property
    def surplus(self) -> int:
        """Bytes behind the last field from which on they are no padding."""
        return min(self.align, 4) if self.has_delimiters else 8

    def delimits(self, fields: list[Field]) -> bool:
        """Returns whether a structure has its length before it."""
        return getattr(fields, "extensibility", "") in self.delimited


ROS1 = Encoding(align=1, header=0, has_zero=False, pads_empty=False)

#: Encodings by the second byte of the header (DDS-XTypes 1.3, 7.6.2.1).
_CDR = {
    0: Encoding(is_little=False),
    1: Encoding(),
    6: Encoding(align=4, is_little=False, has_delimiters=True, delimited=frozenset({"appendable"})),
    7: Encoding(align=4, has_delimiters=True, delimited=frozenset({"appendable"})),
    8: Encoding(align=4, is_little=False, has_delimiters=True, delimited=frozenset({"appendable", ""})),
    9: Encoding(align=4, has_delimiters=True, delimited=frozenset({"appendable", ""})),
}


def cdr(header: bytes) -> Encoding | None:
    """Returns the encoding that the first bytes of a message name; None for one that is not read."""
    return _CDR.get(header[1]) if len(header) >= 4 and header[0] == 0 else None


@dataclass
class Column:
    """Values of a field of many records, and the counts of each list around them, the outermost first."""

    values: np.ndarray
    counts: list[np.ndarray] = field(default_factory=list)

    def take(self, order: np.ndarray) -> "Column":
        """Returns the records in another order, or some of them."""
        if not self.counts:
            return Column(self.values[order])
        counts = self.counts[0]
        begins = np.cumsum(counts) - counts
        inner = Column(self.values, self.counts[1:]).take(_ranges(begins[order], counts[order]))
        return Column(inner.values, [counts[order], *inner.counts])

    def array(self) -> np.ndarray:
        """Returns an array with a row for each record, or an array of arrays where the lengths differ."""
        if not self.counts:
            return _texts(self.values) if self.values.dtype == object else self.values
        inner = Column(self.values, self.counts[1:]).array()
        counts = self.counts[0]
        if len(counts) and (counts == counts[0]).all():
            return inner.reshape(len(counts), counts[0], *inner.shape[1:])
        rows = np.empty(len(counts), object)
        ends = np.cumsum(counts)
        for row, (end, count) in enumerate(zip(ends.tolist(), counts.tolist(), strict=True)):
            rows[row] = inner[end - count : end]
        return rows

    @staticmethod
    def joined(columns: "list[Column]") -> "Column":
        """Puts the records of columns one after the other."""
        counts = [np.concatenate(level) for level in zip(*(column.counts for column in columns), strict=True)]
        return Column(np.concatenate([column.values for column in columns]), counts)


def _texts(values: np.ndarray) -> np.ndarray:
    """An array of bytes where that needs little more memory than the texts themselves."""
    if not len(values) or not isinstance(values[0], bytes):
        return values
    lengths = [len(value) for value in values]
    if max(lengths) * len(values) > 4 * sum(lengths) + (1 << 20):
        return values
    return values.astype(f"S{max(*lengths, 1)}")


def _ranges(begins: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The numbers from each begin on, as many as its count."""
    before = np.cumsum(counts) - counts
    return np.arange(int(counts.sum()), dtype="i8") + np.repeat(begins - before, counts)


def wide_text(units: bytes, encoding: Encoding) -> str:
    """Decodes units of UTF-16; Fast CDR 1 has four bytes for each. A closing zero, which some writers count, is left out."""
    if encoding.wide == 4:
        units = np.frombuffer(units, "<u4" if encoding.is_little else ">u4").astype("<u2").tobytes()
    return units.decode("utf-16-le" if encoding.wide == 4 or encoding.is_little else "utf-16-be", "replace").removesuffix("\0")


class Rows:
    """A place in each of several records, up to which it was read; `good` is False once a record was too short."""

    def __init__(self, at: np.ndarray, begin: np.ndarray, end: np.ndarray, good: np.ndarray):
        self.at, self.begin, self.end, self.good = at, begin, end, good

    def some(self, which: np.ndarray) -> "Rows":
        return Rows(self.at[which], self.begin[which], self.end[which], self.good[which])

    def put(self, which: np.ndarray, rows: "Rows") -> None:
        self.at[which], self.good[which] = rows.at, rows.good

    def align(self, size: int) -> None:
        if size > 1:
            self.at += -(self.at - self.begin) % size

    def need(self, bytes_: np.ndarray | int) -> None:
        """Marks records that have fewer bytes left; what is read of them stays within the record's begin."""
        self.good &= self.at + bytes_ <= self.end
        self.at[~self.good] = 0


class Decoder:
    """Decodes records of one type, which are pieces of one array of bytes."""

    def __init__(self, types: dict[str, list[Field]], data: np.ndarray, encoding: Encoding):
        self._types = types
        # A record that is too short is read at 0.
        self._data = data if len(data) >= 16 else np.concatenate([data, np.zeros(16, "u1")])
        self._bytes = memoryview(np.ascontiguousarray(self._data)).cast("B")
        self._encoding = encoding
        self._sizes: dict[str, tuple[np.ndarray, np.ndarray] | None] = {}

    def columns(self, name: str, begins: np.ndarray, ends: np.ndarray) -> tuple[dict[str, Column], np.ndarray, np.ndarray]:
        """Returns the columns, which records were complete, and how many bytes of each are left."""
        begin = begins.astype("i8") + self._encoding.header
        rows = Rows(begin.copy(), begin, ends.astype("i8"), np.ones(len(begin), bool))
        columns: dict[str, Column] = {}
        self._message(name, rows, "", columns)
        return columns, rows.good, np.where(rows.good, rows.end - rows.at, 0)

    def _message(self, name: str, rows: Rows, prefix: str, columns: dict[str, Column]) -> None:
        fields = self._types[name]
        is_delimited, end = self._encoding.delimits(fields), rows.at
        if is_delimited:
            lengths = self._number("uint32", rows).astype("i8")
            rows.need(lengths)
            end = rows.at + lengths
        if not fields and self._encoding.pads_empty:
            rows.need(1)
            rows.at += 1
        for of in fields:
            path = prefix + of.name
            if of.count is None:
                self._element(of.kind, rows, path, columns)
                continue
            if of.kind not in _NUMBERS and self._encoding.has_delimiters:
                self._number("uint32", rows)
            counts = self._counts(of, rows)
            inner: dict[str, Column] = {}
            if of.kind in _NUMBERS:
                inner[path] = self._numbers(of.kind, rows, counts)
            elif self._size(of.kind) is not None:
                self._fixed(of.kind, rows, counts, path, inner)
            else:
                self._several(of.kind, rows, counts, path, inner)
            columns.update((key, Column(it.values, [counts, *it.counts])) for key, it in inner.items())
        if is_delimited:
            # A later version of the structure may have more fields.
            rows.good &= rows.at <= end
            rows.at = np.where(rows.good, end, 0)

    def _counts(self, of: Field, rows: Rows) -> np.ndarray:
        if of.count == -1:
            counts = self._number("uint32", rows).astype("i8")
        else:
            counts = np.full(len(rows.at), of.count, "i8")
        # Each element has at least a byte, or, in ROS 1, no use.
        rows.good &= counts <= rows.end - rows.at
        rows.at[~rows.good] = 0
        return np.where(rows.good, counts, 0)

    def _element(self, kind: str, rows: Rows, path: str, columns: dict[str, Column]) -> None:
        if kind in _NUMBERS:
            columns[path] = Column(self._number(kind, rows))
        elif is_plain(kind):
            columns[path] = Column(self._text(kind, rows))
        else:
            self._message(kind, rows, path + ".", columns)

    def _dtype(self, kind: str) -> np.dtype:
        dtype = np.dtype(_NUMBERS[kind])
        return dtype if self._encoding.is_little else dtype.newbyteorder(">")

    def _taken(self, at: np.ndarray, dtype: np.dtype) -> np.ndarray:
        raw = self._data[at[:, None] + np.arange(dtype.itemsize)]
        return raw.view(dtype)[:, 0].astype(dtype.newbyteorder("="))

    def _number(self, kind: str, rows: Rows) -> np.ndarray:
        dtype = self._dtype(kind)
        rows.align(min(dtype.itemsize, self._encoding.align))
        rows.need(dtype.itemsize)
        values = self._taken(rows.at, dtype)
        rows.at += dtype.itemsize
        return values

    def _numbers(self, kind: str, rows: Rows, counts: np.ndarray) -> Column:
        dtype = self._dtype(kind)
        size = dtype.itemsize
        aligned = rows.at + -(rows.at - rows.begin) % min(size, self._encoding.align)
        # An empty list needs no alignment.
        rows.at = np.where(counts > 0, aligned, rows.at)
        rows.need(counts * size)
        counts[~rows.good] = 0
        total = int(counts.sum())
        if total * size > _LONG * len(counts):
            pieces = [self._data[at : at + bytes_] for at, bytes_ in zip(rows.at.tolist(), (counts * size).tolist(), strict=True)]
            values = np.concatenate(pieces).view(dtype).astype(dtype.newbyteorder("="), copy=False)
        else:
            values = self._taken(_ranges(np.zeros_like(counts), counts) * size + np.repeat(rows.at, counts), dtype)
        rows.at = rows.at + counts * size
        return Column(values)

    def _text(self, kind: str, rows: Rows) -> np.ndarray:
        lengths = self._number("uint32", rows).astype("i8")
        if kind == "wstring":
            lengths = lengths * self._encoding.wide
        rows.need(lengths)
        lengths[~rows.good] = 0
        begins = rows.at.copy()
        rows.at = rows.at + lengths
        ends = rows.at - (lengths > 0) * (self._encoding.has_zero and kind == "string")
        if kind == "wstring":
            return self._wide(begins, ends)
        values = np.empty(len(begins), object)
        first = int(ends[0] - begins[0]) if len(begins) else 0
        if first <= _SHORT and len(begins) > 8 and (ends - begins == first).all():
            letters = self._data[begins[:, None] + np.arange(first)]
            if (letters == letters[0]).all():
                values[:] = [letters[0].tobytes()] * len(values)
                return values
        pieces = zip(begins.tolist(), ends.tolist(), strict=True)
        values[:] = [bytes(self._bytes[begin:end]) for begin, end in pieces]
        return values

    def _wide(self, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
        values = np.empty(len(begins), object)
        for row, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
            values[row] = wide_text(bytes(self._bytes[begin:end]), self._encoding)
        return values

    def _several(self, kind: str, rows: Rows, counts: np.ndarray, path: str, columns: dict[str, Column]) -> None:
        """Elements whose lengths differ: the first ones of all records, then the second ones."""
        steps, places = [], []
        for step in range(max(int(counts.max(initial=0)), 1)):
            which = np.flatnonzero((counts > step) & rows.good)
            if step and not len(which):
                break
            some, inner = rows.some(which), {}
            self._element(kind, some, path, inner)
            rows.put(which, some)
            steps.append(inner)
            places.append(which)
        # A record that ended too early has fewer elements than it said.
        found = np.concatenate(places)
        counts[:] = np.bincount(found, minlength=len(counts))
        order = np.argsort(found, kind="stable")
        for key in steps[0]:
            columns[key] = Column.joined([inner[key] for inner in steps]).take(order)

    def _fixed(self, kind: str, rows: Rows, counts: np.ndarray, path: str, columns: dict[str, Column]) -> None:
        """Elements of one length each: where each begins follows from where the first one does."""
        sizes = self._size(kind)
        begin, residue = (rows.at - rows.begin), (rows.at - rows.begin) % 8
        most = int(counts.max(initial=0))
        offsets = np.zeros((8, most + 1), "i8")
        for first in range(8):
            at, steps = first, []
            # After the second element the pattern repeats with a period of at most eight.
            for step in range(min(most, 16)):
                steps.append(int(sizes[0][at % 8]))
                at += steps[-1]
            if most > 16:
                steps += (steps[8:16] * (most // 8 + 1))[: most - 16]
            offsets[first, 1:] = np.cumsum(steps) if steps else 0
        total = offsets[residue, counts]
        # The last element is not followed by the alignment of a next one.
        rows.good &= rows.at + total <= rows.end
        rows.at[~rows.good] = 0
        counts[~rows.good] = 0
        total[~rows.good] = 0
        which = np.repeat(np.arange(len(counts)), counts)
        step = _ranges(np.zeros_like(counts), counts)
        at = rows.at[which] + offsets[residue[which], step]
        elements = Rows(at, rows.begin[which], rows.end[which], np.ones(len(at), bool))
        self._element(kind, elements, path, columns)
        rows.at = np.where(rows.good, rows.begin + begin + total, 0)

    def _size(self, kind: str) -> tuple[np.ndarray] | None:
        """Bytes of a message from each residue of its begin; None if they depend on its content."""
        if kind in ("string", "wstring"):
            return None
        if kind not in self._sizes:
            self._sizes[kind] = (np.array([self._length(kind, at) - at for at in range(8)]),) if self._is_fixed(kind) else None
        return self._sizes[kind]

    def _is_fixed(self, kind: str) -> bool:
        return kind in _NUMBERS or (
            not is_plain(kind)
            and not self._encoding.delimits(self._types[kind])
            and all(
                of.count != -1
                and (of.count is None or of.kind in _NUMBERS or (of.count <= 64 and not self._encoding.has_delimiters))
                and self._is_fixed(of.kind)
                for of in self._types[kind]
            )
        )

    def _length(self, kind: str, at: int) -> int:
        """Where a message of one length ends that begins at `at`."""
        fields = self._types[kind]
        if not fields and self._encoding.pads_empty:
            return at + 1
        for of in fields:
            if of.kind in _NUMBERS:
                size = np.dtype(_NUMBERS[of.kind]).itemsize
                many = 1 if of.count is None else of.count
                at += -at % min(size, self._encoding.align) if many else 0
                at += size * many
            else:
                for _ in range(1 if of.count is None else of.count):
                    at = self._length(of.kind, at)
        return at


def message(types: dict[str, list[Field]], name: str, data: bytes, encoding: Encoding) -> dict:
    """Decodes one record to a dict, with texts as `bytes`. Raises `ValueError` where it is too short."""
    at, depth = encoding.header, 0
    order = "little" if encoding.is_little else "big"

    def piece(size: int, align: int) -> bytes:
        nonlocal at
        at += -(at - encoding.header) % min(align, encoding.align)
        if at + size > len(data):
            raise ValueError(f"{name}: {len(data)} bytes end within a field")
        at += size
        return data[at - size : at]

    def count() -> int:
        found = int.from_bytes(piece(4, 4), order)
        if found > len(data):
            raise ValueError(f"{name}: a list or text of {found} elements in {len(data)} bytes")
        return found

    def one(kind: str):
        if kind in _NUMBERS:
            dtype = np.dtype(_NUMBERS[kind]).newbyteorder("<" if encoding.is_little else ">")
            return np.frombuffer(piece(dtype.itemsize, dtype.itemsize), dtype)[0].item()
        if kind == "string":
            text = piece(count(), 1)
            return text[:-1] if encoding.has_zero else text
        if kind == "wstring":
            return wide_text(piece(count() * encoding.wide, 1), encoding)
        nonlocal at, depth
        found = {}
        depth += 1
        if depth > _MOST_DEPTH:
            raise ValueError(f"{name}: messages are nested more than {_MOST_DEPTH} times")
        end = count() + at if encoding.delimits(types[kind]) else None
        if not types[kind] and encoding.pads_empty:
            piece(1, 1)
        for of in types[kind]:
            if of.count is not None and of.kind not in _NUMBERS and encoding.has_delimiters:
                count()
            if of.count is None:
                found[of.name] = one(of.kind)
            else:
                found[of.name] = [one(of.kind) for _ in range(count() if of.count == -1 else of.count)]
        if end is not None and at > min(end, len(data)):
            raise ValueError(f"{name}: {kind} ends within a field")
        at = at if end is None else end
        depth -= 1
        return found

    return one(name)
