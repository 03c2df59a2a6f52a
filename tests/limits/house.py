#!/usr/bin/env python3
"""Prints how the house is built: lengths, paragraphs and nesting of functions, names used twice, examples, words of the ban list.

    python3 tests/limits/house.py                       the crates of this repository
    python3 tests/limits/house.py NAME=DIR [NAME=DIR]   these trees, one column each

Counts Rust files below `src` directories (or below DIR when it has none), without tests: modules under `#[cfg(test)]`, and files
and folders named `tests`. A function's length is the lines between its braces. The figures of a regular expression: good enough
to compare two trees by, no more.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

# The words of tests/limits/banned.txt, whose phrases are held by tests/limits/wording.rs.
BANNED = (Path(__file__).with_name("banned.txt").read_text().split("[words]")[1].split("\n\n")[0]).strip().split("\n")
# Comments, strings and characters: what is not code.
NOT_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|\bb?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?\'(?:\\[^\']+|[^\\\'\n])\'', re.DOTALL
)
FUNCTION = re.compile(r"\bfn\s+(\w+)")
TYPE = re.compile(r"^\s*(?:pub(?:\([^)]*\))?\s+)?(?:struct|enum|union|trait)\s+(\w+)", re.MULTILINE)
PUBLIC = re.compile(r"^\s*pub\s+(?:const\s+|unsafe\s+|async\s+)*(?:fn|struct|enum|trait|type|mod|const|static|union)\s")


def blanked(text):
    """The code alone: everything else becomes spaces, lines stay."""
    return NOT_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def closing(code, at):
    """The place of the brace that closes the one at `at`."""
    depth = 0
    for place in range(at, len(code)):
        depth += {"{": 1, "}": -1}.get(code[place], 0)
        if depth == 0:
            return place
    return len(code)


def without_tests(text, code):
    """Both texts with modules under `#[cfg(test)]` cut out."""
    while found := re.search(r"#\[cfg\((?:all\()?test[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*(?:pub\s+)?mod\s+\w+\s*\{", code):
        end = closing(code, found.end() - 1) + 1
        text, code = text[: found.start()] + text[end:], code[: found.start()] + code[end:]
    return text, code


def bodies(text, code):
    """The bodies of all functions, without their outer lines."""
    for found in FUNCTION.finditer(code):
        opening = re.compile(r"[{;]").search(code, found.end())
        if opening and opening.group() == "{":
            yield text[opening.end() : closing(code, opening.start())].split("\n")[1:-1]


class House:
    def __init__(self):
        self.lengths, self.nesting = [], []
        self.body_lines = self.blank_lines = 0
        self.places = defaultdict(set)
        self.public = self.documented = self.with_example = 0
        self.banned = defaultdict(int)

    def enter(self, path):
        whole = path.read_text(errors="replace")
        text, code = without_tests(whole, blanked(whole))
        for body in bodies(text, code):
            self.lengths.append(len(body))
            self.body_lines += len(body)
            self.blank_lines += sum(not line.strip() for line in body)
            indents = [len(line) - len(line.lstrip()) for line in body if line.strip()]
            self.nesting.append((max(indents) - min(indents)) // 4 + 1 if indents else 0)
        for name in set(TYPE.findall(code)):
            self.places[name].add(path)
        self.read_docs(text)
        for word in BANNED:
            pattern = word.replace(" ", "[ _]")
            self.banned[word] += len(re.findall(rf"(?<![^\W_]){pattern}(?:s|en|ing)?(?![^\W_])", text, re.IGNORECASE))

    def read_docs(self, text):
        docs = []
        for line in text.split("\n"):
            if line.strip().startswith(("///", "//!")):
                docs.append(line)
            elif PUBLIC.match(line):
                self.public += 1
                self.documented += bool(docs)
                self.with_example += any("```" in doc for doc in docs)
                docs = []
            elif not line.strip().startswith("#["):
                docs = []

    def rows(self):
        share = lambda part, whole: f"{100 * part / whole:.1f} %" if whole else "-"
        at = lambda values, q: sorted(values)[min(len(values) - 1, int(q * len(values)))] if values else 0
        twice = sorted(name for name, places in self.places.items() if len(places) > 1)
        files = sum(len(self.places[name]) for name in twice)
        yield "functions", f"{len(self.lengths):,}"
        yield "their length, lines: median, p90, p99, longest", " / ".join(str(at(self.lengths, q)) for q in (0.5, 0.9, 0.99, 1))
        yield "blank lines in their bodies", share(self.blank_lines, self.body_lines)
        yield "nesting: median, p99, deepest", " / ".join(str(at(self.nesting, q)) for q in (0.5, 0.99, 1))
        yield "types that share their name, names shared", f"{files} / {len(twice)}"
        yield "public items documented", share(self.documented, self.public)
        yield "of these with an example", share(self.with_example, self.documented)
        words = ", ".join(f"`{word}` {count}" for word, count in self.banned.items() if count)
        yield "words of the ban list", words or "none"


def sources(root):
    is_test = lambda path: any(part in ("tests", "benches", "examples", "target") or part == "tests.rs" for part in path.parts)
    inner = [path for path in root.rglob("*.rs") if not is_test(path.relative_to(root))]
    return [path for path in inner if "src" in path.relative_to(root).parts] or inner


def main(arguments):
    repository = Path(__file__).resolve().parents[2]
    trees = [argument.split("=", 1) for argument in arguments] or [["onbeat", str(repository / "crates")]]
    columns = []
    for _, directory in trees:
        house = House()
        for path in sources(Path(directory)):
            house.enter(path)
        columns.append(list(house.rows()))
    print("| |" + "|".join(f" {name} " for name, _ in trees) + "|")
    print("|---|" + "--:|" * len(trees))
    for rows in zip(*columns):
        print(f"| {rows[0][0]} |" + "|".join(f" {value} " for _, value in rows) + "|")


main(sys.argv[1:])
