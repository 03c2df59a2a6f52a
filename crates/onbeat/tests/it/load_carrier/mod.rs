//! Runs this test program as the carrier of a load, and as the process that starts a carrier.
#![allow(dead_code)]

use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use onbeat::load::{
    Load, LoadNotice, LoadNoticeKind, LoadReport, Options, PartReport, PartWork, RunningLoad, serve,
};

const LOAD: &str = "ONBEAT_TEST_CARRIES";
const STARTS: &str = "ONBEAT_TEST_STARTS";
const DIRECTORY: &str = "ONBEAT_TEST_DIRECTORY";

/// Maximum file size of the disk part in tests, in bytes.
pub(crate) const LARGEST_FILE: u64 = 20_000_000;

/// Returns a command whose process carries `load`; it writes to `directory` and walks it.
pub(crate) fn carrier(load: &str, directory: &Path) -> Command {
    let mut command = again("load_carrier::the_process_that_carries_a_load");
    command.env(LOAD, load).env(DIRECTORY, directory);
    command
}

/// Returns a command whose process starts such a carrier, writes its identity to `identity` in
/// `directory`, and waits.
pub(crate) fn starter(load: &str, directory: &Path) -> Command {
    let mut command = again("load_carrier::the_process_that_starts_a_carrier");
    command.env(STARTS, load).env(DIRECTORY, directory);
    command
}

/// Keeps the tests from running at the same time, because loads compete.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn again(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.stderr(std::process::Stdio::null());
    command
}

#[test]
fn the_process_that_carries_a_load() {
    // As an ordinary test it does nothing: the other tests start it as the carrier of a load.
    let Ok(load) = std::env::var(LOAD) else { return };
    let load: Load = load.parse().unwrap();
    let directory = std::path::PathBuf::from(std::env::var_os(DIRECTORY).unwrap());
    let options =
        Options { walk_from: directory.clone(), directory, largest_file_bytes: LARGEST_FILE };
    let input = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let mut output = std::io::stdout();
    // The test runner has printed the start of a line.
    writeln!(output).unwrap();
    let outcome = serve(&load, &options, input, &mut output);

    assert!(outcome.is_ok(), "{outcome:?}");
}

#[test]
fn the_process_that_starts_a_carrier() {
    // As above: the other tests start it as the starter of a carrier.
    let Ok(load) = std::env::var(STARTS) else { return };
    let directory = std::path::PathBuf::from(std::env::var_os(DIRECTORY).unwrap());
    let running = RunningLoad::start(carrier(&load, &directory)).unwrap();
    let (sid, start_ticks) = running.identity().unwrap();
    std::fs::write(directory.join("writing"), format!("{sid} {start_ticks}")).unwrap();
    std::fs::rename(directory.join("writing"), directory.join("identity")).unwrap();
    // Longer than the other test waits for anything.
    std::thread::sleep(Duration::from_secs(300));

    assert!(running.identity().is_some());
}

/// Lets this much time pass, in pieces: what a stop of the machine adds to one of them is no time
/// in which the load could work.
pub(crate) fn let_work(time: Duration) {
    const PIECE: Duration = Duration::from_millis(10);
    let mut left = time;
    while !left.is_zero() {
        std::thread::sleep(PIECE.min(left));
        left = left.saturating_sub(PIECE);
    }
}

/// Runs a load for `time`.
pub(crate) fn run_for(
    load: &str,
    directory: &Path,
    time: Duration,
) -> (LoadReport, Vec<LoadNotice>) {
    let mut running = RunningLoad::start(carrier(load, directory)).unwrap();
    let_work(time);
    let mut events = running.events();
    let (report, later) = running.stop().unwrap();
    events.extend(later);

    assert_eq!(report.survivors, 0);
    assert!(matches!(
        events.first().unwrap().what,
        LoadNoticeKind::Started { .. } | LoadNoticeKind::PartSubstituted { .. }
    ));
    assert!(matches!(events.last().unwrap().what, LoadNoticeKind::Stopped { .. }));
    (report, events)
}

/// Returns the counts of a part.
pub(crate) fn did(report: &LoadReport, part: &str) -> PartWork {
    part_of(report, part).did
}

pub(crate) fn part_of<'r>(report: &'r LoadReport, part: &str) -> &'r PartReport {
    report
        .parts
        .iter()
        .find(|one| one.part == part)
        .unwrap_or_else(|| panic!("{part} in {report:?}"))
}

/// Returns the processes of a session, without zombies.
pub(crate) fn members(sid: i32) -> Vec<i32> {
    processes()
        .filter(|(_, fields)| fields[3] == sid.to_string() && !matches!(&*fields[0], "Z" | "X"))
        .map(|p| p.0)
        .collect()
}

/// Returns number and fields of `/proc/PID/stat`, from the state on, of every process.
pub(crate) fn processes() -> impl Iterator<Item = (i32, Vec<String>)> {
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        Some((pid, line.rsplit_once(") ")?.1.split(' ').map(str::to_owned).collect()))
    })
}

/// Returns a time for `sleep`, in seconds, that no process but this one's descendants has on its
/// command line: a killed run of this program leaves its own.
pub(crate) fn sleep_word(seconds: u32) -> String {
    format!("{seconds}.{}", std::process::id())
}

/// Returns the processes with this word on their command line.
pub(crate) fn with_word(word: &str) -> Vec<i32> {
    let has = |pid: &i32| {
        std::fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.split(|byte| *byte == 0).any(|one| one == word.as_bytes()))
    };
    processes().map(|process| process.0).filter(has).collect()
}

/// Waits until a condition holds, at most a minute.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "waited a minute for this: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
