//! The datagrams of a run's log, version 1: a header of 40 bytes, then name and bytes of a part.
//!
//! `include/onbeat_net.h` specifies them to the byte. All numbers are little-endian.

use crate::packet::{self, PacketError};
use onbeat_record::run_dir::RUN_FILE_ENDING;

/// The port of a logging server.
pub const LOG_PORT: u16 = 7472;
pub const LOG_HEADER_BYTES: usize = 40;
/// Largest datagram: what one Ethernet frame carries over IPv4.
pub const MOST_LOG_BYTES: usize = 1472;
/// The first four bytes of every datagram.
pub const LOG_MAGIC: [u8; 4] = *b"ONBL";
/// The version described here.
pub const LOG_VERSION: u8 = 1;
/// Longest name of a directory or a file, in bytes.
const MOST_NAME: usize = 100;
const PART: u8 = 1;
const RECEIPT: u8 = 2;
const BEGINS_LINE: u8 = 1;
const IS_LAST: u8 = 2;
const WANTS_RECEIPT: u8 = 4;

/// A datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogMessage<'m> {
    /// From the sender of a run.
    Part(LogPart<'m>),
    /// From the server.
    Receipt(LogReceipt),
}

/// Some lines of a run file, or a piece of one long line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPart<'m> {
    /// Drawn by the sender for each run.
    pub session: u32,
    /// Number of the part, from 0.
    pub number: u64,
    /// Number of the line in which it begins, from 0; of the last part: the number of all lines.
    pub line: u64,
    /// Whether it begins with the beginning of a line.
    pub begins_line: bool,
    /// Whether no further part follows.
    pub is_last: bool,
    /// Whether the server is to answer.
    pub wants_receipt: bool,
    /// Directory and file of the run, `RUN/FILE`.
    pub name: &'m str,
    /// Bytes of the file.
    pub bytes: &'m [u8],
}

/// What the server has received of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogReceipt {
    pub session: u32,
    /// The part that is answered.
    pub number: u64,
    /// Datagrams received, repeated ones among them.
    pub received: u64,
    /// Of these, dropped because the writer was behind.
    pub without_room: u64,
}

impl LogPart<'_> {
    /// Appends the datagram to `message`.
    pub fn write(&self, message: &mut Vec<u8>) {
        let state = [
            (self.begins_line, BEGINS_LINE),
            (self.is_last, IS_LAST),
            (self.wants_receipt, WANTS_RECEIPT),
        ];
        let state = state.iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit).sum();
        let length = LOG_HEADER_BYTES + self.name.len() + self.bytes.len();
        let head = Head { kind: PART, state, name: self.name.len() as u8, session: self.session };
        head.write(message, length, [self.number, self.line, 0]);
        message.extend_from_slice(self.name.as_bytes());
        message.extend_from_slice(self.bytes);
    }

    /// Returns how many bytes of a file fit a part with this name.
    #[must_use]
    pub const fn room(name: &str) -> usize {
        MOST_LOG_BYTES - LOG_HEADER_BYTES - name.len()
    }
}

impl LogReceipt {
    /// Appends the datagram to `message`.
    pub fn write(&self, message: &mut Vec<u8>) {
        let head = Head { kind: RECEIPT, state: 0, name: 0, session: self.session };
        head.write(message, LOG_HEADER_BYTES, [self.number, self.received, self.without_room]);
    }
}

struct Head {
    kind: u8,
    state: u8,
    name: u8,
    session: u32,
}

impl Head {
    fn write(&self, message: &mut Vec<u8>, length: usize, numbers: [u64; 3]) {
        message.extend_from_slice(&LOG_MAGIC);
        message.extend_from_slice(&[LOG_VERSION, self.kind, self.state, self.name]);
        message.extend_from_slice(&self.session.to_le_bytes());
        message.extend_from_slice(&(length as u32).to_le_bytes());
        for number in numbers {
            message.extend_from_slice(&number.to_le_bytes());
        }
    }
}

/// Decodes a datagram.
///
/// # Errors
/// [`PacketError`], the first rule that the bytes violate.
pub fn decode(message: &[u8]) -> Result<LogMessage<'_>, PacketError> {
    let (fields, rest) = packet::head::<LOG_HEADER_BYTES>(message, LOG_MAGIC, LOG_VERSION)?;
    packet::check_length(message, fields.u32(12))?;
    let [_, kind, state, name] = fields.array::<4>(4);
    let session = fields.u32(8);
    let [number, second, third] = [16, 24, 32].map(|at| fields.u64(at));
    match kind {
        PART => {
            let (name, bytes) = named(rest, name)?;
            let is_set = |bit: u8| state & bit != 0;
            Ok(LogMessage::Part(LogPart {
                session,
                number,
                line: second,
                begins_line: is_set(BEGINS_LINE),
                is_last: is_set(IS_LAST),
                wants_receipt: is_set(WANTS_RECEIPT),
                name,
                bytes,
            }))
        }
        RECEIPT => {
            let receipt = LogReceipt { session, number, received: second, without_room: third };
            Ok(LogMessage::Receipt(receipt))
        }
        found => Err(PacketError::UnknownKind { found }),
    }
}

fn named(rest: &[u8], bytes: u8) -> Result<(&str, &[u8]), PacketError> {
    let split = rest.split_at_checked(usize::from(bytes));
    let named = split.and_then(|(name, rest)| Some((std::str::from_utf8(name).ok()?, rest)));
    named.filter(|(name, _)| is_name(name)).ok_or(PacketError::Name { bytes })
}

/// Returns whether a name is `RUN/FILE.onbeat.hlog` and names nothing outside of one directory.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let is_plain = |part: &str| {
        (1..=MOST_NAME).contains(&part.len())
            && !part.starts_with('.')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    name.split_once('/').is_some_and(|(run, file)| {
        is_plain(run) && is_plain(file) && file.ends_with(RUN_FILE_ENDING)
    })
}
