#!/usr/bin/env python3
"""Builds the documentation as a site, target/site, from the same files that are read in the repository.

docs/index.md is the contents: its four parts become the navigation, so a page that it does not list fails the build. Pages of
the command line are made from the program's own help (tests/golden/help), pages of series and causes from vocabulary/. Links to
files outside the documentation become text. MkDocs checks the links that are left; a warning fails the build.

usage: site.py MKDOCS   the program mkdocs, such as that of a virtual environment
"""

import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "target" / "site-source"
SITE = ROOT / "target" / "site"
# Pages that are kept outside docs/, by their name on the site.
OUTSIDE = {"README.md": "start.md", "GLOSSARY.md": "glossary.md"}
PARTS = ("Start", "How to", "Reference", "Explanation")


def place(path: str) -> str | None:
    """The page or picture of the site for a file of the repository, None for one that is not on it.

    >>> place("docs/guide/bench.md"), place("README.md"), place("crates/onbeat/src/lib.rs")
    ('guide/bench.md', 'start.md', None)
    """
    if path in OUTSIDE:
        return OUTSIDE[path]
    return path[len("docs/"):] if path.startswith("docs/") and (ROOT / path).is_file() else None


def relinked(text: str, path: str) -> str:
    """The text of a page with links as they are on the site.

    >>> relinked("[a](../README.md#x) [b](https://c.d) [e](../Cargo.toml)", "docs/index.md")
    '[a](start.md#x) [b](https://c.d) e'
    """
    here = place(path) or path

    def link(match: re.Match) -> str:
        sign, words, target = match[1], match[2], match[3]
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            return match[0]
        file, _, anchor = target.partition("#")
        full = os.path.normpath(os.path.join(os.path.dirname(path), file))
        there = place(full)
        if there is None:
            assert (ROOT / full).exists(), f"{path}: {target} does not exist"
            return words
        relative = os.path.relpath(there, os.path.dirname(here) or ".")
        return f"{sign}[{words}]({relative}{'#' + anchor if anchor else ''})"

    parts = re.split(r"(^ *```.*?^ *```[^\n]*$)", text, flags=re.S | re.M)
    prose = [re.sub(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)", link, part) for part in parts[::2]]
    parts[::2] = prose
    return "".join(parts)


def contents() -> list[tuple[str, list[tuple[str, str]]]]:
    """The parts of docs/index.md, each with the titles and files of its pages."""
    text = (ROOT / "docs/index.md").read_text()
    parts = []
    for heading, body in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, flags=re.S | re.M):
        pages = re.findall(r"^- \[(.+?)\]\((.+?)\)$", body, flags=re.M)
        parts.append((heading, [(title, os.path.normpath(os.path.join("docs", file))) for title, file in pages]))
    assert tuple(name for name, _ in parts) == PARTS, parts
    return parts


def write(name: str, text: str) -> None:
    path = SOURCE / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def commands() -> str:
    """The help of every command."""
    pages = ["# Commands\n\nThe help of every command, as `--help-all` prints it.\n"]
    for file in sorted((ROOT / "tests/golden/help").glob("*.txt")):
        name = file.stem.replace("-", " ").replace("read write", "read-write")
        pages.append(f"## {name}\n\n<pre>{html.escape(file.read_text())}</pre>\n")
    return "\n".join(pages)


def vocabulary(name: str, title: str, columns: list[tuple[str, str]], key: str) -> str:
    """A table of the rows of a file of the vocabulary."""
    rows = tomllib.loads((ROOT / "vocabulary" / name).read_text())[key]
    heads = " | ".join(head for head, _ in columns)
    lines = [f"# {title}\n", f"| {heads} |", "|" + "---|" * len(columns)]
    for row in rows:
        cells = [str(row.get(field, "")).replace("|", "\\|").replace("\n", " ") for _, field in columns]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def generated() -> list[tuple[str, str, str]]:
    """Title, name and text of the pages that no file holds."""
    series = vocabulary("series.toml", "Series", SERIES, "series")
    causes = vocabulary("causes.toml", "Causes", CAUSES, "cause")
    return [
        ("Commands and options", "commands.md", commands()),
        ("Series", "series.md", series),
        ("Causes", "causes-list.md", causes),
    ]


SERIES = [("series", "words"), ("tag", "tag"), ("meaning", "meaning")]
CAUSES = [("cause", "words"), ("in run files", "kind"), ("meaning", "doc")]


def build(mkdocs: str) -> int:
    shutil.rmtree(SOURCE, ignore_errors=True)
    listed = {file for _, pages in contents() for _, file in pages}
    present = {str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")} - {"docs/index.md"}
    missing = sorted(present - listed) + sorted(file for file in listed if place(file) is None)
    if missing:
        print("docs/index.md does not list:", *missing)
        return 1

    for file in [*sorted(present | set(OUTSIDE)), "docs/index.md"]:
        write(place(file), relinked((ROOT / file).read_text(), file))
    for picture in (ROOT / "docs").rglob("*"):
        if picture.is_file() and picture.suffix != ".md":
            target = SOURCE / picture.relative_to(ROOT / "docs")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(picture, target)

    pages = generated()
    for _, name, text in pages:
        write(name, text)

    lines = ["site_name: onbeat", f"docs_dir: {SOURCE}", f"site_dir: {SITE}", "use_directory_urls: false"]
    lines += ["theme:", "  name: readthedocs", "  highlightjs: false", "plugins: [search]"]
    lines += ["validation:", "  links:", "    anchors: warn", "    unrecognized_links: warn", "nav:", "  - index.md"]
    for heading, entries in contents():
        lines.append(f"  - {heading}:")
        own = [(title, place(file)) for title, file in entries]
        own += [(title, name) for title, name, _ in pages] if heading == "Reference" else []
        lines += [f"    - {json.dumps(title)}: {name}" for title, name in own]
    config = SOURCE.parent / "mkdocs.yml"
    config.write_text("\n".join(lines) + "\n")
    return subprocess.run([mkdocs, "build", "--strict", "--config-file", config], check=False).returncode


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(build(sys.argv[1]))
