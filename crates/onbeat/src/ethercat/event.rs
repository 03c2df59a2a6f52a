//! What happens on a bus, in records of fixed size: the hot side writes them, anybody reads them later.

use serde::{Deserialize, Serialize};

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
    /// A frame did not come back before the next one left; `code` counts those in a row.
    FrameLost = 12,
    /// A frame came back after its deadline and was dropped.
    FrameLate = 13,
    /// A frame came back that was not sent, or not as it was sent.
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
}

impl EventKind {
    /// All kinds, in the order of their numbers, which begin with 1.
    pub const ALL: [Self; 30] = [
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
    ];

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
