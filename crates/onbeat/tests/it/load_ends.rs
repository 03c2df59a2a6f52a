//! However a load ends, and whichever process is killed, nothing of it is left.

use crate::load_carrier;

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use load_carrier::{
    alone, carrier, members, processes, run_for, sleep_word, starter, until, with_word,
};
use onbeat::load::{LoadStopReason, RunningLoad, kill_session, session_identity};
use rustix::process::{Pid, Signal, kill_process};

fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

fn identity_in(directory: &Path) -> (i32, u64) {
    until("the identity is written", || directory.join("identity").exists());
    let text = std::fs::read_to_string(directory.join("identity")).unwrap();
    let (sid, start_ticks) = text.split_once(' ').unwrap();
    (sid.parse().unwrap(), start_ticks.parse().unwrap())
}

#[test]
fn when_the_starter_is_killed_nothing_is_left_without_a_cleanup() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let word = sleep_word(4711);
    let mut starter = starter(
        &format!("sched=1+run:sleep {word} & setsid sleep {word} & sleep {word}"),
        directory.path(),
    )
    .stdin(Stdio::null())
    .stdout(Stdio::null())
    .spawn()
    .unwrap();
    let (sid, start_ticks) = identity_in(directory.path());

    assert_eq!(session_identity(sid), Some((sid, start_ticks)));
    until("the programs run", || with_word(&word).len() >= 3);
    starter.kill().unwrap();
    starter.wait().unwrap();
    until("the session is empty", || members(sid).is_empty() && with_word(&word).is_empty());

    assert_eq!(kill_session(sid, start_ticks).unwrap(), 0, "nothing is left to clean up");
}

#[test]
fn when_the_carrier_is_killed_a_later_start_kills_what_it_left() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let word = sleep_word(4712);
    let load = &format!("sched=1+run:sleep {word} & sleep {word} & sleep {word}; true");
    let running = RunningLoad::start(carrier(load, directory.path())).unwrap();
    let (sid, start_ticks) = running.identity().unwrap();
    until("the programs run", || with_word(&word).len() == 3);
    signal(sid, Signal::KILL);
    until("its child is gone with it", || {
        members(sid).iter().all(|pid| with_word(&word).contains(pid))
    });

    assert_eq!(with_word(&word).len(), 3, "grandchildren outlive it");
    assert_eq!(
        kill_session(sid, start_ticks + 1).unwrap(),
        0,
        "a session of another start is not touched"
    );
    assert_eq!(kill_session(sid, start_ticks).unwrap(), 3);
    assert!(members(sid).is_empty() && with_word(&word).is_empty());
    assert_eq!(kill_session(sid, start_ticks).unwrap(), 0);
    assert!(running.stop().is_err(), "a load without a report is an error");
}

#[test]
fn a_living_session_with_the_same_number_and_another_start_is_not_touched() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let word = sleep_word(4713);
    let running =
        RunningLoad::start(carrier(&format!("run:sleep {word}"), directory.path())).unwrap();
    let (sid, start_ticks) = running.identity().unwrap();
    until("the program runs", || !with_word(&word).is_empty());

    for start_ticks in [start_ticks - 1, start_ticks + 1] {
        assert_eq!(kill_session(sid, start_ticks).unwrap(), 0);
    }
    assert!(!with_word(&word).is_empty());
    let (report, _) = running.stop().unwrap();
    assert_eq!(report.survivors, 0);
    assert!(with_word(&word).is_empty());
}

#[test]
fn a_process_that_left_the_session_is_ended_too() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let word = sleep_word(4714);
    let running = RunningLoad::start(carrier(
        &format!("run:setsid sh -c 'sleep {word} & sleep {word}' & true"),
        directory.path(),
    ))
    .unwrap();
    until("the programs run", || with_word(&word).len() >= 2);
    running.stop().unwrap();

    assert!(with_word(&word).is_empty());
}

#[test]
fn a_program_that_ignores_the_request_is_ended_by_force() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let word = sleep_word(4715);
    let running = RunningLoad::start(carrier(
        &format!("run:trap '' TERM INT; sleep {word}; sleep {word}"),
        directory.path(),
    ))
    .unwrap();
    until("the program runs", || !with_word(&word).is_empty());
    let (report, _) = running.stop().unwrap();
    assert!(
        report.parts[0].alive && report.survivors == 0 && with_word(&word).is_empty(),
        "{report:?}"
    );
}

#[test]
fn a_signal_ends_a_load_gracefully() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let word = sleep_word(4716);
    let running =
        RunningLoad::start(carrier(&format!("run:sleep {word}"), directory.path())).unwrap();
    until("the program runs", || !with_word(&word).is_empty());
    signal(running.identity().unwrap().0, Signal::TERM);
    // The load ends it when it has seen the signal, not before.
    until("the program is gone", || with_word(&word).is_empty());
    let (report, _) = running.stop().unwrap();

    assert_eq!(report.why, LoadStopReason::Signal);
}

#[test]
fn dropping_a_running_load_ends_it() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let word = sleep_word(4717);
    let running =
        RunningLoad::start(carrier(&format!("run:sleep {word}"), directory.path())).unwrap();
    until("the program runs", || !with_word(&word).is_empty());
    drop(running);
    assert!(with_word(&word).is_empty());
}

#[test]
fn a_load_is_ordinary_regardless_of_its_starters_privileges() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let word = sleep_word(4718);
    let path = directory.path().to_owned();
    let (everywhere, here) = std::thread::spawn(move || {
        let everywhere = rustix::thread::sched_getaffinity(None).unwrap();
        let first = (0..).find(|cpu| everywhere.is_set(*cpu)).unwrap();
        let mut one = rustix::thread::CpuSet::new();
        one.set(first);
        rustix::thread::sched_setaffinity(None, &one).unwrap();
        real_time();
        let running = RunningLoad::start(carrier(&format!("run:sleep {word}"), &path)).unwrap();
        until("the program runs", || !with_word(&word).is_empty());
        let pid = with_word(&word)[0];
        let here = rustix::thread::sched_getaffinity(Pid::from_raw(pid)).unwrap();
        let fields = processes().find(|process| process.0 == pid).unwrap().1;

        // Fields 18, 19 and 41 of proc(5), counted from the state (field 3).
        assert_eq!(
            [&*fields[15], &*fields[16], &*fields[38]],
            ["20", "0", "0"],
            "priority, nice value, policy"
        );
        running.stop().unwrap();
        (everywhere, here)
    })
    .join()
    .unwrap();

    assert!(here.count() >= everywhere.count(), "{} of {} CPUs", here.count(), everywhere.count());
}

/// Makes the calling thread SCHED_FIFO 1, if permitted; its children inherit it.
#[allow(unsafe_code)]
fn real_time() {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: `parameters` lives across the call; 0 means the calling thread.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) } != 0 {
        println!("SCHED_FIFO is not permitted here: only the CPUs of the starter are restricted");
    }
}

#[test]
fn hackbench_is_run_by_the_papers_load_and_all_of_it_is_ended() {
    let _alone = alone();
    if std::process::Command::new("hackbench").arg("-h").output().is_err() {
        println!("skipped: hackbench is not installed (package rt-tests)");
        return;
    }

    let directory = tempfile::tempdir().unwrap();
    let (report, _) = run_for("paper", directory.path(), Duration::from_millis(300));
    let hackbench = report.parts.iter().find(|part| part.part == "hackbench").unwrap();
    assert!(hackbench.by.starts_with("hackbench -g"), "{hackbench:?}");
    assert!(
        matches!(hackbench.did, onbeat::load::PartWork::Program { processes: 1.., .. }),
        "{hackbench:?}"
    );
    assert_eq!(report.survivors, 0);
}
