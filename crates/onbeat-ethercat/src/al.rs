//! AL states: how far a SubDevice is on its way to process data (ETG.1000.6).

/// Nothing works but registers.
pub const INIT: u8 = 1;
/// The mailbox works.
pub const PREOP: u8 = 2;
/// The firmware can be replaced.
pub const BOOT: u8 = 3;
/// Inputs are valid, outputs are safe.
pub const SAFEOP: u8 = 4;
/// Inputs and outputs are valid.
pub const OP: u8 = 8;

/// The state among the bits of a status or request.
pub const STATE: u8 = 0x0f;
/// An error in the status, its acknowledgement in the request.
pub const ERROR: u8 = 0x10;

/// The standard's name of a state; `None` for numbers that a status does not have in a cycle, BOOT among them.
#[must_use]
pub fn name(state: u16) -> Option<&'static str> {
    let known = [(INIT, "INIT"), (PREOP, "PREOP"), (SAFEOP, "SAFEOP"), (OP, "OP")];
    known.into_iter().find(|(number, _)| u16::from(*number) == state).map(|(_, name)| name)
}
