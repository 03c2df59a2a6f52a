//! EtherCAT frames of a MainDevice, built and read in place: written once, sent many times, checked
//! when they return.
//!
//! An Ethernet frame carries consecutive datagrams (ETG.1000.4, 5.4):
//!
//! ```text
//! | destination 6 | source 6 | 88A4 | length and type 2 | datagram | datagram | ...
//!
//! datagram:  | command 1 | index 1 | address 4 | length 2 | event 2 | data ... | working counter 2 |
//! ```
//!
//! Nothing here sends or waits. A returned frame is identified by its source address, which holds
//! its purpose, and by the index of its first datagram, which numbers the frames of one purpose.
//!
//! ```
//! use onbeat_rt::frame::{Command, LONGEST, Writer, register};
//!
//! let mut buffer = [0; LONGEST];
//! let mut writer = Writer::new(&mut buffer, 1);
//! // BRD of the AL status of all devices, 0130h.
//! let data_at = writer.push(Command::Brd, register(0, 0x0130), 2).unwrap();
//! let length = writer.finish();
//! assert_eq!((data_at, length), (26, 60));
//! ```

/// Longest frame without its checksum, in bytes.
pub const LONGEST: usize = 1514;
/// Shortest frame without its checksum, in bytes (IEEE 802.3).
pub const SHORTEST: usize = 60;
/// Header and working counter of a datagram, in bytes.
pub const AROUND_DATA: usize = HEADER + 2;
/// Most data of a frame with one datagram, in bytes.
pub const MOST_DATA: usize = LONGEST - FIRST_DATAGRAM - AROUND_DATA;

const SOURCE_AT: usize = 6;
const TYPE_AT: usize = 12;
const LENGTH_AT: usize = 14;
const FIRST_DATAGRAM: usize = 16;
const HEADER: usize = 10;
const MORE: u16 = 0x8000;
const ETHERCAT: [u8; 2] = [0x88, 0xa4];
/// The first five bytes of the source addresses: locally administered would be 02, which SubDevices
/// set in what they send back.
const SOURCE: [u8; 5] = [0x10, 0x0b, 0xea, 0x70, 0x00];
/// The bit that the first SubDevice sets in the source address.
const RETURNED: u8 = 0x02;

/// Command of a datagram (ETG.1000.4, table 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Command {
    /// No operation: passes unchanged.
    Nop = 0,
    /// Auto-increment read, by position.
    Aprd = 1,
    /// Auto-increment write.
    Apwr = 2,
    /// Auto-increment read and write.
    Aprw = 3,
    /// Configured address read, by station address.
    Fprd = 4,
    /// Configured address write.
    Fpwr = 5,
    /// Configured address read and write.
    Fprw = 6,
    /// Broadcast read; the devices OR their data into the datagram.
    Brd = 7,
    /// Broadcast write.
    Bwr = 8,
    /// Broadcast read and write.
    Brw = 9,
    /// Logical read, through FMMUs.
    Lrd = 10,
    /// Logical write.
    Lwr = 11,
    /// Logical read and write.
    Lrw = 12,
    /// Auto-increment read, multiple write: one device reads, all others write.
    Armw = 13,
    /// Configured address read, multiple write: one device reads, all others write.
    Frmw = 14,
}

impl Command {
    /// All commands, in the order of their numbers.
    const ALL: [Self; 15] = [
        Self::Nop,
        Self::Aprd,
        Self::Apwr,
        Self::Aprw,
        Self::Fprd,
        Self::Fpwr,
        Self::Fprw,
        Self::Brd,
        Self::Bwr,
        Self::Brw,
        Self::Lrd,
        Self::Lwr,
        Self::Lrw,
        Self::Armw,
        Self::Frmw,
    ];

    /// Returns the command with this number; `None` for undefined numbers, which devices ignore.
    ///
    /// ```
    /// use onbeat_rt::frame::Command;
    ///
    /// assert_eq!(Command::from_wire(12), Some(Command::Lrw));
    /// assert_eq!(Command::from_wire(200), None);
    /// ```
    #[must_use]
    pub fn from_wire(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// Returns the address field for a register of the device with station address `device`.
///
/// ```
/// assert_eq!(onbeat_rt::frame::register(0x1001, 0x0130), 0x0130_1001);
/// ```
#[must_use]
pub const fn register(device: u16, register: u16) -> u32 {
    device as u32 | (register as u32) << 16
}

/// Returns the auto-increment address of the device at this position on the cable, from 0, for
/// [`Command::Aprd`] and [`Command::Apwr`].
///
/// ```
/// use onbeat_rt::frame::position;
///
/// assert_eq!([position(0), position(1), position(2)], [0, 0xFFFF, 0xFFFE]);
/// ```
#[must_use]
pub const fn position(position: u16) -> u16 {
    0u16.wrapping_sub(position)
}

/// Writes a frame into a buffer.
///
/// ```
/// use onbeat_rt::frame::{Command, LONGEST, Writer, is_of_another, working_counter};
///
/// let mut buffer = [0; LONGEST];
/// let mut writer = Writer::new(&mut buffer, 1);
/// let data_at = writer.push_data(Command::Lrw, 0, &[1, 2, 3, 4]).unwrap();
/// let length = writer.finish();
///
/// assert_eq!(working_counter(&buffer[..length], data_at, 4), 0, "no device has processed it");
/// assert!(!is_of_another(&buffer[..length]));
/// ```
#[derive(Debug)]
pub struct Writer<'b> {
    buffer: &'b mut [u8],
    length: usize,
    last: Option<usize>,
}

impl<'b> Writer<'b> {
    /// Begins a frame. `purpose` identifies the frame when it returns ([`purpose_of`]). `buffer`
    /// holds at least [`LONGEST`] bytes.
    #[must_use]
    pub fn new(buffer: &'b mut [u8], purpose: u8) -> Self {
        buffer[..SOURCE_AT].fill(0xff);
        buffer[SOURCE_AT..SOURCE_AT + 5].copy_from_slice(&SOURCE);
        buffer[SOURCE_AT + 5] = purpose;
        buffer[TYPE_AT..LENGTH_AT].copy_from_slice(&ETHERCAT);
        Self { buffer, length: FIRST_DATAGRAM, last: None }
    }

    /// Returns whether another datagram with `length` bytes of data fits.
    #[must_use]
    pub fn has_room(&self, length: usize) -> bool {
        self.length + AROUND_DATA + length <= self.buffer.len().min(LONGEST)
    }

    /// Returns whether the frame has no datagram.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// Adds a datagram with `length` zero bytes. Returns the offset of its data in the frame;
    /// `None` when it does not fit.
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
        self.last = Some(at);
        self.length = end;

        Some(at + HEADER)
    }

    /// Adds a datagram with `data`. Returns the offset of the data in the frame; `None` when it
    /// does not fit.
    pub fn push_data(&mut self, command: Command, address: u32, data: &[u8]) -> Option<usize> {
        let at = self.push(command, address, data.len())?;
        self.buffer[at..at + data.len()].copy_from_slice(data);
        Some(at)
    }

    /// Returns the `length` data bytes of a datagram at the offset that [`Writer::push`] returned.
    pub fn data_mut(&mut self, at: usize, length: usize) -> &mut [u8] {
        &mut self.buffer[at..at + length]
    }

    /// Ends the frame and pads it to [`SHORTEST`]. Returns its length in bytes.
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

/// Numbers a frame: the low byte is the index of its first datagram, the high byte that of its
/// second if it has one.
pub fn number(frame: &mut [u8], number: u16) {
    frame[FIRST_DATAGRAM + 1] = number as u8;
    if let Some(second) = second_datagram(frame) {
        frame[second + 1] = (number >> 8) as u8;
    }
}

/// Returns the number of a frame; the high byte is 0 in a frame with one datagram.
#[must_use]
pub fn number_of(frame: &[u8]) -> u16 {
    let high =
        second_datagram(frame).and_then(|second| frame.get(second + 1).copied()).unwrap_or(0);
    u16::from(frame[FIRST_DATAGRAM + 1]) | u16::from(high) << 8
}

fn second_datagram(frame: &[u8]) -> Option<usize> {
    let length = word(frame, FIRST_DATAGRAM + 6);
    let second = FIRST_DATAGRAM + HEADER + usize::from(length & 0x07ff) + 2;
    (length & MORE != 0 && second + HEADER <= frame.len()).then_some(second)
}

/// Returns the purpose of a returned frame; `None` when no device has processed it, or when it was
/// not built by [`Writer`].
#[must_use]
pub fn purpose_of(frame: &[u8]) -> Option<u8> {
    let source = frame.get(SOURCE_AT..TYPE_AT)?;
    let returned = source[0] == SOURCE[0] | RETURNED && source[1..5] == SOURCE[1..5];
    (returned
        && frame.len() >= FIRST_DATAGRAM + AROUND_DATA
        && frame[TYPE_AT..LENGTH_AT] == ETHERCAT)
        .then(|| source[5])
}

/// Returns whether a frame with the source address of a MainDevice was processed by a device: one
/// of its working counters is not 0. Devices set a bit of the source address, and some simulators
/// do not.
///
/// ```
/// use onbeat_rt::frame::{Command, LONGEST, Writer, is_processed, register};
///
/// let mut buffer = [0; LONGEST];
/// let mut writer = Writer::new(&mut buffer, 1);
/// let at = writer.push(Command::Brd, register(0, 0x0130), 2).unwrap();
/// let length = writer.finish();
/// assert!(!is_processed(&buffer[..length]));
/// buffer[at + 2] = 1;
/// assert!(is_processed(&buffer[..length]));
/// ```
#[must_use]
pub fn is_processed(frame: &[u8]) -> bool {
    let is_sent = frame.len() >= FIRST_DATAGRAM + AROUND_DATA
        && frame[TYPE_AT..LENGTH_AT] == ETHERCAT
        && frame[SOURCE_AT] & RETURNED == 0;
    if !is_sent {
        return false;
    }

    let mut at = FIRST_DATAGRAM;
    while at + AROUND_DATA <= frame.len() {
        let length = word(frame, at + 6);
        let counter = at + HEADER + usize::from(length & 0x07ff);
        if counter + 2 > frame.len() {
            return false;
        }
        if word(frame, counter) != 0 {
            return true;
        }
        if length & MORE == 0 {
            return false;
        }
        at = counter + 2;
    }
    false
}

/// Returns whether `frame` is an EtherCAT frame of another MainDevice, judged by its source
/// address.
#[must_use]
pub fn is_of_another(frame: &[u8]) -> bool {
    let is_ours = |source: &[u8]| {
        source[0] & !RETURNED == SOURCE[0] & !RETURNED && source[1..5] == SOURCE[1..5]
    };
    let is_ethercat =
        frame.len() >= FIRST_DATAGRAM + AROUND_DATA && frame[TYPE_AT..LENGTH_AT] == ETHERCAT;
    is_ethercat && word(frame, LENGTH_AT) >> 12 == 1 && !is_ours(&frame[SOURCE_AT..TYPE_AT])
}

/// Returns whether `reply` is the returned frame `sent`, with the same datagrams at the same
/// offsets.
#[must_use]
pub fn is_reply_to(reply: &[u8], sent: &[u8]) -> bool {
    if reply.len() < sent.len() || reply[TYPE_AT..FIRST_DATAGRAM] != sent[TYPE_AT..FIRST_DATAGRAM] {
        return false;
    }

    let mut at = FIRST_DATAGRAM;
    loop {
        // Command, index and length. Devices increment positions and set the event word.
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

/// Returns the working counter of the datagram whose data begin at `at` and are `length` bytes
/// long.
#[must_use]
pub fn working_counter(frame: &[u8], at: usize, length: usize) -> u16 {
    word(frame, at + length)
}

/// Returns the 16-bit little-endian word at `at`.
#[must_use]
pub fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}
