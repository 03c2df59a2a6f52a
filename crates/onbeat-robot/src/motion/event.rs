//! What happens to a robot, in records of fixed size.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use onbeat_ethercat::event::{Event, EventKind, NO_DEVICE};

/// No joint in particular.
pub const NO_JOINT: u16 = u16::MAX;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u16)]
pub enum RobotEventKind {
    /// Another rung of the miss ladder, but the safe stop: `old` and `new` are rungs, `code` is how many misses are in the bucket.
    RungChanged = 1,
    /// Another phase: `old` and `new` are phases.
    PhaseChanged = 2,
    /// A joint went down: `code` is the reason, `new` its statusword.
    JointDown = 3,
    /// A joint that was down is enabled again.
    JointBack = 4,
    /// A goal held a number that is none, or was outside a joint's travel; `code` counts them.
    GoalRefused = 5,
    /// The latest goal is too old, and joints stay where they are.
    GoalOld = 6,
    /// There is a young goal again.
    GoalBack = 7,
    /// A reset was carried out.
    ResetDone = 8,
    /// A reset was refused: `code` is how many misses are in the bucket, 0 when there was nothing to reset or it is not at rest yet.
    ResetRefused = 9,
    /// Whoever commands fell silent for too long without leaving; the robot comes to a safe stop.
    CommanderLost = 10,
    /// The robot comes to a safe stop: `old` is the rung before, `new` is a [`SafeStopReason`](super::SafeStopReason), `joint` is the one that
    /// led to it, `code` the misses in the bucket, or the [`DownReason`](super::DownReason) of that joint.
    SafeStop = 11,
}

impl RobotEventKind {
    /// The same among the events of a bus.
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

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C)]
pub struct RobotEvent {
    /// Release of the cycle, by `CLOCK_MONOTONIC`, in ns.
    pub at_ns: u64,
    /// Cycle of the bus.
    pub cycle: u64,
    /// What.
    pub kind: RobotEventKind,
    /// Place of the joint in [`Robot::joints`](super::Robot::joints), or [`NO_JOINT`].
    pub joint: u16,
    /// Before; see the kind.
    pub old: u16,
    /// After; see the kind.
    pub new: u16,
    /// See the kind.
    pub code: u32,
}

impl RobotEvent {
    /// The same among the events of a bus, where joints are called by the offsets of their drives.
    #[must_use]
    pub fn on_bus(&self, devices: &[u16]) -> Event {
        let Self { at_ns, cycle, kind, joint, old, new, code } = *self;
        let device = devices.get(usize::from(joint)).copied().unwrap_or(NO_DEVICE);
        Event { at_ns, cycle, kind: kind.on_bus(), device, old, new, code }
    }
}

/// Room for events that nobody has asked for yet.
const ROOM: usize = 512;

/// RobotEvents in their order; when there is no room, new ones are counted only.
#[derive(Clone, Debug)]
pub(crate) struct RobotEvents {
    waiting: VecDeque<RobotEvent>,
    pub(crate) lost: u64,
    /// Of the present cycle.
    pub(crate) at_ns: u64,
    pub(crate) cycle: u64,
}

impl RobotEvents {
    pub(crate) fn new() -> Self {
        Self { waiting: VecDeque::with_capacity(ROOM), lost: 0, at_ns: 0, cycle: 0 }
    }

    pub(crate) fn add(&mut self, kind: RobotEventKind, joint: u16, (old, new): (u16, u16), code: u32) {
        if self.waiting.len() == ROOM {
            self.lost += 1;
            return;
        }
        self.waiting.push_back(RobotEvent { at_ns: self.at_ns, cycle: self.cycle, kind, joint, old, new, code });
    }

    pub(crate) fn next(&mut self) -> Option<RobotEvent> {
        self.waiting.pop_front()
    }
}
