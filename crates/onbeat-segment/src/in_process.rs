//! A simulated segment in the same process, as the [`Wire`] of a MainDevice.

use onbeat_ethercat::ring::{Nic, RingMerge, RingState};
use onbeat_ethercat::wire::Wire;
use onbeat_rt::time::{Clock, Instant};

use super::fault::Fault;
use super::link::Link;

/// A simulated segment in the same process, as the [`Wire`] of a MainDevice.
///
/// ```
/// use onbeat_ethercat::wire::Wire;
/// use onbeat_rt::MockClock;
/// use onbeat_rt::frame::{Command, LONGEST, Writer, register, working_counter};
/// use onbeat_segment::{InProcess, Instant, Link, Segment};
///
/// let link = Link::from_toml(Segment::HUMANOID)?;
/// let mut wire = InProcess::on_virtual_clock(link, MockClock::starting_at(Instant::from_ns(0), |_| 0));
///
/// let mut buffer = [0; LONGEST];
/// let mut writer = Writer::new(&mut buffer, 1);
/// let data_at = writer.push(Command::Brd, register(0, 0x0130), 2).unwrap();
/// let length = writer.finish();
/// wire.send(&buffer[..length]);
///
/// let received = wire.receive(&mut buffer, Instant::from_ns(1_000_000));
/// assert_eq!((received, working_counter(&buffer, data_at, 2)), (Some(60), 59));
/// # Ok::<(), onbeat_segment::DescriptionError>(())
/// ```
#[derive(Clone, Debug)]
pub struct InProcess<C> {
    link: Link,
    clock: C,
    /// Frames that arrive within this time are received at once.
    early_ns: u64,
    /// Arrival of the last frame.
    arrived_at: Instant,
    /// The frames of both interfaces of a ring.
    ring: Option<RingMerge>,
    torn: Option<TornPassage>,
}

/// A frame of a ring whose two copies pass at different times.
#[derive(Clone, Copy, Debug)]
struct TornPassage {
    second_first: bool,
    fault: Option<Fault>,
}

/// Propagation delays up to this are not waited for in real time: a wake-up takes longer.
const EARLY_NS: u64 = 50_000;

impl<C: Clock> InProcess<C> {
    /// Creates a wire on a virtual clock: propagation delays are exact.
    pub fn on_virtual_clock(link: Link, clock: C) -> Self {
        Self { link, clock, early_ns: 0, arrived_at: Instant::default(), ring: None, torn: None }
    }

    /// Creates a wire on a real clock: propagation delays up to 50 µs are skipped.
    pub fn on_clock(link: Link, clock: C) -> Self {
        Self { early_ns: EARLY_NS, ..Self::on_virtual_clock(link, clock) }
    }

    /// Sends every frame on both interfaces of a segment that is a ring.
    #[must_use]
    pub fn on_ring(self) -> Self {
        Self { ring: Some(RingMerge::new()), ..self }
    }

    /// Makes a fault begin, or all faults end, between the two copies of the next frame of a ring.
    /// For tests: on a virtual clock both pass at one instant.
    #[doc(hidden)]
    pub fn tear_next(&mut self, second_first: bool, fault: Option<Fault>) {
        self.torn = Some(TornPassage { second_first, fault });
    }

    /// Returns the segment and its faults.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Returns the segment and its faults for modification.
    pub fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }

    /// Returns the link.
    pub fn into_link(self) -> Link {
        self.link
    }

    /// Returns the clock.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Sends frames of a ring that a part did not process once more.
    fn repeat(&mut self, now: Instant) -> Option<Instant> {
        let Self { ring, link, .. } = self;
        ring.as_mut()?.repeat(now, |nic, frame| link.send(nic, frame, now))
    }

    /// Takes a frame that has arrived.
    fn take(&mut self, buffer: &mut [u8], now: Instant) -> Option<usize> {
        loop {
            let arrived = self.link.next_arrival();
            let (nic, length) = self.link.receive_early(now, self.early_ns, buffer)?;
            self.arrived_at = arrived.unwrap_or(now);
            let Some(ring) = &mut self.ring else { return Some(length) };
            if let Some(length) = ring.take(nic, buffer, length) {
                return Some(length);
            }
        }
    }
}

impl<C: Clock> Wire for InProcess<C> {
    fn send(&mut self, frame: &[u8]) {
        let now = self.clock.now();
        let Some(ring) = &mut self.ring else { return self.link.send(Nic::First, frame, now) };
        let [first, second] = ring.send(frame, now);
        let mut copies = [(Nic::First, first), (Nic::Second, second)];
        let torn = self.torn.take();
        if torn.is_some_and(|torn| torn.second_first) {
            copies.reverse();
        }
        self.link.send(copies[0].0, copies[0].1, now);
        match torn {
            Some(TornPassage { fault: Some(fault), .. }) => self.link.inject(fault, now, None, 1.0),
            Some(_) => self.link.heal(now),
            None => {}
        }
        self.link.send(copies[1].0, copies[1].1, now);
    }

    fn receive(&mut self, buffer: &mut [u8], until: Instant) -> Option<usize> {
        let mut until = until;
        let mut has_waited = false;
        loop {
            let now = self.clock.now();
            if let Some(length) = self.take(buffer, now) {
                return Some(length);
            }
            // A signal ends a sleep early; the caller checks its deadline again.
            if self.ring.is_none() && has_waited {
                return None;
            }
            if now >= until {
                match self.repeat(now).filter(|worth| *worth > now) {
                    Some(worth) => until = worth,
                    None => return self.ring.as_mut()?.flush(buffer, now, has_waited),
                }
            }

            has_waited = true;
            let arrives = self.link.next_arrival().filter(|arrives| *arrives <= until);
            let _ = self.clock.sleep_until(arrives.unwrap_or(until));
        }
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn rest(&mut self) {
        self.link.advance(self.clock.now());
    }

    fn received_at(&self, _: Instant) -> Instant {
        self.arrived_at
    }

    fn ring(&self) -> Option<RingState> {
        self.ring.as_ref().map(RingMerge::state)
    }

    fn repeated(&self) -> u64 {
        self.ring.as_ref().map_or(0, RingMerge::repeated)
    }
}
