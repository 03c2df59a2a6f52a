//! Events of a robot, in records of fixed size.

use std::collections::VecDeque;

use onbeat_ethercat::event::{Event, EventKind, EventValues, NO_DEVICE};

/// Value of [`RobotEvent::joint`] for events of no joint.
pub const NO_JOINT: u16 = u16::MAX;

/// An event, of one of the kinds from [`EventKind::RungChanged`] to [`EventKind::CommanderLost`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RobotEvent {
    /// Release of the cycle, by `CLOCK_MONOTONIC`, in ns.
    pub at_ns: u64,
    /// Cycle number of the bus.
    pub cycle: u64,
    /// Kind of the event.
    pub kind: EventKind,
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
        Event { at_ns, cycle, kind, device, old, new, code }
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

    pub(crate) fn add(&mut self, kind: EventKind, joint: u16, values: EventValues) {
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
