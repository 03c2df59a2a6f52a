//! The tables that the terminal prints, from the fixed run files in `tests/golden/runs` and the
//! machine in `tests/golden/machine`, as in `tests/golden/tables`.
//!
//! `make bless` rebuilds the golden files; `ONBEAT_BLESS` does so here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A golden file and the command line whose output it holds. Runs are below `tests/golden/runs`.
const TABLES: [(&str, &[&str]); 14] = [
    ("bench", &["report", "bench"]),
    ("bench-full", &["report", "bench", "--full"]),
    ("bench-limit", &["report", "bench", "--limit", "1ms", "--at", "99"]),
    ("timer-brief", &["report", "before", "--brief"]),
    ("timer", &["report", "before"]),
    ("latency", &["report", "latency"]),
    ("sweep", &["report", "sweep"]),
    ("compare", &["compare", "before", "after"]),
    ("compare-loads", &["compare", "bench"]),
    ("gate", &["gate", "after", "--limit", "1ms", "--at", "90", "--baseline", "before"]),
    ("spikes", &["export", "bench", "--list"]),
    ("check", &["tune", "check", "--from", "machine", "--cpus", "3"]),
    ("check-all", &["tune", "check", "--from", "machine", "--cpus", "3", "--all"]),
    (
        "check-details",
        &["tune", "check", "--from", "machine", "--cpus", "3", "irq.affinity", "guest.idle"],
    ),
];

/// Width of the terminal that the tables are printed for.
const COLUMNS: usize = 80;

fn golden(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(folder)
}

/// Copies the run directories, because `report` writes its page beside the run files, and the
/// machine.
fn copies() -> tempfile::TempDir {
    let copies = tempfile::tempdir().unwrap();
    copy(&golden("runs"), copies.path());
    copy(&golden("machine"), &copies.path().join("machine"));
    copies
}

pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for path in fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()) {
        let into = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &into);
        } else {
            fs::copy(&path, into).unwrap();
        }
    }
}

/// The narrowest terminal that prose is folded for.
const NARROW: usize = 40;

fn printed(words: &[&str], runs: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    command.args(["--color", "never"]).args(words).current_dir(runs).stdin(Stdio::null());
    command.env("COLUMNS", COLUMNS.to_string()).env("LC_ALL", "C.UTF-8");
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.is_empty(), "onbeat {words:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn tables_are_as_agreed() {
    let runs = copies();
    let folder = golden("tables");
    let blesses = std::env::var_os("ONBEAT_BLESS").is_some();
    if blesses {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
    }

    for (name, words) in TABLES {
        let table = printed(words, runs.path());
        let file = folder.join(format!("{name}.txt"));
        if blesses {
            fs::write(&file, &table).unwrap();
        }

        let agreed = fs::read_to_string(&file).unwrap_or_default();
        assert!(
            agreed == table,
            "{} is not what onbeat prints; `make bless` rebuilds it:\n{table}",
            file.display()
        );
    }

    let files = fs::read_dir(&folder).unwrap().count();
    assert_eq!(files, TABLES.len(), "a golden file belongs to no command");
}

#[test]
fn tables_fit_the_terminal() {
    let runs = copies();
    for (name, words) in TABLES {
        let table = printed(words, runs.path());
        let wide: Vec<&str> = table.lines().filter(|line| line.chars().count() > COLUMNS).collect();
        assert!(wide.is_empty(), "{name}:\n{}", wide.join("\n"));
    }
}

#[test]
fn prose_fits_a_narrow_terminal() {
    let runs = copies();
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
        command.args(["--color", "never"]).args(words).current_dir(runs.path());
        command.env("COLUMNS", NARROW.to_string()).env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
        command.output().unwrap()
    };

    // A gate prints sentences alone; a report begins with its verdict, down to a blank line.
    let gate = String::from_utf8(run(TABLES[9].1).stdout).unwrap();
    let report = String::from_utf8(run(&["report", "bench", "--limit", "1ms"]).stdout).unwrap();
    let verdict = report.split("\n\n").next().unwrap();
    assert!(
        gate.starts_with("INCONCLUSIVE: after, S") && verdict.starts_with("verdict "),
        "{gate}{verdict}"
    );
    let lines = gate.lines().chain(verdict.lines());
    let wide: Vec<&str> = lines.filter(|line| line.chars().count() > NARROW).collect();
    assert!(wide.is_empty(), "{}", wide.join("\n"));
}
