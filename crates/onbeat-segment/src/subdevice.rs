//! A device: its controller, its firmware, its power.

use super::controller::Controller;
use super::firmware::Firmware;

/// One SubDevice of the segment.
///
/// Five lines of the cache. With eight, the same lines of all devices would compete for an eighth of the first cache.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct SubDevice {
    pub(crate) controller: Controller,
    /// Apart, because frames pass without it.
    pub(crate) firmware: Box<Firmware>,
    pub(crate) name: Box<str>,
    pub(crate) powered: bool,
}

const _: () = assert!(size_of::<SubDevice>() == 5 * 64);

impl SubDevice {
    /// Does what is due; the instant of the next thing to do.
    pub(crate) fn run(&mut self, now_ns: u64) -> u64 {
        if self.powered { self.firmware.run(&mut self.controller, now_ns) } else { u64::MAX }
    }
}
