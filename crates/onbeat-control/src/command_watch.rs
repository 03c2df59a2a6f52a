//! Why a robot does not follow the commands that it is given.

use std::time::{Duration, Instant};

use onbeat_ethercat::event_words::{PHASES, stop_reason};
use onbeat_ethercat::step::RobotState;

use super::client::{BusState, Client, Outage};
use super::error::ControlError;
use super::goals::{Commander, GoalAnswer};
use super::snapshot::Snapshot;

/// Time without a followed goal after which the reason is reported.
const SILENT: Duration = Duration::from_secs(1);
/// Phase of a robot that follows goals.
const RUNNING: u8 = 2;
/// Statusword of a drive that moves its joint: the bits of CiA 402's states, and their value in "operation enabled".
const STATE_BITS: u64 = 0x6f;
const OPERATION_ENABLED: u64 = 0x27;
/// The same of a drive in "fault", whatever the bit of its quick stop.
const FAULT_BITS: u64 = 0x4f;
const FAULT: u64 = 0x08;

/// Watches whether a robot follows what its commander gives, while a command is valid.
#[derive(Debug)]
pub struct CommandWatch {
    /// Number of the goal that was followed last, or of that of an earlier commander.
    followed: Option<u64>,
    /// Since when no goal was followed, and since when a commanded joint has no power.
    silent_since: Option<Instant>,
    unpowered_since: Option<Instant>,
    /// The reason that was reported last; empty while the robot follows.
    reported: String,
}

impl CommandWatch {
    /// Begins; goals that were followed before do not count.
    #[must_use]
    pub fn new(commander: &Commander) -> Self {
        let followed = commander.answer().map(|(number, _)| number);
        Self { followed, silent_since: None, unpowered_since: None, reported: String::new() }
    }

    /// Forgets the time in which nothing was commanded.
    pub fn pause(&mut self) {
        (self.silent_since, self.unpowered_since) = (None, None);
    }

    /// Looks after a goal was given for these joints; returns a reason that is new, or an empty text once the robot follows.
    pub fn look(
        &mut self,
        commander: &Commander,
        client: &mut Client,
        commanded: &[String],
    ) -> Option<String> {
        let answer = commander.answer();
        let taken = answer.filter(|(_, answer)| *answer == GoalAnswer::Taken);
        let new = taken.map(|(number, _)| number).filter(|number| self.followed != Some(*number));
        if new.is_none() {
            let since = *self.silent_since.get_or_insert_with(Instant::now);
            let is_long = since.elapsed() >= SILENT;
            return if is_long { self.report(standstill(&client.state(), answer)) } else { None };
        }

        (self.followed, self.silent_since) = (new, None);
        let Some(why) = without_power(client, commanded) else {
            self.unpowered_since = None;
            return self.report(String::new());
        };
        // Drives that are being enabled have no power for a moment.
        let since = *self.unpowered_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= SILENT { self.report(why) } else { None }
    }

    /// Returns the reason if it differs from the last one in more than its numbers.
    fn report(&mut self, why: String) -> Option<String> {
        let is_new = without_digits(&why) != without_digits(&self.reported);
        is_new.then(|| {
            self.reported.clone_from(&why);
            why
        })
    }
}

fn without_digits(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

/// Returns why a robot follows nothing.
fn standstill(state: &BusState, answer: Option<(u64, GoalAnswer)>) -> String {
    let BusState { name, in_op, devices, .. } = state;
    let (number, misses) = state.robot.map_or((0, 0), |robot| (robot.phase, robot.misses));
    let phase = PHASES.get(usize::from(number)).copied().unwrap_or("in an unknown phase");

    let why = match (state.cycle, state.outage) {
        (None, _) => "it has had no cycle yet: its devices are being configured".to_owned(),
        (_, Outage::NoCycle(ns)) => format!("its last cycle was {} ms ago", ns / 1_000_000),
        (_, Outage::NoAnswer(ns)) => {
            format!("no frame was answered for {} ms", ns / 1_000_000)
        }
        _ if number != RUNNING => format!("it is {phase}, {in_op} of {devices} devices in OP"),
        _ if matches!(answer, Some((_, GoalAnswer::TooOld))) => {
            "commands are too old when they reach it; this process or the robot's loop has too little CPU time".to_owned()
        }
        _ => format!(
            "its loop misses cycles ({misses} counted), which keep the last targets; it needs a priority, or CPU time"
        ),
    };
    format!("{name} follows no command: {why}")
}

/// Returns which commanded joints have a drive that does not move them, in words; `None` if all
/// drives do.
#[must_use]
pub fn without_power(client: &mut Client, commanded: &[String]) -> Option<String> {
    let mut seen = client.snapshot();
    client.read(&mut seen).ok()?;
    let statusword = |joint: &String| {
        let place = client.find(joint, "6041").ok()?;
        let word = place.unsigned(if place.is_output { &seen.outputs } else { &seen.inputs });
        let state = if word & FAULT_BITS == FAULT { "fault" } else { "not enabled" };
        (word & STATE_BITS != OPERATION_ENABLED)
            .then(|| format!("{joint}: {state}, statusword 0x{word:04x}"))
    };
    let down: Vec<String> = commanded.iter().filter_map(statusword).collect();
    if down.is_empty() {
        return None;
    }
    let BusState { name, .. } = client.state();
    let joints = down.join("; ");
    Some(format!(
        "{name} follows, but drives do not move ({joints}); `onbeat bus events --name {name}` says why"
    ))
}

/// Returns why the robot is in its safe stop, such as "left knee is down"; `None` if it is not.
///
/// # Errors
/// Those of [`Client::read`]. A robot that has had no cycle yet is not in its safe stop.
pub fn safe_stop(client: &mut Client, seen: &mut Snapshot) -> Result<Option<String>, ControlError> {
    match client.read(seen) {
        // It has just begun.
        Err(ControlError::NoCycleYet { .. }) => return Ok(None),
        read => read?,
    }

    let Some(stopped) = seen.robot.filter(RobotState::is_stopped) else { return Ok(None) };
    let layout = client.layout();
    let device = layout.devices.get(usize::from(stopped.device));
    let joint = device.map_or("", |device| device.name.as_str());
    Ok(Some(stop_reason(stopped.stopped_by.into(), joint, 0)))
}

#[cfg(test)]
mod tests {
    use onbeat_ethercat::step::BusCycle;

    use super::*;
    use crate::bus_condition::{AlStates, CableLink};
    use crate::sharing::Sharing;

    fn state(phase: u8, outage: Outage, cycle: Option<BusCycle>) -> BusState {
        BusState {
            name: "walker".to_owned(),
            segment: String::new(),
            pid: 1,
            sharing: Sharing::default(),
            layout_hash: 0,
            cycle,
            robot: Some(RobotState { phase, rung: 1, stopped_by: 0, device: 0, misses: 7 }),
            devices: 48,
            in_op: 31,
            outage,
            link: CableLink::Unknown,
            answering: 0,
            al_states: AlStates::default(),
            owner: None,
            commander: None,
            events: 0,
        }
    }

    #[test]
    fn each_reason_of_a_robot_that_stands_is_named() {
        let cycle = Some(BusCycle::default());
        for (state, answer, why) in [
            (state(0, Outage::None, None), None, "no cycle yet"),
            (state(2, Outage::NoCycle(700_000_000), cycle), None, "last cycle was 700 ms ago"),
            (
                state(2, Outage::NoAnswer(80_000_000), cycle),
                None,
                "no frame was answered for 80 ms",
            ),
            (state(1, Outage::None, cycle), None, "enabling drives, 31 of 48 devices in OP"),
            (state(2, Outage::None, cycle), Some((1, GoalAnswer::TooOld)), "too old"),
            (
                state(2, Outage::None, cycle),
                Some((1, GoalAnswer::Taken)),
                "misses cycles (7 counted)",
            ),
        ] {
            let said = standstill(&state, answer);
            assert!(
                said.starts_with("walker follows no command: ") && said.contains(why),
                "{said}"
            );
        }
    }
}
