//! ZeroMQ in Java is jeromq: a program in Java and one in Octave receive what Python's `pyzmq` publishes, and it receives what they
//! publish, the same bytes. Without the jar of jeromq one sentence says so.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use crate::equipment;
use crate::random_messages;
use crate::way;

use std::path::{Path, PathBuf};
use std::process::Command;

use equipment::{Java, Octave, Python, done, jars, root, trial};
use libtest_mimic::Trial;
use serde_json::{Value, json};

/// Where Python publishes, where Java does, and the beginning of their channels; `jeromq_peer.py` has them too.
const PEER: [&str; 3] = ["tcp://127.0.0.1:5561", "tcp://127.0.0.1:5562", "jeromq"];
/// Messages for Octave.
const NUMBERED: u64 = 20_000;
const STATE: &str = "uint64 n\nfloat64[14] joints\nuint32 last\nstring leg\n";

pub(crate) fn trials() -> Vec<Trial> {
    let tests = [
        trial(
            "jeromq_speaks_with_pyzmq::java_sends_random_messages_back_with_the_same_bytes",
            with_java,
            java_echoes,
        ),
        trial(
            "jeromq_speaks_with_pyzmq::octave_reads_a_channel_into_a_matrix",
            with_octave,
            octave_reads,
        ),
        trial(
            "jeromq_speaks_with_pyzmq::without_jeromq_one_sentence_says_so",
            Octave::equip,
            says_what_is_missing,
        ),
    ];
    Vec::from(tests)
}

fn with_java() -> Result<(Python, Java, Vec<PathBuf>), String> {
    Ok((way::equip()?, Java::equip()?, jars()?))
}

fn with_octave() -> Result<(Python, Octave, Vec<PathBuf>), String> {
    Ok((way::equip()?, Octave::equip()?, jars()?))
}

/// Runs the peer in a network namespace; returns what it printed.
fn peer(python: &Python, how: [&str; 2], command: &Command) -> Value {
    let mut script = python.script("jeromq_peer.py");
    script.args(how).arg(command.get_program()).args(command.get_args());
    script.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = done(&mut way::in_namespace(&mut script));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The class path of the Java client, of these programs, and of jeromq.
fn class_path(java: &Java, programs: &Path, jars: &[PathBuf]) -> std::ffi::OsString {
    let all = [&java.classes, programs].into_iter().map(Path::to_owned).chain(jars.iter().cloned());
    std::env::join_paths(all).unwrap()
}

fn java_echoes(equipped: &(Python, Java, Vec<PathBuf>)) {
    let (python, java, jars) = equipped;
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("tests/interop/ZmqEcho.java");
    let mut compile = Command::new("javac");
    compile.args(["-Xlint:all", "-Werror", "-cp"]).arg(&java.classes).arg("-d").arg(folder.path());
    done(compile.arg(source));

    let types = random_messages::types();
    for of in types.names() {
        let messages = random_messages::encoded(&types, of, random_messages::count());
        let (sent, definition) = (folder.path().join("sent"), folder.path().join("definition"));
        let framed = |message: &Vec<u8>| {
            [&(message.len() as u32).to_le_bytes(), message.as_slice()].concat()
        };
        std::fs::write(&sent, messages.iter().flat_map(framed).collect::<Vec<u8>>()).unwrap();
        std::fs::write(&definition, types.text(of).unwrap()).unwrap();

        let mut echo = Command::new("java");
        echo.arg("-cp").arg(class_path(java, folder.path(), jars)).arg("ZmqEcho");
        echo.args(PEER).arg(of).arg(&definition);
        let said = peer(python, ["echo", sent.to_str().unwrap()], &echo);
        assert_eq!(said["account"], json!([said["sent"], 0, 0]), "{of}: {said}");
        println!("{of}: {} messages by jeromq, the same bytes", messages.len());
    }
}

fn octave_reads(equipped: &(Python, Octave, Vec<PathBuf>)) {
    let (python, octave, jars) = equipped;
    let folder = tempfile::tempdir().unwrap();
    let definition = folder.path().join("State.msg");
    std::fs::write(&definition, STATE).unwrap();
    let mut script = octave.command();
    script.arg(root().join("tests/interop/jeromq.m")).args(PEER).arg(NUMBERED.to_string());
    script.arg(&definition).arg(root()).arg(octave.classes()).args(jars);
    let said = peer(python, ["count", &NUMBERED.to_string()], &script);

    let [sum, missing, received] = ["sum", "sum_missing", "received"].map(|key| said[key].as_u64());
    let all: u64 = (1..=NUMBERED).sum();
    assert_eq!(sum, missing.map(|missing| all - missing), "{said}");
    assert_eq!(received, said["missing"].as_u64().map(|missing| NUMBERED - missing), "{said}");
    assert_eq!((&said["lost"], &said["columns"]), (&said["missing"], &json!(15)), "{said}");
    // 0 + 1 + ... + 13: the last message, as a struct.
    assert_eq!((&said["joints"], &said["leg"]), (&json!(91), &json!("left")), "{said}");
}

fn says_what_is_missing(octave: &Octave) {
    let said = octave.eval(
        "try onbeat.publisher ('tcp://127.0.0.1:5563'); catch why, puts ([why.identifier ' ' why.message]); end",
    );
    let sentence =
        "onbeat:zmq:no_jeromq jeromq, by which onbeat speaks ZeroMQ, is not in the class path";
    assert!(said.starts_with(sentence), "{said}");
    assert_eq!(said.trim().lines().count(), 1, "{said}");
}
