//! Transport of a bus's frames: a network interface here, a simulated segment in `onbeat-segment`,
//! anything else in tests.

use onbeat_rt::frame;
use onbeat_rt::sys::Port;
use onbeat_rt::time::{Clock, Instant};

use crate::busy_wait::BusyWait;
use crate::carrier::{
    CarrierError, Interface, LinkWatcher, PacketRing, PacketSocket, Role, Trouble, WireMethod,
    XdpSocket,
};
use crate::ring::{Nic, RingMerge, RingState};

/// Ethernet header, which the MTU does not include: both addresses and the EtherType, in bytes.
const ETHERNET_HEADER: usize = 14;

/// Sends and receives frames. Called from a loop: implementations do not allocate.
///
/// ```
/// use onbeat_ethercat::wire::Wire;
/// use onbeat_rt::Instant;
///
/// /// A wire that loses every frame.
/// struct Unplugged;
/// impl Wire for Unplugged {
///     fn send(&mut self, _: &[u8]) {}
///     fn receive(&mut self, _: &mut [u8], _: Instant) -> Option<usize> {
///         None
///     }
///     fn now(&self) -> Instant {
///         Instant::default()
///     }
/// }
///
/// assert_eq!(Unplugged.receive(&mut [0; 60], Instant::default()), None);
/// ```
pub trait Wire {
    /// Sends a frame. A frame that cannot be sent is lost, as on a cable.
    fn send(&mut self, frame: &[u8]);

    /// Receives the next frame into `buffer` and returns its length. Blocks until `until` at the
    /// latest; does not block when `until` has passed.
    fn receive(&mut self, buffer: &mut [u8], until: Instant) -> Option<usize>;

    /// Returns the current instant.
    fn now(&self) -> Instant;

    /// Called after the frames of a cycle. Devices simulated in the same process do their work
    /// here.
    fn rest(&mut self) {}

    /// Returns the arrival time of the frame received last; `now`, the current instant, when it is
    /// not known.
    fn received_at(&self, now: Instant) -> Instant {
        now
    }

    /// Returns the known reason why frames cannot be sent.
    fn trouble(&self) -> Option<Trouble> {
        None
    }

    /// Returns the length of the longest frame that can be sent, in bytes; `None` without a known
    /// limit.
    fn longest(&self) -> Option<usize> {
        None
    }

    /// Returns the state of the ring of cables between two interfaces; `None` with one interface.
    fn ring(&self) -> Option<RingState> {
        None
    }

    /// Returns how many frames of a ring were sent once more, because a cable was cut or mended while
    /// they passed.
    fn repeated(&self) -> u64 {
        0
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

    fn ring(&self) -> Option<RingState> {
        (**self).ring()
    }

    fn repeated(&self) -> u64 {
        (**self).repeated()
    }
}

/// A network interface, through a packet socket or AF_XDP.
#[derive(Debug)]
pub struct Packets {
    /// Socket with its receive rings.
    socket: PacketSocket,
    port: Port,
    busy_wait: BusyWait,
    /// Watches an interface opened by name.
    watcher: Option<LinkWatcher>,
    /// Reason and length of the last frame that could not be sent, until a frame of at least that
    /// length is sent.
    refused: Option<(Trouble, usize)>,
    /// The interface at the other end of a ring.
    second: Option<Box<SecondWay>>,
}

/// The second interface of a ring, and the frames of both.
#[derive(Debug)]
struct SecondWay {
    packets: Packets,
    ring: RingMerge,
}

impl Packets {
    /// Default polling time before the thread sleeps, in ns: most of the round trip through some
    /// fifty devices.
    pub const SPIN_NS: u64 = 100_000;

    /// Opens a raw socket on the named interface, exclusively for one MainDevice of onbeat. When
    /// the interface is deleted and created again, frames are sent on the new one.
    ///
    /// ```no_run
    /// use onbeat_ethercat::wire::Packets;
    ///
    /// let wire = Packets::open("eth1")?.spinning_ns(50_000);
    /// # Ok::<(), onbeat_ethercat::carrier::CarrierError>(())
    /// ```
    ///
    /// # Errors
    /// [`CarrierError`] when the interface does not exist, is down, has no link or is used by
    /// another MainDevice of onbeat, or when CAP_NET_RAW is missing.
    pub fn open(name: &str) -> Result<Self, CarrierError> {
        Self::open_by(name, WireMethod::Ring)
    }

    /// Opens the named interface as [`Packets::open`] does, and exchanges frames by a method, or by
    /// the ring where that is refused; [`Packets::words`] has the reason.
    ///
    /// Two names with a comma between them, such as `eth1,eth2`, are the ends of a ring of cables
    /// ([`crate::ring`]).
    ///
    /// # Errors
    /// As [`Packets::open`].
    pub fn open_by(name: &str, method: WireMethod) -> Result<Self, CarrierError> {
        let Some((first, second)) = name.split_once(',') else {
            return Self::open_one(name, method);
        };
        let packets = Self::open_one(second, method)?;
        let second = SecondWay { packets, ring: RingMerge::new() };
        Ok(Self { second: Some(Box::new(second)), ..Self::open_one(first, method)? })
    }

    fn open_one(name: &str, method: WireMethod) -> Result<Self, CarrierError> {
        let interface = Interface::open_as(name, Role::MainDevice)?.by(method);
        let watcher = LinkWatcher::new(&interface)?;
        if let Some(trouble) = watcher.trouble() {
            return Err(CarrierError::Trouble { name: name.to_owned(), trouble });
        }

        let packets = Self { watcher: Some(watcher), ..Self::new(interface) };
        if packets.socket.interface.was_down() {
            return Err(CarrierError::Trouble { name: name.to_owned(), trouble: Trouble::Down });
        }

        Ok(packets)
    }

    /// Sends and receives on an open interface.
    #[must_use]
    pub fn new(interface: Interface) -> Self {
        let socket = PacketSocket::new(interface);
        let port = socket.port();
        Self {
            socket,
            port,
            busy_wait: BusyWait::new(Self::SPIN_NS),
            watcher: None,
            refused: None,
            second: None,
        }
    }

    /// Sets the polling time before the thread sleeps, in ns; 0 disables polling. Polling is also
    /// suspended while replies never arrive during it.
    #[must_use]
    pub fn spinning_ns(self, at_most_ns: u64) -> Self {
        Self { busy_wait: BusyWait::new(at_most_ns), ..self }
    }

    /// Returns the name of the interface.
    #[must_use]
    pub fn name(&self) -> &str {
        self.socket.interface.name()
    }

    /// Returns the method by which frames pass.
    #[must_use]
    pub fn method(&self) -> WireMethod {
        match &self.socket.xdp {
            Some(xdp) if xdp.is_polling() => WireMethod::BusyPoll,
            Some(_) => WireMethod::Xdp,
            None => WireMethod::Ring,
        }
    }

    /// Returns whether another method was wanted.
    #[must_use]
    pub const fn is_fallback(&self) -> bool {
        self.socket.interface.refusal().is_some()
    }

    /// Returns how frames pass, as the end of a sentence, with the reason where another method was
    /// wanted.
    #[must_use]
    pub fn words(&self) -> String {
        match &self.second {
            None => self.socket.words(),
            Some(second) => format!(
                "{}; ring of cables to the network interface {}",
                self.socket.words(),
                second.packets.name()
            ),
        }
    }

    /// Takes a frame of a ring that has arrived on either interface.
    fn take_of_ring(&mut self, buffer: &mut [u8]) -> Option<usize> {
        loop {
            let (nic, length) = match self.take_one(buffer) {
                Some(length) => (Nic::First, length),
                None => (Nic::Second, self.second.as_mut()?.packets.take_one(buffer)?),
            };
            let ring = &mut self.second.as_mut()?.ring;
            if let Some(length) = ring.take(nic, buffer, length) {
                return Some(length);
            }
        }
    }

    /// Receives a frame of a ring, as [`Wire::receive`] does.
    fn receive_of_ring(&mut self, buffer: &mut [u8], until: Instant) -> Option<usize> {
        /// Interval between looks at both interfaces, after polling.
        const LOOK_EVERY_NS: u64 = 20_000;
        let began = self.now();
        let mut until = until;
        let mut has_time = until > began;
        let poll_until = until.min(began.plus_ns(self.busy_wait.poll_ns()));
        loop {
            if let Some(length) = self.take_of_ring(buffer) {
                self.busy_wait.record(self.now() <= poll_until);
                return Some(length);
            }
            let now = self.now();
            if now >= poll_until {
                let worth = self.repeat_of_ring(now);
                has_time |= worth.is_some();
                until = until.max(worth.unwrap_or(until));
            }
            if now >= until {
                self.busy_wait.record(false);
                return self.second.as_mut()?.ring.flush(buffer, now, has_time);
            }
            if now < poll_until {
                core::hint::spin_loop();
            } else {
                let wait_ns = LOOK_EVERY_NS.min(until.ns_since(now));
                if self.port.is_ready_within(wait_ns) && self.socket.ring.is_some() {
                    // A pending socket error, which reading clears; frames are in the ring.
                    let _ = self.port.read(buffer);
                }
            }
        }
    }

    /// Sends frames of a ring that a part did not process once more; returns until when the rest of
    /// replies is worth waiting for.
    fn repeat_of_ring(&mut self, now: Instant) -> Option<Instant> {
        let mut second = self.second.take()?;
        let SecondWay { packets, ring } = &mut *second;
        let worth = ring.repeat(now, |nic, frame| match nic {
            Nic::First => self.send_one(frame),
            Nic::Second => packets.send_one(frame),
        });
        self.second = Some(second);
        worth
    }

    /// Sends a frame on this interface.
    fn send_one(&mut self, frame: &[u8]) {
        if self.watcher.as_ref().is_some_and(|watcher| watcher.exchange(&mut self.socket)) {
            self.port = self.socket.port();
        }

        // An interface that is down or full loses frames; the bus notices the missing replies.
        let sent = match &mut self.socket.xdp {
            Some(xdp) => xdp.send(frame),
            None => self.port.write(frame),
        };
        let refused = sent.err().and_then(|errno| Trouble::from_errno(errno.0));
        // A shorter frame that is sent does not clear the error of a frame that was too long.
        if refused.is_some() || self.refused.is_some_and(|(_, bytes)| frame.len() >= bytes) {
            self.refused = refused.map(|trouble| (trouble, frame.len()));
        }
    }

    /// Returns the trouble of this interface.
    fn trouble_of_one(&self) -> Option<Trouble> {
        self.watcher
            .as_ref()
            .and_then(LinkWatcher::trouble)
            .or(self.refused.map(|(trouble, _)| trouble))
    }

    /// Takes a frame that has arrived on this interface. Replies of simulators that leave the source
    /// address as it was are taken as replies, where a device has processed them.
    fn take_one(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let length = self.take_raw(buffer)?;
        mark_returned(&mut buffer[..length]);
        Some(length)
    }

    fn take_raw(&mut self, buffer: &mut [u8]) -> Option<usize> {
        match (&mut self.socket.xdp, &mut self.socket.ring) {
            (Some(xdp), _) => xdp.take(buffer),
            (None, Some(ring)) => ring.take(buffer),
            (None, None) => self.port.read(buffer).ok(),
        }
    }

    /// Polls for a frame.
    fn poll(&mut self, buffer: &mut [u8], until: Instant) -> Option<usize> {
        loop {
            if let Some(length) = self.take_one(buffer) {
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
        let Some(mut second) = self.second.take() else { return self.send_one(frame) };
        let now = self.now();
        let [on_first, on_second] = second.ring.send(frame, now);
        self.send_one(on_first);
        second.packets.send_one(on_second);
        self.second = Some(second);
    }

    fn receive(&mut self, buffer: &mut [u8], until: Instant) -> Option<usize> {
        if self.second.is_some() {
            return self.receive_of_ring(buffer, until);
        }
        if let Some(length) = self.take_one(buffer) {
            return Some(length);
        }

        let began = self.now();
        if until <= began {
            return None;
        }

        let poll_until = until.min(began.plus_ns(self.busy_wait.poll_ns()));
        let polled = self.poll(buffer, poll_until);
        self.busy_wait.record(polled.is_some());
        if polled.is_some() {
            return polled;
        }

        loop {
            let wait_ns = until.ns_since(self.now());
            if wait_ns == 0 || !self.port.is_ready_within(wait_ns) {
                return None;
            }
            if let Some(length) = self.take_one(buffer) {
                return Some(length);
            }

            if self.socket.ring.is_some() {
                // Ready but empty: a pending socket error, such as an interface that went down.
                // Reading clears it.
                let _ = self.port.read(buffer);
            }
        }
    }

    fn now(&self) -> Instant {
        onbeat_rt::sys::Monotonic.now()
    }

    fn received_at(&self, now: Instant) -> Instant {
        if let Some(arrived_ns) = self.socket.xdp.as_ref().and_then(XdpSocket::arrived_ns) {
            return now.min(Instant::from_ns(arrived_ns));
        }

        let age_ns = self.socket.ring.as_ref().and_then(PacketRing::age_ns);
        age_ns.map_or(now, |age_ns| now.minus_ns(age_ns))
    }

    fn trouble(&self) -> Option<Trouble> {
        let own = self.trouble_of_one()?;
        // The devices of a ring are reached as long as one of its interfaces works.
        match &self.second {
            Some(second) => second.packets.trouble_of_one().map(|_| own),
            None => Some(own),
        }
    }

    fn ring(&self) -> Option<RingState> {
        self.second.as_ref().map(|second| second.ring.state())
    }

    fn repeated(&self) -> u64 {
        self.second.as_ref().map_or(0, |second| second.ring.repeated())
    }

    fn longest(&self) -> Option<usize> {
        self.socket.interface.state().map(|state| state.mtu + ETHERNET_HEADER)
    }
}

/// Marks a reply as returned where a simulator left the source address as it was: a frame of our own
/// that a device has processed.
fn mark_returned(frame: &mut [u8]) {
    if frame::is_processed(frame) {
        frame[6] |= 2;
    }
}
