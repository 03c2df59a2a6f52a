//! `softirq_flood`: one packet that takes long to receive, on the CPU of its sender.
//!
//! A packet sent to the loopback is received in a softirq of the sending CPU before `sendto`
//! returns. A broadcast is delivered to every socket on its port, and a packet of many segments
//! (`UDP_SEGMENT`, udp(7)) is split separately for each socket: 32 sockets and 64 segments take
//! about 0.7 ms in one softirq, which only an interrupt can interrupt.
#![allow(unsafe_code)]

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::net::sockopt::{
    set_socket_broadcast, set_socket_recv_buffer_size, set_socket_reuseaddr,
};
use rustix::net::{AddressFamily, SendFlags, SocketType, bind, getsockname, sendto, socket};

use super::actor::{Disturb, DisturbanceTimer, busy_until, shortest_ns};
use super::error::Error;
use super::log::DisturbanceRecord;
use super::plan::{AimedRelease, InjectionPlan};

/// The loopback's broadcast address: packets to it do not leave the machine.
const TO_ALL: Ipv4Addr = Ipv4Addr::new(127, 255, 255, 255);
/// Maximum number of segments of one packet (`UDP_MAX_SEGMENTS` of older kernels,
/// `include/linux/udp.h`).
const SEGMENTS: usize = 64;
const SEGMENT_BYTES: usize = 10;
/// Number of sockets for the calibration packets, and maximum number of sockets.
const TRIAL: usize = 8;
const MOST: usize = 512;
/// Time from sending the packet to the loop's wake-up, in nanoseconds.
const AHEAD_NS: u64 = 50_000;

/// The disturber.
#[derive(Default)]
pub(super) struct SoftirqFlood {
    flood: Option<FloodSockets>,
    calibrated_ns: u64,
}

struct FloodSockets {
    sender: OwnedFd,
    receivers: Vec<OwnedFd>,
    address: SocketAddrV4,
    segments: usize,
}

impl FloodSockets {
    fn new() -> Result<Self, rustix::io::Errno> {
        let first = receiver(0)?;
        let name: SocketAddrV4 = getsockname(&first)?.try_into()?;
        let sender = udp()?;
        set_socket_broadcast(&sender, true)?;
        bind(&sender, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
        // Kernels before 4.18 do not support segments; then each packet has one, and there are more
        // sockets.
        let segments = if accept_segments(&sender) { SEGMENTS } else { 1 };

        Ok(Self { sender, receivers: vec![first], address: name, segments })
    }

    fn grow_to(&mut self, receivers: usize) -> Result<(), rustix::io::Errno> {
        while self.receivers.len() < receivers {
            self.receivers.push(receiver(self.address.port())?);
        }
        Ok(())
    }

    fn send(&self) -> Result<usize, rustix::io::Errno> {
        let packet = [0x55; SEGMENTS * SEGMENT_BYTES];
        sendto(
            &self.sender,
            &packet[..self.segments * SEGMENT_BYTES],
            SendFlags::DONTWAIT,
            &self.address,
        )
    }

    /// Sends for calibration; that packets can be sent was checked before.
    fn send_once(&self) {
        let _ = self.send();
    }
}

impl Disturb for SoftirqFlood {
    fn prepare(&mut self, plan: &InjectionPlan) -> Result<(), Error> {
        let refused =
            |why: rustix::io::Errno| plan.impossible(format!("broadcast on the loopback: {why}"));
        let mut flood = FloodSockets::new().map_err(refused)?;
        flood.grow_to(TRIAL).map_err(refused)?;
        flood.send().map_err(refused)?;
        let trial_ns = shortest_ns(20, || flood.send_once()).max(1);
        let wanted = (plan.for_ns + AHEAD_NS) * TRIAL as u64 / trial_ns;
        flood
            .grow_to(usize::try_from(wanted).unwrap_or(MOST).clamp(TRIAL, MOST))
            .map_err(refused)?;
        self.calibrated_ns = shortest_ns(5, || flood.send_once());
        self.flood = Some(flood);

        Ok(())
    }

    fn disturb(&mut self, _: &InjectionPlan, aim: &AimedRelease) -> Option<DisturbanceRecord> {
        let flood = self.flood.as_ref()?;
        if busy_until(aim.wake_up.minus_ns(AHEAD_NS)) >= aim.wake_up {
            return None;
        }

        let timer = DisturbanceTimer::begin();
        flood.send().ok()?;
        let (at, ns) = timer.end(self.calibrated_ns);
        Some(DisturbanceRecord {
            at,
            ns,
            figures: [flood.receivers.len() as u64, flood.segments as u64],
        })
    }
}

fn udp() -> Result<OwnedFd, rustix::io::Errno> {
    socket(AddressFamily::INET, SocketType::DGRAM, None)
}

/// Opens a socket that receives broadcasts on `port` of the loopback into a minimal buffer: data
/// that does not fit is discarded after the work of receiving it.
fn receiver(port: u16) -> Result<OwnedFd, rustix::io::Errno> {
    let receiver = udp()?;
    set_socket_reuseaddr(&receiver, true)?;
    set_socket_recv_buffer_size(&receiver, 1)?;
    bind(&receiver, &SocketAddrV4::new(TO_ALL, port))?;
    Ok(receiver)
}

fn accept_segments(sender: &OwnedFd) -> bool {
    // `UDP_SEGMENT` of include/uapi/linux/udp.h.
    const UDP_SEGMENT: libc::c_int = 103;
    let bytes = SEGMENT_BYTES as libc::c_int;
    // SAFETY: the option takes an int, which is valid for the call, as its length says.
    let answer = unsafe {
        libc::setsockopt(
            sender.as_fd().as_raw_fd(),
            libc::SOL_UDP,
            UDP_SEGMENT,
            (&raw const bytes).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };

    answer == 0
}
