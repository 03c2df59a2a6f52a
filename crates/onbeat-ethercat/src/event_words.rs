//! Events as text: the same sentence in the terminal, the run file and the page.

use super::al;
use super::al_codes;
use super::emergency_codes;
use super::event::{Event, EventKind, NO_DEVICE, no_answer_words};
use super::link_errors::{ErrorCount, ErrorCounter};
use super::step::RobotState;

/// Names of the phases of a robot, by number.
pub const PHASES: [&str; 6] = [
    "waiting for devices",
    "enabling drives",
    "running",
    "stopping",
    "disabling drives",
    "at rest",
];
/// Names of the rungs of the miss ladder, by number.
pub const RUNGS: [&str; 4] = ["run", "hold", "degrade", "safe stop"];
/// Reasons for a joint being down, by number.
pub const REASONS: [&str; 6] = [
    "",
    "its drive has a fault",
    "its drive left \"operation enabled\"",
    "its following error was too large",
    "its drive could not be enabled",
    "its drive shows another mode of operation (0x6061) than cyclic synchronous position (8)",
];

/// Returns the name of a number, or the number itself when it has no name.
pub(super) fn word(words: &[&str], number: u32) -> String {
    words.get(number as usize).map_or_else(|| number.to_string(), |word| (*word).to_owned())
}

pub(super) fn al_state(state: u16) -> String {
    let state = state & u16::from(al::STATE);
    al::name(state).map_or_else(|| format!("AL state {state}"), str::to_owned)
}

/// Formats an AL status code with its name; empty for 0.
pub(super) fn with_code(code: u32) -> String {
    match code as u16 {
        0 => String::new(),
        code => format!(" ({})", al_codes::words(code)),
    }
}

/// Formats the error code of a drive (object 0x603F) with its name; empty for 0.
pub(super) fn drive_error(code: u16) -> String {
    match code {
        0 => String::new(),
        code => format!(" ({})", emergency_codes::words(code)),
    }
}

/// Formats a count of consecutive events; empty for a single one.
pub(super) fn in_a_row(code: u32) -> String {
    if code > 1 { format!(", {code} in a row") } else { String::new() }
}

/// Formats the number of events before one that were not reported; empty for none.
pub(super) fn not_reported(before: u16) -> String {
    if before > 0 { format!("; {before} before it not reported") } else { String::new() }
}

pub(super) fn devices(number: u16) -> String {
    if number == 1 { "1 device".to_owned() } else { format!("{number} devices") }
}

/// Returns the reason for a safe stop: `by` is the number in the event or in the image, `joint` the
/// joint that caused it, `code` the number of misses or the reason for the joint being down; 0 when
/// unknown.
#[must_use]
pub fn stop_reason(by: u16, joint: &str, code: u32) -> String {
    match (by, code) {
        (1, 0) => "missed cycles".to_owned(),
        (1, _) => format!("{code} missed cycles"),
        (2, 0) => format!("{joint} is down"),
        (2, _) => format!("{joint} is down, {}", word(&REASONS, code)),
        (3, _) => "the commander is lost".to_owned(),
        (other, _) => format!("reason {other}"),
    }
}

impl RobotState {
    /// Returns phase and rung as text; `joint` is the name of the joint that caused a safe stop,
    /// empty if none did.
    #[must_use]
    pub fn words(&self, joint: &str) -> String {
        let phase = word(&PHASES, self.phase.into());
        let rung = word(&RUNGS, self.rung.into());
        let why = if self.is_stopped() {
            format!(": {}", stop_reason(self.stopped_by.into(), joint, 0))
        } else {
            String::new()
        };

        format!("{phase}, {rung}{why}")
    }
}

impl Event {
    /// Returns the event as a sentence without a full stop. `device` is the name of its device,
    /// empty if it has none.
    ///
    /// ```
    /// use onbeat_ethercat::event::{Event, EventKind};
    ///
    /// let event = Event { at_ns: 0, cycle: 7, kind: EventKind::DeviceLost, device: 3, old: 0, new: 0, code: 0 };
    /// assert_eq!(event.sentence("left knee"), "left knee does not answer");
    /// ```
    #[must_use]
    pub fn sentence(&self, device: &str) -> String {
        self.plain_sentence(device).unwrap_or_else(|| self.sentence_by_values(device))
    }

    /// Sentences that are more than their values in a text.
    fn sentence_by_values(&self, device: &str) -> String {
        let Self { old, new, code, .. } = *self;
        match self.kind {
            EventKind::BusUp if code == 1 => "the device is in OP".to_owned(),
            EventKind::BusUp => format!("all {code} devices are in OP"),
            EventKind::SafeStop => format!("safe stop: {}", stop_reason(new, device, code)),
            EventKind::StateRefused => {
                let remedy = al_codes::remedy(code as u16);
                format!("{device} refuses {}{}: {remedy}", al_state(new), with_code(code))
            }
            EventKind::NoAnswer => format!("nothing comes back in time: {}", no_answer_words(code)),
            EventKind::ClockUnlocked if device.is_empty() => {
                format!("releases are {code} ns off the reference clock")
            }
            EventKind::ClockUnlocked => {
                format!("the clock of {device} is {code} ns off the reference clock")
            }
            EventKind::SdoRefused if code == 0 => {
                format!("{device} does not answer to start-up value 0x{old:04x}:{new:x}")
            }
            EventKind::SdoRefused => {
                format!(
                    "{device} refuses start-up value 0x{old:04x}:{new:x}, abort code 0x{code:08x}"
                )
            }
            EventKind::WrongDevice => self.of_another(device),
            EventKind::LinkErrors => self.of_errors(device),
            EventKind::DevicesLeftOp => self.of_many(device),
            EventKind::RingCut => self.of_ring(),
            EventKind::GroupTwice => self.of_twins(device),
            other => format!("{other:?} {old} {new} {code} {device}"),
        }
    }

    /// Sentence of an optional group that is on the cable twice; `device` is its first one.
    fn of_twins(&self, device: &str) -> String {
        let Self { old, new, code, .. } = *self;
        let (what, remedy) = match code >> 16 {
            0 => ("alias", "alias (onbeat bus alias)"),
            _ => ("device ID", "device ID by their switches"),
        };
        format!(
            "{} on the cable have {what} {} of the optional group of {device}, the first at place {new}; none gets set-points: \
             disconnect all but one, or give the others another {remedy}",
            devices(old),
            code & 0xffff
        )
    }

    /// Sentence of devices that left OP together; `device` is the name of a single one.
    fn of_many(&self, device: &str) -> String {
        let Self { old, new, code, .. } = *self;
        let who = if device.is_empty() { devices(old) } else { device.to_owned() };
        let left = format!("{who} left OP{}", with_code(code >> 16));
        match code & 0xffff {
            0 => left,
            pause => format!("{left}: this loop paused {pause} ms, the watchdog is {new} ms"),
        }
    }

    /// Sentences of a cut ring of cables. Positions, because the names of two devices are not known
    /// here.
    fn of_ring(&self) -> String {
        match (self.old, self.new) {
            (NO_DEVICE, _) => {
                "the cable ring is open between the first interface and the device at place 0: \
                 mend this cable"
                    .to_owned()
            }
            (old, NO_DEVICE) => format!(
                "the cable ring is open between the last device, at place {old}, and the second \
                 interface: mend this cable"
            ),
            (old, new) => format!(
                "the cable ring is open behind the device at place {old}, before place {new}: \
                 mend this cable"
            ),
        }
    }

    /// Sentence of an error counter that went up.
    fn of_errors(&self, device: &str) -> String {
        let before = ErrorCount::from_word(self.old);
        let now = ErrorCount::from_word(self.new);
        let more = now.count().saturating_sub(before.count());
        let at_least = if now.is_at_least() { ">= " } else { "" };
        let counter = ErrorCounter::from_register(self.code);
        let port = counter.and_then(ErrorCounter::port);
        let at = port.map_or_else(String::new, |port| format!(", port {port}"));
        let words = counter.map_or("errors of an unknown counter", ErrorCounter::words);
        format!("{device}{at}: {at_least}{more} {words}, {now} since the bus came up")
    }

    /// Sentence of a device in the place of another one.
    fn of_another(&self, device: &str) -> String {
        let Self { new, code, .. } = *self;
        let differs = ["vendor", "product", "revision", "serial number", "alias", "device ID"];
        let differs = differs.get(usize::from(new).wrapping_sub(1)).copied().unwrap_or("identity");
        format!(
            "{device}: another device is in its place, with {differs} {code:#x}; it was put into INIT and gets no set-points; put \
             {device} back"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventValues;

    #[test]
    fn every_kind_has_a_sentence_of_its_own_without_a_full_stop() {
        let event =
            |kind| Event { at_ns: 0, cycle: 1, kind, device: NO_DEVICE, old: 1, new: 2, code: 3 };
        let sentences: Vec<String> =
            EventKind::ALL.into_iter().map(|kind| event(kind).sentence("left knee")).collect();
        for (at, sentence) in sentences.iter().enumerate() {
            assert!(!sentence.is_empty() && !sentence.ends_with('.'), "{sentence}");
            assert!(!sentence.contains(&format!("{:?}", EventKind::ALL[at])), "{sentence}");
            assert!(!sentences[..at].contains(sentence), "{sentence}");
        }
    }

    #[test]
    fn an_emergency_names_its_error_and_its_end_is_not_an_alarm() {
        let event = |new, code| {
            Event::new((0, 1), EventKind::Emergency, 3, EventValues { old: 0, new, code })
        };
        assert_eq!(
            event(0x21, 0x8611).sentence("left knee"),
            "left knee sent emergency 0x8611, following error; error register 0x21 (generic, device profile)"
        );
        assert!(event(0x21, 0x8611).is_alarm());
        assert_eq!(
            event(0, 0).sentence("left knee"),
            "left knee reports the end of its error (emergency 0x0000)"
        );
        let later = Event { old: 999, ..event(0x01, 0x7305) }.sentence("left knee");
        assert!(
            later.ends_with("error register 0x01 (generic); 999 before it not reported"),
            "{later}"
        );
        assert!(!event(0, 0).is_alarm(), "CiA 301 sends it after a fault reset");
    }

    #[test]
    fn a_change_of_many_devices_is_one_sentence_with_its_cause() {
        let event = |old, new, code| {
            let values = EventValues { old, new, code };
            Event::new((0, 1), EventKind::DevicesLeftOp, NO_DEVICE, values)
        };
        assert_eq!(
            event(56, 100, 0x001b_012d).sentence(""),
            "56 devices left OP (0x001b, sync manager watchdog): this loop paused 301 ms, the watchdog is 100 ms"
        );
        assert_eq!(
            event(5, 0, 0x001a_0000).sentence(""),
            "5 devices left OP (0x001a, synchronization error)"
        );
    }

    #[test]
    fn errors_of_a_link_name_device_port_and_numbers() {
        let event = |old: ErrorCount, new: ErrorCount, code| {
            let values = EventValues { old: old.to_word(), new: new.to_word(), code };
            Event::new((0, 1), EventKind::LinkErrors, 3, values)
        };
        let twelve = ErrorCount::exactly(12);
        assert_eq!(
            event(twelve, ErrorCount::exactly(17), 0x0300).sentence("left knee"),
            "left knee, port 0: 5 invalid frames, 17 since the bus came up"
        );
        assert_eq!(
            event(twelve, twelve.plus(243, true), 0x0312).sentence("left knee"),
            "left knee, port 2: >= 243 lost links, >= 255 since the bus came up"
        );
        assert_eq!(
            event(ErrorCount::default(), ErrorCount::exactly(1), 0x030c).sentence("left knee"),
            "left knee: 1 processing unit errors, 1 since the bus came up"
        );
    }

    #[test]
    fn a_safe_stop_names_its_reason_and_its_joint() {
        let event = |new, code| {
            Event::new((0, 1), EventKind::SafeStop, 7, EventValues { old: 0, new, code })
        };
        assert_eq!(event(1, 10).sentence(""), "safe stop: 10 missed cycles");
        assert_eq!(
            event(2, 1).sentence("left knee"),
            "safe stop: left knee is down, its drive has a fault"
        );
        assert_eq!(event(3, 0).sentence(""), "safe stop: the commander is lost");
        let state = |phase, rung| RobotState { phase, rung, stopped_by: 2, device: 7, misses: 0 };

        assert_eq!(state(5, 3).words("left knee"), "at rest, safe stop: left knee is down");
        assert_eq!(state(2, 1).words(""), "running, hold");
    }
}
