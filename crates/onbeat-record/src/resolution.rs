//! How finely a foreign tool counted: the cells behind the histogram lines of an imported run file.
//!
//! onbeat's own histograms are finer than most tools': a file that counts whole microseconds says
//! nothing of nanoseconds. An imported file therefore holds one value per cell of its source, and
//! says here how wide the cells are. A reader gets the cells back, and no figure is more precise
//! than in the source.

use serde::{Deserialize, Serialize};

use super::histogram::Bucket;

/// Cells are not wider than 13 days; so no arithmetic on them overflows.
// A step of days, from a text that somebody edited, would overflow when steps double.
const WIDEST_NS: u64 = 1 << 50;

/// The cells in which a source counted one series.
///
/// ```
/// use onbeat_record::Resolution;
///
/// let microseconds = Resolution::even(1_000);
/// assert_eq!((microseconds.cell(22_999).low_ns, microseconds.cell(22_999).high_ns()), (22_000, 22_999));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    /// Width of a cell in nanoseconds, at least 1; cells begin at its multiples.
    pub step_ns: u64,
    /// Number of steps from which the width of cells doubles, as HdrHistogram's: a power of two.
    /// `None` where all cells are equally wide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubles_from: Option<u64>,
    /// Upper ends of uneven cells, in nanoseconds, rising.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub upper_ends_ns: Vec<u64>,
    /// Samples past the source's range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beyond: Option<Beyond>,
}

/// Samples that a source counted without recording how large each was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beyond {
    /// Lower bound of the samples, in nanoseconds.
    pub from_ns: u64,
    /// Upper bound, in nanoseconds.
    pub to_ns: u64,
    /// Number of samples.
    pub count: u64,
}

impl Resolution {
    /// Cells of one width, in nanoseconds (at least 1).
    #[must_use]
    pub fn even(step_ns: u64) -> Self {
        Self {
            step_ns: step_ns.clamp(1, WIDEST_NS),
            doubles_from: None,
            upper_ends_ns: Vec::new(),
            beyond: None,
        }
    }

    /// Exact to the nanosecond.
    #[must_use]
    pub fn exact() -> Self {
        Self::even(1)
    }

    /// The cells of an HdrHistogram whose unit is `step_ns`, with `sub_buckets` (a power of two)
    /// steps before they double.
    #[must_use]
    pub fn doubling(step_ns: u64, sub_buckets: u64) -> Self {
        Self { doubles_from: Some(sub_buckets.max(2)), ..Self::even(step_ns) }
    }

    /// The cell that a value lies in, with no samples in it.
    #[must_use]
    pub fn cell(&self, ns: u64) -> Bucket {
        // Everything beyond a histogram lies somewhere up to the maximum, and that is its cell.
        if let Some(beyond) = self.beyond.filter(|beyond| ns >= beyond.from_ns) {
            return between(beyond.from_ns, beyond.to_ns.max(ns));
        }

        if !self.upper_ends_ns.is_empty() {
            let place = self.upper_ends_ns.partition_point(|&end| end < ns);
            let low_ns = if place == 0 { 0 } else { self.upper_ends_ns[place - 1] + 1 };
            return between(low_ns, self.upper_ends_ns.get(place).copied().unwrap_or(ns));
        }

        let step_ns = self.step_ns.clamp(1, WIDEST_NS);
        let steps = ns / step_ns;
        let shift = match self.doubles_from {
            Some(sub_buckets) if steps >= sub_buckets => {
                steps.ilog2() + 1 - sub_buckets.max(2).ilog2()
            }
            _ => 0,
        };

        let low_ns = (steps >> shift << shift) * step_ns;
        Bucket { low_ns, width_ns: step_ns.saturating_mul(1 << shift), count: 0 }
    }

    /// What stands for a cell in a histogram line: its middle, or the largest value where the cell
    /// is an open end, so that a reader who does not know of cells reports too much rather than too
    /// little.
    #[must_use]
    pub fn representative_ns(&self, ns: u64) -> u64 {
        match self.beyond {
            Some(beyond) if ns >= beyond.from_ns => beyond.to_ns.max(ns),
            _ => {
                let cell = self.cell(ns);
                cell.low_ns.saturating_add(cell.width_ns / 2)
            }
        }
    }

    /// The bucket of a histogram line as the source had it: its cell, unless the line itself is
    /// coarser.
    #[must_use]
    pub fn bucket(&self, line: Bucket) -> Bucket {
        let middle_ns = line.low_ns + line.width_ns / 2;
        let open = self.beyond.is_some_and(|beyond| line.high_ns() >= beyond.from_ns);
        // A bucket of ours that reaches into the open end belongs to it as a whole: its samples may
        // all be the largest.
        let cell = self.cell(if open { line.high_ns().min(self.end_ns()) } else { middle_ns });
        if open || cell.width_ns > line.width_ns {
            Bucket { count: line.count, ..cell }
        } else {
            line
        }
    }

    /// The largest value that a maximum of the source stands for: the end of its cell, where it was
    /// rounded down to the beginning.
    #[must_use]
    pub fn most_ns(&self, max_ns: u64) -> u64 {
        let cell = self.cell(max_ns);
        if cell.low_ns == max_ns { cell.high_ns() } else { max_ns }
    }

    fn end_ns(&self) -> u64 {
        self.beyond.map_or(u64::MAX, |beyond| beyond.to_ns.max(beyond.from_ns))
    }
}

fn between(low_ns: u64, high_ns: u64) -> Bucket {
    Bucket { low_ns, width_ns: (high_ns.max(low_ns) - low_ns).saturating_add(1), count: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Distribution, Series, empty_counts};
    use proptest::prelude::*;

    #[test]
    fn a_microsecond_that_was_counted_whole_stays_a_microsecond_wide() {
        let whole = Resolution::even(1_000);
        assert_eq!(whole.cell(22_999), Bucket { low_ns: 22_000, width_ns: 1_000, count: 0 });
        assert_eq!(whole.representative_ns(22_000), 22_500);
        assert_eq!([22_000, 22_400].map(|max_ns| whole.most_ns(max_ns)), [22_999, 22_400]);
    }

    #[test]
    fn what_lies_beyond_a_histogram_lies_anywhere_up_to_the_maximum() {
        let beyond = Beyond { from_ns: 60_000, to_ns: 1_204_000, count: 30 };
        let resolution = Resolution { beyond: Some(beyond), ..Resolution::even(1_000) };
        assert_eq!(resolution.cell(59_999).high_ns(), 59_999);
        assert_eq!(
            (resolution.cell(60_000).low_ns, resolution.cell(60_000).high_ns()),
            (60_000, 1_204_000)
        );
        assert_eq!(resolution.representative_ns(60_000), 1_204_000);
    }

    #[test]
    fn cells_between_percentile_lines_reach_from_one_value_to_the_next() {
        let resolution = Resolution { upper_ends_ns: vec![10, 25], ..Resolution::exact() };
        assert_eq!(
            [5, 11, 25].map(|ns| (resolution.cell(ns).low_ns, resolution.cell(ns).high_ns())),
            [(0, 10), (11, 25), (11, 25)]
        );
    }

    fn resolutions() -> impl Strategy<Value = Resolution> {
        let beyond = prop::option::of((1_u64..1_000_000, 0_u64..10_000_000));
        (1_u64..100_000, prop::option::of(4_u32..12), beyond).prop_map(|(step_ns, bits, beyond)| {
            let beyond = beyond.map(|(from, more)| {
                let from_ns = from / step_ns * step_ns;
                Beyond { from_ns, to_ns: from_ns + more, count: 1 }
            });
            Resolution {
                doubles_from: bits.map(|bits| 1 << bits),
                beyond,
                ..Resolution::even(step_ns)
            }
        })
    }

    proptest! {
        #[test]
        fn a_cell_holds_its_value_and_is_found_again_from_the_histogram_line(
            resolution in resolutions(),
            ns in 1_u64..50_000_000,
        ) {
            // No value is beyond the maximum that the source states.
            prop_assume!(resolution.beyond.is_none_or(|beyond| ns <= beyond.to_ns));
            let cell = resolution.cell(ns);
            prop_assert!((cell.low_ns..=cell.high_ns()).contains(&ns), "{ns} in {cell:?}");
            let mut line = empty_counts(Series::WakeupLatency);
            line.record(resolution.representative_ns(ns).max(1)).unwrap();
            let read = Distribution::from_histogram(&line).at(&resolution).buckets()[0];

            prop_assert!(read == Bucket { count: 1, ..cell } || (read.width_ns as f64) < ns as f64 / 500.0, "{cell:?} came back as {read:?}");
        }
    }
}
