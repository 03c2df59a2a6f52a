//! Brings frames to a simulated segment: from any network interface, and from a TAP device.
//!
//! In the same process nothing is needed: [`Link`] is called directly. Here are the ways for MainDevices that know network interfaces
//! only, a cable of one's own in a namespace of its own ([`private_cable`](onbeat_ethercat::carrier::private_cable)), a capture of all frames in the format of pcap, and orders that
//! reach a segment while it runs.
//!
//! Absent on purpose: a real-time priority (that is the starter's business), and the travel time of frames, which is microseconds
//! here and less than a wake-up; what a fault delays for longer is waited for.

mod control;
mod pcap;

pub use control::{Answer, Control, DeviceLine, Order, Orders, SegmentStatus, ask};
pub use pcap::Pcap;

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

use onbeat_ethercat::carrier::{CarrierError, Interface};
use onbeat_rt::sys::Monotonic;
use onbeat_rt::time::{Clock, Instant};

use crate::{Link, Logged, Nic};

/// Frames that come back sooner than this are sent back at once.
const AT_ONCE_NS: u64 = 200_000;
/// How often the order to stop is looked for.
const LOOK_EVERY_NS: u64 = 50_000_000;
/// Room for the longest Ethernet frame with a VLAN tag, and one byte more to see that it was longer.
const ROOM: usize = 1519;

/// Lines of the fault log that wait at most for whoever writes them.
pub const LOG_QUEUE: usize = 4096;

/// What goes on beside the frames. None of it makes a frame wait but the capture.
#[derive(Debug, Default)]
pub struct Beside<'b, W: Write> {
    /// All frames go in here, both ways.
    pub capture: Option<&'b mut Pcap<W>>,
    /// Orders are carried out between two frames.
    pub orders: Option<Orders>,
    /// Lines of the fault log go in here; those that find no room are counted in [`Served::not_told`].
    pub log: Option<SyncSender<Logged>>,
}

/// What was done besides carrying frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Lines of the fault log for which nobody had room.
    pub not_told: u64,
}

/// Carries frames between network interfaces and a segment until `stop` is set: one interface, or both ends of a ring.
///
/// # Errors
/// [`CarrierError::System`] when an interface cannot be read any more, or the capture cannot be written. Frames that cannot be
/// sent back, such as with the interface down, are lost as on a cable.
pub fn serve<W: Write>(
    interfaces: &[Interface],
    link: &mut Link,
    mut beside: Beside<'_, W>,
    stop: &AtomicBool,
) -> Result<Served, CarrierError> {
    let clock = Monotonic;
    let mut buffer = [0; ROOM];
    let mut served = Served::default();
    let mut turn = 0;
    while !stop.load(Ordering::Relaxed) {
        let now = clock.now();
        let until = link.next_arrival().map_or(LOOK_EVERY_NS, |at| at.ns_since(now).min(LOOK_EVERY_NS));
        turn = 1 - turn;
        if let Some((from, length)) = Interface::receive_from(interfaces, turn, &mut buffer, until)? {
            let now = clock.now();
            record(&mut beside.capture, now, &buffer[..length])?;
            link.send(if from == 0 { Nic::First } else { Nic::Second }, &buffer[..length], now);
        }

        let now = clock.now();
        while let Some((nic, length)) = link.receive_early(now, AT_ONCE_NS, &mut buffer) {
            if let Some(interface) = interfaces.get(usize::from(nic == Nic::Second)) {
                interface.send(&buffer[..length]);
            }
            record(&mut beside.capture, now, &buffer[..length])?;
        }

        // The devices work after the reply was sent, and not while the MainDevice waits for it.
        link.advance(clock.now());
        if let Some(orders) = &beside.orders {
            orders.obey(link, clock.now());
        }
        if let Some(log) = &beside.log {
            served.not_told += link.drain_log().filter(|line| log.try_send(*line).is_err()).count() as u64;
        }
    }

    Ok(served)
}

fn record<W: Write>(capture: &mut Option<&mut Pcap<W>>, at: Instant, bytes: &[u8]) -> Result<(), CarrierError> {
    let Some(capture) = capture else { return Ok(()) };
    let failed = |source| CarrierError::System { what: "write", name: "the capture".to_owned(), source };
    capture.record(at, bytes).map_err(failed)
}
