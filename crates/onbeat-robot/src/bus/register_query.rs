//! Register access of one device in one cycle, and what came back.

use onbeat_rt::frame::{Command, register};

/// Maximum data length of a query, in bytes.
const MAX_QUERY_BYTES: usize = 64;

/// Returns what SII control is written with: a command, and the word address that it is for
/// (ETG.1000.4, 6.4).
pub(crate) const fn sii_request(command: u16, word_address: u16) -> [u8; 6] {
    let [first, second] = command.to_le_bytes();
    let [low, high] = word_address.to_le_bytes();
    [first, second, low, high, 0, 0]
}

/// What came back for a query.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueryReply<'r> {
    pub(super) data: &'r [u8],
    /// Working counter.
    pub(super) counter: u16,
}

/// Register access of a device in one cycle.
#[derive(Clone, Copy, Debug)]
pub(super) struct RegisterQuery {
    pub(super) command: Command,
    pub(super) address: u32,
    pub(super) bytes: [u8; MAX_QUERY_BYTES],
    pub(super) length: usize,
}

impl RegisterQuery {
    pub(super) fn read(station: u16, at: u16, length: usize) -> Self {
        Self {
            command: Command::Fprd,
            address: register(station, at),
            bytes: [0; MAX_QUERY_BYTES],
            length,
        }
    }

    pub(super) fn write(station: u16, at: u16, data: &[u8]) -> Self {
        let mut bytes = [0; MAX_QUERY_BYTES];
        let length = data.len().min(MAX_QUERY_BYTES);
        bytes[..length].copy_from_slice(&data[..length]);
        Self { command: Command::Fpwr, address: register(station, at), bytes, length }
    }
}
