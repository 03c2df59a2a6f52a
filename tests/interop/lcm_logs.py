"""150 structs in the manner of real projects: a log of LCM with random messages of each, by the classes of LCM's own lcm-gen,
becomes MCAP with the same values.

    lcm_logs.py ONBEAT FOLDER
"""

import importlib
import json
import random
import subprocess
import sys
import warnings
from pathlib import Path

import lcm
import onbeat

sys.path.insert(0, str(Path(__file__).parent.parent / "messages"))
import all_compile  # noqa: E402

SCALARS = {"int8_t": 7, "int16_t": 15, "int32_t": 31, "int64_t": 63}


def value(dice, package, of, depth):
    if of in SCALARS:
        return dice.randint(-(1 << SCALARS[of]), (1 << SCALARS[of]) - 1)
    if of == "byte":
        return dice.randrange(256)
    if of == "boolean":
        return bool(dice.getrandbits(1))
    if of in ("float", "double"):
        return dice.randint(-1000, 1000) / 8
    if of == "string":
        return "".join(dice.choice("ab ä€") for _ in range(dice.randrange(6)))
    return message(dice, package, of.split(".")[-1], depth + 1)


def message(dice, package, name, depth=0):
    made = getattr(package, name)()
    made.nItems = dice.randint(0, 3) if depth < 2 else 0
    for field, of, sizes in zip(made.__slots__, made.__typenames__, made.__dimensions__, strict=True):
        if field == "nItems":
            continue
        if not sizes:
            setattr(made, field, value(dice, package, of, depth))
            continue

        def several(sizes, of=of):
            count = made.nItems if sizes[0] == "nItems" else sizes[0]
            # lcm-gen in Python writes the name of a constant as it stands.
            count = getattr(made, count) if isinstance(count, str) else count
            if len(sizes) > 1:
                return [several(sizes[1:]) for _ in range(count)]
            values = [value(dice, package, of, depth) for _ in range(count)]
            return bytes(values) if of == "byte" else values

        setattr(made, field, several(sizes))
    return made


def plain(of):
    """Values in order, without names: lists of lists are one list."""
    if hasattr(of, "__slots__") and hasattr(of, "__typenames__"):
        return [plain(getattr(of, name)) for name in of.__slots__]
    if isinstance(of, bytes):
        return list(of)
    if isinstance(of, list):
        flat = of
        while flat and isinstance(flat[0], (list, bytes)):
            flat = [one for inner in flat for one in inner]
        return [] if flat and isinstance(flat, list) and flat == [[]] else [plain(one) for one in flat]
    return of.encode() if isinstance(of, str) else of


def ours(of):
    if isinstance(of, dict):
        return [ours(one) for one in of.values()]
    return [ours(one) for one in of] if isinstance(of, list) else of


def main(program, folder):
    names = [name.split("/")[-1] for name, _ in all_compile.structs_of_lcm(folder, random.Random(5))]
    file = folder / "robot.lcm"
    subprocess.run([Path(sys.executable).with_name("lcm-gen"), "-p", "--ppath", folder, file], check=True, stdout=subprocess.DEVNULL)
    sys.path.insert(0, str(folder))
    package = importlib.import_module("robot.types")
    dice, sent, refused = random.Random(1), {}, 0
    log = lcm.EventLog(str(folder / "robot.lcmlog"), "w", overwrite=True)
    for turn in range(4):
        for number, name in enumerate(names):
            made = message(dice, package, name)
            try:
                data = made.encode()
            except (NameError, AttributeError, TypeError):
                # lcm-gen's Python cannot encode what its own language allows, such as names of Python's keywords.
                refused += 1
                continue
            log.write_event(1000 * turn + number, name, data)
            sent.setdefault(name, []).append(plain(made))
    log.close()
    out = folder / "robot.mcap"
    said = subprocess.run(
        [program, "message", "convert", folder / "robot.lcmlog", out, "--file", file, "--json"], capture_output=True, text=True
    )
    assert said.returncode == 0, said.stderr
    account = json.loads(said.stdout)
    assert account["not_decoded"] == 0 and account["records"] == sum(map(len, sent.values())), account
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = onbeat.load(out)
    compared, recursive = 0, 0
    for name, rows in sent.items():
        channel = found[name]
        assert not channel.why, f"{name}: {channel.why}"
        recursive += "children" in channel.fields
        for row, known in enumerate(rows):
            assert ours(channel.message(row)) == known, f"{name}, row {row}:\n{ours(channel.message(row))}\n{known}"
            compared += 1
    print(json.dumps({"types": len(sent), "records": account["records"], "compared": compared, "recursive": recursive, "refused": refused}))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
