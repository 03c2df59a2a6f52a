//! What the session reports to the live view: the newest state of robot and bus, and the events.

use std::collections::VecDeque;

use onbeat_ethercat::event::Event;
use serde_json::{Value, json};

use crate::motion::{DeviceAlarms, RobotView, devices_note};

/// Events kept for a browser that opens the view later.
const MOST_EVENTS: usize = 64;

/// The newest state, and the latest events.
#[derive(Debug, Default)]
pub(super) struct RobotFacts {
    view: Option<RobotView>,
    /// Number of the newest state.
    pub number: u64,
    events: VecDeque<String>,
    /// Number of events that are no longer kept.
    dropped: u64,
    alarms: Vec<DeviceAlarms>,
}

impl RobotFacts {
    /// Creates the facts of a bus with this number of devices.
    pub(super) fn new(devices: usize) -> Self {
        Self { alarms: vec![DeviceAlarms::default(); devices], ..Self::default() }
    }

    /// Takes a new state.
    pub(super) fn show(&mut self, view: &RobotView) {
        self.number += 1;
        match &mut self.view {
            Some(kept) => kept.clone_from(view),
            None => self.view = Some(view.clone()),
        }
    }

    /// Takes an event; `device` is its name, empty for the whole bus.
    pub(super) fn add(&mut self, event: &Event, device: &str) {
        if let Some(alarms) = self.alarms.get_mut(usize::from(event.device)) {
            alarms.add(event);
        }

        if self.events.len() == MOST_EVENTS {
            self.events.pop_front();
            self.dropped += 1;
        }
        let said = json!({
            "at_ns": event.at_ns, "cycle": event.cycle, "alarm": event.is_alarm(),
            "device": device, "words": event.sentence(device),
        });
        self.events.push_back(said.to_string());
    }

    /// Returns the events from number `next` on, how many of them are no longer kept, and the
    /// number of the next one.
    pub(super) fn events_from(&self, next: u64) -> (impl Iterator<Item = &str>, u64, u64) {
        let left_out = self.dropped.saturating_sub(next);
        let skip = next.saturating_sub(self.dropped) as usize;
        let end = self.dropped + self.events.len() as u64;
        (self.events.iter().skip(skip).map(String::as_str), left_out, end)
    }

    /// Returns the newest state for the page; `None` before the first one.
    pub(super) fn state(&self) -> Option<Value> {
        let view = self.view.as_ref()?;
        let devices = devices_note(view, &self.alarms).devices;
        Some(json!({
            "phase": view.phase as u8, "rung": view.rung as u8, "stopped_by": view.stopped_by,
            "stopped_joint": view.stopped_joint, "misses": view.misses, "speed": view.speed,
            "time_ns": view.time_ns, "bus": view.bus, "loop": view.of_loop,
            "spikes": view.spikes, "devices": devices,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_ethercat::event::EventKind;

    fn event(kind: EventKind, device: u16, old: u16, new: u16) -> Event {
        Event { at_ns: 1, cycle: 2, kind, device, old, new, code: 0 }
    }

    #[test]
    fn a_late_reader_gets_the_newest_events_and_the_number_of_the_others() {
        let mut facts = RobotFacts::new(1);
        for _ in 0..MOST_EVENTS + 3 {
            facts.add(&event(EventKind::BusUp, 0, 0, 0), "");
        }

        let (events, left_out, next) = facts.events_from(1);
        assert_eq!((events.count(), left_out, next), (MOST_EVENTS, 2, MOST_EVENTS as u64 + 3));
        let (events, left_out, _) = facts.events_from(next - 2);
        assert_eq!((events.count(), left_out), (2, 0));
    }

    #[test]
    fn alarms_are_counted_by_device() {
        let mut facts = RobotFacts::new(2);
        facts.add(&event(EventKind::DeviceLost, 1, 8, 0), "knee");
        let lost = DeviceAlarms { lost: 1, ..DeviceAlarms::default() };
        assert_eq!(facts.alarms, [DeviceAlarms::default(), lost]);
    }
}
