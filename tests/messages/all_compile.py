"""Generated code of many types compiles with warnings as errors: C, C++, Java, Python, Rust.

    all_compile.py ONBEAT FOLDER      every .msg that rosbags has, and types whose names and fields shadow those of the languages

Random messages of all types of common_interfaces, encoded by rosbags, are decoded and encoded to the same bytes in each language.
"""

import json
import random
import shutil
import struct
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


#: The packages of common_interfaces.
COMMON = "actionlib_msgs diagnostic_msgs geometry_msgs nav_msgs sensor_msgs shape_msgs std_msgs stereo_msgs trajectory_msgs".split()
COMMON.append("visualization_msgs")
MESSAGES = 20
SAME_IN_C = r"""
#include <stdio.h>
#include <stdlib.h>
static uint64_t memory[1 << 16];
static uint8_t again[1 << 18];
#define SAME(M, TYPE, FILE_) \
    { \
        FILE *file = fopen(FILE_, "rb"); \
        for (uint32_t length; file && fread(&length, 4, 1, file) == 1; count++) { \
            uint8_t *bytes = (uint8_t *)malloc(length); \
            struct M m; \
            if (fread(bytes, 1, length, file) != length) return 2; \
            const int is_same = M##_decode(&m, bytes, length, memory, sizeof memory) >= 0 && \
                                M##_encode(&m, again, sizeof again) == (int64_t)length && !memcmp(bytes, again, length); \
            if (!is_same) return fprintf(stderr, "%s\n", TYPE), 1; \
            free(bytes); \
        } \
        if (file) fclose(file); \
    }
"""
SAME_IN_RUST = r"""
fn same(path: &str, again: fn(&[u8]) -> Vec<u8>) -> u32 {
    let data = std::fs::read(path).unwrap();
    let (mut left, mut count) = (data.as_slice(), 0);
    while let Some((length, rest)) = left.split_first_chunk() {
        let (message, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
        assert_eq!(again(message), message, "{path}");
        (left, count) = (rest, count + 1);
    }
    count
}
"""


def round_trips(types, folder, out):
    """Each language has the bytes of rosbags; returns how many messages each has compared."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "interop"))
    from log_kinds import STORE, message

    dice, all_ = random.Random(7), [name for name, _ in types if name.split("/")[0] in COMMON]
    for name in all_:
        with (folder / f"{name.replace('/', '__')}.bin").open("wb") as file:
            for _ in range(MESSAGES):
                data = bytes(STORE.serialize_cdr(message(STORE, name, dice), name))
                file.write(struct.pack("<I", len(data)) + data)
    files = {name: str(folder / f"{name.replace('/', '__')}.bin") for name in all_}
    words = {name: name.replace("/msg/", "__") for name in all_}
    counts = {}

    includes = "".join(f'#include "{words[name]}.h"\n' for name in all_)
    calls = "".join(f'    SAME({name.replace("/msg/", "_")}, "{name}", "{files[name]}")\n' for name in all_)
    code = f"{includes}{SAME_IN_C}int main(void) {{\n    unsigned long count = 0;\n{calls}    printf(\"%lu\\n\", count);\n}}\n"
    (out["c"] / "same.c").write_text(code)
    for compiler, standard in (("gcc", ["-std=c11"]), ("g++", ["-std=c++17", "-xc++"])):
        run([compiler, *standard, "-Wall", "-Wextra", "-Werror", "-o", "same", "same.c"], out["c"])
        counts[compiler] = int(run(["./same"], out["c"]))

    modules = "".join(f'#[path = "{words[name]}.rs"]\n#[allow(non_snake_case)]\nmod {words[name]};\n' for name in all_)
    decoded = "{}::{}::decode(bytes).unwrap().encode().unwrap()"
    calls = "".join(
        f'    count += same(r"{files[name]}", |bytes| {decoded.format(words[name], name.split("/")[-1])});\n' for name in all_
    )
    (out["rust"] / "same.rs").write_text(f'{modules}{SAME_IN_RUST}fn main() {{\n    let mut count = 0;\n{calls}    println!("{{count}}");\n}}\n')
    run(["rustc", "--edition", "2024", "-D", "warnings", "-A", "dead_code", "same.rs"], out["rust"])
    counts["rustc"] = int(run(["./same"], out["rust"]))

    run(["javac", "-d", str(folder / "classes"), str(Path(__file__).with_name("Same.java"))], folder)
    arguments = [word for name in all_ for word in (name.replace("/msg/", "."), files[name])]
    counts["java"] = sum(map(int, run(["java", "-cp", str(folder / "classes"), "Same", *arguments], folder).split()))

    check = "import importlib, struct, sys\ncount = 0\n"
    check += f"for module, path in {[(words[name], files[name]) for name in all_]}:\n"
    check += "    own = getattr(importlib.import_module(module), module.split('__')[-1])\n    data, at = open(path, 'rb').read(), 0\n"
    check += "    while at < len(data):\n        (length,) = struct.unpack_from('<I', data, at)\n"
    check += "        one = data[at + 4 : at + 4 + length]\n        assert own.decode(one).encode() == one, module\n"
    check += "        at, count = at + 4 + length, count + 1\nprint(count)\n"
    counts["python"] = int(run([sys.executable, "-W", "error", "-c", check], out["python"]))
    assert set(counts.values()) == {MESSAGES * len(all_)}, counts
    return len(all_)


def generated(onbeat, language, name, files):
    options = [word for file in files for word in ("--file", str(file))]
    done = subprocess.run([onbeat, "message", "generate", language, name, *options], capture_output=True, text=True)
    assert done.returncode == 0, f"{language} {name}: {done.stderr}"
    return done.stdout


def run(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, command))[:300]}\n{(done.stderr + done.stdout)[:4000]}"
    return done.stdout


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
    common = round_trips(ros, folder, out)
    print(json.dumps({"types": len(types), "of_ros": len(ros), "round_trips": common}))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
