//! The tables that the terminal prints, from the fixed run files in `tests/golden/runs`, as in `tests/golden/tables`.
//!
//! `make bless` rebuilds the golden files; `ONBEAT_BLESS` does so here.
#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A golden file and the command line whose output it holds. Each path is below `tests/golden/runs`.
const TABLES: [(&str, &[&str]); 11] = [
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
];

/// Width of the terminal that the tables are printed for.
const COLUMNS: usize = 80;

fn golden(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(folder)
}

/// Copies the run directories, because `report` writes its page beside the run files.
fn copy_of_runs() -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for run in fs::read_dir(golden("runs")).unwrap().map(|entry| entry.unwrap().path()) {
        let into = copy.path().join(run.file_name().unwrap());
        fs::create_dir(&into).unwrap();
        for file in fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().path()) {
            fs::copy(&file, into.join(file.file_name().unwrap())).unwrap();
        }
    }

    copy
}

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
    let runs = copy_of_runs();
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
        assert!(agreed == table, "{} is not what onbeat prints; `make bless` rebuilds it:\n{table}", file.display());
    }

    let files = fs::read_dir(&folder).unwrap().count();
    assert_eq!(files, TABLES.len(), "a golden file belongs to no command");
}

#[test]
fn tables_fit_the_terminal() {
    let runs = copy_of_runs();
    for (name, words) in TABLES {
        let table = printed(words, runs.path());
        let wide: Vec<&str> = table.lines().filter(|line| line.chars().count() > COLUMNS).collect();
        assert!(wide.is_empty(), "{name}:\n{}", wide.join("\n"));
    }
}
