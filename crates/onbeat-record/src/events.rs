//! What happened on a bus and to the robot on it, as notes: a bounded number of each kind, so that
//! no nuisance makes a file grow without end, and the number of those that were left out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::timing::is_zero;
use onbeat_ethercat::event::{Event, EventKind};

/// Notes of one kind and file; further events of the kind are counted.
// A cable with a bad contact makes thousands of events an hour. The first hundred of a kind tell
// it; the rest is a number.
pub const MOST_OF_A_KIND: u64 = 100;

/// An event of a bus or a robot. The first 100 of each kind in a part of a run have a note; in a
/// bench, none of devices that return to OP between blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventNote {
    /// Seconds since the file's start.
    pub t: f64,
    /// Cycle of the bus.
    pub cycle: u64,
    /// Kind of the event.
    pub kind: EventKind,
    /// Name of the device or joint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Value before; its meaning depends on the kind.
    pub old: u16,
    /// Value after; its meaning depends on the kind.
    pub new: u16,
    /// Its meaning depends on the kind.
    pub code: u32,
    /// Whether it reports a fault.
    pub alarm: bool,
    /// Description, without a full stop.
    pub sentence: String,
}

/// Numbers of events without a note, before the closing line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventsLeftOut {
    /// Alarms without a note.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub alarms: BTreeMap<EventKind, u64>,
    /// Other events without a note.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub others: BTreeMap<EventKind, u64>,
    /// Events dropped because their ring was full; their kinds are unknown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
}

impl EventsLeftOut {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Both together.
    pub fn add(&mut self, other: &Self) {
        let pairs = [(&mut self.alarms, &other.alarms), (&mut self.others, &other.others)];
        for (own, more) in pairs {
            more.iter().for_each(|(kind, n)| *own.entry(*kind).or_insert(0) += n);
        }
        self.lost += other.lost;
    }
}

/// Which events get a note.
#[derive(Debug, Default)]
pub(super) struct EventTally {
    written: BTreeMap<EventKind, u64>,
    left_out: EventsLeftOut,
}

impl EventTally {
    /// The note of an event, or nothing when there are enough of its kind.
    pub(super) fn note(&mut self, t: f64, event: &Event, device: &str) -> Option<EventNote> {
        let Event { cycle, kind, old, new, code, .. } = *event;
        let alarm = event.is_alarm();
        let written = self.written.entry(kind).or_insert(0);
        if *written == MOST_OF_A_KIND {
            let left_out =
                if alarm { &mut self.left_out.alarms } else { &mut self.left_out.others };
            *left_out.entry(kind).or_insert(0) += 1;
            let unreported = kind.unreported(old);
            if unreported > 0 {
                *self.left_out.alarms.entry(kind).or_insert(0) += unreported;
            }
            return None;
        }

        *written += 1;
        let sentence = event.sentence(device);
        let device = (!device.is_empty()).then(|| device.to_owned());
        Some(EventNote { t, cycle, kind, device, old, new, code, alarm, sentence })
    }

    pub(super) const fn lose(&mut self, events: u64) {
        self.left_out.lost += events;
    }

    /// What is to be said at the end; nothing when every event has its note.
    pub(super) fn left_out(&mut self) -> Option<EventsLeftOut> {
        Some(std::mem::take(&mut self.left_out)).filter(|left_out| !left_out.is_empty())
    }
}
