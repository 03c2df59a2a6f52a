//! Cable redundancy: every frame is sent on two interfaces at both ends of a ring of cables, and
//! what comes back is merged into one reply.
//!
//! ```text
//! closed   first ──▶ all devices ──▶ second            the other way round, frames are not processed
//! cut      first ──▶ left part ──▶ first               and second ──▶ right part ──▶ second
//! ```
//!
//! Each device processes exactly one of the two frames, so the reply is `sent`, changed where either
//! is, with the sum of the working counters. Three kinds of datagrams differ between the frames:
//! positions count from the first interface, so those of the second frame start behind the left
//! part; and the time of the reference clock is distributed by the frame that reaches it, since the
//! other one would write what was sent. Clocks of the other part run on until the cable is mended.
//!
//! A cut costs no cycle: both frames are on their way before it is noticed. One moment is left: a cable
//! that is cut or mended between the passages of the two frames, or an interface that goes down with a
//! frame in its queue. Then a part has processed neither frame, so a frame that devices may process
//! twice (process data, registers read by broadcast, the time) is sent once more, on both interfaces.

use onbeat_rt::frame::{self, Command, LONGEST, word};
use onbeat_rt::time::Instant;

/// Frames in flight; older ones are forgotten.
const MOST: usize = 16;
/// Byte of the source address, and the bit in it, that mark the frame of the second interface.
const MARK: (usize, u8) = (10, 0x80);
/// Offset of the first datagram; bytes around the data of one.
const FIRST: usize = 16;
const HEADER: usize = 10;
/// Age at which a frame is answered by one part alone, in ns.
const ALONE_AFTER_NS: u64 = 200_000;
/// Number of frames without a reply from a part, after which it is not waited for.
const SILENT_AFTER: u8 = 2;
/// Time within which the reply to a frame that was sent again is waited for, in ns.
const REPEAT_WITHIN_NS: u64 = 400_000;
/// Age from which a frame is not sent again, in ns: its cycle is over.
const TOO_OLD_NS: u64 = 20_000_000;

/// Network interface of a MainDevice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nic {
    /// The interface before the first device, to which every segment is connected.
    First,
    /// The interface at the far end of a ring, behind the last device.
    Second,
}

/// State of a ring of cables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RingState {
    /// No reply yet.
    #[default]
    Unknown,
    /// Frames pass all devices from the first interface to the second.
    Closed,
    /// The cable behind this number of devices is cut.
    Cut(u16),
}

/// A frame, and what came back of it.
#[derive(Clone, Debug)]
struct SentFrame {
    sent: Box<[u8; LONGEST]>,
    length: usize,
    sent_at: Instant,
    /// Reply to the part of the first interface, and of the second.
    replies: [Option<Box<[u8; LONGEST]>>; 2],
    spare: [Option<Box<[u8; LONGEST]>>; 2],
    is_over: bool,
    repeat: Repeat,
}

/// Whether a frame may be sent once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeat {
    /// Devices must not process it twice, or it is not worth it any more.
    Never,
    Possible,
    /// It was sent again at this instant.
    Done(Instant),
}

/// The frames of a ring. No function allocates.
#[derive(Clone, Debug)]
pub struct RingMerge {
    frames: Vec<SentFrame>,
    next: usize,
    outgoing: [Box<[u8; LONGEST]>; 2],
    state: RingState,
    /// Whether the frame of the second interface carries the reference time.
    clock_on_second: bool,
    /// Frames without a reply from each part in a row.
    silent: [u8; 2],
    /// Frames that were sent again since one was answered at once.
    repeated_in_row: u8,
    repeated: u64,
    /// Devices that processed a broadcast when the ring was closed.
    devices: u16,
}

impl Default for RingMerge {
    fn default() -> Self {
        Self::new()
    }
}

impl RingMerge {
    /// Creates the memory of a ring.
    #[must_use]
    pub fn new() -> Self {
        let frame = || SentFrame {
            sent: Box::new([0; LONGEST]),
            length: 0,
            sent_at: Instant::default(),
            replies: [None, None],
            spare: [Some(Box::new([0; LONGEST])), Some(Box::new([0; LONGEST]))],
            is_over: true,
            repeat: Repeat::Never,
        };
        Self {
            frames: (0..MOST).map(|_| frame()).collect(),
            next: 0,
            outgoing: [Box::new([0; LONGEST]), Box::new([0; LONGEST])],
            state: RingState::Unknown,
            clock_on_second: false,
            silent: [0; 2],
            repeated_in_row: 0,
            repeated: 0,
            devices: 0,
        }
    }

    /// Returns the number of frames that were sent once more.
    #[must_use]
    pub const fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Returns the state by the replies so far.
    #[must_use]
    pub const fn state(&self) -> RingState {
        self.state
    }

    /// Records a frame that is sent; returns the frames for the first interface and for the second.
    pub fn send(&mut self, frame: &[u8], now: Instant) -> [&[u8]; 2] {
        let length = frame.len().min(LONGEST);
        let one = &mut self.frames[self.next];
        one.drop_replies();
        let number = self.next;
        self.next = (self.next + 1) % MOST;
        one.sent[..length].copy_from_slice(&frame[..length]);
        (one.length, one.sent_at, one.is_over) = (length, now, false);
        one.repeat = if may_be_repeated(frame) { Repeat::Possible } else { Repeat::Never };
        self.address(number)
    }

    /// Writes the frames for both interfaces.
    fn address(&mut self, number: usize) -> [&[u8]; 2] {
        let SentFrame { sent, length, .. } = &self.frames[number];
        let (length, frame) = (*length, &sent[..*length]);
        let left = if let RingState::Cut(left) = self.state { left } else { 0 };
        let is_without_clock = [self.clock_on_second, !self.clock_on_second];
        for (way, out) in self.outgoing.iter_mut().enumerate() {
            out[..length].copy_from_slice(&frame[..length]);
            let out = &mut out[..length];
            let position = if way == 1 { left } else { 0 };
            for at in datagrams(frame) {
                adapt(&mut out[at..at + HEADER], position, is_without_clock[way]);
            }
        }
        self.outgoing[1][MARK.0] ^= MARK.1;
        let [first, second] = &self.outgoing;
        [&first[..length], &second[..length]]
    }

    /// Sends a frame without a whole reply once more, by `send`, when its parts have had the time to
    /// answer. Returns the instant until which the missing replies are worth waiting for, if any.
    ///
    /// Twice in a row at most: a segment that does not answer delays no cycle after that.
    pub fn repeat(&mut self, now: Instant, mut send: impl FnMut(Nic, &[u8])) -> Option<Instant> {
        let mut wait_until = None;
        // The frames of one cycle count once.
        let is_hopeless = self.repeated_in_row >= SILENT_AFTER;
        let repeated_before = self.repeated;
        for number in 0..MOST {
            let one = &self.frames[number];
            let age_ns = now.ns_since(one.sent_at);
            if one.is_over || age_ns >= TOO_OLD_NS {
                continue;
            }
            let has_part = one.replies.iter().any(Option::is_some);
            let until = match one.repeat {
                Repeat::Done(at) => at.plus_ns(REPEAT_WITHIN_NS),
                _ if age_ns < ALONE_AFTER_NS && has_part => one.sent_at.plus_ns(ALONE_AFTER_NS),
                Repeat::Possible if age_ns >= ALONE_AFTER_NS => {
                    if is_hopeless {
                        self.frames[number].repeat = Repeat::Never;
                        continue;
                    }
                    self.repeated += 1;
                    self.frames[number].repeat = Repeat::Done(now);
                    self.frames[number].drop_replies();
                    let [first, second] = self.address(number);
                    send(Nic::First, first);
                    send(Nic::Second, second);
                    now.plus_ns(REPEAT_WITHIN_NS)
                }
                Repeat::Possible | Repeat::Never => continue,
            };
            if until > now {
                wait_until = wait_until.max(Some(until));
            }
        }
        self.repeated_in_row += u8::from(self.repeated > repeated_before);
        wait_until
    }

    /// Takes a frame that arrived on an interface; `buffer` holds its `length` bytes. Returns the
    /// length of the reply in `buffer`, once it is complete. Frames that belong to no sent frame are
    /// passed on as they are.
    pub fn take(&mut self, on: Nic, buffer: &mut [u8], length: usize) -> Option<usize> {
        let length = length.min(buffer.len()).min(LONGEST);
        if length < FIRST + HEADER {
            return Some(length);
        }

        let Some((number, from)) = self.origin(&buffer[..length]) else { return Some(length) };
        let one = &mut self.frames[number];
        restore(&mut buffer[..length], &one.sent[..one.length], from);
        if one.is_over {
            // The frame that passed a closed ring backwards, a part that came too late, or a
            // duplicate of a whole reply.
            let is_whole = from == Nic::First && on == Nic::Second;
            return (is_whole && !matches!(one.repeat, Repeat::Done(_))).then_some(length);
        }

        match (from, on) {
            // Nobody processed it: what counts comes the other way.
            (Nic::Second, Nic::First) => None,
            (Nic::First, Nic::Second) => {
                one.is_over = true;
                let is_first_answer = !matches!(one.repeat, Repeat::Done(_));
                self.repeated_in_row *= u8::from(!is_first_answer);
                self.devices =
                    broadcast_counter(&one.sent[..one.length], buffer).unwrap_or(self.devices);
                self.state = RingState::Closed;
                self.clock_on_second = false;
                self.silent = [0; 2];
                Some(length)
            }
            _ => self.keep(number, from, buffer, length),
        }
    }

    /// Keeps the reply of a part, or merges it with the other one.
    fn keep(
        &mut self,
        number: usize,
        from: Nic,
        buffer: &mut [u8],
        length: usize,
    ) -> Option<usize> {
        let part = from as usize;
        self.silent[part] = 0;
        let one = &mut self.frames[number];
        let mut memory = one.spare[part].take()?;
        memory[..length].copy_from_slice(&buffer[..length]);
        one.replies[part] = Some(memory);

        let counted = broadcast_counter(&one.sent[..one.length], &buffer[..length]);
        // A cut at an end of the ring: the other part has no device.
        let is_all = self.devices > 0 && counted.is_some_and(|counted| counted >= self.devices);
        let other_is_silent = self.silent[1 - part] >= SILENT_AFTER;
        if one.replies[1 - part].is_some() || other_is_silent || is_all {
            return self.deliver(number, buffer);
        }
        None
    }

    /// Returns a reply of one part alone, if the other does not come. `has_waited`: the time for a
    /// reply is over.
    pub fn flush(&mut self, buffer: &mut [u8], now: Instant, has_waited: bool) -> Option<usize> {
        let is_due = |one: &SentFrame| {
            let is_old = match one.repeat {
                Repeat::Done(at) => now >= at.plus_ns(REPEAT_WITHIN_NS),
                Repeat::Possible | Repeat::Never => now >= one.sent_at.plus_ns(ALONE_AFTER_NS),
            };
            !one.is_over && one.replies.iter().any(Option::is_some) && (has_waited || is_old)
        };
        let number =
            (0..MOST).map(|ago| (self.next + ago) % MOST).find(|at| is_due(&self.frames[*at]))?;
        for part in 0..2 {
            if self.frames[number].replies[part].is_none() {
                self.silent[part] = self.silent[part].saturating_add(1);
            }
        }
        self.deliver(number, buffer)
    }

    /// Writes the merged reply into `buffer`, and learns where the ring is cut.
    fn deliver(&mut self, number: usize, buffer: &mut [u8]) -> Option<usize> {
        let Self { frames, state, clock_on_second, repeated_in_row, .. } = self;
        let one = &mut frames[number];
        one.is_over = true;
        if one.replies.iter().all(Option::is_some) && !matches!(one.repeat, Repeat::Done(_)) {
            *repeated_in_row = 0;
        }
        let length = one.length.min(buffer.len());
        let sent = &one.sent[..length];
        let parts = one.replies.each_ref().map(|part| part.as_ref().map(|bytes| &bytes[..length]));
        buffer[..length].copy_from_slice(parts[0].or(parts[1])?);
        buffer[MARK.0] = sent[MARK.0];

        for at in datagrams(sent) {
            let command = sent[at];
            let bytes = usize::from(word(sent, at + 6) & 0x07ff);
            let data = at + HEADER..at + HEADER + bytes;
            let counter = data.end..data.end + 2;
            let counts = parts.map(|part| part.map_or(0, |part| word(part, counter.start)));
            for byte in data {
                let changed =
                    parts.iter().flatten().fold(0, |bits, part| bits | (part[byte] ^ sent[byte]));
                buffer[byte] = sent[byte] ^ changed;
            }
            let sum = counts[0].saturating_add(counts[1]);
            buffer[counter].copy_from_slice(&sum.to_le_bytes());

            if command == Command::Brd as u8 {
                *state = RingState::Cut(counts[0]);
            }
            let distributes = [Command::Frmw as u8, Command::Armw as u8].contains(&command);
            if distributes && sum == 0 {
                *clock_on_second = !*clock_on_second;
            }
        }
        Some(length)
    }

    /// Finds the sent frame of a reply, and on which interface it was sent. Replies of the devices
    /// differ from `sent` in what [`RingMerge::send`] adapts.
    fn origin(&self, reply: &[u8]) -> Option<(usize, Nic)> {
        // The latest first: numbers come again.
        let order = (1..=MOST).map(|ago| (self.next + MOST - ago) % MOST);
        order.into_iter().find_map(|number| {
            let one = &self.frames[number];
            let sent = &one.sent[..one.length];
            if one.length == 0
                || reply.len() < one.length
                || reply[7..10] != sent[7..10]
                || reply[11..FIRST] != sent[11..FIRST]
            {
                return None;
            }
            let from = match reply[MARK.0] ^ sent[MARK.0] {
                0 => Nic::First,
                bits if bits == MARK.1 => Nic::Second,
                _ => return None,
            };
            let is_same = datagrams(sent).all(|at| {
                let is_command = reply[at] == sent[at] || reply[at] == Command::Nop as u8;
                is_command
                    && reply[at + 1] == sent[at + 1]
                    && (word(reply, at + 6) ^ word(sent, at + 6)) & !0x4000 == 0
            });
            is_same.then_some((number, from))
        })
    }
}

impl SentFrame {
    fn drop_replies(&mut self) {
        for (reply, spare) in self.replies.iter_mut().zip(&mut self.spare) {
            if let Some(reply) = reply.take() {
                *spare = Some(reply);
            }
        }
    }
}

/// Returns the working counter of the first read by broadcast in a reply.
fn broadcast_counter(sent: &[u8], reply: &[u8]) -> Option<u16> {
    let at = datagrams(sent).find(|at| sent[*at] == Command::Brd as u8)?;
    let bytes = usize::from(word(sent, at + 6) & 0x07ff);
    Some(word(reply, at + HEADER + bytes))
}

/// Returns whether devices may process a frame twice: process data, registers that are read of all,
/// and the time. Mails and writes to single devices are not repeated here: who sent them does.
fn may_be_repeated(frame: &[u8]) -> bool {
    const COMMANDS: [Command; 4] = [Command::Lrw, Command::Brd, Command::Frmw, Command::Armw];
    let is_harmless = |at: usize| COMMANDS.iter().any(|command| *command as u8 == frame[at]);
    datagrams(frame).count() > 0 && datagrams(frame).all(is_harmless)
}

/// Offsets of the datagrams of a frame.
fn datagrams(frame: &[u8]) -> impl Iterator<Item = usize> {
    let mut next = Some(FIRST);
    std::iter::from_fn(move || {
        let at = next.filter(|at| at + HEADER + 2 <= frame.len())?;
        let length = word(frame, at + 6);
        let end = at + HEADER + usize::from(length & 0x07ff) + 2;
        if end > frame.len() {
            next = None;
            return None;
        }
        next = (length & 0x8000 != 0).then_some(end);
        Some(at)
    })
}

/// Adapts the header of a datagram to a part: positions start behind the first `left` devices, and
/// a frame without the clock passes by it.
fn adapt(header: &mut [u8], left: u16, is_without_clock: bool) {
    let is_clock = [Command::Frmw as u8, Command::Armw as u8].contains(&header[0]);
    let is_positional =
        [Command::Aprd as u8, Command::Apwr as u8, Command::Aprw as u8].contains(&header[0]);
    if is_clock && is_without_clock {
        header[0] = Command::Nop as u8;
    } else if is_positional {
        let position = word(header, 2).wrapping_add(left);
        header[2..4].copy_from_slice(&position.to_le_bytes());
    }
}

/// Undoes in a reply what was adapted for its part, except positions, which devices change anyway.
fn restore(reply: &mut [u8], sent: &[u8], from: Nic) {
    if from == Nic::Second {
        reply[MARK.0] ^= MARK.1;
    }
    for at in datagrams(sent) {
        reply[at] = sent[at];
    }
    debug_assert!(frame::is_reply_to(reply, sent));
}

#[cfg(test)]
mod tests {
    use onbeat_rt::frame::{Writer, position, register};

    use super::*;

    /// A frame with a count of devices, a position, the clock, and two bytes of process data.
    fn frame() -> (Vec<u8>, [usize; 4]) {
        let mut buffer = vec![0; LONGEST];
        let mut writer = Writer::new(&mut buffer, 1);
        let at = [
            writer.push(Command::Brd, register(0, 0x0130), 2).unwrap(),
            writer.push(Command::Aprd, register(position(3), 0x0010), 2).unwrap(),
            writer.push(Command::Frmw, register(0x4000, 0x0910), 8).unwrap(),
            writer.push_data(Command::Lrw, 0, &[0x11, 0x22]).unwrap(),
        ];
        let length = writer.finish();
        buffer.truncate(length);
        (buffer, at)
    }

    fn processed(frame: &[u8], at: usize, data: &[u8], counter: u16) -> Vec<u8> {
        let mut reply = frame.to_vec();
        reply[6] |= 2;
        reply[at..at + data.len()].copy_from_slice(data);
        reply[at + data.len()..at + data.len() + 2].copy_from_slice(&counter.to_le_bytes());
        reply
    }

    #[test]
    fn a_closed_ring_is_answered_by_the_frame_that_passed_all_devices() {
        let mut ring = RingMerge::new();
        let (frame, at) = frame();
        let [first, second] = ring.send(&frame, Instant::from_ns(0)).map(<[u8]>::to_vec);
        let mut buffer = [0; LONGEST];

        buffer[..second.len()].copy_from_slice(&second);
        assert_eq!(
            ring.take(Nic::First, &mut buffer, second.len()),
            None,
            "backwards, unprocessed"
        );
        let reply = processed(&first, at[3], &[0x33, 0x44], 3);
        buffer[..reply.len()].copy_from_slice(&reply);
        assert_eq!(ring.take(Nic::Second, &mut buffer, reply.len()), Some(reply.len()));
        assert_eq!(buffer[..reply.len()], reply);
        assert_eq!(ring.state(), RingState::Closed);
    }

    #[test]
    fn two_parts_are_merged_bit_by_bit_with_the_sum_of_their_counters() {
        let mut ring = RingMerge::new();
        let (frame, at) = frame();
        let [first, second] = ring.send(&frame, Instant::from_ns(0)).map(<[u8]>::to_vec);
        let mut buffer = [0; LONGEST];
        let left = processed(&processed(&first, at[0], &[8, 0], 2), at[3], &[0x13, 0x22], 3);
        buffer[..left.len()].copy_from_slice(&left);
        assert_eq!(ring.take(Nic::First, &mut buffer, left.len()), None);

        let right = processed(&processed(&second, at[0], &[4, 0], 1), at[3], &[0x11, 0xa2], 1);
        buffer[..right.len()].copy_from_slice(&right);
        assert_eq!(ring.take(Nic::Second, &mut buffer, right.len()), Some(frame.len()));

        assert_eq!(buffer[at[0]], 12, "states by OR");
        assert_eq!(buffer[at[3]..at[3] + 4], [0x13, 0xa2, 4, 0]);
        assert_eq!(ring.state(), RingState::Cut(2));
        assert!(frame::is_reply_to(&buffer[..frame.len()], &frame));
    }

    #[test]
    fn behind_a_cut_positions_start_anew_and_the_clock_has_one_source() {
        let mut ring = RingMerge::new();
        ring.state = RingState::Cut(2);
        let (frame, at) = frame();
        let [first, second] = ring.send(&frame, Instant::from_ns(0)).map(<[u8]>::to_vec);

        assert_eq!(word(&first, at[1] - 8), position(3));
        assert_eq!(
            word(&second, at[1] - 8),
            position(1),
            "the fourth device is the second behind the cut"
        );
        assert_eq!((first[at[2] - 10], second[at[2] - 10]), (Command::Frmw as u8, 0));
    }

    #[test]
    fn a_part_without_a_reply_is_waited_for_twice() {
        let mut ring = RingMerge::new();
        let (frame, at) = frame();
        let mut buffer = [0; LONGEST];
        for cycle in 0..4u64 {
            let now = Instant::from_ns(cycle * 1_000_000);
            let [first, _] = ring.send(&frame, now).map(<[u8]>::to_vec);
            let left = processed(&first, at[0], &[8, 0], 4);
            buffer[..left.len()].copy_from_slice(&left);
            let at_once = ring.take(Nic::First, &mut buffer, left.len());
            assert_eq!(at_once.is_some(), cycle >= 2, "cycle {cycle}");
            if at_once.is_none() {
                assert_eq!(ring.flush(&mut buffer, now, false), None, "it may still come");
                assert!(ring.flush(&mut buffer, now.plus_ns(ALONE_AFTER_NS), false).is_some());
            }
        }
        assert_eq!(ring.state(), RingState::Cut(4));
    }

    /// A frame of process data alone.
    fn process_data() -> (Vec<u8>, usize) {
        let mut buffer = vec![0; LONGEST];
        let mut writer = Writer::new(&mut buffer, 1);
        let at = writer.push_data(Command::Lrw, 0, &[0x11, 0x22]).unwrap();
        let length = writer.finish();
        buffer.truncate(length);
        (buffer, at)
    }

    fn take(ring: &mut RingMerge, on: Nic, frame: &[u8]) -> Option<Vec<u8>> {
        let mut buffer = vec![0; LONGEST];
        buffer[..frame.len()].copy_from_slice(frame);
        let length = ring.take(on, &mut buffer, frame.len())?;
        Some(buffer[..length].to_vec())
    }

    #[test]
    fn a_cable_cut_between_the_two_frames_makes_both_leave_once_more() {
        let mut ring = RingMerge::new();
        let (frame, at) = process_data();
        let [first, second] = ring.send(&frame, Instant::from_ns(0)).map(<[u8]>::to_vec);
        assert_eq!(take(&mut ring, Nic::First, &second), None, "backwards through a closed ring");
        let left = processed(&first, at, &[0x13, 0x22], 3);
        assert_eq!(take(&mut ring, Nic::First, &left), None, "then the cable was cut");

        let mut again = Vec::new();
        let mut repeat = |ring: &mut RingMerge, at_ns| {
            ring.repeat(Instant::from_ns(at_ns), |nic, frame| again.push((nic, frame.to_vec())))
        };
        assert_eq!(repeat(&mut ring, 1_000), Some(Instant::from_ns(ALONE_AFTER_NS)));
        assert_eq!(repeat(&mut ring, 900_000), Some(Instant::from_ns(900_000 + REPEAT_WITHIN_NS)));
        assert_eq!(again, [(Nic::First, first.clone()), (Nic::Second, second.clone())]);

        assert_eq!(take(&mut ring, Nic::First, &left), None);
        let right = processed(&second, at, &[0x11, 0x62], 3);
        let whole = take(&mut ring, Nic::Second, &right).unwrap();
        assert_eq!(whole[at..at + 4], [0x13, 0x62, 6, 0]);
        assert_eq!(ring.repeated(), 1);
    }

    #[test]
    fn a_ring_that_does_not_answer_is_asked_again_twice_and_delays_nothing_after_that() {
        let mut ring = RingMerge::new();
        let (frame, _) = process_data();
        let mut sent_again = 0;
        for cycle in 0..10u64 {
            ring.send(&frame, Instant::from_ns(cycle * 1_000_000));
            let now = Instant::from_ns((cycle + 1) * 1_000_000 - 1);
            let wait = ring.repeat(now, |_, _| sent_again += 1);
            assert_eq!(wait.is_some(), cycle < 2, "cycle {cycle}");
            assert_eq!(ring.repeat(now.plus_ns(REPEAT_WITHIN_NS), |_, _| sent_again += 1), None);
        }
        assert_eq!(sent_again, 4);
    }

    #[test]
    fn a_mail_is_not_sent_again_by_the_ring() {
        let mut ring = RingMerge::new();
        let mut buffer = vec![0; LONGEST];
        let mut writer = Writer::new(&mut buffer, 1);
        writer.push_data(Command::Fpwr, register(0x1000, 0x1000), &[0; 16]).unwrap();
        let length = writer.finish();
        ring.send(&buffer[..length], Instant::from_ns(0));
        let repeated = ring.repeat(Instant::from_ns(900_000), |_, _| panic!("a mail was repeated"));
        assert_eq!(repeated, None);
    }
}
