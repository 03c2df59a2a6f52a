//! However a recorder ends, its instance is removed, and other instances are not touched.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use onbeat::cause::{FlightRecorder, FlightSetting, PathSource, Tracefs};

const SMALL: FlightSetting = FlightSetting {
    buffer_kib: 64,
    kept_kib: 64,
    tid: None,
    syscalls: false,
    stacks: false,
    inside: false,
    kvm: false,
    path: PathSource::BpfIfAllowed,
};
/// Set for the child process of the test below.
const HOLD: &str = "ONBEAT_TEST_HOLD";

/// Keeps the tests apart: each start removes leftovers, and while one test has a file of a leftover
/// open to do so, another test's start cannot remove it.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn instances() -> Vec<String> {
    Tracefs::open().unwrap().instances().unwrap()
}

fn skipped() -> bool {
    match FlightRecorder::open(&SMALL) {
        Ok(recorder) => {
            recorder.close();
            false
        }
        Err(why) => {
            println!("skipped: {why}");
            true
        }
    }
}

/// In the child: holds an instance until it is killed.
fn hold() -> ! {
    let recorder = FlightRecorder::open(&SMALL).unwrap();
    println!("holding {}", recorder.instance_name());
    loop {
        std::thread::park();
    }
}

#[test]
fn a_recorder_that_is_closed_leaves_no_instance() {
    let _alone = alone();
    if skipped() {
        return;
    }

    let recorder = FlightRecorder::open(&SMALL).unwrap();
    let name = recorder.instance_name();
    assert!(instances().contains(&name));
    recorder.close();
    assert!(!instances().contains(&name));
}

/// A child that has just been started holds such copies until its execve.
#[test]
fn an_instance_whose_files_are_open_for_a_moment_more_is_removed() {
    let _alone = alone();
    if skipped() {
        return;
    }

    let recorder = FlightRecorder::open(&SMALL).unwrap();
    let name = recorder.instance_name();
    let file = format!("instances/{name}/per_cpu/cpu0/trace_pipe_raw");
    let copy = std::fs::File::open(Tracefs::open().unwrap().path(&file)).unwrap();
    let other = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        drop(copy);
    });
    recorder.close();
    other.join().unwrap();
    assert!(!instances().contains(&name));
}

#[test]
fn the_instance_of_a_killed_process_is_removed_by_the_next_start() {
    if std::env::var_os(HOLD).is_some() {
        hold();
    }

    let _alone = alone();
    if skipped() {
        return;
    }

    let own = "cause_ends::the_instance_of_a_killed_process_is_removed_by_the_next_start";
    let mut child = Command::new(std::env::current_exe().unwrap());
    let child = child.args(["--exact", own, "--nocapture"]).env(HOLD, "1");
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let name =
        lines.find_map(|line| Some(line.unwrap().split_once("holding ")?.1.to_owned())).unwrap();

    let living = FlightRecorder::open(&SMALL).unwrap();
    assert!(instances().contains(&name), "its owner lives, so a start leaves it alone");
    child.kill().unwrap();
    child.wait().unwrap();

    FlightRecorder::open(&SMALL).unwrap().close();
    assert!(!instances().contains(&name), "the next start has removed it");
    assert!(instances().contains(&living.instance_name()), "and nothing of the living");
}

#[test]
fn instances_of_others_are_left_alone() {
    let _alone = alone();
    if skipped() {
        return;
    }

    let tracefs = Tracefs::open().unwrap();
    // A name of this process alone: a killed run may have left its own.
    let foreign = tracefs.path(&format!("instances/not-of-onbeat-{}", std::process::id()));
    std::fs::create_dir(&foreign).unwrap();
    tracefs.remove_leftovers().unwrap();
    assert!(foreign.exists());
    std::fs::remove_dir(&foreign).unwrap();
}
