//! `onbeat robot goal`: sends a goal to joints of a running robot.

use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use onbeat_control::{
    Client, CommandWatch, Commander, GoalAnswer, Snapshot, safe_stop, without_power,
};

use super::options::GoalOptions;
use crate::cmd::failure::robot_goal::GoalFailure;
use crate::cmd::{ExitVerdict, Failure};
use crate::signals::{self, OnUsr1};
use crate::term::{Tone, say};

/// Longest wait until a goal is accepted: enabling a robot takes a moment, and the goal is repeated
/// in the meantime.
const SEEN_WITHIN: Duration = Duration::from_secs(5);
/// Longest wait for the power of a drive that is being enabled.
const POWERED_WITHIN: Duration = Duration::from_secs(1);
/// How often a goal is sent within its maximum age.
const TIMES_WITHIN_AGE: u32 = 5;
/// Bounds of the interval between goals.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(50);

pub(crate) fn give(options: &GoalOptions) -> Result<ExitVerdict, Failure> {
    let goals = options.goals.iter().map(|word| parsed(word)).collect::<Result<Vec<_>, _>>()?;
    let is_again = |(place, (joint, _)): &(usize, &(String, f64))| {
        goals[..*place].iter().any(|(other, _)| other == joint)
    };
    if let Some((_, (joint, _))) = goals.iter().enumerate().find(is_again) {
        return Err(GoalFailure::TwoGoals(joint.clone()).into());
    }
    let mut robot = CommandedRobot::open(&options.name)?;
    let client = &robot.client;
    let mut commander = client.command()?;
    for (joint, rad) in &goals {
        commander.set(joint, *rad)?;
    }

    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let every = (Duration::from_micros(commander.age_us().into()) / TIMES_WITHIN_AGE)
        .clamp(SHORTEST, LONGEST);
    let is_over = || interruptions.stop.load(Ordering::Relaxed);
    let joints: Vec<String> = goals.iter().map(|(joint, _)| joint.clone()).collect();
    let mut watch = CommandWatch::new(&commander);
    let mut why = String::new();
    let first = commander.give()?;
    let began = Instant::now();
    robot.check()?;
    while !is_followed(&commander, first)? {
        if is_over() {
            return Ok(ExitVerdict::CouldNotRun);
        }
        if began.elapsed() > SEEN_WITHIN {
            return Err(GoalFailure::NotSeen { why, within_s: SEEN_WITHIN.as_secs() }.into());
        }

        robot.refresh(&mut commander, every)?;
        why = watch.look(&commander, &mut robot.client, &joints).unwrap_or(why);
    }

    // A goal is followed as a whole, and moves the joints whose drives have power.
    let began = Instant::now();
    while let Some(why) = without_power(&mut robot.client, &joints) {
        if is_over() || began.elapsed() > POWERED_WITHIN {
            return Err(GoalFailure::WithoutPower(why).into());
        }
        robot.refresh(&mut commander, every)?;
    }

    let words: Vec<String> =
        goals.iter().map(|(joint, rad)| format!("{joint} {rad} rad")).collect();
    say(Tone::Plain, &format!("{} follows: {}", options.name, words.join(", ")));
    let began = Instant::now();
    let lasting = Duration::from_nanos(options.duration);
    while began.elapsed() < lasting && !is_over() {
        robot.refresh(&mut commander, every.min(lasting.saturating_sub(began.elapsed())))?;
    }

    Ok(ExitVerdict::Pass)
}

/// Parses `JOINT=RAD`; names may have blanks.
pub(in crate::cmd) fn parsed(word: &str) -> Result<(String, f64), Failure> {
    let pair = word
        .rsplit_once('=')
        .and_then(|(joint, rad)| Some((joint.trim().to_owned(), rad.trim().parse().ok()?)));
    pair.filter(|(joint, _)| !joint.is_empty())
        .ok_or_else(|| GoalFailure::NoGoal(word.to_owned()).into())
}

/// Returns whether the robot follows a goal from number `first` on.
fn is_followed(commander: &Commander, first: u64) -> Result<bool, Failure> {
    match commander.answer() {
        Some((number, GoalAnswer::Taken)) if number >= first => Ok(true),
        Some((number, GoalAnswer::Refused)) if number >= first => Err(GoalFailure::Refused.into()),
        _ => Ok(false),
    }
}

/// The commanded robot, through its image.
pub(in crate::cmd) struct CommandedRobot {
    pub(in crate::cmd) client: Client,
    seen: Snapshot,
}

impl CommandedRobot {
    pub(in crate::cmd) fn open(name: &str) -> Result<Self, Failure> {
        let client = Client::open(name)?;
        Ok(Self { seen: client.snapshot(), client })
    }

    /// Returns an error with the reason when the robot is in a safe stop.
    pub(in crate::cmd) fn check(&mut self) -> Result<(), Failure> {
        let Some(why) = safe_stop(&mut self.client, &mut self.seen)? else { return Ok(()) };
        let state = self.client.state();
        Err(GoalFailure::SafelyStopped { name: state.name, why, pid: state.pid }.into())
    }

    fn refresh(&mut self, commander: &mut Commander, after: Duration) -> Result<(), Failure> {
        sleep(after);
        self.check()?;
        commander.give()?;
        Ok(())
    }
}
