//! What happens on a bus, in records of fixed size: the hot side writes them, anybody reads them later.

use serde::{Deserialize, Serialize};

use super::carrier::Trouble;

/// No device in particular.
pub const NO_DEVICE: u16 = u16::MAX;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u16)]
pub enum EventKind {
    /// All devices are in OP; `code` is their number.
    BusUp = 1,
    /// The bus was taken down in order.
    BusDown = 2,
    /// The bus begins anew; `code` counts how often.
    BusRestarted = 3,
    /// A device answers no more.
    DeviceLost = 4,
    /// A lost device answers again; it is being brought back.
    DeviceFound = 5,
    /// A lost device is in OP again; `code` is the time since it was lost, in µs.
    DeviceBack = 6,
    /// Another device is in the place of this one, and is kept in INIT: `new` says what differs (1 vendor, 2 product, 3 revision, 4 serial
    /// number, 5 alias), `code` is what the device there has.
    WrongDevice = 7,
    /// A device left its AL state: `old` and `new` are AL states, `code` is the AL status code.
    StateChanged = 8,
    /// A device sent an emergency: `code` is its error code, `new` its error register.
    Emergency = 9,
    /// The working counter is not what it should be: `old` is expected, `new` is seen.
    WorkingCounterOff = 10,
    /// The working counter is right again; `code` is how many cycles it was off.
    WorkingCounterBack = 11,
    /// A frame did not come back before the next one left; `code` counts those in a row, which ends after 100 cycles without one.
    FrameLost = 12,
    /// A frame came back after its cycle and was dropped; `code` counts those in a row.
    FrameLate = 13,
    /// A frame came back that was not sent, or not as it was sent; `code` counts those in a row.
    FrameUnknown = 14,
    /// The loop keeps time with the reference clock from now on.
    ClockLocked = 15,
    /// The loop and the reference clock drifted apart; `code` is how far, in ns.
    ClockUnlocked = 16,
    /// A process owns the outputs now; `code` is its process id.
    OwnerTaken = 17,
    /// The owner gave the outputs up in order; `code` is its process id.
    OwnerLeft = 18,
    /// The owner died; outputs are at their safe values. `code` is its process id.
    OwnerDied = 19,
    /// The owner lives, but refreshed its outputs no more; they are at their safe values. `code` is the number of cycles.
    OutputsStale = 20,
    /// A library that the bus is made of panicked or failed; the bus begins anew.
    LibraryFailed = 21,
    /// A device's process data did not change although they should.
    Frozen = 22,
    /// A device does not do what it is asked to on its way to OP: `new` is the AL state wanted, `code` its AL status code.
    StateRefused = 23,
    /// A reader of the process image was found dead while it held it; `code` is its process id.
    ReaderDied = 24,
    /// A device does not take the start-up value of an object on its way back: `old` is the object, `new` its entry, `code` the abort
    /// code, or 0 when it did not answer.
    SdoRefused = 25,
    /// A process commands the joints now; `code` is its process id.
    CommanderTaken = 26,
    /// The commander gave its place up in order; `code` is its process id.
    CommanderLeft = 27,
    /// The commander died; `code` is its process id.
    CommanderDied = 28,
    /// A device cannot be told from others like it, and its place is not proven by those; it is kept in INIT. `code` is how many devices
    /// like it are not in OP, itself included.
    PlaceInDoubt = 29,
    /// The cable has a device that the file does not have; it is left alone. `new` is its place on the cable, `code` how many devices the
    /// cable has.
    SurplusDevice = 30,
    /// A frame came back once more; `code` counts those in a row.
    FrameDuplicate = 31,
    /// Frames of another MainDevice come by the same interface; `code` is how many so far.
    ForeignFrames = 32,
    /// Nothing has come back in time for ten cycles; `code` says why, see [`no_answer_words`].
    NoAnswer = 33,
    /// Frames come back again; `code` is how long they did not, in ms.
    AnswerBack = 34,
    /// Another rung of the miss ladder, but the safe stop: `old` and `new` are rungs (0 run, 1 hold, 2 degrade, 3 safe stop), `code` is
    /// how many misses are in the bucket.
    RungChanged = 35,
    /// The robot comes to a safe stop: `old` is the rung before, `new` is why (1 misses, 2 a joint went down, 3 the commander is lost),
    /// `device` is the joint's drive, `code` the misses in the bucket, or the reason of [`EventKind::JointDown`].
    SafeStop = 36,
    /// Another phase of the robot: `old` and `new` are phases (0 waiting, 1 enabling, 2 running, 3 stopping, 4 disabling, 5 at rest).
    PhaseChanged = 37,
    /// A joint went down: `code` is the reason (1 fault, 2 left, 3 following, 4 not enabled), `new` its statusword.
    JointDown = 38,
    /// A joint that was down is enabled again.
    JointBack = 39,
    /// A goal was refused, for a number that is none or is outside a travel; `code` counts them.
    GoalRefused = 40,
    /// The latest goal is too old, and joints stay where they are.
    GoalOld = 41,
    /// There is a young goal again.
    GoalBack = 42,
    /// A reset of the robot was carried out.
    ResetDone = 43,
    /// A reset was refused: `code` is how many misses are in the bucket, 0 when there was nothing to reset or it is not at rest yet.
    ResetRefused = 44,
    /// The commander sent no good goal for too long without leaving; a safe stop follows.
    CommanderLost = 45,
}

/// Code of [`EventKind::NoAnswer`]: answers come, after their cycle. Smaller ones are those of [`Trouble`]; 0: no reason is known.
pub const ANSWERS_LATE: u32 = 6;

/// Why nothing comes back, from the code of [`EventKind::NoAnswer`].
#[must_use]
pub fn no_answer_words(code: u32) -> String {
    match Trouble::from_number(code) {
        Some(trouble) => format!("the network interface {}", trouble.words()),
        None if code == ANSWERS_LATE => "the answers come after their cycle".to_owned(),
        None => "the interface has a link; check cables and power of the SubDevices".to_owned(),
    }
}

impl EventKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 45] = [
        Self::BusUp,
        Self::BusDown,
        Self::BusRestarted,
        Self::DeviceLost,
        Self::DeviceFound,
        Self::DeviceBack,
        Self::WrongDevice,
        Self::StateChanged,
        Self::Emergency,
        Self::WorkingCounterOff,
        Self::WorkingCounterBack,
        Self::FrameLost,
        Self::FrameLate,
        Self::FrameUnknown,
        Self::ClockLocked,
        Self::ClockUnlocked,
        Self::OwnerTaken,
        Self::OwnerLeft,
        Self::OwnerDied,
        Self::OutputsStale,
        Self::LibraryFailed,
        Self::Frozen,
        Self::StateRefused,
        Self::ReaderDied,
        Self::SdoRefused,
        Self::CommanderTaken,
        Self::CommanderLeft,
        Self::CommanderDied,
        Self::PlaceInDoubt,
        Self::SurplusDevice,
        Self::FrameDuplicate,
        Self::ForeignFrames,
        Self::NoAnswer,
        Self::AnswerBack,
        Self::RungChanged,
        Self::SafeStop,
        Self::PhaseChanged,
        Self::JointDown,
        Self::JointBack,
        Self::GoalRefused,
        Self::GoalOld,
        Self::GoalBack,
        Self::ResetDone,
        Self::ResetRefused,
        Self::CommanderLost,
    ];

    /// Its name in small letters, with blanks.
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

    /// The kind of a number, as other processes write it.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u16 == number)
    }
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C)]
pub struct Event {
    /// When, by `CLOCK_MONOTONIC`, in ns.
    pub at_ns: u64,
    /// Cycle of the bus.
    pub cycle: u64,
    /// What.
    pub kind: EventKind,
    /// Place of the device on the cable, or [`NO_DEVICE`].
    pub device: u16,
    /// Before; see the kind.
    pub old: u16,
    /// After; see the kind.
    pub new: u16,
    /// See the kind.
    pub code: u32,
}

impl Event {
    /// Whether it says that something is wrong. The others report what was asked for, or that something is right again.
    #[must_use]
    pub const fn is_alarm(&self) -> bool {
        match self.kind {
            EventKind::RungChanged => self.new > self.old,
            // The bit above an AL state is its error.
            EventKind::StateChanged => self.new & 0x1f > 0x10 || self.new & 0x0f < self.old & 0x0f,
            EventKind::BusUp
            | EventKind::BusDown
            | EventKind::DeviceFound
            | EventKind::DeviceBack
            | EventKind::AnswerBack
            | EventKind::WorkingCounterBack
            | EventKind::ClockLocked
            | EventKind::OwnerTaken
            | EventKind::OwnerLeft
            | EventKind::CommanderTaken
            | EventKind::CommanderLeft
            | EventKind::PhaseChanged
            | EventKind::JointBack
            | EventKind::GoalBack
            | EventKind::ResetDone => false,
            _ => true,
        }
    }
}
