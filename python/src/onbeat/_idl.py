"""Definitions in IDL (OMG IDL 4.2), as far as rosidl and Fast DDS use it: structures, enumerations, constants and typedefs."""

import ast
import re

from .definition import Field, Fields, TypeMismatch

_NUMBERS = {
    "boolean": "bool",
    "octet": "uint8",
    "char": "uint8",
    "int8": "int8",
    "uint8": "uint8",
    "short": "int16",
    "int16": "int16",
    "unsigned short": "uint16",
    "uint16": "uint16",
    "long": "int32",
    "int32": "int32",
    "unsigned long": "uint32",
    "uint32": "uint32",
    "long long": "int64",
    "int64": "int64",
    "unsigned long long": "uint64",
    "uint64": "uint64",
    "float": "float32",
    "double": "float64",
}
#: A comment, or in a group a word: a text can have what begins a comment elsewhere, such as an address.
_WORD = re.compile(
    r'//[^\n]*|/\*.*?\*/|^[ \t]*#[^\n]*'
    r'|("(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'|[A-Za-z_]\w*|::|0[xX][0-9a-fA-F]+|\d[\w.+]*|\S)',
    re.DOTALL | re.MULTILINE,
)
#: A name in an expression, with its modules; 0x begins none. Of other numbers, a zero begins those to the base 8.
_NAME = re.compile(r"(?<!\w)(?:::)?[A-Za-z_]\w*(?:::\w+)*")
_OCTAL = re.compile(r"(?<![\w.])0+(?=[0-9])")


def parse(text: str) -> dict[str, list[Field]]:
    """Returns the fields of all structures, by names such as `std_msgs/msg/Float64`."""
    # rosbag2 writes the file of a type before those that it needs; others write it behind them.
    files = re.split(r"^={3,}\s*\nIDL:.*$", text, flags=re.MULTILINE)[::-1]
    files = [re.sub(r"^={3,}[ \t\r]*$|^IDL:.*$", "", file, flags=re.MULTILINE) for file in files]
    parser = _Parser([word for file in files for word in _WORD.findall(file) if word])
    for _ in files[1:]:
        if not parser.learn():
            break
    return parser.types()


class _Parser:
    def __init__(self, words: list[str]):
        self._words, self._at = words, 0
        self._module: list[str] = []
        self._types: dict[str, list[Field] | Fields] = {}
        #: Kind and dimensions of typedefs; enumerations are numbers.
        self._names: dict[str, tuple[str, list[int | None]]] = {}
        #: Whole numbers and the names of enumerations, with their modules.
        self._constants: dict[str, int] = {}
        self._extra = 0
        self._is_learning = False

    def learn(self) -> bool:
        """Reads what earlier files may need of later ones; returns whether that was anything new."""
        before = dict(self._types), dict(self._names), dict(self._constants)
        self._is_learning = True
        self.types()
        self._is_learning = False
        return before != (self._types, self._names, self._constants)

    def types(self) -> dict[str, list[Field]]:
        self._at = self._extra = 0
        while self._at < len(self._words):
            self._declaration()
        return self._types

    def _peek(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    def _next(self) -> str:
        word = self._peek()
        self._at += 1
        return word

    def _expect(self, wanted: str) -> None:
        found = self._next()
        if found != wanted:
            near = " ".join(self._words[max(self._at - 5, 0) : self._at])
            raise TypeMismatch(f"the IDL needs `{wanted}` where it has `{found}`, after `{near}`")

    def _annotations(self) -> list[str]:
        found = []
        while self._peek() == "@":
            self._next()
            begin = self._at
            self._next()
            while self._peek() == "::":
                self._next()
                self._next()
            if self._peek() == "(":
                depth = 0
                while True:
                    word = self._next()
                    depth += (word == "(") - (word == ")")
                    if depth == 0 or not word:
                        break
            found.append("".join(self._words[begin : self._at]).lower())
        return found

    def _declaration(self) -> None:
        annotations = self._annotations()
        word = self._next()
        match word:
            case "module":
                self._module.append(self._next())
                self._expect("{")
                while self._peek() not in ("}", ""):
                    self._declaration()
                self._expect("}")
                self._module.pop()
            case "struct":
                name = self._full(self._peek())
                self._struct()
                kinds = ("final", "appendable", "mutable")
                of = [kind for kind in kinds if any(it.removeprefix("extensibility").strip("()") == kind for it in annotations)]
                if of == ["mutable"]:
                    # Each member has a header in the record.
                    self._types[name] = [Field("mutable", "@mutable", None)]
                elif name in self._types:
                    self._types[name] = Fields(self._types[name], "".join(of))
            case "typedef":
                kind, shape = self._kind()
                while True:
                    name = self._full(self._next())
                    self._names[name] = (kind, self._dimensions() + shape)
                    if self._peek() != ",":
                        break
                    self._next()
            case "enum" | "bitmask":
                name = self._next()
                # DDS-XTypes 1.3, 7.3.1.2.1.2 and 7.3.1.2.1.9.
                bound = [re.sub(r"\D", "", it) for it in annotations if it.startswith("bit_bound")]
                bits = int("".join(bound) or 32)
                wide = next((wide for wide in (8, 16, 32) if bits <= wide), 64)
                self._names[self._full(name)] = (f"uint{wide}", [])
                self._expect("{")
                self._enumerators(name)
            case "union" | "bitset" | "interface" | "valuetype" | "exception" | "native":
                # Types without it can be read.
                self._types[self._full(self._peek())] = [Field(word, f"@{word}", None)]
                self._skip_block()
            case "const":
                self._kind()
                name = self._next()
                self._expect("=")
                number = self._number_until(";")
                if number is not None:
                    self._constants[self._full(name)] = number
                return
            case ";":
                return
            case _:
                raise TypeMismatch(f"`{word}` of the IDL is not read; structures, enumerations, constants and typedefs are")
        if self._peek() == ";":
            self._next()

    def _skip_block(self) -> None:
        depth = 0
        while self._peek() and not (depth == 0 and self._peek() == ";"):
            word = self._next()
            depth += (word == "{") - (word == "}")

    def _enumerators(self, of: str) -> None:
        number = 0
        while self._peek() not in ("}", ""):
            for it in self._annotations():
                # `@value(3)` or `@value(value=3)`; those that follow count on.
                if re.fullmatch(r"value\((value=)?-?\w+\)", it):
                    number = int(re.split(r"[(=]", it)[-1].rstrip(")"), 0)
            word = self._next()
            if word != ",":
                self._constants[self._full(word)] = self._constants[self._full(f"{of}/{word}")] = number
                number += 1
        self._expect("}")

    def _number_until(self, end: str) -> int | None:
        """The whole number of a constant expression; None for another value, which is of no use as a length."""
        words = []
        while self._peek() not in (end, ""):
            words.append(self._next())
        self._expect(end)
        text = "".join(words)
        if '"' in text or "'" in text:
            return None
        try:
            text = _NAME.sub(lambda name: f"({self._constant(name[0])})", text)
            return _computed(ast.parse(_OCTAL.sub("0o", text), mode="eval").body)
        except (ValueError, ArithmeticError, LookupError, SyntaxError, RecursionError, MemoryError):
            return None

    def _constant(self, name: str) -> int:
        """The constant of the nearest module that has one of this name."""
        own = name.removeprefix("::").replace("::", "/")
        for depth in range(0 if name.startswith("::") else len(self._module), -1, -1):
            full = "/".join([*self._module[:depth], own])
            if full in self._constants:
                return self._constants[full]
        raise LookupError

    def _full(self, name: str) -> str:
        return "/".join([*self._module, name])

    def _struct(self) -> None:
        name = self._full(self._next())
        fields: list[Field] = []
        if self._peek() == ":":
            self._next()
            parent = self._known(self._scoped())
            parent, _ = self._names.get(parent, (parent, []))
            # Without its fields, those behind them are elsewhere.
            fields += self._types.get(parent, [Field("parent", parent, None)])
        if self._peek() == ";":
            return
        self._expect("{")
        while self._peek() not in ("}", ""):
            annotations = self._annotations()
            kind, shape = self._kind()
            if any(it.startswith("optional") and "false" not in it for it in annotations):
                # It has a header in the record: types with it are not read, others of the text are.
                kind, shape = "@optional", []
            while True:
                self._annotations()
                own = self._next()
                fields.append(self._field(own, kind, self._dimensions() + shape))
                if self._peek() != ",":
                    break
                self._next()
            self._expect(";")
        self._expect("}")
        # IDL has no empty structures: rosidl writes this member.
        if [field.name for field in fields] == ["structure_needs_at_least_one_member"]:
            fields = []
        self._types[name] = fields

    def _field(self, name: str, kind: str, shape: list[int | None]) -> Field:
        """A list of lists is a list of messages with one field."""
        if not shape:
            return Field(name, kind, None)
        count = -1 if shape[0] is None else shape[0]
        if len(shape) == 1:
            return Field(name, kind, count)
        if all(isinstance(one, int) for one in shape):
            whole = 1
            for one in shape:
                whole *= one
            return Field(name, kind, whole)
        self._extra += 1
        inner = f"(list {self._extra})"
        self._types[inner] = Fields([self._field("items", kind, shape[1:])], "final")
        return Field(name, inner, count)

    def _dimensions(self) -> list[int | None]:
        found: list[int | None] = []
        while self._peek() == "[":
            self._next()
            found.append(self._length("]"))
        return found

    def _length(self, end: str) -> int:
        number = self._number_until(end)
        if number is None or number < 0:
            if self._is_learning:
                return 0
            raise TypeMismatch("a length in the IDL is not a number or a constant")
        return number

    def _scoped(self) -> str:
        if self._peek() == "::":
            self._next()
        parts = [self._next()]
        while self._peek() == "::":
            self._next()
            parts.append(self._next())
        return "/".join(parts)

    def _known(self, name: str) -> str:
        """The name of a type as seen from the module."""
        for depth in range(len(self._module), -1, -1):
            full = "/".join([*self._module[:depth], name])
            if full in self._types or full in self._names:
                return full
        # One that is only declared so far is of this module.
        return name if "/" in name else self._full(name)

    def _kind(self) -> tuple[str, list[int | None]]:
        """A type, with the dimensions that its name has by itself."""
        if self._peek() == "sequence":
            self._next()
            self._expect("<")
            kind, shape = self._kind()
            if self._peek() == ",":
                self._next()
                self._length(">")
            else:
                self._expect(">")
            return kind, [None, *shape]
        if self._peek() in ("string", "wstring"):
            word = self._next()
            if self._peek() == "<":
                self._next()
                self._length(">")
            return word, []
        words = []
        while self._peek() in ("unsigned", "long", "short", "double", *_NUMBERS):
            words.append(self._next())
        if words:
            word = " ".join(words)
            return _NUMBERS.get(word, f"@{word}"), []
        if self._peek() in ("map", "any", "fixed", "wchar"):
            word, depth = self._next(), 0
            while self._peek() == "<" or depth > 0 and self._peek():
                sign = self._next()
                depth += (sign == "<") - (sign == ">")
            return f"@{word}", []
        name = self._known(self._scoped())
        kind, shape = self._names.get(name, (name, []))
        return kind, list(shape)


def _computed(of: ast.expr) -> int:
    """The value of an expression of whole numbers; Python ranks their operators as IDL does."""
    match of:
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=op, operand=inner):
            value = _computed(inner)
            return -value if isinstance(op, ast.USub) else ~value if isinstance(op, ast.Invert) else value
        case ast.BinOp(left=left, op=op, right=right):
            one, two = _computed(left), _computed(right)
            match op:
                case ast.Div() | ast.Mod():
                    # Towards zero, unlike Python's.
                    whole = abs(one) // abs(two) * (1 if (one < 0) == (two < 0) else -1)
                    return whole if isinstance(op, ast.Div) else one - whole * two
                case ast.BitOr():
                    return one | two
                case ast.BitXor():
                    return one ^ two
                case ast.BitAnd():
                    return one & two
                case ast.LShift() if two < 64:
                    return one << two
                case ast.RShift():
                    return one >> two
                case ast.Add():
                    return one + two
                case ast.Sub():
                    return one - two
                case ast.Mult():
                    return one * two
    raise ValueError
