//! The thread of the first board that takes the second one's reports.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use onbeat_rt::Clock;
use onbeat_rt::sys::datagram::DatagramPort;
use onbeat_rt::sys::{Monotonic, Port};

use crate::background::BackgroundThread;
use crate::clock_fit::Exchange;
use crate::packet::{self, EdgeReport, PacketBody};
use onbeat::probe::ProbeError;
use onbeat_host::thread::ThreadRequest;

/// How often the thread polls its stop flag, in nanoseconds.
const LOOK_NS: u64 = 50_000_000;
/// Reports below the newest one that are distinguished from duplicates.
const REMEMBERED: u64 = 4096;

/// An edge that passed both boards.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReturnedEdge {
    pub(super) sequence: u64,
    pub(super) exchange: Exchange,
    pub(super) report: EdgeReport,
}

/// The thread, until this is dropped.
pub(super) struct ReportReader {
    _thread: BackgroundThread,
    pub(super) returned: Receiver<ReturnedEdge>,
}

impl ReportReader {
    const NAME: &'static str = "onbeat-reports";

    /// Takes the reports of one run from one board.
    pub(super) fn start(
        socket: UdpSocket,
        board: SocketAddr,
        session: u32,
        fifo: Option<u32>,
    ) -> Result<Self, ProbeError> {
        let (report, returned) = channel();
        let thread = BackgroundThread::start(Self::NAME, move |stop| {
            // A later reading makes the bound of the clocks larger, and no figure wrong.
            let _ = ThreadRequest { fifo, ..ThreadRequest::default() }.prepare_thread();
            read(&socket, board, session, &report, stop);
        });
        let thread = thread.map_err(|source| ProbeError::Thread { what: Self::NAME, source })?;
        Ok(Self { _thread: thread, returned })
    }
}

fn read(
    socket: &UdpSocket,
    board: SocketAddr,
    session: u32,
    report: &Sender<ReturnedEdge>,
    stop: &AtomicBool,
) {
    let port = DatagramPort::new(socket.as_raw_fd());
    let ready = Port::new(socket.as_raw_fd());
    let mut message = [0; packet::MOST_BYTES];
    while !stop.load(Ordering::Relaxed) {
        let Ok(Some(datagram)) = port.receive(&mut message) else {
            let _ = ready.is_ready_within(LOOK_NS);
            continue;
        };
        let returned_ns = Monotonic.now().as_ns();
        let decoded = message.get(..datagram.length).map(packet::decode);
        let Some(Ok((header, PacketBody::EdgeReport(body)))) = decoded else { continue };
        if header.session != session || datagram.from != Some(board) {
            continue;
        }

        let exchange = Exchange {
            sent_ns: header.sent_ns,
            received_ns: header.received_ns,
            answered_ns: header.answered_ns,
            returned_ns,
        };
        let edge = ReturnedEdge { sequence: header.sequence, exchange, report: body };
        if report.send(edge).is_err() {
            return;
        }
    }
}

/// Which reports were taken: the latest by number, the others as older than all of them.
#[derive(Debug)]
pub(super) struct TakenReports {
    bits: Vec<bool>,
    /// The number above the highest one.
    next: u64,
}

impl Default for TakenReports {
    fn default() -> Self {
        Self { bits: vec![false; REMEMBERED as usize], next: 0 }
    }
}

impl TakenReports {
    /// Takes a report; returns whether it is the first of its number. Numbers that are too old to
    /// be known count as taken.
    pub(super) fn is_first(&mut self, sequence: u64) -> bool {
        if sequence + REMEMBERED < self.next {
            return false;
        }
        while self.next <= sequence {
            // A jump of more than all of them leaves none.
            self.next = self.next.max(sequence.saturating_sub(REMEMBERED));
            self.bits[(self.next % REMEMBERED) as usize] = false;
            self.next += 1;
        }
        !std::mem::replace(&mut self.bits[(sequence % REMEMBERED) as usize], true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_counts_once_in_any_order() {
        let mut taken = TakenReports::default();
        let firsts: Vec<bool> =
            [0, 2, 1, 2, 0, 5_000, 4_999, 4_999, 1, 3].map(|n| taken.is_first(n)).into();
        assert_eq!(
            firsts,
            [true, true, true, false, false, true, true, false, false, false],
            "the last two are too old"
        );
        assert!(taken.is_first(1 << 40), "a jump");
    }
}
