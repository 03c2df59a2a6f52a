//! Settings of a drive, and its modes of operation (CiA 402).

use super::motor::MotorSettings;

/// Modes of operation (object 0x6060).
pub(crate) mod mode {
    pub(crate) const PP: i8 = 1;
    pub(crate) const PV: i8 = 3;
    pub(crate) const PT: i8 = 4;
    pub(crate) const HM: i8 = 6;
    pub(crate) const CSP: i8 = 8;
    pub(crate) const CSV: i8 = 9;
    pub(crate) const CST: i8 = 10;
    /// Object 0x6502: the modes above, as bits.
    pub(crate) const SUPPORTED: u32 = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9;

    pub(crate) fn is_supported(mode: i8) -> bool {
        (1..=32).contains(&mode) && SUPPORTED >> (mode - 1) & 1 != 0
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct DriveSettings {
    pub(crate) motor: MotorSettings,
    /// Mode of operation after power-on.
    pub(crate) mode: i8,
    /// Following error window, in increments.
    pub(crate) following_window: u32,
    /// Lower and upper end of the travel, in increments; equal for no limit.
    pub(crate) travel: [i32; 2],
    /// Maximum velocity, in increments per second.
    pub(crate) most_velocity: u32,
    /// Maximum torque, in thousandths of the rated torque.
    pub(crate) most_torque: u16,
}
