//! The cold side of two boards: reports become figures, second by second, with the clocks' bound.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use onbeat_rt::Flow;

use super::BoardsError;
use super::ptp::{PtpMonitor, PtpRole};
use super::reports::{ReportReader, ReturnedEdge, TakenReports};
use super::sender::SentEdges;
use crate::clock_fit::{ClockFit, Exchange};
use crate::knock::silent;
use crate::packet::{EdgeReport, HEADER_BYTES};
use onbeat::probe::ProbeError;
use onbeat::probe::description::Companion;
use onbeat::probe::ports::PortCompanion;
use onbeat_record::{BoardAccount, ClockReading, Note, Recorder, Series};

/// Exchanges of this time are fitted together.
const FIT_NS: u64 = 1_000_000_000;
/// The end of a block looks for reports after each of these pauses, until it has found none so many
/// times. Looks are counted, not time: a machine that stood still has looked once.
const PAUSE: Duration = Duration::from_millis(5);
const LOOKS: u32 = 200;
/// A lost edge counts with it.
pub(super) const LOST_AFTER: Duration = PAUSE.saturating_mul(LOOKS);
/// Packets that ask whether the board is there: for three seconds in all, of which a busy board may
/// stand still for some.
const TRIES: u64 = 15;
/// How long the run waits for the first reading of `ptp4l`, which finds its time transmitter within seconds.
const PTP_WITHIN: Duration = Duration::from_secs(10);

/// Counts reports, and writes the account of both boards.
pub(super) struct EdgeTripCompanion {
    pub(super) socket: UdpSocket,
    pub(super) board: SocketAddr,
    pub(super) session: u32,
    /// Priority of the thread that takes reports.
    pub(super) fifo: Option<u32>,
    pub(super) edges: Arc<SentEdges>,
    pub(super) reader: Option<ReportReader>,
    pub(super) taken: TakenReports,
    /// Not fitted yet.
    pub(super) waiting: Vec<ReturnedEdge>,
    pub(super) account: BoardAccount,
    pub(super) ptp_interface: Option<String>,
    pub(super) ptp: Option<PtpMonitor>,
    /// Makes the edges, where they do not come from outside.
    pub(super) source: PortCompanion,
}

impl EdgeTripCompanion {
    /// Takes reports; fits and counts each second of them.
    fn count(&mut self, recorder: &mut Recorder) {
        while let Some(edge) =
            self.reader.as_ref().and_then(|reader| reader.returned.try_recv().ok())
        {
            if !self.taken.is_first(edge.sequence) {
                self.account.duplicates += 1;
                continue;
            }

            self.account.returned += 1;
            let first_ns = self.waiting.first().unwrap_or(&edge).exchange.sent_ns;
            let span_ns = edge.exchange.sent_ns.saturating_sub(first_ns);
            self.waiting.push(edge);
            if span_ns >= FIT_NS {
                self.fit(recorder);
            }
        }
    }

    /// Counts the waiting edges, by a fit of the clocks to their own exchanges.
    fn fit(&mut self, recorder: &mut Recorder) {
        let edges = std::mem::take(&mut self.waiting);
        let exchanges: Vec<Exchange> = edges.iter().map(|edge| edge.exchange).collect();
        let fit = if self.account.is_one_clock {
            ClockFit::of_one_clock(&exchanges)
        } else {
            ClockFit::from_exchanges(&exchanges)
        };
        let fit = fit.ok();
        let end_ns = exchanges.last().map_or(0, |exchange| exchange.returned_ns);
        match &fit {
            Some(fit) => {
                let reading = ClockReading {
                    at_ns: end_ns,
                    offset_ns: fit.offset_ns(end_ns),
                    bound_ns: fit.bound_ns(),
                };
                self.account.clock.get_or_insert_default().add(reading, fit.drift_ppm());
            }
            None => self.account.unfitted += edges.len() as u64,
        }

        for edge in &edges {
            self.account.write_failures += u64::from(edge.report.state & EdgeReport::WRITE_FAILED);
            count_edge(edge, fit.as_ref(), recorder);
        }
    }

    /// Counts the edges without a report.
    fn give_up(&mut self, recorder: &mut Recorder) {
        let sent = self.edges.sent.load(Ordering::Relaxed);
        let missing = sent.saturating_sub(self.account.returned + self.account.lost);
        for _ in 0..missing {
            recorder.count(Series::Chain, self.account.lost_after_ns);
        }
        self.account.lost += missing;
        self.account.sent = sent;
        self.account.refused = self.edges.refused.load(Ordering::Relaxed);
    }

    fn is_complete(&self) -> bool {
        self.account.returned + self.account.lost >= self.edges.sent.load(Ordering::Relaxed)
    }
}

/// Counts one edge. Without a fit its whole way counts until its report was back, which is later.
fn count_edge(edge: &ReturnedEdge, fit: Option<&ClockFit>, recorder: &mut Recorder) {
    let EdgeReport { edge: command, taken_ns, written_ns, .. } = edge.report;
    let release_ns = taken_ns.saturating_add(command.delay_ns.into());
    recorder.count(Series::OutputLatency, written_ns.saturating_sub(release_ns));
    let end_ns = match fit {
        Some(fit) => {
            let network_ns = fit.own_ns(taken_ns).saturating_sub(command.release_ns);
            recorder.count(Series::NetworkLatency, network_ns);
            fit.own_ns(written_ns)
        }
        None => edge.exchange.returned_ns,
    };
    recorder.count(Series::Chain, end_ns.saturating_sub(command.edge_ns));
}

impl Companion for EdgeTripCompanion {
    fn start(&mut self) -> Result<(), ProbeError> {
        let silent = silent(&self.socket, &[self.board], HEADER_BYTES, TRIES);
        if !silent.map_err(BoardsError::Socket)?.is_empty() {
            return Err(BoardsError::NoAnswer { board: self.board }.into());
        }
        if let Some(interface) = &self.ptp_interface {
            let ptp = PtpMonitor::start(interface, PtpRole::Receiver)?;
            // Without a reading the run goes on, and says that the clocks were not compared.
            ptp.await_reading(PTP_WITHIN)?;
            self.ptp = Some(ptp);
        }
        let socket = self.socket.try_clone().map_err(BoardsError::Socket)?;
        let reader = ReportReader::start(socket, self.board, self.session, self.fifo)?;
        self.reader = Some(reader);
        self.source.start()
    }

    fn look(&mut self, recorder: &mut Recorder) -> Flow {
        self.count(recorder);
        Flow::Continue
    }

    fn after_block(&mut self, recorder: &mut Recorder) {
        self.count(recorder);
        let mut looks = 0;
        while !self.is_complete() && looks < LOOKS {
            let returned = self.account.returned;
            thread::sleep(PAUSE);
            self.count(recorder);
            // A board that is behind reports on.
            looks = if self.account.returned > returned { 0 } else { looks + 1 };
        }

        if !self.waiting.is_empty() {
            self.fit(recorder);
        }
        self.give_up(recorder);
        self.account.ptp = self.ptp.as_ref().map(PtpMonitor::account);
        // A file that cannot be written ends the run by itself.
        let _ = recorder.write_out();
        let _ = recorder.writer().note(&Note::Boards(Box::new(self.account.clone())));
    }

    fn end(&mut self) -> Vec<String> {
        self.reader = None;
        self.ptp = None;
        self.source.end()
    }
}
