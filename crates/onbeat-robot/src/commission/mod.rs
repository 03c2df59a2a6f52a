//! Commissioning: one device after the other, addressed by its position, without process data and
//! without a loop.
//!
//! ```text
//! Line       registers of a device at a position, one frame at a time
//!  ├ sii      its EEPROM, read and written word by word
//!  ├ state    INIT, PREOP and BOOT, with the mailboxes that its EEPROM describes
//!  └ mail     ├ sdo          objects, and the dictionary by SDO information
//!             └ foe          files
//! ```
//!
//! Station addresses are never written, so a bus that starts afterwards finds them as they were.
//! Absent on purpose: SAFEOP and OP, which need process data ([`crate::bus`]).

mod error;
mod foe;
mod information;
mod line;
mod mail;
mod sdo;
mod sii;
mod state;

pub use error::CommissionError;
pub use foe::FILE_BYTES;
pub use information::{EntryDescription, ObjectDescription};
pub use line::{DeviceRegisters, Line};
pub use sii::{alias_of, with_alias};
