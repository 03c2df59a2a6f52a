//! Exact figures second by second: what Xenomai's `latency` prints, and what its table of a run is
//! made of.

use onbeat_rt::Instant;
use onbeat_rt::time::SECOND_NS;
use serde::{Deserialize, Serialize};

/// A note is written when it holds this many: what kill -9 can lose of them.
// A note of ten seconds: what kill -9 can lose of them, and ten times fewer lines than seconds.
const PER_NOTE: usize = 10;

/// Release latency of up to ten whole seconds, of the probe `latency`: columns of equal length. An
/// incomplete last second is in the intervals only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seconds {
    /// First of these seconds, counted from 0 in its block.
    pub first: u64,
    /// Number of the block.
    pub block: u32,
    /// Releases per second, served and skipped.
    pub count: Vec<u64>,
    /// Smallest, in nanoseconds.
    pub min_ns: Vec<u64>,
    /// Sum, in nanoseconds.
    pub sum_ns: Vec<u64>,
    /// Largest, in nanoseconds.
    pub max_ns: Vec<u64>,
    /// Skipped releases.
    pub overruns: Vec<u64>,
}

/// One second's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Second {
    /// Which of its block, from 0.
    pub number: u64,
    /// Releases, served and skipped.
    pub count: u64,
    /// Smallest release latency, in nanoseconds.
    pub min_ns: u64,
    /// Sum of them, in nanoseconds.
    pub sum_ns: u64,
    /// Largest, in nanoseconds.
    pub max_ns: u64,
    /// Releases skipped: what Xenomai's `latency` calls overruns.
    pub overruns: u64,
}

impl Second {
    /// The mean, in nanoseconds; 0 without a sample.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_ns as f64 / self.count as f64 }
    }

    const fn add(&mut self, latency_ns: u64, skipped: u64) {
        if self.count == 0 || latency_ns < self.min_ns {
            self.min_ns = latency_ns;
        }
        if latency_ns > self.max_ns {
            self.max_ns = latency_ns;
        }

        self.count += 1;
        self.sum_ns += latency_ns;
        self.overruns += skipped;
    }
}

impl Seconds {
    /// Its rows, as far as all columns go.
    #[must_use]
    pub fn rows(&self) -> Vec<Second> {
        let columns = [&self.count, &self.min_ns, &self.sum_ns, &self.max_ns, &self.overruns];
        // Columns of a damaged note may differ in length; what is whole in all of them is used.
        let rows = columns.iter().map(|column| column.len()).min().unwrap_or(0);
        let row = |i: usize| Second {
            number: self.first + i as u64,
            count: self.count[i],
            min_ns: self.min_ns[i],
            sum_ns: self.sum_ns[i],
            max_ns: self.max_ns[i],
            overruns: self.overruns[i],
        };

        (0..rows).map(row).collect()
    }

    fn push(&mut self, second: &Second) {
        if self.count.is_empty() {
            self.first = second.number;
        }

        self.count.push(second.count);
        self.min_ns.push(second.min_ns);
        self.sum_ns.push(second.sum_ns);
        self.max_ns.push(second.max_ns);
        self.overruns.push(second.overruns);
    }
}

/// The second that is being counted, and those that are not written yet.
pub(super) struct SecondTally {
    from: Instant,
    now: Second,
    done: Seconds,
    /// Finished seconds that were not displayed yet; a screen's worth at most.
    fresh: Vec<Second>,
}

/// Seconds kept for display.
const FRESH_KEPT: usize = 60;

impl SecondTally {
    pub(super) fn new() -> Self {
        Self {
            from: Instant::from_ns(0),
            now: Second::default(),
            done: Seconds::default(),
            fresh: Vec::with_capacity(FRESH_KEPT),
        }
    }

    pub(super) fn begin(&mut self, from: Instant, block: u32) {
        self.from = from;
        self.now = Second::default();
        self.done = Seconds { block, ..Seconds::default() };
    }

    /// Counts a release, served or, with `skipped` 1, passed over; a full note is handed out to be
    /// written.
    pub(super) fn count(
        &mut self,
        release: Instant,
        latency_ns: u64,
        skipped: u64,
    ) -> Option<Seconds> {
        let second = release.ns_since(self.from) / SECOND_NS;
        let full = (second > self.now.number).then(|| self.close_before(second)).flatten();
        self.now.add(latency_ns, skipped);
        full
    }

    /// What is finished, when the block ends; the second that had begun is a part of one, and
    /// stands in the intervals only.
    pub(super) fn end(&mut self) -> Option<Seconds> {
        let block = self.done.block;
        let done = std::mem::replace(&mut self.done, Seconds { block, ..Seconds::default() });
        (!done.count.is_empty()).then_some(done)
    }

    /// Seconds without a sample are left out: columns are of those that follow each other.
    fn close_before(&mut self, second: u64) -> Option<Seconds> {
        if self.now.count > 0 {
            self.done.push(&self.now);
            if self.fresh.len() < FRESH_KEPT {
                self.fresh.push(self.now);
            }
        }

        // Seconds of a note follow each other without a hole, so that one number stands for all of
        // them.
        let gap = second > self.now.number + 1 || self.now.count == 0;
        self.now = Second { number: second, ..Second::default() };
        if self.done.count.len() >= PER_NOTE || gap { self.end() } else { None }
    }

    pub(super) fn fresh(&mut self) -> std::vec::Drain<'_, Second> {
        self.fresh.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Instant {
        Instant::from_ns(ms * 1_000_000)
    }

    #[test]
    fn a_second_has_its_smallest_mean_largest_and_overruns() {
        let mut tally = SecondTally::new();
        tally.begin(Instant::from_ns(0), 2);
        for (ms, ns, skipped) in [(0, 900, 0), (500, 2_100, 1), (999, 300, 0), (1_000, 7_000, 1)] {
            assert_eq!(tally.count(at(ms), ns, skipped), None);
        }

        let fresh: Vec<Second> = tally.fresh().collect();
        assert_eq!(
            fresh,
            [Second {
                number: 0,
                count: 3,
                min_ns: 300,
                sum_ns: 3_300,
                max_ns: 2_100,
                overruns: 1
            }]
        );
        assert!((fresh[0].mean_ns() - 1_100.0).abs() < 1e-9);
        let note = tally.end().expect("a whole second");
        assert_eq!((note.rows(), note.block), (fresh, 2), "the second that had begun is left out");
    }

    #[test]
    fn ten_seconds_are_a_note_and_a_gap_begins_another() {
        let mut tally = SecondTally::new();
        tally.begin(Instant::from_ns(0), 0);
        let notes: Vec<Seconds> =
            (0..25).filter_map(|s| tally.count(at(s * 1_000), 5, 0)).collect();
        assert_eq!(
            notes.iter().map(|note| (note.first, note.count.len())).collect::<Vec<_>>(),
            [(0, 10), (10, 10)]
        );
        let after_gap = tally.count(at(40_000), 5, 0).expect("what was before the gap");

        assert_eq!((after_gap.first, after_gap.count.len()), (20, 5));
        tally.count(at(41_000), 5, 0);
        assert_eq!(tally.end().expect("one").first, 40);
    }
}
