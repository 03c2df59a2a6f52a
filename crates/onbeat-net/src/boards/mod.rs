//! Two boards: an edge at the first becomes an output of the second.
//!
//! After Mossige, Sampath and Rao (2007), 4.1.3: the first board takes an edge up, waits, and sends
//! it with its time stamp; the second takes it up, waits, and writes an output. Their t_rwn is the
//! mean of the whole minus both delays, and t_n = t_rwn − t_rw, where t_rw = t_r + t_w. Here all of
//! them are means of series of the same edges, so that the difference holds exactly: t_r from the
//! edge to the first board's program, t_n from the end of its delay to the second board's program,
//! t_w from the end of that one's delay to the end of its write.
//!
//! The second board answers each edge with its instants. So each edge is an exchange of time as
//! well: [`super::clock_fit`] fits the second board's clock to the exchanges of each second, and
//! its bound is stated with every one-way figure. The clocks are not set.

mod companion;
pub mod output_board;
pub mod ptp;
mod reports;
mod sender;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use onbeat_rt::Sample;

use self::companion::{EdgeTripCompanion, LOST_AFTER};
use self::output_board::MOST_DELAY_NS;
use self::reports::TakenReports;
use self::sender::{EdgeSender, EdgeTrip, SentEdges};
use super::address::is_local;
use super::udp;
use onbeat::probe::description::{OnEdges, Parts};
use onbeat::probe::ports::{Generator, PortAddress, PortCompanion};
use onbeat::probe::read_write::check_delay;
use onbeat::probe::{ProbeError, Setting};
use onbeat_record::{BoardAccount, Figures, Series};

/// Maximum `SCHED_FIFO` priority.
const HIGHEST_PRIORITY: u32 = 99;

/// Why two boards cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum BoardsError {
    /// The second board is not an address of a network.
    #[error("--via {place} is not a board; write udp:HOST:PORT, where `onbeat net board` runs")]
    NotABoard {
        /// As typed.
        place: String,
    },
    /// The second board is not in a local network.
    #[error("--via {board} is outside the local network; edges are sent to local boards only")]
    Outside {
        /// Its address.
        board: SocketAddr,
    },
    /// The delay is longer than a board accepts.
    #[error("--delay {} ms is too long; a board accepts up to {} ms", *delay_ns as f64 / 1e6, f64::from(MOST_DELAY_NS) / 1e6)]
    Delay {
        /// As requested.
        delay_ns: u64,
    },
    /// The second board does not answer.
    #[error(
        "{board} does not answer; run `onbeat net board --bind ADDRESS --allow RANGE` there, and check the firewall"
    )]
    NoAnswer {
        /// Its address.
        board: SocketAddr,
    },
    /// The socket refuses a setting or a call.
    #[error("cannot use a UDP socket: {0}")]
    Socket(io::Error),
}

impl From<BoardsError> for ProbeError {
    fn from(why: BoardsError) -> Self {
        Self::Own(Box::new(why))
    }
}

/// What a run over two boards was asked for.
#[derive(Clone, Copy, Debug)]
pub struct EdgeRoute<'p> {
    /// Where edges come from.
    pub input: &'p PortAddress,
    /// Where the generator writes, for an input at the other end.
    pub stimulus: Option<&'p PortAddress>,
    /// The second board.
    pub via: &'p PortAddress,
    /// Delay of each board, in nanoseconds.
    pub delay_ns: u64,
    /// Edges after which the run ends; 0 for no end.
    pub count: u64,
    /// Network interface on which `ptp4l` reads the clocks; `None` for none.
    pub ptp: Option<&'p str>,
    /// Whether the second board reads this machine's clock, so that nothing is fitted.
    pub one_clock: bool,
}

/// Prepares the first board.
///
/// # Errors
/// [`BoardsError`], and what [`Generator::feeding`] returns.
pub fn open(setting: &mut Setting, route: &EdgeRoute<'_>) -> Result<Parts, ProbeError> {
    let PortAddress::Udp(board) = *route.via else {
        return Err(BoardsError::NotABoard { place: route.via.to_string() }.into());
    };
    if !is_local(board.ip()) {
        return Err(BoardsError::Outside { board }.into());
    }
    let delay_ns = route.delay_ns;
    check_delay(setting, delay_ns)?;
    let board_delay_ns = u32::try_from(delay_ns).ok().filter(|delay_ns| *delay_ns <= MOST_DELAY_NS);
    let board_delay_ns = board_delay_ns.ok_or(BoardsError::Delay { delay_ns })?;
    setting.delay_ns = delay_ns;

    let (edges, generator) = Generator::feeding(route.input, route.stimulus, setting)?;
    let socket = udp::open_any(board.is_ipv4(), udp::BURST_BYTES).map_err(BoardsError::Socket)?;
    let cold_socket = socket.try_clone().map_err(BoardsError::Socket)?;
    let trip = EdgeTrip {
        session: fastrand::u32(1..),
        delay_ns,
        board_delay_ns,
        work_ns: setting.work_ns,
        count: route.count,
    };
    let sent = Arc::new(SentEdges::default());
    let task = EdgeSender::new(socket, board, trip, sent.clone());
    let made = generator.as_ref().map(Generator::made);
    let companion = EdgeTripCompanion {
        socket: cold_socket,
        board,
        session: trip.session,
        // One above the loop, so that a report is read as it arrives.
        fifo: setting.thread.fifo.map(|priority| (priority + 1).min(HIGHEST_PRIORITY)),
        edges: sent,
        reader: None,
        taken: TakenReports::default(),
        waiting: Vec::new(),
        account: BoardAccount {
            board: board.to_string(),
            delay_ns,
            lost_after_ns: LOST_AFTER.as_nanos() as u64,
            is_one_clock: route.one_clock,
            ..BoardAccount::default()
        },
        ptp_interface: route.ptp.map(str::to_owned),
        ptp: None,
        source: PortCompanion::default().fed_by(generator),
    };

    Ok(Parts {
        body: Box::new(OnEdges { edges, task, delay_ns, made }),
        figures: Box::new(EdgeTripFigures),
        companion: Box::new(companion),
    })
}

/// The series of two boards; the companion counts all but the first part.
#[derive(Clone, Copy, Debug)]
struct EdgeTripFigures;

impl Figures for EdgeTripFigures {
    fn series(&self) -> &'static [Series] {
        &[Series::Chain, Series::ReadLatency, Series::NetworkLatency, Series::OutputLatency]
    }

    fn of(&mut self, sample: &Sample, _: Option<&Sample>, count: &mut dyn FnMut(Series, u64)) {
        count(Series::ReadLatency, sample.note.into());
    }
}
