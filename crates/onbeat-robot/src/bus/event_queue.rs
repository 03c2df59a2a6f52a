//! Queue of events from the loop to their reader.

use std::collections::VecDeque;

use onbeat_ethercat::event::{Event, EventKind, EventValues, NO_DEVICE};
use onbeat_rt::time::Instant;

/// Capacity. A further event drops the oldest, which is counted.
const MOST: usize = 4_096;

#[derive(Clone, Debug)]
pub(super) struct EventQueue {
    waiting: VecDeque<Event>,
    pub(super) lost: u64,
    period_ns: u64,
}

impl EventQueue {
    pub(super) fn new(events: Vec<Event>, period_ns: u64) -> Self {
        let mut waiting = VecDeque::with_capacity(MOST);
        waiting.extend(events.into_iter().take(MOST));
        Self { waiting, lost: 0, period_ns }
    }

    pub(super) fn push(&mut self, event: Event) {
        if self.waiting.len() == MOST {
            self.waiting.pop_front();
            self.lost += 1;
        }
        self.waiting.push_back(event);
    }

    pub(super) fn take(&mut self) -> Option<Event> {
        self.waiting.pop_front()
    }

    /// Returns the writer of the events of a cycle that are seen at this instant.
    pub(super) fn writer(&mut self, cycle: u64, at: Instant) -> EventWriter<'_> {
        EventWriter { cycle, at_ns: at.as_ns(), period_ns: self.period_ns, queue: self }
    }
}

/// Writes the events of one cycle.
pub(super) struct EventWriter<'n> {
    queue: &'n mut EventQueue,
    pub(super) cycle: u64,
    pub(super) at_ns: u64,
    pub(super) period_ns: u64,
}

impl EventWriter<'_> {
    pub(super) fn write(&mut self, kind: EventKind, device: Option<usize>, values: EventValues) {
        let device = device.and_then(|device| u16::try_from(device).ok()).unwrap_or(NO_DEVICE);
        self.queue.push(Event::new((self.at_ns, self.cycle), kind, device, values));
    }
}
