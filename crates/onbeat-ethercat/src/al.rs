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
