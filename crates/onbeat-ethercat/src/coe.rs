//! CANopen over EtherCAT (CoE): messages, data types, access rights, and SDO abort codes.
//!
//! Sources: ETG.1000.6 (mailbox, SDO, SDO information), ETG.1020, and CiA 301 for abort codes.

/// Type of CoE mails in the mailbox header.
pub const MAIL: u8 = 3;

/// Types of CoE messages, in the upper four bits of the CoE header.
pub mod message {
    /// Sent by a device unasked.
    pub const EMERGENCY: u16 = 1;
    /// Request of an SDO transfer, and the abort of one.
    pub const SDO_REQUEST: u16 = 2;
    /// Response of an SDO transfer.
    pub const SDO_RESPONSE: u16 = 3;
    /// Request and response of SDO information.
    pub const SDO_INFORMATION: u16 = 8;
}

/// Data types of ETG.1020 that simulated devices use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataType {
    /// One bit.
    Bool,
    /// Signed, 8 bits.
    I8,
    /// Signed, 16 bits.
    I16,
    /// Signed, 32 bits.
    I32,
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Floating, 32 bits.
    F32,
    /// Visible characters, with their number of bytes.
    Text(u16),
    /// Any other type, by its number and length.
    Other {
        /// Number of the type.
        number: u16,
        /// Length in bits.
        bits: u16,
    },
}

impl DataType {
    /// Returns the number of the type.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            Self::Bool => 0x0001,
            Self::I8 => 0x0002,
            Self::I16 => 0x0003,
            Self::I32 => 0x0004,
            Self::U8 => 0x0005,
            Self::U16 => 0x0006,
            Self::U32 => 0x0007,
            Self::F32 => 0x0008,
            Self::Text(_) => 0x0009,
            Self::Other { number, .. } => number,
        }
    }

    /// Returns the length in bits.
    #[must_use]
    pub fn bits(self) -> u16 {
        match self {
            Self::Bool => 1,
            Self::I8 | Self::U8 => 8,
            Self::I16 | Self::U16 => 16,
            Self::I32 | Self::U32 | Self::F32 => 32,
            Self::Text(bytes) => 8 * bytes,
            Self::Other { bits, .. } => bits,
        }
    }

    /// Returns the length in bytes, rounded up.
    #[must_use]
    pub fn bytes(self) -> usize {
        usize::from(self.bits().div_ceil(8))
    }
}

/// Access rights, as the bits of SDO information.
pub mod access {
    /// Readable in PREOP, SAFEOP and OP.
    pub const READ: u16 = 0x0007;
    /// Writable in PREOP, SAFEOP and OP.
    pub const WRITE: u16 = 0x0038;
    /// Writable in PREOP only.
    pub const WRITE_PREOP: u16 = 0x0008;
    /// Readable and writable.
    pub const BOTH: u16 = READ | WRITE;
    /// May be part of the outputs.
    pub const OUTPUT: u16 = 0x0040;
    /// May be part of the inputs.
    pub const INPUT: u16 = 0x0080;
}

/// CoE details: what a device supports, in its EEPROM (ETG.2010, category General). 0: the device
/// has no CoE.
pub mod details {
    /// SDO transfers.
    pub const SDO: u8 = 0x01;
    /// SDO information.
    pub const INFORMATION: u8 = 0x02;
    /// The PDO assignment can be changed.
    pub const PDO_ASSIGN: u8 = 0x04;
    /// The PDO mapping can be changed.
    pub const PDO_CONFIGURATION: u8 = 0x08;
    /// Complete access: all entries of an object in one transfer.
    pub const COMPLETE_ACCESS: u8 = 0x20;
    /// Everything that is simulated.
    pub const ALL: u8 = SDO | INFORMATION | PDO_ASSIGN | PDO_CONFIGURATION | COMPLETE_ACCESS;
}

/// SDO abort codes (CiA 301).
pub mod abort {
    /// The toggle bit did not alternate.
    pub const TOGGLE: u32 = 0x0503_0000;
    /// Unknown command.
    pub const COMMAND: u32 = 0x0504_0001;
    /// Access that is not supported.
    pub const UNSUPPORTED_ACCESS: u32 = 0x0601_0000;
    /// Read of a write-only object.
    pub const WRITE_ONLY: u32 = 0x0601_0001;
    /// Write to a read-only object.
    pub const READ_ONLY: u32 = 0x0601_0002;
    /// Entry 0 must be set to 0 before.
    pub const NOT_CLEARED: u32 = 0x0601_0003;
    /// The object does not exist.
    pub const NO_OBJECT: u32 = 0x0602_0000;
    /// The object cannot be mapped.
    pub const NOT_MAPPABLE: u32 = 0x0604_0041;
    /// The mapped objects exceed the length of the PDO.
    pub const TOO_MUCH_MAPPED: u32 = 0x0604_0042;
    /// Wrong length.
    pub const LENGTH: u32 = 0x0607_0010;
    pub const TOO_LONG: u32 = 0x0607_0012;
    /// The entry does not exist.
    pub const NO_ENTRY: u32 = 0x0609_0011;
    /// Value out of range.
    pub const VALUE_RANGE: u32 = 0x0609_0030;
    /// General error.
    pub const GENERAL: u32 = 0x0800_0000;
    /// Not possible in the current state of the device.
    pub const STATE: u32 = 0x0800_0022;
}
