//! Runs the sentences of `tests/spec/*.spec`: the command line as its users meet it. Each sentence
//! is a trial of its own.
//!
//! ```text
//! # a sentence that says what is true
//! $ onbeat measure timer --period 0        (`$ nobody onbeat ...` runs it without any rights)
//! status 2                                  (or `status 0 or 3`)
//! stderr: text that a line of standard error contains
//! stdout: text that standard output contains
//! one line on stderr
//! leaves nothing                            (no file in the working directory)
//! without /dev/gpiochip0                    (the trial is skipped where this file exists)
//! ```
//!
//! `cargo test -p onbeat-cli --test spec -- timer.spec:9` runs one of them.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::sync::{Arc, PoisonError, RwLock};

use libtest_mimic::{Arguments, Trial};

/// The user and group `nobody`, on every Linux.
const NOBODY: &str = "65534";

/// Commands that load the machine, or need an answer in time: their trials run alone.
const RUN_ALONE: [&str; 5] = ["onbeat load", "sweep", "segment", "robot", "bus"];

/// Commands that change the machine: their trials run alone where they have the right to.
const CHANGES: [&str; 3] = ["onbeat bench", "tune measure", "repair"];

/// Other trials at once. They mostly wait for a loop that leaves a CPU almost idle, and none
/// depends on how late it is.
const TOGETHER: usize = 8;

/// A bench of this cell alone changes nothing on the machine. With a journal of its own it does not
/// wait for other benches either.
const PLAIN_BENCH: &str = "--tunings none --loads idle";

/// Held for reading by trials that run beside others, for writing by those that run alone.
static MACHINE: RwLock<()> = RwLock::new(());

/// A claim of the specification and the command that shows it.
#[derive(Clone)]
struct Sentence {
    /// File and line, such as `timer.spec:9`.
    location: String,
    words: String,
    command: String,
    claims: Vec<String>,
    /// A path that must not exist for the sentence to apply.
    without: Option<PathBuf>,
}

impl Sentence {
    fn is_plain_bench(&self) -> bool {
        self.command.contains(PLAIN_BENCH)
    }

    fn is_without_rights(&self) -> bool {
        self.command.starts_with("nobody ")
    }

    fn runs_alone(&self) -> bool {
        let has = |words: &[&str]| words.iter().any(|word| self.command.contains(word));
        !self.is_plain_bench() && (has(&RUN_ALONE) || has(&CHANGES) && !self.is_without_rights())
    }

    /// Why this machine or user cannot check the sentence.
    fn skip_reason(&self) -> Option<String> {
        if self.is_without_rights() && !rustix::process::geteuid().is_root() {
            return Some("only root can give up its rights".to_owned());
        }
        let present = self.without.as_ref().filter(|path| path.exists())?;
        Some(format!("{} exists", present.display()))
    }
}

fn sentences() -> Vec<Sentence> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/spec");
    let mut files: Vec<PathBuf> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "spec"));
    files.sort();
    let read = |file: &PathBuf| {
        parse(&file.file_name().unwrap().to_string_lossy(), &fs::read_to_string(file).unwrap())
    };

    files.iter().flat_map(read).collect()
}

/// Trials in the order in which they start: first those that run alone, so that none of them waits
/// for others to end; then benches, which take longest.
fn in_order(mut sentences: Vec<Sentence>) -> Vec<Sentence> {
    sentences.sort_by_key(|sentence| {
        (!sentence.runs_alone(), !sentence.command.contains("onbeat bench"))
    });
    sentences
}

fn parse(file: &str, text: &str) -> Vec<Sentence> {
    let mut all: Vec<Sentence> = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        if let Some(words) = line.strip_prefix("# ") {
            all.push(Sentence {
                location: format!("{file}:{number}"),
                words: words.to_owned(),
                command: String::new(),
                claims: Vec::new(),
                without: None,
            });
            continue;
        }

        let sentence = all.last_mut().expect("a sentence comes first");
        if let Some(command) = line.strip_prefix("$ ") {
            command.clone_into(&mut sentence.command);
        } else if let Some(path) = line.strip_prefix("without ") {
            sentence.without = Some(path.into());
        } else {
            sentence.claims.push(line.to_owned());
        }
    }

    all
}

/// A directory for one run of the binary that all users may write to.
fn working_directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    dir
}

/// A directory with a copy of the binary, because `nobody` cannot look into a user's home.
fn binary_directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let built = Path::new(env!("CARGO_BIN_EXE_onbeat"));
    // What it starts for some of its commands; the tests of the workspace build both.
    for program in ["onbeat", "onbeat-fleet"] {
        fs::copy(built.with_file_name(program), dir.path().join(program)).unwrap();
    }
    dir
}

fn run(sentence: &Sentence, binaries: &Path, work: &Path, state: &Path) -> Output {
    let mut shell = Command::new("sh");
    // What other tests have killed beside this one is not for its commands to remove, and to say so.
    shell.env("ONBEAT_RUNTIME_DIR", state);
    let mut command = sentence.command.as_str();
    if let Some(rest) = command.strip_prefix("nobody ") {
        command = rest;
        shell = Command::new("setpriv");
        shell.args([
            "--reuid",
            NOBODY,
            "--regid",
            NOBODY,
            "--clear-groups",
            "--inh-caps=-all",
            "sh",
        ]);
    }

    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap());
    shell.arg("-c").arg(command).current_dir(work);
    shell.env("PATH", path).env("LC_ALL", "C").env("HOME", work).env_remove("XDG_STATE_HOME");
    if sentence.is_plain_bench() {
        shell.env("ONBEAT_STATE_DIR", state);
    }
    shell.output().unwrap()
}

fn holds(claim: &str, output: &Output, work: &Path) -> Result<bool, String> {
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    if let Some(statuses) = claim.strip_prefix("status ") {
        let is_it = |status: &str| output.status.code() == status.parse().ok();
        return Ok(statuses.split(" or ").any(is_it));
    }
    if let Some(text) = claim.strip_prefix("stdout: ") {
        return Ok(out.contains(text));
    }
    if let Some(text) = claim.strip_prefix("stderr: ") {
        return Ok(err.contains(text));
    }
    if let Some(text) = claim.strip_prefix("no stdout: ") {
        return Ok(!out.contains(text));
    }

    match claim {
        "one line on stderr" => Ok(err.trim_end().lines().count() == 1),
        "nothing on stderr" => Ok(err.is_empty()),
        "at most 80 columns" => Ok(out.lines().all(|line| line.chars().count() <= 80)),
        "ASCII only" => Ok(out.is_ascii() && err.is_ascii()),
        "leaves nothing" => Ok(fs::read_dir(work).unwrap().next().is_none()),
        _ => Err(format!("`{claim}` is not a claim")),
    }
}

/// Runs the command of a sentence and checks each of its claims.
fn check(sentence: &Sentence, binaries: &Path) -> Result<(), String> {
    if sentence.claims.is_empty() || sentence.command.is_empty() {
        return Err("a sentence needs a command and a claim".to_owned());
    }

    // A trial that panicked has changed nothing that the lock protects.
    let runs_alone = sentence.runs_alone();
    let _alone = runs_alone.then(|| MACHINE.write().unwrap_or_else(PoisonError::into_inner));
    let _beside = (!runs_alone).then(|| MACHINE.read().unwrap_or_else(PoisonError::into_inner));
    let work = working_directory();
    let state = tempfile::tempdir().unwrap();
    let output = run(sentence, binaries, work.path(), state.path());
    let mut broken = Vec::new();
    for claim in &sentence.claims {
        if !holds(claim, &output, work.path())? {
            broken.push(claim);
        }
    }

    if broken.is_empty() {
        return Ok(());
    }
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "$ {}\nbroken: {broken:?}\n{}\nstdout: {out}\nstderr: {err}",
        sentence.command, output.status
    ))
}

fn trial(sentence: Sentence, binaries: Arc<tempfile::TempDir>) -> Trial {
    let name = format!("{}: {}", sentence.location, sentence.words);
    match sentence.skip_reason() {
        // The kind stands beside the name in the runner's list: a skipped trial gives its reason
        // there.
        Some(reason) => Trial::test(name, || Ok(()))
            .with_kind(format!("skipped: {reason}"))
            .with_ignored_flag(true),
        None => Trial::test(name, move || check(&sentence, binaries.path()).map_err(Into::into)),
    }
}

/// The checks of the runner itself, on planted sentences.
fn own_trials(binaries: &Arc<tempfile::TempDir>) -> Vec<Trial> {
    let planted = |text: &str| {
        let sentence = parse("planted.spec", text).remove(0);
        let binaries = Arc::clone(binaries);
        move || check(&sentence, binaries.path())
    };
    let wrong = planted("# a false sentence\n$ onbeat --version\nstatus 3\nstdout: Windows\n");
    let unknown = planted("# an unknown claim\n$ onbeat --version\nno smoke\n");
    let refuses = |check: Result<(), String>, why: &str| match check {
        Err(message) if message.contains(why) => Ok(()),
        other => Err(format!("{why} is not reported: {other:?}").into()),
    };

    vec![
        Trial::test("spec.rs: a false sentence is found", move || {
            refuses(wrong(), r#"["status 3", "stdout: Windows"]"#)
        }),
        Trial::test("spec.rs: an unknown claim is found", move || {
            refuses(unknown(), "`no smoke` is not a claim")
        }),
    ]
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(TOGETHER));

    let sentences = in_order(sentences());
    assert!(sentences.len() > 100, "only {} sentences were found", sentences.len());
    let binaries = Arc::new(binary_directory());
    let mut trials = own_trials(&binaries);
    trials.extend(sentences.into_iter().map(|sentence| trial(sentence, Arc::clone(&binaries))));
    let conclusion = libtest_mimic::run(&arguments, trials);

    // `exit` would end the process before the copy of the binary is removed.
    drop(binaries);
    conclusion.exit_code()
}
