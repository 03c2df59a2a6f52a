//! A first stop signal ends every command that waits, beside programs that take the CPUs as well; a
//! second one ends onbeat at once, with the command that undoes its changes.

use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const PATIENCE: Duration = Duration::from_secs(60);
/// What the commands would run for: many times the patience.
const ENDLESS: &str = "3h";

/// Programs that take every CPU are for one test alone: beside them the bus of a robot of another
/// one has no answer in time, and its run ends before its signal.
static CPUS: Mutex<()> = Mutex::new(());

fn without_others() -> MutexGuard<'static, ()> {
    CPUS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Processes that take all the time they get, before ordinary programs where that is permitted.
struct Hogs(Vec<Child>);

impl Hogs {
    fn start(count: usize) -> Self {
        let hog = || {
            let mut hog = Command::new("nice");
            hog.args(["-n", "-10", "sh", "-c", "while :; do :; done"]).stderr(Stdio::null());
            hog.spawn().unwrap()
        };
        Self((0..count).map(|_| hog()).collect())
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for hog in &mut self.0 {
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}

/// Sends the signal to the command after a while, and returns how long it took to end.
fn ends_after(line: &str, signal: Signal, directory: &Path) -> Duration {
    let mut run = Command::new(env!("CARGO_BIN_EXE_onbeat"))
        .args(line.split(' '))
        .env("ONBEAT_STATE_DIR", directory.join("state"))
        .env("ONBEAT_RUNTIME_DIR", directory)
        .env("LC_ALL", "C")
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(1_500));
    let ended_before = run.try_wait().unwrap();
    let pid = Pid::from_raw(run.id().cast_signed()).unwrap();
    let sent = Instant::now();
    kill_process(pid, signal).unwrap();
    while run.try_wait().unwrap().is_none() {
        if sent.elapsed() > PATIENCE {
            let _ = run.kill();
            panic!("{line}: still running {PATIENCE:?} after {signal:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let took = sent.elapsed();
    if let Some(status) = ended_before {
        let mut said = String::new();
        run.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        panic!("{line}: it ended before its signal: {status}, {said}");
    }
    took
}

/// Every kind of wait: of a loop, a load, a cell process, a shield, a socket, standard input. Those
/// that leave the machine as it is, which may run beside each other, and those that do not.
fn waiting_commands() -> [Vec<String>; 2] {
    let unshielded = [
        format!("bench --tunings none --loads idle --for {ENDLESS} --out a"),
        format!("measure timer --no-causes --priority 0 --for {ENDLESS} --out b"),
        format!("measure timer --no-causes --priority 0 --load cpu=50% --for {ENDLESS} --out c"),
        format!("measure hiccup --for {ENDLESS} --out d"),
        format!("load cpu=50% --for {ENDLESS}"),
        "inject own-overrun --every 1s --count 10000".to_owned(),
        "net device --port 17470".to_owned(),
    ];
    let changing = [
        format!("bench --tunings C,PMC --loads cpu=50% --for {ENDLESS} --out e"),
        format!("robot run humanoid --for {ENDLESS} --out f"),
        format!("tune measure mem.swappiness --for {ENDLESS} --out g"),
    ];
    let is_root = rustix::process::geteuid().is_root();
    [unshielded.to_vec(), if is_root { changing.to_vec() } else { Vec::new() }]
}

fn ends(line: &str, signal: Signal) {
    let directory = tempfile::tempdir().unwrap();
    let took = ends_after(line, signal, directory.path());
    println!("{signal:?}, {} ms: {line}", took.as_millis());
}

#[test]
fn a_stop_signal_ends_every_command_that_waits() {
    let _alone = without_others();
    let [unshielded, changing] = waiting_commands();
    for signal in [Signal::INT, Signal::TERM] {
        std::thread::scope(|scope| {
            for line in &unshielded {
                scope.spawn(move || ends(line, signal));
            }
        });
        for line in &changing {
            ends(line, signal);
        }
    }
}

#[test]
fn a_stop_signal_ends_a_bench_beside_programs_that_take_every_cpu() {
    let _alone = without_others();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let _hogs = Hogs::start(4 * cpus);
    let directory = tempfile::tempdir().unwrap();
    let line = format!("bench --tunings none --loads cpu=50% --for {ENDLESS} --out runs");
    let took = ends_after(&line, Signal::TERM, directory.path());
    println!("{} hogs, {} ms: {line}", 4 * cpus, took.as_millis());
}

#[test]
fn what_a_second_signal_leaves_behind_is_said_with_the_way_back() {
    let _alone = without_others();
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let out = dir.path().join("runs");
    let onbeat = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
        command
            .env("ONBEAT_STATE_DIR", &state)
            .env("LC_ALL", "C")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    };

    let words = ["bench", "--tunings", "none", "--loads", "idle", "--for", "60s", "--out"];
    let mut bench = onbeat().args(words).arg(&out).spawn().unwrap();
    let pid = Pid::from_raw(bench.id().cast_signed()).unwrap();
    let began = Instant::now();
    let has_journal = || {
        let names = fs::read_dir(state.join("journal")).into_iter().flatten().flatten();
        names
            .map(|entry| entry.path())
            .any(|path| path.extension().is_some_and(|kind| kind == "journal"))
    };

    while !has_journal() {
        assert!(
            began.elapsed() < PATIENCE && bench.try_wait().unwrap().is_none(),
            "no journal is begun"
        );
        std::thread::sleep(Duration::from_millis(1));
    }

    // Both are there before it goes on, so the first one's good order cannot be through before the
    // second.
    for signal in [Signal::STOP, Signal::INT, Signal::TERM, Signal::CONT] {
        kill_process(pid, signal).unwrap();
    }

    let status = bench.wait().unwrap();
    let mut said = String::new();
    bench.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(status.signal().is_some(), "it is ended by the second signal: {status}, {said}");
    assert!(said.contains("`onbeat repair`"), "{said}");

    let repaired = onbeat().arg("repair").output().unwrap();
    assert!(
        repaired.status.success() && !has_journal(),
        "{}",
        String::from_utf8_lossy(&repaired.stdout)
    );
}
