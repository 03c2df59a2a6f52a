//! Where a release is on its grid.
//!
//! Grids come from armed expiries, never from wake-ups. A program may change period or phase: that
//! is a new grid and not a thousand skipped releases.

use onbeat_rt::Instant;

use crate::class::{Class, EXACT_NS};

/// The place of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    First,
    /// The release before, once more: a signal had ended the sleep.
    Again,
    /// A wait inside the cycle.
    Inner,
    /// The next release, with `passed` releases before it that had no wait of their own.
    Next {
        /// Releases without a wait.
        passed: u64,
    },
    /// The first release of a grid with the same period and another phase.
    NewPhase,
    /// A release of a grid with another period: the eighth interval in a row that fits it. The
    /// intervals before it fitted it too.
    NewPeriod {
        /// The new period.
        period_ns: u64,
    },
}

/// Equal intervals in a row that make a new period.
pub const NEW_PERIOD_AFTER: usize = 8;
/// The most parts of a period of which one may be its new length.
const MOST_PARTS: u64 = 16;

/// How releases are compared with the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    /// To the nanosecond, with waits inside the cycle.
    Exact { waits: usize },
    /// To a quarter of the period.
    Loose,
    /// There is no grid: each release is the next one.
    Free,
}

/// A grid that follows its program.
#[derive(Clone, Debug)]
pub struct Grid {
    fit: Fit,
    period_ns: u64,
    last: Option<Instant>,
    /// Offsets of waits inside the cycle from the release before them.
    inner: Vec<u64>,
    /// A release that was known before the first one, where there are waits inside the cycle.
    anchor: Option<Instant>,
    /// Equal intervals that do not fit the period, and how many in a row.
    odd: (u64, usize),
}

impl Grid {
    /// Returns the grid of a series of this class, whose releases so far are `known`. A loop that
    /// waits several times in a cycle starts its cycle after the longest of its waits.
    #[must_use]
    pub fn new(class: &Class, known: &[Instant]) -> Self {
        let fit = match *class {
            Class::Exact { waits, .. } => Fit::Exact { waits },
            Class::Locked { .. } => Fit::Loose,
            _ => Fit::Free,
        };
        let mut grid = Self {
            fit,
            period_ns: class.period_ns().max(1),
            last: None,
            inner: Vec::new(),
            anchor: None,
            odd: (0, 0),
        };
        if let Fit::Exact { waits } = fit
            && waits > 1
        {
            grid.find_anchor(waits, known);
        }

        grid
    }

    /// Returns the period.
    #[must_use]
    pub const fn period_ns(&self) -> u64 {
        self.period_ns
    }

    /// Returns whether releases can be missing.
    #[must_use]
    pub fn has_grid(&self) -> bool {
        self.fit != Fit::Free
    }

    fn find_anchor(&mut self, waits: usize, known: &[Instant]) {
        // From the end, where the program has settled.
        let Some(window) = known
            .windows(waits + 1)
            .rev()
            .find(|window| window[waits].ns_since(window[0]).abs_diff(self.period_ns) <= EXACT_NS)
        else {
            return;
        };
        let gaps = window.windows(2).map(|pair| pair[1].ns_since(pair[0]));
        // The release is the end of the longest interval between two dues.
        let Some((place, _)) = gaps.enumerate().max_by_key(|(_, gap)| *gap) else { return };
        let release = window[place + 1];
        let offset = |due: &Instant| {
            let ahead = due.as_ns() + self.period_ns * 2 - release.as_ns();
            ahead % self.period_ns
        };
        self.inner =
            window[..waits].iter().map(offset).filter(|offset| *offset > EXACT_NS).collect();
        self.inner.retain(|offset| *offset < self.period_ns - EXACT_NS);
        self.anchor = Some(release);
    }

    /// Whether the first release seen is nearer to a wait inside the cycle: the period is known to
    /// a nanosecond, which adds up since the anchor.
    fn first_is_inner(&self, due: Instant) -> bool {
        let Some(anchor) = self.anchor else { return false };
        let offset = match due.as_ns().checked_sub(anchor.as_ns()) {
            Some(ahead) => ahead % self.period_ns,
            None => self.period_ns - anchor.ns_since(due) % self.period_ns,
        };
        let from = |place: u64| {
            let apart = offset.abs_diff(place);
            apart.min(self.period_ns.saturating_sub(apart))
        };
        self.inner.iter().any(|inner| from(*inner) < from(0))
    }

    fn is_inner(&self, ahead_ns: u64) -> bool {
        let offset = ahead_ns % self.period_ns;
        self.inner
            .iter()
            .any(|inner| inner.abs_diff(offset) <= EXACT_NS + ahead_ns / self.period_ns)
    }

    /// Whether a release that was armed may be a wait inside the cycle under way: it is not on the
    /// grid, and the first such one or due before the next release. An even part of the period is
    /// the beginning of a shorter one.
    pub(crate) fn may_be_inside(&self, due: Instant, is_first: bool) -> bool {
        let ahead_ns = self.last.map_or(0, |last| due.ns_since(last));
        let is_off = ahead_ns > EXACT_NS && !self.fits(ahead_ns);
        // A sleep without an end is due in centuries.
        let is_part = |parts: u64| {
            ahead_ns.saturating_mul(parts).abs_diff(self.period_ns) <= EXACT_NS * parts
        };
        self.fit == Fit::Exact { waits: 1 }
            && is_off
            && (is_first || self.is_before_next(due))
            && !(2..=MOST_PARTS).any(is_part)
    }

    /// Whether the release `due` shows that `aside` was inside the cycle: it is a later one of this
    /// grid, where `aside` is due before the next one, or after `due`.
    pub(crate) fn shows_inside(&self, due: Instant, aside: Instant) -> bool {
        self.has(due) && (self.is_before_next(aside) || due < aside)
    }

    fn is_before_next(&self, due: Instant) -> bool {
        self.last.is_some_and(|last| due.ns_since(last) + EXACT_NS < self.period_ns)
    }

    /// Whether a release is a later one of this grid.
    fn has(&self, due: Instant) -> bool {
        self.last.is_some_and(|last| self.fits(due.ns_since(last)))
    }

    /// Whether an interval is that of releases of this grid, with or without some between them.
    fn fits(&self, ahead_ns: u64) -> bool {
        let times = self.times(ahead_ns);
        let tolerance = match self.fit {
            // Rounding adds up over a jump.
            Fit::Exact { .. } => (EXACT_NS + times).min(self.period_ns / 8),
            Fit::Loose | Fit::Free => self.period_ns / 4,
        };
        times >= 1 && ahead_ns.abs_diff(times * self.period_ns) <= tolerance
    }

    const fn times(&self, ahead_ns: u64) -> u64 {
        (ahead_ns + self.period_ns / 2) / self.period_ns
    }

    /// Returns the place of a release that was armed, in the order of arming.
    pub fn place(&mut self, due: Instant) -> Placement {
        let Some(last) = self.last else {
            if self.first_is_inner(due) {
                return Placement::Inner;
            }
            self.last = Some(due);
            return Placement::First;
        };
        let ahead_ns = due.ns_since(last);
        if due == last {
            return Placement::Again;
        }
        if self.fit == Fit::Free {
            self.last = Some(due);
            return Placement::Next { passed: 0 };
        }
        if due > last && !self.inner.is_empty() && self.is_inner(ahead_ns) {
            return Placement::Inner;
        }

        self.last = Some(due);
        if due < last {
            self.odd = (0, 0);
            return Placement::NewPhase;
        }
        self.place_ahead(ahead_ns)
    }

    fn place_ahead(&mut self, ahead_ns: u64) -> Placement {
        let (times, fits) = (self.times(ahead_ns), self.fits(ahead_ns));
        if fits && times == 1 {
            self.odd = (0, 0);
            return Placement::Next { passed: 0 };
        }

        let (odd_ns, in_a_row) = self.odd;
        let alike = match self.fit {
            Fit::Exact { .. } => EXACT_NS,
            Fit::Loose | Fit::Free => odd_ns / 8,
        };
        self.odd = if in_a_row > 0 && ahead_ns.abs_diff(odd_ns) <= alike {
            (odd_ns, in_a_row + 1)
        } else {
            (ahead_ns, 1)
        };
        if self.odd.1 == NEW_PERIOD_AFTER {
            self.period_ns = self.odd.0;
            self.odd = (0, 0);
            self.inner.clear();
            return Placement::NewPeriod { period_ns: self.period_ns };
        }

        match self.fit {
            // On no multiple, a loose series was early or late; it is one release all the same.
            Fit::Loose | Fit::Free => Placement::Next { passed: times.saturating_sub(1) },
            Fit::Exact { .. } if fits => Placement::Next { passed: times - 1 },
            Fit::Exact { .. } => Placement::NewPhase,
        }
    }

    /// Returns whether the last intervals may belong to a new period.
    #[must_use]
    pub const fn is_in_doubt(&self) -> bool {
        self.odd.1 > 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    fn exact(period_ns: u64) -> Grid {
        Grid::new(&Class::Exact { period_ns, waits: 1 }, &[])
    }

    fn places(grid: &mut Grid, at: impl IntoIterator<Item = u64>) -> Vec<Placement> {
        at.into_iter().map(|at| grid.place(Instant::from_ns(at))).collect()
    }

    const NEXT: Placement = Placement::Next { passed: 0 };

    #[test]
    fn a_jump_of_several_periods_passes_releases_over() {
        let places = places(&mut exact(MS), [5, MS + 5, 2 * MS + 5, 6 * MS + 5, 7 * MS + 5]);
        assert_eq!(places, [Placement::First, NEXT, NEXT, Placement::Next { passed: 3 }, NEXT]);
    }

    #[test]
    fn a_sleep_without_an_end_may_be_inside_a_cycle() {
        let mut grid = exact(MS);
        places(&mut grid, [0, MS]);
        assert!(grid.may_be_inside(Instant::from_ns(i64::MAX.unsigned_abs()), true));
    }

    #[test]
    fn a_release_that_is_set_again_after_a_signal_is_the_same_one() {
        let places = places(&mut exact(MS), [0, MS, MS, 2 * MS]);
        assert_eq!(places, [Placement::First, NEXT, Placement::Again, NEXT]);
    }

    #[test]
    fn another_phase_is_a_new_grid_and_no_skip() {
        let places = places(&mut exact(MS), [0, MS, 2 * MS + 370_000, 3 * MS + 370_000]);
        assert_eq!(places, [Placement::First, NEXT, Placement::NewPhase, NEXT]);
        let back = self::places(&mut exact(MS), [0, 5 * MS, 3 * MS, 4 * MS]);
        assert_eq!(back[2..], [Placement::NewPhase, NEXT]);
    }

    #[test]
    fn eight_equal_intervals_are_a_new_period() {
        for new in [2 * MS, 3 * MS / 2, MS / 2, MS / 4] {
            let mut grid = exact(MS);
            let changed = (0..5).map(|k| k * MS).chain((1..=10).map(|k| 4 * MS + k * new));
            let places = places(&mut grid, changed);
            let found = places.iter().position(
                |place| matches!(place, Placement::NewPeriod { period_ns } if *period_ns == new),
            );
            assert_eq!(found, Some(4 + NEW_PERIOD_AFTER), "{new}: {places:?}");
            assert_eq!(places[13..], [NEXT, NEXT]);
            assert_eq!(grid.period_ns(), new);
        }
    }

    #[test]
    fn waits_inside_a_cycle_are_not_releases_and_the_longest_wait_ends_at_one() {
        let both: Vec<Instant> =
            (0..20).flat_map(|k| [k * MS + 7, k * MS + 300_007]).map(Instant::from_ns).collect();
        let mut grid = Grid::new(&Class::Exact { period_ns: MS, waits: 2 }, &both);
        let places = places(&mut grid, both.iter().map(|due| due.as_ns()));
        // 700 us pass before k ms + 7, 300 us before the other.
        assert_eq!(places[..4], [Placement::First, Placement::Inner, NEXT, Placement::Inner]);
        assert!(places.iter().skip(1).step_by(2).all(|place| *place == Placement::Inner));

        let mut from_inside = Grid::new(&Class::Exact { period_ns: MS, waits: 2 }, &both);
        let places = self::places(&mut from_inside, both[1..].iter().map(|due| due.as_ns()));
        assert_eq!(places[..3], [Placement::Inner, Placement::First, Placement::Inner]);
    }

    #[test]
    fn a_loose_grid_counts_what_is_missing_by_the_nearest_release() {
        let mut grid = Grid::new(&Class::Locked { period_ns: MS }, &[]);
        let places = places(&mut grid, [0, MS + 40_000, 2 * MS - 90_000, 5 * MS + 20_000]);
        assert_eq!(places, [Placement::First, NEXT, NEXT, Placement::Next { passed: 2 }]);
    }

    proptest! {
        #[test]
        fn every_release_of_a_grid_is_counted_once(steps in prop::collection::vec(1_u64..6, 1..200), period in 1_000_u64..100_000_000) {
            let mut grid = exact(period);
            let mut now = 17;
            grid.place(Instant::from_ns(now));
            let mut expected = 0;
            let mut counted = 0;
            for (place, step) in steps.iter().enumerate() {
                // Eight equal jumps would be a new period: each third release is the next one.
                let step = if place % 3 == 0 { 1 } else { *step };
                now += step * period;
                expected += step;
                match grid.place(Instant::from_ns(now)) {
                    Placement::Next { passed } => counted += passed + 1,
                    other => prop_assert!(false, "{:?}", other),
                }
            }
            prop_assert_eq!(counted, expected);
        }
    }
}
