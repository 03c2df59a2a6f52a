//! Condition of the cable: link, answering devices, AL states, working counter.

use onbeat_ethercat::step::BusCycle;

/// Link of the network interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CableLink {
    /// Not known: no cycle yet, or none lately.
    #[default]
    Unknown,
    /// The interface is up and has a link.
    Up,
    /// The interface is gone, down, or has no link.
    Down,
}

impl CableLink {
    const ALL: [Self; 3] = [Self::Unknown, Self::Up, Self::Down];

    pub(super) fn from_number(number: u32) -> Self {
        Self::ALL.get(number as usize).copied().unwrap_or_default()
    }
}

/// How much of the process data was exchanged in a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkingCounterState {
    /// No device exchanged its process data.
    Zero,
    /// Some did.
    Incomplete,
    /// All did, and all inputs are new.
    Complete,
}

impl WorkingCounterState {
    /// Returns the state of a cycle.
    #[must_use]
    pub fn from_cycle(cycle: &BusCycle) -> Self {
        match cycle {
            BusCycle { fresh: true, .. } => Self::Complete,
            BusCycle { working_counter: 0, .. } => Self::Zero,
            _ => Self::Incomplete,
        }
    }
}

/// The AL states in which at least one device is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlStates(u8);

impl AlStates {
    pub(super) fn from_devices(states: impl Iterator<Item = u16>) -> Self {
        Self(states.fold(0, |all, state| all | state as u8 & 0x0f))
    }

    /// Returns whether a device is in this state: 1 INIT, 2 PREOP, 4 SAFEOP, 8 OP.
    #[must_use]
    pub const fn contains(self, state: u8) -> bool {
        self.0 & state != 0
    }

    /// Returns the states as bits, as in `contains`; 0 while no device answers.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }
}
