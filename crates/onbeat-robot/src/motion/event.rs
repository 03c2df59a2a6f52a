//! Events of a robot, in records of fixed size.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use onbeat_ethercat::event::{Event, EventKind, EventValues, NO_DEVICE};

/// Value of [`RobotEvent::joint`] for events of no joint.
pub const NO_JOINT: u16 = u16::MAX;

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u16)]
pub enum RobotEventKind {
    /// The rung of the miss ladder changed, except to safe stop: `old` and `new` are rungs, `code`
    /// is the number of misses in the bucket.
    RungChanged = 1,
    /// The phase changed: `old` and `new` are phases.
    PhaseChanged = 2,
    /// A joint went down: `code` is the reason, `new` its statusword.
    JointDown = 3,
    /// A joint that was down is enabled again.
    JointBack = 4,
    /// A goal with an invalid number, or outside a joint's travel, was refused; `code` counts them.
    GoalRefused = 5,
    /// The latest goal is too old; joints stay where they are.
    GoalOld = 6,
    /// A valid goal is followed again.
    GoalBack = 7,
    /// A reset was done.
    ResetDone = 8,
    /// A reset was refused: `code` is the number of misses in the bucket, 0 if there was nothing to
    /// reset or the robot is not at rest.
    ResetRefused = 9,
    /// The commander sent no valid goal for too long without leaving; a safe stop follows.
    CommanderLost = 10,
    /// The robot enters the safe stop: `old` is the rung before, `new` a
    /// [`SafeStopReason`](super::SafeStopReason), `joint` the joint that caused it, `code` the
    /// number of misses in the bucket, or the [`DownReason`](super::DownReason) of that joint.
    SafeStop = 11,
}

impl RobotEventKind {
    /// Returns the corresponding event of a bus.
    #[must_use]
    pub const fn on_bus(self) -> EventKind {
        match self {
            Self::RungChanged => EventKind::RungChanged,
            Self::PhaseChanged => EventKind::PhaseChanged,
            Self::JointDown => EventKind::JointDown,
            Self::JointBack => EventKind::JointBack,
            Self::GoalRefused => EventKind::GoalRefused,
            Self::GoalOld => EventKind::GoalOld,
            Self::GoalBack => EventKind::GoalBack,
            Self::ResetDone => EventKind::ResetDone,
            Self::ResetRefused => EventKind::ResetRefused,
            Self::CommanderLost => EventKind::CommanderLost,
            Self::SafeStop => EventKind::SafeStop,
        }
    }
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C)]
pub struct RobotEvent {
    /// Release of the cycle, by `CLOCK_MONOTONIC`, in ns.
    pub at_ns: u64,
    /// Cycle number of the bus.
    pub cycle: u64,
    /// Kind of the event.
    pub kind: RobotEventKind,
    /// Index of the joint in [`Robot::joints`](super::Robot::joints), or [`NO_JOINT`].
    pub joint: u16,
    /// Value before; see the kind.
    pub old: u16,
    /// Value after; see the kind.
    pub new: u16,
    /// Further value; see the kind.
    pub code: u32,
}

impl RobotEvent {
    /// Converts this to an event of a bus; `devices` are the positions of the joints' drives.
    #[must_use]
    pub fn on_bus(&self, devices: &[u16]) -> Event {
        let Self { at_ns, cycle, kind, joint, old, new, code } = *self;
        let device = devices.get(usize::from(joint)).copied().unwrap_or(NO_DEVICE);
        Event { at_ns, cycle, kind: kind.on_bus(), device, old, new, code }
    }
}

/// Capacity of the queue.
const ROOM: usize = 512;

/// Event queue; when it is full, new events are counted and dropped.
#[derive(Clone, Debug)]
pub(crate) struct RobotEvents {
    waiting: VecDeque<RobotEvent>,
    pub(crate) lost: u64,
    /// Release and number of the present cycle.
    pub(crate) at_ns: u64,
    pub(crate) cycle: u64,
}

impl RobotEvents {
    pub(crate) fn new() -> Self {
        Self { waiting: VecDeque::with_capacity(ROOM), lost: 0, at_ns: 0, cycle: 0 }
    }

    pub(crate) fn add(&mut self, kind: RobotEventKind, joint: u16, values: EventValues) {
        let EventValues { old, new, code } = values;
        if self.waiting.len() == ROOM {
            self.lost += 1;
            return;
        }
        self.waiting.push_back(RobotEvent {
            at_ns: self.at_ns,
            cycle: self.cycle,
            kind,
            joint,
            old,
            new,
            code,
        });
    }

    pub(crate) fn next(&mut self) -> Option<RobotEvent> {
        self.waiting.pop_front()
    }
}
