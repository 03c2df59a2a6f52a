//! Registers that a loop reads from all devices in each cycle, without going through the register
//! tables.

use super::Esc;
use crate::registers::{AL_STATUS, CHANNELS, SYNC_MANAGER, TIME_DIFFERENCE};

/// A register with a fast path for broadcast reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CyclicRegister {
    /// AL status.
    State,
    /// System time difference.
    Difference,
    /// Status of a SyncManager.
    Channel(usize),
}

impl CyclicRegister {
    /// Returns the register that a datagram with this offset and length reads; `None` for other
    /// reads.
    pub(crate) fn from_datagram(offset: u16, bytes: usize) -> Option<Self> {
        const STATUS: usize = 5;
        match (usize::from(offset), bytes) {
            (AL_STATUS, 2) => Some(Self::State),
            (TIME_DIFFERENCE, 4) => Some(Self::Difference),
            (at, 1) => {
                let channel = at.checked_sub(SYNC_MANAGER + STATUS)?;
                (channel % 8 == 0 && channel / 8 < CHANNELS).then_some(Self::Channel(channel / 8))
            }
            _ => None,
        }
    }
}

impl Esc {
    /// Returns the value of a register; `None` when the device does not have it.
    #[inline]
    pub(crate) fn read_cyclic_register(&self, register: CyclicRegister) -> Option<u32> {
        match register {
            CyclicRegister::State => Some(u32::from(self.al_status)),
            CyclicRegister::Difference => self.has_clock.then(|| self.clock.difference()),
            CyclicRegister::Channel(channel) => {
                self.sync_managers.get(channel).map(|channel| u32::from(channel.status()))
            }
        }
    }

    /// Handles a write of all eight bytes of the system time. Returns whether the device has a
    /// clock.
    #[inline]
    pub(crate) fn receive_system_time(&mut self, reference_ns: u64, now_ns: u64) -> bool {
        if self.has_clock {
            self.clock.follow(reference_ns, now_ns);
        }
        self.has_clock
    }

    /// Returns the device's increment of a working counter, with its fault offset.
    #[inline]
    pub(crate) fn counted(&self, increment: u16) -> u16 {
        if increment == 0 { 0 } else { increment.saturating_add_signed(self.counter_offset) }
    }
}
