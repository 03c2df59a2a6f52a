//! Contents of an EEPROM other than names and objects.

use crate::setup::Sync0;

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
    /// Its pulses, of which its activation may have none: see [`DcMode::sync0`].
    pub pulses: Sync0,
    /// Line of the first PDO that the mode assigns otherwise than by default, as those with
    /// oversampling do.
    pub pdo_line: Option<u32>,
    /// Line of a shift of SYNC0 that is relative to the inputs, which `pulses` does not have.
    pub shift_line: Option<u32>,
    /// Line of its first synchronization type (0x1C32:1, 0x1C33:1), which is not written.
    pub sync_type_line: Option<u32>,
}

impl DcMode {
    /// Returns SYNC0 and SYNC1 as this mode wants them; `None` for a mode without pulses.
    #[must_use]
    pub fn sync0(&self) -> Option<Sync0> {
        const PULSES: u16 = 0x0200 | Sync0::WITH_SYNC1;
        (self.pulses.activation & PULSES != 0).then_some(self.pulses)
    }
}
