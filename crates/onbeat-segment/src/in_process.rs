//! A simulated segment in the same process, as the wire of a MainDevice.

use onbeat_ethercat::wire::Wire;
use onbeat_rt::time::{Clock, Instant};

use crate::{Link, Nic};

/// A simulated segment in the same process.
#[derive(Clone, Debug)]
pub struct InProcess<C> {
    link: Link,
    clock: C,
    /// Frames that arrive within this time count as arrived.
    at_once_ns: u64,
    /// When the last frame came.
    came_at: Instant,
}

/// Longest travel time that is not waited for in real time: less than a wake-up costs.
const AT_ONCE_NS: u64 = 50_000;

impl<C: Clock> InProcess<C> {
    /// On a clock that tests move: travel times are kept exactly.
    pub fn on_virtual_clock(link: Link, clock: C) -> Self {
        Self { link, clock, at_once_ns: 0, came_at: Instant::default() }
    }

    /// On the clock of the loop: travel times below 50 µs pass at once.
    pub fn on_clock(link: Link, clock: C) -> Self {
        Self { link, clock, at_once_ns: AT_ONCE_NS, came_at: Instant::default() }
    }

    /// The segment and its faults.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// The segment and its faults, to change them.
    pub fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }

    /// The segment, without its wire.
    pub fn into_link(self) -> Link {
        self.link
    }

    /// The clock it goes by.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// A frame that has arrived.
    fn take(&mut self, buffer: &mut [u8], now: Instant) -> Option<usize> {
        let arrived = self.link.next_arrival();
        let (_, length) = self.link.receive_early(now, self.at_once_ns, buffer)?;
        self.came_at = arrived.unwrap_or(now);
        Some(length)
    }
}

impl<C: Clock> Wire for InProcess<C> {
    fn send(&mut self, frame: &[u8]) {
        self.link.send(Nic::First, frame, self.clock.now());
    }

    fn receive(&mut self, buffer: &mut [u8], until: Instant) -> Option<usize> {
        let now = self.clock.now();
        if let Some(length) = self.take(buffer, now) {
            return Some(length);
        }
        if until <= now {
            return None;
        }

        let arrives = self.link.next_arrival().filter(|arrives| *arrives <= until);
        // A signal ends a wait early, and the caller's own deadline is looked at again.
        let _ = self.clock.sleep_until(arrives.unwrap_or(until));
        let now = self.clock.now();
        self.take(buffer, now)
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn rest(&mut self) {
        self.link.advance(self.clock.now());
    }

    fn received_at(&self, _: Instant) -> Instant {
        self.came_at
    }
}
