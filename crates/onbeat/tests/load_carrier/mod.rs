//! This test program as the process that carries a load, and as the process that started it.
#![allow(missing_docs, dead_code)]

use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use onbeat::load::{Load, LoadEventKind, LoadNotice, LoadReport, Options, PartReport, PartWork, RunningLoad, serve};

const LOAD: &str = "ONBEAT_TEST_CARRIES";
const STARTS: &str = "ONBEAT_TEST_STARTS";
const DIRECTORY: &str = "ONBEAT_TEST_DIRECTORY";

/// The disk part's bound in tests, in bytes.
pub(crate) const LARGEST_FILE: u64 = 20_000_000;

/// A command whose process carries `load`; its files are in `directory`, and so is what it walks.
pub(crate) fn carrier(load: &str, directory: &Path) -> Command {
    let mut command = again("load_carrier::the_process_that_carries_a_load");
    command.env(LOAD, load).env(DIRECTORY, directory);
    command
}

/// A command whose process starts such a carrier, writes its identity to `identity` in `directory`, and waits.
pub(crate) fn starter(load: &str, directory: &Path) -> Command {
    let mut command = again("load_carrier::the_process_that_starts_a_carrier");
    command.env(STARTS, load).env(DIRECTORY, directory);
    command
}

/// Loads compete: each test has the machine for itself, as far as the tests are concerned.
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
    // Called as an ordinary test there is nothing to carry: the other tests start it as the process that carries a load.
    let Ok(load) = std::env::var(LOAD) else { return };
    let load: Load = load.parse().unwrap();
    let directory = std::path::PathBuf::from(std::env::var_os(DIRECTORY).unwrap());
    let options =
        Options { walk_from: directory.clone(), directory, largest_file_bytes: LARGEST_FILE, ..Options::default() };
    let input = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let mut output = std::io::stdout();
    // The test runner has begun a line.
    writeln!(output).unwrap();
    let outcome = serve(&load, options, input, &mut output);

    assert!(outcome.is_ok(), "{outcome:?}");
}

#[test]
fn the_process_that_starts_a_carrier() {
    // As above: the other tests start it as the process that starts a carrier.
    let Ok(load) = std::env::var(STARTS) else { return };
    let directory = std::path::PathBuf::from(std::env::var_os(DIRECTORY).unwrap());
    let running = RunningLoad::start(carrier(&load, &directory)).unwrap();
    let (sid, start_ticks) = running.identity().unwrap();
    std::fs::write(directory.join("writing"), format!("{sid} {start_ticks}")).unwrap();
    std::fs::rename(directory.join("writing"), directory.join("identity")).unwrap();
    std::thread::sleep(Duration::from_secs(60));

    assert!(running.identity().is_some());
}

/// Runs a load for some time.
pub(crate) fn run_for(load: &str, directory: &Path, time: Duration) -> (LoadReport, Vec<LoadNotice>) {
    let mut running = RunningLoad::start(carrier(load, directory)).unwrap();
    std::thread::sleep(time);
    let mut events = running.events();
    let (report, later) = running.stop().unwrap();
    events.extend(later);

    assert_eq!(report.survivors, 0);
    assert!(matches!(
        events.first().unwrap().what,
        LoadEventKind::Started { .. } | LoadEventKind::PartSubstituted { .. }
    ));
    assert!(matches!(events.last().unwrap().what, LoadEventKind::Stopped { .. }));
    (report, events)
}

/// What a part did.
pub(crate) fn did(report: &LoadReport, part: &str) -> PartWork {
    part_of(report, part).did
}

pub(crate) fn part_of<'r>(report: &'r LoadReport, part: &str) -> &'r PartReport {
    report.parts.iter().find(|one| one.part == part).unwrap_or_else(|| panic!("{part} in {report:?}"))
}

/// The processes of a session, without the dead that nobody has buried.
pub(crate) fn members(sid: i32) -> Vec<i32> {
    processes()
        .filter(|(_, fields)| fields[3] == sid.to_string() && !matches!(&*fields[0], "Z" | "X"))
        .map(|p| p.0)
        .collect()
}

/// Number and fields of `/proc/PID/stat` from the state on, of every process.
pub(crate) fn processes() -> impl Iterator<Item = (i32, Vec<String>)> {
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        Some((pid, line.rsplit_once(") ")?.1.split(' ').map(str::to_owned).collect()))
    })
}

/// The processes with this word on their command line.
pub(crate) fn with_word(word: &str) -> Vec<i32> {
    let has = |pid: &i32| {
        std::fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.split(|byte| *byte == 0).any(|one| one == word.as_bytes()))
    };
    processes().map(|process| process.0).filter(has).collect()
}

/// Waits until something holds: at most ten seconds, on a busy machine.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < end, "waited ten seconds for this: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
