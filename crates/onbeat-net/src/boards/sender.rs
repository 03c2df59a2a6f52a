//! The loop of the first board: an edge, a delay, a packet.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use onbeat_rt::sys::Monotonic;
use onbeat_rt::sys::datagram::{DatagramPort, SendAddress};
use onbeat_rt::{Clock, Cycle, Flow, Task};

use crate::packet::{EdgeCommand, HEADER_BYTES, PacketBody, PacketKind, WireHeader};
use onbeat::probe::timer::work;

/// Bytes of an edge on its way.
const EDGE_BYTES: usize = HEADER_BYTES + 24;

/// Packets of a run: counted by the loop, read by other threads.
#[derive(Debug, Default)]
pub(super) struct SentEdges {
    pub(super) sent: AtomicU64,
    pub(super) refused: AtomicU64,
}

/// The edges of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct EdgeTrip {
    pub(super) session: u32,
    /// Delay of this board, in nanoseconds.
    pub(super) delay_ns: u64,
    /// Delay of the other board.
    pub(super) board_delay_ns: u32,
    /// Planned work of a cycle.
    pub(super) work_ns: u64,
    /// Edges after which the loop ends; 0 for no end.
    pub(super) count: u64,
}

/// Sends each edge at the end of its delay.
pub(super) struct EdgeSender {
    _socket: UdpSocket,
    port: DatagramPort,
    to: SendAddress,
    message: [u8; EDGE_BYTES],
    trip: EdgeTrip,
    served: u64,
    edges: Arc<SentEdges>,
}

impl EdgeSender {
    pub(super) fn new(
        socket: UdpSocket,
        to: SocketAddr,
        trip: EdgeTrip,
        edges: Arc<SentEdges>,
    ) -> Self {
        Self {
            port: DatagramPort::new(socket.as_raw_fd()),
            _socket: socket,
            to: SendAddress::new(to),
            message: [0; EDGE_BYTES],
            trip,
            served: 0,
            edges,
        }
    }
}

impl Task for EdgeSender {
    fn cycle(&mut self, cycle: &Cycle) -> Flow {
        work(cycle.start, self.trip.work_ns);
        let taken = cycle.release.minus_ns(self.trip.delay_ns);
        let edge = EdgeCommand {
            edge_ns: taken.minus_ns(cycle.noted().into()).as_ns(),
            release_ns: cycle.release.as_ns(),
            delay_ns: self.trip.board_delay_ns,
        };
        PacketBody::EdgeCommand(edge).write(&mut self.message[HEADER_BYTES..]);
        let header = WireHeader {
            kind: PacketKind::EdgeCommand,
            device: 0,
            sequence: self.served,
            sent_ns: Monotonic.now().as_ns(),
            received_ns: 0,
            answered_ns: 0,
            session: self.trip.session,
            lifetime_us: 0,
        };
        header.write(&mut self.message);

        self.served += 1;
        let is_sent = self.port.send(&self.message, &self.to).is_ok();
        let counter = if is_sent { &self.edges.sent } else { &self.edges.refused };
        counter.fetch_add(1, Ordering::Relaxed);
        if self.served == self.trip.count { Flow::Stop } else { Flow::Continue }
    }
}
