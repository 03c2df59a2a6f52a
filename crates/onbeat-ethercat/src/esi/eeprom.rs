//! What an EEPROM holds besides names and objects.

/// Bytes of the usual chip.
pub const EEPROM_BYTES: usize = 2048;
/// First bytes of an EEPROM where the file has none: a microcontroller with SPI; pulse length 10 µs.
pub const USUAL_CONFIGURATION: [u8; 14] = [0x05, 0x0c, 0x03, 0x44, 0xe8, 0x03, 0, 0, 0, 0, 0, 0, 0, 0];

/// One SyncManager as the EEPROM lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// First byte of its memory.
    pub start: u16,
    /// Its bytes.
    pub length: u16,
    /// Its control byte.
    pub control: u8,
    /// 1 and 2: mailbox to and from the device; 3 and 4: outputs and inputs.
    pub usage: u8,
}

/// A mode of distributed clocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClockMode {
    /// Its name.
    pub name: String,
    /// What it is, in words.
    pub description: String,
    /// The word for the register that switches the pulses on.
    pub activate: u16,
    /// Period of SYNC0 in ns; 0 follows the MainDevice's cycle.
    pub cycle_ns: u32,
    /// Shift of SYNC0 in ns.
    pub shift_ns: i32,
}
