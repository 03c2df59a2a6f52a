//! Where joints should be: goals from one commanding process, for the loop of the bus process that follows them.
//!
//! The same slots as everywhere here: the commander publishes without waiting, the loop reads the newest of one piece. What a goal holds
//! is checked by the process that follows it (`onbeat-robot`), for the memory is written by others; what became of it is answered in a word.

use std::mem::swap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;

use super::ControlError;
use super::abi::{GOAL_BYTES, JOINT_BYTES, LAST_GOAL};
use super::image::MappedImage;
use super::owner::ClaimWords;
use super::process::Process;

/// The commander can overtake a reading only by publishing four times during one copy; after so many the goal before stays.
const MOST_READINGS: u32 = 8;
/// So many names are listed where one is not found.
const MOST_LISTED: usize = 8;

/// A joint that follows goals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Joint {
    /// ClaimWords of its drive in the layout; the joint is called as its device.
    pub device: usize,
    /// Lower end of the travel, in rad.
    pub low_rad: f64,
    /// Upper end of the travel, in rad.
    pub high_rad: f64,
    /// Largest velocity, in rad/s. A goal may be any distance away; the joint goes there as fast as it may.
    pub velocity_rad_s: f64,
}

/// What became of a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum GoalAnswer {
    /// It is followed.
    Taken = 1,
    /// It holds what is no number, or is outside a joint's travel; the goal before stays.
    Refused = 2,
    /// It was too old when it was first looked at.
    TooOld = 3,
}

impl GoalAnswer {
    const BITS: u32 = 2;

    fn of_word(word: u64) -> Option<(u64, Self)> {
        let all = [Self::Taken, Self::Refused, Self::TooOld];
        let known = all.into_iter().find(|answer| *answer as u64 == word & ((1 << Self::BITS) - 1))?;
        Some((word >> Self::BITS, known))
    }
}

/// The records of joints as they lie in the memory.
pub(super) fn table(joints: &[Joint]) -> Vec<u8> {
    let words = |joint: &Joint| {
        let rads = [joint.low_rad, joint.high_rad, joint.velocity_rad_s].map(f64::to_bits);
        [joint.device as u64, rads[0], rads[1], rads[2]]
    };
    joints.iter().flat_map(words).flat_map(u64::to_ne_bytes).collect()
}

/// All joints with their names.
pub(super) fn joints(shared: &MappedImage) -> Vec<(String, Joint)> {
    let devices = shared.layout().devices;
    let records = shared.joints().chunks_exact(JOINT_BYTES / 8);
    records
        .map(|record| {
            let word = |place: usize| record[place].load(Ordering::Relaxed);
            let rad = |place: usize| f64::from_bits(word(place));
            let device = word(0) as u32 as usize;
            let name = devices.get(device).map_or(String::new(), |device| device.name.clone());
            (name, Joint { device, low_rad: rad(1), high_rad: rad(2), velocity_rad_s: rad(3) })
        })
        .collect()
}

/// The place of whoever commands.
pub(super) fn place(shared: &MappedImage) -> ClaimWords<'_> {
    let live = shared.live();
    ClaimWords { holder: &live.commander.0, left: &live.commander_left.0 }
}

/// This process commands the joints until it is dropped. A goal is followed for as long as [`Commander::age_us`] says; a commander gives
/// it again before that. One that falls silent without leaving is missed: the robot comes to a safe stop (`docs/robot.md`).
#[derive(Debug)]
pub struct Commander {
    shared: Arc<MappedImage>,
    joints: Vec<(String, Joint)>,
    /// A bit for each joint that was wanted anywhere, then all positions.
    words: Vec<u8>,
    has_given: bool,
}

impl Commander {
    pub(super) fn new(shared: Arc<MappedImage>) -> Result<Self, ControlError> {
        shared.check_alive()?;
        if shared.size.joints == 0 {
            return Err(ControlError::NoGoals { name: shared.name.clone() });
        }

        let commanded = |other: Process| ControlError::Commanded {
            name: shared.name.clone(),
            pid: other.pid(),
            process: other.name(),
        };

        place(&shared).take(shared.me).map_err(commanded)?;
        let words = vec![0; 8 * shared.size.goal_words()];
        Ok(Self { joints: joints(&shared), shared, words, has_given: false })
    }

    /// The joints, in the order in which [`Commander::want`] counts them.
    #[must_use]
    pub fn joints(&self) -> &[(String, Joint)] {
        &self.joints
    }

    /// For how long a goal is followed, in µs; longer ones are told as 2^32 − 1.
    #[must_use]
    pub fn age_us(&self) -> u32 {
        self.shared.header().goal_age_us.load(Ordering::Relaxed)
    }

    /// Wants the joint of this name there with the next goal, and all later ones. Joints that were never wanted anywhere stay.
    ///
    /// # Errors
    /// [`ControlError::NoJoint`]; [`ControlError::Outside`], also for what is no number.
    pub fn set(&mut self, joint: &str, rad: f64) -> Result<(), ControlError> {
        let Some(place) = self.joints.iter().position(|(name, _)| name == joint) else {
            let mut names: Vec<&str> = self.joints.iter().map(|(name, _)| name.as_str()).take(MOST_LISTED).collect();
            let more = format!("{} more", self.joints.len() - names.len());
            names.extend((names.len() < self.joints.len()).then_some(more.as_str()));
            let name = self.shared.name.clone();
            return Err(ControlError::NoJoint { name, joint: joint.to_owned(), joints: names.join(", ") });
        };
        let Joint { low_rad: low, high_rad: high, .. } = self.joints[place].1;

        if !(low..=high).contains(&rad) {
            return Err(ControlError::Outside { joint: joint.to_owned(), given: rad, low, high });
        }

        self.want(place, rad);
        Ok(())
    }

    /// As [`Commander::set`], by a joint's place, and without looking: a goal outside a joint's travel is refused as a whole by whoever
    /// follows goals. ImageOffsets that there are not are left out.
    pub fn want(&mut self, joint: usize, rad: f64) {
        let count = self.shared.size.joints;
        let (which, positions) = self.words.split_at_mut(8 * count.div_ceil(64));
        let (Some(bits), Some(position)) =
            (which.as_chunks_mut::<8>().0.get_mut(joint / 64), positions.as_chunks_mut::<8>().0.get_mut(joint))
        else {
            return;
        };

        *bits = (u64::from_ne_bytes(*bits) | 1 << (joint % 64)).to_ne_bytes();
        *position = rad.to_bits().to_ne_bytes();
    }

    /// Gives the goal, of one piece; its number. Waits for nobody.
    ///
    /// # Errors
    /// [`ControlError::BusEnded`] and [`ControlError::BusReplaced`] when the bus is gone.
    pub fn give(&mut self) -> Result<u64, ControlError> {
        self.shared.check()?;
        self.has_given = true;
        Ok(self.publish(0))
    }

    /// What became of the goal that was looked at last, with its number; `None` before the first. Goals that were overtaken by later ones
    /// are not looked at.
    #[must_use]
    pub fn answer(&self) -> Option<(u64, GoalAnswer)> {
        GoalAnswer::of_word(self.shared.live().answer.0.load(Ordering::Acquire))
    }

    fn publish(&self, flags: u64) -> u64 {
        let head = [self.shared.me.word(), Monotonic.now().as_ns(), flags];
        let mut bytes = [0; GOAL_BYTES];
        for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(head) {
            *place = word.to_ne_bytes();
        }
        self.shared.goals().map_or(0, |goals| goals.publish(&[&bytes, &self.words]))
    }
}

impl Drop for Commander {
    fn drop(&mut self) {
        if self.has_given {
            // The same goal once more: the one before may not have been looked at yet.
            self.publish(LAST_GOAL);
        }
        place(&self.shared).leave(self.shared.me);
    }
}

/// A goal as it was read.
#[derive(Clone, Debug)]
struct GoalBuffer {
    head: [u8; GOAL_BYTES],
    words: Vec<u8>,
}

impl GoalBuffer {
    fn word(&self, place: usize) -> u64 {
        self.head.as_chunks::<8>().0.get(place).map_or(0, |word| u64::from_ne_bytes(*word))
    }
}

/// Goals from the side of the loop that follows them. It asks neither for memory nor the kernel for anything.
#[derive(Debug)]
pub struct GoalSide {
    shared: Arc<MappedImage>,
    number: u64,
    held: GoalBuffer,
    next: GoalBuffer,
}

impl GoalSide {
    pub(super) fn new(shared: Arc<MappedImage>) -> Option<Self> {
        shared.goals()?;
        let empty = GoalBuffer { head: [0; GOAL_BYTES], words: vec![0; 8 * shared.size.goal_words()] };
        Some(Self { shared, number: 0, held: empty.clone(), next: empty })
    }

    /// Looks for a newer goal; the number of the newest that was read, `None` before the first.
    pub fn latest(&mut self) -> Option<u64> {
        let goals = self.shared.goals()?;
        for _ in 0..MOST_READINGS {
            let number = goals.newest();
            if number == self.number {
                break;
            }

            if goals.read(number, &mut [&mut self.next.head, &mut self.next.words]) {
                swap(&mut self.held, &mut self.next);
                self.number = number;
            }
        }

        (self.number > 0).then_some(self.number)
    }

    /// When that goal was made, by `CLOCK_MONOTONIC` in ns, as its commander says.
    #[must_use]
    pub fn at_ns(&self) -> u64 {
        self.held.word(1)
    }

    /// Whether its commander has left after it, in order.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.held.word(2) & LAST_GOAL != 0
    }

    /// The joints that it is for, and where they should be in rad, as its commander says: it may be anything.
    pub fn positions(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        let (which, positions) = self.held.words.split_at(8 * self.shared.size.joints.div_ceil(64));
        let which = which.as_chunks::<8>().0;
        let meant =
            |joint: usize| which.get(joint / 64).is_some_and(|bits| u64::from_ne_bytes(*bits) >> (joint % 64) & 1 != 0);
        let all = positions.as_chunks::<8>().0.iter().map(|bits| f64::from_ne_bytes(*bits)).enumerate();
        all.filter(move |(joint, _)| meant(*joint))
    }

    /// Tells the commander what became of a goal.
    pub fn answer(&self, number: u64, answer: GoalAnswer) {
        self.shared.live().answer.0.store(number << GoalAnswer::BITS | answer as u64, Ordering::Release);
    }
}
