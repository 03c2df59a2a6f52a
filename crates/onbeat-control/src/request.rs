//! What other processes ask of a bus: objects and registers of devices, and a new look at the cable.

use super::abi::REQUEST_BYTES;
use super::error::ControlError;

/// Maximum number of register bytes in a request: they travel in one datagram beside others.
pub const REGISTER_BYTES: usize = 512;
/// First address after the registers of a device: process memory, where its mailboxes and outputs
/// are.
const REGISTERS_END: usize = 0x1000;

/// Read or write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SdoAction {
    /// Read.
    Read,
    /// Write these bytes, at most 1024.
    Write(Vec<u8>),
}

/// A requested transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SdoRequest {
    /// Position of the device on the cable.
    pub device: u16,
    /// Index of the object, such as 0x6041.
    pub index: u16,
    /// Subindex.
    pub entry: u8,
    /// Complete access: all subindices at once.
    pub complete: bool,
    /// Read or write.
    pub action: SdoAction,
}

/// Operation on registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegisterAction {
    /// Read this number of bytes, 1 to [`REGISTER_BYTES`].
    Read(usize),
    /// Write these bytes, 1 to [`REGISTER_BYTES`].
    Write(Vec<u8>),
}

/// A requested access to registers of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterRequest {
    /// Position of the device on the cable.
    pub device: u16,
    /// Address of the first register, such as 0x0300.
    pub address: u16,
    /// Read or write.
    pub action: RegisterAction,
}

impl RegisterRequest {
    /// Returns the number of bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match &self.action {
            RegisterAction::Read(bytes) => *bytes,
            RegisterAction::Write(bytes) => bytes.len(),
        }
    }
}

/// Any request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BusRequest {
    /// Transfer of an object.
    Sdo(SdoRequest),
    /// Access to registers.
    Register(RegisterRequest),
    /// Read the station addresses by position, and try rejected devices again at once.
    Rescan,
}

impl From<SdoRequest> for BusRequest {
    fn from(request: SdoRequest) -> Self {
        Self::Sdo(request)
    }
}

impl From<&SdoRequest> for BusRequest {
    fn from(request: &SdoRequest) -> Self {
        Self::Sdo(request.clone())
    }
}

impl From<RegisterRequest> for BusRequest {
    fn from(request: RegisterRequest) -> Self {
        Self::Register(request)
    }
}

impl BusRequest {
    /// Returns the position of the device; `None` if the request is for the whole bus.
    #[must_use]
    pub fn device(&self) -> Option<u16> {
        match self {
            Self::Sdo(request) => Some(request.device),
            Self::Register(request) => Some(request.device),
            Self::Rescan => None,
        }
    }

    /// Returns the bytes to write.
    pub(super) fn data(&self) -> &[u8] {
        match self {
            Self::Sdo(SdoRequest { action: SdoAction::Write(bytes), .. })
            | Self::Register(RegisterRequest { action: RegisterAction::Write(bytes), .. }) => bytes,
            _ => &[],
        }
    }

    /// Checks that it fits into a request record, on a bus with this number of devices.
    pub(super) fn check(&self, name: &str, devices: usize) -> Result<(), ControlError> {
        let bytes = self.data().len();
        if bytes > REQUEST_BYTES {
            return Err(ControlError::SdoTooLong { bytes, most: REQUEST_BYTES });
        }

        if let Self::Register(request) = self {
            let bytes = request.bytes();
            let end = usize::from(request.address) + bytes;
            if !(1..=REGISTER_BYTES).contains(&bytes) || end > REGISTERS_END {
                return Err(ControlError::RegisterRange {
                    address: request.address,
                    bytes,
                    most: REGISTER_BYTES,
                });
            }
        }

        match self.device() {
            Some(device) if usize::from(device) >= devices => {
                Err(ControlError::NoDevice { name: name.to_owned(), device, devices })
            }
            _ => Ok(()),
        }
    }
}

/// What a rescan found at a position of the cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CablePosition {
    /// The expected device with this number.
    Device(u16),
    /// A device that is not of this bus, or not identified yet.
    Unknown,
    /// Nothing answered.
    NoAnswer,
}

impl CablePosition {
    const NO_ANSWER: u16 = 0xffff;
    const UNKNOWN: u16 = 0xfffe;

    /// Encodes the position as two bytes of an answer.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 2] {
        let number = match self {
            Self::Device(device) => device,
            Self::Unknown => Self::UNKNOWN,
            Self::NoAnswer => Self::NO_ANSWER,
        };
        number.to_le_bytes()
    }

    /// Decodes an answer of [`BusRequest::Rescan`].
    pub(super) fn from_answer(bytes: &[u8]) -> Vec<Self> {
        let positions = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        let position = |number| match number {
            Self::NO_ANSWER => Self::NoAnswer,
            Self::UNKNOWN => Self::Unknown,
            device => Self::Device(device),
        };
        positions.map(position).collect()
    }
}

/// Reasons why a request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestFailure {
    /// The device refused the transfer.
    #[error("the device refused with abort code 0x{0:08x}{words}", words = abort_words(*.0))]
    Abort(u32),
    /// The device has no mailbox, or is in INIT.
    #[error("the device has no mailbox in its present state")]
    NoMailbox,
    /// The device did not answer in time.
    #[error("the device did not answer in time")]
    NoReply,
    /// The bus does not support this transfer.
    #[error("the bus does not support this transfer")]
    NotPossible,
    /// The answer is longer than a request record.
    #[error("the value is longer than {REQUEST_BYTES} bytes")]
    TooLong,
    /// The bus process sets this register, or this object of the mapping, itself.
    #[error(
        "the bus process sets it itself; all objects but the mapping can be written, and of registers error and watchdog counters, PHY \
         management and user memory (docs/control.md)"
    )]
    KeptByBus,
    /// A register is written only while the device is in OP: its identity is certain then.
    #[error("the device is not in OP, and registers are written only in OP")]
    NotInOp,
}

/// Result of a request: the bytes read, empty after a write.
pub type RequestAnswer = Result<Vec<u8>, RequestFailure>;

/// Meaning of the abort codes of the standard (ETG.1000.6, 5.6.2.7.2, and ETG.1020).
fn abort_words(code: u32) -> &'static str {
    match code {
        0x0503_0000 => ": toggle bit not alternated",
        0x0504_0000 => ": timeout of the transfer",
        0x0504_0001 => ": unknown command",
        0x0504_0005 => ": out of memory",
        0x0601_0000 => ": unsupported access",
        0x0601_0001 => ": write-only object",
        0x0601_0002 => ": read-only object",
        0x0601_0003 => ": entry 0 must be set to 0 first",
        0x0601_0004 => ": no complete access to this object",
        0x0601_0005 => ": object longer than the mailbox",
        0x0601_0006 => ": object is mapped to the outputs",
        0x0602_0000 => ": object does not exist",
        0x0604_0041 => ": object cannot be mapped",
        0x0604_0042 => ": mapped objects exceed the PDO",
        0x0604_0043 => ": incompatible parameters",
        0x0604_0047 => ": internal incompatibility",
        0x0606_0000 => ": hardware error",
        0x0607_0010 | 0x0607_0012 | 0x0607_0013 => ": wrong length",
        0x0609_0011 => ": subindex does not exist",
        0x0609_0030..=0x0609_0032 => ": value out of range",
        0x0609_0036 => ": maximum below minimum",
        0x0800_0000 => ": general error",
        0x0800_0020 => ": cannot be transferred or stored",
        0x0800_0021 => ": cannot be transferred or stored: local control",
        0x0800_0022 => ": not possible in the present state",
        0x0800_0023 => ": no object dictionary",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abort_code_is_explained_as_the_standard_does() {
        for (code, words) in [
            (0x0601_0006, "0x06010006: object is mapped to the outputs"),
            (0x0800_0020, "0x08000020: cannot be transferred or stored"),
            (0x0800_0022, "0x08000022: not possible in the present state"),
            (0x1234_5678, "0x12345678"),
        ] {
            let said = RequestFailure::Abort(code).to_string();
            assert_eq!(said, format!("the device refused with abort code {words}"));
        }
    }
}
