//! A series laid over itself period by period: where in the period a mode is, how long, how large,
//! and in how many of the periods it was there.

use super::comb::LEAST_PERIODS;
use super::series::{TrendGrid, median};

/// The largest chance of a false alarm in a whole run without memory.
const FALSE_ALARM: f64 = 1e-5;
/// A mode must have been there in this share of the periods.
const LEAST_SEEN: f64 = 0.5;
/// Places beside the mode where the same is looked for, per period, so that chance can be
/// distinguished from it.
const CONTROLS: usize = 12;
/// Widths of boxes grow by this factor.
const WIDER: f64 = 1.3;
/// Series and levels that are searched: each is one more chance of a false alarm.
const SEARCHES: f64 = 17.0;
/// Shares of a size at which "there" begins; the one that separates best is taken.
const HEIGHTS: [f64; 3] = [0.5, 0.7, 0.85];

/// Which figure of the steps a mode lifts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    P50,
    P90,
}

/// A stretch of the period: where it begins and how wide it is, in steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PeriodPart {
    pub(super) period: f64,
    pub(super) from: f64,
    pub(super) width: f64,
    /// How much it stands out, in standard deviations of a series without memory.
    pub(super) score: f64,
}

/// Sums by place in the period.
struct FoldProfile {
    sums: Vec<f64>,
    counts: Vec<f64>,
}

impl FoldProfile {
    fn from_values(values: &[f64], present: &[f64], period: f64) -> Self {
        let bins = bins_for(period);
        let mut profile = Self { sums: vec![0.0; bins], counts: vec![0.0; bins] };
        let scale = bins as f64 / period;
        for (i, (value, there)) in values.iter().zip(present).enumerate() {
            let bin = (((i as f64) % period) * scale) as usize;
            let bin = bin.min(bins - 1);
            profile.sums[bin] += value;
            profile.counts[bin] += there;
        }

        profile
    }
}

/// A bin per step; finer where a period has few.
fn bins_for(period: f64) -> usize {
    let finer = if period < 16.0 { 4.0 } else { 1.0 };
    ((period * finer).round() as usize).max(2)
}

/// The stretch of a period that stands out most, up to half of it.
pub(super) fn best_stretch(values: &[f64], present: &[f64], period: f64) -> Option<PeriodPart> {
    let profile = FoldProfile::from_values(values, present, period);
    let bins = profile.sums.len();
    let running = |of: &[f64]| {
        let twice = of.iter().chain(of);
        let mut all = vec![0.0];
        all.extend(twice.scan(0.0, |sum, v| {
            *sum += v;
            Some(*sum)
        }));

        all
    };

    let sums = running(&profile.sums);
    let counts = running(&profile.counts);
    let sum = sums[bins];
    let count = counts[bins];
    let bin = period / bins as f64;
    let mut best: Option<PeriodPart> = None;
    // Four bins make a step in short periods; a stretch is a step at least.
    let mut wide = (1.0 / bin).max(1.0);
    while wide <= (bins as f64 / 2.0).max(1.0) {
        let width = wide.round() as usize;
        for from in 0..bins {
            let inside = sums[from + width] - sums[from];
            let n = counts[from + width] - counts[from];
            let outside = count - n;
            if n < LEAST_PERIODS as f64 || outside < LEAST_PERIODS as f64 {
                continue;
            }

            let score = (inside / n - (sum - inside) / outside) * (n * outside / count).sqrt();
            if best.is_none_or(|best| score > best.score) {
                best = Some(PeriodPart {
                    period,
                    from: from as f64 * bin,
                    width: width as f64 * bin,
                    score,
                });
            }
        }

        wide = (wide * WIDER).max(wide + 1.0);
    }

    best
}

/// The evidence of the periods for a stretch.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PeriodCounts {
    /// The mode's size, in nanoseconds.
    pub(super) size_ns: f64,
    /// Periods that have figures where it should be.
    pub(super) periods: u64,
    /// Those of them where it was.
    pub(super) seen: u64,
    /// Where it was first, in steps.
    pub(super) first: f64,
}

/// Whole steps `[from, to)` of a stretch in one period.
fn steps_of(stretch: PeriodPart, at: f64) -> (i64, i64) {
    let from = at;
    let to = at + stretch.width;
    // Steps at the edges may lie half outside; a level is read inside.
    if stretch.width >= 4.0 {
        return (from.ceil() as i64, to.floor() as i64);
    }
    ((from + 0.01).floor() as i64, ((to - 0.01).ceil() as i64).max(from.floor() as i64 + 1))
}

/// By how much a figure is lifted in a stretch that begins at `at`, in nanoseconds, over what lies
/// just beside it. `None` in gaps.
fn lift(grid: &TrendGrid, figure: Figure, stretch: PeriodPart, at: f64) -> Option<f64> {
    let (from, to) = steps_of(stretch, at);
    let inside = |series: &[f64], from: i64, to: i64| -> Vec<f64> {
        let within = from.max(0) as usize..(to.max(0) as usize).min(series.len());
        series.get(within).unwrap_or(&[]).iter().copied().filter(|v| !v.is_nan()).collect()
    };

    let series = if figure == Figure::P50 { &grid.p50 } else { &grid.p90 };
    let mut here = inside(series, from, to);
    if here.is_empty() {
        return None;
    }

    let room = ((stretch.period - stretch.width) / 2.0).floor() as i64;
    let margin = if room > 2 { 1 + ((stretch.width / 8.0) as i64).min(room / 4) } else { 0 };
    let reach = (stretch.width.ceil() as i64).max(4).min(room.max(1));
    let mut beside = inside(series, from - margin - reach, from - margin);
    beside.extend(inside(series, to + margin, to + margin + reach));
    (!beside.is_empty()).then(|| median(&mut here) - median(&mut beside))
}

/// Looks for the mode in every period, and beside it as often; `None` when chance would do as well,
/// with `looked_at` periods tried.
pub(super) fn seen(
    grid: &TrendGrid,
    figure: Figure,
    stretch: PeriodPart,
    looked_at: f64,
) -> Option<PeriodCounts> {
    let periods = (grid.len() as f64 / stretch.period).ceil() as usize;
    let at = |e: usize| e as f64 * stretch.period + stretch.from;
    let lifts: Vec<(f64, f64)> =
        (0..periods).filter_map(|e| Some((at(e), lift(grid, figure, stretch, at(e))?))).collect();
    if lifts.len() < LEAST_PERIODS {
        return None;
    }

    let controls = controls(grid, figure, stretch, periods);
    let typical = median(&mut lifts.iter().map(|(_, ns)| *ns).collect::<Vec<f64>>());
    let by_height = HEIGHTS.map(|share| {
        let there = typical * share;
        let count = |of: &mut dyn Iterator<Item = f64>| of.filter(|ns| *ns >= there).count();
        let seen = count(&mut lifts.iter().map(|(_, ns)| *ns));
        let by_chance =
            (count(&mut controls.iter().copied()) + 1) as f64 / (controls.len() + 1) as f64;
        (ln_tail(seen, lifts.len(), by_chance), seen, there)
    });

    let (ln_chance, seen, there) = by_height.into_iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let places =
        bins_for(stretch.period) as f64 * (stretch.period.max(2.0).ln() / WIDER.ln()).max(1.0);
    let finer = (lifts.len() as f64 / 16.0).max(1.0);
    let tried = (looked_at * finer * places * SEARCHES * HEIGHTS.len() as f64).max(1.0);
    let is_real = typical > 0.0
        && (seen as f64) >= LEAST_SEEN * lifts.len() as f64
        && ln_chance + tried.ln() < FALSE_ALARM.ln();
    is_real.then(|| PeriodCounts {
        size_ns: median(
            &mut lifts.iter().map(|(_, ns)| *ns).filter(|ns| *ns >= there).collect::<Vec<f64>>(),
        ),
        periods: lifts.len() as u64,
        seen: seen as u64,
        first: lifts.iter().find(|(_, ns)| *ns >= there).map_or(0.0, |(at, _)| *at),
    })
}

/// The same lift, looked for elsewhere in the periods.
fn controls(grid: &TrendGrid, figure: Figure, stretch: PeriodPart, periods: usize) -> Vec<f64> {
    let free = stretch.period - 2.0 * stretch.width;
    let per_period = if free < 1.0 { 1 } else { CONTROLS.min(free as usize).max(1) };
    let mut lifts = Vec::with_capacity(periods * per_period);
    for e in 0..periods {
        for i in 0..per_period {
            // Not at the same place each time, so that no other mode of the run is met at all of
            // them.
            let place =
                ((i as f64 + (e as f64 * 0.618_034).fract()) / per_period as f64) * free.max(0.5);
            let at = e as f64 * stretch.period + stretch.from + stretch.width + place;
            lifts.extend(lift(grid, figure, stretch, at));
        }
    }

    lifts
}

/// An upper bound of the logarithm of the chance that at least `k` of `n` happen, each at `rate`
/// (Chernoff, 1952).
pub(super) fn ln_tail(k: usize, n: usize, rate: f64) -> f64 {
    let share = k as f64 / n as f64;
    if share <= rate {
        return 0.0;
    }
    let part = |p: f64, q: f64| if p > 0.0 { p * (p / q).ln() } else { 0.0 };
    -(n as f64) * (part(share, rate) + part(1.0 - share, 1.0 - rate))
}

/// How long a level lasts in each period, in steps: its area over its height.
pub(super) fn duration(values: &[f64], present: &[f64], stretch: PeriodPart) -> f64 {
    let profile = FoldProfile::from_values(values, present, stretch.period);
    let bins = profile.sums.len();
    let bin = stretch.period / bins as f64;
    let mean = |i: i64| {
        let i = i.rem_euclid(bins as i64) as usize;
        if profile.counts[i] > 0.0 { profile.sums[i] / profile.counts[i] } else { f64::NAN }
    };

    let from = (stretch.from / bin).round() as i64;
    let width = ((stretch.width / bin).round() as i64).max(1);
    let margin = (width / 4).max((2.0 / bin) as i64).min((bins as i64 - width) / 2);
    let inside =
        |from: i64, to: i64| (from..to).map(mean).filter(|v| !v.is_nan()).collect::<Vec<f64>>();
    let base = median(&mut inside(from + width + margin, from + bins as i64 - margin));
    let edge = if width >= 6 { width / 4 } else { 0 };
    let top = median(&mut inside(from + edge, from + width - edge));
    if base.is_nan() || top.is_nan() || top <= base {
        return stretch.width;
    }

    inside(from - margin, from + width + margin)
        .iter()
        .map(|v| (v - base) / (top - base))
        .sum::<f64>()
        * bin
}

/// The mean of a figure by place in the period, in nanoseconds, the stretch beginning at a tenth;
/// NaN where there is none.
pub(super) fn by_place(series: &[f64], stretch: PeriodPart, bins: usize) -> Vec<f64> {
    let mut sums = vec![0.0; bins];
    let mut counts = vec![0.0; bins];
    for (i, value) in series.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
        let place = ((i as f64 + 0.5 - stretch.from) / stretch.period + 0.1).rem_euclid(1.0);
        let bin = ((place * bins as f64) as usize).min(bins - 1);
        sums[bin] += value;
        counts[bin] += 1.0;
    }

    sums.iter()
        .zip(counts)
        .map(|(sum, count)| if count > 0.0 { sum / count } else { f64::NAN })
        .collect()
}
