//! The round-trip probe: from a packet's sending to its answer, for every packet of the schedule.
//!
//! A loop sends one packet to each device at each release and takes the answers until all are
//! there. What a packet waited is counted however it ended: answered with its round trip, late with
//! its age, lost with the age at which it was given up, not sent with the time until the next send.
//! So no percentile leaves the lost ones out. The lateness of the sender is the loop's own release
//! latency, apart from all of this.
//!
//! [`tracker`] decides what each answer is, `task` is the loop, `channel` carries fates to the
//! recorder, `companion` counts them. Absent on purpose: flow control and retransmission; and
//! trust in the device, whose packets only say which of ours they answer.

mod cell;
mod channel;
mod companion;
mod predicted;
pub mod targets;
mod task;
pub mod tracker;

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use onbeat_rt::Sample;
use onbeat_rt::sys::datagram::DatagramPort;
use rustix::net::sockopt;

pub use self::cell::{admit_cell, parts_of_cell};
use self::channel::fate_channel;
use self::companion::RoundTripCompanion;
use self::predicted::{PLAN, predicted};
use self::targets::{MOST_TARGETS, targets};
use self::task::{PacketForm, PacketSchedule, Receive, RoundTripBody, RoundTripTask};
use super::device::{DeviceError, DeviceOptions, Devices};
use super::packet;
use super::plan::{FrameSize, NetPlanError};
use super::udp;
use onbeat::probe::description::{Defaults, OptionKind, Parts, ProbeOption};
use onbeat::probe::{Description, Given, ProbeError, Setting};
use onbeat_record::{CycleTally, Figures, PredictedAnswers, RoundTripTally, Series};

/// Packets of a second, at most.
const MOST_PER_SECOND: u64 = 200_000;
/// Packets that are remembered, at most, of all devices together: 20 MiB.
const MOST_REMEMBERED: u64 = 1 << 19;
/// Bytes of the socket's receive buffer that are asked for.
const BUFFER_BYTES: usize = 8 << 20;
/// A packet of 200 bytes takes about this much of a receive buffer.
const BUFFER_PER_PACKET: usize = 1024;

/// Why round trips cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum RttError {
    /// A name cannot be resolved.
    #[error(
        "`{name}` is not the address of a device: {why}; write HOST, HOST:PORT or [IPV6]:PORT; \
         with --devices N it stands for N ports"
    )]
    Name {
        /// As typed.
        name: String,
        /// Why not.
        why: String,
    },
    /// More ports than there are.
    #[error("{count} devices do not fit the ports from {first} to 65535")]
    Ports {
        /// The first port.
        first: u16,
        /// As requested.
        count: u64,
    },
    /// The list and the count differ.
    #[error(
        "--to has {listed} addresses and --devices {count}; leave --devices out, or give one address"
    )]
    TwoCounts {
        /// Addresses of the list.
        listed: usize,
        /// As requested.
        count: u64,
    },
    /// The number of devices is outside its range.
    #[error("{devices} devices; 1 to {MOST_TARGETS} are possible")]
    TooManyTargets {
        /// As requested.
        devices: u64,
    },
    /// Addresses of both families.
    #[error("--to has IPv4 and IPv6 addresses; use one of them in a run")]
    TwoFamilies,
    /// An address is not in a local network.
    #[error("{address} is outside the local network; --yes-really sends there all the same")]
    Outside { address: IpAddr },
    /// The payload is too small or too large.
    #[error(
        "--size {size} is outside {} to {most}, the header and what one frame carries",
        packet::HEADER_BYTES
    )]
    Size {
        /// As typed.
        size: u64,
        /// Largest payload of a frame, by the version of IP.
        most: u64,
    },
    /// The DSCP is not one.
    #[error("--dscp {dscp} is outside 0 to 63")]
    Dscp {
        /// As typed.
        dscp: u64,
    },
    /// The loop has no grid.
    #[error("packets are sent on a grid of releases; leave out --wait relative")]
    NoGrid,
    /// More packets per second than onbeat sends.
    #[error(
        "{per_second} packets per second; at most {MOST_PER_SECOND} are sent: lengthen --period or take fewer devices"
    )]
    Flood {
        /// Devices × rate.
        per_second: u64,
    },
    /// The window does not fit its memory.
    #[error(
        "{packets} packets would be on their way at the same time, at most {MOST_REMEMBERED} are remembered; shorten --lost-after"
    )]
    Window {
        /// Devices × periods.
        packets: u64,
    },
    /// The socket refuses a setting or a call.
    #[error("cannot use a UDP socket: {0}")]
    Socket(io::Error),
    /// Devices of our own cannot be opened.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Their thread cannot be started.
    #[error("cannot start the thread of the devices: {0}")]
    Thread(io::Error),
    /// The plan cannot be used.
    #[error("--plan {path}: {source}")]
    Plan {
        /// The file.
        path: String,
        /// Why not.
        source: NetPlanError,
    },
    /// The plan is one of another run.
    #[error("--plan {path} has {planned} devices and this run {devices}; they must be equal")]
    PlanDevices {
        /// The file.
        path: String,
        /// Devices of the plan.
        planned: usize,
        /// Devices of the run.
        devices: u64,
    },
    /// No device answers.
    #[error(
        "{}; run `onbeat net device --bind ADDRESS --allow RANGE` there, and check the firewall",
        silent(*devices, first)
    )]
    NoAnswer {
        /// Number of devices.
        devices: usize,
        first: SocketAddr,
    },
}

fn silent(devices: usize, first: &SocketAddr) -> String {
    match devices {
        1 => format!("{first} does not answer"),
        _ => format!("none of {devices} devices answers, the first being {first}"),
    }
}

impl From<RttError> for ProbeError {
    fn from(why: RttError) -> Self {
        Self::Own(Box::new(why))
    }
}

const TO: ProbeOption = ProbeOption {
    name: "to",
    help: "Devices: HOST[:PORT],... [default: echo devices in this process]\n\
           Each answers as `onbeat net device` does, or by its own firmware (docs/net.md).",
    default: None,
    kind: OptionKind::Name,
};
const DEVICES: ProbeOption = ProbeOption {
    name: "devices",
    help: "Number of devices, at consecutive ports",
    default: Some("1"),
    kind: OptionKind::Count,
};
const SIZE: ProbeOption = ProbeOption {
    name: "size",
    help: "Payload of each packet, in bytes",
    default: Some("200"),
    kind: OptionKind::Count,
};
const LOST_AFTER: ProbeOption = ProbeOption {
    name: "lost-after",
    help: "Age at which a packet without an answer counts as lost",
    default: Some("1s"),
    kind: OptionKind::Time,
};
const RECEIVE: ProbeOption = ProbeOption {
    name: "receive",
    help: "How the loop waits for answers\n\
           block: asleep until one arrives; spin: polling for at most a tenth of the period, then asleep.",
    default: Some("block"),
    kind: OptionKind::Word(&["block", "spin"]),
};
const DSCP: ProbeOption = ProbeOption {
    name: "dscp",
    help: "Differentiated services code point of each packet, 0 to 63",
    default: Some("0"),
    kind: OptionKind::Count,
};
const NO_STAMPS: ProbeOption = ProbeOption {
    name: "no-stamps",
    help: "Do not split round trips by the kernel's time stamps",
    default: None,
    kind: OptionKind::Switch,
};
const YES_REALLY: ProbeOption = ProbeOption {
    name: "yes-really",
    help: "Send also to devices outside the local network",
    default: None,
    kind: OptionKind::Switch,
};

/// The description of the probe.
pub const RTT: Description = Description {
    name: "rtt",
    sentence: "From sending a UDP packet to a device to its answer, with every lost and late packet",
    examples: "  onbeat measure rtt --for 30s
      an echo device in this process, 200 bytes, every millisecond
  sudo onbeat measure rtt --to 192.168.7.2,192.168.7.3 --period 1ms --for 10m --limit 500us --at 99.99
      two boards, each running `onbeat net device` or firmware of its own
  onbeat measure rtt --devices 40 --period 10ms --receive spin
      forty devices, as robots with many joints have",
    series: &[Series::RoundTrip, Series::PacketResponse],
    defaults: Defaults::LOOP,
    choices: &[TO, DEVICES, SIZE, LOST_AFTER, RECEIVE, DSCP, PLAN, NO_STAMPS, YES_REALLY],
    line_a_second: false,
    open: |setting, given| open(setting, given).map_err(ProbeError::from),
};

fn open(setting: &mut Setting, given: &Given) -> Result<Parts, RttError> {
    let plan = RunPlan::from_options(setting, given)?;
    let (devices, targets, mut remarks) = match &plan.targets {
        Some(targets) => (None, targets.clone(), Vec::new()),
        None => {
            let count = plan.devices as u16;
            let devices = Devices::open(&DeviceOptions { count, ..DeviceOptions::default() })?;
            let targets = devices.addresses().map_err(RttError::Socket)?;
            let remark = "echo devices in this process answered, over the loopback interface";
            (Some(devices), targets, vec![remark.to_owned()])
        }
    };

    let (socket, stamps) = open_socket(&plan, targets[0].is_ipv4(), &mut remarks)?;
    let (sender, receiver) = fate_channel(targets.len(), plan.per_second);
    let packets = PacketForm { stamps, ..plan.packets };
    let cold_socket = socket.try_clone().map_err(RttError::Socket)?;
    let task = RoundTripTask::new(socket, &targets, plan.schedule, packets, sender);

    let thread = &setting.thread;
    let start = |devices: Devices| Arc::new(devices).start(thread.fifo.is_some(), thread.cpu);
    let companion = RoundTripCompanion {
        socket: cold_socket,
        tally: RoundTripTally::new(targets.len()),
        dropped_before: None,
        cycles: (targets.len() > 1 || plan.predicted.is_some())
            .then(|| CycleTally::new(targets.len())),
        predicted: plan.predicted,
        targets,
        payload: packets.bytes,
        lost_after_ns: plan.schedule.lost_after_ns,
        fates: receiver,
        remarks,
        _devices: devices.map(start).transpose().map_err(RttError::Thread)?,
    };
    Ok(Parts {
        body: Box::new(RoundTripBody(task)),
        figures: Box::new(PacketFigures),
        companion: Box::new(companion),
    })
}

/// What was asked for, checked.
struct RunPlan {
    targets: Option<Vec<SocketAddr>>,
    devices: u64,
    /// Packets, of all devices together.
    per_second: u64,
    schedule: PacketSchedule,
    packets: PacketForm,
    dscp: u8,
    predicted: Option<PredictedAnswers>,
}

impl RunPlan {
    fn from_options(setting: &Setting, given: &Given) -> Result<Self, RttError> {
        if setting.wait.is_relative() {
            return Err(RttError::NoGrid);
        }
        let count = given.count(DEVICES.name);
        let list = given.name(TO.name);
        let targets =
            list.map(|list| targets(list, count, given.is_set(YES_REALLY.name))).transpose()?;
        let devices = targets.as_ref().map_or(count, |targets| targets.len() as u64);
        if !(1..=MOST_TARGETS).contains(&devices) {
            return Err(RttError::TooManyTargets { devices });
        }

        let size = given.count(SIZE.name);
        let ipv6 = targets.iter().flatten().any(SocketAddr::is_ipv6);
        let most = FrameSize { ipv6, vlan: false }.most_payload();
        if !(packet::HEADER_BYTES as u64..=most).contains(&size) {
            return Err(RttError::Size { size, most });
        }
        let dscp = given.count(DSCP.name);
        let dscp =
            u8::try_from(dscp).ok().filter(|dscp| *dscp < 64).ok_or(RttError::Dscp { dscp })?;
        let per_second = devices * 1_000_000_000 / setting.period_ns.max(1);
        if per_second > MOST_PER_SECOND {
            return Err(RttError::Flood { per_second });
        }
        let window = given.time_ns(LOST_AFTER.name).div_ceil(setting.period_ns.max(1)).max(1);
        if window.saturating_mul(devices) > MOST_REMEMBERED {
            return Err(RttError::Window { packets: window.saturating_mul(devices) });
        }

        let session = fastrand::u32(1..);
        let stamps = !given.is_set(NO_STAMPS.name);
        let packets = PacketForm { bytes: size as usize, window, session, stamps };
        let plan = given.name(PLAN.name);
        let predicted = predicted(plan, devices, size, ipv6, setting.period_ns)?;
        let schedule = schedule(setting, given, window);
        Ok(Self { targets, devices, per_second, schedule, packets, dscp, predicted })
    }
}

fn schedule(setting: &Setting, given: &Given, window: u64) -> PacketSchedule {
    let receive = match given.word(RECEIVE.name) {
        Some("spin") => Receive::Spin { at_most_ns: setting.period_ns / 10 },
        _ => Receive::Block,
    };
    PacketSchedule {
        deadline_ns: setting.deadline_ns,
        // A missing answer must not cost the next release.
        wait_ns: setting.period_ns / 10 * 8,
        lost_after_ns: window * setting.period_ns,
        receive,
    }
}

/// Opens the socket of the loop; returns whether the kernel stamps its packets.
fn open_socket(
    plan: &RunPlan,
    is_ipv4: bool,
    remarks: &mut Vec<String>,
) -> Result<(UdpSocket, bool), RttError> {
    let refused = |why: rustix::io::Errno| RttError::Socket(why.into());
    let socket = udp::open_any(is_ipv4, BUFFER_BYTES).map_err(RttError::Socket)?;

    let bytes = sockopt::socket_recv_buffer_size(&socket).map_err(refused)?;
    let burst = plan.devices as usize * BUFFER_PER_PACKET.max(2 * plan.packets.bytes);
    if bytes < 2 * burst {
        remarks.push(format!(
            "the receive buffer has {bytes} bytes and two cycles' answers take up to {}; \
             `sudo sysctl net.core.rmem_max={}` allows more",
            2 * burst,
            BUFFER_BYTES
        ));
    }

    // The two lower bits are for congestion.
    let class = plan.dscp << 2;
    if is_ipv4 {
        sockopt::set_ip_tos(&socket, class).map_err(refused)?;
    } else {
        sockopt::set_ipv6_tclass(&socket, class.into()).map_err(refused)?;
    }
    let stamps =
        plan.packets.stamps && DatagramPort::new(socket.as_raw_fd()).request_stamps().is_ok();
    Ok((socket, stamps))
}

/// The series of the packets; the companion counts them.
#[derive(Clone, Copy, Debug)]
struct PacketFigures;

impl Figures for PacketFigures {
    fn series(&self) -> &'static [Series] {
        &[
            Series::RoundTrip,
            Series::PacketResponse,
            Series::SendPath,
            Series::NetworkTime,
            Series::WireTime,
            Series::DeviceTime,
            Series::ReceivePath,
        ]
    }

    fn of(&mut self, _: &Sample, _: Option<&Sample>, _: &mut dyn FnMut(Series, u64)) {}
}
