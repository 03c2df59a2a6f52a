//! A device: its controller, its firmware, its power.

use super::esc::Esc;
use super::firmware::Firmware;

/// One SubDevice of the segment.
///
/// Five cache lines. With eight, the same lines of all devices would compete for an eighth of the
/// L1 cache.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct SubDevice {
    pub(crate) esc: Esc,
    /// Boxed, because frames do not use it.
    pub(crate) firmware: Box<Firmware>,
    pub(crate) name: Box<str>,
    pub(crate) powered: bool,
}

const _: () = assert!(size_of::<SubDevice>() == 5 * 64);

impl SubDevice {
    /// Runs what is due. Returns the time at which the device must run next, in ns.
    pub(crate) fn run(&mut self, now_ns: u64) -> u64 {
        if self.powered { self.firmware.run(&mut self.esc, now_ns) } else { u64::MAX }
    }
}
