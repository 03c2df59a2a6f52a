//! Events of a bus, in records of fixed size that the hot side writes.

use serde::{Deserialize, Serialize};

use super::carrier::Trouble;
use super::emergency_codes::is_end;

/// No device in particular.
pub const NO_DEVICE: u16 = u16::MAX;

pub use super::vocabulary::EventKind;

/// Code of [`EventKind::NoAnswer`]: replies arrive after their cycle. Smaller codes are those of
/// [`Trouble`]; 0: no known reason.
pub const ANSWERS_LATE: u32 = 6;

/// Returns the reason for missing replies, from the code of [`EventKind::NoAnswer`].
#[must_use]
pub fn no_answer_words(code: u32) -> String {
    match Trouble::from_number(code) {
        Some(trouble) => format!("the network interface {}", trouble.words()),
        None if code == ANSWERS_LATE => "the answers come after their cycle".to_owned(),
        None => "the interface has a link; check cables and power of the SubDevices".to_owned(),
    }
}

impl EventKind {
    /// Returns the name in lower case, with spaces.
    #[must_use]
    pub fn words(self) -> String {
        let name = format!("{self:?}");
        let mut words = String::new();
        for letter in name.chars() {
            if letter.is_ascii_uppercase() && !words.is_empty() {
                words.push(' ');
            }
            words.push(letter.to_ascii_lowercase());
        }

        words
    }

    /// Returns the number of alarms before an event of this kind that were not reported, of its value
    /// before: of equal emergencies in a row only some are.
    #[must_use]
    pub fn unreported(self, old: u16) -> u64 {
        if self == Self::Emergency { old.into() } else { 0 }
    }

    /// Returns the kind with this number; `None` for numbers that are not assigned.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u16 == number)
    }
}

/// The numbers of an event; what they mean depends on its kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventValues {
    /// Value before.
    pub old: u16,
    /// Value after.
    pub new: u16,
    /// Further number.
    pub code: u32,
}

impl EventValues {
    /// For a kind without numbers.
    pub const NONE: Self = Self { old: 0, new: 0, code: 0 };

    /// For a kind with one number.
    #[must_use]
    pub const fn from_code(code: u32) -> Self {
        Self { code, ..Self::NONE }
    }

    /// For a kind with a value before and a value after.
    #[must_use]
    pub const fn from_change(old: u16, new: u16) -> Self {
        Self { old, new, ..Self::NONE }
    }

    /// With a further number.
    #[must_use]
    pub const fn with_code(self, code: u32) -> Self {
        Self { code, ..self }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C)]
pub struct Event {
    /// Time on `CLOCK_MONOTONIC`, in ns.
    pub at_ns: u64,
    /// Cycle of the bus in which it happened.
    pub cycle: u64,
    pub kind: EventKind,
    /// Position of the device on the cable, or [`NO_DEVICE`].
    pub device: u16,
    /// Value before; see the kind.
    pub old: u16,
    /// Value after; see the kind.
    pub new: u16,
    /// Number whose meaning depends on the kind.
    pub code: u32,
}

impl Event {
    /// Creates an event of this time and cycle; `device` is a position, or [`NO_DEVICE`].
    #[must_use]
    pub const fn new(at: (u64, u64), kind: EventKind, device: u16, values: EventValues) -> Self {
        let ((at_ns, cycle), EventValues { old, new, code }) = (at, values);
        Self { at_ns, cycle, kind, device, old, new, code }
    }

    /// Returns whether the event reports a problem. Other events report a requested change or the
    /// end of a problem.
    #[must_use]
    pub const fn is_alarm(&self) -> bool {
        match self.kind {
            EventKind::RungChanged => self.new > self.old,
            // Bit 4 of AL status is the error indication.
            EventKind::StateChanged => self.new & 0x1f > 0x10 || self.new & 0x0f < self.old & 0x0f,
            EventKind::Emergency => !is_end(self.code),
            kind => !kind.is_never_an_alarm(),
        }
    }
}
