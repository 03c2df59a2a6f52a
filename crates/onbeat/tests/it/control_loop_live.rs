//! A loop of one's own: it runs its closure, keeps its account, and refuses in one sentence.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use onbeat::record::{EndReason, RunFile, Series};
use onbeat::{Flow, Loop, LoopError, Period};

fn scratch() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("own.onbeat.hlog");
    (dir, file)
}

#[test]
fn a_closure_runs_once_for_each_release_that_is_not_skipped() {
    let mut cycles = 0;
    let report = onbeat::run(Period::from_hz(1000), |cycle| {
        cycles += 1;
        if cycle.index < 49 { Flow::Continue } else { Flow::Stop }
    })
    .unwrap();

    let account = &report.account;
    assert_eq!(account.cycles, cycles);
    assert_eq!(account.slots, account.cycles + account.skipped + account.lost);
    assert!(account.slots >= 50 && account.reason == EndReason::Task && report.is_complete());

    let short = Loop::new(Period::from_hz(1000)).duration(Duration::from_micros(1)).run(|_| ());
    assert_eq!(short.unwrap().account.slots, 1, "a time below the period ends too");
}

#[test]
fn a_run_file_holds_every_release_of_the_loop() {
    let (_dir, path) = scratch();
    let report =
        Loop::new(Period::from_hz(1000)).releases(100).run_file(&path).run(|_| ()).unwrap();
    let file = RunFile::read(&path).unwrap();
    let moments = |series| file.moments(series).n;
    let account = &report.account;

    assert_eq!(file.end.as_ref().unwrap().slots, 100);
    assert_eq!(file.header.series, [Series::ReleaseLatency]);
    let recorded = moments(Series::WakeupLatency) + moments(Series::SkippedLatency);
    assert_eq!(recorded + account.warmup + account.excluded + account.lost, 100);
}

/// A priority above the highest is refused to everybody.
const TOO_HIGH: u32 = 100;

#[test]
fn a_refusal_is_one_sentence_and_leaves_no_run_file() {
    let (_dir, path) = scratch();
    let own = Loop::new(Period::from_hz(1000)).priority(TOO_HIGH).releases(10).run_file(&path);
    let why = own.run(|_| ()).unwrap_err();
    let sentence = why.to_string();
    assert!(matches!(why, LoopError::Refused { .. }), "{sentence}");
    assert!(
        sentence.starts_with("the loop was not started without real-time priority"),
        "{sentence}"
    );
    assert!(sentence.contains("; to grant it: ") && sentence.lines().count() == 1, "{sentence}");
    assert!(!path.exists());
}

#[test]
fn a_loop_that_accepts_refusals_runs_as_an_ordinary_thread_and_lists_them() {
    let own = Loop::new(Period::from_hz(1000)).priority(TOO_HIGH).accept_refusals().releases(20);
    let report = own.run(|_| ()).unwrap();
    assert_eq!((report.account.slots, report.refused.len()), (20, 1));
    assert!(report.to_string().contains("\nwithout real-time priority"), "{report}");
}

#[test]
fn a_run_file_that_exists_is_not_replaced() {
    let (_dir, path) = scratch();
    std::fs::write(&path, "precious").unwrap();
    let why =
        Loop::new(Period::from_hz(1000)).releases(10).run_file(&path).run(|_| ()).unwrap_err();
    assert!(why.to_string().contains("exists"), "{why}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn a_loop_without_an_end_stops_on_request() {
    let stop = Arc::new(AtomicBool::new(false));
    let own = Loop::new(Period::from_hz(1000)).stop_when(Arc::clone(&stop));
    let report = own.run(|cycle| _ = stop.fetch_or(cycle.index >= 20, Ordering::Relaxed)).unwrap();
    assert_eq!(report.account.reason, EndReason::Asked);
    assert!(report.account.slots > 20);
}

#[test]
fn a_loop_that_was_given_a_cpu_runs_there_alone() {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let cpus = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    let cpu = cpus.max().unwrap();

    let mut seen = Vec::new();
    let own = Loop::new(Period::from_hz(1000)).cpu(cpu as u32).releases(20);
    // A loop that is not bound may stay on one CPU all the same, so its mask is asked for too.
    own.run(|_| {
        let mask = rustix::thread::sched_getaffinity(None).unwrap();
        seen.push((rustix::thread::sched_getcpu(), mask.count()));
    })
    .unwrap();
    assert!(!seen.is_empty() && seen.iter().all(|there| *there == (cpu, 1)), "CPU {cpu}: {seen:?}");
}

/// Locked memory of this process, in KiB.
fn locked_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_loop_that_locks_memory_runs_with_all_of_it_locked() {
    let mut seen_kib = Vec::new();
    let own = Loop::new(Period::from_hz(1000)).lock_memory().accept_refusals().releases(5);
    let report = own.run(|_| seen_kib.push(locked_kib())).unwrap();
    if let Some(refused) = report.refused.first() {
        return println!("skipped: memory cannot be locked here: {refused:?}");
    }
    // A program with its libraries and stacks has more than a mebibyte; no other test locks any.
    assert!(!seen_kib.is_empty() && seen_kib.iter().all(|kib| *kib > 1024), "{seen_kib:?} KiB");
}

#[test]
fn a_panic_of_the_closure_ends_the_loop_in_one_sentence() {
    let why = onbeat::run(Period::from_hz(1000), |cycle| assert!(cycle.index < 5)).unwrap_err();
    assert!(matches!(why, LoopError::Panicked), "{why}");
}

#[test]
fn a_period_of_nothing_is_refused() {
    let why = onbeat::run(Period::from_hz(0), |_| ()).unwrap_err().to_string();
    assert!(why.starts_with("the period is 0"), "{why}");
}
