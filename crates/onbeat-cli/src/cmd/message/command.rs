//! `onbeat message command`: commands joints of a running robot from lines of standard input, for
//! scripts in any language.
//!
//! This process is the robot's commander. A command is repeated as long as it is valid, and no
//! longer: when the script stops writing, the robot holds, and then stops safely. When the script
//! ends without taking its leave, this process ends as if it had been killed.

use std::io::stdin;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use onbeat_control::{CommandWatch, Commander};
use serde_json::json;

use super::options::CommandOptions;
use crate::cmd::robot::goal::{CommandedRobot, parsed};
use crate::cmd::robot::typed_goals::{next_line, shown};
use crate::cmd::{Common, ExitVerdict, Failure};
use crate::signals::{self, OnUsr1};
use crate::term::{Tone, advise, print_json};

/// How often a goal is sent within its maximum age.
const TIMES_WITHIN_AGE: u32 = 5;
/// Lines that may wait for the loop below; a script that writes faster is slowed down.
const MOST_LINES: usize = 64;

pub(super) fn command(options: &CommandOptions) -> Result<ExitVerdict, Failure> {
    let mut robot = CommandedRobot::open(&options.name)?;
    let mut commander = robot.client.command()?;
    let joints: Vec<_> = commander
        .joints()
        .iter()
        .map(|(name, joint)| {
            json!({
                "name": name, "low_rad": joint.low_rad, "high_rad": joint.high_rad,
                "velocity_rad_s": joint.velocity_rad_s,
            })
        })
        .collect();
    let lifetime = Validity::new(options.lifetime, commander.age_us());
    print_json(&json!({
        "joints": joints, "lifetime_ms": lifetime.total().as_secs_f64() * 1e3,
    }))?;

    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let lines = lines()?;
    let mut watch = CommandWatch::new(&commander);
    let mut commanded = Vec::new();
    let mut valid_until = None;
    loop {
        if interruptions.stop.load(Ordering::Relaxed) {
            return Ok(abandon(commander, "interrupted"));
        }
        match lines.recv_timeout(lifetime.every()) {
            Ok((line, _)) if line.trim() == "leave" => return Ok(ExitVerdict::Pass),
            Ok((line, Some(cut))) => {
                print_json(&json!({ "refused": format!("{}: {cut}", shown(&line)) }))?;
            }
            Ok((line, None)) => match set(&mut commander, &line, &mut commanded) {
                Ok(()) => valid_until = Some(Instant::now() + lifetime.repeated),
                Err(why) => print_json(&json!({ "refused": why.to_string() }))?,
            },
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Ok(abandon(commander, "the script has ended without `leave`"));
            }
        }

        robot.check()?;
        if valid_until.is_none_or(|until| Instant::now() >= until) {
            watch.pause();
            continue;
        }
        commander.give()?;
        if let Some(why) = watch.look(&commander, &mut robot.client, &commanded) {
            print_json(&json!({ "waiting": why }))?;
        }
    }
}

/// Ends as if this process had been killed.
fn abandon(commander: Commander, why: &str) -> ExitVerdict {
    commander.abandon();
    advise(Tone::Careful, &format!("{why}: the robot holds, and then stops safely"));
    ExitVerdict::CouldNotRun
}

/// Sets the targets of a line, `JOINT=RAD, JOINT=RAD`: all of them or none. Joints that were not
/// yet `commanded` are added.
fn set(commander: &mut Commander, line: &str, commanded: &mut Vec<String>) -> Result<(), Failure> {
    let mut targets = Vec::new();
    for part in line.split(',').filter(|part| !part.trim().is_empty()) {
        let (joint, rad) = parsed(part)?;
        targets.push((commander.place(&joint, rad)?, rad, joint));
    }
    for (place, rad, joint) in targets {
        commander.want(place, rad);
        if !commanded.contains(&joint) {
            commanded.push(joint);
        }
    }
    Ok(())
}

/// How long a command is valid: it is repeated for a time, and the robot follows the last one until
/// it is too old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Validity {
    repeated: Duration,
    age: Duration,
}

impl Validity {
    fn new(lifetime_ns: u64, age_us: u32) -> Self {
        let age = Duration::from_micros(age_us.into());
        // A command is given once at least.
        let repeated = Duration::from_nanos(lifetime_ns).saturating_sub(age);
        Self { repeated: repeated.max(Duration::from_millis(1)), age }
    }

    fn total(self) -> Duration {
        self.repeated + self.age
    }

    fn every(self) -> Duration {
        (self.age / TIMES_WITHIN_AGE).clamp(Duration::from_millis(1), Duration::from_millis(20))
    }
}

/// A line, and why it is not whole.
type CommandLine = (String, Option<&'static str>);

/// Reads lines on a thread of their own; the channel is closed at the end of standard input.
fn lines() -> Result<Receiver<CommandLine>, Failure> {
    let (sender, lines) = sync_channel(MOST_LINES);
    let read = move || {
        let mut input = stdin().lock();
        // A line that is not UTF-8 is refused, as a joint that the robot does not have.
        while let Ok(Some((line, cut))) = next_line(&mut input) {
            let line = String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
            if sender.send((line, cut)).is_err() {
                return;
            }
        }
    };
    let started = thread::Builder::new().name("onbeat-commands".to_owned()).spawn(read);
    started.map_err(|source| Common::Thread { what: "commands from standard input", source })?;
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_repeated_until_the_robot_would_follow_it_beyond_its_lifetime() {
        let validity = Validity::new(250_000_000, 100_000);
        assert_eq!(validity.repeated, Duration::from_millis(150));
        assert_eq!(validity.total(), Duration::from_millis(250));
        let short = Validity::new(10_000_000, 100_000);
        assert_eq!(short.total(), Duration::from_millis(101), "the robot's own limit is longer");
    }
}
