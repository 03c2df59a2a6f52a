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

use super::series::Series;

/// Parts of an interval in which late releases are counted.
pub const PARTS: usize = 10;

/// What is watched for outages: releases of a series over a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// The series.
    pub on: Series,
    /// A value above this is late, in nanoseconds.
    pub limit_ns: u64,
    /// Late releases at most this far apart are one outage, in releases.
    pub gap: u64,
}

/// Outages as sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutageSums {
    /// How many.
    pub outages: u64,
    /// Sum of their sizes: late releases.
    pub late: u64,
    /// Sum of the squares of their sizes.
    pub squares: u64,
    /// The largest size.
    pub largest: u64,
}

impl OutageSums {
    /// Takes one more outage into account.
    pub const fn add(&mut self, size: u64) {
        self.outages += 1;
        self.late += size;
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
    pub const fn new(gap: u64) -> Self {
        Self { gap, open: None, done: OutageSums { outages: 0, late: 0, squares: 0, largest: 0 } }
    }

    /// Takes into account `releases` late ones in a row, the first of them at `place`.
    pub const fn late(&mut self, place: u64, releases: u64) {
        if releases == 0 {
            return;
        }
        let size = match self.open {
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
        if let Some((_, size)) = self.open.take() {
            self.done.add(size);
        }
    }

    /// The outages that have ended since this was asked last.
    pub const fn take(&mut self) -> OutageSums {
        std::mem::replace(
            &mut self.done,
            OutageSums { outages: 0, late: 0, squares: 0, largest: 0 },
        )
    }
}

/// Outages in an interval of a recording, of one [`Watch`].
///
/// An outage stands in the interval in which it is known to have ended, a late release in its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateNote {
    /// Which of the run's watches, from 0.
    pub watch: usize,
    /// Outages that ended.
    #[serde(flatten)]
    pub ended: OutageSums,
    /// Late releases in each tenth of the interval; empty without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenths: Vec<u64>,
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
        assert_eq!(joined(30, &places), OutageSums { outages: 1, late: 8, squares: 64, largest: 8 });
        assert_eq!(joined(3, &[]), OutageSums::default());
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
