//! What a bus sends its frames on: a network interface here, a simulated segment in `onbeat-segment`, anything in tests.

use onbeat_rt::sys::Port;
use onbeat_rt::time::{Clock, Instant};

use crate::carrier::{CarrierError, Interface, Opened, PacketRing, Role, Trouble, Watcher};
use crate::spin::Spin;

/// Bytes of a frame that the MTU does not count: both addresses and the type.
const ETHERNET_HEADER: usize = 14;

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

    /// When the frame came that was received last; `now`, the present instant, where that is not known.
    fn received_at(&self, now: Instant) -> Instant {
        now
    }

    /// What keeps frames from leaving, as far as it is known.
    fn trouble(&self) -> Option<Trouble> {
        None
    }

    /// Bytes of the longest frame that can be sent; `None` where nothing is known to limit it.
    fn longest(&self) -> Option<usize> {
        None
    }
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

    fn received_at(&self, now: Instant) -> Instant {
        (**self).received_at(now)
    }

    fn trouble(&self) -> Option<Trouble> {
        (**self).trouble()
    }

    fn longest(&self) -> Option<usize> {
        (**self).longest()
    }
}

/// A network interface.
#[derive(Debug)]
pub struct Packets {
    /// Socket, and what has come where the kernel shares memory for it.
    opened: Opened,
    port: Port,
    spin: Spin,
    /// Of an interface that has a name.
    watcher: Option<Watcher>,
    /// Why a frame could not be sent, and how long it was; until one as long leaves.
    refused: Option<(Trouble, usize)>,
}

impl Packets {
    /// How long a reply is waited for awake unless something else is said, in ns: most of what a frame takes to pass some fifty
    /// devices and come back.
    pub const SPIN_NS: u64 = 100_000;

    /// A raw socket on the interface of this name, which no other process of onbeat uses for a MainDevice. When it is deleted and made
    /// again, frames leave by the new one.
    ///
    /// # Errors
    /// [`CarrierError`] when there is no such interface, it is down or has no link, another MainDevice of onbeat uses it, or the right
    /// to raw sockets is missing.
    pub fn open(name: &str) -> Result<Self, CarrierError> {
        let interface = Interface::open_as(name, Role::MainDevice)?;
        let watcher = Watcher::of(&interface)?;
        if let Some(trouble) = watcher.trouble() {
            return Err(CarrierError::Trouble { name: name.to_owned(), trouble });
        }

        let packets = Self { watcher: Some(watcher), ..Self::on(interface) };
        if packets.opened.interface.was_down() {
            return Err(CarrierError::Trouble { name: name.to_owned(), trouble: Trouble::Down });
        }

        Ok(packets)
    }

    /// A socket that is open.
    #[must_use]
    pub fn on(interface: Interface) -> Self {
        let opened = Opened::on(interface);
        let port = opened.interface.port();
        Self { opened, port, spin: Spin::at_most(Self::SPIN_NS), watcher: None, refused: None }
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
        self.opened.interface.name()
    }

    /// A frame that is there.
    fn take(&mut self, buffer: &mut [u8]) -> Option<usize> {
        match &mut self.opened.ring {
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
        if self.watcher.as_ref().is_some_and(|watcher| watcher.exchange(&mut self.opened)) {
            self.port = self.opened.interface.port();
        }

        // An interface that is down or full loses frames; the bus sees that they do not come back.
        let refused = self.port.write(frame).err().and_then(|errno| Trouble::of_errno(errno.0));
        // A shorter frame that leaves says nothing of one that was too long.
        if refused.is_some() || self.refused.is_some_and(|(_, bytes)| frame.len() >= bytes) {
            self.refused = refused.map(|trouble| (trouble, frame.len()));
        }
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

            if self.opened.ring.is_some() {
                // Ready and empty: an error waits, such as an interface that went down. Reading takes it, so that it is told once.
                let _ = self.port.read(buffer);
            }
        }
    }

    fn now(&self) -> Instant {
        onbeat_rt::sys::Monotonic.now()
    }

    fn received_at(&self, now: Instant) -> Instant {
        let age_ns = self.opened.ring.as_ref().and_then(PacketRing::age_ns);
        age_ns.map_or(now, |age_ns| now.minus_ns(age_ns))
    }

    fn trouble(&self) -> Option<Trouble> {
        self.watcher.as_ref().and_then(Watcher::trouble).or(self.refused.map(|(trouble, _)| trouble))
    }

    fn longest(&self) -> Option<usize> {
        self.opened.interface.state().map(|state| state.mtu + ETHERNET_HEADER)
    }
}
