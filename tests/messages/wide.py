"""Messages with wide texts, as Fast CDR 2 lays them out: the number of units of UTF-16, then the units.

    wide.py FOLDER COUNT      writes random ones; the generated class has the same values and bytes
"""

import random
import struct
import sys
from pathlib import Path

folder, count = Path(sys.argv[1]), int(sys.argv[2])
sys.path.insert(0, str(folder))
(code,) = folder.glob("*.py")
module = __import__(code.stem)
dice = random.Random(1)


def text(most):
    letters = "".join(dice.choice("ab äß漢🤖") for _ in range(dice.randrange(12)))
    while most and len(letters.encode("utf-16-le")) > 2 * most:
        letters = letters[:-1]
    return letters


def encoded(fields):
    body = bytearray()

    def number(value):
        body.extend(bytes(-len(body) % 4) + struct.pack("<I", value))

    for value in fields:
        if isinstance(value, list):
            number(len(value))
        for one in value if isinstance(value, (list, tuple)) else [value]:
            number(len(one.encode("utf-16-le")) // 2)
            body.extend(one.encode("utf-16-le"))
    return b"\0\1\0\0" + bytes(body)


same = 0
with code.with_suffix(".bin").open("wb") as out:
    for _ in range(count):
        three = tuple(text(0) for _ in range(3))
        few, any_ = ([text(most) for _ in range(dice.randrange(3))] for most in (4, 0))
        fields = [text(0), text(5), three, few, any_]
        data = encoded(fields)
        own = module.Wide.decode(data)
        found = [own.one, own.short, tuple(own.three), own.few, own.any]
        assert found == fields and own.encode() == data, f"{fields} {found}"
        out.write(struct.pack("<I", len(data)) + data)
        same += 1
for field, wrong in (("short", "abcdef"), ("few", ["🤖🤖🤖"]), ("few", ["a"] * 3)):
    own = module.Wide(three=["", "", ""])
    setattr(own, field, wrong)
    try:
        own.encode()
        raise SystemExit(f"{field} may have {wrong}")
    except ValueError:
        pass
print(same)
