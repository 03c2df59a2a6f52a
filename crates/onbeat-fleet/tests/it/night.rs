//! The nightly script of the package: a data set that is not there costs no run, and runs that wait take bounded space.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use super::runs::{header, said, samples_by_run, write_run};

/// Beside the script a program `onbeat` that has measured: it copies a run that was made before.
struct Robot {
    dir: tempfile::TempDir,
}

impl Robot {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("onbeat");
        let script = format!(
            "#!/bin/sh\ncase $1 in\nfleet) shift; exec {} \"$@\" ;;\nesac\nwhile [ $# -gt 1 ]; do [ \"$1\" != --out ] || out=$2; shift; done\nmv \"{}/measured\" \"$out/$(ls \"$out\" | wc -l)\"\n",
            env!("CARGO_BIN_EXE_onbeat-fleet"),
            dir.path().display()
        );
        let text = dir.path().join("onbeat.sh");
        fs::write(&text, script).unwrap();
        // By a process of its own: what another test is just starting has the files that this one has
        // open, and a program that somebody may still write to cannot be executed (ETXTBSY).
        let mut install = Command::new("install");
        assert!(install.args(["-m", "755"]).args([&text, &program]).status().unwrap().success());
        Self { dir }
    }

    fn night(&self, to: &Path, settings: &[(&str, &str)]) -> Output {
        self.command(to, settings).output().unwrap()
    }

    fn command(&self, to: &Path, settings: &[(&str, &str)]) -> Command {
        let measured = self.dir.path().join("measured");
        fs::create_dir_all(&measured).unwrap();
        write_run(&measured.join("timer.onbeat.hlog"), &header("a", 1.79e9), &[100; 20]);
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/fleet/onbeat-fleet-night");
        let path = format!("{}:{}", self.dir.path().display(), std::env::var("PATH").unwrap());
        let mut night = Command::new("sh");
        night
            .arg(script)
            .env("PATH", path)
            .env("ONBEAT_FLEET_TO", to)
            .env("ONBEAT_FLEET_STATE", self.dir.path().join("state"));
        night.envs(settings.iter().copied()).env("ONBEAT_FLEET_PAUSE", "0");
        night
    }

    fn waiting(&self) -> usize {
        fs::read_dir(self.dir.path().join("state/runs")).unwrap().count()
    }
}

#[test]
fn runs_wait_for_a_data_set_that_is_not_there() {
    let robot = Robot::new();
    let to = robot.dir.path().join("mnt/fleet");
    for night in 1..=3 {
        let output = robot.night(&to, &[("ONBEAT_FLEET_TRIES", "2")]);
        let message = said(&output);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(
            message.contains(&format!("{night} runs were not added to "))
                && message.contains("in 2 tries"),
            "{message}"
        );
        assert_eq!(robot.waiting(), night);
    }

    fs::create_dir(robot.dir.path().join("mnt")).unwrap();
    assert_eq!(robot.night(&to, &[]).status.code(), Some(0));
    assert_eq!((robot.waiting(), samples_by_run(&to).len()), (0, 4));
}

#[test]
fn runs_that_wait_take_bounded_space_and_the_oldest_go_with_a_word() {
    let robot = Robot::new();
    let to = robot.dir.path().join("mnt/fleet");
    let old = robot.dir.path().join("state/runs/0");
    fs::create_dir_all(&old).unwrap();
    write_run(&old.join("timer.onbeat.hlog"), &header("b", 1.78e9), &[100; 20]);
    fs::write(old.join("large"), vec![b'x'; 3 << 20]).unwrap();
    let output = robot.night(&to, &[("ONBEAT_FLEET_TRIES", "1"), ("ONBEAT_FLEET_MOST_MB", "2")]);
    assert!(
        said(&output).contains("more than 2 MB are waiting; 0, the oldest run, is removed"),
        "{}",
        said(&output)
    );
    assert_eq!(robot.waiting(), 1);
}

#[test]
fn a_night_waits_for_the_one_that_measures() {
    if Command::new("flock").arg("--version").output().is_err() {
        println!("skipped: flock is not installed");
        return;
    }
    let robot = Robot::new();
    let to = robot.dir.path().join("fleet");
    let state = robot.dir.path().join("state");
    fs::create_dir_all(&state).unwrap();
    let lock = fs::File::create(state.join("lock")).unwrap();
    lock.lock().unwrap();
    let mut night = robot.command(&to, &[]).spawn().unwrap();
    thread::sleep(Duration::from_millis(500));
    assert!(night.try_wait().unwrap().is_none() && !to.exists());
    drop(lock);
    assert!(night.wait().unwrap().success());
    assert_eq!(samples_by_run(&to).len(), 1);
}

#[test]
fn a_run_that_a_power_failure_left_without_its_head_does_not_stay() {
    let robot = Robot::new();
    let to = robot.dir.path().join("fleet");
    let cut = robot.dir.path().join("state/runs/0");
    fs::create_dir_all(&cut).unwrap();
    fs::write(cut.join("timer.onbeat.hlog"), "").unwrap();
    let output = robot.night(&to, &[]);
    let message = said(&output);
    assert!(message.contains("0 is not a run that can be read"), "{message}");
    assert_eq!((output.status.code(), robot.waiting()), (Some(0), 0), "{message}");
    assert!(robot.dir.path().join("state/unreadable/0/timer.onbeat.hlog").exists());
    assert_eq!(samples_by_run(&to).len(), 1);
}

#[test]
fn runs_beyond_the_space_are_added_where_the_data_set_is_there_again() {
    let robot = Robot::new();
    let to = robot.dir.path().join("fleet");
    let old = robot.dir.path().join("state/runs/old");
    fs::create_dir_all(&old).unwrap();
    write_run(&old.join("timer.onbeat.hlog"), &header("b", 1.78e9), &[100; 20]);
    fs::write(old.join("large"), vec![b'x'; 3 << 20]).unwrap();
    let output = robot.night(&to, &[("ONBEAT_FLEET_MOST_MB", "2")]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(!said(&output).contains("is removed"), "{}", said(&output));
    assert_eq!((robot.waiting(), samples_by_run(&to).len()), (0, 2));
}

#[test]
fn a_night_without_settings_is_one_sentence() {
    let robot = Robot::new();
    let output = robot.night(Path::new(""), &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("ONBEAT_FLEET_TO is not set"), "{}", said(&output));
}
