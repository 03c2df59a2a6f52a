//! Runs the sentences of `tests/spec/*.spec`: the command line as its users meet it.
//!
//! ```text
//! # a sentence that says what is true
//! $ onbeat measure timer --period 0        (`$ nobody onbeat ...` runs it without any rights)
//! status 2
//! stderr: text that a line of standard error contains
//! stdout: text that standard output contains
//! one line on stderr
//! leaves nothing                            (no file in the working directory)
//! ```
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, missing_docs)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The user and group `nobody`, on every Linux.
const NOBODY: &str = "65534";

struct Sentence {
    said_in: String,
    words: String,
    command: String,
    claims: Vec<String>,
}

fn sentences() -> Vec<Sentence> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/spec");
    let mut files: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "spec"));
    files.sort();
    files
        .iter()
        .flat_map(|file| parse(&file.file_name().unwrap().to_string_lossy(), &fs::read_to_string(file).unwrap()))
        .collect()
}

fn parse(file: &str, text: &str) -> Vec<Sentence> {
    let mut all: Vec<Sentence> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        if let Some(words) = line.strip_prefix("# ") {
            all.push(Sentence {
                said_in: file.into(),
                words: words.into(),
                command: String::new(),
                claims: Vec::new(),
            });
        } else if let Some(command) = line.strip_prefix("$ ") {
            all.last_mut().expect("a sentence comes first").command = command.into();
        } else {
            all.last_mut().expect("a sentence comes first").claims.push(line.into());
        }
    }
    all
}

/// A directory that everybody may use, with the binary in it, since `nobody` may not look into a user's home.
fn stage() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    fs::create_dir(dir.path().join("bin")).unwrap();
    // By a program: a descriptor of our own, open for writing, would be inherited by what the other test starts meanwhile,
    // and the kernel refuses to run a file that is open for writing anywhere ("Text file busy").
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_onbeat")).arg(dir.path().join("bin/onbeat")).status();
    assert!(copied.unwrap().success(), "the binary can be copied");
    let work = dir.path().join("work");
    fs::create_dir(&work).unwrap();
    fs::set_permissions(&work, fs::Permissions::from_mode(0o777)).unwrap();
    dir
}

fn run(sentence: &Sentence, stage: &Path) -> Output {
    let (without_rights, command) = match sentence.command.strip_prefix("nobody ") {
        Some(rest) => (true, rest),
        None => (false, sentence.command.as_str()),
    };
    let mut shell = if without_rights {
        let mut shell = Command::new("setpriv");
        shell.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--inh-caps=-all", "sh"]);
        shell
    } else {
        Command::new("sh")
    };
    shell.arg("-c").arg(command).current_dir(stage.join("work"));
    let path = format!("{}:{}", stage.join("bin").display(), std::env::var("PATH").unwrap());
    shell.env("PATH", path).env("LC_ALL", "C").env("HOME", stage.join("work")).env_remove("XDG_STATE_HOME");
    shell.output().unwrap()
}

fn broken_claims(sentence: &Sentence, stage: &Path) -> Vec<String> {
    let output = run(sentence, stage);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let holds = |claim: &str| {
        if let Some(status) = claim.strip_prefix("status ") {
            output.status.code() == status.parse().ok()
        } else if let Some(text) = claim.strip_prefix("stdout: ") {
            out.contains(text)
        } else if let Some(text) = claim.strip_prefix("stderr: ") {
            err.contains(text)
        } else if let Some(text) = claim.strip_prefix("no stdout: ") {
            !out.contains(text)
        } else {
            match claim {
                "one line on stderr" => err.trim_end().lines().count() == 1,
                "nothing on stderr" => err.is_empty(),
                "at most 80 columns" => out.lines().all(|line| line.chars().count() <= 80),
                "ASCII only" => out.is_ascii() && err.is_ascii(),
                "leaves nothing" => fs::read_dir(stage.join("work")).unwrap().next().is_none(),
                _ => panic!("{}: `{claim}` is no claim", sentence.said_in),
            }
        }
    };
    let broken: Vec<&String> = sentence.claims.iter().filter(|claim| !holds(claim)).collect();
    if broken.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "{}: {}\n  $ {}\n  not so: {broken:?}\n  {}\n  stdout: {out}\n  stderr: {err}",
        sentence.said_in, sentence.words, sentence.command, output.status
    )]
}

#[test]
fn every_sentence_of_the_specification_is_true() {
    let root = rustix::process::geteuid().is_root();
    let mut broken = Vec::new();
    let sentences = sentences();
    assert!(sentences.len() > 20, "the files were found");
    for sentence in &sentences {
        assert!(!sentence.claims.is_empty() && !sentence.command.is_empty(), "{} says something", sentence.words);
        if sentence.command.starts_with("nobody ") && !root {
            println!("skipped, only root can give up its rights: {}", sentence.words);
            continue;
        }
        broken.extend(broken_claims(sentence, stage().path()));
    }
    assert!(broken.is_empty(), "{} of {} sentences\n{}", broken.len(), sentences.len(), broken.join("\n"));
}

#[test]
fn a_sentence_that_is_not_true_is_noticed() {
    let planted = parse("planted", "# a lie\n$ onbeat --version\nstatus 3\nstdout: Windows\n");
    assert_eq!(broken_claims(&planted[0], stage().path()).len(), 1);
}
