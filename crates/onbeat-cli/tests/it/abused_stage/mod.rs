//! A directory with a run in it, and commands that are run there: what the tests of misuse and of
//! lost output share.
#![allow(dead_code, unreachable_pub)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

pub fn onbeat(dir: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    command
        .args(words)
        .current_dir(dir)
        .env("LC_ALL", "C")
        .env("ONBEAT_STATE_DIR", dir.join("state"));
    command.stdin(Stdio::null());
    command
}

pub fn ended(dir: &Path, words: &[&str]) -> Output {
    onbeat(dir, words).output().unwrap()
}

pub fn done(dir: &Path, words: &[&str]) -> Output {
    let output = ended(dir, words);
    assert!(output.status.success(), "{words:?}: {}", stderr_of(&output));
    output
}

pub fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The sentence of a command that was refused.
pub fn refused(dir: &Path, words: &[&str]) -> String {
    let output = ended(dir, words);
    assert_eq!(output.status.code(), Some(2), "{words:?}: {}", stderr_of(&output));
    let message = stderr_of(&output);
    let sentences: Vec<&str> =
        message.lines().filter(|line| line.starts_with("onbeat: ")).collect();
    assert_eq!(sentences.len(), 1, "{words:?}: {message}");
    sentences[0].to_owned()
}

pub fn samples(dir: &Path) {
    let samples: String = (0..2000).map(|n| format!("{}\n", 20 + n % 50)).collect();
    fs::write(dir.join("a.csv"), format!("latency_us\n{samples}")).unwrap();
}

/// A directory with the run `run`.
pub fn stage() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    samples(dir.path());
    done(
        dir.path(),
        &["import", "a.csv", "--period", "1ms", "--as", "wakeup_latency", "-o", "run"],
    );
    dir
}

pub fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
