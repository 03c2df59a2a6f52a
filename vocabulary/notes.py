"""Tables of the fields of run files and summaries, from the Rust structs that serde writes.

docs/format.md names what it shows between two marks: `<!-- from Note::Block -->` a kind of note, `<!-- from Moments -->` a struct, which the
other tables then link to; generate.py fills in the tables. What a field means is written once, in its doc comment.

The parser reads structs line by line, as rustfmt formats them. It refuses what it cannot read and what has no doc comment: a page that
leaves out a field looks complete.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = "docs/format.md"
CRATES = ["onbeat-record", "onbeat-report", "onbeat-cause", "onbeat-host", "onbeat-figures", "onbeat-ethercat"]

PLAIN = {"String": "string", "&'static str": "string", "f64": "number", "bool": "boolean"} | {f"{sign}{bits}": "integer" for sign in "iu" for bits in (8, 16, 32, 64, "size")}
# Words with a table of their own, and the facts of a machine, which are not fields.
LINKED = {
    "Series": "[series](#series)",
    "CauseKind": "[cause](causes.md)",
    "EventKind": "[event](control.md#events)",
    "Host": "object of strings",
}
LISTS = {"Vec", "VecDeque", "BTreeSet"}
UNDERSTOOD = {"default", "skip", "skip_serializing_if", "flatten", "rename", "alias", "rename_all", "tag", "content", "other"}


class Unreadable(SystemExit):
    """A struct that this parser cannot read, in one sentence; it ends the program with status 1."""


@dataclass
class Member:
    """A field of a struct, or a variant of an enum."""

    name: str
    kind: str
    doc: str
    serde: dict = field(default_factory=dict)


@dataclass
class Item:
    """A struct or an enum that serde writes; `crate` tells two of one name apart."""

    crate: str
    keyword: str
    name: str
    doc: str
    attributes: list
    body: str


# ---- Rust ----


def serde_of(attributes, of):
    """The words of `#[serde(...)]`, each with its value.

    >>> serde_of(['#[serde(default, skip_serializing_if = "Option::is_none")]', "#[must_use]"], "Block")
    {'default': '', 'skip_serializing_if': 'Option::is_none'}
    >>> serde_of(['#[serde(untagged)]'], "Block")
    Traceback (most recent call last):
    notes.Unreadable: Block: the serde attribute `untagged` is not understood
    """
    found = {}
    for attribute in attributes:
        if inside := re.fullmatch(r"#\[serde\((.*)\)\]", attribute):
            found |= dict(re.findall(r'(\w+)(?: = "([^"]*)")?', inside[1]))
    for word in found.keys() - UNDERSTOOD:
        raise Unreadable(f"{of}: the serde attribute `{word}` is not understood")
    return found


def items(text, crate):
    """Structs and enums at the margin that derive `Serialize`.

    >>> text = "/// A limit.\\n#[derive(Clone, Serialize)]\\npub struct Limit {\\n    /// Percent.\\n    pub at: f64,\\n}\\n"
    >>> [(item.keyword, item.name, item.doc) for item in items(text, "onbeat-record")]
    [('struct', 'Limit', 'A limit.')]
    >>> list(items(text.replace("Serialize", "Debug"), "onbeat-record"))
    []
    """
    for found in re.finditer(r"((?:^(?://|#\[).*\n)*)^pub (struct|enum) (\w+) \{\n((?:^    .*\n|^\n)*)^\}", text, re.M):
        head, keyword, name, body = found.groups()
        lines = head.splitlines()
        if any(line.startswith("#[derive(") and "Serialize" in line for line in lines):
            doc = "\n".join(line[4:] for line in lines if line.startswith("///"))
            doc = re.sub("```.*?```\n\n?", "", doc, flags=re.S)
            doc = "\n\n".join(paragraph.replace("\n", " ") for paragraph in doc.split("\n\n"))
            yield Item(crate, keyword, name, doc, [line for line in lines if line.startswith("#[")], body)


def members(item):
    """Fields or variants, in the order of the source.

    >>> body = '    /// Seconds.\\n    pub t: f64,\\n    /// Cycles, or\\n    /// none.\\n    #[serde(default)]\\n    pub cycles: Option<u64>,\\n'
    >>> [(one.name, one.kind, one.doc) for one in members(Item("record", "struct", "Block", "A block.", [], body))]
    [('t', 'f64', 'Seconds.'), ('cycles', 'Option<u64>', 'Cycles, or none.')]
    >>> [(one.name, one.kind) for one in members(Item("record", "enum", "Fate", "A fate.", [], "    /// Kept.\\n    Kept,\\n    /// Who.\\n    Lost(String),\\n"))]
    [('Kept', ''), ('Lost', 'String')]
    >>> members(Item("record", "struct", "Block", "A block.", [], "    pub t: f64,\\n"))
    Traceback (most recent call last):
    notes.Unreadable: Block.t has no doc comment
    >>> members(Item("record", "struct", "Block", "A block.", [], "    /// Seconds.\\n    pub t:\\n        f64,\\n"))
    Traceback (most recent call last):
    notes.Unreadable: Block: `pub t:` is not a field that can be read
    """
    if not item.doc:
        raise Unreadable(f"{item.name} has no doc comment")
    shape = r"pub (?:r#)?(\w+): (.+)," if item.keyword == "struct" else r"(\w+)(?:\((.+)\))?(?: = \d+)?,"
    found, docs, attributes = [], [], []
    for line in map(str.strip, item.body.splitlines()):
        if line.startswith("///"):
            docs.append(line[3:].strip())
        elif line.startswith("#["):
            attributes.append(line)
        elif line and not line.startswith("//"):
            member = re.fullmatch(shape, line)
            if not member:
                raise Unreadable(f"{item.name}: `{line}` is not a {'field' if item.keyword == 'struct' else 'variant'} that can be read")
            if not docs:
                raise Unreadable(f"{item.name}.{member[1]} has no doc comment")
            serde = serde_of(attributes, f"{item.name}.{member[1]}")
            found.append(Member(serde.get("rename") or member[1], member[2] or "", " ".join(docs), serde))
            docs, attributes = [], []
    return found


class Sources:
    """The structs of some crates by name, and the other names of types."""

    def __init__(self, texts):
        """`texts` are pairs of a crate and the text of one of its files."""
        self.items, self.aliases = {}, {}
        for crate, text in texts:
            for item in items(text, crate):
                self.items.setdefault(item.name, []).append(item)
            self.aliases |= dict(re.findall(r"^pub(?:\([^)]*\))? type (\w+) = (.+);$", text, re.M))

    @classmethod
    def of_crates(cls):
        files = ((crate, path) for crate in CRATES for path in sorted((ROOT / "crates" / crate / "src").rglob("*.rs")))
        return cls((crate, path.read_text()) for crate, path in files)

    def find(self, name, near):
        """The item of a name: that of the crate `near`, where several crates have one.

        >>> Sources([]).find("Block", "onbeat-record")
        Traceback (most recent call last):
        notes.Unreadable: Block is not a struct or enum that serde writes
        """
        found = self.items.get(name, [])
        found = [item for item in found if item.crate == near] or found
        if len(found) != 1:
            raise Unreadable(f"{name} is {'the name of several structs' if found else 'not a struct or enum that serde writes'}")
        return found[0]

    def resolved(self, kind, near):
        """What JSON holds for a Rust type: words, the struct or enum in it, and how a path goes on to that.

        >>> Sources([]).resolved("Option<Vec<u64>>", "")
        ('list of integers', None, '[]')
        >>> Sources([]).resolved("BTreeMap<Series, f64>", "")
        ('numbers by [series](#series)', None, '.*')
        """
        kind = re.sub(r"\b\w+::", "", kind)
        kind = re.sub(r"\b\w+::", "", self.aliases.get(kind, kind))
        generic = re.fullmatch(r"(\w+)<(.+)>", kind)
        outer, inner = generic.groups() if generic else (kind, "")
        if outer in ("Option", "Box"):
            return self.resolved(inner, near)
        if array := re.fullmatch(r"\[(.+); \w+\]", kind):
            outer, inner = "Vec", array[1]
        if outer in LISTS:
            words, item, path = self.resolved(inner, near)
            return f"list of {plural(words)}", item, f"[]{path}"
        if outer == "BTreeMap":
            key, value = inner.split(", ", 1)
            words, item, path = self.resolved(value, near)
            return f"{plural(words)} by {self.resolved(key, near)[0]}", item, f".*{path}"
        if kind in PLAIN | LINKED:
            return (PLAIN | LINKED)[kind], None, ""
        item = self.find(kind, near)
        return ("object" if item.keyword == "struct" else "word"), item, ""


def plural(words):
    """The plural of the words for a type.

    >>> plural("integer"), plural("list of words"), plural("[series](#series)")
    ('integers', 'lists of words', '[series](#series)')
    """
    head, _, rest = words.partition(" of ")
    return words if words.endswith(")") else f"{head}s of {rest}" if rest else f"{words}s"


# ---- the page ----


def plain(doc, absent):
    """A doc comment as Markdown of the page: `None` as JSON has it, names of documents as links, without examples and hints for Rust.

    >>> plain("The [`Block`]; `None` without one. See docs/net.md#two-boards.", "`null`")
    'The `Block`; `null` without one. See [net.md](net.md#two-boards).'
    >>> plain("`None` when it was cut off.", "absent")
    'Absent when it was cut off.'
    >>> plain("Facts about the machine ([`host::machine`]).", "absent")
    'Facts about the machine.'
    """
    doc = re.sub(r" \(\[`[^`]+`\][^)]*\)", "", doc)
    doc = re.sub(r"\[(`[^`]+`)\](?:\([\w:]+\))?", r"\1", doc)
    doc = re.sub(r"(^|\. )`None`", lambda found: found[1] + absent.capitalize(), doc).replace("`None`", absent)
    return re.sub(r"docs/([\w-]+\.md)(#[\w-]+)?", r"[\1](\1\2)", doc)


def cased(name, rule):
    """A variant as serde writes it.

    >>> cased("PartDied", "snake_case"), cased("Pass", "UPPERCASE"), cased("Up", "")
    ('part_died', 'PASS', 'Up')
    """
    if rule in ("snake_case", "kebab-case"):
        return re.sub(r"(?<!^)(?=[A-Z])", "_" if rule == "snake_case" else "-", name).lower()
    return name.upper() if rule == "UPPERCASE" else name


def words_of(item):
    """The words of an enum, each with its meaning."""
    rule = serde_of(item.attributes, item.name).get("rename_all", "")
    known = [one for one in members(item) if "other" not in one.serde]
    return "".join(f"<br>`{one.serde.get('rename') or cased(one.name, rule)}`: {plain(one.doc, 'absent')}" for one in known)


class Table:
    """The rows of one struct; structs in it are flattened into paths, unless they have a table of their own."""

    def __init__(self, sources, own):
        self.sources, self.own, self.rows, self.seen = sources, own, [], {}

    def add(self, name, words, meaning):
        self.rows.append("|" + "|".join(f" {cell.replace('|', chr(92) + '|')} " for cell in (f"`{name}`", words, meaning)) + "|\n")

    def add_fields(self, item, path=""):
        for one in members(item):
            if "skip" in one.serde:
                continue
            words, inner, rest = self.sources.resolved(one.kind, item.crate)
            if "flatten" in one.serde:
                self.add_flattened(inner, path)
                continue
            may_be_absent = "default" in one.serde or "skip_serializing_if" in one.serde
            meaning = plain(one.doc, "absent" if "skip_serializing_if" in one.serde else "`null`")
            if one.kind.startswith("Option<") and "skip_serializing_if" not in one.serde:
                words += " or `null`"
            place = f"{path}{one.name}"
            if inner and inner.name in self.own:
                words = re.sub("objects?|words?", self.own[inner.name], words, count=1)
            elif inner and inner.name in self.seen:
                meaning += f" As `{self.seen[inner.name]}`."
            elif inner and inner.keyword == "enum":
                meaning += words_of(inner)
            self.add(place + ("?" if may_be_absent else ""), words, meaning)
            if inner and inner.name not in self.own.keys() | self.seen.keys():
                self.seen[inner.name] = place + rest
                if inner.keyword == "struct":
                    self.add_fields(inner, f"{place}{rest}.")

    def add_flattened(self, inner, path):
        """Fields without a name in between: of a struct its fields, of an enum with `tag` and `content` these two."""
        if inner.keyword == "struct":
            return self.add_fields(inner, path)
        serde = serde_of(inner.attributes, inner.name)
        if not {"tag", "content"} <= serde.keys():
            raise Unreadable(f"{inner.name}: a flattened enum needs `tag` and `content`")
        self.add(path + serde["tag"], "word", plain(inner.doc, "absent") + words_of(inner))
        named = [f"`{cased(one.name, serde.get('rename_all', ''))}`" for one in members(inner) if one.kind]
        self.add(path + serde["content"] + "?", "string", f"Of {', '.join(named)}.")
        return None


def shown(mark, sources):
    """The struct of a mark and the heading of its table: of `Note::Block` the struct `Block` and `block`."""
    if not mark.startswith("Note::"):
        return sources.find(mark, "onbeat-record"), mark
    variants = {one.name: one for one in members(sources.find("Note", "onbeat-record"))}
    if mark[6:] not in variants:
        raise Unreadable(f"{PAGE}: Note has no variant {mark[6:]}")
    return sources.resolved(variants[mark[6:]].kind, "onbeat-record")[1], f"`{cased(mark[6:], 'snake_case')}`"


def section(item, title, sources, links):
    """Heading, doc comment and table of one struct.

    >>> text = "/// A limit.\\n#[derive(Serialize)]\\npub struct Limit {\\n    /// Percent; `None` without one.\\n    pub at: Option<f64>,\\n}\\n"
    >>> sources = Sources([("onbeat-record", text)])
    >>> print(section(sources.find("Limit", ""), "Limit", sources, {}).splitlines()[-1])
    | `at` | number or `null` | Percent; `null` without one. |
    """
    table = Table(sources, {name: link for name, link in links.items() if name != item.name})
    table.add_fields(item)
    return f"### {title}\n\n{plain(item.doc, 'absent')}\n\n| field | type | meaning |\n|---|---|---|\n{''.join(table.rows)}"


def filled(page, sources):
    """The page with its tables; every kind of note has one."""
    marks = re.findall(r"^<!-- from ([\w:]+) -->$", page, re.M)
    missing = {f"Note::{one.name}" for one in members(sources.find("Note", "onbeat-record"))} - set(marks)
    if missing:
        raise Unreadable(f"{PAGE} lacks the line `<!-- from {min(missing)} -->`")

    of_marks = {mark: shown(mark, sources) for mark in marks}
    links = {item.name: f"[{title}](#{title.strip('`').lower()})" for item, title in of_marks.values()}
    for mark, (item, title) in of_marks.items():
        first, last = f"<!-- from {mark} -->\n", f"<!-- end of {mark} -->\n"
        head, _, rest = page.partition(first)
        _, ended, tail = rest.partition(last)
        if not ended:
            raise Unreadable(f"{PAGE} lacks the line `{last.strip()}`")
        page = f"{head}{first}{section(item, title, sources, links)}{last}{tail}"
    return page
