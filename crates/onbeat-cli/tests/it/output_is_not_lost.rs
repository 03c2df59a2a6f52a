//! Lost output is a failure of the command; a reader that closes early is not.

use crate::abused_stage;

use std::fs::{self, File};
use std::path::Path;
use std::process::{Output, Stdio};

use abused_stage::onbeat;

/// Commands that print, each in a directory with an imported run `a`, another one `b`, a measured
/// one `m`, and `a.csv`.
const COMMANDS: &[&[&str]] = &[
    &["--help"],
    &["--version"],
    &["bench", "--help"],
    &["report", "a"],
    &["report", "a", "--full"],
    &["report", "a", "--brief"],
    &["report", "a", "--json"],
    &["compare", "a", "b"],
    &["compare", "a", "b", "--json"],
    &["gate", "a", "--limit", "1s", "--at", "99"],
    &["gate", "a", "--limit", "1s", "--at", "99", "--json"],
    &["gate", "a", "--limit", "1s", "--at", "99", "--junit", "-"],
    &["import", "a.csv", "-o", "c"],
    &["import", "a.csv", "-o", "c", "--json"],
    &["export", "m", "--list"],
    &["export", "a", "--csv", "-"],
    &["export", "a", "--json", "-"],
    &["export", "a", "--openmetrics", "-"],
    &["export", "a", "--parquet", "-"],
    &["measure", "timer", "--for", "100ms", "--priority", "0", "--no-causes"],
    &["measure", "timer", "--for", "100ms", "--priority", "0", "--no-causes", "--json"],
    &["measure", "latency", "--for", "1100ms", "--priority", "0", "--no-causes"],
    &[
        "measure",
        "timer",
        "--for",
        "200ms",
        "--load-sweep",
        "0..10/10",
        "--priority",
        "0",
        "--no-causes",
    ],
    &["load", "cpu=1%", "--for", "100ms"],
    &["repair"],
    &["bus", "scan", "simulated"],
    &["bus", "scan", "simulated", "--json"],
    &["bus", "run", "--", "--help"],
    &["segment", "fault", "--list"],
    &["robot", "run", "humanoid", "--for", "200ms", "--priority", "0", "--no-causes"],
    &["robot", "run", "humanoid", "--for", "200ms", "--priority", "0", "--no-causes", "--json"],
];

fn done(dir: &Path, words: &[&str]) -> Output {
    let output = onbeat(dir, words).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        is_carried_out(output.status.code()) && !message.contains("onbeat: "),
        "{words:?}: {message}"
    );
    output
}

/// A robot on a busy machine may come to its safe stop, which is a result as any other.
const fn is_carried_out(status: Option<i32>) -> bool {
    matches!(status, Some(0 | 1 | 3))
}

fn stage() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let samples: String = (0..5000).map(|n| format!("{}\n", 20 + n % 50)).collect();
    fs::write(dir.path().join("a.csv"), format!("latency_us\n{samples}")).unwrap();
    for run in ["a", "b"] {
        done(
            dir.path(),
            &["import", "a.csv", "--period", "1ms", "--as", "wakeup_latency", "-o", run],
        );
    }

    let spikes = ["--spikes-over", "1ns", "--priority", "0", "--no-causes", "--out", "runs"];
    done(dir.path(), &[&["measure", "timer", "--for", "100ms"], &spikes[..]].concat());
    fs::rename(fs::canonicalize(dir.path().join("runs/latest")).unwrap(), dir.path().join("m"))
        .unwrap();
    dir
}

fn forget_imported(dir: &Path) {
    if dir.join("c").exists() {
        fs::remove_dir_all(dir.join("c")).unwrap();
    }
}

/// Status and standard error of each command whose standard output is `to`.
fn each(dir: &Path, to: impl Fn() -> Stdio) -> Vec<(String, Option<i32>, String)> {
    let one = |words: &&[&str]| {
        forget_imported(dir);
        let output = onbeat(dir, words).stdout(to()).stderr(Stdio::piped()).output().unwrap();
        (
            words.join(" "),
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    COMMANDS.iter().map(one).collect()
}

#[test]
fn a_result_that_is_lost_gives_status_2_and_one_sentence() {
    let dir = stage();
    let full = || Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    let mut wrong = Vec::new();
    for (words, status, message) in each(dir.path(), full) {
        let sentences: Vec<&str> =
            message.lines().filter(|line| line.starts_with("onbeat: ")).collect();
        let says = matches!(sentences[..], [one] if one.contains("cannot write to standard output: No space left on device"));
        if status != Some(2) || !says {
            wrong.push(format!("{words}: {status:?}: {message}"));
        }
    }

    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), COMMANDS.len(), wrong.join("\n"));
}

#[test]
fn a_standard_output_that_can_only_be_read_is_noticed() {
    let dir = stage();
    let words: &[&str] = &["report", "a", "--json"];
    let output = onbeat(dir.path(), words)
        .stdout(File::open("/dev/null").unwrap())
        .stderr(Stdio::piped())
        .output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("cannot write to standard output"),
        "{output:?}"
    );
}

#[test]
fn a_reader_that_has_seen_enough_is_not_a_failure() {
    let dir = stage();
    let closed = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        Stdio::from(writer)
    };

    let mut wrong = Vec::new();
    for (words, status, message) in each(dir.path(), closed) {
        if !is_carried_out(status) || message.contains("onbeat: ") {
            wrong.push(format!("{words}: {status:?}: {message}"));
        }
    }

    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), COMMANDS.len(), wrong.join("\n"));
}

#[test]
fn the_same_commands_end_well_when_they_are_read() {
    let dir = stage();
    for words in COMMANDS {
        forget_imported(dir.path());
        let output = done(dir.path(), words);
        assert!(!output.stdout.is_empty(), "{words:?} prints something");
    }
}
