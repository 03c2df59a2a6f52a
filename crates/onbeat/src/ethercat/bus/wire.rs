//! What a bus sends its frames on: a network interface, or a simulated segment in the same process.

use onbeat_rt::sys::Port;
use onbeat_rt::time::{Clock, Instant};

use super::spin::Spin;
use crate::ethercat::carrier::{CarrierError, Interface, PacketRing};
use crate::ethercat::sim::{Link, Nic};

/// Sends frames and takes what comes back. A loop calls it: no memory is asked for.
pub trait Wire {
    /// Sends a frame; what cannot be sent is lost as on a cable.
    fn send(&mut self, frame: &[u8]);

    /// The next frame that has come, waited for until then at most: its length in `buffer`. Nothing is waited for when `until` has
    /// passed.
    fn receive(&mut self, buffer: &mut [u8], until: Instant) -> Option<usize>;

    /// The present instant.
    fn now(&self) -> Instant;

    /// The cycle's frames are done with. Devices that are simulated in the same process may work now.
    fn rest(&mut self) {}
}

impl<W: Wire> Wire for &mut W {
    fn send(&mut self, frame: &[u8]) {
        (**self).send(frame);
    }

    fn receive(&mut self, buffer: &mut [u8], until: Instant) -> Option<usize> {
        (**self).receive(buffer, until)
    }

    fn now(&self) -> Instant {
        (**self).now()
    }

    fn rest(&mut self) {
        (**self).rest();
    }
}

/// A simulated segment in the same process.
#[derive(Clone, Debug)]
pub struct InProcess<C> {
    link: Link,
    clock: C,
    /// Frames that arrive within this time count as arrived.
    at_once_ns: u64,
}

/// Longest travel time that is not waited for in real time: less than a wake-up costs.
const AT_ONCE_NS: u64 = 50_000;

impl<C: Clock> InProcess<C> {
    /// On a clock that tests move: travel times are kept exactly.
    pub fn on_virtual_clock(link: Link, clock: C) -> Self {
        Self { link, clock, at_once_ns: 0 }
    }

    /// On the clock of the loop: travel times below 50 µs pass at once.
    pub fn on_clock(link: Link, clock: C) -> Self {
        Self { link, clock, at_once_ns: AT_ONCE_NS }
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
}

impl<C: Clock> Wire for InProcess<C> {
    fn send(&mut self, frame: &[u8]) {
        self.link.send(Nic::First, frame, self.clock.now());
    }

    fn receive(&mut self, buffer: &mut [u8], until: Instant) -> Option<usize> {
        let now = self.clock.now();
        if let Some((_, length)) = self.link.receive(now.plus_ns(self.at_once_ns), buffer) {
            return Some(length);
        }
        if until <= now {
            return None;
        }
        let arrives = self.link.next_arrival().filter(|arrives| *arrives <= until);
        // A signal ends a wait early, and the caller's own deadline is looked at again.
        let _ = self.clock.sleep_until(arrives.unwrap_or(until));
        self.link.receive(self.clock.now().plus_ns(self.at_once_ns), buffer).map(|(_, length)| length)
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn rest(&mut self) {
        self.link.advance(self.clock.now());
    }
}

/// A network interface.
#[derive(Debug)]
pub struct Packets {
    interface: Interface,
    port: Port,
    /// What has come, where the kernel shares memory for it.
    ring: Option<PacketRing>,
    spin: Spin,
}

impl Packets {
    /// How long a reply is waited for awake unless something else is said, in ns: most of what a frame takes to pass some fifty
    /// devices and come back.
    pub const SPIN_NS: u64 = 100_000;

    /// A raw socket on the interface of this name.
    ///
    /// # Errors
    /// [`CarrierError`] when there is no such interface, its link is down, or the right to raw sockets is missing.
    pub fn open(name: &str) -> Result<Self, CarrierError> {
        Ok(Self::on(Interface::open(name)?))
    }

    /// A socket that is open.
    #[must_use]
    pub fn on(interface: Interface) -> Self {
        interface.for_a_loop();
        let (port, ring) = (interface.port(), interface.packet_ring());
        Self { interface, port, ring, spin: Spin::at_most(Self::SPIN_NS) }
    }

    /// Waits for replies awake for this long before it sleeps; 0 sleeps at once. Where replies never come meanwhile, it hardly does
    /// so in any case.
    #[must_use]
    pub fn spinning_ns(self, at_most_ns: u64) -> Self {
        Self { spin: Spin::at_most(at_most_ns), ..self }
    }

    /// Name of the interface.
    #[must_use]
    pub fn name(&self) -> &str {
        self.interface.name()
    }

    /// A frame that is there.
    fn take(&mut self, buffer: &mut [u8]) -> Option<usize> {
        match &mut self.ring {
            Some(ring) => ring.take(buffer),
            None => self.port.read(buffer).ok(),
        }
    }

    /// A frame that comes while nobody sleeps.
    fn take_awake(&mut self, buffer: &mut [u8], until: Instant) -> Option<usize> {
        loop {
            if let Some(length) = self.take(buffer) {
                return Some(length);
            }
            if self.now() >= until {
                return None;
            }
            core::hint::spin_loop();
        }
    }
}

impl Wire for Packets {
    fn send(&mut self, frame: &[u8]) {
        // An interface that is down or full loses frames; the bus sees that they do not come back.
        let _ = self.port.write(frame);
    }

    fn receive(&mut self, buffer: &mut [u8], until: Instant) -> Option<usize> {
        if let Some(length) = self.take(buffer) {
            return Some(length);
        }
        let began = self.now();
        if until <= began {
            return None;
        }
        let awake_until = until.min(began.plus_ns(self.spin.awake_ns()));
        let came = self.take_awake(buffer, awake_until);
        self.spin.ended(came.is_some());
        if came.is_some() {
            return came;
        }
        loop {
            let wait_ns = until.ns_since(self.now());
            if wait_ns == 0 || !self.port.is_ready_within(wait_ns) {
                return None;
            }
            if let Some(length) = self.take(buffer) {
                return Some(length);
            }
            if self.ring.is_some() {
                // Ready and empty: an error waits, such as an interface that went down. Reading takes it, so that it is told once.
                let _ = self.port.read(buffer);
            }
        }
    }

    fn now(&self) -> Instant {
        onbeat_rt::sys::Monotonic.now()
    }
}
