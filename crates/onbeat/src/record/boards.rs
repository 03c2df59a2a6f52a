//! The account of two boards: what became of the edges between them, and how well their clocks are
//! known.

use serde::{Deserialize, Serialize};

/// The edges of a run that pass a second board; a later note of the same process replaces it.
/// Sent = returned + lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BoardAccount {
    /// Address and port of the second board.
    pub board: String,
    /// Edges that were sent to it.
    pub sent: u64,
    /// Edges whose output it reported.
    pub returned: u64,
    /// Edges without a report at the end of a block.
    pub lost: u64,
    /// Edges that the system refused to send.
    pub refused: u64,
    /// Of the reported, writes to the output that failed.
    pub write_failures: u64,
    /// Further reports of an edge, and those that came after it counted as lost.
    pub duplicates: u64,
    /// Of the reported, edges without one-way figures, because no even clock fits their exchanges.
    pub unfitted: u64,
    /// Delay of the second board, in nanoseconds.
    pub delay_ns: u64,
    /// What an edge without a report counts as, in nanoseconds.
    pub lost_after_ns: u64,
    /// Whether both boards were to read one clock, so that none was fitted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_one_clock: bool,
    /// Its clock; absent before the first fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockAccount>,
    /// What `ptp4l` read of the boards' wall clocks; absent where it was not started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ptp: Option<PtpAccount>,
}

/// What `ptp4l` read of the wall clocks of both boards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PtpAccount {
    /// The network interface.
    pub interface: String,
    /// State of its port: `LISTENING`, `UNCALIBRATED`, `SLAVE`.
    pub state: String,
    /// Whether it was comparing the clocks when this was written.
    pub is_locked: bool,
    /// Readings of the offset so far.
    pub readings: u64,
    /// How often the time transmitter was lost.
    pub losses: u64,
    /// Latest reading: this board's wall clock minus the transmitter's, in nanoseconds.
    pub offset_ns: i64,
    /// Root mean square of the readings, in nanoseconds.
    pub rms_ns: u64,
    /// Largest reading of either sign.
    pub most_offset_ns: u64,
    /// Latest delay of the way, in nanoseconds.
    pub path_delay_ns: u64,
}

/// The second board's clock by the first one's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockAccount {
    /// Number of fits, each of about a second of exchanges.
    pub fits: u64,
    /// At the end of the latest fit: how far the second clock is ahead, in nanoseconds.
    pub offset_ns: i64,
    /// How much faster it runs, by the latest fit, in ppm.
    pub drift_ppm: f64,
    /// Smallest of the bounds of all fits: no one-way figure of that fit is wrong by more.
    pub least_bound_ns: u64,
    /// Largest of the bounds.
    pub most_bound_ns: u64,
}

impl ClockAccount {
    /// Adds a fit to those counted so far.
    pub fn add(&mut self, offset_ns: i64, drift_ppm: f64, bound_ns: u64) {
        let least_ns = if self.fits == 0 { bound_ns } else { self.least_bound_ns.min(bound_ns) };
        *self = Self {
            fits: self.fits + 1,
            offset_ns,
            drift_ppm,
            least_bound_ns: least_ns,
            most_bound_ns: self.most_bound_ns.max(bound_ns),
        };
    }
}
