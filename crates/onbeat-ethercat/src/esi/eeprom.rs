//! Contents of an EEPROM other than names and objects.

use crate::setup::{Sync0, Sync1};

/// Default size of the EEPROM, in bytes.
pub const EEPROM_BYTES: usize = 2048;
/// Default configuration area, without alias and checksum: SPI microcontroller, pulse length 10 µs.
pub const DEFAULT_CONFIGURATION: [u8; 14] =
    [0x05, 0x0c, 0x03, 0x44, 0xe8, 0x03, 0, 0, 0, 0, 0, 0, 0, 0];

/// Settings of one SyncManager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncManagerEntry {
    /// Physical start address.
    pub start: u16,
    /// Length in bytes.
    pub length: u16,
    /// Control register.
    pub control: u8,
    /// 1 mailbox out (to the device), 2 mailbox in, 3 process data outputs, 4 process data inputs,
    /// 0 unused or unknown.
    pub usage: u8,
    /// Whether it is enabled; in a description, whether it can be although its default length is
    /// 0, because a PDO can be assigned to it.
    pub enabled: bool,
}

/// An operation mode of distributed clocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DcMode {
    pub name: String,
    pub description: String,
    /// AssignActivate: value of register 0x0980.
    pub activate: u16,
    /// Cycle time of SYNC0 in ns; 0: the cycle of the MainDevice.
    pub cycle_ns: u32,
    /// Shift time of SYNC0 in ns.
    pub shift_ns: i32,
    /// Cycle of SYNC0 as a multiple of the cycle of the MainDevice, if `cycle_ns` is 0: negative
    /// for a part of it; 0 as 1.
    pub cycle_factor: i32,
    /// Cycle time of SYNC1 in ns.
    pub sync1_ns: u32,
    /// Cycle of SYNC1 as a multiple of that of SYNC0, if `sync1_ns` is 0; negative for a part of the
    /// cycle of the MainDevice; 0: none.
    pub sync1_factor: i32,
    /// Shift time of SYNC1 after SYNC0, in ns.
    pub sync1_shift_ns: i32,
    /// Line of the first PDO that the mode assigns, as those with oversampling do.
    pub pdo_line: Option<u32>,
}

impl DcMode {
    /// Returns SYNC0 and SYNC1 as this mode wants them; `None` for a mode without pulses.
    #[must_use]
    pub fn sync0(&self) -> Option<Sync0> {
        const PULSES: u16 = 0x0200 | Sync0::WITH_SYNC1;
        (self.activate & PULSES != 0).then_some(Sync0 {
            period_ns: (self.cycle_ns > 0).then_some(self.cycle_ns),
            factor: self.cycle_factor,
            activation: self.activate,
            sync1: self.sync1(),
            shift_ns: Some(self.shift_ns.into()),
        })
    }

    /// Returns SYNC1 as this mode wants it.
    #[must_use]
    pub fn sync1(&self) -> Sync1 {
        Sync1 {
            period_ns: self.sync1_ns,
            factor: self.sync1_factor,
            shift_ns: self.sync1_shift_ns.into(),
        }
    }
}
