//! Events of a bus, in records of fixed size that the hot side writes.

use serde::{Deserialize, Serialize};

use super::carrier::Trouble;

/// No device in particular.
pub const NO_DEVICE: u16 = u16::MAX;

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u16)]
pub enum EventKind {
    /// All devices are in OP; `code` is the number of devices.
    BusUp = 1,
    /// The bus was shut down in order.
    BusDown = 2,
    /// The bus restarts; `code` counts the restarts.
    BusRestarted = 3,
    /// A device stopped responding.
    DeviceLost = 4,
    /// A lost device responds again and is being reconfigured.
    DeviceFound = 5,
    /// A lost device is in OP again; `code` is the time since it was lost, in µs.
    DeviceBack = 6,
    /// Another device is at the position of this one and was put into INIT: `new` is what differs (1
    /// vendor, 2 product, 3 revision, 4 serial number, 5 alias), `code` is the value of the other
    /// device.
    WrongDevice = 7,
    /// A device left its AL state: `old` and `new` are AL states, `code` is the AL status code.
    StateChanged = 8,
    /// A device sent an emergency: `code` is its error code, `new` its error register.
    Emergency = 9,
    /// The working counter is wrong: `old` is the expected one, `new` the received one.
    WorkingCounterOff = 10,
    /// The working counter is correct again; `code` is the number of cycles it was wrong.
    WorkingCounterBack = 11,
    /// A frame did not return before the next one was sent; `code` counts consecutive ones, until
    /// 100 cycles pass without one.
    FrameLost = 12,
    /// A frame returned after its cycle and was dropped; `code` counts consecutive ones.
    FrameLate = 13,
    /// An unknown or damaged frame was received; `code` counts consecutive ones.
    FrameUnknown = 14,
    /// The loop is synchronised with the reference clock.
    ClockLocked = 15,
    /// The loop, or a device, lost synchronisation with the reference clock; `code` is the
    /// difference in ns.
    ClockUnlocked = 16,
    /// A process owns the outputs now; `code` is its process id.
    OwnerTaken = 17,
    /// The owner released the outputs; `code` is its process id.
    OwnerLeft = 18,
    /// The owner died; outputs are at their safe values. `code` is its process id.
    OwnerDied = 19,
    /// The owner stopped refreshing its outputs; they are at their safe values. `code` is the
    /// number of cycles without a refresh.
    OutputsStale = 20,
    /// The library that configures devices panicked or failed; the bus restarts.
    LibraryFailed = 21,
    /// A device's inputs stopped changing although they usually change.
    Frozen = 22,
    /// A device refuses a state change on its way to OP: `new` is the requested AL state, `code`
    /// the AL status code.
    StateRefused = 23,
    /// A reader of the process image died while it held the lock; `code` is its process id.
    ReaderDied = 24,
    /// A device refuses the start-up value of an object while it is reconfigured: `old` is the
    /// index, `new` the subindex, `code` the abort code, or 0 when it did not respond.
    SdoRefused = 25,
    /// A process commands the joints now; `code` is its process id.
    CommanderTaken = 26,
    /// The commander released the joints; `code` is its process id.
    CommanderLeft = 27,
    /// The commander died; `code` is its process id.
    CommanderDied = 28,
    /// A device cannot be distinguished from identical ones, and they do not prove its position; it
    /// was put into INIT. `code` is the number of identical devices that are not in OP, itself
    /// included.
    PlaceInDoubt = 29,
    /// A device on the cable is not in the file; it is not configured. `new` is its position on the
    /// cable, `code` the number of devices on the cable.
    SurplusDevice = 30,
    /// A duplicate of a frame was received; `code` counts consecutive ones.
    FrameDuplicate = 31,
    /// Frames of another MainDevice were received on the interface; `code` is their number so far.
    ForeignFrames = 32,
    /// No reply has been received in time for ten cycles; `code` is the reason, see
    /// [`no_answer_words`].
    NoAnswer = 33,
    /// Replies are received again; `code` is the time without replies, in ms.
    AnswerBack = 34,
    /// The rung of the miss ladder changed, other than to safe stop: `old` and `new` are rungs (0
    /// run, 1 hold, 2 degrade, 3 safe stop), `code` is the number of misses in the bucket.
    RungChanged = 35,
    /// The robot makes a safe stop: `old` is the rung before, `new` the reason (1 misses, 2 a joint
    /// went down, 3 the commander is lost), `device` is the joint's drive, `code` the misses in the
    /// bucket, or the reason of [`EventKind::JointDown`].
    SafeStop = 36,
    /// The phase of the robot changed: `old` and `new` are phases (0 waiting, 1 enabling, 2
    /// running, 3 stopping, 4 disabling, 5 at rest).
    PhaseChanged = 37,
    /// A joint went down: `code` is the reason (1 fault, 2 left, 3 following, 4 not enabled), `new`
    /// its statusword.
    JointDown = 38,
    /// A joint that was down is enabled again.
    JointBack = 39,
    /// A goal was rejected because a value is not a number or is outside a travel range; `code`
    /// counts rejected goals.
    GoalRefused = 40,
    /// The latest goal is too old; joints hold their positions.
    GoalOld = 41,
    /// A current goal is available again.
    GoalBack = 42,
    /// A reset of the robot was carried out.
    ResetDone = 43,
    /// A reset was refused: `code` is the number of misses in the bucket, 0 when nothing needs a
    /// reset or the robot is not at rest yet.
    ResetRefused = 44,
    /// The commander sent no valid goal for too long without releasing the joints; a safe stop
    /// follows.
    CommanderLost = 45,
    /// An error counter of a device went up: `old` and `new` are the errors since the bus came up
    /// ([`ErrorCount::to_word`](super::link_errors::ErrorCount::to_word)), `code` is the counter's
    /// register address.
    LinkErrors = 46,
    /// A process held the lock of the process image for too long, and cycles are published without
    /// it; `code` is the time waited, in µs.
    LockTimeout = 47,
    /// Devices left OP together: `old` is their number, `code` the AL status code in its upper 16
    /// bits. If this loop paused for longer than their watchdog before, `new` is the watchdog and
    /// the lower 16 bits of `code` are the pause, both in ms; 0 otherwise.
    DevicesLeftOp = 48,
    /// Devices that left OP together are all in OP again: `old` is their number, `code` the time
    /// until then, in µs.
    DevicesBackInOp = 49,
    /// The ring of cables is open, and both interfaces reach a part of the devices: `old` and `new`
    /// are the positions on both sides of the cut, [`NO_DEVICE`] for an interface.
    RingCut = 50,
    /// The ring of cables is closed again; `code` is the time it was open, in ms.
    RingClosed = 51,
    /// This device is one of those that left OP together, which is one alarm
    /// ([`EventKind::DevicesLeftOp`]): `old` and `new` are AL states, `code` is the AL status code.
    LeftOpWithOthers = 52,
    /// A device answers and is in PREOP or above, but its mailbox does not reply to a request of
    /// another process: `old` is the index of the object, `new` the subindex.
    MailboxMute = 53,
}

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
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 53] = [
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
        Self::LinkErrors,
        Self::LockTimeout,
        Self::DevicesLeftOp,
        Self::DevicesBackInOp,
        Self::RingCut,
        Self::RingClosed,
        Self::LeftOpWithOthers,
        Self::MailboxMute,
    ];

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

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C)]
pub struct Event {
    /// Time on `CLOCK_MONOTONIC`, in ns.
    pub at_ns: u64,
    /// Cycle of the bus in which it happened.
    pub cycle: u64,
    /// Kind of the event.
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
    /// Returns whether the event reports a problem. Other events report a requested change or the
    /// end of a problem.
    #[must_use]
    pub const fn is_alarm(&self) -> bool {
        match self.kind {
            EventKind::RungChanged => self.new > self.old,
            // Bit 4 of AL status is the error indication.
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
            | EventKind::DevicesBackInOp
            | EventKind::RingClosed
            | EventKind::LeftOpWithOthers
            | EventKind::ResetDone => false,
            _ => true,
        }
    }
}
