//! Connects a simulated segment to network interfaces or a TAP device.
//!
//! A MainDevice in the same process calls [`Link`] directly or uses
//! [`InProcess`](crate::InProcess). This module is for MainDevices that use network interfaces, for
//! a private veth pair ([`private_cable`](onbeat_ethercat::carrier::private_cable)), for captures
//! of all frames in pcap format, and for commands to a running segment.
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//! use onbeat_ethercat::carrier::{Interface, Role};
//! use onbeat_segment::serving::{ServeOptions, serve};
//! use onbeat_segment::{Link, Segment};
//!
//! let mut link = Link::from_toml(Segment::HUMANOID)?;
//! let interface = Interface::open_as("eth1", Role::Devices)?;
//! let stop = AtomicBool::new(false);
//! serve(&[interface], &mut link, ServeOptions::<std::io::Sink>::default(), &stop)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Absent on purpose: a real-time priority, which the starter sets, and the propagation delay of
//! frames, which is shorter than a wake-up; longer delays by faults are waited for.

mod control;
mod pcap;

pub use control::{
    CommandQueue, ControlSocket, DeviceLine, SegmentCommand, SegmentReply, SegmentStatus,
    send_command,
};
pub use pcap::Pcap;

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

use onbeat_ethercat::carrier::{CarrierError, Interface};
use onbeat_ethercat::ring::Nic;
use onbeat_rt::sys::Monotonic;
use onbeat_rt::time::{Clock, Instant};

use super::link::{FaultLogEntry, Link};

/// Frames that return within this time are sent at once.
const EARLY_NS: u64 = 200_000;
/// Polling interval of the stop flag.
const POLL_EVERY_NS: u64 = 50_000_000;
/// Size of the receive buffer: the longest Ethernet frame with a VLAN tag, and one byte to detect
/// longer frames.
const ROOM: usize = 1519;

/// Suggested capacity of the queue of fault log entries.
pub const LOG_QUEUE: usize = 4096;

/// Optional features of [`serve`]. Only the capture delays frames.
#[derive(Debug, Default)]
pub struct ServeOptions<'b, W: Write> {
    /// Capture of all frames, in both directions.
    pub capture: Option<&'b mut Pcap<W>>,
    /// Commands to execute between two frames.
    pub commands: Option<CommandQueue>,
    /// Queue of fault log entries; [`serve`] returns how many were lost because it was full.
    pub log: Option<SyncSender<FaultLogEntry>>,
}

/// Carries frames between network interfaces and a segment until `stop` is set: one interface, or
/// both ends of a ring. Returns how many fault log entries were lost because their queue was full.
///
/// # Errors
/// [`CarrierError::System`] when an interface can no longer be read, or the capture cannot be
/// written. Frames that cannot be sent, for example because the interface is down, are lost as on a
/// cable.
pub fn serve<W: Write>(
    interfaces: &[Interface],
    link: &mut Link,
    mut options: ServeOptions<'_, W>,
    stop: &AtomicBool,
) -> Result<u64, CarrierError> {
    let clock = Monotonic;
    let mut buffer = [0; ROOM];
    let mut unlogged = 0;
    let mut turn = 0;
    let mut links = [true; 2];
    while !stop.load(Ordering::Relaxed) {
        let now = clock.now();
        let until =
            link.next_arrival().map_or(POLL_EVERY_NS, |at| at.ns_since(now).min(POLL_EVERY_NS));
        turn = 1 - turn;
        if let Some((from, length)) = Interface::receive_from(interfaces, turn, &mut buffer, until)?
        {
            let now = clock.now();
            record(&mut options.capture, now, &buffer[..length])?;
            follow_links(interfaces, &mut links, link);
            link.send(if from == 0 { Nic::First } else { Nic::Second }, &buffer[..length], now);
        }

        let now = clock.now();
        while let Some((nic, length)) = link.receive_early(now, EARLY_NS, &mut buffer) {
            if let Some(interface) = interfaces.get(nic as usize) {
                interface.send(&buffer[..length]);
            }
            record(&mut options.capture, now, &buffer[..length])?;
        }

        // The devices work after the reply was sent, not while the MainDevice waits for it.
        link.advance(clock.now());
        if let Some(commands) = &options.commands {
            commands.execute_pending(link, clock.now());
        }
        if let Some(log) = &options.log {
            unlogged += link.drain_log().filter(|line| log.try_send(*line).is_err()).count() as u64;
        }
    }

    Ok(unlogged)
}

/// Opens and closes the ends of a ring as their interfaces gain and lose their links: a frame that
/// would leave by a dead end returns by the other one, as from real devices.
fn follow_links(interfaces: &[Interface], were: &mut [bool; 2], link: &mut Link) {
    let [first, second] = interfaces else { return };
    let ends = [(Nic::First, first), (Nic::Second, second)];
    for ((nic, interface), was) in ends.into_iter().zip(were) {
        let is_connected = interface.is_connected();
        // A cut by a fault stays.
        if std::mem::replace(was, is_connected) != is_connected {
            link.segment_mut().set_link(nic, is_connected);
        }
    }
}

fn record<W: Write>(
    capture: &mut Option<&mut Pcap<W>>,
    at: Instant,
    bytes: &[u8],
) -> Result<(), CarrierError> {
    let Some(capture) = capture else { return Ok(()) };
    let failed =
        |source| CarrierError::System { what: "write", name: "the capture".to_owned(), source };
    capture.record(at, bytes).map_err(failed)
}
