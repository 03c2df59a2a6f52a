//! The search: series after series, the clearest mode first, each taken out before the next is looked for.

use super::comb::{Comb, LEAST_PERIODS};
use super::fold::{self, Figure, Seen, Stretch};
use super::series::{Grid, indicated, levels, standardised};

/// Modes told of one series.
const MOST_PER_SERIES: usize = 4;
/// Fewer steps than this are not searched.
pub(super) const LEAST_STEPS: usize = 16;
/// Distances from the median beyond this count as this much.
const CLIP: f64 = 8.0;
/// Shares of the largest values that are looked at together: what comes back may have any size.
const SHARES: [f64; 3] = [0.002, 0.02, 0.16];
/// Largest values are also looked at by size, in bands from one to so many times as much: what comes back with the same
/// size each time stands out among few others.
const BAND: f64 = 1.5;
/// Bands begin where this share of the largest values lies above.
const BANDS_FROM: f64 = 0.16;
const MOST_BANDS: usize = 12;
const MOST_PASSES: usize = 3;
/// A period is also tried at these multiples and parts of it.
const MULTIPLES: [f64; 11] = [2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0];
/// How much clearer a multiple must be than the period itself.
const CLEARER: f64 = 1.02;

/// A mode as it stands in a grid.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) figure: Figure,
    pub(super) stretch: Stretch,
    pub(super) seen: Seen,
    /// How long it lasts, in steps; less than one cannot be told.
    pub(super) duration: f64,
}

/// All modes of a grid that are no shorter than two steps; their steps are taken out of it.
pub(super) fn all(grid: &mut Grid) -> Vec<Found> {
    let mut found = levels_of(grid, Figure::P50);
    // Again after a find: beside what comes every five seconds, what comes every hour is not among the candidates.
    for _ in 0..MOST_PASSES {
        let events = events_in_bands(grid);
        let is_last = events.is_empty();
        found.extend(events);
        if is_last {
            break;
        }
    }
    // Last, because single late cycles lift it a little, where a step has few.
    found.extend(levels_of(grid, Figure::P90));
    found
}

/// Modes of single cycles, by size and then among the largest values together.
fn events_in_bands(grid: &mut Grid) -> Vec<Found> {
    let mut found = Vec::new();
    let mut above = levels(&grid.max, &[BANDS_FROM]).pop();
    for _ in 0..MOST_BANDS {
        let Some(low) = above.filter(|low| *low <= grid.largest()) else { break };
        found.extend(events_of(grid, |_| Some((low, low * BAND))));
        above = Some(low * BAND);
    }
    for share in SHARES {
        found.extend(events_of(grid, |grid| Some((levels(&grid.max, &[share]).pop()?, f64::INFINITY))));
    }
    found
}

/// Modes of single cycles among the largest values within bounds.
fn events_of(grid: &mut Grid, bounds: impl Fn(&Grid) -> Option<(f64, f64)>) -> Vec<Found> {
    let mut found = Vec::new();
    while found.len() < MOST_PER_SERIES {
        let Some((low, high)) = bounds(grid) else { break };
        let (values, present) = indicated(&grid.max, low, high);
        let Some(mode) = clearest(grid, Figure::Max, &values, &present) else { break };
        take_out(grid, &mode);
        found.push(mode);
    }
    found
}

fn levels_of(grid: &mut Grid, figure: Figure) -> Vec<Found> {
    let mut found = Vec::new();
    while found.len() < MOST_PER_SERIES {
        let (values, present) = standardised(series(grid, figure), CLIP);
        let Some(mode) = clearest(grid, figure, &values, &present) else { break };
        take_out(grid, &mode);
        found.push(mode);
    }
    found
}

pub(super) fn series(grid: &Grid, figure: Figure) -> &[f64] {
    match figure {
        Figure::P50 => &grid.p50,
        Figure::P90 => &grid.p90,
        Figure::Max => &grid.max,
    }
}

/// The clearest mode of a series, when one stands the test of its periods.
fn clearest(grid: &Grid, figure: Figure, values: &[f64], present: &[f64]) -> Option<Found> {
    if grid.filled < LEAST_STEPS {
        return None;
    }
    let comb = Comb::of(values, present);
    let mut best: Option<(Stretch, Seen)> = None;
    for candidate in comb.candidates() {
        let Some(stretch) = fold::best_stretch(values, present, comb.refined(candidate)) else { continue };
        if best.as_ref().is_some_and(|(other, _)| other.score >= stretch.score) {
            continue;
        }
        let stretch = own_period(&comb, values, present, stretch);
        if let Some(seen) = fold::seen(grid, figure, stretch, comb.looked_at()) {
            best = Some((stretch, seen));
        }
    }
    let (stretch, seen) = best?;
    let duration = if figure == Figure::Max { 0.0 } else { fold::duration(values, present, stretch) };
    Some(Found { figure, stretch, seen, duration })
}

/// A mode agrees with parts of its period, where it is missing from most, and with multiples, where it is there several
/// times. Its own period is where one stretch holds all of it, which is where that stands out most.
fn own_period(comb: &Comb, values: &[f64], present: &[f64], stretch: Stretch) -> Stretch {
    let longest = values.len() as f64 / LEAST_PERIODS as f64;
    let mut best = stretch;
    let others = MULTIPLES.iter().flat_map(|m| [stretch.period * m, stretch.period / m]);
    for period in others.filter(|period| (2.0..=longest).contains(period)) {
        let Some(other) = fold::best_stretch(values, present, comb.refined(period)) else { continue };
        if other.score > best.score * CLEARER {
            best = other;
        }
    }
    // What was fifty-five periods is one after an eleventh and a fifth.
    if best == stretch { best } else { own_period(comb, values, present, best) }
}

/// Takes the steps of a mode out of a grid.
fn take_out(grid: &mut Grid, mode: &Found) {
    let stretch = mode.stretch;
    let margin = if mode.figure == Figure::Max { 0.0 } else { 1.0 };
    let periods = (grid.len() as f64 / stretch.period).ceil() as usize;
    for e in 0..=periods {
        let from = (e as f64 - 1.0) * stretch.period + stretch.from - margin;
        let to = from + stretch.width + 2.0 * margin;
        if to > 0.0 {
            grid.forget(from.max(0.0).floor() as usize, to.ceil() as usize);
        }
    }
}
