//! Whether late instants come back after a period: how many lie in one narrow part of it, and
//! whether chance would do.

use super::comb::LEAST_PERIODS;
use super::events::MeasuredSteps;
use super::fold::ln_tail;

/// The largest chance of a false alarm in a whole run.
const FALSE_ALARM: f64 = 1e-3;
/// Sets of events and widths that are tried: each is one more chance of a false alarm.
const LOOKS: f64 = 400.0;
/// Octaves of periods.
const OCTAVES: f64 = 16.0;
/// A mode must have been there in this share of the periods that could have shown it.
const LEAST_SEEN: f64 = 0.5;
/// A mode faster than steps must have made this share of the largest values, beyond what lies there
/// by chance.
const LEAST_SHARE: f64 = 0.3;
/// And the largest value of this share of the steps.
const LEAST_IN_STEPS: f64 = 0.25;
/// A part of the period that chance fills more often than this shows nothing: small differences of
/// what was measured would.
const MOST_COVERED: f64 = 0.15;
/// The narrowest part of a period that is tried, in units, and by how much parts grow.
const NARROWEST: f64 = 0.6;
const WIDER: f64 = 2.0;
/// The widest, over the period.
const WIDEST: f64 = 0.34;
/// Periods below this many units meet few places of the grid that instants lie on.
const ON_A_GRID: f64 = 64.0;
const GRID_POINTS: usize = 4096;

/// What instants say of a period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Comes {
    pub(super) period_s: f64,
    /// Where the part of the period begins that the instants lie in, in seconds from the grid's
    /// begin.
    pub(super) from_s: f64,
    pub(super) width_s: f64,
    /// Instants in it, those of one period once; and all of them, neighbours of one width once.
    pub(super) inside: usize,
    pub(super) n: usize,
    /// The logarithm of an upper bound of the chance that instants of chance do so at any period.
    pub(super) ln_chance: f64,
}

impl Comes {
    /// Whether that is more than chance.
    pub(super) fn is_real(&self) -> bool {
        self.ln_chance < FALSE_ALARM.ln()
    }
}

/// The part of a period in which instants stand out most. `None` where it is missing from too many
/// periods.
pub(super) fn at(times: &[f64], period_s: f64, measured: &MeasuredSteps) -> Option<Comes> {
    let mut phases: Vec<(f64, i64)> = times
        .iter()
        .map(|t| {
            let turns = (t / period_s).floor();
            (t - turns * period_s, turns as i64)
        })
        .collect();
    phases.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut best: Option<Comes> = None;
    let mut width_s = NARROWEST * measured.unit_s;
    while width_s <= WIDEST * period_s {
        let n = apart(times, if period_s < measured.step_s { 0.0 } else { width_s });
        let mut comes = fullest(&phases, period_s, width_s);
        comes.n = n.max(comes.inside);
        let usual = width_s / period_s;
        let covered = covered(times, width_s, measured);
        if period_s >= measured.step_s && covered > MOST_COVERED {
            break;
        }

        comes.ln_chance = ln_chance(&comes, (usual, covered), measured);
        if best.is_none_or(|best| comes.ln_chance < best.ln_chance) {
            let usual = share_of_time(&comes, measured);
            comes.ln_chance = ln_chance(&comes, (usual, covered), measured);
            if best.is_none_or(|best| comes.ln_chance < best.ln_chance)
                && is_often_there(&comes, usual, measured)
            {
                best = Some(comes);
            }
        }

        width_s *= WIDER;
    }

    best
}

/// How many instants there are when those within a width count once.
fn apart(times: &[f64], width_s: f64) -> usize {
    1 + times.windows(2).filter(|pair| pair[1] - pair[0] > width_s).count()
}

/// The share of the measured time from which on a width holds an instant.
fn covered(times: &[f64], width_s: f64, measured: &MeasuredSteps) -> f64 {
    let gaps_s: f64 = times.windows(2).map(|pair| (pair[1] - pair[0]).min(width_s)).sum();
    ((gaps_s + width_s) / (measured.steps() as f64 * measured.step_s)).min(1.0)
}

/// The part of a width with the most instants.
fn fullest(phases: &[(f64, i64)], period_s: f64, width_s: f64) -> Comes {
    let n = phases.len();
    // What lies behind the end of the period is what lies at its begin, one period earlier.
    let place = |i: usize| {
        let (phase, turn) = phases[i % n];
        if i < n { (phase, turn) } else { (phase + period_s, turn - 1) }
    };

    let mut from = 0;
    let mut most = 0;
    let mut end = 0;
    for i in 0..n {
        end = end.max(i);
        while end < i + n && place(end).0 <= place(i).0 + width_s {
            end += 1;
        }

        if end - i > most {
            (from, most) = (i, end - i);
        }
    }

    let mut turns: Vec<i64> = (from..from + most).map(|i| place(i).1).collect();
    turns.sort_unstable();
    turns.dedup();
    // What lies there is in the middle of the part, so that a little less exact instants are still
    // in it.
    let first = place(from).0;
    let last = place(from + most - 1).0;
    let from_s = first - (width_s - (last - first)) / 2.0;
    Comes { period_s, from_s, width_s, inside: turns.len(), n, ln_chance: 0.0 }
}

/// The share of the measured time that lies in the part: by chance, this share of the instants
/// would lie there. Where the period is few units, the share of the grid that instants lie on.
fn share_of_time(comes: &Comes, measured: &MeasuredSteps) -> f64 {
    let Comes { period_s, from_s, width_s, .. } = *comes;
    if period_s < ON_A_GRID * measured.unit_s {
        let inside =
            |j: &usize| (*j as f64 * measured.unit_s - from_s).rem_euclid(period_s) <= width_s;
        let on_grid = (0..GRID_POINTS).filter(inside).count() as f64 / GRID_POINTS as f64;
        return on_grid.max(width_s / period_s);
    }

    if period_s < measured.step_s {
        return width_s / period_s;
    }

    let all_s = measured.steps() as f64 * measured.step_s;
    let inside_s: f64 =
        starts(comes, measured).map(|from_s| measured.between_s(from_s, from_s + width_s)).sum();
    if all_s > 0.0 { inside_s / all_s } else { 1.0 }
}

/// `usual` is the share of the instants that lie in the part by chance, `covered` the share of the
/// periods that have one there by chance: where instants come in bursts, or one in each step, the
/// two differ, and the larger chance counts.
fn ln_chance(comes: &Comes, (usual, covered): (f64, f64), measured: &MeasuredSteps) -> f64 {
    let k = comes.inside;
    let n = comes.n;
    if k < LEAST_PERIODS || usual <= 0.0 {
        return 0.0;
    }

    // How many periods and phases can be distinguished in the run; or how many pairs of instants
    // there are, of which each stands for a period and a phase that the others must agree with.
    let parts = comes.period_s / comes.width_s;
    let turns = (measured.span_s() / comes.period_s).max(1.0);
    let could =
        if comes.period_s < measured.step_s { 0 } else { windows(comes, measured).count().max(k) };
    let tail = |less: usize| {
        let of_instants = ln_tail(k - less, n - less, usual);
        if comes.period_s < measured.step_s {
            return of_instants;
        }
        of_instants.max(ln_tail(k - less, could - less, covered))
    };

    let grid = tail(0) + (4.0 * OCTAVES * measured.span_s() / comes.width_s * parts).ln();
    let pairs = tail(2) + (n as f64 * n as f64 / 2.0 * turns).ln();
    (grid.min(pairs) + (2.0 * LOOKS).ln()).min(0.0)
}

fn is_often_there(comes: &Comes, usual: f64, measured: &MeasuredSteps) -> bool {
    if comes.period_s < measured.step_s {
        // Some of the largest values, of one size, agree with parts of a slower mode's period too.
        let in_steps = comes.inside as f64 / measured.steps().max(1) as f64;
        let of_set = (comes.inside as f64 / comes.n as f64 - usual) / (1.0 - usual);
        return of_set >= LEAST_SHARE && in_steps >= LEAST_IN_STEPS;
    }

    let could = windows(comes, measured).count();
    could >= LEAST_PERIODS && comes.inside as f64 >= LEAST_SEEN * could as f64
}

/// Begins of the parts that were measured, period by period.
pub(super) fn windows<'m>(
    comes: &Comes,
    measured: &'m MeasuredSteps,
) -> impl Iterator<Item = f64> + 'm {
    let width_s = comes.width_s;
    starts(comes, measured).filter(move |from_s| measured.at(from_s + width_s / 2.0))
}

/// Begins of the parts that overlap the run, period by period.
fn starts(comes: &Comes, measured: &MeasuredSteps) -> impl Iterator<Item = f64> + use<> {
    let Comes { period_s, from_s, width_s, .. } = *comes;
    let first = ((-from_s - width_s) / period_s).ceil() as i64;
    let last = ((measured.span_s() - from_s) / period_s) as i64;
    (first..=last).map(move |turn| from_s + turn as f64 * period_s)
}
