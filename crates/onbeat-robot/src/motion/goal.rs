//! GoalSource from outside the loop: the latest record counts, and only while it is young.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, TryLockError};

use onbeat_control::{GoalAnswer, GoalSide};

use super::file::Robot;

/// Joints that a robot may have here; records and status have room for so many.
pub const MOST_JOINTS: usize = 256;

/// Where the joints should be: a record of fixed size, as it may lie in shared memory.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GoalRecord {
    /// RobotCounts on with each record; a number seen before is no new goal.
    pub number: u64,
    /// When it was made, by `CLOCK_MONOTONIC`, in ns.
    pub at_ns: u64,
    /// Which joints it is for, a bit for each; others stay where they are wanted.
    pub which: [u64; MOST_JOINTS / 64],
    /// In rad, in the order of [`Robot::joints`](super::Robot::joints).
    pub position: [f64; MOST_JOINTS],
}

impl Default for GoalRecord {
    fn default() -> Self {
        Self { number: 0, at_ns: 0, which: [0; MOST_JOINTS / 64], position: [0.0; MOST_JOINTS] }
    }
}

impl GoalRecord {
    /// Wants this joint there; joints beyond [`MOST_JOINTS`] do not exist.
    pub fn set(&mut self, joint: usize, position: f64) {
        if joint < MOST_JOINTS {
            self.which[joint / 64] |= 1 << (joint % 64);
            self.position[joint] = position;
        }
    }

    /// The joints that it is for, and where they should be.
    fn joints(&self) -> impl Iterator<Item = (usize, f64)> {
        let all = self.position.iter().copied().enumerate();
        all.filter(|(joint, _)| self.which[joint / 64] >> (joint % 64) & 1 != 0)
    }
}

/// Where goals come from.
pub trait GoalSource: Send {
    /// The latest record, `None` before the first. It must not allocate, block, or ask the kernel for anything.
    fn latest(&mut self) -> Option<&GoalRecord>;

    /// Told once of each record that was looked at. As little may be done here.
    fn answered(&mut self, _number: u64, _answer: GoalAnswer) {}

    /// Whether a goal outside a joint's travel is refused as a whole. Otherwise the joint goes to the end of its travel.
    fn refuses_outside(&self) -> bool {
        false
    }

    /// Whether silence after the latest record is the loss of whoever commands, and leads to a safe stop. Otherwise joints hold.
    fn loss_stops_robot(&self) -> bool {
        false
    }
}

/// Takes goals in, and refuses what is none.
pub(crate) struct GoalFollower {
    source: Box<dyn GoalSource>,
    longest_age_ns: u64,
    /// `None` for never.
    lost_after_ns: Option<u64>,
    travels: Vec<RangeInclusive<f64>>,
    /// The record that was looked at last.
    seen: Option<u64>,
    /// The record that was there last, and when that was first so.
    noticed: Option<(u64, u64)>,
    taken: GoalRecord,
    has_taken: bool,
    /// A goal was followed since its commander was lost last.
    is_led: bool,
}

/// What became of the source's latest record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GoalOutcome {
    /// A goal that is young enough, seen before or not.
    Young {
        /// Whether it is a new one.
        new: bool,
    },
    /// The last good goal is too old, or there was none yet.
    Old,
    /// Holds a number that is none, or one outside a travel; the goal before stays.
    Refused,
    /// Nothing good has come for so long that whoever commands is lost. Once for each loss.
    Lost,
}

impl GoalFollower {
    pub(crate) fn new(source: Box<dyn GoalSource>, robot: &Robot) -> Self {
        Self {
            source,
            longest_age_ns: robot.settings.goal_age_ns,
            lost_after_ns: robot.settings.goal_lost_ns,
            travels: robot.joints.iter().map(|joint| joint.limits.low..=joint.limits.high).collect(),
            seen: None,
            noticed: None,
            taken: GoalRecord::default(),
            has_taken: false,
            is_led: false,
        }
    }

    /// A cycle in which no goal is followed: they get older.
    pub(crate) fn skip_cycle(&mut self, now_ns: u64) {
        let there = self.source.latest().map(|record| record.number);
        if there.is_some_and(|number| self.noticed.is_none_or(|(known, _)| known != number)) {
            self.noticed = there.map(|number| (number, now_ns));
        }
    }

    /// Writes the joints' positions over `wanted`; leaves it alone when there is no goal to follow.
    pub(crate) fn at(&mut self, now_ns: u64, wanted: &mut [f64]) -> GoalOutcome {
        let new = self.source.latest().filter(|record| self.seen != Some(record.number)).copied();
        let mut is_new = false;
        if let Some(mut record) = new {
            self.seen = Some(record.number);
            // Whoever made it may have been ahead of this cycle's release, or may say anything.
            let noticed_ns =
                self.noticed.filter(|(number, _)| *number == record.number).map_or(now_ns, |(_, at_ns)| at_ns);
            record.at_ns = record.at_ns.min(noticed_ns);
            let is_old = now_ns.saturating_sub(record.at_ns) > self.longest_age_ns;
            let answer = match self.is_valid(&record) {
                false => GoalAnswer::Refused,
                true if is_old => GoalAnswer::TooOld,
                true => GoalAnswer::Taken,
            };

            self.source.answered(record.number, answer);
            match answer {
                GoalAnswer::Refused => return GoalOutcome::Refused,
                GoalAnswer::TooOld => {}
                GoalAnswer::Taken => (self.taken, self.has_taken, self.is_led, is_new) = (record, true, true, true),
            }
        }

        let age_ns = now_ns.saturating_sub(self.taken.at_ns);
        if !self.has_taken || age_ns > self.longest_age_ns {
            let is_long = self.lost_after_ns.is_some_and(|lost_ns| age_ns > lost_ns);
            let is_lost = self.is_led && is_long && self.source.loss_stops_robot();
            self.is_led &= !is_lost;
            return if is_lost { GoalOutcome::Lost } else { GoalOutcome::TooOld };
        }

        for (joint, position) in self.taken.joints() {
            // A record may mean joints that this robot does not have.
            if let Some(wanted) = wanted.get_mut(joint) {
                *wanted = position;
            }
        }

        GoalOutcome::Followed { new: is_new }
    }

    fn is_valid(&self, record: &GoalRecord) -> bool {
        let refuses = self.source.refuses_outside();
        let is_outside = |joint: usize, rad: f64| self.travels.get(joint).is_some_and(|travel| !travel.contains(&rad));
        record.joints().all(|(joint, rad)| rad.is_finite() && !(refuses && is_outside(joint, rad)))
    }
}

/// A place for the latest record, shared by one thread that commands and one loop.
///
/// The lock is tried by both and waited for by neither, so that the loop never asks the kernel to wake anybody; when the two meet, the
/// loop keeps the record it has.
#[derive(Clone, Debug, Default)]
pub struct GoalSlot {
    latest: Arc<Mutex<GoalRecord>>,
    taken: GoalRecord,
}

impl GoalSlot {
    /// Puts a record there, numbered anew: where each joint should be, in rad, `None` for those that it is not about. For the
    /// commanding thread, which may wait a little.
    pub fn put(&mut self, at_ns: u64, positions: &[Option<f64>]) {
        self.taken = GoalRecord { number: self.taken.number + 1, at_ns, ..GoalRecord::default() };
        for (joint, position) in positions.iter().enumerate() {
            if let Some(position) = position {
                self.taken.set(joint, *position);
            }
        }

        loop {
            match self.latest.try_lock() {
                Ok(mut place) => {
                    *place = self.taken;
                    return;
                }
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
                // Copying cannot panic, so nobody leaves it poisoned.
                Err(TryLockError::Poisoned(_)) => return,
            }
        }
    }
}

impl GoalSource for GoalSlot {
    fn latest(&mut self) -> Option<&GoalRecord> {
        if let Ok(place) = self.latest.try_lock()
            && place.number != self.taken.number
        {
            self.taken = *place;
        }
        (self.taken.number > 0).then_some(&self.taken)
    }
}

/// GoalSource that another process gives through the image of the bus ([`Commander`](onbeat_control::Commander)). Those outside a
/// travel are refused, and a commander that falls silent without leaving is missed.
#[derive(Debug)]
pub struct CommanderGoals {
    side: GoalSide,
    record: Box<GoalRecord>,
}

impl CommanderGoals {
    /// The goals of an image whose joints are the robot's, in the robot's order.
    #[must_use]
    pub fn new(side: GoalSide) -> Self {
        Self { side, record: Box::default() }
    }
}

impl GoalSource for CommanderGoals {
    fn latest(&mut self) -> Option<&GoalRecord> {
        let number = self.side.latest()?;
        if number != self.record.number {
            *self.record = GoalRecord { number, at_ns: self.side.at_ns(), ..GoalRecord::default() };
            self.side.positions().for_each(|(joint, position)| self.record.set(joint, position));
        }
        Some(&self.record)
    }

    fn answered(&mut self, number: u64, answer: GoalAnswer) {
        self.side.answer(number, answer);
    }

    fn refuses_outside(&self) -> bool {
        true
    }

    fn loss_stops_robot(&self) -> bool {
        !self.side.is_last()
    }
}
