//! Ctrl-C at random points of Octave's client, a thousand times in one Octave: nothing is torn,
//! nothing is stuck, nothing leaks.
//!
//! Without Octave or Java the test is counted as ignored, with the reason in its line.
#![allow(clippy::unwrap_used)]

use crate::equipment;
use crate::prompt;

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use equipment::{Robot, octave, root, trial};
use libtest_mimic::Trial;
use prompt::Prompt;
use rustix::process::{Signal, kill_process};
use serde_json::Value;

/// Interruptions.
const ROUNDS: u64 = 1_000;
/// Longest time from the beginning of a round to its interruption, in µs: some rounds of the loop.
const LONGEST_US: u64 = 20_000;

pub(crate) fn trials() -> Vec<Trial> {
    let tests = [trial(
        "octave_interrupted::a_thousand_interruptions_leave_octave_whole",
        octave,
        interrupted,
    )];
    Vec::from(tests)
}

fn interrupted(command: Command) {
    let robot = Robot::commanded();
    robot.wait_until_published();
    let seed = u64::from(std::process::id());
    let mut random = fastrand::Rng::with_seed(seed);
    let mut octave = Prompt::open(command);
    let path = |name: &str| root().join(name).to_str().unwrap().to_owned();
    octave.say("PS1 (''); PS2 ('');");
    octave.say(&format!("source ('{}');", path("tests/clients/interrupted.m")));
    let (repository, classes) = (path(""), path("target/clients-java"));
    octave.say(&format!("start ('{}', '{repository}', '{classes}');", robot.name));
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
    assert_eq!(seen["torn"].as_u64(), Some(0), "seed {seed}: {seen}");
    let [first, last, received, lost] =
        ["first", "last", "received", "lost"].map(|key| seen[key].as_u64().unwrap());
    assert_eq!(
        last - first + 1,
        received + lost,
        "each record is received or lost; seed {seed}: {seen}"
    );
    assert_eq!(
        after, descriptors,
        "open descriptors after 10 and after {ROUNDS} rounds; seed {seed}"
    );

    // The writer has not noticed: the robot runs, and its commander has left in order.
    let mut bus = onbeat_control::Client::open(&robot.name).unwrap();
    let mut cycle = bus.snapshot();
    bus.read(&mut cycle).unwrap();
    assert!(!cycle.robot.unwrap().is_stopped(), "seed {seed}");
}
