//! Files of a device: a server of FoE, file access over EtherCAT (ETG.1000.6, 5.8).
//!
//! Files are kept in memory until the segment ends. A firmware file, whose name ends in `.efw`, is
//! taken in BOOT only, as real devices do.

use std::collections::BTreeMap;

/// Operation codes.
const READ: u8 = 1;
const WRITE: u8 = 2;
const DATA: u8 = 3;
const ACK: u8 = 4;
const ERROR: u8 = 5;
/// Bytes of the FoE header: code, reserved, and a number.
pub(crate) const HEAD: usize = 6;
/// Errors.
const NOT_FOUND: u32 = 0x8001;
const DISK_FULL: u32 = 0x8003;
const ILLEGAL: u32 = 0x8004;
const PACKET_NUMBER: u32 = 0x8005;
const BOOTSTRAP_ONLY: u32 = 0x8008;
/// Most bytes of all files.
const MOST: usize = 64 * 1024 * 1024;

/// A transfer with several mails.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Transfer {
    None,
    /// Name, and bytes sent.
    Read {
        name: Vec<u8>,
        packet: u32,
        sent: usize,
        is_last: bool,
    },
    /// Name, and what has arrived.
    Write {
        name: Vec<u8>,
        packet: u32,
        bytes: Vec<u8>,
    },
}

/// File server of one device.
#[derive(Clone, Debug)]
pub(crate) struct FileServer {
    files: BTreeMap<Vec<u8>, Vec<u8>>,
    transfer: Transfer,
}

impl FileServer {
    pub(crate) fn new() -> Self {
        Self { files: BTreeMap::new(), transfer: Transfer::None }
    }

    /// Ends a transfer; the files are kept.
    pub(crate) fn reset(&mut self) {
        self.transfer = Transfer::None;
    }

    /// Serves a request; writes the reply after the mailbox header to `reply`. `room`: data of a
    /// mail in each direction, to the device first. Returns whether there is a reply.
    pub(crate) fn serve(
        &mut self,
        request: &[u8],
        room: (usize, usize),
        is_boot: bool,
        reply: &mut Vec<u8>,
    ) -> bool {
        reply.clear();
        let Some((head, data)) = request.split_first_chunk::<HEAD>() else {
            return refuse(reply, ILLEGAL);
        };
        let number = u32::from_le_bytes([head[2], head[3], head[4], head[5]]);
        match head[0] {
            READ => self.begin_read(data, room.1, reply),
            WRITE if is_firmware(data) && !is_boot => refuse(reply, BOOTSTRAP_ONLY),
            WRITE => {
                self.transfer =
                    Transfer::Write { name: data.to_vec(), packet: 0, bytes: Vec::new() };
                put(reply, ACK, 0, &[]);
                true
            }
            DATA => self.take(number, data, room.0, reply),
            ACK => self.next(number, room.1, reply),
            _ => {
                self.transfer = Transfer::None;
                refuse(reply, ILLEGAL)
            }
        }
    }

    fn begin_read(&mut self, name: &[u8], room: usize, reply: &mut Vec<u8>) -> bool {
        if !self.files.contains_key(name) {
            return refuse(reply, NOT_FOUND);
        }
        self.transfer = Transfer::Read { name: name.to_vec(), packet: 0, sent: 0, is_last: false };
        self.next(0, room, reply)
    }

    /// Sends the packet after an acknowledged one.
    fn next(&mut self, acknowledged: u32, room: usize, reply: &mut Vec<u8>) -> bool {
        let Transfer::Read { name, packet, sent, is_last } = &mut self.transfer else {
            return refuse(reply, ILLEGAL);
        };
        if acknowledged != *packet {
            self.transfer = Transfer::None;
            return refuse(reply, PACKET_NUMBER);
        }
        if *is_last {
            self.transfer = Transfer::None;
            return false;
        }

        let file = self.files.get(name).map(Vec::as_slice).unwrap_or_default();
        let data = &file[*sent..file.len().min(*sent + room)];
        *sent += data.len();
        *packet += 1;
        *is_last = data.len() < room;
        put(reply, DATA, *packet, data);
        true
    }

    fn take(&mut self, number: u32, data: &[u8], room: usize, reply: &mut Vec<u8>) -> bool {
        let used: usize = self.files.values().map(Vec::len).sum();
        let Transfer::Write { name, packet, bytes } = &mut self.transfer else {
            return refuse(reply, ILLEGAL);
        };
        let is_next = number == *packet + 1;
        if !is_next || used + bytes.len() + data.len() > MOST {
            let error = if is_next { DISK_FULL } else { PACKET_NUMBER };
            self.transfer = Transfer::None;
            return refuse(reply, error);
        }

        *packet = number;
        bytes.extend_from_slice(data);
        if data.len() < room {
            let (name, bytes) = (std::mem::take(name), std::mem::take(bytes));
            self.files.insert(name, bytes);
            self.transfer = Transfer::None;
        }
        put(reply, ACK, number, &[]);
        true
    }
}

fn is_firmware(name: &[u8]) -> bool {
    name.to_ascii_lowercase().ends_with(b".efw")
}

fn put(reply: &mut Vec<u8>, code: u8, number: u32, data: &[u8]) {
    reply.extend_from_slice(&[code, 0]);
    reply.extend_from_slice(&number.to_le_bytes());
    reply.extend_from_slice(data);
}

/// Writes the reply to a request that is refused; returns that there is one.
fn refuse(reply: &mut Vec<u8>, error: u32) -> bool {
    put(reply, ERROR, error, &[]);
    true
}
