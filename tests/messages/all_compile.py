"""Generated code of many types compiles with warnings as errors: C, C++, Java, Python, Rust.

    all_compile.py ONBEAT FOLDER      every .msg that rosbags has, and types whose names and fields shadow those of the languages
"""

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

from rosbags.typesys import Stores, get_typestore

#: Names of types that languages have too, and of fields.
NAMES = """String Result Vec Box Object Class Option Some None Ok Err Integer Double Float Long Math System Override Exception
    Iterator List Map Set Writer Reader Self Default Clone Debug Error Thread Type Bool Int Str Bytes Dict Range Property""".split()
FIELDS = """class def string result vec box object type self this super int long double float char short unsigned signed void
    new delete template namespace bool register for while if else return import from as in is not and or pass lambda yield
    fn let mut impl use mod match move ref where crate trait dyn async await encode decode write read java field list bytes
    range len dataclass classmethod struct union enum true false null none linux unix errno out of own values count i c m
    package native final abstract goto const static volatile transient synchronized try catch throw finally default switch""".split()


def shadows(folder):
    own = []
    for name in NAMES:
        file = folder / "shadow_msgs" / "msg" / f"{name}.msg"
        file.parent.mkdir(parents=True, exist_ok=True)
        kinds = ["string", "float64", "int32[]", "string[]", "uint8[4]", "bool", "string[2]", "wstring", "wstring<=3[]"]
        lines = [f"{kinds[n % len(kinds)]} {field}" for n, field in enumerate(FIELDS)]
        lines += ["int32 TYPE=1", 'string HASH="a /* b */ \\\\u12 c"', "string text", "# a /* comment */ with \\users"]
        lines.append(f"{NAMES[0] if name != NAMES[0] else 'float64'}[] others")
        file.write_text("\n".join(lines) + "\n")
        files = [file] + ([folder / "shadow_msgs" / "msg" / f"{NAMES[0]}.msg"] if name != NAMES[0] else [])
        own.append((f"shadow_msgs/msg/{name}", files))
    return own


def of_rosbags(folder):
    store = get_typestore(Stores.ROS2_JAZZY)
    found = []
    for name in sorted(store.types):
        if "/msg/" not in name:
            continue
        text = store.generate_msgdef(name, ros_version=2)[0]
        parts = text.split("=" * 80 + "\nMSG: ")
        files = []
        for of, definition in [(name, parts[0]), *((part.split("\n", 1)[0], part.split("\n", 1)[1]) for part in parts[1:])]:
            words = of.split("/")
            file = folder / words[0] / "msg" / f"{words[-1]}.msg"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(definition)
            files.append(file)
        found.append((name, files))
    return found


def structs_of_lcm(folder, dice):
    """150 structs in the manner of real projects: capitals, constants as dimensions, lists of themselves, other structs."""
    kinds = ["int8_t", "int16_t", "int32_t", "int64_t", "byte", "float", "double", "boolean", "string"]
    words = "utime pos vel leftTrigger ButtonA Kp q_d Class def type bodyId _seq XYZ contactForce class imuAccel2 String".split()
    lines, names = ["package robot.types;"], []
    for n in range(150):
        name = f"{dice.choice(('pose', 'JointState', 'cmd', 'Vision', 'node'))}{n}_t"
        lines += ["/* one */", f"struct {name} // {n}", "{", f"    const int32_t WIDTH = {dice.randint(1, 5)}, Mode_A = 0x10;"]
        lines.append("    int32_t nItems;")
        for place in range(dice.randint(0, 8)):
            kind = dice.choice(kinds + names[-3:])
            shape = dice.choice(("", "", "[3]", "[WIDTH]", "[nItems]", "[2][nItems]", "[WIDTH][2]"))
            lines.append(f"    {kind} {dice.choice(words)}{place}{shape};")
        if dice.random() < 0.2:
            lines.append(f"    {name} children[nItems];")
        lines.append("}")
        names.append(name)
    file = folder / "robot.lcm"
    file.write_text("\n".join(lines) + "\n")
    return [(f"robot_types/msg/{name}", [file]) for name in names]


def generated(onbeat, language, name, files):
    options = [word for file in files for word in ("--file", str(file))]
    done = subprocess.run([onbeat, "message", "generate", language, name, *options], capture_output=True, text=True)
    assert done.returncode == 0, f"{language} {name}: {done.stderr}"
    return done.stdout


def run(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, command))[:300]}\n{(done.stderr + done.stdout)[:4000]}"


def main(onbeat, folder):
    sources = folder / "sources"
    ros = of_rosbags(sources)
    types = ros + shadows(sources) + structs_of_lcm(folder, random.Random(5))
    out = {language: folder / language for language in ("c", "java", "rust", "python")}
    for place in out.values():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
    java, rust, headers = [], [], []
    for name, files in types:
        word = name.replace("/msg/", "__")
        (out["c"] / f"{word}.h").write_text(generated(onbeat, "c", name, files))
        headers.append(f'#include "{word}.h"')
        code = generated(onbeat, "java", name, files)
        # Each in a package of its own: those of one package would share no nested classes, and be compiled all the same.
        package, short = name.split("/msg/")
        file = out["java"] / package / f"{short}.java"
        file.parent.mkdir(exist_ok=True)
        file.write_text(code)
        java.append(file)
        (out["rust"] / f"{word}.rs").write_text(generated(onbeat, "rust", name, files))
        rust.append(f'#[path = "{word}.rs"]\n#[allow(non_snake_case)]\nmod {word};')
        module = out["python"] / f"{word}.py"
        module.write_text(generated(onbeat, "python", name, files))
    (out["c"] / "all.c").write_text("\n".join(headers) + "\nint main(void) { return 0; }\n")
    (out["rust"] / "lib.rs").write_text("\n".join(rust) + "\n")
    warn = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    run(["gcc", "-std=c11", *warn, "all.c"], out["c"])
    run(["g++", "-std=c++17", "-x", "c++", *warn, "all.c"], out["c"])
    run(["javac", "--release", "8", "-Xlint:all,-options", "-Werror", "-d", str(folder / "classes"), *java], folder)
    run(["rustc", "--edition", "2024", "--crate-type", "lib", "-D", "warnings", "--emit", "metadata", "lib.rs"], out["rust"])
    check = "import sys, pathlib, importlib\nfor f in sorted(pathlib.Path('.').glob('*.py')):\n"
    check += "    m = importlib.import_module(f.stem)\n"
    check += "    for c in [v for v in vars(m).values() if hasattr(v, 'TYPE')]:\n        assert c.decode(c().encode()) == c(), c\n"
    run([sys.executable, "-W", "error", "-c", check], out["python"])
    print(json.dumps({"types": len(types), "of_ros": len(ros)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
