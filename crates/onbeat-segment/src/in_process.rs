//! A simulated segment in the same process, as the [`Wire`] of a MainDevice.

use onbeat_ethercat::ring::{RingMerge, RingState, Way};
use onbeat_ethercat::wire::Wire;
use onbeat_rt::time::{Clock, Instant};

use super::link::Link;
use super::segment::Nic;

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
}

/// Propagation delays up to this are not waited for in real time: a wake-up takes longer.
const EARLY_NS: u64 = 50_000;

impl<C: Clock> InProcess<C> {
    /// Creates a wire on a virtual clock: propagation delays are exact.
    pub fn on_virtual_clock(link: Link, clock: C) -> Self {
        Self { link, clock, early_ns: 0, arrived_at: Instant::default(), ring: None }
    }

    /// Creates a wire on a real clock: propagation delays up to 50 µs are skipped.
    pub fn on_clock(link: Link, clock: C) -> Self {
        Self { link, clock, early_ns: EARLY_NS, arrived_at: Instant::default(), ring: None }
    }

    /// Sends every frame on both interfaces of a segment that is a ring.
    #[must_use]
    pub fn on_ring(self) -> Self {
        Self { ring: Some(RingMerge::new()), ..self }
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

    /// Takes a frame that has arrived.
    fn take(&mut self, buffer: &mut [u8], now: Instant) -> Option<usize> {
        loop {
            let arrived = self.link.next_arrival();
            let (nic, length) = self.link.receive_early(now, self.early_ns, buffer)?;
            self.arrived_at = arrived.unwrap_or(now);
            let Some(ring) = &mut self.ring else { return Some(length) };
            let way = if nic == Nic::First { Way::First } else { Way::Second };
            if let Some(length) = ring.take(way, buffer, length) {
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
        self.link.send(Nic::First, first, now);
        self.link.send(Nic::Second, second, now);
    }

    fn receive(&mut self, buffer: &mut [u8], until: Instant) -> Option<usize> {
        let now = self.clock.now();
        if let Some(length) = self.take(buffer, now) {
            return Some(length);
        }
        if until <= now {
            return self.ring.as_mut()?.flush(buffer, now, false);
        }

        loop {
            let arrives = self.link.next_arrival().filter(|arrives| *arrives <= until);
            // A signal ends the sleep early; the caller checks its deadline again.
            let _ = self.clock.sleep_until(arrives.unwrap_or(until));
            let now = self.clock.now();
            if let Some(length) = self.take(buffer, now) {
                return Some(length);
            }
            // Of a ring, the frame may have been one of two parts.
            if self.ring.is_none() || arrives.is_none() {
                return self.ring.as_mut()?.flush(buffer, now, true);
            }
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
}
