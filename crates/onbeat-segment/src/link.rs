//! The link between a MainDevice and a segment, with propagation delays and faults.
//!
//! A carrier passes frames to [`Link::send`] and takes them from [`Link::receive`] once they have
//! arrived. The faults of the segment file are injected here at their times and logged. Up to
//! [`Link::ROOM`] frames can be in flight, with memory allocated at set-up.

use onbeat_ethercat::description::FaultTable;
use onbeat_ethercat::ring::Nic;
use onbeat_rt::time::Instant;
use serde::{Deserialize, Serialize};

use super::fault::Fault;
use super::segment::{Passage, Segment};

/// Longest Ethernet frame without its checksum, with a VLAN tag.
const LONGEST_FRAME: usize = 1518;
/// Most entries of the log; further ones are only counted.
const LOG: usize = 65_536;
/// Longest time that a reordered frame waits for the next one.
const HELD_NS: u64 = 10_000_000;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FaultLogEntry {
    /// Time on the carrier's clock.
    pub at: Instant,
    /// Number of frames sent before.
    pub frame: u64,
    pub fault: Fault,
    /// What happened.
    pub what: FaultChange,
}

/// What an entry of the fault log reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultChange {
    /// The fault began.
    Begins,
    /// The fault ended.
    Ends,
    /// The fault affects the frame that was just sent.
    Affects,
    /// The device does not exist or cannot have the fault.
    Impossible,
}

/// Counters of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkCounts {
    /// Frames sent.
    pub sent: u64,
    /// Frames that returned, including duplicates.
    pub received: u64,
    /// Frames lost by faults.
    pub lost: u64,
    /// Frames lost in devices or at a cut cable.
    pub swallowed: u64,
    /// Frames lost because too many were in flight.
    pub no_room: u64,
    /// Entries lost because the log was full.
    pub not_logged: u64,
}

/// Start and duration of a fault.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FaultTimes {
    /// Time until the start, in ns.
    pub(crate) in_ns: u64,
    /// Duration in ns; `None`: until healed.
    pub(crate) for_ns: Option<u64>,
}

impl From<&FaultTable> for FaultTimes {
    fn from(table: &FaultTable) -> Self {
        let ns = |ms: f64| (ms.max(0.0) * 1e6) as u64;
        Self { in_ns: ns(table.at_ms), for_ns: table.for_ms.map(ns) }
    }
}

#[derive(Clone, Debug)]
struct PlannedFault {
    fault: Fault,
    from_ns: u64,
    until_ns: u64,
    share: f64,
    begun: bool,
    over: bool,
}

#[derive(Clone, Debug)]
struct FrameInFlight {
    arrives_ns: u64,
    number: u64,
    nic: Nic,
    length: usize,
    bytes: Box<[u8]>,
    /// Reordered: waits for the next frame.
    held: bool,
    /// Devices latched receive times when it passed them.
    is_timed: bool,
}

/// A simulated segment with the faults of frames and cables.
///
/// ```
/// use onbeat_segment::{Fault, Instant, Link, Nic, Segment};
///
/// let mut link = Link::from_toml(Segment::HUMANOID)?;
/// link.inject(Fault::Lose, Instant::from_ns(0), None, 1.0);
/// link.send(Nic::First, &[0; 60], Instant::from_ns(1_000));
/// assert_eq!((link.counts().sent, link.counts().received), (1, 0));
/// # Ok::<(), onbeat_segment::DescriptionError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Link {
    segment: Segment,
    plan: Vec<PlannedFault>,
    random: fastrand::Rng,
    frames: Vec<FrameInFlight>,
    /// Upper bound of the number of held frames.
    held: usize,
    counts: LinkCounts,
    log: Vec<FaultLogEntry>,
    began_ns: Option<u64>,
}

impl Link {
    /// Largest number of frames in flight.
    pub const ROOM: usize = 64;

    /// Creates a link without planned faults.
    #[must_use]
    pub fn new(segment: Segment) -> Self {
        let random = fastrand::Rng::with_seed(segment.seed() ^ 0x006c_696e_6b00);
        let free = |_| FrameInFlight {
            arrives_ns: u64::MAX,
            number: 0,
            nic: Nic::First,
            length: 0,
            bytes: vec![0; LONGEST_FRAME].into_boxed_slice(),
            held: false,
            is_timed: false,
        };

        Self {
            segment,
            plan: Vec::with_capacity(64),
            random,
            frames: (0..Self::ROOM).map(free).collect(),
            held: 0,
            counts: LinkCounts::default(),
            log: Vec::with_capacity(LOG),
            began_ns: None,
        }
    }

    /// Returns the segment.
    #[must_use]
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Returns the segment, for example to set values.
    pub fn segment_mut(&mut self) -> &mut Segment {
        &mut self.segment
    }

    /// Returns the counters.
    #[must_use]
    pub fn counts(&self) -> LinkCounts {
        self.counts
    }

    /// Returns the fault log.
    #[must_use]
    pub fn log(&self) -> &[FaultLogEntry] {
        &self.log
    }

    /// Takes the entries out of the fault log.
    pub fn drain_log(&mut self) -> impl Iterator<Item = FaultLogEntry> {
        self.log.drain(..)
    }

    /// Returns active and planned faults, and whether they have begun.
    pub fn faults(&self) -> impl Iterator<Item = (Fault, bool)> {
        self.plan
            .iter()
            .filter(|planned| !planned.over)
            .map(|planned| (planned.fault, planned.begun))
    }

    /// Injects a fault from `now` on, for `for_ns` (`None`: until [`Link::heal`]). `share` is the
    /// fraction of frames affected, 0 to 1; faults of devices ignore it.
    ///
    /// ```
    /// use onbeat_segment::{Fault, Instant, Link};
    ///
    /// let mut link = Link::from_toml(onbeat_segment::Segment::HUMANOID)?;
    /// // Every second frame is lost for 10 ms.
    /// link.inject(Fault::Lose, Instant::from_ns(0), Some(10_000_000), 0.5);
    /// assert_eq!(link.faults().count(), 1);
    /// link.heal(Instant::from_ns(1_000_000));
    /// assert_eq!(link.faults().count(), 0);
    /// # Ok::<(), onbeat_segment::DescriptionError>(())
    /// ```
    pub fn inject(&mut self, fault: Fault, now: Instant, for_ns: Option<u64>, share: f64) {
        self.plan_fault(fault, now, FaultTimes { in_ns: 0, for_ns }, share);
    }

    /// Plans a fault relative to `now`.
    pub(crate) fn plan_fault(&mut self, fault: Fault, now: Instant, times: FaultTimes, share: f64) {
        let began_ns = *self.began_ns.get_or_insert(now.as_ns());
        let in_ns = now.as_ns().saturating_sub(began_ns).saturating_add(times.in_ns);
        self.plan.retain(|planned| !planned.over);
        self.plan_since_start(fault, FaultTimes { in_ns, ..times }, share);
    }

    /// Plans a fault relative to the first frame.
    pub(crate) fn plan_since_start(&mut self, fault: Fault, times: FaultTimes, share: f64) {
        let FaultTimes { in_ns: from_ns, for_ns } = times;
        let until_ns = for_ns.map_or(u64::MAX, |for_ns| from_ns.saturating_add(for_ns));
        self.plan.push(PlannedFault { fault, from_ns, until_ns, share, begun: false, over: false });
    }

    /// Ends all active faults at `now` and removes the planned ones.
    pub fn heal(&mut self, now: Instant) {
        let since_ns = now.as_ns().saturating_sub(self.began_ns.unwrap_or_default());
        for planned in &mut self.plan {
            planned.until_ns = planned.until_ns.min(since_ns);
            planned.over |= !planned.begun;
        }

        self.advance(now);
        self.plan.clear();
    }

    /// Advances faults and devices to `now`.
    pub fn advance(&mut self, now: Instant) {
        let since_ns = now.as_ns().saturating_sub(*self.began_ns.get_or_insert(now.as_ns()));
        for number in 0..self.plan.len() {
            let PlannedFault { fault, from_ns, until_ns, begun, over, .. } = self.plan[number];
            if !begun && !over && from_ns <= since_ns {
                self.segment.advance(Instant::from_ns(now.as_ns() - (since_ns - from_ns)));
                let is_possible = fault.is_of_frames() || self.segment.begin(&fault);
                self.plan[number].begun = true;
                self.plan[number].over = !is_possible || fault.is_momentary();
                self.note(
                    now,
                    fault,
                    if is_possible { FaultChange::Begins } else { FaultChange::Impossible },
                );
            }

            if self.plan[number].begun && !self.plan[number].over && until_ns <= since_ns {
                self.segment.advance(Instant::from_ns(now.as_ns() - (since_ns - until_ns)));
                if !fault.is_of_frames() {
                    self.segment.end(&fault);
                }
                self.plan[number].over = true;
                self.note(now, fault, FaultChange::Ends);
            }
        }

        self.segment.advance(now);
    }

    fn note(&mut self, at: Instant, fault: Fault, what: FaultChange) {
        if self.log.len() < LOG {
            self.log.push(FaultLogEntry { at, frame: self.counts.sent, fault, what });
        } else {
            self.counts.not_logged += 1;
        }
    }

    /// Sends a frame at `now`. Frames longer than 1518 bytes, including a VLAN tag, are counted as
    /// lost.
    pub fn send(&mut self, nic: Nic, frame: &[u8], now: Instant) {
        self.advance(now);
        let effects = self.frame_effects(now);
        self.counts.sent += 1;
        let is_destroyed =
            effects.noisy_at.is_some_and(|device| self.segment.count_damaged_frame(nic, device));
        if effects.lost_before || is_destroyed {
            self.counts.lost += 1;
            return;
        }

        let Some(position) = self.free_place() else { return };
        if frame.len() > LONGEST_FRAME {
            self.counts.lost += 1;
            return;
        }

        let slot = &mut self.frames[position];
        slot.length = frame.len();
        slot.bytes[..frame.len()].copy_from_slice(frame);
        let Passage::Back { nic, after_ns, is_timed } =
            self.segment.frame_from(nic, &mut slot.bytes[..frame.len()], now)
        else {
            self.counts.swallowed += 1;
            return;
        };

        if effects.lost_behind {
            self.counts.lost += 1;
            return;
        }

        slot.nic = nic;
        slot.number = self.counts.sent;
        slot.arrives_ns = now.as_ns() + after_ns + effects.late_ns;
        slot.held = effects.held;
        slot.is_timed = is_timed;
        if effects.held {
            slot.arrives_ns += HELD_NS;
        }

        self.damage(position, effects);
        if self.held > 0 {
            self.release_held(now.as_ns() + after_ns);
        }

        self.held += usize::from(effects.held);
        if effects.twice {
            self.duplicate(position);
        }
    }

    /// Returns a free place for a frame; without one, the frame is counted as lost.
    fn free_place(&mut self) -> Option<usize> {
        let place = self.frames.iter().position(|frame| frame.arrives_ns == u64::MAX);
        self.counts.no_room += u64::from(place.is_none());
        place
    }

    /// Makes held frames arrive after the frame that was just sent.
    fn release_held(&mut self, arrives_ns: u64) {
        for other in &mut self.frames {
            if other.held && other.number < self.counts.sent && other.arrives_ns != u64::MAX {
                other.held = false;
                other.arrives_ns = other.arrives_ns.min(arrives_ns + 1);
            }
        }
        self.held = 0;
    }

    fn damage(&mut self, position: usize, effects: FrameEffects) {
        let slot = &mut self.frames[position];
        if effects.cut {
            slot.length = self.random.usize(14..slot.length.max(15));
        }

        if effects.flipped && slot.length > 14 {
            let at = self.random.usize(14..slot.length);
            slot.bytes[at] ^= 1 << self.random.u8(0..8);
        }
    }

    fn duplicate(&mut self, position: usize) {
        let Some(free) = self.free_place() else { return };
        let Ok([from, to]) = self.frames.get_disjoint_mut([position, free]) else { return };
        to.bytes[..from.length].copy_from_slice(&from.bytes[..from.length]);
        to.length = from.length;
        to.nic = from.nic;
        to.number = from.number;
        to.held = false;
        to.is_timed = from.is_timed;
        to.arrives_ns = from.arrives_ns + 1;
    }

    /// Determines the effects of active faults on one frame.
    fn frame_effects(&mut self, now: Instant) -> FrameEffects {
        let mut effects = FrameEffects::default();
        for number in 0..self.plan.len() {
            let PlannedFault { fault, share, begun, over, .. } = self.plan[number];
            if !begun
                || over
                || !fault.is_of_frames()
                || (share < 1.0 && self.random.f64() >= share)
            {
                continue;
            }

            match fault {
                Fault::Lose if self.random.bool() => effects.lost_before = true,
                Fault::Lose => effects.lost_behind = true,
                Fault::Late { by_ns } => effects.late_ns += by_ns,
                Fault::Duplicate => effects.twice = true,
                Fault::Reorder => effects.held = true,
                Fault::Truncate => effects.cut = true,
                Fault::Noise { device } => effects.noisy_at = Some(device),
                _ => effects.flipped = true,
            }

            self.note(now, fault, FaultChange::Affects);
        }

        effects
    }

    /// Returns when the next frame arrives.
    #[must_use]
    pub fn next_arrival(&self) -> Option<Instant> {
        let first =
            self.frames.iter().map(|frame| frame.arrives_ns).min().filter(|&at| at != u64::MAX);
        first.map(Instant::from_ns)
    }

    /// Copies the earliest frame that has arrived by `now` into `buffer`. Returns its interface and
    /// length.
    pub fn receive(&mut self, now: Instant, buffer: &mut [u8]) -> Option<(Nic, usize)> {
        self.receive_early(now, 0, buffer)
    }

    /// Receives as [`Link::receive`], up to `early_ns` before the arrival. Frames that latched
    /// receive times are never received early: their round trip must be consistent with the latched
    /// times.
    pub fn receive_early(
        &mut self,
        now: Instant,
        early_ns: u64,
        buffer: &mut [u8],
    ) -> Option<(Nic, usize)> {
        let until = |frame: &FrameInFlight| {
            now.as_ns().saturating_add(if frame.is_timed { 0 } else { early_ns })
        };
        let arrived = self.frames.iter_mut().filter(|frame| frame.arrives_ns <= until(frame));
        let frame = arrived.min_by_key(|frame| (frame.arrives_ns, frame.number))?;
        frame.arrives_ns = u64::MAX;
        let length = frame.length.min(buffer.len());
        buffer[..length].copy_from_slice(&frame.bytes[..length]);
        self.counts.received += 1;

        Some((frame.nic, length))
    }
}

/// Effects of faults on one frame.
#[derive(Clone, Copy, Debug, Default)]
struct FrameEffects {
    lost_before: bool,
    lost_behind: bool,
    /// The device to whose port 0 the noisy cable leads.
    noisy_at: Option<usize>,
    late_ns: u64,
    twice: bool,
    held: bool,
    cut: bool,
    flipped: bool,
}
