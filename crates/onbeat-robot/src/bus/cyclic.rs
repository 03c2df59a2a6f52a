//! Frames of the cycle: process data, the AL state of all devices, the reference clock, and whether
//! a mailbox is full. They are written once at set-up and sent again in place.
//!
//! Inputs and outputs share datagrams. Input bytes are sent with the values received last, so a
//! device that does not answer leaves its inputs unchanged. Each optional group has datagrams of its
//! own, so the working counter of the others does not depend on it ([`super::image_shares`]).

use onbeat_rt::frame::{self, Command, LONGEST, Writer, is_reply_to, register, working_counter};
use onbeat_rt::time::Instant;

use super::image_shares::{ImageShare, image_shares};
use onbeat_ethercat::layout::Layout;
use onbeat_ethercat::registers::{
    AL_STATUS, MAILBOX_FULL, SYNC_MANAGER, SYSTEM_TIME, TIME_DIFFERENCE,
};

/// Purposes of frames: the index within a cycle, from 1, or [`ACYCLIC`].
// The index of each frame's first datagram says whose it is. 0 is what others use by default.
const FIRST: u8 = 1;
/// Purpose of frames that are not part of the cycle.
pub(super) const ACYCLIC: u8 = 0x80;
/// Purpose of frames of a scan by another process; a running bus ignores them.
pub(crate) const SCAN: u8 = 0xa0;
/// Bytes left for process data in the frame that also carries clock, state and mailbox status.
const MOST_WITH_STATUS: usize = LONGEST - 16 - 12 - (12 + 8) - (12 + 4) - (12 + 2) - (12 + 1);

#[derive(Clone, Debug)]
struct CyclicFrame {
    bytes: Box<[u8; LONGEST]>,
    length: usize,
    /// Process data datagrams, each with the position of its data in the frame.
    shares: Vec<(ImageShare, usize)>,
    sent_at: Instant,
    answered: bool,
    /// Whether earlier frames were answered; bit 0 is the latest.
    were_answered: u64,
}

/// Data offsets of the status datagrams in the first frame.
#[derive(Clone, Debug)]
struct StatusDatagrams {
    clock: Option<usize>,
    difference: Option<usize>,
    state: usize,
    mailbox: usize,
}

/// Replies to the frames of one cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CycleReply {
    /// Every frame was answered.
    pub(super) complete: bool,
    pub(super) working_counter: u16,
    /// AL states of all devices, combined by OR, with the error bit.
    pub(super) state: u8,
    /// Number of devices that processed the first frame.
    pub(super) counted: u16,
    pub(super) reference_ns: u64,
    /// Clock differences of all devices from the reference in ns, combined by OR: an upper bound of
    /// each.
    pub(super) apart_ns: u32,
    /// Time from sending the first frame to receiving the last reply, in ns.
    pub(super) round_trip_ns: u64,
    /// Time at which the frame that read the reference clock was sent.
    pub(super) sent_at: Instant,
    /// Whether any mailbox is full.
    pub(super) has_mail: bool,
}

/// Classification of a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameClass {
    /// A reply of the current cycle.
    Cyclic,
    /// A reply to an acyclic frame.
    Acyclic,
    /// A reply to an earlier cycle.
    Late,
    /// A reply that was received before.
    Duplicate,
    /// A frame of another MainDevice.
    Foreign,
    /// A reply to a scan by another onbeat process.
    OfScan,
    /// A frame that was not sent by this bus, or is damaged.
    Unknown,
}

#[derive(Clone, Debug)]
pub(super) struct CyclicExchange {
    parts: Vec<CyclicFrame>,
    status_datagrams: StatusDatagrams,
    number: u16,
    answer: CycleReply,
    /// Working counters of the optional groups in this cycle, and when all their devices are in OP.
    group_counters: Vec<(u16, u16)>,
}

impl CyclicExchange {
    /// Builds the frames for `layout`, with logical addresses from `logical`. `clock` is the
    /// station address of the reference clock.
    pub(super) fn new(layout: &Layout, clock: Option<u16>, logical: u32) -> Self {
        let most = [MOST_WITH_STATUS, frame::MOST_DATA];
        let mut parts: Vec<CyclicFrame> =
            image_shares(layout, most).into_iter().map(CyclicFrame::new).collect();
        let mut status_datagrams =
            StatusDatagrams { clock: None, difference: None, state: 0, mailbox: 0 };
        for (number, part) in parts.iter_mut().enumerate() {
            // Made once. A cycle only writes outputs and a number into frames that stand.
            let mut writer = Writer::new(&mut part.bytes[..], FIRST + number as u8);
            let mut push =
                |command, address, length| writer.push(command, address, length).unwrap_or(0);
            if number == 0 {
                // The clock datagram comes first, so reading and distributing the time happen at
                // the same position of each frame.
                status_datagrams.clock =
                    clock.map(|station| push(Command::Frmw, register(station, SYSTEM_TIME), 8));
                // Broadcast reads are combined by OR: a bit that is set anywhere is seen with one
                // datagram, whatever the number of devices.
                status_datagrams.difference =
                    clock.map(|_| push(Command::Brd, register(0, TIME_DIFFERENCE), 4));
                status_datagrams.state = push(Command::Brd, register(0, AL_STATUS), 2);
                status_datagrams.mailbox = push(Command::Brd, register(0, SYNC_MANAGER + 8 + 5), 1);
            }

            // LRW reads and writes in one passage. Input bytes leave as they came last, for devices
            // that map them as outputs of others.
            for (share, data_at) in &mut part.shares {
                *data_at = push(Command::Lrw, logical + share.logical, share.len());
            }
            part.length = writer.finish();
        }

        let mut group_counters = vec![(0, 0); layout.groups.len()];
        for (share, _) in parts.iter().flat_map(|part| &part.shares) {
            if let Some((_, expected)) = share.group.and_then(|group| group_counters.get_mut(group))
            {
                *expected += share.expected;
            }
        }

        Self { parts, status_datagrams, number: 0, answer: CycleReply::default(), group_counters }
    }

    /// Returns the number of frames per cycle and their total length in bytes.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.parts.len(), self.parts.iter().map(|part| part.length).sum())
    }

    /// Returns the length of the longest frame in bytes.
    pub(super) fn longest(&self) -> usize {
        self.parts.iter().map(|part| part.length).max().unwrap_or_default()
    }

    /// Returns the working counter of the process data of all devices that are always there, when
    /// they are in OP.
    pub(super) fn expected(&self) -> u16 {
        let shares = self.parts.iter().flat_map(|part| &part.shares);
        shares.filter(|(share, _)| share.group.is_none()).map(|(share, _)| share.expected).sum()
    }

    /// Returns the working counters of the optional groups in this cycle, each with that when all
    /// devices of the group are in OP.
    pub(super) fn group_counters(&self) -> &[(u16, u16)] {
        &self.group_counters
    }

    /// Sets a new station address of the device with the reference clock.
    pub(super) fn set_clock(&mut self, station: u16) {
        // The header precedes the data by 10 bytes: command and index, then the station address.
        const BEFORE_DATA: usize = 8;
        if let (Some(at), Some(part)) = (self.status_datagrams.clock, self.parts.first_mut()) {
            part.bytes[at - BEFORE_DATA..at - BEFORE_DATA + 2]
                .copy_from_slice(&station.to_le_bytes());
        }
    }

    /// Begins a cycle: copies the outputs into the frames and passes each frame to `send`.
    pub(super) fn send(&mut self, outputs: &[u8], now: Instant, mut send: impl FnMut(&[u8])) {
        // Each cycle's frames carry its number: a reply that comes a cycle late must not pass for
        // the one that is due.
        self.number = self.number.wrapping_add(1);
        self.answer = CycleReply { sent_at: now, ..CycleReply::default() };
        self.group_counters.iter_mut().for_each(|(counter, _)| *counter = 0);
        for part in &mut self.parts {
            part.put(outputs);
            // A history of 64 cycles, in bits: it tells a late reply from a second copy of one that
            // was taken.
            part.were_answered = part.were_answered << 1 | u64::from(part.answered);
            part.answered = false;
            part.sent_at = now;
        }

        for part in &mut self.parts {
            // After all outputs are in all frames: a copy in between would spread one cycle's
            // outputs over the time of sending.
            frame::number(&mut part.bytes[..part.length], self.number);
            send(&part.bytes[..part.length]);
        }
    }

    /// Returns whether all frames of the cycle were answered.
    pub(super) fn is_complete(&self) -> bool {
        self.parts.iter().all(|part| part.answered)
    }

    /// Processes a received frame; writes its inputs to `inputs`.
    pub(super) fn take(
        &mut self,
        reply: &[u8],
        inputs: &mut [u8],
        received_at: Instant,
    ) -> FrameClass {
        let Some(purpose) = frame::purpose_of(reply) else {
            // Another MainDevice on this cable, or the answer to a frame that left another process
            // here.
            return if frame::is_of_another(reply) {
                FrameClass::Foreign
            } else {
                FrameClass::Unknown
            };
        };
        if purpose == ACYCLIC {
            return FrameClass::Acyclic;
        }

        if purpose == SCAN {
            return FrameClass::OfScan;
        }

        let Some(place) =
            purpose.checked_sub(FIRST).map(usize::from).filter(|place| *place < self.parts.len())
        else {
            return FrameClass::Unknown;
        };
        let part = &mut self.parts[place];
        // Compared with what was sent, datagram by datagram: nothing that a stranger could have
        // made by chance becomes an input.
        if !is_reply_to(reply, &part.bytes[..part.length]) {
            return if reply.len() < part.length {
                FrameClass::Unknown
            } else {
                part.take_older(place, reply)
            };
        }

        if part.answered {
            return FrameClass::Duplicate;
        }

        part.answered = true;
        part.get(reply, inputs);
        for (share, data_at) in &part.shares {
            let counter = working_counter(reply, *data_at, share.len());
            match share.group {
                // Of all frames together. Each has its own share of the devices.
                None => self.answer.working_counter += counter,
                Some(group) => self.group_counters[group].0 += counter,
            }
        }
        // 0 means that there was no round trip.
        self.answer.round_trip_ns = received_at.ns_since(part.sent_at).max(1);
        if place == 0 {
            self.status_datagrams.read(reply, &mut self.answer);
        }

        self.answer.complete = self.parts.iter().all(|part| part.answered);
        FrameClass::Cyclic
    }

    /// Returns the replies received so far.
    pub(super) fn answer(&self) -> CycleReply {
        self.answer
    }
}

impl StatusDatagrams {
    fn read(&self, reply: &[u8], answer: &mut CycleReply) {
        answer.state = reply[self.state];
        // How many devices passed the frame on: the one figure that does not depend on their
        // states.
        answer.counted = working_counter(reply, self.state, 2);
        // The bits are combined by OR. In SyncManagers of process data this bit is always 0.
        answer.has_mail = reply[self.mailbox] & MAILBOX_FULL != 0;
        // A device that is gone leaves the bytes as sent, which would be a time of zero.
        if let Some(at) = self.clock.filter(|&at| working_counter(reply, at, 8) > 0) {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&reply[at..at + 8]);
            answer.reference_ns = u64::from_le_bytes(bytes);
        }

        if let Some(at) = self.difference.filter(|&at| working_counter(reply, at, 4) > 0) {
            // Sign and magnitude (ETG.1000.4, table 60).
            answer.apart_ns =
                u32::from_le_bytes([reply[at], reply[at + 1], reply[at + 2], reply[at + 3] & 0x7f]);
        }
    }
}

impl CyclicFrame {
    fn new(shares: Vec<ImageShare>) -> Self {
        Self {
            bytes: Box::new([0; LONGEST]),
            length: 0,
            shares: shares.into_iter().map(|share| (share, 0)).collect(),
            sent_at: Instant::default(),
            answered: false,
            were_answered: 0,
        }
    }

    /// Classifies a complete reply to an earlier frame: late or duplicate.
    fn take_older(&mut self, place: usize, reply: &[u8]) -> FrameClass {
        let age =
            frame::number_of(&self.bytes[..self.length]).wrapping_sub(frame::number_of(reply));
        // In frames with a single datagram only the low byte of the number is transmitted.
        let age = if place == 0 { age } else { age & 0xff };
        // A number from the future was never sent.
        let Some(bit) = age.checked_sub(1).map(u32::from) else { return FrameClass::Unknown };
        let bit = 1u64.checked_shl(bit).unwrap_or_default();
        let was_answered = self.were_answered & bit != 0;
        self.were_answered |= bit;

        if was_answered { FrameClass::Duplicate } else { FrameClass::Late }
    }

    /// Copies this frame's part of the outputs.
    fn put(&mut self, outputs: &[u8]) {
        for (share, data_at) in &self.shares {
            let from = data_at + share.inputs.len();
            self.bytes[from..from + share.outputs.len()]
                .copy_from_slice(&outputs[share.outputs.clone()]);
        }
    }

    /// Copies this frame's part of the inputs from `reply`, and keeps them for the next frame.
    fn get(&mut self, reply: &[u8], image: &mut [u8]) {
        for (share, data_at) in &self.shares {
            let values = &reply[*data_at..data_at + share.inputs.len()];
            image[share.inputs.clone()].copy_from_slice(values);
            // Sent again with the next frame: a device that does not answer leaves its inputs as
            // they were, and they do not jump to zero.
            self.bytes[*data_at..data_at + share.inputs.len()].copy_from_slice(values);
        }
    }
}
