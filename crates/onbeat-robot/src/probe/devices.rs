//! Simulated devices at the other end of a bus's wire, in a thread of their own.
//!
//! With the right to do so the wire is a pair of network interfaces that nobody else has, so that frames go through the kernel's network
//! as they would to a card; otherwise a socket in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};

use crate::bus::BusError;
use onbeat::probe::description::ProbeError;
use onbeat::thread::{Wanted, stay_off_cpu};
use onbeat_ethercat::carrier::{CarrierError, Interface, private_cable};
use onbeat_segment::{Link, Nic};

/// Real-time priority of the devices' thread: below a loop's, above a load's. A card and its devices wait for nobody.
const PRIORITY: u32 = 50;
/// How often the order to stop is looked for: seldom, since a bench has many of these that have nothing to do.
const LOOK_EVERY_NS: u64 = 250_000_000;
/// Frames that come back sooner than this are sent back at once.
const AT_ONCE_NS: u64 = 200_000;

/// What happens to the devices from outside.
pub trait Environment: Send {
    /// When it wants to be asked next.
    fn next(&self, link: &Link) -> Option<Instant> {
        let _ = link;
        None
    }

    /// Looks at the devices, and changes what it likes.
    fn look(&mut self, link: &mut Link, now: Instant);
}

/// Nothing happens to them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Undisturbed;

impl Environment for Undisturbed {
    fn look(&mut self, _: &mut Link, _: Instant) {}
}

/// SimulatedDevices that answer. They end with this.
#[derive(Debug)]
pub struct SimulatedDevices {
    stop: Arc<AtomicBool>,
    frames: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

/// How the wire is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireKind {
    /// Interfaces where that is granted, otherwise a socket.
    Any,
    /// Interfaces, or nothing.
    Interfaces,
    /// A socket in this process.
    Socket,
}

impl SimulatedDevices {
    const NAME: &'static str = "onbeat-devices";

    /// Starts the devices of a segment; hands back the bus's end of the wire, and a sentence about the wire.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub fn start(
        link: Link,
        cable: WireKind,
        cpu_of_loop: Option<u32>,
        world: impl Environment + 'static,
    ) -> Result<(Self, Interface, String), ProbeError> {
        let (ends, words) = connect(cable)?;
        let (of_bus, of_devices) = ends;
        let stop = Arc::new(AtomicBool::new(false));
        let frames = Arc::new(AtomicU64::new(0));
        let (over, count) = (stop.clone(), frames.clone());
        let body = move || {
            let _ =
                Wanted { fifo: Some(PRIORITY), cpu: None, lock_memory: false, dma_latency_us: None }.prepare_thread();
            if let Some(cpu) = cpu_of_loop {
                stay_off_cpu(cpu);
            }
            DeviceThread { interface: of_devices, link, world }.until(&over, &count);
        };

        let thread = thread::Builder::new().name(Self::NAME.to_owned()).spawn(body);
        let thread = thread.map_err(|source| ProbeError::Thread { what: Self::NAME, source })?;
        Ok((Self { stop, frames, thread: Some(thread) }, of_bus, words))
    }

    /// Frames that came.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
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
    let over_a_socket = "frames went through a socket of this process, not through the kernel's network";
    if cable == WireKind::Socket {
        return Ok((Interface::pair().map_err(wire)?, over_a_socket.to_owned()));
    }

    match private_cable() {
        Ok(ends) => {
            Ok((ends, "frames went through two network interfaces (veth) in a namespace of their own".to_owned()))
        }
        Err(why) if cable == WireKind::Any => Ok((Interface::pair().map_err(wire)?, format!("{over_a_socket}: {why}"))),
        Err(why) => Err(wire(why)),
    }
}

struct DeviceThread<W> {
    interface: Interface,
    link: Link,
    world: W,
}

impl<W: Environment> DeviceThread<W> {
    fn until(mut self, stop: &AtomicBool, frames: &AtomicU64) {
        let clock = Monotonic;
        let mut buffer = [0; 1515];
        while !stop.load(Ordering::Relaxed) {
            let now = clock.now();
            let next = [self.link.next_arrival(), self.world.next(&self.link)].into_iter().flatten().min();
            let wait_ns = next.map_or(LOOK_EVERY_NS, |at| at.ns_since(now).min(LOOK_EVERY_NS));
            match Interface::receive_from(std::slice::from_ref(&self.interface), 0, &mut buffer, wait_ns) {
                Ok(Some((_, length))) => {
                    frames.fetch_add(1, Ordering::Relaxed);
                    self.link.send(Nic::First, &buffer[..length], clock.now());
                }
                Ok(None) => {}
                // The other end is gone, and with it everybody who could ask.
                Err(_) => break,
            }

            while let Some((_, length)) = self.link.receive_early(clock.now(), AT_ONCE_NS, &mut buffer) {
                self.interface.send(&buffer[..length]);
            }

            self.link.advance(clock.now());
            self.world.look(&mut self.link, clock.now());
        }
    }
}
