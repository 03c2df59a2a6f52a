//! The datagrams of a run's log, version 1: a header of 40 bytes, then name and bytes of a part.
//!
//! `include/onbeat_net.h` specifies them to the byte. All numbers are little-endian.

use crate::packet::fields::Fields;
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

/// Why bytes are not a datagram of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogWireError {
    /// They end within the header.
    #[error("{bytes} bytes, a header has {LOG_HEADER_BYTES}")]
    Short {
        /// Number of bytes.
        bytes: usize,
    },
    /// They do not begin with [`LOG_MAGIC`].
    #[error("begins with {found:02x?}, not with ONBL")]
    Magic {
        /// The first four bytes.
        found: [u8; 4],
    },
    /// They are of another version.
    #[error("version {found}, this program reads version {LOG_VERSION}")]
    Version {
        /// As stated.
        found: u8,
    },
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
    /// The name is not one of a run file in a directory.
    #[error(
        "the name of {bytes} bytes is not RUN/FILE{RUN_FILE_ENDING} of letters, digits, `.`, `-` and `_`"
    )]
    Name {
        /// As stated.
        bytes: u8,
    },
}

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
/// [`LogWireError`], the first rule that the bytes violate.
pub fn decode(message: &[u8]) -> Result<LogMessage<'_>, LogWireError> {
    let Some((head, rest)) = message.split_first_chunk::<LOG_HEADER_BYTES>() else {
        return Err(LogWireError::Short { bytes: message.len() });
    };
    let fields = Fields(head);
    let [version, kind, state, name] = fields.array::<4>(4);
    if fields.array(0) != LOG_MAGIC {
        return Err(LogWireError::Magic { found: fields.array(0) });
    }
    if version != LOG_VERSION {
        return Err(LogWireError::Version { found: version });
    }
    let stated = fields.u32(12);
    if stated as usize != message.len() {
        return Err(LogWireError::Length { stated, bytes: message.len() });
    }

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
        found => Err(LogWireError::UnknownKind { found }),
    }
}

fn named(rest: &[u8], bytes: u8) -> Result<(&str, &[u8]), LogWireError> {
    let split = rest.split_at_checked(usize::from(bytes));
    let named = split.and_then(|(name, rest)| Some((std::str::from_utf8(name).ok()?, rest)));
    named.filter(|(name, _)| is_name(name)).ok_or(LogWireError::Name { bytes })
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
