//! Goals from outside the loop. The latest valid one is followed until it is too old.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, TryLockError};

use onbeat_control::{GoalAnswer, GoalSide};

use super::file::{MOST_JOINTS, Robot};

/// A goal: target positions of joints, in a record of fixed size.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GoalRecord {
    /// Number of the record; a change marks a new goal.
    pub number: u64,
    /// Time of its creation, by `CLOCK_MONOTONIC`, in ns.
    pub at_ns: u64,
    /// Joints with a target, one bit each; the others keep their last target.
    pub which: [u64; MOST_JOINTS / 64],
    /// Target positions in rad, in the order of [`Robot::joints`](super::Robot::joints).
    pub position: [f64; MOST_JOINTS],
}

impl Default for GoalRecord {
    fn default() -> Self {
        Self { number: 0, at_ns: 0, which: [0; MOST_JOINTS / 64], position: [0.0; MOST_JOINTS] }
    }
}

impl GoalRecord {
    /// Sets the target of a joint; joints beyond [`MOST_JOINTS`] are ignored.
    pub fn set(&mut self, joint: usize, position: f64) {
        if joint < MOST_JOINTS {
            self.which[joint / 64] |= 1 << (joint % 64);
            self.position[joint] = position;
        }
    }

    /// Returns the joints with a target, and their targets.
    fn joints(&self) -> impl Iterator<Item = (usize, f64)> {
        let all = self.position.iter().copied().enumerate();
        all.filter(|(joint, _)| self.which[joint / 64] >> (joint % 64) & 1 != 0)
    }
}

/// Source of goals.
pub trait GoalSource: Send {
    /// Returns the latest record, `None` before the first. Must not allocate, block, or make system
    /// calls.
    fn latest(&mut self) -> Option<&GoalRecord>;

    /// Called once for each evaluated record, with the result. Same restrictions as
    /// [`Self::latest`].
    fn answered(&mut self, _number: u64, _answer: GoalAnswer) {}

    /// Returns whether a goal outside a joint's travel is refused as a whole. Otherwise the joint
    /// moves to the end of its travel.
    fn refuses_outside(&self) -> bool {
        false
    }

    /// Returns whether missing goals lead to a safe stop after a time. Otherwise joints hold.
    fn loss_stops_robot(&self) -> bool {
        false
    }
}

/// Validates and follows the goals of a source.
pub(crate) struct GoalFollower {
    source: Box<dyn GoalSource>,
    longest_age_ns: u64,
    /// `None` for never, in ns.
    lost_after_ns: Option<u64>,
    travels: Vec<RangeInclusive<f64>>,
    /// Number of the record evaluated last.
    seen: Option<u64>,
    /// Number of the latest record, and the time at which it was first seen.
    noticed: Option<(u64, u64)>,
    taken: GoalRecord,
    has_taken: bool,
    /// A goal was followed since the last loss of the commander.
    is_led: bool,
}

/// Result of evaluating the latest record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GoalReport {
    /// The record is new, and holds an invalid number or a target outside a travel; the previous
    /// goal stays.
    pub(crate) is_refused: bool,
    pub(crate) outcome: GoalOutcome,
}

/// What becomes of the latest valid goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GoalOutcome {
    /// It is recent enough and is followed.
    Followed {
        /// Whether it is a new goal.
        new: bool,
    },
    /// It is too old, or there was none yet.
    TooOld {
        /// Whether it is a new goal, which was too old when it was evaluated.
        new: bool,
    },
    /// None arrived for too long. Returned once for each loss.
    Lost,
}

impl GoalFollower {
    pub(crate) fn new(source: Box<dyn GoalSource>, robot: &Robot) -> Self {
        Self {
            source,
            longest_age_ns: robot.settings.goal_age_ns,
            lost_after_ns: robot.settings.goal_lost_ns,
            travels: robot
                .joints
                .iter()
                .map(|joint| joint.limits.low..=joint.limits.high)
                .collect(),
            seen: None,
            noticed: None,
            taken: GoalRecord::default(),
            has_taken: false,
            is_led: false,
        }
    }

    /// Forgets the goal that was followed, and that somebody leads: after a safe stop, nothing moves
    /// before somebody wants it again.
    pub(crate) fn forget(&mut self) {
        (self.has_taken, self.is_led) = (false, false);
    }

    /// Ages goals in a cycle that follows none.
    pub(crate) fn skip_cycle(&mut self, now_ns: u64) {
        let there = self.source.latest().map(|record| record.number);
        // The age of a goal counts from when the loop could first see it, not from when a cycle had
        // time to take it.
        if there.is_some_and(|number| self.noticed.is_none_or(|(known, _)| known != number)) {
            self.noticed = there.map(|number| (number, now_ns));
        }
    }

    /// Writes the targets to `wanted`; leaves it unchanged without a valid goal.
    pub(crate) fn at(&mut self, now_ns: u64, wanted: &mut [f64]) -> GoalReport {
        // By number: two goals with the same targets are two orders, and the second makes the first
        // one young again.
        let new = self.source.latest().filter(|record| self.seen != Some(record.number)).copied();
        let (mut is_new, mut is_late, mut is_refused) = (false, false, false);
        if let Some(mut record) = new {
            self.seen = Some(record.number);
            // The creation time may be after this cycle's release, or arbitrary.
            let noticed_ns = self
                .noticed
                .filter(|(number, _)| *number == record.number)
                .map_or(now_ns, |(_, at_ns)| at_ns);
            // A commander writes any time it likes into shared memory. A goal from the future would
            // never grow old.
            record.at_ns = record.at_ns.min(noticed_ns);
            let is_old = now_ns.saturating_sub(record.at_ns) > self.longest_age_ns;
            // Refused as a whole: half of a goal is a position that nobody planned.
            let answer = match self.is_valid(&record) {
                false => GoalAnswer::Refused,
                true if is_old => GoalAnswer::TooOld,
                true => GoalAnswer::Taken,
            };

            self.source.answered(record.number, answer);
            match answer {
                // The previous goal ages: who sends refused ones only is lost, however often.
                GoalAnswer::Refused => is_refused = true,
                GoalAnswer::TooOld => is_late = true,
                GoalAnswer::Taken => {
                    (self.taken, self.has_taken, self.is_led, is_new) = (record, true, true, true);
                }
            }
        }

        let age_ns = now_ns.saturating_sub(self.taken.at_ns);
        if !self.has_taken || age_ns > self.longest_age_ns {
            let is_long = self.lost_after_ns.is_some_and(|lost_ns| age_ns > lost_ns);
            // Only who has led can be lost. A robot that has waited for its first goal for an hour
            // stands where it is.
            let is_lost = self.is_led && is_long && self.source.loss_stops_robot();
            self.is_led &= !is_lost;
            let too_old = GoalOutcome::TooOld { new: is_late };
            let outcome = if is_lost { GoalOutcome::Lost } else { too_old };
            return GoalReport { is_refused, outcome };
        }

        for (joint, position) in self.taken.joints() {
            // A record may have targets for joints that this robot does not have.
            if let Some(wanted) = wanted.get_mut(joint) {
                *wanted = position;
            }
        }

        GoalReport { is_refused, outcome: GoalOutcome::Followed { new: is_new } }
    }

    fn is_valid(&self, record: &GoalRecord) -> bool {
        let refuses = self.source.refuses_outside();
        let is_outside = |joint: usize, rad: f64| {
            self.travels.get(joint).is_some_and(|travel| !travel.contains(&rad))
        };
        record.joints().all(|(joint, rad)| rad.is_finite() && !(refuses && is_outside(joint, rad)))
    }
}

/// Slot for the latest goal, shared by one commanding thread and one loop.
///
/// Both sides only try the lock, so the loop never makes a system call. If they collide, the loop
/// keeps its present record.
///
/// ```
/// # use onbeat_ethercat::layout::Layout;
/// # use onbeat_robot::motion::{GoalSlot, Robot, Trajectory};
/// # use onbeat_rt::{Clock, sys::Monotonic};
/// # use onbeat_segment::Segment;
/// # let layout = Layout::from_toml(Segment::HUMANOID)?;
/// # let robot = Robot::from_toml(Segment::HUMANOID, &layout, 1_000_000)?;
/// let mut goals = GoalSlot::default();
/// let trajectory = Trajectory::goal(Box::new(goals.clone()), &robot);
/// goals.put(Monotonic.now().as_ns(), &[Some(0.1), None, Some(-0.2)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct GoalSlot {
    latest: Arc<Mutex<GoalRecord>>,
    taken: GoalRecord,
}

impl GoalSlot {
    /// Stores a new goal: targets in rad, `None` for joints without one. For the commanding thread;
    /// may wait briefly.
    pub fn put(&mut self, at_ns: u64, positions: &[Option<f64>]) {
        self.taken = GoalRecord { number: self.taken.number + 1, at_ns, ..GoalRecord::default() };
        for (joint, position) in positions.iter().enumerate() {
            if let Some(position) = position {
                self.taken.set(joint, *position);
            }
        }

        loop {
            // The loop's side tries once and goes on with what it has. The ordinary thread waits.
            match self.latest.try_lock() {
                Ok(mut place) => {
                    *place = self.taken;
                    return;
                }
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
                // Copying cannot panic, so the lock is never poisoned.
                Err(TryLockError::Poisoned(_)) => return,
            }
        }
    }
}

impl GoalSource for GoalSlot {
    fn latest(&mut self) -> Option<&GoalRecord> {
        // A lock that is held means a goal that is being written: it comes in the next cycle.
        if let Ok(place) = self.latest.try_lock()
            && place.number != self.taken.number
        {
            self.taken = *place;
        }
        (self.taken.number > 0).then_some(&self.taken)
    }
}

/// Goals of another process, from the image of the bus ([`Commander`](onbeat_control::Commander)).
/// Targets outside a travel are refused, and a commander that stops sending without leaving leads
/// to a safe stop.
#[derive(Debug)]
pub struct CommanderGoals {
    side: GoalSide,
    record: Box<GoalRecord>,
}

impl CommanderGoals {
    /// Reads goals from an image that publishes the joints of the robot, in the same order.
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
