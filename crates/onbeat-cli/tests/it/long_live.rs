//! Long runs: killed and resumed, asked for a summary on the way, ended by Ctrl-C.

use crate::outputs::{stderr_of, was_cut_off};

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use onbeat::record::{EndReason, RunFile, Series};
use rustix::process::{Pid, Signal, kill_process};

/// Long enough that no stall of a test lets a run end before its kill.
const TIME: &str = "8s";
const RELEASES: u64 = 8_000;
/// Time of a run that does not end by itself in a test. Its intervals are still a second long.
const LONG: &str = "5m";

fn measure(out: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    command.args(["measure", "timer", "--no-causes", "--json", "--out"]).arg(out).args(words);
    command
        .env("ONBEAT_STATE_DIR", out.join("state"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Waits until the run's file has `lines` lines that begin like this.
fn wait_for(out: &Path, begin: &str, lines: usize) {
    let file = out.join("latest/timer.onbeat.hlog");
    let has = || {
        fs::read_to_string(&file)
            .unwrap_or_default()
            .lines()
            .filter(|line| line.starts_with(begin))
            .count()
    };
    wait_until(&format!("had {lines} lines of {begin} in {}", file.display()), || has() >= lines);
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..600 {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("never {what}");
}

/// Whether a process of this one is there still, alive or not yet collected.
fn has_children(child: &Child) -> bool {
    let threads = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().flatten();
    threads
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
        .any(|children| !children.is_empty())
}

const INTERVAL: &str = "#[onbeat: {\"interval\"";

#[test]
fn a_run_killed_twice_is_one_whole_run_in_the_end() {
    let out = tempfile::tempdir().unwrap();
    for part in 1..=2 {
        let mut killed = measure(out.path(), &["--for", TIME, "--resume"]).spawn().unwrap();
        wait_for(out.path(), INTERVAL, part);
        thread::sleep(Duration::from_millis(100 * part as u64));
        killed.kill().unwrap();
        killed.wait().unwrap();
    }

    let whole = measure(out.path(), &["--for", TIME, "--resume"]).output().unwrap();
    let said = String::from_utf8_lossy(&whole.stderr);
    assert!(whole.status.success() && said.contains("resuming"), "{said}");
    let run = RunFile::read(&out.path().join("latest/timer.onbeat.hlog")).unwrap();
    let end = run.end.clone().unwrap();

    assert_eq!(
        (end.slots, end.reason),
        (RELEASES, EndReason::Complete),
        "time measured is what was asked for"
    );
    assert_eq!(end.slots, end.cycles + end.skipped + end.lost);
    let kept = run.distribution(Series::WakeupLatency).count()
        + run.distribution(Series::SkippedLatency).count();
    assert_eq!(end.slots, kept + end.lost + end.warmup + end.excluded);
    assert_eq!((run.blocks.len(), run.resumes.len()), (3, 2));
    assert!(
        run.entries.is_sorted_by_key(|entry| entry.t)
            && run.resumes.iter().all(|resume| resume.unmeasured_s > 0.0)
    );
    let dirs = fs::read_dir(out.path())
        .unwrap()
        .filter(|dir| dir.as_ref().unwrap().file_type().unwrap().is_dir());

    assert_eq!(
        dirs.filter(|dir| dir.as_ref().unwrap().file_name() != "state").count(),
        1,
        "one run, one directory"
    );
    let summary: serde_json::Value = serde_json::from_slice(&whole.stdout).unwrap();
    let notes = summary["cells"][0]["notes"].to_string();
    assert_eq!(notes.matches("were not measured").count(), 2, "{notes}");
    let mut next = measure(out.path(), &["--for", TIME, "--resume"]).spawn().unwrap();
    let said = stderr_until(&mut next, "a new one begins");

    assert!(said.contains("a new one begins"), "a complete run is not resumed: {said}");
}

/// Standard error of a run up to these words, joined where it was wrapped; the run is killed then.
fn stderr_until(run: &mut Child, words: &str) -> String {
    let mut lines = BufReader::new(run.stderr.take().unwrap()).lines();
    let mut said = String::new();
    while !said.contains(words)
        && let Some(line) = lines.next()
    {
        said += &(line.unwrap().split_whitespace().collect::<Vec<_>>().join(" ") + " ");
    }

    run.kill().unwrap();
    run.wait().unwrap();
    said
}

#[test]
fn another_kernel_is_refused_and_a_living_run_too() {
    let out = tempfile::tempdir().unwrap();
    let alive = measure(out.path(), &["--for", LONG]).spawn().unwrap();
    wait_for(out.path(), INTERVAL, 1);
    let second = measure(out.path(), &["--for", LONG, "--resume"]).output().unwrap();
    let said = String::from_utf8_lossy(&second.stderr);

    assert!(
        second.status.code() == Some(2)
            && said.contains("is being written by a running measurement"),
        "{said}"
    );
    signal(&alive, Signal::TERM);
    let ended = alive.wait_with_output().unwrap();
    let said = stderr_of(&ended);
    assert!(ended.status.success() || was_cut_off(ended.status, &said), "{}: {said}", ended.status);
    let file = out.path().join("latest/timer.onbeat.hlog");
    let text = fs::read_to_string(&file).unwrap();
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    let of_other = text.replacen(&format!("\"kernel\":\"{kernel}\""), "\"kernel\":\"2.6.18\"", 1);
    fs::write(&file, &of_other).unwrap();
    let other = measure(out.path(), &["--for", LONG, "--resume"]).output().unwrap();
    let said = String::from_utf8_lossy(&other.stderr);
    let sentence = format!("kernel was 2.6.18 and is {kernel}; start a new run without --resume");

    assert!(other.status.code() == Some(2) && said.contains(&sentence), "{said}");
    assert!(fs::read_to_string(&file).unwrap() == of_other, "nothing was written to it");
}

/// Resident memory in kB; the process is alive.
fn resident_kb(child: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn sigusr1_shows_the_summary_so_far_and_costs_the_run_no_memory() {
    let out = tempfile::tempdir().unwrap();
    let stderr = out.path().join("stderr");
    let said = || fs::read_to_string(&stderr).unwrap();
    let shown = || said().matches("run in progress: figures from its first").count();
    let to_file = File::create(&stderr).unwrap();
    let run = measure(out.path(), &["--for", LONG]).stderr(to_file).spawn().unwrap();
    wait_for(out.path(), INTERVAL, 1);
    let mut resident = Vec::new();
    for wanted in 1..=5 {
        signal(&run, Signal::USR1);
        wait_for(out.path(), INTERVAL, 1 + wanted);
        // And its process is collected: a signal before would get no summary of its own.
        wait_until("shown the summary", || shown() == wanted && !has_children(&run));
        resident.push(resident_kb(&run));
    }

    signal(&run, Signal::INT);
    let ended = run.wait_with_output().unwrap();
    assert_eq!(shown(), 5, "{}", said());
    if was_cut_off(ended.status, &said()) {
        let run = RunFile::read(&out.path().join("latest/timer.onbeat.hlog")).unwrap();
        assert!(!run.intervals.is_empty());
    } else {
        let summary: serde_json::Value =
            serde_json::from_slice(&ended.stdout).expect("one JSON object and nothing else");
        assert_eq!(
            (ended.status.code(), summary["cells"][0]["complete"].as_bool()),
            (Some(0), Some(true))
        );
    }
    if rustix::process::geteuid().is_root() {
        assert!(
            resident.iter().all(|kb| *kb == resident[0]),
            "memory is locked and there from the start: {resident:?}"
        );
    } else {
        println!("skipped, without locked memory pages come as they are touched: {resident:?}");
    }
}
