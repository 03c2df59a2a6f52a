//! Messages are those of ROS 2: rosbags, which knows nothing of onbeat, encodes random messages of
//! each type; this crate, and the generated C and Python, decode them and encode the same bytes.
//!
//! Python's packages are installed below `target/` on the first run, which needs the network then.
//! Where Python is missing, or it cannot be equipped, every test here is counted as ignored, with
//! the reason in its line.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::sync::OnceLock;

use libtest_mimic::{Arguments, Completion, Trial};
use onbeat_message::{TypeSet, generate, own};

/// Messages of each type; with `ONBEAT_LONG=1` (`make test-long`) 10,000.
fn messages() -> u64 {
    if std::env::var_os("ONBEAT_LONG").is_some_and(|word| word == "1") { 10_000 } else { 1_000 }
}

fn main() -> ExitCode {
    let tests = [
        trial("hashes_are_those_of_ros_2", hashes_match),
        trial("random_messages_are_encoded_to_the_same_bytes", bytes_match),
        trial("generated_python_has_the_same_values_and_bytes", python_matches),
        trial("generated_c_has_the_same_bytes", c_matches),
        trial("generated_rust_has_the_same_bytes", rust_matches),
        trial_if("generated_java_has_the_same_bytes", has_java, java_matches),
        trial_if("generated_code_has_the_same_wide_texts", has_java, wide_texts_match),
        trial_if("generated_code_refuses_lists_in_lists_without_end", has_java, depth_is_limited),
    ];
    libtest_mimic::run(&Arguments::from_args(), Vec::from(tests)).exit_code()
}

fn trial(name: &str, body: fn(&Peer)) -> Trial {
    trial_if(name, || Ok(()), body)
}

fn trial_if(name: &str, has: fn() -> Result<(), String>, body: fn(&Peer)) -> Trial {
    Trial::ignorable_test(name, move || {
        static PEER: OnceLock<Result<Peer, String>> = OnceLock::new();
        match (PEER.get_or_init(Peer::equip), has()) {
            (Err(reason), _) => Ok(Completion::ignored_with(reason.clone())),
            (_, Err(reason)) => Ok(Completion::ignored_with(reason)),
            (Ok(peer), Ok(())) => {
                body(peer);
                Ok(Completion::Completed)
            }
        }
    })
}

/// Python with rosbags, and the messages it has encoded.
struct Peer {
    program: PathBuf,
    folder: tempfile::TempDir,
    hashes: BTreeMap<String, String>,
    types: TypeSet,
}

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/messages")
}

fn done(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    output
}

impl Peer {
    fn equip() -> Result<Self, String> {
        let place = here().join("../../target/messages-venv");
        let program = place.join("bin/python");
        let works = || {
            let imports = Command::new(&program).args(["-c", "import rosbags, numpy"]).output();
            imports.is_ok_and(|output| output.status.success())
        };
        if !works() {
            let made = Command::new("python3").args(["-m", "venv"]).arg(&place).output();
            if !made.is_ok_and(|output| output.status.success()) {
                return Err("python3 with venv is not installed (package python3-venv)".to_owned());
            }
            let wanted = here().join("requirements.txt");
            let _ = Command::new(&program)
                .args(["-m", "pip", "install", "-q", "-r"])
                .arg(wanted)
                .output();
        }
        if !works() {
            return Err("rosbags cannot be installed: no network, or not for this Python".into());
        }

        let folder = tempfile::tempdir().unwrap();
        let mut make = Command::new(&program);
        make.arg(here().join("peer.py")).arg("make").arg(folder.path()).arg(messages().to_string());
        let hashes = serde_json::from_slice(&done(&mut make).stdout).unwrap();
        Ok(Self { program, folder, hashes, types: types() })
    }

    fn messages(&self, name: &str) -> PathBuf {
        self.folder.path().join(name.replace('/', "-")).with_extension("bin")
    }
}

/// The types of onbeat and those beside this file.
fn types() -> TypeSet {
    let mut types = own::types();
    for entry in std::fs::read_dir(here().join("msg/demo_msgs/msg")).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("demo_msgs/msg/{}", path.file_stem().unwrap().to_str().unwrap());
        types.add(&name, &std::fs::read_to_string(path).unwrap()).unwrap();
    }
    types
}

fn hashes_match(peer: &Peer) {
    assert_eq!(peer.hashes.len(), peer.types.names().count());
    for (name, theirs) in &peer.hashes {
        let ours = peer.types.hash(name).unwrap();
        let hex: String = ours.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(&format!("RIHS01_{hex}"), theirs, "{name}");
    }
}

fn bytes_match(peer: &Peer) {
    for name in peer.types.names() {
        let data = std::fs::read(peer.messages(name)).unwrap();
        let (mut left, mut count) = (data.as_slice(), 0);
        while let Some((length, rest)) = left.split_first_chunk() {
            let (message, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
            let value = peer.types.value(name, message).unwrap();
            assert_eq!(peer.types.encode(name, &value).unwrap(), message, "{name}: {value:?}");
            (left, count) = (rest, count + 1);
        }
        assert_eq!(count, messages(), "{name}");
    }
}

fn python_matches(peer: &Peer) {
    for name in peer.types.names() {
        let code = generate::python(&peer.types, name).unwrap();
        std::fs::write(peer.messages(name).with_extension("py"), code).unwrap();
    }
    let mut python = Command::new(&peer.program);
    python.arg(here().join("peer.py")).arg("python").arg(peer.folder.path());
    let counts: BTreeMap<String, u64> = serde_json::from_slice(&done(&mut python).stdout).unwrap();
    assert_eq!(counts.len(), peer.types.names().count());
    assert!(counts.values().all(|count| *count == messages()), "{counts:?}");
}

/// As C11 and as C++17, without a warning, and with the compiler's own checks of memory.
fn c_matches(peer: &Peer) {
    const STRICT: [&str; 6] =
        ["-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined", "-include"];
    for name in peer.types.names() {
        let header = peer.messages(name).with_extension("h");
        std::fs::write(&header, generate::c(&peer.types, name).unwrap()).unwrap();
        let program = header.with_extension("program");
        let message = name.replace("/msg/", "_");
        for (compiler, standard) in [("c++", ["-std=c++17", "-xc++"]), ("cc", ["-std=c11", "-xc"])]
        {
            let mut compile = Command::new(compiler);
            compile.args(standard).args(STRICT).arg(&header).arg(format!("-DMESSAGE={message}"));
            done(compile.arg(here().join("same.c")).arg("-o").arg(&program));
        }
        let output = done(Command::new(&program).arg(peer.messages(name)));
        assert_eq!(
            String::from_utf8_lossy(&output.stdout).trim(),
            messages().to_string(),
            "{name}"
        );
    }
}

/// One program with a module for each type.
fn rust_matches(peer: &Peer) {
    let folder = peer.folder.path();
    let (mut modules, mut calls) = (String::new(), String::new());
    for (place, name) in peer.types.names().enumerate() {
        let code = generate::rust(&peer.types, name).unwrap();
        std::fs::write(folder.join(format!("m{place}.rs")), code).unwrap();
        modules.push_str(&format!("mod m{place};\n"));
        let own = name.rsplit('/').next().unwrap();
        let file = peer.messages(name);
        calls.push_str(&format!("    same(r#\"{}\"#, |bytes| ", file.display()));
        calls.push_str(&format!("m{place}::{own}::decode(bytes).unwrap().encode().unwrap());\n"));
    }
    let same = r#"
fn same(path: &str, again: fn(&[u8]) -> Vec<u8>) {
    let data = std::fs::read(path).unwrap();
    let (mut left, mut count) = (data.as_slice(), 0);
    while let Some((length, rest)) = left.split_first_chunk() {
        let (message, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
        assert_eq!(again(message), message, "{path}");
        (left, count) = (rest, count + 1);
    }
    println!("{count}");
}
"#;
    let main = folder.join("same.rs");
    std::fs::write(&main, format!("{modules}{same}\nfn main() {{\n{calls}}}\n")).unwrap();
    let mut compile = Command::new("rustc");
    compile.args(["--edition", "2024", "-Dwarnings", "-Copt-level=1", "-o"]);
    done(compile.arg(folder.join("same")).arg(main));
    all_are_the_same(&done(&mut Command::new(folder.join("same"))), peer);
}

fn has_java() -> Result<(), String> {
    let found = Command::new("javac").arg("-version").output();
    found
        .map(|_| ())
        .map_err(|_| "javac is not installed (package default-jdk-headless)".to_owned())
}

fn java_matches(peer: &Peer) {
    let folder = peer.folder.path().join("java");
    let mut compile = Command::new("javac");
    compile.args(["--release", "8", "-Xlint:all,-options", "-Werror", "-d"]).arg(&folder);
    let mut run = Command::new("java");
    run.arg("-cp").arg(&folder).arg("Same");
    for name in peer.types.names() {
        let file = folder.join(name.replace("/msg/", "/")).with_extension("java");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, generate::java(&peer.types, name).unwrap()).unwrap();
        compile.arg(file);
        run.arg(name.replace("/msg/", ".")).arg(peer.messages(name));
    }
    done(compile.arg(here().join("Same.java")));
    all_are_the_same(&done(&mut run), peer);
}

/// Wide texts, which rosbags does not encode: Python's UTF-16 is the peer, in the layout of Fast CDR 2.
fn wide_texts_match(peer: &Peer) {
    let name = "demo_msgs/msg/Wide";
    let mut types = TypeSet::default();
    types
        .add(
            name,
            "wstring one\nwstring<=5 short\nwstring[3] three\nwstring<=4[<=2] few\nwstring[] any\n",
        )
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let wide = Peer { program: peer.program.clone(), folder, hashes: BTreeMap::new(), types };
    let file = wide.messages(name);
    std::fs::write(file.with_extension("py"), generate::python(&wide.types, name).unwrap())
        .unwrap();
    let mut python = Command::new(&wide.program);
    python.arg(here().join("wide.py")).arg(wide.folder.path()).arg(messages().to_string());
    let said = done(&mut python).stdout;
    assert_eq!(String::from_utf8_lossy(&said).trim(), messages().to_string());

    bytes_match(&wide);
    c_matches(&wide);
    rust_matches(&wide);
    java_matches(&wide);
}

/// A program has printed the number of equal messages for each type.
fn all_are_the_same(output: &Output, peer: &Peer) {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let counts: Vec<u64> = said.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(counts, vec![messages(); peer.types.names().count()]);
}

/// A list may hold its own type. Of 50 levels all are decoded, of 100,000 none: no stack overflows.
fn depth_is_limited(peer: &Peer) {
    let mut types = TypeSet::default();
    types.add("deep_msgs/msg/Tree", "uint32 n\nTree[] branches\n").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (file, levels) in [("good", 50), ("deep", 100_000)] {
        let bytes: Vec<u8> = [0, 1, 0, 0]
            .into_iter()
            .chain([7, 0, 0, 0, 1, 0, 0, 0].repeat(levels))
            .chain([7, 0, 0, 0, 0, 0, 0, 0])
            .collect();
        std::fs::write(at(file), bytes).unwrap();
    }
    let name = "deep_msgs/msg/Tree";
    let code = [
        ("tree.py", generate::python(&types, name).unwrap()),
        ("tree.rs", generate::rust(&types, name).unwrap()),
        ("tree.h", generate::c(&types, name).unwrap()),
        ("Tree.java", generate::java(&types, name).unwrap()),
        ("run.py", DEEP_PYTHON.to_owned()),
        ("main.rs", DEEP_RUST.to_owned()),
        ("main.c", DEEP_C.to_owned()),
        ("Deep.java", DEEP_JAVA.to_owned()),
    ];
    for (file, text) in code {
        std::fs::write(at(file), text).unwrap();
    }
    let run = |program: &str, words: &[&str]| {
        let mut command = Command::new(program);
        String::from_utf8(done(command.args(words).current_dir(folder.path())).stdout).unwrap()
    };
    run("cc", &["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-o", "in_c", "main.c"]);
    run("rustc", &["--edition", "2024", "-Dwarnings", "-o", "in_rust", "main.rs"]);
    run(
        "javac",
        &["--release", "8", "-Xlint:all,-options", "-Werror", "-d", ".", "Tree.java", "Deep.java"],
    );
    let said = [
        run(peer.program.to_str().unwrap(), &["run.py"]),
        run("./in_c", &[]),
        run("./in_rust", &[]),
        run("java", &["-cp", ".", "deep_msgs.Deep"]),
    ];
    assert_eq!(said, ["decoded refused\n"; 4]);
}

const DEEP_PYTHON: &str = "\
import tree
tree.Tree.decode(open('good', 'rb').read())
try:
    tree.Tree.decode(open('deep', 'rb').read())
except ValueError as why:
    assert '128' in str(why), why
    print('decoded refused')
";
const DEEP_RUST: &str = "\
mod tree;
fn main() {
    assert!(tree::Tree::decode(&std::fs::read(\"good\").unwrap()).is_ok());
    assert_eq!(tree::Tree::decode(&std::fs::read(\"deep\").unwrap()), Err(tree::CdrError::Deep));
    println!(\"decoded refused\");
}
";
const DEEP_C: &str = "\
#include <stdio.h>
#include \"tree.h\"
static uint8_t bytes[1 << 20];
static uint64_t memory[1 << 20];
static int64_t decoded(const char *name) {
    struct deep_msgs_Tree m;
    FILE *file = fopen(name, \"rb\");
    const size_t length = file ? fread(bytes, 1, sizeof bytes, file) : 0;
    if (file) fclose(file);
    return deep_msgs_Tree_decode(&m, bytes, length, memory, sizeof memory);
}
int main(void) {
    if (decoded(\"good\") >= 0 && decoded(\"deep\") == -1) puts(\"decoded refused\");
    return 0;
}
";
const DEEP_JAVA: &str = "\
package deep_msgs;
public final class Deep {
    private Deep() {}
    public static void main(String[] words) throws Exception {
        new Tree().decode(java.nio.file.Files.readAllBytes(java.nio.file.Paths.get(\"good\")));
        try {
            new Tree().decode(java.nio.file.Files.readAllBytes(java.nio.file.Paths.get(\"deep\")));
        } catch (IllegalArgumentException why) {
            if (why.getMessage().contains(\"128\")) System.out.println(\"decoded refused\");
        }
    }
}
";
