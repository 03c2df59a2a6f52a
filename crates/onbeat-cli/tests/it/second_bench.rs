//! A bench beside another onbeat that changes the machine: refused with the other process, or
//! waiting for it.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use onbeat_tune::{Journal, LiveHost, Purpose};
use rustix::process::{Pid, Signal, kill_process};

const FIRST: &str = "onbeat bench --for 12m";

/// Another onbeat at work: this process, with a journal of its own.
fn first(dir: &Path) -> Journal {
    Journal::begin(&dir.join("state/journal"), &LiveHost::new(), &Purpose::new("bench", FIRST))
        .unwrap()
}

fn second(dir: &Path, more: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    command
        .args(["bench", "--for", "5s", "--tunings", "none", "--loads", "idle", "--no-causes"])
        .args(more);
    command.current_dir(dir).env("ONBEAT_STATE_DIR", dir.join("state")).env("LC_ALL", "C");
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn names_the_first(said: &str) {
    let pid = format!("pid {}", std::process::id());
    for part in [pid.as_str(), FIRST, "since 20"] {
        assert!(said.contains(part), "\"{part}\" is missing: {said}");
    }
    assert!(!said.contains("kill"), "nobody is asked to end somebody's measurement: {said}");
}

/// Runs the second bench until it says that it waits.
fn waiting(dir: &Path) -> (Child, BufReader<std::process::ChildStderr>) {
    let mut bench = second(dir, &["--wait"]);
    let mut said = BufReader::new(bench.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();

    assert!(line.starts_with("waiting for another onbeat to end"), "{line}");
    names_the_first(&line);
    assert!(!dir.join("onbeat-runs").exists(), "nothing is made before the bench can begin");
    (bench, said)
}

#[test]
fn a_second_bench_is_refused_with_who_measures_since_when_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let first = first(dir.path());
    let output = second(dir.path(), &[]).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);

    assert_eq!(output.status.code(), Some(2), "{said}");
    names_the_first(&said);
    assert!(said.contains("--wait"), "{said}");
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    assert!(!dir.path().join("onbeat-runs").exists());
    first.close().unwrap();
}

#[test]
fn a_bench_that_waits_begins_when_the_other_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    let first = first(dir.path());
    let (mut bench, mut said) = waiting(dir.path());
    first.close().unwrap();

    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    let status = bench.wait().unwrap();
    assert!(status.success(), "{status}: {rest}");
    assert!(dir.path().join("onbeat-runs/latest/report.html").exists());
}

#[test]
fn ctrl_c_ends_the_wait_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let first = first(dir.path());
    let (mut bench, mut said) = waiting(dir.path());
    kill_process(Pid::from_raw(bench.id().cast_signed()).unwrap(), Signal::INT).unwrap();

    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(bench.wait().unwrap().code(), Some(2), "{rest}");
    assert!(rest.contains("nothing was measured"), "{rest}");
    assert!(!dir.path().join("onbeat-runs").exists());
    let journals = fs::read_dir(dir.path().join("state/journal")).unwrap().flatten();
    let open = journals
        .filter(|entry| entry.path().extension().is_some_and(|kind| kind == "journal"))
        .count();

    assert_eq!(open, 1, "that of the first");
    first.close().unwrap();
}

#[test]
fn a_quiet_bench_says_nothing_beside_its_result() {
    let dir = tempfile::tempdir().unwrap();
    let output = second(dir.path(), &["--quiet"]).wait_with_output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("verdict"));
}
