//! AL states: the application layer state machine of a SubDevice (ETG.1000.6).

/// Only registers are accessible.
pub const INIT: u8 = 1;
/// The mailbox is active.
pub const PREOP: u8 = 2;
/// BOOT: firmware can be downloaded.
pub const BOOT: u8 = 3;
/// Inputs are valid, outputs are safe.
pub const SAFEOP: u8 = 4;
/// Inputs and outputs are valid.
pub const OP: u8 = 8;

/// Mask of the state in AL status and AL control.
pub const STATE: u8 = 0x0f;
/// Error indication in AL status, its acknowledgement in AL control.
pub const ERROR: u8 = 0x10;
/// Request for the explicit device ID in AL control; in AL status, register 0x0134 holds it.
pub const DEVICE_ID: u8 = 0x20;

/// Returns the standard's name of the state in an AL status of one device, BOOT too.
///
/// ```
/// assert_eq!(onbeat_ethercat::al::state_name(0x13), Some("BOOT"));
/// assert_eq!(onbeat_ethercat::al::state_name(5), None);
/// ```
#[must_use]
pub fn state_name(status: u8) -> Option<&'static str> {
    match status & STATE {
        BOOT => Some("BOOT"),
        state => name(state.into()),
    }
}

/// Returns the standard's name of a state; `None` for numbers that are not a single state, and for
/// BOOT: of several devices by OR, 3 is INIT and PREOP.
///
/// ```
/// assert_eq!(onbeat_ethercat::al::name(8), Some("OP"));
/// assert_eq!(onbeat_ethercat::al::name(5), None);
/// ```
#[must_use]
pub fn name(state: u16) -> Option<&'static str> {
    let known = [(INIT, "INIT"), (PREOP, "PREOP"), (SAFEOP, "SAFEOP"), (OP, "OP")];
    known.into_iter().find(|(number, _)| u16::from(*number) == state).map(|(_, name)| name)
}
