//! Statistics of a running bus: counters and histograms of fixed size in shared memory.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use super::map::SharedMemory;

/// Counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// Cycles of the bus.
    Cycles,
    /// Frames that were not answered in time.
    FramesLost,
    /// Replies that arrived after their cycle.
    FramesLate,
    /// Received frames that were not sent.
    FramesUnknown,
    /// Cycles with an unexpected working counter.
    WorkingCounterErrors,
    /// Changes of a device's AL state.
    StateChanges,
    /// Restarts of the bus.
    Restarts,
    /// Cycles with safe outputs although there is an owner.
    StaleCycles,
    /// Cycles published without the lock, because a process held it for too long.
    LockTimeouts,
    /// Frames of a cable ring that were sent once more.
    FramesRepeated,
    /// Devices that are simulated in the bus process: the round trip has no cables and no card.
    SimulatedDevices,
}

impl Counter {
    /// All counters with their names, in memory order.
    pub const ALL: [(Self, &'static str); 11] = [
        (Self::Cycles, "cycles"),
        (Self::FramesLost, "frames_lost"),
        (Self::FramesLate, "frames_late"),
        (Self::FramesUnknown, "frames_unknown"),
        (Self::WorkingCounterErrors, "working_counter_errors"),
        (Self::StateChanges, "state_changes"),
        (Self::Restarts, "restarts"),
        (Self::StaleCycles, "stale_cycles"),
        (Self::LockTimeouts, "lock_timeouts"),
        (Self::FramesRepeated, "frames_repeated"),
        (Self::SimulatedDevices, "simulated_devices"),
    ];
}

/// Durations, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Timed {
    /// From a cycle's release to its start.
    WakeupLatency,
    /// From sending the frame to receiving its reply.
    RoundTrip,
    /// The bus's exchange with the shared memory.
    Exchange,
    /// From a cycle's start to its end.
    ExecutionTime,
}

impl Timed {
    /// All durations with their names, in memory order.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::WakeupLatency, "wakeup_latency"),
        (Self::RoundTrip, "round_trip"),
        (Self::Exchange, "exchange"),
        (Self::ExecutionTime, "execution_time"),
    ];
}

/// Bits of a bucket index within a power of two: values are resolved to 1/16.
const SUB_BITS: u32 = 4;
/// Values of 2^40 ns (18 minutes) and more are in the last bucket.
const MOST_BITS: u32 = 40;
const BUCKETS: usize = ((MOST_BITS - SUB_BITS + 1) << SUB_BITS) as usize;

#[repr(C, align(64))]
pub(super) struct Histogram {
    count: AtomicU64,
    sum: AtomicU64,
    max: AtomicU64,
    spare: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

/// All statistics in shared memory.
#[repr(C, align(64))]
pub(super) struct StatsBlock {
    counters: [AtomicU64; 16],
    timed: [Histogram; 4],
}

// SAFETY: `repr(C)`, atomics only.
#[allow(unsafe_code)]
unsafe impl SharedMemory for StatsBlock {}

const fn bucket(ns: u64) -> usize {
    if ns < 1 << SUB_BITS {
        return ns as usize;
    }
    let shift = 63 - ns.leading_zeros() - SUB_BITS;
    let place = ((shift as usize) << SUB_BITS) + (ns >> shift) as usize;
    if place < BUCKETS { place } else { BUCKETS - 1 }
}

/// Returns the largest value of a bucket.
const fn upper(bucket: usize) -> u64 {
    let octave = bucket >> SUB_BITS;
    let within = bucket as u64 & ((1 << SUB_BITS) - 1);
    if octave == 0 { within } else { (((1 << SUB_BITS) + within + 1) << (octave - 1)) - 1 }
}

impl StatsBlock {
    /// Increments a counter.
    #[inline]
    pub(super) fn add(&self, what: Counter, n: u64) {
        self.counters[what as usize].fetch_add(n, Ordering::Relaxed);
    }

    /// Increments a counter with a single writer: no locked instruction, which would wait for
    /// earlier stores.
    #[inline]
    pub(super) fn add_alone(&self, what: Counter, n: u64) {
        let counter = &self.counters[what as usize];
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Records a duration.
    #[inline]
    pub(super) fn record(&self, what: Timed, ns: u64) {
        let histogram = &self.timed[what as usize];
        histogram.buckets[bucket(ns)].fetch_add(1, Ordering::Relaxed);
        histogram.sum.fetch_add(ns, Ordering::Relaxed);
        histogram.max.fetch_max(ns, Ordering::Relaxed);
        histogram.count.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn copy(&self) -> Stats {
        let words =
            |words: &[AtomicU64]| words.iter().map(|word| word.load(Ordering::Relaxed)).collect();
        let timed = self.timed.each_ref().map(|of| Times {
            sum: of.sum.load(Ordering::Relaxed),
            max: of.max.load(Ordering::Relaxed),
            buckets: words(&of.buckets),
        });

        Stats { counters: words(&self.counters), timed: timed.into() }
    }
}

/// A copy of the statistics. Figures are consistent except for the cycle in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    counters: Vec<u64>,
    timed: Vec<Times>,
}

/// Durations of one kind since the bus process began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    sum: u64,
    max: u64,
    buckets: Vec<u64>,
}

impl Stats {
    /// Returns a counter.
    #[must_use]
    pub fn counter(&self, what: Counter) -> u64 {
        self.counters[what as usize]
    }

    /// Returns the durations of one kind.
    #[must_use]
    pub fn times(&self, what: Timed) -> &Times {
        &self.timed[what as usize]
    }

    /// Formats each figure as a line `KEY VALUE`, see `docs/control.md`.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (counter, word) in Counter::ALL {
            let _ = writeln!(text, "{word} {}", self.counter(counter));
        }

        for (kind, word) in Timed::ALL {
            let of = self.times(kind);
            let _ = writeln!(text, "{word}_count {}", of.count());
            let _ = writeln!(text, "{word}_mean_ns {}", of.mean_ns().round());
            for (share, name) in [(0.5, "p50"), (0.99, "p99"), (0.999, "p99.9")] {
                let _ = writeln!(text, "{word}_{name}_ns {}", of.quantile_ns(share));
            }

            let _ = writeln!(text, "{word}_max_ns {}", of.max_ns());
        }

        text
    }
}

impl Times {
    /// Returns the number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        // Another process may have stored any number; neither sum overflows.
        self.buckets.iter().fold(0_u64, |sum, count| sum.saturating_add(*count))
    }

    /// Returns the largest duration, exact; 0 without any.
    #[must_use]
    pub const fn max_ns(&self) -> u64 {
        self.max
    }

    /// Returns the mean; 0 without any.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.sum as f64 / self.count().max(1) as f64
    }

    /// Returns the nearest-rank quantile for a share from 0 to 1: at most 1/16 too large, never too
    /// small; 0 without any.
    #[must_use]
    pub fn quantile_ns(&self, share: f64) -> u64 {
        let rank = (self.count() as f64 * share).ceil().max(1.0) as u64;
        let mut below = 0_u64;
        let found = self.buckets.iter().position(|count| {
            below = below.saturating_add(*count);
            below >= rank
        });

        found.map_or(0, |place| upper(place).min(self.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_its_bucket_and_resolved_to_a_sixteenth() {
        for ns in (0..200_000).chain([1 << 30, (1 << 39) + 12_345, (1 << 40) - 1]) {
            let place = bucket(ns);
            assert!(ns <= upper(place) && (place == 0 || ns > upper(place - 1)), "{ns}");
            assert!(upper(place) - ns <= ns / 16, "{ns} is resolved as {}", upper(place));
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn counts_that_another_process_has_written_do_not_overflow() {
        let times = Times { sum: u64::MAX, max: 9, buckets: vec![1, u64::MAX, u64::MAX] };
        assert_eq!((times.count(), times.max_ns()), (u64::MAX, 9));
        assert_eq!([0.0, 0.5, 1.0].map(|share| times.quantile_ns(share)), [0, 1, 1]);
    }
}
