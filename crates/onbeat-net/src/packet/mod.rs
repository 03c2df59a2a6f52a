//! The wire format, version 1: a header of 56 bytes, then a body by kind.
//!
//! `include/onbeat_net.h` specifies it to the byte, also for firmware. All
//! numbers are little-endian. [`decode`] takes any bytes; a device changes a request into its
//! answer in place ([`WireHeader::write`]), so that bytes of an echo that it does not know come back
//! unchanged.
//!
//! Absent on purpose: sockets, and trust: what a packet says of itself decides nothing but its
//! place in an account.

mod bodies;
mod edge;
mod fields;

use std::fmt;

use onbeat_record::run_dir::RUN_FILE_ENDING;

pub use self::bodies::{ActuatorCommand, ActuatorFeedback, ActuatorMode, IoCommand, IoFeedback};
pub use self::edge::{EdgeCommand, EdgeReport};
use self::fields::{Fields, Writing};

/// The port of the first device.
pub const PORT: u16 = 7470;
pub const HEADER_BYTES: usize = 56;
/// Largest message: what one Ethernet frame carries over IPv4.
pub const MOST_BYTES: usize = 1472;
/// The first four bytes of every message.
pub const MAGIC: [u8; 4] = *b"ONBT";
/// The version described here.
pub const VERSION: u8 = 1;

/// What a message is. An answer has the number after that of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PacketKind {
    /// To be returned, with any bytes behind the header.
    EchoRequest = 1,
    /// The answer to it, with the same bytes.
    EchoAnswer = 2,
    /// A set-point for an actuator.
    ActuatorCommand = 3,
    /// What an actuator measures.
    ActuatorFeedback = 4,
    /// Outputs of an I/O board.
    IoCommand = 5,
    /// Inputs of an I/O board.
    IoFeedback = 6,
    /// An edge at another board, for which an output is written.
    EdgeCommand = 7,
    /// When it was written.
    EdgeReport = 8,
}

impl PacketKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::EchoRequest,
        Self::EchoAnswer,
        Self::ActuatorCommand,
        Self::ActuatorFeedback,
        Self::IoCommand,
        Self::IoFeedback,
        Self::EdgeCommand,
        Self::EdgeReport,
    ];

    /// Returns the kind of a number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Returns the kind of the answer; `None` for an answer.
    #[must_use]
    pub fn answer(self) -> Option<Self> {
        let number = self as u8;
        if number % 2 == 1 { Self::from_number(number + 1) } else { None }
    }

    /// Returns the bytes of its body; `None` where any number is valid.
    #[must_use]
    pub const fn body_bytes(self) -> Option<usize> {
        match self {
            Self::EchoRequest | Self::EchoAnswer => None,
            Self::ActuatorCommand => Some(32),
            Self::ActuatorFeedback => Some(144),
            Self::IoCommand | Self::EdgeReport => Some(48),
            Self::IoFeedback => Some(192),
            Self::EdgeCommand => Some(24),
        }
    }
}

/// Why bytes are not a message, nor a datagram of a run's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// They end within the header.
    #[error("{bytes} bytes, a header has {header}")]
    Short {
        /// Number of bytes.
        bytes: usize,
        /// Bytes of a header.
        header: usize,
    },
    /// They do not begin as they have to.
    #[error("begins with {found:02x?}, not with {}", .wanted.escape_ascii())]
    Magic { found: [u8; 4], wanted: [u8; 4] },
    /// They are of another version.
    #[error("version {found}, this program reads version {wanted}")]
    Version { found: u8, wanted: u8 },
    /// The kind has no meaning.
    #[error("kind {found} is not defined")]
    UnknownKind {
        /// As stated.
        found: u8,
    },
    /// The stated length is not that of the datagram.
    #[error("states {stated} bytes and has {bytes}")]
    Length {
        stated: u32,
        /// Number of bytes.
        bytes: usize,
    },
    /// The name in a log is not one of a run file in a directory.
    #[error(
        "the name of {bytes} bytes is not RUN/FILE{RUN_FILE_ENDING} of letters, digits, `.`, `-` and `_`"
    )]
    Name {
        /// As stated.
        bytes: u8,
    },
    /// The body is not as long as its kind's.
    #[error("a body of {bytes} bytes, {kind:?} has {wanted}")]
    Body {
        kind: PacketKind,
        /// Number of bytes.
        bytes: usize,
        /// Bytes of a body of this kind.
        wanted: usize,
    },
    /// The mode of an actuator has no meaning.
    #[error("mode {found} of an actuator is not defined")]
    UnknownMode {
        /// As stated.
        found: u8,
    },
}

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireHeader {
    /// What it is.
    pub kind: PacketKind,
    /// Number of the device, as the controller counts them.
    pub device: u16,
    /// Number of the cycle. Each packet of a run has another pair of device and sequence.
    pub sequence: u64,
    /// When the request was sent, by the controller's clock, in nanoseconds.
    pub sent_ns: u64,
    /// When the device received the request, by its own clock, in nanoseconds; 0 in requests.
    pub received_ns: u64,
    /// When the device sent the answer, by the same clock; 0 in requests.
    pub answered_ns: u64,
    /// Drawn by the controller for each run, returned by the device.
    pub session: u32,
    /// For how long a command is valid after its receipt, in microseconds; 0: until the next one.
    pub lifetime_us: u32,
}

impl WireHeader {
    /// Returns the header of an echo request that was not sent yet.
    #[must_use]
    pub const fn echo(device: u16, sequence: u64, session: u32) -> Self {
        Self {
            kind: PacketKind::EchoRequest,
            device,
            sequence,
            sent_ns: 0,
            received_ns: 0,
            answered_ns: 0,
            session,
            lifetime_us: 0,
        }
    }

    /// Writes the header to the first [`HEADER_BYTES`] of a message, whose length it states. Bytes
    /// beyond [`u16::MAX`] cannot be stated and no datagram has them.
    pub fn write(&self, message: &mut [u8]) {
        let length = message.len() as u16;
        let Some(bytes) = message.first_chunk_mut::<HEADER_BYTES>() else { return };
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = self.kind as u8;
        bytes[6..8].copy_from_slice(&self.device.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sent_ns.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.received_ns.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.answered_ns.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.session.to_le_bytes());
        bytes[44..48].copy_from_slice(&self.lifetime_us.to_le_bytes());
        bytes[48..50].copy_from_slice(&length.to_le_bytes());
        bytes[50..56].fill(0);
    }
}

/// Decodes a message. The reserved bytes of the header are not checked: a later version may give
/// them a meaning.
///
/// # Errors
/// [`PacketError`], the first rule that the bytes violate.
///
/// ```
/// use onbeat_net::packet::{self, WireHeader};
///
/// let header = WireHeader { sent_ns: 5_000_000, ..WireHeader::echo(3, 1_000, 42) };
/// let mut message = [0; 200];
/// header.write(&mut message);
/// assert_eq!(packet::decode(&message)?.0, header);
/// # Ok::<(), packet::PacketError>(())
/// ```
pub fn decode(message: &[u8]) -> Result<(WireHeader, PacketBody<'_>), PacketError> {
    let (fields, rest) = head::<HEADER_BYTES>(message, MAGIC, VERSION)?;
    let found = fields.0[5];
    let kind = PacketKind::from_number(found).ok_or(PacketError::UnknownKind { found })?;
    check_length(message, fields.u16(48).into())?;
    if let Some(wanted) = kind.body_bytes().filter(|wanted| *wanted != rest.len()) {
        return Err(PacketError::Body { kind, bytes: rest.len(), wanted });
    }

    let header = WireHeader {
        kind,
        device: fields.u16(6),
        sequence: fields.u64(8),
        sent_ns: fields.u64(16),
        received_ns: fields.u64(24),
        answered_ns: fields.u64(32),
        session: fields.u32(40),
        lifetime_us: fields.u32(44),
    };
    Ok((header, PacketBody::decode(kind, rest)?))
}

/// Returns a header of `N` bytes, of which the fifth is the version, and what stands behind it.
pub(crate) fn head<const N: usize>(
    message: &[u8],
    magic: [u8; 4],
    version: u8,
) -> Result<(Fields<'_>, &[u8]), PacketError> {
    let (head, rest) = message
        .split_first_chunk::<N>()
        .ok_or(PacketError::Short { bytes: message.len(), header: N })?;
    let fields = Fields(head);
    match (fields.array::<4>(0), head[4]) {
        (found, _) if found != magic => Err(PacketError::Magic { found, wanted: magic }),
        (_, found) if found != version => Err(PacketError::Version { found, wanted: version }),
        _ => Ok((fields, rest)),
    }
}

pub(crate) fn check_length(message: &[u8], stated: u32) -> Result<(), PacketError> {
    let bytes = message.len();
    if stated as usize == bytes { Ok(()) } else { Err(PacketError::Length { stated, bytes }) }
}

/// What stands behind a header.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PacketBody<'m> {
    /// Any bytes.
    Echo(&'m [u8]),
    /// Of [`PacketKind::ActuatorCommand`].
    ActuatorCommand(ActuatorCommand),
    /// Of [`PacketKind::ActuatorFeedback`].
    ActuatorFeedback(ActuatorFeedback),
    /// Of [`PacketKind::IoCommand`].
    IoCommand(IoCommand),
    /// Of [`PacketKind::IoFeedback`].
    IoFeedback(IoFeedback),
    /// Of [`PacketKind::EdgeCommand`].
    EdgeCommand(EdgeCommand),
    /// Of [`PacketKind::EdgeReport`].
    EdgeReport(EdgeReport),
}

impl<'m> PacketBody<'m> {
    fn decode(kind: PacketKind, bytes: &'m [u8]) -> Result<Self, PacketError> {
        let fields = Fields(bytes);
        Ok(match kind {
            PacketKind::EchoRequest | PacketKind::EchoAnswer => Self::Echo(bytes),
            PacketKind::ActuatorCommand => Self::ActuatorCommand(ActuatorCommand::decode(fields)?),
            PacketKind::ActuatorFeedback => {
                Self::ActuatorFeedback(ActuatorFeedback::decode(fields)?)
            }
            PacketKind::IoCommand => Self::IoCommand(IoCommand::decode(fields)),
            PacketKind::IoFeedback => Self::IoFeedback(IoFeedback::decode(fields)),
            PacketKind::EdgeCommand => Self::EdgeCommand(EdgeCommand::decode(fields)),
            PacketKind::EdgeReport => Self::EdgeReport(EdgeReport::decode(fields)),
        })
    }

    /// Writes the body to bytes of its kind's length; bytes of an echo up to the shorter one.
    pub fn write(&self, bytes: &mut [u8]) {
        let mut into = Writing { bytes, at: 0 };
        match self {
            Self::Echo(from) => into.put(from),
            Self::ActuatorCommand(body) => body.write(&mut into),
            Self::ActuatorFeedback(body) => body.write(&mut into),
            Self::IoCommand(body) => body.write(&mut into),
            Self::IoFeedback(body) => body.write(&mut into),
            Self::EdgeCommand(body) => body.write(&mut into),
            Self::EdgeReport(body) => body.write(&mut into),
        }
    }
}

impl fmt::Display for PacketKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EchoRequest => "echo request",
            Self::EchoAnswer => "echo answer",
            Self::ActuatorCommand => "actuator command",
            Self::ActuatorFeedback => "actuator feedback",
            Self::IoCommand => "I/O command",
            Self::IoFeedback => "I/O feedback",
            Self::EdgeCommand => "edge command",
            Self::EdgeReport => "edge report",
        })
    }
}
