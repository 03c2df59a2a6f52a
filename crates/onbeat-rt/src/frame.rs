//! Frames of a MainDevice, in place: written once, sent many times, looked at when they come back.
//!
//! An Ethernet frame carries datagrams, one behind the other (ETG.1000.4, 5.4):
//!
//! ```text
//! | destination 6 | source 6 | 88A4 | length and type 2 | datagram | datagram | ...
//!
//! datagram:  | command 1 | index 1 | address 4 | length 2 | event 2 | data ... | working counter 2 |
//! ```
//!
//! Nothing here sends or waits. A frame is known again by its source address, which says what it is for, and by the index of its first
//! datagram, which says which of these it is.

/// Longest frame without its checksum, in bytes.
pub const LONGEST: usize = 1514;
/// Shortest frame without its checksum, in bytes (IEEE 802.3).
pub const SHORTEST: usize = 60;
/// What a datagram takes besides its data, in bytes.
pub const AROUND_DATA: usize = HEADER + 2;
/// Data that fit into a frame with one datagram, in bytes.
pub const MOST_DATA: usize = LONGEST - FIRST_DATAGRAM - AROUND_DATA;

const SOURCE_AT: usize = 6;
const TYPE_AT: usize = 12;
const LENGTH_AT: usize = 14;
const FIRST_DATAGRAM: usize = 16;
const HEADER: usize = 10;
const MORE: u16 = 0x8000;
/// EtherType of EtherCAT.
const ETHERCAT: [u8; 2] = [0x88, 0xa4];
/// The first five bytes of the source addresses: locally administered would be 02, which SubDevices set in what they send back.
const SOURCE: [u8; 5] = [0x10, 0x0b, 0xea, 0x70, 0x00];
/// What the first SubDevice sets in the source address.
const RETURNED: u8 = 0x02;

/// What a datagram asks for; numbers of ETG.1000.4, table 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Command {
    /// Read by position.
    Aprd = 1,
    /// Write by position.
    Apwr = 2,
    /// Read by station address.
    Fprd = 4,
    /// Write by station address.
    Fpwr = 5,
    /// Read from all, by OR.
    Brd = 7,
    /// Write to all.
    Bwr = 8,
    /// Read and write by logical address.
    Lrw = 12,
    /// One reads, by station address, all others write.
    Frmw = 14,
}

/// The address words of a register of one device.
#[must_use]
pub const fn register(device: u16, register: u16) -> u32 {
    device as u32 | (register as u32) << 16
}

/// The first address word of the device at this place on the cable, for [`Command::Aprd`] and [`Command::Apwr`].
#[must_use]
pub const fn position(place: u16) -> u16 {
    0u16.wrapping_sub(place)
}

/// Writes a frame into a buffer.
#[derive(Debug)]
pub struct Writer<'b> {
    buffer: &'b mut [u8],
    length: usize,
    last: Option<usize>,
}

impl<'b> Writer<'b> {
    /// Begins a frame. `purpose` tells frames of different purpose apart when they come back. The buffer has room for [`LONGEST`].
    #[must_use]
    pub fn new(buffer: &'b mut [u8], purpose: u8) -> Self {
        buffer[..SOURCE_AT].fill(0xff);
        buffer[SOURCE_AT..SOURCE_AT + 5].copy_from_slice(&SOURCE);
        buffer[SOURCE_AT + 5] = purpose;
        buffer[TYPE_AT..LENGTH_AT].copy_from_slice(&ETHERCAT);
        Self { buffer, length: FIRST_DATAGRAM, last: None }
    }

    /// Whether another datagram with `length` bytes of data has room.
    #[must_use]
    pub fn has_room(&self, length: usize) -> bool {
        self.length + AROUND_DATA + length <= self.buffer.len().min(LONGEST)
    }

    /// Whether no datagram is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// Adds a datagram with `length` bytes of zeros. Where in the frame its data begin; `None` when there is no room.
    pub fn push(&mut self, command: Command, address: u32, length: usize) -> Option<usize> {
        if !self.has_room(length) {
            return None;
        }

        if let Some(last) = self.last {
            let word = word(self.buffer, last + 6) | MORE;
            self.buffer[last + 6..last + 8].copy_from_slice(&word.to_le_bytes());
        }

        let at = self.length;
        let end = at + HEADER + length + 2;
        self.buffer[at..end].fill(0);
        self.buffer[at] = command as u8;
        self.buffer[at + 2..at + 6].copy_from_slice(&address.to_le_bytes());
        self.buffer[at + 6..at + 8].copy_from_slice(&(length as u16).to_le_bytes());
        (self.last, self.length) = (Some(at), end);

        Some(at + HEADER)
    }

    /// The same with these data.
    pub fn push_data(&mut self, command: Command, address: u32, data: &[u8]) -> Option<usize> {
        let at = self.push(command, address, data.len())?;
        self.buffer[at..at + data.len()].copy_from_slice(data);
        Some(at)
    }

    /// Data of a datagram that is in the frame, where [`Writer::push`] said that they begin.
    pub fn data_mut(&mut self, at: usize, length: usize) -> &mut [u8] {
        &mut self.buffer[at..at + length]
    }

    /// Ends the frame; its length in bytes, filled up to [`SHORTEST`].
    pub fn finish(self) -> usize {
        let word = (self.length - FIRST_DATAGRAM) as u16 | 0x1000;
        self.buffer[LENGTH_AT..FIRST_DATAGRAM].copy_from_slice(&word.to_le_bytes());
        if self.length >= SHORTEST {
            return self.length;
        }

        self.buffer[self.length..SHORTEST].fill(0);
        SHORTEST
    }
}

/// Numbers a frame: the index of its first datagram and, where there is one, that of its second.
pub fn number(frame: &mut [u8], number: u16) {
    frame[FIRST_DATAGRAM + 1] = number as u8;
    if let Some(second) = second_datagram(frame) {
        frame[second + 1] = (number >> 8) as u8;
    }
}

/// The number of a frame with two datagrams; the upper half is 0 in one with one.
#[must_use]
pub fn number_of(frame: &[u8]) -> u16 {
    let high = second_datagram(frame).and_then(|second| frame.get(second + 1).copied()).unwrap_or(0);
    u16::from(frame[FIRST_DATAGRAM + 1]) | u16::from(high) << 8
}

fn second_datagram(frame: &[u8]) -> Option<usize> {
    let length = word(frame, FIRST_DATAGRAM + 6);
    let second = FIRST_DATAGRAM + HEADER + usize::from(length & 0x07ff) + 2;
    (length & MORE != 0 && second + HEADER <= frame.len()).then_some(second)
}

/// What a frame that comes back was for; `None` when no device passed it on, or it is none of ours.
#[must_use]
pub fn purpose_of(frame: &[u8]) -> Option<u8> {
    let source = frame.get(SOURCE_AT..TYPE_AT)?;
    let returned = source[0] == SOURCE[0] | RETURNED && source[1..5] == SOURCE[1..5];
    (returned && frame.len() >= FIRST_DATAGRAM + AROUND_DATA && frame[TYPE_AT..LENGTH_AT] == ETHERCAT)
        .then(|| source[5])
}

/// Whether it is an EtherCAT frame that another MainDevice sent: its source address is none of ours.
#[must_use]
pub fn is_of_another(frame: &[u8]) -> bool {
    let is_ours = |source: &[u8]| source[0] & !RETURNED == SOURCE[0] & !RETURNED && source[1..5] == SOURCE[1..5];
    let is_ethercat = frame.len() >= FIRST_DATAGRAM + AROUND_DATA && frame[TYPE_AT..LENGTH_AT] == ETHERCAT;
    is_ethercat && word(frame, LENGTH_AT) >> 12 == 1 && !is_ours(&frame[SOURCE_AT..TYPE_AT])
}

/// Whether what came back is the frame that was sent, with every datagram where it was.
#[must_use]
pub fn is_reply_to(reply: &[u8], sent: &[u8]) -> bool {
    if reply.len() < sent.len() || reply[TYPE_AT..FIRST_DATAGRAM] != sent[TYPE_AT..FIRST_DATAGRAM] {
        return false;
    }

    let mut at = FIRST_DATAGRAM;
    loop {
        // Command, index and length; positions count up on the way, and the event word is the devices'.
        if at + HEADER > sent.len()
            || reply[at..at + 2] != sent[at..at + 2]
            || word(reply, at + 6) & !0x4000 != word(sent, at + 6)
        {
            return false;
        }

        let length = word(sent, at + 6);
        if length & MORE == 0 {
            return true;
        }

        at += HEADER + usize::from(length & 0x07ff) + 2;
    }
}

/// Working counter of the datagram whose data begin at `at` and are `length` bytes long.
#[must_use]
pub fn working_counter(frame: &[u8], at: usize, length: usize) -> u16 {
    word(frame, at + length)
}

/// 16 bits, little endian.
#[must_use]
pub fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}
