//! The queue of events: by time, and in order of creation at the same time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::topology::{NodeId, PortId};

/// A packet on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PlannedFrame {
    /// On the wire, without the gap.
    pub(super) bytes: u32,
    /// The cycle that it belongs to; of a carried frame its own number.
    pub(super) cycle: u32,
    pub(super) class: Class,
    pub(super) sent_ps: u64,
}

/// What a frame is, and where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// To all devices.
    Broadcast,
    /// To one device.
    Command(u32),
    /// From one device to the controller.
    Answer(u32),
    /// Background traffic to a node.
    Background(u32),
    /// From a program to a node.
    Carried(u32),
    /// From a program to all nodes but its own.
    Flooded,
}

impl Class {
    /// Whether a switch sends it to all ports but the one that it came from.
    pub(super) const fn is_for_all(self) -> bool {
        matches!(self, Self::Broadcast | Self::Flooded)
    }

    /// Whether a program takes it at a node that it reaches.
    pub(super) fn is_carried_to(self, node: NodeId) -> bool {
        self == Self::Flooded || self == Self::Carried(node as u32)
    }
}

/// A switch on a frame's way, and the node before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hop {
    pub(super) switch: NodeId,
    pub(super) from: NodeId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NetEvent {
    /// The controller begins a cycle.
    Cycle(u32),
    /// A source of background traffic sends.
    Background(u32),
    /// A switch has read enough of a frame to forward it; `full_ps` is its last bit.
    Forward { hop: Hop, frame: PlannedFrame, full_ps: u64 },
    /// A frame joins the queue of a port.
    Queue { port: PortId, frame: PlannedFrame },
    /// A port with a queue can send again.
    Free(PortId),
    /// The last bit of a command has reached a device.
    AtDevice { device: u32, frame: PlannedFrame },
    /// The last bit of an answer has reached the controller.
    AtController(PlannedFrame),
    /// The last bit of a carried frame has reached a node.
    Carried { node: NodeId, frame: PlannedFrame },
}

#[derive(Default)]
pub(super) struct Agenda {
    /// By time, then by order.
    heap: BinaryHeap<Reverse<(u64, u64, NetEvent)>>,
    order: u64,
}

impl Agenda {
    pub(super) fn add(&mut self, at_ps: u64, event: NetEvent) {
        self.heap.push(Reverse((at_ps, self.order, event)));
        self.order += 1;
    }

    /// Returns when the next event happens.
    pub(super) fn next_ps(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at_ps, ..))| *at_ps)
    }

    pub(super) fn next(&mut self) -> Option<(u64, NetEvent)> {
        self.heap.pop().map(|Reverse((at_ps, _, event))| (at_ps, event))
    }
}
