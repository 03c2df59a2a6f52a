//! What a loop reads from all devices in each of its cycles, without the way through the register tables.

use super::Controller;
use crate::registers::{AL_STATUS, CHANNELS, SYNC_MANAGER, TIME_DIFFERENCE};

/// A register, or one byte of several, that is read as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    /// AL status.
    State,
    /// Difference of the system time.
    Difference,
    /// Status of a SyncManager.
    Channel(usize),
}

impl Watched {
    /// What a datagram with this offset and so many bytes reads; `None` when that is anything else.
    pub(crate) fn of(offset: u16, bytes: usize) -> Option<Self> {
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

impl Controller {
    /// The value of what is watched; `None` when the device does not have it.
    #[inline]
    pub(crate) fn watched(&self, what: Watched) -> Option<u32> {
        match what {
            Watched::State => Some(u32::from(self.al_status)),
            Watched::Difference => self.has_clock.then(|| self.clock.difference()),
            Watched::Channel(channel) => self.sync_managers.get(channel).map(|channel| u32::from(channel.status())),
        }
    }

    /// A write of all eight bytes of the system time.
    #[inline]
    pub(crate) fn hear_time(&mut self, reference_ns: u64, now_ns: u64) -> bool {
        if self.has_clock {
            self.clock.follow(reference_ns, now_ns);
        }
        self.has_clock
    }

    /// The device's part of a working counter, as its faults let it be.
    #[inline]
    pub(crate) fn counted(&self, part: u16) -> u16 {
        if part == 0 { 0 } else { part.saturating_add_signed(self.counter_offset) }
    }
}
