//! The search: series after series, the clearest mode first, each taken out before the next is
//! looked for.

use super::comb::{Comb, LEAST_PERIODS};
use super::fold::{self, Figure, PeriodCounts, PeriodPart};
use super::series::{TrendGrid, standardised};

/// Modes reported of one series.
const MOST_PER_SERIES: usize = 4;
/// Fewer steps than this are not searched.
pub(super) const LEAST_STEPS: usize = 16;
/// Distances from the median beyond this count as this much.
const CLIP: f64 = 8.0;
/// A period is also tried at these multiples and parts of it.
const MULTIPLES: [f64; 11] = [2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0];
/// How much clearer a multiple must be than the period itself.
const CLEARER: f64 = 1.02;

/// A mode as it stands in a grid.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LevelMode {
    pub(super) figure: Figure,
    pub(super) stretch: PeriodPart,
    pub(super) seen: PeriodCounts,
    /// How long it lasts, in steps.
    pub(super) duration: f64,
}

/// Modes that lift a level, half of the cycles or the slowest tenth of them, that are no shorter
/// than two steps; their steps are taken out. `least_width` is how long they must last, in steps.
pub(super) fn levels(grid: &mut TrendGrid, figure: Figure, least_width: f64) -> Vec<LevelMode> {
    let mut found = Vec::new();
    while found.len() < MOST_PER_SERIES {
        let (values, present) = standardised(series(grid, figure), CLIP);
        let Some(mode) = clearest(grid, figure, &values, &present) else { break };
        if mode.stretch.width < least_width {
            break;
        }

        take_out(grid, &mode);
        found.push(mode);
    }

    found
}

pub(super) fn series(grid: &TrendGrid, figure: Figure) -> &[f64] {
    match figure {
        Figure::P50 => &grid.p50,
        Figure::P90 => &grid.p90,
    }
}

/// The clearest mode of a series, when one stands the test of its periods.
fn clearest(
    grid: &TrendGrid,
    figure: Figure,
    values: &[f64],
    present: &[f64],
) -> Option<LevelMode> {
    if grid.filled < LEAST_STEPS {
        return None;
    }

    let comb = Comb::from_values(values, present);
    let mut best: Option<(PeriodPart, PeriodCounts)> = None;
    for candidate in comb.candidates() {
        let Some(stretch) = fold::best_stretch(values, present, comb.refined(candidate)) else {
            continue;
        };
        if best.as_ref().is_some_and(|(other, _)| other.score >= stretch.score) {
            continue;
        }

        let stretch = own_period(&comb, values, present, stretch);
        if let Some(seen) = fold::seen(grid, figure, stretch, comb.looked_at()) {
            best = Some((stretch, seen));
        }
    }

    let (stretch, seen) = best?;
    let duration = fold::duration(values, present, stretch);
    Some(LevelMode { figure, stretch, seen, duration })
}

/// A mode agrees with parts of its period, where it is missing from most, and with multiples, where
/// it is there several times. Its own period is where one stretch holds all of it, which is where
/// that stands out most.
fn own_period(comb: &Comb, values: &[f64], present: &[f64], stretch: PeriodPart) -> PeriodPart {
    let longest = values.len() as f64 / LEAST_PERIODS as f64;
    let mut best = stretch;
    let others = MULTIPLES.iter().flat_map(|m| [stretch.period * m, stretch.period / m]);
    for period in others.filter(|period| (2.0..=longest).contains(period)) {
        let Some(other) = fold::best_stretch(values, present, comb.refined(period)) else {
            continue;
        };
        if other.score > best.score * CLEARER {
            best = other;
        }
    }

    // What was fifty-five periods is one after an eleventh and a fifth.
    if best == stretch { best } else { own_period(comb, values, present, best) }
}

/// Takes the steps of a mode out of a grid.
fn take_out(grid: &mut TrendGrid, mode: &LevelMode) {
    let stretch = mode.stretch;
    let margin = 1.0;
    let periods = (grid.len() as f64 / stretch.period).ceil() as usize;
    for e in 0..=periods {
        let from = (e as f64 - 1.0) * stretch.period + stretch.from - margin;
        let to = from + stretch.width + 2.0 * margin;
        if to > 0.0 {
            grid.forget(from.max(0.0).floor() as usize, to.ceil() as usize);
        }
    }
}
