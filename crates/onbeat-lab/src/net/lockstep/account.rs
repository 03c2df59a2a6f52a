//! What boards in lockstep sent, what arrived, and when.

use std::collections::{HashMap, VecDeque};

use onbeat_net::packet::{self, PacketKind};
use onbeat_net::run_log::assembly::RunAssembly;
use onbeat_net::run_log::wire::{self, LOG_PORT, LogMessage};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::LockstepEvent;

/// Ethernet, IPv4 without options, UDP.
const HEADERS: usize = 42;
const IPV4: [u8; 3] = [8, 0, 0x45];
const UDP: u8 = 17;

/// Packets of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CarriedPackets {
    /// Sent by a board.
    pub sent: u64,
    /// Arrived at an end.
    pub arrived: u64,
    /// Arrived after a packet with a higher sequence number.
    pub out_of_order: u64,
    /// Highest sequence number that arrived.
    #[serde(skip)]
    highest: u64,
}

/// Times by nearest rank, in nanoseconds of virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CarriedTimes {
    /// Smallest.
    pub min_ns: u64,
    /// 50th percentile.
    pub median_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Largest.
    pub max_ns: u64,
}

impl CarriedTimes {
    fn of(times_ns: &[u64]) -> Option<Self> {
        let mut sorted = times_ns.to_vec();
        sorted.sort_unstable();
        let rank = |percent: usize| {
            sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied()
        };
        let [min_ns, median_ns, p99_ns, max_ns] = [rank(0)?, rank(50)?, rank(99)?, rank(100)?];
        Some(Self { min_ns, median_ns, p99_ns, max_ns })
    }
}

/// The account of a run in lockstep: every packet, edge and output, and a digest of all of them.
#[derive(Default)]
pub struct LockstepAccount {
    /// Echo requests.
    pub requests: CarriedPackets,
    /// Answers to them.
    pub answers: CarriedPackets,
    /// Edges on their way to another board.
    pub edge_commands: CarriedPackets,
    /// Reports of their outputs.
    pub edge_reports: CarriedPackets,
    /// Edges at inputs.
    pub inputs: u64,
    /// Outputs written.
    pub outputs: u64,
    round_trips_ns: Vec<u64>,
    reactions_ns: Vec<u64>,
    /// When a request that has no answer yet was sent.
    asked_ns: HashMap<u64, u64>,
    /// When the first edges without an output were.
    edges_ns: VecDeque<(u64, bool)>,
    logged: RunAssembly,
    /// The run file that a board logged; empty where none did.
    pub log: Vec<u8>,
    digest: Sha256,
}

impl LockstepAccount {
    /// Takes an event of [`Lockstep::run`](super::Lockstep::run).
    pub fn take(&mut self, at_ns: u64, end: usize, event: LockstepEvent<'_>) {
        self.digest.update(at_ns.to_le_bytes());
        self.digest.update((end as u64).to_le_bytes());
        match event {
            LockstepEvent::Sent(frame) => {
                self.digest.update([0]);
                self.digest.update(frame);
                self.sent(at_ns, frame);
            }
            LockstepEvent::Arrived(frame) => {
                self.digest.update([1]);
                self.digest.update(frame);
                self.arrived(at_ns, frame);
            }
            LockstepEvent::Input(level) => {
                self.digest.update([2, level.into()]);
                self.inputs += 1;
                self.edges_ns.push_back((at_ns, level));
            }
            LockstepEvent::Output(level) => {
                self.digest.update([3, level.into()]);
                self.output(at_ns, level);
            }
        }
    }

    /// Returns the SHA-256 of all events so far: of their instants, ends, frames and levels.
    #[must_use]
    pub fn digest(&self) -> String {
        self.digest.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the times from the sending of a request to the arrival of its answer, if there were any.
    #[must_use]
    pub fn round_trips(&self) -> Option<CarriedTimes> {
        CarriedTimes::of(&self.round_trips_ns)
    }

    /// Returns the times from an edge at an input to the output for it, if there were any.
    #[must_use]
    pub fn reactions(&self) -> Option<CarriedTimes> {
        CarriedTimes::of(&self.reactions_ns)
    }

    /// Whether the log has its last part and every one before it.
    #[must_use]
    pub const fn has_whole_log(&self) -> bool {
        self.logged.is_over() && self.logged.counts().lost_parts == 0
    }

    fn packets(&mut self, kind: PacketKind) -> Option<&mut CarriedPackets> {
        match kind {
            PacketKind::EchoRequest => Some(&mut self.requests),
            PacketKind::EchoAnswer => Some(&mut self.answers),
            PacketKind::EdgeCommand => Some(&mut self.edge_commands),
            PacketKind::EdgeReport => Some(&mut self.edge_reports),
            _ => None,
        }
    }

    fn sent(&mut self, at_ns: u64, frame: &[u8]) {
        let Some((header, _)) = udp(frame).and_then(|(_, bytes)| packet::decode(bytes).ok()) else {
            return;
        };
        if header.kind == PacketKind::EchoRequest {
            self.asked_ns.insert(header.sequence, at_ns);
        }
        if let Some(packets) = self.packets(header.kind) {
            packets.sent += 1;
        }
    }

    fn arrived(&mut self, at_ns: u64, frame: &[u8]) {
        let Some((port, bytes)) = udp(frame) else { return };
        if port == LOG_PORT {
            if let Ok(LogMessage::Part(part)) = wire::decode(bytes) {
                self.logged.take(&part, &mut self.log);
            }
            return;
        }
        let Ok((header, _)) = packet::decode(bytes) else { return };
        if header.kind == PacketKind::EchoAnswer
            && let Some(asked_ns) = self.asked_ns.remove(&header.sequence)
        {
            self.round_trips_ns.push(at_ns - asked_ns);
        }
        if let Some(packets) = self.packets(header.kind) {
            packets.arrived += 1;
            packets.out_of_order += u64::from(header.sequence < packets.highest);
            packets.highest = packets.highest.max(header.sequence);
        }
    }

    /// An output belongs to the oldest edge of its level.
    fn output(&mut self, at_ns: u64, level: bool) {
        self.outputs += 1;
        if let Some((edge_ns, edge)) = self.edges_ns.pop_front()
            && edge == level
        {
            self.reactions_ns.push(at_ns - edge_ns);
        }
    }
}

/// The port that a frame's datagram goes to, and its bytes.
fn udp(frame: &[u8]) -> Option<(u16, &[u8])> {
    if frame.len() < HEADERS || frame[12..15] != IPV4 || frame[23] != UDP {
        return None;
    }
    let [port, length] = [36, 38].map(|at| u16::from_be_bytes([frame[at], frame[at + 1]]));
    // The length has the UDP header in it; short frames are padded.
    let payload = frame.get(HEADERS..HEADERS + usize::from(length).checked_sub(8)?)?;
    Some((port, payload))
}
