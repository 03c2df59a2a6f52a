//! Threads that take turns at one loop, and series that are two loops in one.
//!
//! A pool of workers has no loop in any of its threads: each serves a release now and then. Together
//! their releases are periodic.

use onbeat_rt::Instant;

use crate::choose::{LEAST_RATE, SeenThread, rate};
use crate::class::{Class, LEAST_RELEASES, classify};
use crate::waits::Source;

/// Threads of one process and one kind of name that serve the releases of one loop in turns.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool<'s> {
    /// What their names have in common.
    pub stem: &'s str,
    /// The threads, by number.
    pub threads: Vec<&'s SeenThread>,
    /// What they wait for.
    pub source: Source,
    /// The releases of all of them, in order.
    pub releases: Vec<Instant>,
    /// Their regularity.
    pub class: Class,
    /// Median of what their work takes, in nanoseconds.
    pub worked_ns: u64,
}

/// A thread with releases at this share of the places of its grid serves it alone.
const SERVES_FROM: f64 = 0.9;
/// Share of a pool's releases that two threads may have served: errors of rounding.
const MOST_TWICE: f64 = 0.02;

/// The share of the places of a grid that have a release.
fn served(releases: &[Instant], class: &Class) -> f64 {
    let (Some(first), Some(last)) = (releases.first(), releases.last()) else { return 0.0 };
    let waits = if let Class::Exact { waits, .. } = class { *waits } else { 1 };
    let places = last.ns_since(*first) / class.period_ns().max(1) * waits as u64;
    (releases.len() as u64 - 1) as f64 / places.max(1) as f64
}

/// Returns a name without the number at its end: `pool-1-thread-` of `pool-1-thread-7`.
fn stem(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// Returns the pools among threads that were looked at for `looked_ns` nanoseconds, the most frequent
/// first: no thread of them serves a grid, and all of them together do, each release once.
#[must_use]
pub fn pools(threads: &[SeenThread], looked_ns: u64) -> Vec<Pool<'_>> {
    let mut groups: Vec<((i32, &str), Vec<&SeenThread>)> = Vec::new();
    for thread in threads.iter().filter(|thread| thread.flood.is_none()) {
        let key = (thread.facts.pid, stem(&thread.facts.name));
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(thread),
            None => groups.push((key, vec![thread])),
        }
    }
    let mut found: Vec<Pool<'_>> = groups
        .into_iter()
        .filter_map(|((_, stem), group)| pool_of(stem, &group, looked_ns))
        .collect();
    found.sort_by_key(|pool| std::cmp::Reverse(pool.releases.len()));
    found
}

fn pool_of<'s>(stem: &'s str, group: &[&'s SeenThread], looked_ns: u64) -> Option<Pool<'s>> {
    let serves_a_grid = |thread: &&SeenThread| {
        thread.best(looked_ns).is_some_and(|series| {
            let class = series.class.as_ref().filter(|class| class.has_grid());
            class.is_some_and(|class| served(&series.releases, class) >= SERVES_FROM)
        })
    };
    if group.len() < 2 || group.iter().any(serves_a_grid) {
        return None;
    }

    let mut sources: Vec<Source> =
        group.iter().flat_map(|thread| &thread.series).map(|series| series.source).collect();
    sources.retain(|source| matches!(source, Source::Sleep { .. } | Source::Event));
    sources.sort_unstable();
    sources.dedup();
    let together = |source: &Source| {
        let of = |thread: &&&'s SeenThread| {
            let mut own = thread.series.iter().filter(|series| series.source == *source);
            own.next().is_some_and(|series| series.releases.len() >= LEAST_RELEASES)
        };
        let threads: Vec<&SeenThread> = group.iter().filter(of).copied().collect();
        let series = || {
            threads
                .iter()
                .flat_map(|thread| &thread.series)
                .filter(|series| series.source == *source)
        };
        let mut releases: Vec<Instant> =
            series().flat_map(|series| series.releases.iter().copied()).collect();
        releases.sort_unstable();
        let all = releases.len();
        releases.dedup();
        let class = classify(&releases).filter(Class::has_grid)?;
        let is_once = (all - releases.len()) as f64 <= all as f64 * MOST_TWICE;
        let mut worked: Vec<u64> = series().map(|series| series.worked_ns).collect();
        worked.sort_unstable();
        let worked_ns = worked.get(worked.len() / 2).copied().unwrap_or(0);
        let is_one = threads.len() >= 2
            && is_once
            && served(&releases, &class) >= SERVES_FROM
            && rate(releases.len() as u64, looked_ns) >= LEAST_RATE;
        is_one.then(|| Pool {
            stem,
            threads: threads.clone(),
            source: *source,
            releases,
            class,
            worked_ns,
        })
    };
    // Who waits for the next release does so with a timer; the others are woken to wait for it in turn.
    let all = sources.iter().filter_map(together);
    all.max_by_key(|pool| (pool.source.is_timer(), pool.releases.len()))
}

/// Releases of a grid are at most this part of a period from their places.
const WITHIN: f64 = 20.0;
/// A grid has a release at this share of its places.
const LEAST_SERVED: f64 = 0.8;
/// Releases between two of one grid.
const MOST_BETWEEN: usize = 6;
/// Releases that are looked at.
const LOOKED_AT: usize = 2_000;

/// Returns the periods of a series that is no loop but two in one, the shorter first, in nanoseconds:
/// an event loop with two timers.
///
/// ```
/// use onbeat_rt::Instant;
/// use onbeat_watch::pool::two_periods;
///
/// let grid = |from: u64, period: u64| (0..300).map(move |k| from + k * period);
/// let mut both: Vec<u64> = grid(0, 2_000_000).chain(grid(333_000, 7_100_000)).collect();
/// both.retain(|at| *at < 600_000_000);
/// both.sort_unstable();
/// let both: Vec<Instant> = both.into_iter().map(Instant::from_ns).collect();
/// assert_eq!(two_periods(&both), Some((2_000_000, 7_100_000)));
/// ```
#[must_use]
pub fn two_periods(releases: &[Instant]) -> Option<(u64, u64)> {
    let at: Vec<u64> = releases.iter().take(LOOKED_AT).map(|at| at.as_ns()).collect();
    if at.len() < 4 * LEAST_RELEASES {
        return None;
    }
    candidates(&at).into_iter().find_map(|period| {
        let starts = 0..at.len().min(MOST_BETWEEN);
        let (period, rest) = starts.into_iter().find_map(|start| followed(&at, start, period))?;
        let rest: Vec<Instant> = rest.into_iter().map(Instant::from_ns).collect();
        // What is left of one loop with errors may look periodic, and is on no grid.
        let class = classify(&rest).filter(Class::has_grid)?;
        let other = class.period_ns();
        Some((period.min(other), period.max(other)))
    })
}

/// Follows the releases of one grid from a place on; returns its period and the other releases, where
/// most places of the grid have a release.
fn followed(at: &[u64], start: usize, period: u64) -> Option<(u64, Vec<u64>)> {
    let (first, mut period) = (*at.get(start)? as f64, period as f64);
    let mut rest = at[..start].to_vec();
    let (mut served, mut due, mut last) = (0_u64, first, first);
    let mut places = 0_u64;
    let mut left = start;
    while left < at.len() {
        let within = period / WITHIN;
        let is_near = |one: u64| (one as f64 - due).abs() <= within;
        let end = left + at[left..].iter().take_while(|one| **one as f64 <= due + within).count();
        let off = |place: &usize| (at[*place] as f64 - due).abs() as u64;
        let nearest = (left..end).filter(|place| is_near(at[*place])).min_by_key(off);
        rest.extend((left..end).filter(|place| Some(*place) != nearest).map(|place| at[place]));
        if let Some(place) = nearest {
            // A clock that is followed: errors of single releases count for little.
            let error = at[place] as f64 - due;
            due += error / 8.0;
            period += error / 64.0;
            last = at[place] as f64;
            served += 1;
        }
        left = end;
        places += 1;
        due += period;
        if (served as f64) < (places as f64 - MOST_BETWEEN as f64) * LEAST_SERVED {
            return None;
        }
    }
    let by_places = ((last - first) / period).round().max(1.0);
    // Of one loop with errors each of the others is one that the grid lacks.
    let is_other = (places - served) * 4 <= rest.len() as u64;
    let is_served = served as f64 >= places as f64 * LEAST_SERVED && is_other;
    is_served.then(|| (((last - first) / by_places) as u64, rest))
}

/// The distances that occur most often between releases near each other, the shortest first.
fn candidates(at: &[u64]) -> Vec<u64> {
    let mut distances: Vec<u64> = (1..=MOST_BETWEEN)
        .flat_map(|over| at.windows(over + 1).map(move |part| part[over] - part[0]))
        .filter(|distance| *distance > 1_000)
        .collect();
    distances.sort_unstable();
    let least = at.len() / 8;
    let mut found = Vec::new();
    let mut first = 0;
    while first < distances.len() {
        // As wide as a hundredth.
        let end =
            distances.partition_point(|one| *one <= distances[first] + distances[first] / 100);
        if end - first >= least.max(LEAST_RELEASES) {
            found.push(distances[first + (end - first) / 2]);
            first = end;
        } else {
            first += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn instants(mut at: Vec<u64>) -> Vec<Instant> {
        at.sort_unstable();
        at.into_iter().map(Instant::from_ns).collect()
    }

    #[test]
    fn names_have_a_stem() {
        assert_eq!(stem("pool-1-thread-12"), "pool-1-thread-");
        assert_eq!(stem("worker"), "worker");
        assert_eq!(stem("7"), "");
    }

    proptest! {
        #[test]
        fn a_loop_that_drifts_is_not_two(seed in any::<u64>(), error in 10_000_u64..3_000_000) {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut now = 0;
            let at = (0..300).map(|_| { now += 29_000_000 + random.u64(0..error); now }).collect();
            prop_assert_eq!(two_periods(&instants(at)), None);
        }

        #[test]
        fn two_timers_of_one_loop_are_two_periods(
            fast in 1_000_000_u64..3_000_000,
            times in 3.3_f64..20.0,
            phase in 0_u64..1_000_000,
            jitter in 0_u64..50_000,
            seed in any::<u64>(),
        ) {
            let mut random = fastrand::Rng::with_seed(seed);
            let slow = (fast as f64 * times) as u64;
            // A multiple would be a part of the faster grid.
            prop_assume!((slow % fast).min(fast - slow % fast) > fast / 20);
            let whole = 2_000_000_000_u64;
            let mut at: Vec<u64> = Vec::new();
            for (period, from) in [(fast, 0), (slow, phase)] {
                at.extend((0..(whole - from) / period).map(|k| from + k * period + random.u64(0..=jitter)));
            }
            let found = two_periods(&instants(at));
            let Some((one, other)) = found else { return Err(TestCaseError::fail("none")) };
            prop_assert!(one.abs_diff(fast) <= fast / 50, "{one} instead of {fast}");
            prop_assert!(other.abs_diff(slow) <= slow / 10, "{other} instead of {slow}");
        }

        #[test]
        fn events_at_random_are_not_two_periods(seed in any::<u64>()) {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut now = 0;
            let at = (0..1_000).map(|_| { now += (-random.f64().max(1e-9).ln() * 1e6) as u64; now }).collect();
            prop_assert_eq!(two_periods(&instants(at)), None);
        }

        #[test]
        fn any_instants_are_judged(at in prop::collection::vec(any::<u64>(), 0..80)) {
            let _ = two_periods(&instants(at));
        }
    }
}
