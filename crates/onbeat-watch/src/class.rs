//! How regular a series of waits is, from its releases alone.
//!
//! The mode of a sleep says little: programs sleep relatively towards a grid (jackd), and absolute
//! ones drift when they add the period to "now". What tells them apart is how the spread of the
//! distance between releases grows with their distance:
//!
//! ```text
//! spread of x[i+n] − x[i]    n = 1    4    16   64
//! on a grid                      s    s    s    s       exact where s ≤ 2 ns, locked otherwise
//! drifting                       s   2s   4s   8s       each error stays: a random walk
//! growth that stops              s   3s   3s   3s       a mean period and no grid
//! ```

use onbeat_rt::Instant;

/// The regularity of a series.
#[derive(Clone, Debug, PartialEq)]
pub enum Class {
    /// Releases are on a grid to the nanosecond.
    Exact {
        period_ns: u64,
        /// Waits in each period: 2 for a loop that sleeps twice in a cycle.
        waits: usize,
    },
    /// Releases follow a grid: each error is made good.
    Locked {
        /// The period, by the mean.
        period_ns: u64,
    },
    /// Each error stays: the period is the mean of what it happens to be.
    Drifting {
        /// The mean interval.
        mean_ns: u64,
    },
    /// A mean period without a grid.
    Mean {
        /// The mean interval.
        mean_ns: u64,
    },
    /// Not periodic.
    Irregular {
        /// The mean interval.
        mean_ns: u64,
    },
}

impl Class {
    /// Returns the period, or the mean interval.
    #[must_use]
    pub const fn period_ns(&self) -> u64 {
        match *self {
            Self::Exact { period_ns, .. } | Self::Locked { period_ns } => period_ns,
            Self::Drifting { mean_ns } | Self::Mean { mean_ns } | Self::Irregular { mean_ns } => {
                mean_ns
            }
        }
    }

    /// Whether its releases are on a grid.
    #[must_use]
    pub const fn has_grid(&self) -> bool {
        matches!(self, Self::Exact { .. } | Self::Locked { .. })
    }

    /// Whether it is periodic at all.
    #[must_use]
    pub const fn is_periodic(&self) -> bool {
        !matches!(self, Self::Irregular { .. })
    }

    /// Returns the word for tables.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Exact { .. } => "exact",
            Self::Locked { .. } => "locked",
            Self::Drifting { .. } => "drifting",
            Self::Mean { .. } => "no grid",
            Self::Irregular { .. } => "irregular",
        }
    }

    /// Orders classes, the most regular first.
    #[must_use]
    pub const fn regularity(&self) -> u8 {
        match self {
            Self::Exact { .. } => 0,
            Self::Locked { .. } => 1,
            Self::Drifting { .. } => 2,
            Self::Mean { .. } => 3,
            Self::Irregular { .. } => 4,
        }
    }
}

/// Fewest releases that a class is given to.
pub const LEAST_RELEASES: usize = 6;
/// Releases of an exact grid agree to this, in nanoseconds: programs round periods.
pub(crate) const EXACT_NS: u64 = 2;
/// Width of a bin of the mode, in nanoseconds, and the least spread that may grow: a wait that is
/// computed from clock readings has their steps of some 10 ns, which is not a drift.
const BIN_NS: u64 = 100;
/// Most waits that are looked for in a period.
const MOST_WAITS: usize = 4;
/// A spread of single intervals above this share of the median interval is not a period.
const MOST_SPREAD: f64 = 0.25;
/// A series of which more intervals are jumps is not periodic.
const MOST_JUMPS: f64 = 0.2;
/// The spread over four times as many intervals grows by more than this in a series that drifts;
/// of errors that are independent it doubles.
const GROWS: f64 = 1.1;
/// Distances over many intervals overlap: so many independent ones are needed for their spread.
const INDEPENDENT: usize = 20;
/// Intervals after which a pattern repeats: of timers of 10 and 25 ms it has six.
const MOST_IN_A_PATTERN: usize = 8;
/// The spread of a grid grows by less than this from 1 to 16 intervals.
const MOST_OF_A_GRID: f64 = 2.0;

/// Returns the class of a series with these releases, in order; `None` for fewer than
/// [`LEAST_RELEASES`].
///
/// ```
/// use onbeat_rt::Instant;
/// use onbeat_watch::class::{Class, classify};
///
/// let releases: Vec<Instant> = (0..100).map(|k| Instant::from_ns(7 + k * 1_000_000)).collect();
/// assert_eq!(classify(&releases), Some(Class::Exact { period_ns: 1_000_000, waits: 1 }));
/// ```
#[must_use]
pub fn classify(releases: &[Instant]) -> Option<Class> {
    let mut at: Vec<u64> = releases.iter().map(|release| release.as_ns()).collect();
    // A sleep that a signal interrupted is set again for the same instant.
    at.dedup();
    if at.len() < LEAST_RELEASES {
        return None;
    }

    exact(&at).or_else(|| Some(by_growth(&at)))
}

fn distances(at: &[u64], over: usize) -> Vec<u64> {
    at.windows(over + 1).map(|part| part[over].saturating_sub(part[0])).collect()
}

/// The median of the fullest bin of the mode: two neighbouring bins, since a period may be at the
/// edge of one.
fn mode(intervals: &[u64]) -> u64 {
    let mut sorted = intervals.to_vec();
    sorted.sort_unstable();
    let mut best = (0, 0);
    let mut last = 0;
    for first in 0..sorted.len() {
        last = last.max(first);
        while last < sorted.len() && sorted[last] - sorted[first] <= BIN_NS {
            last += 1;
        }
        if last - first > best.1 {
            best = (first, last - first);
        }
    }
    sorted.get(best.0 + best.1 / 2).copied().unwrap_or(0)
}

fn is_multiple(interval: u64, period: u64) -> bool {
    let times = (interval + period / 2) / period;
    (1..=MOST_TIMES).contains(&times) && interval.abs_diff(times * period) <= EXACT_NS + times
}

/// Of a short period anything is nearly a multiple.
const MOST_TIMES: u64 = 32;

/// The period of the intervals over this many waits, and the share of the intervals that fit it.
fn fit(at: &[u64], waits: usize) -> (u64, f64) {
    let intervals = distances(at, waits);
    let period_ns = mode(&intervals);
    // Of a period of several waits each is a multiple only by the pattern's own repetition.
    let fits = |interval: &&u64| match waits {
        1 => is_multiple(**interval, period_ns.max(1)),
        _ => interval.abs_diff(period_ns) <= EXACT_NS,
    };
    let fitting = intervals.iter().filter(fits).count();
    (period_ns, fitting as f64 / intervals.len().max(1) as f64)
}

/// Two waits a cycle fit a grid of one of them by half: the fit of more waits must be this much
/// better.
const BETTER_BY: f64 = 0.2;

fn exact(at: &[u64]) -> Option<Class> {
    let fits: Vec<(u64, f64)> = (1..=MOST_WAITS).map(|waits| fit(at, waits)).collect();
    let best = fits.iter().map(|(_, share)| *share).fold(0.0, f64::max);
    let place = fits.iter().position(|(period_ns, share)| {
        *period_ns > BIN_NS && *share > 0.5 && *share > best - BETTER_BY
    })?;
    Some(Class::Exact { period_ns: fits[place].0, waits: place + 1 })
}

/// Returns the class of a series whose work took `worked` nanoseconds between waits, sorted. Waits
/// at 0 and at a quarter of each cycle fit the grid of that quarter as well, with half of its
/// releases skipped; but a release is skipped by work that reaches it, and not by a sleep across
/// it.
pub(crate) fn unless_slept_over(class: Class, releases: &[Instant], worked: &[u64]) -> Class {
    let Class::Exact { period_ns, waits: 1 } = class else { return class };
    let mut at: Vec<u64> = releases.iter().map(|release| release.as_ns()).collect();
    at.dedup();
    let intervals = distances(&at, 1);
    let jumps = intervals.iter().filter(|interval| **interval > period_ns + period_ns / 2).count();
    // A late start takes a part of the period.
    let reached = worked.len() - worked.partition_point(|ns| *ns < period_ns / 4 * 3);
    if reached * intervals.len() * 2 >= jumps * worked.len() {
        return class;
    }

    let next = 1.0 - jumps as f64 / intervals.len().max(1) as f64;
    let mut fits = (2..=MOST_WAITS).map(|waits| (waits, fit(&at, waits)));
    let repeated = fits.find(|(_, (_, share))| *share > 0.5 && *share > next + BETTER_BY);
    repeated.map_or(class, |(waits, (period_ns, _))| Class::Exact { period_ns, waits })
}

fn quantile(sorted: &[u64], share: f64) -> u64 {
    let place = (sorted.len() - 1) as f64 * share;
    sorted.get(place.round() as usize).copied().unwrap_or(0)
}

/// A series with its jumps: intervals that are no neighbours of the usual one. Skipped releases and
/// long delays would count as spread.
struct Smooth<'a> {
    at: &'a [u64],
    /// Jumps before each release.
    jumps: Vec<u32>,
}

impl<'a> Smooth<'a> {
    fn new(at: &'a [u64], median: u64) -> Self {
        let mut count = 0;
        let mut jumps = vec![0];
        for pair in at.windows(2) {
            let interval = pair[1].saturating_sub(pair[0]);
            count += u32::from(interval > median + median / 2 || interval < median / 2);
            jumps.push(count);
        }
        Self { at, jumps }
    }

    /// The distances over `over` intervals without a jump among them.
    fn distances(&self, over: usize) -> Vec<u64> {
        let places = 0..self.at.len().saturating_sub(over);
        let is_smooth = |place: &usize| self.jumps[*place] == self.jumps[place + over];
        places.filter(is_smooth).map(|place| self.at[place + over] - self.at[place]).collect()
    }

    fn share_of_jumps(&self) -> f64 {
        let last = self.jumps.last().copied().unwrap_or(0);
        f64::from(last) / (self.at.len().saturating_sub(1)).max(1) as f64
    }

    /// The interquartile range of the distances over `over` intervals, in nanoseconds, at least
    /// [`BIN_NS`].
    fn spread(&self, over: usize) -> Option<f64> {
        let mut all = self.distances(over);
        let needed = if over > 16 { over * INDEPENDENT } else { LEAST_RELEASES };
        if all.len() < needed {
            return None;
        }
        all.sort_unstable();
        Some((quantile(&all, 0.75) - quantile(&all, 0.25)).max(BIN_NS) as f64)
    }

    /// Whether some intervals together are much more even than single ones, whose spread is `one`:
    /// two timers in one wait, or two waits in a cycle. The errors of a grid spread as much over
    /// any distance.
    fn is_pattern(&self, one: f64) -> bool {
        (2..=MOST_IN_A_PATTERN)
            .filter(|over| self.distances(*over).len() >= INDEPENDENT)
            .filter_map(|over| self.spread(over))
            .any(|spread| spread < one / 2.0)
    }
}

fn by_growth(at: &[u64]) -> Class {
    let mut sorted = distances(at, 1);
    sorted.sort_unstable();
    let median = quantile(&sorted, 0.5);
    let whole = at.last().zip(at.first()).map_or(0, |(last, first)| last.saturating_sub(*first));
    let mean_of_all = whole / (at.len() as u64 - 1);
    let smooth = Smooth::new(at, median);
    let usual = smooth.distances(1);
    if median == 0 || usual.is_empty() || smooth.share_of_jumps() > MOST_JUMPS {
        return Class::Irregular { mean_ns: mean_of_all };
    }

    let mean_ns = usual.iter().sum::<u64>() / usual.len() as u64;
    let spreads: Vec<f64> =
        [1, 4, 16, 64].into_iter().map_while(|over| smooth.spread(over)).collect();
    let one = spreads.first().copied().unwrap_or(median as f64);
    let growth = spreads.get(2).map(|sixteen| sixteen / one);
    match growth {
        // Noise that is made good may be wide; what is not a grid may only be narrow.
        Some(growth) if growth < MOST_OF_A_GRID && one < median as f64 / 2.0 => {
            if one > median as f64 * MOST_SPREAD && smooth.is_pattern(one) {
                Class::Mean { mean_ns }
            } else {
                Class::Locked { period_ns: mean_ns }
            }
        }
        _ if one > median as f64 * MOST_SPREAD => Class::Irregular { mean_ns: mean_of_all },
        Some(growth)
            if growth > MOST_OF_A_GRID
                && spreads.windows(2).all(|pair| pair[1] > pair[0] * GROWS) =>
        {
            Class::Drifting { mean_ns }
        }
        _ => Class::Mean { mean_ns },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    fn instants(at: impl IntoIterator<Item = u64>) -> Vec<Instant> {
        at.into_iter().map(Instant::from_ns).collect()
    }

    fn class_of(at: impl IntoIterator<Item = u64>) -> Class {
        classify(&instants(at)).unwrap()
    }

    #[test]
    fn too_few_releases_have_no_class() {
        assert_eq!(classify(&instants([0, MS, 2 * MS])), None);
        assert_eq!(classify(&instants([5; 100])), None, "one release, set again and again");
    }

    #[test]
    fn skipped_releases_leave_a_grid_exact() {
        let skips = (0..200).filter(|k| k % 7 != 3 && *k != 50 && *k != 51).map(|k| 9 + k * MS);
        assert_eq!(class_of(skips), Class::Exact { period_ns: MS, waits: 1 });
    }

    #[test]
    fn a_period_that_is_not_a_whole_number_of_nanoseconds_is_exact() {
        let thirds = (0..300).map(|k| k * 1_000_000_000 / 3_000);
        let Class::Exact { period_ns, waits: 1 } = class_of(thirds) else { panic!() };
        assert!(period_ns.abs_diff(333_333) <= 1);
    }

    #[test]
    fn two_sleeps_a_cycle_are_one_period() {
        let both = (0..100).flat_map(|k| [k * MS, k * MS + 300_000]);
        assert_eq!(class_of(both), Class::Exact { period_ns: MS, waits: 2 });
    }

    #[test]
    fn a_release_that_the_program_slept_over_is_not_skipped() {
        let both = instants((0..100).flat_map(|k| [k * MS, k * MS + 250_000]));
        let quarter = Class::Exact { period_ns: 250_000, waits: 1 };
        let whole = Class::Exact { period_ns: MS, waits: 2 };
        assert_eq!(classify(&both), Some(quarter.clone()));
        let with_work = |ns| unless_slept_over(quarter.clone(), &both, &[ns; 50]);
        assert_eq!(with_work(50_000), whole);
        assert_eq!(with_work(600_000), quarter, "its work reaches the next release");
        assert_eq!(unless_slept_over(quarter.clone(), &both, &[]), quarter, "not known");
    }

    #[test]
    fn the_steps_of_the_clock_that_a_wait_is_computed_from_are_no_drift() {
        // Steps of 10 ns, and readings that take longer while the machine is busy.
        let busy = [0, 10, 20, 30, 20, 10];
        let at =
            (0..1_500).map(|k| 9 + k * 2 * MS + k * 7_919 % 5 % 2 * 10 + busy[k as usize / 6 % 6]);
        assert_eq!(class_of(at), Class::Locked { period_ns: 2 * MS });
    }

    #[test]
    fn a_pattern_of_long_and_short_intervals_is_no_grid_of_their_mean() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut jitter = || random.u64(0..100_000);
        let at =
            (0..200).flat_map(|k| [k * 10 * MS + jitter(), k * 10 * MS + 4_200_000 + jitter()]);
        let class = class_of(at.collect::<Vec<_>>());
        assert!(
            matches!(class, Class::Mean { mean_ns } if mean_ns.abs_diff(5 * MS) < 50_000),
            "{class:?}"
        );
    }

    proptest! {
        #[test]
        fn errors_that_are_made_good_are_locked(errors in prop::collection::vec(0_u64..50_000, 200)) {
            let at = errors.iter().zip(0..).map(|(error, k)| 1_000 + k * MS + error);
            let class = class_of(at);
            let is_locked = matches!(class, Class::Locked { period_ns } if period_ns.abs_diff(MS) < 1_000);
            prop_assert!(is_locked, "{class:?}");
        }

        #[test]
        fn errors_that_stay_drift(seed in any::<u64>()) {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut now = 0;
            let at: Vec<u64> = (0..2_000).map(|_| { now += MS + random.u64(0..100_000); now }).collect();
            let class = class_of(at);
            let is_drifting = matches!(class, Class::Drifting { mean_ns } if mean_ns.abs_diff(1_050_000) < 20_000);
            prop_assert!(is_drifting, "{class:?}");
        }

        #[test]
        fn events_at_random_are_irregular(seed in any::<u64>()) {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut now = 0;
            let at: Vec<u64> = (0..1_000).map(|_| { now += (-random.f64().max(1e-9).ln() * 1e6) as u64; now }).collect();
            let class = class_of(at);
            prop_assert!(matches!(class, Class::Irregular { .. }), "{class:?}");
        }

        #[test]
        fn any_instants_have_a_class_or_are_too_few(at in prop::collection::vec(any::<u64>(), 0..50)) {
            let mut at = at;
            at.sort_unstable();
            let _ = classify(&instants(at));
        }
    }
}
