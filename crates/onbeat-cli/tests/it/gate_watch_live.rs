//! `gate --watch` beside a run that is being measured: it ends at the look that decides, when the run
//! ends or is killed, and soon after Ctrl-C; the run goes on.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than any gate here takes.
const LONG: &str = "90s";

fn onbeat(line: &str, directory: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_onbeat"))
        .args(line.split(' '))
        .env("ONBEAT_STATE_DIR", directory.join("state"))
        .env("ONBEAT_RUNTIME_DIR", directory)
        .env("LC_ALL", "C")
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// A run that is ended with its test, whatever becomes of that.
struct Running(Child);

impl Running {
    /// Starts a measurement and waits until its file is there.
    fn start(line: &str, directory: &Path) -> Self {
        let mut run = Self(onbeat(line, directory));
        let began = Instant::now();
        while !directory.join("runs/latest").exists() {
            assert!(began.elapsed() < PATIENCE && run.goes_on(), "{line}: no run");
            std::thread::sleep(Duration::from_millis(50));
        }
        run
    }

    fn goes_on(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.0.id().cast_signed()).unwrap(), signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const GATE: &str = "gate runs/latest --watch";

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "never {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until the run has recorded something, and until Ctrl-C does not simply end the gate.
fn wait_until_followed(gate: &Child, directory: &Path) {
    let file = directory.join("runs/latest/timer.onbeat.hlog");
    let text = || fs::read_to_string(&file).unwrap_or_default();
    wait_until("an interval", || text().contains("#[onbeat: {\"interval\""));
    // A bit for each signal, from the first on (proc_pid_status(5)).
    let is_caught = || {
        let status = fs::read_to_string(format!("/proc/{}/status", gate.id())).ok()?;
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
        let caught = u64::from_str_radix(caught.trim(), 16).ok()?;
        Some(caught & (1 << (Signal::INT.as_raw() - 1)) != 0)
    };
    wait_until("a gate that catches Ctrl-C", || is_caught() == Some(true));
}

fn measured(seconds: &str, directory: &Path) -> Running {
    let line = format!("measure timer --no-causes --priority 0 --for {seconds} --out runs");
    Running::start(&line, directory)
}

fn words(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}\n{}", text(&output.stdout), text(&output.stderr))
}

#[test]
fn clear_verdicts_end_the_gate_while_the_run_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let mut run = measured(LONG, directory.path());
    // No machine serves half of its releases ten seconds late, and none of them within a nanosecond.
    let pass = onbeat(&format!("{GATE} --limit 10s --at 50"), directory.path());
    let fail = onbeat(&format!("{GATE} --limit 1ns --at 99"), directory.path());
    let (pass, fail) = (pass.wait_with_output().unwrap(), fail.wait_with_output().unwrap());

    assert!(run.goes_on(), "the gates ended with the run: {}", words(&pass));
    assert_eq!(pass.status.code(), Some(0), "{}", words(&pass));
    assert_eq!(fail.status.code(), Some(1), "{}", words(&fail));
    assert!(words(&pass).contains("looks share the 5 %"), "{}", words(&pass));
    assert!(words(&fail).contains("FAIL: "), "{}", words(&fail));
    assert!(!words(&pass).contains("cut off"), "{}", words(&pass));
}

#[test]
fn a_bench_is_followed_as_a_measurement_is() {
    let directory = tempfile::tempdir().unwrap();
    let line = "bench --tunings none --loads idle --no-causes --until end --limit 10s --at 50 --for 90s --out runs";
    let mut bench = Running::start(line, directory.path());
    let gate = onbeat(&format!("{GATE} --limit 10s --at 50"), directory.path());
    let gate = gate.wait_with_output().unwrap();
    assert!(bench.goes_on(), "{}", words(&gate));
    assert_eq!(gate.status.code(), Some(0), "{}", words(&gate));
    bench.signal(Signal::INT);
    let ended = Instant::now();
    while bench.goes_on() && ended.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_run_that_ends_undecided_ends_its_gate_with_what_would_decide_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut run = measured("5s", directory.path());
    // None late in 5,000 releases shows nothing of one in ten thousand.
    let gate = onbeat(&format!("{GATE} --limit 10s --at 99.99"), directory.path());
    let gate = gate.wait_with_output().unwrap();
    assert_eq!(gate.status.code(), Some(3), "{}", words(&gate));
    assert!(words(&gate).contains("PASS needs"), "{}", words(&gate));
    run.0.wait().unwrap();
}

#[test]
fn a_killed_run_ends_its_gate_with_what_was_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let run = measured(LONG, directory.path());
    let mut gate = onbeat(&format!("{GATE} --limit 10s --at 99.99"), directory.path());
    wait_until_followed(&gate, directory.path());
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(gate.try_wait().unwrap(), None, "it follows");
    run.signal(Signal::KILL);
    let gate = gate.wait_with_output().unwrap();
    assert_eq!(gate.status.code(), Some(3), "{}", words(&gate));
    assert!(words(&gate).contains("cut off before its closing line"), "{}", words(&gate));
}

#[test]
fn ctrl_c_ends_the_gate_and_not_the_run() {
    let directory = tempfile::tempdir().unwrap();
    let mut run = measured(LONG, directory.path());
    let mut gate = Running(onbeat(&format!("{GATE} --limit 10s --at 99.99"), directory.path()));
    wait_until_followed(&gate.0, directory.path());
    std::thread::sleep(Duration::from_secs(1));
    assert!(gate.goes_on(), "it follows");
    gate.signal(Signal::INT);
    let sent = Instant::now();
    while gate.goes_on() {
        assert!(sent.elapsed() < PATIENCE, "still running");
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("ended {:?} after the signal", sent.elapsed());
    assert!(run.goes_on());
    assert_eq!(gate.0.wait().unwrap().code(), Some(3));
}

#[test]
fn what_is_not_there_or_has_no_limit_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    for line in [
        "gate nothing --watch --limit 1ms",
        "gate nothing --watch",
        "gate nothing --watch --limit 1ms --baseline other",
    ] {
        let gate = onbeat(line, directory.path()).wait_with_output().unwrap();
        assert_eq!(gate.status.code(), Some(2), "{line}: {}", words(&gate));
    }
}
