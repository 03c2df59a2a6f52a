//! The histograms of run files: fixed bounds per series, so that intervals, blocks and runs add up
//! without loss.

use hdrhistogram::Histogram;

use super::series::Series;

/// The longest figure a histogram holds, in nanoseconds: 1,000 s. Longer ones are counted at this
/// end; their exact size stands in the interval's moments.
pub const LONGEST_NS: u64 = 1_000_000_000_000;

/// One bucket of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Smallest value that falls into it, in nanoseconds.
    pub low_ns: u64,
    /// How many whole nanoseconds it spans; 1 where values are exact.
    pub width_ns: u64,
    /// How many samples fell into it.
    pub count: u64,
}

impl Bucket {
    /// The middle of the bucket, in nanoseconds: the value itself where buckets are exact.
    #[must_use]
    pub fn middle_ns(&self) -> f64 {
        self.low_ns as f64 + (self.width_ns - 1) as f64 / 2.0
    }

    /// The largest value that falls into it, in nanoseconds.
    #[must_use]
    pub const fn high_ns(&self) -> u64 {
        self.low_ns + self.width_ns - 1
    }
}

/// Counts of one series over a whole run, or an interval of it.
pub type Counts = Histogram<u64>;

/// Counts with nothing in them, of the bounds that the series has in run files.
#[must_use]
pub fn empty_counts(series: Series) -> Counts {
    fixed(series.digits())
}

/// Counts of one interval: at most 2³² − 1 in a bucket, which 49 days at 1 kHz do not fill.
pub(super) type IntervalCounts = Histogram<u32>;

pub(super) fn empty_interval(series: Series) -> IntervalCounts {
    fixed(series.digits())
}

#[allow(clippy::expect_used)] // The bounds are constants that satisfy the crate's rules: 1 <= 1, 2 <= LONGEST_NS, digits <= 5.
fn fixed<T: hdrhistogram::Counter>(digits: u8) -> Histogram<T> {
    Histogram::new_with_bounds(1, LONGEST_NS, digits).expect("constant bounds are valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_near_a_millisecond_has_buckets_of_64_ns() {
        let counts = empty_counts(Series::ObservedPeriod);
        assert_eq!(counts.equivalent_range(1_000_000), 32);
        assert_eq!(counts.equivalent_range(1_048_577), 64);
    }

    #[test]
    fn latencies_below_two_microseconds_are_exact() {
        let counts = empty_counts(Series::WakeupLatency);
        assert_eq!((counts.equivalent_range(2047), counts.equivalent_range(2048)), (1, 2));
    }
}
