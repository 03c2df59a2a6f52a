//! CANopen over EtherCAT: the objects of a device, and the server that MainDevices reach them by.
//!
//! Sources: ETG.1000.6 (mailbox, SDO, SDO information), ETG.1020, and CiA 301 for abort codes.

mod dictionary;
mod information;
mod server;

pub(crate) use dictionary::{Dictionary, Entry, Kind, Slot, access};
pub(crate) use server::{Answer, Server};

/// What a device can do with CoE, as its EEPROM tells (ETG.2010, category General). Without any of these it has none.
pub(crate) mod details {
    pub(crate) const SDO: u8 = 0x01;
    pub(crate) const INFORMATION: u8 = 0x02;
    pub(crate) const PDO_ASSIGN: u8 = 0x04;
    pub(crate) const PDO_CONFIGURATION: u8 = 0x08;
    pub(crate) const COMPLETE_ACCESS: u8 = 0x20;
    /// All that is simulated.
    pub(crate) const ALL: u8 = SDO | INFORMATION | PDO_ASSIGN | PDO_CONFIGURATION | COMPLETE_ACCESS;
}

/// Why an SDO transfer was refused: the abort codes of CiA 301.
pub(crate) mod abort {
    pub(crate) const TOGGLE: u32 = 0x0503_0000;
    pub(crate) const COMMAND: u32 = 0x0504_0001;
    pub(crate) const UNSUPPORTED_ACCESS: u32 = 0x0601_0000;
    pub(crate) const WRITE_ONLY: u32 = 0x0601_0001;
    pub(crate) const READ_ONLY: u32 = 0x0601_0002;
    pub(crate) const NO_OBJECT: u32 = 0x0602_0000;
    pub(crate) const NOT_MAPPABLE: u32 = 0x0604_0041;
    pub(crate) const LENGTH: u32 = 0x0607_0010;
    pub(crate) const TOO_LONG: u32 = 0x0607_0012;
    pub(crate) const NO_ENTRY: u32 = 0x0609_0011;
    pub(crate) const VALUE_RANGE: u32 = 0x0609_0030;
    pub(crate) const GENERAL: u32 = 0x0800_0000;
    pub(crate) const STATE: u32 = 0x0800_0022;
}
