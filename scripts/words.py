#!/usr/bin/env python3
"""Counts the words of the documentation that people wrote; the exit status is 1 above the goal.

Left out: blocks of code and output, and what is generated from vocabulary/ or the catalogue of tunings, between the marks
`<!-- generated ... -->` and `<!-- end ... -->`.

usage: words.py [--each]   prints the sum, with --each the words of every page
"""

import pathlib
import re
import sys

GOAL = 45_000
ROOT = pathlib.Path(__file__).resolve().parent.parent
# Tables of the catalogue, written by ONBEAT_BLESS.
GENERATED = {"docs/tunings.md"}


def written(text: str) -> int:
    """Words outside blocks of code and of generated tables.

    >>> written("one two\\n```\\nthree\\n```\\n<!-- from vocabulary/x.toml -->\\nfour\\n<!-- end of vocabulary/x.toml -->\\n| a | `b c` |")
    5
    """
    text = re.sub(r"<!-- from (\S+) -->.*?<!-- end of \1 -->", "", text, flags=re.S)
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.S | re.M)
    # Signs of tables and lists are no words.
    return sum(1 for word in text.split() if re.search(r"\w", word))


def main() -> int:
    pages = [ROOT / "README.md", ROOT / "GLOSSARY.md", *sorted((ROOT / "docs").rglob("*.md"))]
    counts = {str(page.relative_to(ROOT)): written(page.read_text()) for page in pages}
    counts = {name: words for name, words in counts.items() if name not in GENERATED}
    if "--each" in sys.argv:
        for name, words in sorted(counts.items(), key=lambda one: one[1]):
            print(f"{words:6} {name}")
    total = sum(counts.values())
    print(f"{total} words in {len(counts)} pages, goal {GOAL}")
    return 0 if total <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
