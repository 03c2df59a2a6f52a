//! Events of a robot, until they are read.

use std::collections::VecDeque;

use onbeat_ethercat::event::{Event, EventKind, EventValues, NO_DEVICE};

/// Value of [`Status::stopped_joint`](super::Status::stopped_joint) for no joint.
pub const NO_JOINT: u16 = u16::MAX;

/// Capacity of the queue.
const ROOM: usize = 512;

/// Event queue; when it is full, new events are counted and dropped.
#[derive(Clone, Debug)]
pub(crate) struct RobotEvents {
    waiting: VecDeque<Event>,
    /// Positions of the joints' drives on the cable.
    devices: Vec<u16>,
    pub(crate) lost: u64,
    /// Release and number of the present cycle.
    pub(crate) at_ns: u64,
    pub(crate) cycle: u64,
}

impl RobotEvents {
    pub(crate) fn new(devices: Vec<u16>) -> Self {
        Self { waiting: VecDeque::with_capacity(ROOM), devices, lost: 0, at_ns: 0, cycle: 0 }
    }

    /// Returns the position of a joint's drive; [`NO_DEVICE`] for [`NO_JOINT`].
    pub(crate) fn device_of(&self, joint: u16) -> u16 {
        self.devices.get(usize::from(joint)).copied().unwrap_or(NO_DEVICE)
    }

    /// Adds an event of a joint, or of the robot as a whole with [`NO_JOINT`].
    pub(crate) fn add(&mut self, kind: EventKind, joint: u16, values: EventValues) {
        if self.waiting.len() == ROOM {
            self.lost += 1;
            return;
        }
        let at = (self.at_ns, self.cycle);
        self.waiting.push_back(Event::new(at, kind, self.device_of(joint), values));
    }

    pub(crate) fn next(&mut self) -> Option<Event> {
        self.waiting.pop_front()
    }
}
