//! The hiccup meter of `onbeat.jar` on this machine's Java: its run files are read as onbeat's own,
//! and a run that ends in any other way leaves what was measured.
//!
//! Compiled here from its sources beside HdrHistogram, which the jar contains. Without Java or Maven
//! every test is counted as ignored, with the reason in its line.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use libtest_mimic::{Completion, Failed, Trial};
use onbeat::record::{EndReason, RunFile, Series};

use crate::run_files_open_in_java::java_side::{self, Missing};

pub(crate) fn trials() -> Vec<Trial> {
    type Test = fn(&Meter);
    let tests: [(&str, Test); 6] = [
        ("a_run_is_read_as_one_of_onbeats_own", a_run_is_read_as_one_of_onbeats_own),
        ("a_long_sleep_counts_by_jhiccups_rule", a_long_sleep_counts_by_jhiccups_rule),
        (
            "ctrl_c_ends_a_run_with_all_that_was_measured",
            ctrl_c_ends_a_run_with_all_that_was_measured,
        ),
        ("a_killed_run_says_that_it_was_cut_off", a_killed_run_says_that_it_was_cut_off),
        ("a_full_disk_keeps_the_intervals_before", a_full_disk_keeps_the_intervals_before),
        (
            "what_cannot_be_done_is_said_in_one_sentence",
            what_cannot_be_done_is_said_in_one_sentence,
        ),
    ];
    tests.map(|(name, body)| trial(name, body)).into()
}

fn trial(name: &str, body: fn(&Meter)) -> Trial {
    Trial::ignorable_test(format!("hiccup_meter::{name}"), move || match java_side::class_path() {
        Err(Missing::Tool(reason)) => Ok(Completion::ignored_with(reason)),
        Err(Missing::Build(reason)) => Err(Failed::from(reason)),
        Ok(libraries) => {
            body(&Meter::compile(libraries));
            Ok(Completion::Completed)
        }
    })
}

/// The compiled meter.
struct Meter {
    class_path: String,
}

impl Meter {
    fn compile(libraries: &str) -> Self {
        static CLASSES: OnceLock<tempfile::TempDir> = OnceLock::new();
        let classes = CLASSES.get_or_init(|| {
            let classes = tempfile::tempdir().unwrap();
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            let sources = std::fs::read_dir(root.join("java/src/main/java/onbeat/hiccup")).unwrap();
            let mut compile = Command::new("javac");
            compile.args(["--release", "8", "-Xlint:all,-options", "-Werror", "-cp", libraries]);
            compile.arg("-d").arg(classes.path());
            let compiled =
                compile.args(sources.map(|entry| entry.unwrap().path())).output().unwrap();
            assert!(compiled.status.success(), "{}", text(&compiled.stderr));
            classes
        });
        Self { class_path: format!("{}:{libraries}", classes.path().display()) }
    }

    fn command(&self) -> Command {
        let mut java = Command::new("java");
        java.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-cp"]);
        java.arg(&self.class_path).args(["onbeat.hiccup.Main", "hiccup"]);
        java
    }

    fn run(&self, options: &[&str], out: &Path) -> Output {
        self.command().args(options).arg("--out").arg(out).output().unwrap()
    }

    /// Starts a run without an end, and returns when the file holds an interval.
    fn start(&self, out: &Path) -> Child {
        let mut command = self.command();
        command.args(["--for", "10min", "--out"]).arg(out).stdout(Stdio::piped());
        let child = command.spawn().unwrap();
        let began = Instant::now();
        while !std::fs::read_to_string(out).is_ok_and(|file| file.contains("\"interval\"")) {
            assert!(began.elapsed() < Duration::from_secs(120), "no interval in two minutes");
            std::thread::sleep(Duration::from_millis(50));
        }
        child
    }
}

fn a_run_is_read_as_one_of_onbeats_own(meter: &Meter) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("linux.onbeat.hlog");
    let ran = meter.run(&["--for", "3s"], &path);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let run = RunFile::read(&path).unwrap();
    let (counts, exact) = (run.distribution(Series::Hiccup), run.moments(Series::Hiccup));

    assert!(run.is_complete() && run.end.as_ref().unwrap().reason == EndReason::Complete);
    assert_eq!((counts.count(), run.entries.len()), (exact.n, run.intervals.len()));
    assert!(counts.count() > 100, "{} samples in 3 s", counts.count());
    assert_eq!(exact.min_ns, 0, "the shortest iteration is the zero");
    let largest = counts.buckets().last().unwrap();
    assert!((largest.low_ns..=largest.high_ns()).contains(&exact.max_ns));
    for fact in [
        "operating system",
        "architecture",
        "Java version",
        "clock step",
        "Thread.sleep(1)",
        "power plan",
    ] {
        assert!(run.header.host.fact(fact).is_some_and(|value| !value.is_empty()), "no {fact}");
    }
    assert_eq!(run.header.host.fact("power plan"), Some("not visible to Java"));

    let report = onbeat(&["report", "--json"], &[&path]);
    assert!(report.status.success(), "{}", text(&report.stderr));
    let gate = onbeat(&["gate", "--limit", "900s", "--at", "50", "--series", "hiccup"], &[&path]);
    assert_eq!(gate.status.code(), Some(0), "{}{}", text(&gate.stdout), text(&gate.stderr));
    let compared = onbeat(&["compare", "--json"], &[&path, &path]);
    assert!(matches!(compared.status.code(), Some(0 | 3)), "{}", text(&compared.stderr));
    assert!(text(&compared.stdout).contains(r#""series":"hiccup""#));
}

/// With sleeps of 1 µs, of which each takes some 50 µs more, almost every sample is corrected: the
/// histogram and the exact figures count the same ones.
fn a_long_sleep_counts_by_jhiccups_rule(meter: &Meter) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("short.onbeat.hlog");
    assert!(meter.run(&["--for", "1s", "--interval", "1us"], &path).status.success());
    let run = RunFile::read(&path).unwrap();
    let (counts, exact) = (run.distribution(Series::Hiccup), run.moments(Series::Hiccup));

    assert_eq!(counts.count(), exact.n);
    let mean_of_cells = counts.buckets().iter().map(|cell| cell.middle_ns() * cell.count as f64);
    let mean_ns = mean_of_cells.sum::<f64>() / exact.n as f64;
    assert!(
        (mean_ns / exact.mean_ns - 1.0).abs() < 0.01,
        "{mean_ns} ns, exactly {}",
        exact.mean_ns
    );
    // A hiccup of n intervals stands for n − 1 further ones, down to one interval: the largest
    // alone brings as many samples as it is microseconds long.
    assert!(
        exact.n + 2 >= exact.max_ns / 1_000,
        "{} samples, largest {} ns",
        exact.n,
        exact.max_ns
    );
}

fn ctrl_c_ends_a_run_with_all_that_was_measured(meter: &Meter) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("asked.onbeat.hlog");
    let mut child = meter.start(&path);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let mut said = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
    child.wait().unwrap();
    let run = RunFile::read(&path).unwrap();

    assert_eq!(run.end.as_ref().unwrap().reason, EndReason::Asked);
    assert_eq!(run.distribution(Series::Hiccup).count(), run.moments(Series::Hiccup).n);
    assert!(said.contains("samples in") && said.contains("asked.onbeat.hlog"), "{said}");
}

fn a_killed_run_says_that_it_was_cut_off(meter: &Meter) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("killed.onbeat.hlog");
    let mut child = meter.start(&path);
    child.kill().unwrap();
    child.wait().unwrap();
    let run = RunFile::read(&path).unwrap();

    assert!(!run.is_complete() && run.distribution(Series::Hiccup).count() > 0);
    let report = onbeat(&["report"], &[&path]);
    assert!(text(&report.stdout).contains("truncated"), "{}", text(&report.stdout));
}

/// A limit on the size of files stands for the full disk: the answer to the write is an error too.
fn a_full_disk_keeps_the_intervals_before(meter: &Meter) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("full.onbeat.hlog");
    let mut limited = Command::new("bash");
    // Kilobytes: the notes at the beginning and some intervals of a second.
    limited.args(["-c", "ulimit -f 6; exec \"$@\"", "bash"]);
    let java = meter.command();
    limited.arg(java.get_program()).args(java.get_args());
    let ran = limited.args(["--for", "60s", "--out"]).arg(&path).output().unwrap();
    let said = text(&ran.stderr);

    assert_eq!((ran.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("cannot write") && said.contains("s before are in it"), "{said}");
    let run = RunFile::read(&path).unwrap();
    assert!(!run.is_complete() && run.distribution(Series::Hiccup).count() > 0);
}

fn what_cannot_be_done_is_said_in_one_sentence(meter: &Meter) {
    let dir = tempfile::tempdir().unwrap();
    let taken = dir.path().join("taken.onbeat.hlog");
    std::fs::write(&taken, "somebody's").unwrap();
    let absent = dir.path().join("absent/run.onbeat.hlog");
    let new = dir.path().join("new.onbeat.hlog");
    let cases: [(&[&str], &PathBuf, &str); 8] = [
        (&["--for", "1s"], &taken, "exists, and a run is not overwritten"),
        (&["--for", "1s"], &absent, "its directory does not exist"),
        (&["--for", "soon"], &new, "--for `soon` is not a time"),
        (&["--for", "-1s"], &new, "--for `-1s` is not a time"),
        (&["--for", "9999999999999999999d"], &new, "not a time up to a year"),
        (&["--interval", "100ns"], &new, "--interval 100ns is outside 1us to 10s"),
        (&["--for", "1ms", "--interval", "2ms"], &new, "shorter than one sleep"),
        (&["--cpu", "1"], &new, "`--cpu` is not an option of hiccup"),
    ];
    for (options, out, sentence) in cases {
        let ran = meter.run(options, out);
        let said = text(&ran.stderr);
        assert_eq!((ran.status.code(), said.lines().count()), (Some(2), 1), "{options:?}: {said}");
        assert!(said.contains(sentence), "{options:?}: {said}");
        assert!(ran.stdout.is_empty() && !new.exists(), "{options:?}");
    }
    assert_eq!(std::fs::read_to_string(&taken).unwrap(), "somebody's");
}

fn onbeat(words: &[&str], paths: &[&PathBuf]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    command.args(words).args(paths).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
