//! Goals: target positions of joints, from one commanding process to the bus process's loop.
//!
//! Goals use slots as the image does: the commander publishes without waiting, and the loop reads
//! the newest goal consistently. Each commander gets slots of its own. The following process
//! (`onbeat-robot`) checks the content. The result is stored in one word of the image.

use std::mem::swap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;

use super::abi::{GOAL_BYTES, LAST_GOAL};
use super::area::Inward;
use super::error::ControlError;
use super::image::MappedImage;
use super::joint::Joint;
use super::link::{self, Link};
use super::service::Service;

/// Maximum number of attempts to read a goal. An attempt fails only if the commander publishes four
/// times during one copy; then the previous goal stays.
const MOST_READINGS: u32 = 8;
/// Maximum number of names listed in an error.
const MOST_LISTED: usize = 8;

/// Result of evaluating a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum GoalAnswer {
    /// The goal is followed.
    Taken = 1,
    /// It holds an invalid number, or a target outside a joint's travel; the previous goal stays.
    Refused = 2,
    /// It was too old when it was evaluated.
    TooOld = 3,
}

impl GoalAnswer {
    const BITS: u32 = 2;

    fn of_word(word: u64) -> Option<(u64, Self)> {
        let all = [Self::Taken, Self::Refused, Self::TooOld];
        let known =
            all.into_iter().find(|answer| *answer as u64 == word & ((1 << Self::BITS) - 1))?;
        Some((word >> Self::BITS, known))
    }
}

/// The commander of the joints, until it is dropped. A goal is followed for [`Commander::age_us`];
/// give it again before that. If goals stop while the commander has not left, the robot enters the
/// safe stop (`docs/robot.md`).
///
/// ```
/// use onbeat_control::{Client, Image, ImageSettings, Joint};
/// # use onbeat_ethercat::description::Description;
/// # use onbeat_ethercat::layout::Layout;
/// # let name = format!("commander-{}", std::process::id());
/// # let layout = Layout::from_toml(Description::HUMANOID)?;
/// # let device = layout.find("left knee").ok_or("no left knee")?;
/// # let joints = vec![Joint { device, low_rad: -0.1, high_rad: 2.4, velocity_rad_s: 4.0,
/// #     increments_per_rad: 1e4, zero_rad: 0.0 }];
/// # let bus = Image::create(&name, &layout, ImageSettings { joints, ..ImageSettings::default() })?;
/// let mut commander = Client::open(&name)?.command()?;
/// commander.set("left knee", 0.3)?;
/// let number = commander.give()?;
///
/// // In the bus process:
/// let mut goals = bus.goals().ok_or("no joint follows goals")?;
/// assert_eq!(goals.latest(), Some(number));
/// assert!(goals.positions().eq([(0, 0.3)]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Commander {
    shared: Arc<MappedImage>,
    link: Link,
    slots: Inward,
    joints: Vec<(String, Joint)>,
    /// One bit for each joint with a target, then all positions.
    words: Vec<u8>,
    has_given: bool,
    is_abandoned: bool,
}

impl Commander {
    pub(super) fn new(shared: Arc<MappedImage>) -> Result<Self, ControlError> {
        if shared.size.joints == 0 {
            return Err(ControlError::NoGoals { name: shared.name.clone() });
        }

        let link = Link::again(&shared)?;
        let slots = link.claim(&shared, link::COMMANDER, shared.size.goal_slot_words())?;
        let words = vec![0; 8 * shared.size.goal_words()];
        let joints = shared.named_joints();
        Ok(Self { shared, link, slots, joints, words, has_given: false, is_abandoned: false })
    }

    /// Returns the joints, in the order of the indices of [`Commander::want`].
    #[must_use]
    pub fn joints(&self) -> &[(String, Joint)] {
        &self.joints
    }

    /// Returns the time for which a goal is followed, in µs; at most 2^32 − 1.
    #[must_use]
    pub fn age_us(&self) -> u32 {
        self.shared.header().goal_age_us.load(Ordering::Relaxed)
    }

    /// Sets the target of a joint for the next goal and all later ones. Joints without a target
    /// stay where they are.
    ///
    /// # Errors
    /// As [`Commander::place`].
    pub fn set(&mut self, joint: &str, rad: f64) -> Result<(), ControlError> {
        let place = self.place(joint, rad)?;
        self.want(place, rad);
        Ok(())
    }

    /// Returns the index of a joint for [`Commander::want`], if it may have this target.
    ///
    /// # Errors
    /// [`ControlError::NoJoint`]; [`ControlError::Outside`], also for values that are not numbers.
    pub fn place(&self, joint: &str, rad: f64) -> Result<usize, ControlError> {
        let Some(place) = self.joints.iter().position(|(name, _)| name == joint) else {
            let mut names: Vec<&str> =
                self.joints.iter().map(|(name, _)| name.as_str()).take(MOST_LISTED).collect();
            let more = format!("{} more", self.joints.len() - names.len());
            names.extend((names.len() < self.joints.len()).then_some(more.as_str()));
            let name = self.shared.name.clone();
            return Err(ControlError::NoJoint {
                name,
                joint: joint.to_owned(),
                joints: names.join(", "),
            });
        };
        let Joint { low_rad: low, high_rad: high, .. } = self.joints[place].1;

        if !(low..=high).contains(&rad) {
            return Err(ControlError::Outside { joint: joint.to_owned(), given: rad, low, high });
        }

        Ok(place)
    }

    /// Sets the target of a joint by its index, without a check: the following process refuses
    /// goals outside a travel as a whole. An unknown index is ignored.
    pub fn want(&mut self, joint: usize, rad: f64) {
        let count = self.shared.size.joints;
        let (which, positions) = self.words.split_at_mut(8 * count.div_ceil(64));
        let (Some(bits), Some(position)) = (
            which.as_chunks_mut::<8>().0.get_mut(joint / 64),
            positions.as_chunks_mut::<8>().0.get_mut(joint),
        ) else {
            return;
        };

        *bits = (u64::from_ne_bytes(*bits) | 1 << (joint % 64)).to_ne_bytes();
        *position = rad.to_bits().to_ne_bytes();
    }

    /// Publishes the goal; returns its number. Never waits.
    ///
    /// # Errors
    /// [`ControlError::BusEnded`] if the bus has ended.
    pub fn give(&mut self) -> Result<u64, ControlError> {
        self.shared.check()?;
        self.has_given = true;
        Ok(self.publish(0))
    }

    /// Returns number and result of the goal evaluated last; `None` before the first. Goals
    /// replaced by later ones are not evaluated.
    #[must_use]
    pub fn answer(&self) -> Option<(u64, GoalAnswer)> {
        GoalAnswer::of_word(self.shared.live().answer.0.load(Ordering::Acquire))
    }

    /// Ends without taking leave, as if this process had been killed: the robot holds, and then
    /// stops safely, unless another process commands it by then. Dropping a commander takes leave,
    /// and the robot keeps its last targets.
    pub fn abandon(mut self) {
        self.is_abandoned = true;
    }

    fn publish(&self, flags: u64) -> u64 {
        let head = [Monotonic.now().as_ns(), flags];
        let mut bytes = [0; GOAL_BYTES];
        for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(head) {
            *place = word.to_ne_bytes();
        }
        self.slots.slots().publish(&[&bytes, &self.words])
    }
}

impl Drop for Commander {
    fn drop(&mut self) {
        if self.is_abandoned {
            return;
        }
        if self.has_given {
            // Repeats the goal, since the previous publication may not have been evaluated yet.
            self.publish(LAST_GOAL);
        }
        self.link.leave(link::COMMANDER);
    }
}

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

/// Goals for the loop that follows them. Does not allocate or make system calls.
#[derive(Debug)]
pub struct GoalSide {
    service: Arc<Service>,
    slots: Option<Arc<Inward>>,
    /// Generation of `slots`.
    seen: u32,
    /// Whether all of `slots` was read.
    is_over: bool,
    number: u64,
    held: GoalBuffer,
    next: GoalBuffer,
}

impl GoalSide {
    pub(super) fn new(service: Arc<Service>) -> Option<Self> {
        let size = service.image.size;
        if size.joints == 0 {
            return None;
        }
        let empty = GoalBuffer { head: [0; GOAL_BYTES], words: vec![0; 8 * size.goal_words()] };
        let next = empty.clone();
        let slots = None;
        Some(Self { service, slots, seen: 0, is_over: false, number: 0, held: empty, next })
    }

    /// Reads the newest goal; returns the number of the newest one read, `None` before the first.
    pub fn latest(&mut self) -> Option<u64> {
        self.read();
        if self.service.goals.is_new(self.seen)
            && self.service.goals.take(&mut self.seen, &mut self.slots)
        {
            self.is_over = false;
            self.read();
        }

        (self.number > 0).then_some(self.number)
    }

    fn read(&mut self) {
        let Some(slots) = self.slots.as_ref().filter(|_| !self.is_over) else { return };
        // Of a commander that has left, the last goal is read, and nothing after it.
        self.is_over = slots.is_closed();
        let goals = slots.slots();
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
    }

    /// Returns the time of its creation by `CLOCK_MONOTONIC` in ns, as given by the commander.
    #[must_use]
    pub fn at_ns(&self) -> u64 {
        self.held.word(0)
    }

    /// Returns whether the commander left in order after it.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.held.word(1) & LAST_GOAL != 0
    }

    /// Returns the joints with a target and their targets in rad, unchecked.
    pub fn positions(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        let (which, positions) =
            self.held.words.split_at(8 * self.service.image.size.joints.div_ceil(64));
        let which = which.as_chunks::<8>().0;
        let meant = |joint: usize| {
            which
                .get(joint / 64)
                .is_some_and(|bits| u64::from_ne_bytes(*bits) >> (joint % 64) & 1 != 0)
        };
        let all =
            positions.as_chunks::<8>().0.iter().map(|bits| f64::from_ne_bytes(*bits)).enumerate();
        all.filter(move |(joint, _)| meant(*joint))
    }

    /// Reports the result of a goal to the commander.
    pub fn answer(&self, number: u64, answer: GoalAnswer) {
        let word = number << GoalAnswer::BITS | answer as u64;
        self.service.image.live().answer.0.store(word, Ordering::Release);
    }
}
