//! The account of two boards: what became of the edges between them, and how well their clocks are
//! known.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Edges that pass a second board, after each block; a later note of the same process replaces it.
/// `sent = returned + lost`. See docs/net.md#two-boards.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BoardAccount {
    /// Address and port of the second board.
    pub board: String,
    /// Edges sent to it.
    pub sent: u64,
    /// Edges whose output it reported.
    pub returned: u64,
    /// Edges without a report at the end of a block.
    pub lost: u64,
    /// Edges that the system refused to send.
    pub refused: u64,
    /// Of `returned`: writes to the output that failed.
    pub write_failures: u64,
    /// Further reports of an edge, and reports that arrived after the edge counted as lost.
    pub duplicates: u64,
    /// Of `returned`: edges without one-way figures, because no steady clock fits their exchanges.
    pub unfitted: u64,
    /// Delay of the second board, in nanoseconds.
    pub delay_ns: u64,
    /// Value of an edge without a report, in nanoseconds.
    pub lost_after_ns: u64,
    /// Whether both boards read one clock (`--one-clock`): offsets and bounds are 0.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_one_clock: bool,
    /// The second board's clock; absent before the first fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockAccount>,
    /// Readings of `ptp4l`; with `--ptp` only.
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
    /// Whether it was comparing the clocks when the note was written.
    pub is_locked: bool,
    /// Readings of the offset so far.
    pub readings: u64,
    /// Number of times that the time transmitter was lost.
    pub losses: u64,
    /// Latest reading: this board's wall clock minus the transmitter's, in nanoseconds.
    pub offset_ns: i64,
    /// Root mean square of the readings, in nanoseconds.
    pub rms_ns: u64,
    /// Largest magnitude of a reading, in nanoseconds.
    pub most_offset_ns: u64,
    /// Latest path delay, in nanoseconds.
    pub path_delay_ns: i64,
}

/// The second board's clock by the first one's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockAccount {
    /// Number of fits, each of about a second of exchanges.
    pub fits: u64,
    /// Offset of the second clock at the end of the latest fit, in nanoseconds; positive if it is
    /// ahead.
    pub offset_ns: i64,
    /// Rate of the second clock relative to the first by the latest fit, in ppm.
    pub drift_ppm: f64,
    /// Smallest error bound of all fits, in nanoseconds.
    pub least_bound_ns: u64,
    /// Largest error bound of all fits, in nanoseconds.
    pub most_bound_ns: u64,
    /// The latest 32 fits, oldest first.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub recent: VecDeque<ClockReading>,
}

/// A fit of the second board's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockReading {
    /// End of the fit by the first board's monotonic clock, in nanoseconds.
    pub at_ns: u64,
    /// Offset of the second clock, in nanoseconds.
    pub offset_ns: i64,
    /// Largest possible error of the offset, in nanoseconds.
    pub bound_ns: u64,
}

impl ClockAccount {
    /// Fits that are kept one by one: those of the last half minute.
    pub const MOST_RECENT: usize = 32;

    /// Adds a fit to those counted so far.
    pub fn add(&mut self, reading: ClockReading, drift_ppm: f64) {
        let ClockReading { offset_ns, bound_ns, .. } = reading;
        let least_ns = if self.fits == 0 { bound_ns } else { self.least_bound_ns.min(bound_ns) };
        self.fits += 1;
        self.offset_ns = offset_ns;
        self.drift_ppm = drift_ppm;
        self.least_bound_ns = least_ns;
        self.most_bound_ns = self.most_bound_ns.max(bound_ns);

        if self.recent.len() == Self::MOST_RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(reading);
    }
}
