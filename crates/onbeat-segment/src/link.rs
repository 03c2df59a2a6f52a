//! The way between the MainDevice and the segment, with time and with what goes wrong on it.
//!
//! A carrier gives frames to [`Link::send`] and takes them from [`Link::receive`] once they have arrived; all faults of the segment's
//! file happen here at their times, and each is logged. Frames on their way have room for [`Link::ROOM`] of them, fixed at set-up.

use onbeat_rt::time::Instant;
use serde::{Deserialize, Serialize};

use super::fault::Fault;
use super::fault_words::fault_of;
use super::segment::{Nic, Passage, Segment};
use onbeat_ethercat::description::{Description, DescriptionError};

/// Longest Ethernet frame without its checksum, with a VLAN tag.
const LONGEST_FRAME: usize = 1518;
/// Entries of the log; later ones are counted only.
const LOG: usize = 65_536;
/// A frame held back for the next one waits this long for it.
const HELD_NS: u64 = 10_000_000;

/// One line of the log: a fault began, ended, or befell a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Logged {
    /// When, by the carrier's clock.
    pub at: Instant,
    /// Frames sent before.
    pub frame: u64,
    /// What.
    pub fault: Fault,
    /// What happened.
    pub what: Happening,
}

/// What a line of the log tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// From now on.
    Begins,
    /// No more.
    Ends,
    /// To the frame just sent.
    Befalls,
    /// There is no such device, or it cannot have this fault.
    Impossible,
}

/// Frames and faults, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkCounts {
    /// Frames sent.
    pub sent: u64,
    /// Frames that came back, duplicates included.
    pub received: u64,
    /// Frames that faults took.
    pub lost: u64,
    /// Frames that devices or a cut cable took.
    pub swallowed: u64,
    /// Frames for which there was no room.
    pub no_room: u64,
    /// Lines for which the log had no room.
    pub not_logged: u64,
}

#[derive(Clone, Debug)]
struct Planned {
    fault: Fault,
    from_ns: u64,
    until_ns: u64,
    share: f64,
    begun: bool,
    over: bool,
}

#[derive(Clone, Debug)]
struct OnItsWay {
    arrives_ns: u64,
    number: u64,
    nic: Nic,
    length: usize,
    bytes: Box<[u8]>,
    /// Waits for the next frame.
    held: bool,
    /// Devices took down when it passed them.
    is_timed: bool,
}

/// A segment at the end of a cable.
#[derive(Clone, Debug)]
pub struct Link {
    segment: Segment,
    plan: Vec<Planned>,
    random: fastrand::Rng,
    frames: Vec<OnItsWay>,
    /// How many of them wait for the next one, at most.
    held: usize,
    counts: LinkCounts,
    log: Vec<Logged>,
    began_ns: Option<u64>,
}

impl Link {
    /// Frames that can be on their way at once.
    pub const ROOM: usize = 64;

    /// Makes segment and faults of a file. Times of faults count from the first frame.
    ///
    /// # Errors
    /// [`DescriptionError`] says what in the file makes no segment, or which fault is none.
    pub fn from_toml(text: &str) -> Result<Self, DescriptionError> {
        Self::of(&Description::from_toml(text)?)
    }

    /// Makes what was told: segment and faults.
    ///
    /// # Errors
    /// [`DescriptionError`] as for [`Link::from_toml`].
    pub fn of(description: &Description) -> Result<Self, DescriptionError> {
        let mut link = Self::to(Segment::of(description)?);
        for table in &description.faults {
            let find = |name: &String| {
                let unknown =
                    || DescriptionError::UnknownFaultDevice { fault: table.kind.clone(), device: name.clone() };
                link.segment.find(name).ok_or_else(unknown)
            };

            let device = table.device.as_ref().map(find).transpose()?;
            let with = table.with.as_ref().map(find).transpose()?;
            let fault =
                fault_of(table, device, with).ok_or_else(|| DescriptionError::UnknownFault(table.kind.clone()))?;
            let at_ns = |ms: f64| (ms.max(0.0) * 1e6) as u64;
            let from_ns = at_ns(table.at_ms);
            let until_ns = table.for_ms.map_or(u64::MAX, |ms| from_ns.saturating_add(at_ns(ms)));
            let share = table.share.clamp(0.0, 1.0);
            link.plan.push(Planned { fault, from_ns, until_ns, share, begun: false, over: false });
        }

        Ok(link)
    }

    /// A link without planned faults.
    #[must_use]
    pub fn to(segment: Segment) -> Self {
        let random = fastrand::Rng::with_seed(segment.seed() ^ 0x006c_696e_6b00);
        Self {
            segment,
            plan: Vec::with_capacity(64),
            random,
            frames: Vec::with_capacity(Self::ROOM),
            held: 0,
            counts: LinkCounts::default(),
            log: Vec::with_capacity(LOG),
            began_ns: None,
        }
        .with_room()
    }

    fn with_room(mut self) -> Self {
        let free = |_| OnItsWay {
            arrives_ns: u64::MAX,
            number: 0,
            nic: Nic::First,
            length: 0,
            bytes: vec![0; LONGEST_FRAME].into_boxed_slice(),
            held: false,
            is_timed: false,
        };

        self.frames.extend((0..Self::ROOM).map(free));
        self
    }

    /// The segment at the end.
    #[must_use]
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// The segment at the end, to set values in or to look after between frames.
    pub fn segment_mut(&mut self) -> &mut Segment {
        &mut self.segment
    }

    /// Counts so far.
    #[must_use]
    pub fn counts(&self) -> LinkCounts {
        self.counts
    }

    /// What went wrong so far, in order.
    #[must_use]
    pub fn log(&self) -> &[Logged] {
        &self.log
    }

    /// The lines of the log, taken out, so that it has room again.
    pub fn drain_log(&mut self) -> impl Iterator<Item = Logged> {
        self.log.drain(..)
    }

    /// Faults that are there or still to come, and whether they have begun.
    pub fn faults(&self) -> impl Iterator<Item = (Fault, bool)> {
        self.plan.iter().filter(|planned| !planned.over).map(|planned| (planned.fault, planned.begun))
    }

    /// Plans a fault from `now` on, for so long (`None`: until [`Link::heal`]), for a part of the frames (0 to 1; faults of devices
    /// do not look at it).
    pub fn inject(&mut self, fault: Fault, now: Instant, for_ns: Option<u64>, share: f64) {
        self.inject_in(fault, now, (0, for_ns), share);
    }

    /// The same, in so many ns from `now` on.
    pub(crate) fn inject_in(&mut self, fault: Fault, now: Instant, (in_ns, for_ns): (u64, Option<u64>), share: f64) {
        let began_ns = *self.began_ns.get_or_insert(now.as_ns());
        let from_ns = now.as_ns().saturating_sub(began_ns).saturating_add(in_ns);
        let until_ns = for_ns.map_or(u64::MAX, |for_ns| from_ns.saturating_add(for_ns));
        self.plan.retain(|planned| !planned.over);
        self.plan.push(Planned { fault, from_ns, until_ns, share, begun: false, over: false });
    }

    /// Ends all faults that are there at `now`, and forgets the planned ones.
    pub fn heal(&mut self, now: Instant) {
        let since_ns = now.as_ns().saturating_sub(self.began_ns.unwrap_or_default());
        for planned in &mut self.plan {
            planned.until_ns = planned.until_ns.min(since_ns);
            planned.over |= !planned.begun;
        }

        self.advance(now);
        self.plan.clear();
    }

    /// Lets faults begin and end, and devices work, until `now`.
    pub fn advance(&mut self, now: Instant) {
        let since_ns = now.as_ns().saturating_sub(*self.began_ns.get_or_insert(now.as_ns()));
        for number in 0..self.plan.len() {
            let Planned { fault, from_ns, until_ns, begun, over, .. } = self.plan[number];
            if !begun && !over && from_ns <= since_ns {
                self.segment.advance(Instant::from_ns(now.as_ns() - (since_ns - from_ns)));
                let possible = fault.is_of_frames() || self.segment.begin(&fault);
                self.plan[number].begun = true;
                self.plan[number].over = !possible || fault.is_momentary();
                self.note(now, fault, if possible { Happening::Begins } else { Happening::Impossible });
            }

            if self.plan[number].begun && !self.plan[number].over && until_ns <= since_ns {
                self.segment.advance(Instant::from_ns(now.as_ns() - (since_ns - until_ns)));
                if !fault.is_of_frames() {
                    self.segment.end(&fault);
                }
                self.plan[number].over = true;
                self.note(now, fault, Happening::Ends);
            }
        }

        self.segment.advance(now);
    }

    fn note(&mut self, at: Instant, fault: Fault, what: Happening) {
        if self.log.len() < LOG {
            self.log.push(Logged { at, frame: self.counts.sent, fault, what });
        } else {
            self.counts.not_logged += 1;
        }
    }

    /// Sends a frame at `now`. Frames longer than 1518 bytes, of which a VLAN tag has four, are counted as lost.
    pub fn send(&mut self, nic: Nic, frame: &[u8], now: Instant) {
        self.advance(now);
        let fate = self.fate(now);
        self.counts.sent += 1;
        if fate.lost_before {
            self.counts.lost += 1;
            return;
        }

        let Some(place) = self.frames.iter().position(|frame| frame.arrives_ns == u64::MAX) else {
            self.counts.no_room += 1;
            return;
        };
        if frame.len() > LONGEST_FRAME {
            self.counts.lost += 1;
            return;
        }

        let slot = &mut self.frames[place];
        slot.length = frame.len();
        slot.bytes[..frame.len()].copy_from_slice(frame);
        let Passage::Back { nic, after_ns, is_timed } =
            self.segment.frame_from(nic, &mut slot.bytes[..frame.len()], now)
        else {
            self.counts.swallowed += 1;
            return;
        };

        if fate.lost_behind {
            self.counts.lost += 1;
            return;
        }

        slot.nic = nic;
        slot.number = self.counts.sent;
        slot.arrives_ns = now.as_ns() + after_ns + fate.late_ns;
        (slot.held, slot.is_timed) = (fate.held, is_timed);
        if fate.held {
            slot.arrives_ns += HELD_NS;
        }

        self.damage(place, fate);
        if self.held > 0 {
            self.let_go(now.as_ns() + after_ns);
        }

        self.held += usize::from(fate.held);
        if fate.twice {
            self.copy(place);
        }
    }

    /// Frames that waited for the one just sent arrive behind it.
    fn let_go(&mut self, arrives_ns: u64) {
        for other in &mut self.frames {
            if other.held && other.number < self.counts.sent && other.arrives_ns != u64::MAX {
                other.held = false;
                other.arrives_ns = other.arrives_ns.min(arrives_ns + 1);
            }
        }
        self.held = 0;
    }

    fn damage(&mut self, place: usize, fate: Fate) {
        let slot = &mut self.frames[place];
        if fate.cut {
            slot.length = self.random.usize(14..slot.length.max(15));
        }

        if fate.flipped && slot.length > 14 {
            let at = self.random.usize(14..slot.length);
            slot.bytes[at] ^= 1 << self.random.u8(0..8);
        }
    }

    fn copy(&mut self, place: usize) {
        let Some(free) = self.frames.iter().position(|frame| frame.arrives_ns == u64::MAX) else {
            self.counts.no_room += 1;
            return;
        };
        let [from, to] = match self.frames.get_disjoint_mut([place, free]) {
            Ok(pair) => pair,
            Err(_) => return,
        };

        to.bytes[..from.length].copy_from_slice(&from.bytes[..from.length]);
        (to.length, to.nic, to.number, to.held) = (from.length, from.nic, from.number, false);
        to.is_timed = from.is_timed;
        to.arrives_ns = from.arrives_ns + 1;
    }

    /// Throws the dice for one frame.
    fn fate(&mut self, now: Instant) -> Fate {
        let mut fate = Fate::default();
        for number in 0..self.plan.len() {
            let Planned { fault, share, begun, over, .. } = self.plan[number];
            if !begun || over || !fault.is_of_frames() || (share < 1.0 && self.random.f64() >= share) {
                continue;
            }

            match fault {
                Fault::Lose if self.random.bool() => fate.lost_before = true,
                Fault::Lose => fate.lost_behind = true,
                Fault::Late { by_ns } => fate.late_ns += by_ns,
                Fault::Duplicate => fate.twice = true,
                Fault::Reorder => fate.held = true,
                Fault::Truncate => fate.cut = true,
                _ => fate.flipped = true,
            }

            self.note(now, fault, Happening::Befalls);
        }

        fate
    }

    /// When the next frame arrives.
    #[must_use]
    pub fn next_arrival(&self) -> Option<Instant> {
        let first = self.frames.iter().map(|frame| frame.arrives_ns).min().filter(|&at| at != u64::MAX);
        first.map(Instant::from_ns)
    }

    /// The earliest frame that has arrived until `now`, copied into `buffer`: its length and the interface it came to.
    pub fn receive(&mut self, now: Instant, buffer: &mut [u8]) -> Option<(Nic, usize)> {
        self.receive_early(now, 0, buffer)
    }

    /// The same, with frames that arrive within `early_ns` from `now` on. One by which devices took down when it passed them is not among
    /// those: who reckons with its travel time may not find that it came back faster than cables allow.
    pub fn receive_early(&mut self, now: Instant, early_ns: u64, buffer: &mut [u8]) -> Option<(Nic, usize)> {
        let until = |frame: &OnItsWay| now.as_ns().saturating_add(if frame.is_timed { 0 } else { early_ns });
        let arrived = self.frames.iter_mut().filter(|frame| frame.arrives_ns <= until(frame));
        let frame = arrived.min_by_key(|frame| (frame.arrives_ns, frame.number))?;
        frame.arrives_ns = u64::MAX;
        let length = frame.length.min(buffer.len());
        buffer[..length].copy_from_slice(&frame.bytes[..length]);
        self.counts.received += 1;

        Some((frame.nic, length))
    }
}

/// What befalls one frame.
#[derive(Clone, Copy, Debug, Default)]
struct Fate {
    lost_before: bool,
    lost_behind: bool,
    late_ns: u64,
    twice: bool,
    held: bool,
    cut: bool,
    flipped: bool,
}
