//! Turns: every contestant runs once per round, in an order that is turned around from round to
//! round.

use crate::failure::Failure;

/// One contestant's run, in a given round.
pub(crate) type Contestant<'c, T> = &'c mut dyn FnMut(u32) -> Result<T, Failure>;

/// How many turns, in words.
pub(crate) fn describe(rounds: u32) -> String {
    if rounds == 1 { "1 turn".to_owned() } else { format!("{rounds} turns") }
}

/// All runs of all contestants: `[contestant][round]`.
pub(crate) fn in_turns<T>(
    rounds: u32,
    contestants: &mut [Contestant<'_, T>],
) -> Result<Vec<Vec<T>>, Failure> {
    let mut runs: Vec<Vec<T>> = contestants.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..contestants.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }

        for place in order {
            runs[place].push(contestants[place](round)?);
        }
    }

    Ok(runs)
}

/// The middle of some figures, with the smallest and the largest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Spread {
    /// `None` of nothing.
    pub(crate) fn from_figures(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let low = *sorted.first()?;
        let high = *sorted.last()?;
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };

        Some(Self { median, low, high })
    }

    /// Of the ratios round by round: both sides have seen the same background.
    pub(crate) fn of_ratios(ours: &[f64], theirs: &[f64]) -> Option<Self> {
        Self::from_figures(ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs))
    }
}

/// The value that a share `q` (0 to 1) of all counts do not exceed, by nearest rank over rising
/// values; infinite when it lies beyond the last of them.
pub(crate) fn quantile(counts: impl IntoIterator<Item = (f64, u64)>, all: u64, q: f64) -> f64 {
    let rank = (all as f64 * q).ceil().max(1.0) as u64;
    let mut below = 0;
    for (value, count) in counts {
        below += count;
        if below >= rank {
            return value;
        }
    }

    f64::INFINITY
}
