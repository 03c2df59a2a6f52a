//! The parameters of a recording, its counts so far, and the origin of its times.

use onbeat_rt::Instant;
use onbeat_rt::time::SECOND_NS;
use serde::{Deserialize, Serialize};

/// The limit beyond which a sample is a spike, by its lateness: wake-up latency plus execution time
/// beyond the planned work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SpikeLimit {
    /// The larger of 50 µs and ten times the interval's median wake-up latency, plus the median of
    /// the execution time beyond the planned work.
    TenTimesMedian,
    /// Nanoseconds.
    Above(u64),
}

/// The parameters of a recording.
#[derive(Clone, Copy, Debug)]
pub struct Recording {
    /// T.
    pub period_ns: u64,
    /// Planned work per cycle.
    pub work_ns: u64,
    /// Length of an interval histogram.
    pub interval_ns: u64,
    /// The limit beyond which a sample is a spike.
    pub spike_limit: SpikeLimit,
}

/// The length of interval histograms for a run of `duration_ns`, in nanoseconds: three hundred of
/// them, each between a second and five minutes long, so that a file's size is bounded whatever the
/// run's. Largest values stand in the file second by second all the same.
#[must_use]
pub fn interval_ns_for(duration_ns: u64) -> u64 {
    (duration_ns / 300 / SECOND_NS).clamp(1, 300) * SECOND_NS
}

/// The counts of a run so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Cycles counted, without those of the warm-up.
    pub cycles: u64,
    /// Releases skipped.
    pub skipped: u64,
    /// Cycles that missed their deadline.
    pub deadline_misses: u64,
    /// Largest wake-up latency, in nanoseconds.
    pub worst_ns: u64,
    /// Spikes in finished intervals.
    pub spikes: u64,
}

/// The instant that a time in the file refers to.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeOrigin {
    pub(super) at: Instant,
    /// Nanoseconds since the file's start: 0 but where a run goes on, since the clock starts from 0
    /// at boot.
    pub(super) t_ns: u64,
}

impl TimeOrigin {
    pub(super) const fn seconds(self, instant: Instant) -> f64 {
        (instant.ns_since(self.at) + self.t_ns) as f64 / 1e9
    }
}
