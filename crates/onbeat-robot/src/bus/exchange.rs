//! The frames of a cycle: process data, the state of all devices, the reference clock, whether some mailbox is full. Written once at set-up,
//! sent again and again in place.
//!
//! Inputs travel in the same datagrams as outputs. Their bytes leave as they came last, so that those of a device that does not answer
//! stay what they were.

use onbeat_rt::frame::{self, Command, LONGEST, Writer, is_reply_to, register, working_counter};
use onbeat_rt::time::Instant;

use super::memory::{AL_STATUS, SYNC_MANAGER, SYSTEM_TIME, TIME_DIFFERENCE};
use onbeat_ethercat::layout::Layout;

/// Purposes of frames: the n-th of a cycle, or [`ASIDE`].
const FIRST: u8 = 1;
/// Frames that are not of the cycle.
pub(super) const ASIDE: u8 = 0x80;
/// Frames of a scan beside a running bus, which leaves them alone.
pub(super) const SCAN: u8 = 0xa0;
/// What the frame with clock, state and mailbox leaves for process data, in bytes.
const MOST_WITH_STATUS: usize = LONGEST - 16 - 12 - (12 + 8) - (12 + 4) - (12 + 2) - (12 + 1);

/// "Mailbox full" in the status of a SyncManager.
pub(super) const MAILBOX_FULL: u8 = 0x08;

/// One frame of the cycle.
#[derive(Clone, Debug)]
struct Part {
    bytes: Box<[u8; LONGEST]>,
    length: usize,
    /// Where its process data stand in the image (inputs, then outputs), and in the frame.
    image: std::ops::Range<usize>,
    data_at: usize,
    /// Working counter when every device that has data in it is in OP.
    expected: u16,
    sent_at: Instant,
    answered: bool,
    /// Whether the frames before were answered, the latest in bit 0.
    were_answered: u64,
}

/// Datagrams that ride in the first frame: where their data begin.
#[derive(Clone, Debug)]
struct Riders {
    clock: Option<usize>,
    difference: Option<usize>,
    state: usize,
    mailbox: usize,
}

/// What came back of a cycle's frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// Every frame came back.
    pub(super) complete: bool,
    pub(super) working_counter: u16,
    /// AL states of all devices by OR, with the error bit.
    pub(super) state: u8,
    /// Devices that passed the first frame on.
    pub(super) counted: u16,
    pub(super) reference_ns: u64,
    /// Differences of all devices' clocks from the reference in ns, by OR: none is further off.
    pub(super) apart_ns: u32,
    /// Between sending and having the last frame back.
    pub(super) round_trip_ns: u64,
    /// When the frame that read the reference clock was sent.
    pub(super) sent_at: Instant,
    /// Whether some mailbox holds a mail.
    pub(super) has_mail: bool,
}

/// What became of one frame that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// Of this cycle.
    Cyclic,
    /// To be looked at by the one that asked.
    Aside,
    /// Of an earlier cycle.
    Late,
    /// Come back before.
    Duplicate,
    /// Of another MainDevice.
    Foreign,
    /// Of a scan by another process of onbeat.
    OfScan,
    /// Not one that was sent, or damaged.
    Unknown,
}

#[derive(Clone, Debug)]
pub(super) struct Exchange {
    parts: Vec<Part>,
    riders: Riders,
    number: u16,
    answer: Answer,
    input_bytes: usize,
}

impl Exchange {
    /// Frames for this layout, whose logical addresses begin at `logical`. `clock` is the station of the reference clock.
    pub(super) fn new(layout: &Layout, clock: Option<u16>, logical: u32) -> Self {
        let mut parts: Vec<Part> =
            split(layout).into_iter().map(|(image, expected)| Part::of(image, expected)).collect();
        let mut riders = Riders { clock: None, difference: None, state: 0, mailbox: 0 };
        for (number, part) in parts.iter_mut().enumerate() {
            let mut writer = Writer::new(&mut part.bytes[..], FIRST + number as u8);
            let mut push = |command, address, length| writer.push(command, address, length).unwrap_or(0);
            if number == 0 {
                // The clock first: it is read, and taken on by the others, at the same place of each frame.
                riders.clock = clock.map(|station| push(Command::Frmw, register(station, SYSTEM_TIME), 8));
                riders.difference = clock.map(|_| push(Command::Brd, register(0, TIME_DIFFERENCE), 4));
                riders.state = push(Command::Brd, register(0, AL_STATUS), 2);
                riders.mailbox = push(Command::Brd, register(0, SYNC_MANAGER + 8 + 5), 1);
            }

            part.data_at = push(Command::Lrw, logical + part.image.start as u32, part.image.len());
            part.length = writer.finish();
        }

        Self { parts, riders, number: 0, answer: Answer::default(), input_bytes: layout.input_bytes }
    }

    /// Frames per cycle, and their bytes in all.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.parts.len(), self.parts.iter().map(|part| part.length).sum())
    }

    /// Bytes of the longest frame.
    pub(super) fn longest(&self) -> usize {
        self.parts.iter().map(|part| part.length).max().unwrap_or_default()
    }

    /// Working counter of all process data when all devices are in OP.
    pub(super) fn expected(&self) -> u16 {
        self.parts.iter().map(|part| part.expected).sum()
    }

    /// The device with the reference clock got another station.
    pub(super) fn set_clock(&mut self, station: u16) {
        // In the header before the data: command and index, then the station.
        const BEFORE_DATA: usize = 8;
        if let (Some(at), Some(part)) = (self.riders.clock, self.parts.first_mut()) {
            part.bytes[at - BEFORE_DATA..at - BEFORE_DATA + 2].copy_from_slice(&station.to_le_bytes());
        }
    }

    /// Begins a cycle: outputs go into the frames, and each frame to `send`.
    pub(super) fn send(&mut self, outputs: &[u8], now: Instant, mut send: impl FnMut(&[u8])) {
        self.number = self.number.wrapping_add(1);
        self.answer = Answer { sent_at: now, ..Answer::default() };
        for part in &mut self.parts {
            part.put(self.input_bytes, outputs);
            part.were_answered = part.were_answered << 1 | u64::from(part.answered);
            part.answered = false;
            part.sent_at = now;
        }

        for part in &mut self.parts {
            frame::number(&mut part.bytes[..part.length], self.number);
            send(&part.bytes[..part.length]);
        }
    }

    /// Whether all frames of the cycle are back.
    pub(super) fn is_complete(&self) -> bool {
        self.parts.iter().all(|part| part.answered)
    }

    /// Takes a frame that came; inputs go into `inputs`.
    pub(super) fn take(&mut self, reply: &[u8], inputs: &mut [u8], came_at: Instant) -> Taken {
        let Some(purpose) = frame::purpose_of(reply) else {
            return if frame::is_of_another(reply) { Taken::Foreign } else { Taken::Unknown };
        };
        if purpose == ASIDE {
            return Taken::Aside;
        }

        if purpose == SCAN {
            return Taken::OfScan;
        }

        let Some(place) = purpose.checked_sub(FIRST).map(usize::from).filter(|place| *place < self.parts.len()) else {
            return Taken::Unknown;
        };
        let part = &mut self.parts[place];
        if !is_reply_to(reply, &part.bytes[..part.length]) {
            return if reply.len() < part.length { Taken::Unknown } else { part.take_older(place, reply) };
        }

        if part.answered {
            return Taken::Duplicate;
        }

        part.answered = true;
        part.get(self.input_bytes, reply, inputs);
        self.answer.working_counter += working_counter(reply, part.data_at, part.image.len());
        // 0 would say that there was none.
        self.answer.round_trip_ns = came_at.ns_since(part.sent_at).max(1);
        if place == 0 {
            self.riders.read(reply, &mut self.answer);
        }

        self.answer.complete = self.parts.iter().all(|part| part.answered);
        Taken::Cyclic
    }

    /// What has come back so far.
    pub(super) fn answer(&self) -> Answer {
        self.answer
    }
}

impl Riders {
    fn read(&self, reply: &[u8], answer: &mut Answer) {
        answer.state = reply[self.state];
        answer.counted = working_counter(reply, self.state, 2);
        // "Mailbox full" by OR; areas of process data have another bit there, which stays 0.
        answer.has_mail = reply[self.mailbox] & MAILBOX_FULL != 0;
        if let Some(at) = self.clock.filter(|&at| working_counter(reply, at, 8) > 0) {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&reply[at..at + 8]);
            answer.reference_ns = u64::from_le_bytes(bytes);
        }

        if let Some(at) = self.difference.filter(|&at| working_counter(reply, at, 4) > 0) {
            // Sign and magnitude (ETG.1000.4, table 60).
            answer.apart_ns = u32::from_le_bytes([reply[at], reply[at + 1], reply[at + 2], reply[at + 3] & 0x7f]);
        }
    }
}

impl Part {
    fn of(image: std::ops::Range<usize>, expected: u16) -> Self {
        let sent_at = Instant::default();
        Self {
            bytes: Box::new([0; LONGEST]),
            length: 0,
            image,
            data_at: 0,
            expected,
            sent_at,
            answered: false,
            were_answered: 0,
        }
    }

    /// What a whole frame is that came back and is not the one that is out: of an earlier cycle, for the first time or again.
    fn take_older(&mut self, place: usize, reply: &[u8]) -> Taken {
        let age = frame::number_of(&self.bytes[..self.length]).wrapping_sub(frame::number_of(reply));
        // Frames with one datagram have half a number.
        let age = if place == 0 { age } else { age & 0xff };
        let Some(bit) = age.checked_sub(1).map(u32::from) else { return Taken::Unknown };
        let bit = 1u64.checked_shl(bit).unwrap_or_default();
        let was_answered = self.were_answered & bit != 0;
        self.were_answered |= bit;

        if was_answered { Taken::Duplicate } else { Taken::Late }
    }

    /// Its share of the outputs. Of the image, `inputs` bytes come before them.
    fn put(&mut self, inputs: usize, outputs: &[u8]) {
        let from = self.image.start.max(inputs);
        if from < self.image.end {
            let at = self.data_at + from - self.image.start;
            let bytes = self.image.end - from;
            self.bytes[at..at + bytes].copy_from_slice(&outputs[from - inputs..from - inputs + bytes]);
        }
    }

    /// Its share of the inputs, out of a reply; they are kept for the next frame as well.
    fn get(&mut self, inputs: usize, reply: &[u8], image: &mut [u8]) {
        let until = self.image.end.min(inputs);
        if self.image.start < until {
            let bytes = until - self.image.start;
            let values = &reply[self.data_at..self.data_at + bytes];
            image[self.image.start..until].copy_from_slice(values);
            self.bytes[self.data_at..self.data_at + bytes].copy_from_slice(values);
        }
    }
}

/// Shares of the image for the frames, cut between devices, with the working counter of each.
fn split(layout: &Layout) -> Vec<(std::ops::Range<usize>, u16)> {
    let inputs = layout.devices.iter().map(|device| (device.inputs.clone(), 1));
    let behind = layout.input_bytes;
    let outputs = layout.devices.iter().map(|device| (device.outputs.start + behind..device.outputs.end + behind, 2));
    let mut shares: Vec<(std::ops::Range<usize>, u16)> = vec![(0..0, 0)];
    for (range, count) in inputs.chain(outputs).filter(|(range, _)| !range.is_empty()) {
        let most = if shares.len() == 1 { MOST_WITH_STATUS } else { frame::MOST_DATA };
        match shares.last_mut() {
            Some((share, counter)) if range.end - share.start <= most => {
                share.end = range.end;
                *counter += count;
            }
            _ => shares.push((range, count)),
        }
    }

    shares
}
