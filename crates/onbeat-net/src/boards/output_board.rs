//! The second board: takes edges from the network, and writes an output for each.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use onbeat_rt::sys::datagram::{Datagram, DatagramPort, SendAddress};
use onbeat_rt::sys::{Monotonic, Port};
use onbeat_rt::{Clock, Instant};

use crate::address::AddressRange;
use crate::packet::{
    self, EdgeCommand, EdgeReport, HEADER_BYTES, PacketBody, PacketKind, WireHeader,
};
use crate::udp::{self, BindError};
use onbeat::probe::ProbeError;
use onbeat::probe::description::Companion;
use onbeat::probe::ports::{Output, PortAddress, PortCompanion};

/// The port of a board with an output.
pub const BOARD_PORT: u16 = 7471;
/// Longest delay that a board accepts: it serves no other edge meanwhile.
pub const MOST_DELAY_NS: u32 = 100_000_000;
/// How often a waiting board polls its stop flag, in nanoseconds.
const LOOK_NS: u64 = 50_000_000;

/// Which output a board has, and for whom.
#[derive(Clone, Debug)]
pub struct BoardOptions {
    /// Local address.
    pub bind: IpAddr,
    /// UDP port; 0: any free one.
    pub port: u16,
    pub output: PortAddress,
    /// Who is answered.
    pub allow: Vec<AddressRange>,
}

/// Why a board cannot be opened or served.
#[derive(Debug, thiserror::Error)]
pub enum BoardError {
    /// The socket cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The output cannot be opened.
    #[error(transparent)]
    Output(#[from] ProbeError),
    /// The socket fails.
    #[error("cannot receive edges: {0}")]
    Receive(io::Error),
}

/// What a board did.
#[derive(Debug, Default)]
pub struct BoardCounts {
    /// Outputs written and reported.
    pub written: AtomicU64,
    /// Writes that failed; they are reported as such.
    pub failed: AtomicU64,
    /// Packets from addresses that are not allowed.
    pub refused: AtomicU64,
    /// Packets that are not edges of this version, or ask for too long a delay.
    pub invalid: AtomicU64,
    /// Reports that the system did not send.
    pub unsent: AtomicU64,
}

/// An open board.
#[derive(Debug)]
pub struct OutputBoard {
    socket: UdpSocket,
    allow: Vec<AddressRange>,
    output: Output,
    /// Its thread ends with it.
    _reader: PortCompanion,
    /// What the board has done so far.
    pub counts: BoardCounts,
}

impl OutputBoard {
    /// Opens socket and output; a thread reads a pipe.
    ///
    /// # Errors
    /// [`BoardError::Bind`], [`BoardError::Output`].
    pub fn open(options: &BoardOptions) -> Result<Self, BoardError> {
        let socket = udp::open(SocketAddr::new(options.bind, options.port))?;
        let (output, mut reader) = PortCompanion::for_output(&options.output)?;
        reader.start()?;
        let counts = BoardCounts::default();
        Ok(Self { socket, allow: options.allow.clone(), output, _reader: reader, counts })
    }

    /// Returns its address.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serves edges in the order of their arrival until `stop` is set. Those that arrive while one
    /// waits for the end of its delay queue in the kernel.
    ///
    /// # Errors
    /// [`BoardError::Receive`].
    pub fn serve(&self, stop: &AtomicBool) -> Result<(), BoardError> {
        let port = DatagramPort::new(self.socket.as_raw_fd());
        let ready = Port::new(self.socket.as_raw_fd());
        let mut message = [0; packet::MOST_BYTES + 1];
        while !stop.load(Ordering::Relaxed) {
            match port.receive(&mut message) {
                Ok(Some(datagram)) => self.take(port, datagram, &mut message),
                Ok(None) => {
                    let _ = ready.is_ready_within(LOOK_NS);
                }
                // The answer of a peer that has gone.
                Err(why) if why.0 == libc::ECONNREFUSED => {}
                Err(why) => return Err(BoardError::Receive(io::Error::from_raw_os_error(why.0))),
            }
        }
        Ok(())
    }

    fn take(&self, port: DatagramPort, datagram: Datagram, message: &mut [u8]) {
        let taken = Monotonic.now();
        let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        let Some(from) = datagram.from else { return };
        if !self.allow.iter().any(|range| range.contains(from.ip())) {
            count(&self.counts.refused);
            return;
        }

        // One that is longer than any message was cut off.
        let bytes = match message.get(..datagram.length).map(packet::decode) {
            Some(Ok((request, PacketBody::EdgeCommand(edge))))
                if edge.delay_ns <= MOST_DELAY_NS =>
            {
                self.write(&request, edge, taken, message)
            }
            // Before a run it is asked whether the board is there.
            Some(Ok((request, PacketBody::Echo(_)))) if request.kind == PacketKind::EchoRequest => {
                answer(&request, taken, &mut message[..datagram.length]);
                datagram.length
            }
            _ => {
                count(&self.counts.invalid);
                return;
            }
        };
        if port.send(&message[..bytes], &SendAddress::new(from)).is_err() {
            count(&self.counts.unsent);
        }
    }

    /// Writes the output at the end of the delay, and the report over the message; returns its
    /// length.
    fn write(
        &self,
        request: &WireHeader,
        edge: EdgeCommand,
        taken: Instant,
        message: &mut [u8],
    ) -> usize {
        let release = taken.plus_ns(edge.delay_ns.into());
        while Monotonic.now() < release {
            // A signal ends a sleep early.
            let _ = Monotonic.sleep_until(release);
        }
        let succeeded = self.output.set(request.sequence as u8);
        let written_ns = Monotonic.now().as_ns();

        let counter = if succeeded { &self.counts.written } else { &self.counts.failed };
        counter.fetch_add(1, Ordering::Relaxed);
        let state = if succeeded { 0 } else { EdgeReport::WRITE_FAILED };
        let report = EdgeReport { edge, state, taken_ns: taken.as_ns(), written_ns };
        let bytes = HEADER_BYTES + PacketKind::EdgeReport.body_bytes().unwrap_or(0);
        PacketBody::EdgeReport(report).write(&mut message[HEADER_BYTES..bytes]);
        answer(request, taken, &mut message[..bytes]);
        bytes
    }
}

/// Writes the header of the answer to a request.
fn answer(request: &WireHeader, received: Instant, message: &mut [u8]) {
    let header = WireHeader {
        kind: request.kind.answer().unwrap_or(request.kind),
        received_ns: received.as_ns(),
        answered_ns: Monotonic.now().as_ns(),
        ..*request
    };
    header.write(message);
}
