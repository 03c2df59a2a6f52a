//! Late releases joined into outages: what a verdict knows of bursts.
//!
//! Releases over a limit that are at most `gap` releases apart are one outage. A recording keeps how
//! many there were, their sizes as sums, and in which tenth of its interval each late release was:
//!
//! ```text
//! release   ....xx.x..........................x.......xxx.x...      x is over the limit
//! gap 3         └──┘                          │       └───┘
//! size           3                            1         4          3 outages, 8 late, 3²+1²+4² = 26
//! ```

use serde::{Deserialize, Serialize};

use super::note::LimitNote;
use super::series::Series;

/// Parts of an interval in which late releases are counted.
pub const PARTS: usize = 10;

/// What is watched for outages: releases of a series over a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// Series that is watched.
    pub on: Series,
    /// Values above this are late, in nanoseconds.
    pub limit_ns: u64,
    /// Late releases at most this far apart are one outage, in releases.
    pub gap: u64,
}

impl Watch {
    /// Of a limit that at least `at` percent of the releases are to meet.
    #[must_use]
    pub fn of_limit(on: Series, limit_ns: u64, at: f64) -> Self {
        Self { on, limit_ns, gap: gap((100.0 - at) / 100.0) }
    }

    /// What a run with this deadline is watched for: its limit, if it has one, the deadline, and
    /// parts of the first of them.
    #[must_use]
    pub fn of_run(limit: Option<LimitNote>, deadline_ns: u64) -> Vec<Self> {
        let of_limit = |limit: LimitNote| Self::of_limit(limit.on, limit.limit_ns, limit.at);
        let deadline = of_limit(LimitNote::of_deadline(deadline_ns));
        // A limit on the deadline itself would be counted twice, and twice the memory for the same
        // sums.
        let limit = limit.map(of_limit).filter(|watch| *watch != deadline);
        let watched: Vec<Self> = limit.into_iter().chain([deadline]).collect();
        let parts = watched[0].parts();
        watched.into_iter().chain(parts).collect()
    }

    /// The half, the quarter, the eighth and the sixteenth of it: how long outages last where the
    /// limit itself has none or few.
    pub fn parts(self) -> impl Iterator<Item = Self> {
        // Whoever judges the run later may ask for a smaller limit. Sums by halves of it bound the
        // answer from both sides without all samples.
        (1..=4).map(move |halved| Self { limit_ns: self.limit_ns >> halved, ..self })
    }
}

/// The gap of outages at a rate that is allowed: late releases at most this many releases apart are
/// one outage.
///
/// A tenth of the mean distance between late releases that come singly at just this rate, so that
/// these are joined rarely.
#[must_use]
pub fn gap(allowed: f64) -> u64 {
    // Late releases closer than a tenth of the mean distance that the limit allows are one event:
    // independent ones would lie that close in about one of ten cases, a burst always does. At
    // 99.99 % that is 1,000 releases.
    if allowed > 0.0 { ((0.1 / allowed).round() as u64).max(1) } else { 1 }
}

/// Outages as sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutageSums {
    /// Number of outages.
    pub outages: u64,
    /// Sum of their sizes: late releases.
    pub late: u64,
    /// Sum of the squares of their sizes.
    pub squares: u64,
    /// Largest size.
    pub largest: u64,
}

impl OutageSums {
    /// Takes one more outage into account.
    pub const fn add(&mut self, size: u64) {
        self.outages += 1;
        self.late += size;
        // Sum of squares: with it the variance of the number of late releases per outage is known,
        // and so how much weaker the evidence of a burst is than that of as many single ones.
        self.squares = self.squares.saturating_add(size.saturating_mul(size));
        if size > self.largest {
            self.largest = size;
        }
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            outages: self.outages + other.outages,
            late: self.late + other.late,
            squares: self.squares.saturating_add(other.squares),
            largest: self.largest.max(other.largest),
        }
    }
}

/// Joins late releases, in the order of their places, into outages.
#[derive(Clone, Copy, Debug)]
pub struct Joining {
    gap: u64,
    /// Place of the last late release, and the size of its outage so far.
    open: Option<(u64, u64)>,
    done: OutageSums,
}

impl Joining {
    /// Outages whose late releases are at most `gap` apart.
    #[must_use]
    pub fn new(gap: u64) -> Self {
        Self { gap, open: None, done: OutageSums::default() }
    }

    /// Takes into account `releases` late ones in a row, the first of them at `place`.
    pub const fn late(&mut self, place: u64, releases: u64) {
        if releases == 0 {
            return;
        }
        let size = match self.open {
            // The distance counts from the last late release, not from the first: an outage lasts
            // as long as its late releases follow each other.
            Some((last, size)) if place <= last.saturating_add(self.gap) => size + releases,
            Some((_, size)) => {
                self.done.add(size);
                releases
            }
            None => releases,
        };
        self.open = Some((place + releases - 1, size));
    }

    /// Ends the outage that is going on; what comes is another one.
    pub const fn part(&mut self) {
        // What is open at the end of a stretch is whole: nothing that comes later can join it.
        if let Some((_, size)) = self.open.take() {
            self.done.add(size);
        }
    }

    /// The outages that have ended since this was asked last.
    pub fn take(&mut self) -> OutageSums {
        std::mem::take(&mut self.done)
    }
}

/// Outages of one limit within an interval: late releases close to each other. A run watches its
/// limit with a gap of 0.1 / (1 − at/100) releases, then a half, a quarter, an eighth and a
/// sixteenth of that limit, and its deadline on `response_time` at 99.9 %; without a limit the
/// deadline and its parts. A limit that is not watched is judged by intervals (docs/verdict.md). An
/// outage ends with its block; it counts in the interval in which the next one begins, or its block
/// ends. 0.2 MB a day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateNote {
    /// What is watched.
    #[serde(flatten)]
    pub watch: Watch,
    /// Outages that ended in this interval.
    #[serde(default, skip_serializing_if = "is_none_ended")]
    pub ended: OutageSums,
    /// The same with lost slots as late ones, where it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_with_lost: Option<OutageSums>,
    /// Late releases by tenth of the interval, from the first tenth that these lines count to the
    /// last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenths: Vec<u64>,
}

fn is_none_ended(ended: &OutageSums) -> bool {
    *ended == OutageSums::default()
}

/// One watch of a run that is being recorded.
pub(super) struct WatchTally {
    watch: Watch,
    joining: Joining,
    /// The same with lost releases as late ones.
    with_lost: Joining,
    tenths: [u64; PARTS],
    is_any: bool,
}

impl WatchTally {
    pub(super) fn new(watch: Watch) -> Self {
        let joining = Joining::new(watch.gap);
        Self { watch, joining, with_lost: joining, tenths: [0; PARTS], is_any: false }
    }

    /// Counts a value of a release at `place` of its block, in this tenth of the interval.
    #[inline]
    pub(super) fn count(&mut self, series: Series, ns: u64, (place, tenth): (u64, usize)) {
        if ns > self.watch.limit_ns && series == self.watch.on {
            self.late((place, tenth));
        }
    }

    /// Counts a release that was skipped where that alone is late.
    pub(super) fn skipped(&mut self, at: (u64, usize)) {
        // A skipped release has no response time and no interval, and would be missing from a watch
        // on them although it was the latest of all.
        if self.watch.on.is_late_when_skipped() {
            self.late(at);
        }
    }

    /// Counts `releases` in a row whose samples were lost, the first of them at `place`.
    pub(super) const fn lost(&mut self, place: u64, releases: u64) {
        self.with_lost.late(place, releases);
    }

    fn late(&mut self, (place, tenth): (u64, usize)) {
        self.joining.late(place, 1);
        self.with_lost.late(place, 1);
        self.tenths[tenth.min(PARTS - 1)] += 1;
        self.is_any = true;
    }

    /// The block ends: an outage does not go on in the next one.
    pub(super) const fn part(&mut self) {
        self.joining.part();
        self.with_lost.part();
    }

    /// What was counted since this was asked last, from tenth `first` to tenth `last`.
    pub(super) fn take(&mut self, first: usize, last: usize) -> LateNote {
        let ended = self.joining.take();
        let ended_with_lost = Some(self.with_lost.take()).filter(|sums| *sums != ended);
        let tenths = std::mem::replace(&mut self.tenths, [0; PARTS]);
        let is_any = std::mem::replace(&mut self.is_any, false);
        let last = last.clamp(first, PARTS - 1);
        let tenths = if is_any { tenths[first.min(last)..=last].to_vec() } else { Vec::new() };
        LateNote { watch: self.watch, ended, ended_with_lost, tenths }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(gap: u64, places: &[u64]) -> OutageSums {
        let mut joining = Joining::new(gap);
        places.iter().for_each(|&place| joining.late(place, 1));
        joining.part();
        joining.take()
    }

    #[test]
    fn late_releases_a_gap_apart_are_one_outage_and_further_apart_two() {
        let places = [4, 5, 7, 34, 42, 43, 44, 46];
        let three = OutageSums { outages: 3, late: 8, squares: 26, largest: 4 };
        assert_eq!(joined(3, &places), three);
        assert_eq!(joined(1, &places).outages, 5);
        assert_eq!(
            joined(30, &places),
            OutageSums { outages: 1, late: 8, squares: 64, largest: 8 }
        );
        assert_eq!(joined(3, &[]), OutageSums::default());
    }

    #[test]
    fn gaps_are_a_tenth_of_the_distance_at_the_allowed_rate() {
        assert_eq!([0.01, 0.001, 0.5, 0.0].map(gap), [10, 100, 1, 1]);
        assert_eq!(Watch::of_limit(Series::ResponseTime, 5, 99.9).gap, 100);
    }

    #[test]
    fn runs_of_late_releases_are_joined_as_single_ones_are() {
        let mut joining = Joining::new(10);
        joining.late(100, 20);
        joining.late(129, 5);
        assert_eq!(joining.take(), OutageSums::default(), "it may go on");
        joining.late(144, 1);
        assert_eq!(joining.take(), OutageSums { outages: 1, late: 25, squares: 625, largest: 25 });
        joining.part();
        assert_eq!(joining.take().outages, 1);
    }
}
