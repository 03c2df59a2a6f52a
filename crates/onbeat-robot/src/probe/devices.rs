//! Simulated devices on a bus's wire, in a thread of their own.
//!
//! With sufficient privileges the wire is a private pair of network interfaces, so frames take the
//! kernel's network path as with a card; otherwise it is a socket in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};

use crate::bus::BusError;
use onbeat::probe::description::ProbeError;
use onbeat::thread::{ThreadRequest, stay_off_cpu};
use onbeat_ethercat::carrier::{CarrierError, Interface, WireMethod, private_cable};
use onbeat_segment::{Link, Nic};

/// Real-time priority of the devices' thread: below that of a loop, above that of a load.
const PRIORITY: u32 = 50;
/// Polling interval of the stop flag: long, since a bench has many idle instances.
const LOOK_EVERY_NS: u64 = 250_000_000;
/// Frames due within this time are sent back immediately.
const AT_ONCE_NS: u64 = 200_000;

/// External influence on the devices.
pub trait Environment: Send {
    /// Returns when [`Self::look`] is to be called next.
    fn next(&self, link: &Link) -> Option<Instant> {
        let _ = link;
        None
    }

    /// Inspects and changes the devices.
    fn look(&mut self, link: &mut Link, now: Instant);
}

/// No external influence.
#[derive(Clone, Copy, Debug, Default)]
pub struct Undisturbed;

impl Environment for Undisturbed {
    fn look(&mut self, _: &mut Link, _: Instant) {}
}

/// Simulated devices that answer until this is dropped.
#[derive(Debug)]
pub struct SimulatedDevices {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Connection between bus and simulated devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireKind {
    /// Interfaces if permitted, otherwise a socket.
    Any,
    /// Interfaces only, with this method at the bus's end.
    Interfaces(WireMethod),
    /// A socket in this process.
    Socket,
}

impl WireKind {
    /// Returns the method at a network interface with real devices.
    #[must_use]
    pub fn method(self) -> WireMethod {
        match self {
            Self::Interfaces(method) => method,
            Self::Any | Self::Socket => WireMethod::default(),
        }
    }
}

impl SimulatedDevices {
    const NAME: &'static str = "onbeat-devices";

    /// Starts the devices of a segment; returns them, the bus's end of the wire, and a description
    /// of the wire.
    ///
    /// # Errors
    /// [`ProbeError`] if wire or thread cannot be created.
    pub fn start(
        link: Link,
        cable: WireKind,
        cpu_of_loop: Option<u32>,
        world: impl Environment + 'static,
    ) -> Result<(Self, Interface, String), ProbeError> {
        let (ends, words) = connect(cable)?;
        let (of_bus, of_devices) = ends;
        let stop = Arc::new(AtomicBool::new(false));
        let over = stop.clone();
        let body = move || {
            let wanted = ThreadRequest { fifo: Some(PRIORITY), ..ThreadRequest::default() };
            let _ = wanted.prepare_thread();
            cpu_of_loop.into_iter().for_each(stay_off_cpu);
            DeviceThread { interface: of_devices, link, world }.until(&over);
        };

        let thread = thread::Builder::new().name(Self::NAME.to_owned()).spawn(body);
        let thread = thread.map_err(|source| ProbeError::Thread { what: Self::NAME, source })?;
        Ok((Self { stop, thread: Some(thread) }, of_bus, words))
    }
}

impl Drop for SimulatedDevices {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn connect(cable: WireKind) -> Result<((Interface, Interface), String), ProbeError> {
    let wire = |error: CarrierError| ProbeError::from(BusError::Wire(error));
    let over_a_socket = "frames passed a socket of this process, not the kernel's network";
    if cable == WireKind::Socket {
        return Ok((Interface::pair().map_err(wire)?, over_a_socket.to_owned()));
    }

    match private_cable(cable.method()) {
        Ok(ends) => {
            let over = ends.0.words();
            let words = "frames passed two network interfaces (veth) in a private namespace";
            Ok((ends, format!("{words} and {over}")))
        }
        Err(why) if cable == WireKind::Any => {
            Ok((Interface::pair().map_err(wire)?, format!("{over_a_socket}: {why}")))
        }
        Err(why) => Err(wire(why)),
    }
}

struct DeviceThread<W> {
    interface: Interface,
    link: Link,
    world: W,
}

impl<W: Environment> DeviceThread<W> {
    fn until(mut self, stop: &AtomicBool) {
        let clock = Monotonic;
        let mut buffer = [0; 1515];
        while !stop.load(Ordering::Relaxed) {
            let now = clock.now();
            let next =
                [self.link.next_arrival(), self.world.next(&self.link)].into_iter().flatten().min();
            let wait_ns = next.map_or(LOOK_EVERY_NS, |at| at.ns_since(now).min(LOOK_EVERY_NS));
            match Interface::receive_from(
                std::slice::from_ref(&self.interface),
                0,
                &mut buffer,
                wait_ns,
            ) {
                Ok(Some((_, length))) => {
                    self.link.send(Nic::First, &buffer[..length], clock.now());
                }
                Ok(None) => {}
                // The other end is closed.
                Err(_) => break,
            }

            while let Some((_, length)) =
                self.link.receive_early(clock.now(), AT_ONCE_NS, &mut buffer)
            {
                self.interface.send(&buffer[..length]);
            }

            self.link.advance(clock.now());
            self.world.look(&mut self.link, clock.now());
        }
    }
}
