//! Ctrl-C at random points of a script that takes pictures, a thousand times in one Octave: no picture is torn, nothing is stuck,
//! nothing leaks.
//!
//! Without Octave or Java the test is counted as ignored, with the reason in its line.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use crate::equipment;
use crate::prompt;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use equipment::{camera_program, octave, root, trial};
use libtest_mimic::Trial;
use onbeat_control::frames::FrameReader;
use prompt::Prompt;
use rustix::process::{Signal, kill_process};
use serde_json::Value;

/// Interruptions.
const ROUNDS: u64 = 1_000;
/// Longest time from the beginning of a round to its interruption, in µs: some pictures.
const LONGEST_US: u64 = 20_000;

pub(crate) fn trials() -> Vec<Trial> {
    let equip = || Ok((octave()?, camera_program()));
    let tests =
        [trial("camera_interrupted::a_thousand_interruptions_tear_no_picture", equip, interrupted)];
    Vec::from(tests)
}

/// A camera; killed on drop.
struct Camera(Child);

impl Drop for Camera {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let _ = onbeat_control::frames::remove_leftovers();
    }
}

fn started(program: &PathBuf, name: &str) -> Camera {
    let mut command = Command::new(program);
    command.args(["run", "test:200x120@200", "--name", name]);
    let camera = Camera(command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let began = Instant::now();
    while !FrameReader::open(name).is_ok_and(|it| it.newest() > 0) {
        assert!(began.elapsed() < Duration::from_secs(60), "the camera does not start");
        sleep(Duration::from_millis(5));
    }
    camera
}

fn interrupted((command, program): (Command, PathBuf)) {
    let name = format!("interrupted-{}", std::process::id());
    let _camera = started(&program, &name);
    let seed = u64::from(std::process::id());
    let mut random = fastrand::Rng::with_seed(seed);
    let mut octave = Prompt::open(command);
    let path = |name: &str| root().join(name).to_str().unwrap().to_owned();
    octave.say("PS1 (''); PS2 ('');");
    octave.say(&format!("source ('{}');", path("tests/clients/camera_interrupted.m")));
    let (repository, classes) = (path(""), path("target/clients-java"));
    octave.say(&format!("start ('{name}', '{repository}', '{classes}');"));
    octave.wait_for("started");

    let mut descriptors = 0;
    for round in 0..ROUNDS {
        octave.say(&format!("work ({round});"));
        octave.wait_for(&format!("round {round}"));
        sleep(Duration::from_micros(random.u64(0..LONGEST_US)));
        kill_process(octave.pid(), Signal::INT).unwrap();
        if round == 10 {
            descriptors = octave.descriptors();
        }
    }

    let after = octave.descriptors();
    octave.say("finish ();");
    let seen: Value = serde_json::from_str(&octave.wait_for("{\"torn\"")).unwrap();
    println!("{ROUNDS} interruptions: {seen}");
    assert_eq!(seen["torn"].as_u64(), Some(0), "seed {seed}: {seen}");
    let [checked, taken, last] =
        ["checked", "taken", "last"].map(|key| seen[key].as_u64().unwrap());
    assert!(checked > 0 && checked <= taken && taken <= last, "seed {seed}: {seen}");
    assert_eq!(
        after, descriptors,
        "open descriptors after 10 and after {ROUNDS} rounds; seed {seed}"
    );
}
