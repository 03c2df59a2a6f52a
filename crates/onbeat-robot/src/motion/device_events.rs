//! Alarms of each device since the start.

use onbeat::record::{CountedErrors, DeviceNote};
use onbeat_ethercat::event::{Event, EventKind};
use onbeat_ethercat::link_errors::{ErrorCount, ErrorCounter, LinkErrors};

use super::view::{DeviceView, RobotView};
use onbeat::record::DevicesNote;

/// Alarms of one device since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceAlarms {
    /// Times that it no longer answered.
    pub lost: u64,
    /// Times that it fell back to a lower AL state, or refused one.
    pub fell_back: u64,
    /// Emergencies, and other alarms.
    pub other: u64,
    /// What its ports have counted, except forwarded errors.
    pub errors: LinkErrors,
}

impl DeviceAlarms {
    /// Counts an event of the device; events that are not alarms are not counted, except its part in
    /// an alarm of several devices, and emergencies that were not reported before one.
    pub fn add(&mut self, event: &Event) {
        // The alarm of those that left together names no device.
        if event.kind == EventKind::LeftOpWithOthers {
            self.fell_back += 1;
        }
        // Also before the end of the error.
        self.other += event.kind.unreported(event.old);
        if !event.is_alarm() {
            return;
        }

        match event.kind {
            EventKind::DeviceLost => self.lost += 1,
            EventKind::StateChanged | EventKind::StateRefused | EventKind::DevicesLeftOp => {
                self.fell_back += 1;
            }
            EventKind::LinkErrors => {
                if let Some(counter) = ErrorCounter::from_register(event.code) {
                    self.errors.set(counter, ErrorCount::from_word(event.new));
                }
            }
            _ => self.other += 1,
        }
    }

    fn note(self, device: &DeviceView) -> DeviceNote {
        let joint = device.joint.as_ref();
        DeviceNote {
            al_state: device.al_state,
            al_status_code: device.al_status_code,
            joint_state: joint
                .filter(|_| device.al_state.is_some())
                .and_then(|joint| word(&joint.state)),
            reason: joint.and_then(|joint| word(&joint.reason)),
            lost: self.lost,
            fell_back: self.fell_back,
            other_alarms: self.other,
            errors: self.errors.counted().map(counted_errors).collect(),
        }
    }
}

/// Returns a counter that is not 0, for a run file.
fn counted_errors((counter, count): (ErrorCounter, ErrorCount)) -> CountedErrors {
    CountedErrors {
        counter: counter.word().to_owned(),
        port: counter.port(),
        count: count.count(),
        at_least: count.is_at_least(),
    }
}

/// Returns the word that stands for a value in JSON.
fn word(value: &impl serde::Serialize) -> Option<String> {
    let json = serde_json::to_value(value).ok()?;
    json.as_str().map(str::to_owned)
}

/// Returns the state of bus and devices for the run file and the live view. `alarms` are those of
/// the devices by position.
#[must_use]
pub fn devices_note(view: &RobotView, alarms: &[DeviceAlarms]) -> DevicesNote {
    let bus = &view.bus;
    DevicesNote {
        cycle: bus.cycle,
        working_counter: bus.working_counter,
        expected: bus.expected,
        in_op: bus.in_op,
        lost: bus.lost,
        late: bus.late,
        strange: bus.strange,
        no_answer_ns: bus.no_answer_ns,
        devices: view.devices.iter().zip(alarms).map(|(device, of)| of.note(device)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_are_counted_and_requested_changes_are_not() {
        let mut alarms = DeviceAlarms::default();
        for (kind, old, new) in [
            (EventKind::DeviceLost, 8, 0),
            (EventKind::DeviceLost, 8, 0),
            (EventKind::StateChanged, 8, 4),
            (EventKind::StateChanged, 4, 8),
            (EventKind::DeviceFound, 0, 0),
            (EventKind::LeftOpWithOthers, 8, 0x14),
            (EventKind::Emergency, 2, 1),
            (EventKind::LinkErrors, 0, 3),
            (EventKind::LinkErrors, 3, 5),
        ] {
            alarms.add(&Event { at_ns: 1, cycle: 2, kind, device: 1, old, new, code: 0x0302 });
        }
        let kind = EventKind::Emergency;
        alarms.add(&Event { at_ns: 1, cycle: 2, kind, device: 1, old: 4, new: 0, code: 0 });
        let mut errors = LinkErrors::default();
        errors.set(ErrorCounter::InvalidFrames(1), ErrorCount::exactly(5));
        assert_eq!(alarms, DeviceAlarms { lost: 2, fell_back: 2, other: 7, errors });
    }
}
