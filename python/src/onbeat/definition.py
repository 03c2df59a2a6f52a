"""Message definitions in the `.msg` language, as a ring carries them, and numpy types for their bytes."""

import re
from dataclasses import dataclass

import numpy as np

from .errors import OnbeatError

_NUMBERS = {
    "bool": "?",
    "byte": "u1",
    "char": "u1",
    "int8": "i1",
    "uint8": "u1",
    "int16": "<i2",
    "uint16": "<u2",
    "int32": "<i4",
    "uint32": "<u4",
    "int64": "<i8",
    "uint64": "<u8",
    "float32": "<f4",
    "float64": "<f8",
}
_HEADER_BYTES = 4


#: What a definition that anyone may have written can ask for: fields after all inner messages are written out, and depth.
_MOST_FIELDS, _MOST_DEPTH = 20_000, 64


class TypeMismatch(OnbeatError):
    """The type of a channel cannot be read as it was asked for."""

    code = "onbeat:type"


@dataclass(frozen=True)
class Field:
    """A field of a message: `kind` is a number, `string`, `wstring`, or the name of a message."""

    name: str
    kind: str
    #: None for a single value, a number for an array, -1 for a sequence.
    count: int | None


class Fields(list[Field]):
    """Fields of a structure of IDL, and the annotation that says whether XCDR2 has the length of one before it."""

    def __init__(self, fields: list[Field], extensibility: str):
        super().__init__(fields)
        self.extensibility = extensibility


#: Types that a definition may use without defining them: readers of MCAP know them.
_TIMES = {
    f"builtin_interfaces/msg/{name}": [Field("sec", "int32", None), Field("nanosec", "uint32", None)] for name in ("Time", "Duration")
}


def parse(name: str, text: str) -> dict[str, list[Field]]:
    """Returns the fields of the type `name` and of all types behind it in the text of a schema.

    Raises `TypeMismatch` for a type that is not defined, that contains itself, or has more than 20,000 fields.
    """
    parts = re.split(r"^={3,}[ \t]*\r?\nMSG: *(.+)(?:\n|\Z)", text, flags=re.MULTILINE)
    types = {name: _fields(name, parts[0])}
    for other, definition in zip(parts[1::2], parts[2::2], strict=True):
        full = _full_name(other.strip(), name)
        types[full] = _fields(full, definition)
    types = _TIMES | types
    check(types, name)
    return types


def check(types: dict[str, list[Field]], name: str) -> bool:
    """Raises `TypeMismatch` for a type that is not complete, or larger than any message's; returns whether a list of a type
    holds the type itself, as LCM permits it."""
    sizes: dict[str, int] = {}
    is_recursive = False

    def size(of: str, above: tuple[tuple[str, bool], ...]) -> int:
        nonlocal is_recursive
        names = [other for other, _ in above]
        if of in names:
            if not any(is_list for _, is_list in above[names.index(of) :]):
                raise TypeMismatch(f"the type {of} contains itself")
            is_recursive = True
            return 0
        if of.startswith("@"):
            raise TypeMismatch(f"{above[-1][0]} is or has {of[1:]}, which is not read")
        if of not in types:
            raise TypeMismatch(f"the type {of} is not defined in the schema of the channel")
        if len(above) > _MOST_DEPTH:
            raise TypeMismatch(f"the type {name} is nested more than {_MOST_DEPTH} times")
        if of not in sizes:
            inner = [field for field in types[of] if not is_plain(field.kind)]
            # Messages count too: those without fields could be any number.
            own = len(types[of])
            sizes[of] = own + sum(size(field.kind, (*above, (of, field.count == -1))) for field in inner)
            if sizes[of] > _MOST_FIELDS:
                raise TypeMismatch(f"the type {of} has more than {_MOST_FIELDS} fields")
        return sizes[of]

    size(name, ())
    return is_recursive


def is_plain(kind: str) -> bool:
    """Returns whether a kind is a number or a text."""
    return kind in _NUMBERS or kind in ("string", "wstring")


def _full_name(name: str, user: str) -> str:
    parts = name.split("/")
    package = parts[0] if len(parts) > 1 else user.split("/")[0]
    return f"{package}/msg/{parts[-1]}"


def _fields(of: str, text: str) -> list[Field]:
    fields = []
    for number, line in enumerate(text.splitlines(), 1):
        code = line.split("#")[0].strip()
        if not code or re.match(r"[\w/]+(?:<=\d+)?\s+[A-Za-z]\w*\s*=", code):
            continue
        match = re.match(r"([\w/]+(?:<=\d+)?)(\[[^\]]*\])?\s+([A-Za-z]\w*)\b", code)
        if not match:
            raise TypeMismatch(f"{of}, line {number}: `{code}` is not a field")
        kind, several, name = match.groups()
        kind = kind.split("<=")[0]
        if not is_plain(kind):
            kind = _full_name(kind, of)
        count = None
        if several is not None:
            number_of = several[1:-1].strip()
            count = int(number_of) if number_of.isdigit() else -1
        fields.append(Field(name, kind, count))
    return fields


#: A unit of UTF-16 of a wide text.
_UNIT = np.dtype("<u2", metadata={"wide": True})


def texts_of(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Returns the values of a field as they are, or the texts of a field of wide text."""
    if not (dtype.base.metadata or {}).get("wide"):
        return values
    texts = np.empty(len(values), object)
    texts[:] = [units.tobytes().decode("utf-16-le", "replace") for units in values]
    return texts


class Layout:
    """Where the fields of a message are, as long as its texts and sequences keep their lengths.

    The messages of a robot have the lengths of its joints and of its process image, so one layout serves all of
    them, and reading a thousand is one numpy view.
    """

    def __init__(self, types: dict[str, list[Field]], name: str, message: bytes):
        self._types = types
        self._message = message
        self._at = 0
        self._names: list[str] = []
        self._formats: list = []
        self._offsets: list[int] = []
        #: Offsets of the numbers of elements, which must be the same in all messages.
        self._counts: list[int] = []
        if message[:2] != b"\x00\x01":
            raise TypeMismatch(f"{name}: the message does not begin with 00 01: it is not CDR, little-endian")
        self._message_fields(name, "")
        if self._at + _HEADER_BYTES > len(message):
            raise TypeMismatch(f"{name}: the message of {len(message)} bytes is not complete")
        self.bytes = len(message)
        #: Bytes up to the end of the last field.
        self.end = self._at + _HEADER_BYTES
        self.dtype = np.dtype(
            {
                "names": self._names,
                "formats": self._formats,
                "offsets": self._offsets,
                "itemsize": len(message),
            }
        )

    def fits(self, messages: np.ndarray) -> np.ndarray:
        """Returns for each row of bytes whether its texts and sequences have the lengths of this layout."""
        same = np.ones(len(messages), dtype=bool)
        for at in self._counts:
            own = np.frombuffer(self._message[at : at + 4], dtype="u1")
            same &= (messages[:, at : at + 4] == own).all(axis=1)
        return same

    def _align(self, size: int) -> None:
        self._at += -self._at % size

    def _count(self) -> int:
        self._align(4)
        at = self._at + _HEADER_BYTES
        self._counts.append(at)
        self._at += 4
        count = int.from_bytes(self._message[at : at + 4], "little")
        # Each element has a byte at least.
        if count > len(self._message):
            raise TypeMismatch(f"a list or text of {count} elements in a message of {len(self._message)} bytes")
        return count

    def _message_fields(self, name: str, prefix: str) -> None:
        fields = self._types.get(name)
        if fields is None:
            raise TypeMismatch(f"the type {name} is not defined in the schema of the channel")
        for field in fields:
            path = prefix + field.name
            if field.count is None and not is_plain(field.kind):
                self._message_fields(field.kind, path + ".")
                continue
            count = self._count() if field.count == -1 else field.count
            if field.kind in _NUMBERS:
                self._numbers(path, field.kind, count)
            else:
                for place in range(1 if count is None else count):
                    indexed = path if count is None else f"{path}[{place}]"
                    if field.kind == "string":
                        self._text(indexed)
                    elif field.kind == "wstring":
                        self._wide_text(indexed)
                    else:
                        self._message_fields(field.kind, indexed + ".")
        if not fields:
            self._at += 1

    def _numbers(self, path: str, kind: str, count: int | None) -> None:
        number = np.dtype(_NUMBERS[kind])
        if count != 0:
            self._align(number.itemsize)
        self._add(path, number if count is None else (number, (count,)))
        self._at += number.itemsize * (1 if count is None else count)

    def _text(self, path: str) -> None:
        length = self._count()
        self._add(path, f"S{max(length - 1, 1)}" if length > 1 else "S1")
        self._at += length

    def _wide_text(self, path: str) -> None:
        units = self._count()
        self._add(path, (_UNIT, (units,)))
        self._at += 2 * units

    def _add(self, path: str, format_) -> None:
        self._names.append(path)
        self._formats.append(format_)
        self._offsets.append(self._at + _HEADER_BYTES)
