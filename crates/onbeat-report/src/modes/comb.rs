//! Which periods a series may have: sums of its autocorrelation at multiples of a lag, less what
//! lies half-way between.
//!
//! A slow drift correlates at every lag alike, half-way between multiples too; only periodic
//! interference is left.

use super::fft::correlate;

/// Multiples of a lag that are summed up in the search; refining takes all.
const MOST_TERMS: usize = 16;
/// Periods examined more closely, per series and way of ranking.
const CANDIDATES: usize = 6;
/// How far above the usual a comb must be to be examined. What is accepted is decided elsewhere, by
/// its periods.
const LEAST_HEIGHT: f64 = 4.5;
/// A mode must come back so often in a run.
pub(super) const LEAST_PERIODS: usize = 4;

/// Sums of products and numbers of pairs by lag.
pub(super) struct Comb {
    /// Both side by side, because both are wanted at each lag.
    lags: Vec<[f32; 2]>,
    n: usize,
}

impl Comb {
    /// Of a series of mean 0 and variance 1, 0 in gaps, and where it has points.
    pub(super) fn from_values(values: &[f64], present: &[f64]) -> Self {
        let n = values.len();
        let (sums, pairs) = correlate(values, present, n);
        let lags =
            sums.into_iter().zip(pairs).map(|(sum, pairs)| [sum as f32, pairs as f32]).collect();
        Self { lags, n }
    }

    fn at(&self, lag: f64) -> (f64, f64) {
        let i = lag as usize;
        let part = lag - i as f64;
        let lag = |i: usize| self.lags.get(i).copied().unwrap_or_default();
        let low = lag(i);
        let high = lag(i + 1);
        let between = |k: usize| f64::from(low[k]) + f64::from(high[k] - low[k]) * part;
        (between(0), between(1))
    }

    /// How much more the series agrees with itself after multiples of a period than half-way
    /// between them, in standard deviations of a series without memory.
    pub(super) fn height(&self, period: f64, terms: usize) -> f64 {
        let mut excess = 0.0;
        let mut variance = 0.0;
        let mut before = self.at(period / 2.0);
        for k in 1..=terms {
            let (sum, pairs) = self.at(k as f64 * period);
            let after = self.at((k as f64 + 0.5) * period);
            let between = before.0 + after.0;
            let between_pairs = before.1 + after.1;
            before = after;
            if pairs < 1.0 || between_pairs < 1.0 {
                continue;
            }

            excess += sum - between * pairs / between_pairs;
            variance += pairs + pairs * pairs / between_pairs;
        }

        if variance > 0.0 { excess / variance.sqrt() } else { 0.0 }
    }

    /// Multiples of a period that lie within the series.
    fn terms(&self, period: f64) -> usize {
        ((self.n as f64 / period) as usize).saturating_sub(1).max(1)
    }

    /// How many periods the search covers.
    pub(super) fn looked_at(&self) -> f64 {
        let longest = self.n as f64 / LEAST_PERIODS as f64;
        let few = self.n as f64 / MOST_TERMS as f64;
        MOST_TERMS as f64 * few + self.n as f64 * (longest / few).ln().max(0.0)
    }

    /// Periods that stand out, in steps: those with the highest combs, and those highest over what
    /// is usual for periods of their length, which a drift of the series makes high as well.
    pub(super) fn candidates(&self) -> Vec<f64> {
        let longest = self.n / LEAST_PERIODS;
        let mut all: Vec<Tooth> = Vec::new();
        let mut octave_from = 0;
        let mut octave_ends = 4;
        for whole in 2..longest {
            if whole >= octave_ends {
                level(&mut all[octave_from..]);
                (octave_from, octave_ends) = (all.len(), octave_ends * 2);
            }

            let terms = self.terms(whole as f64).min(MOST_TERMS);
            for part in 0..terms {
                let period = whole as f64 + part as f64 / terms as f64;
                let height = self.height(period, terms);
                all.push(Tooth { period, height, over_usual: height });
            }
        }

        level(&mut all[octave_from..]);
        all.retain(|tooth| tooth.over_usual > LEAST_HEIGHT);
        let mut chosen: Vec<f64> = Vec::new();
        for rank in [|tooth: &Tooth| tooth.height, |tooth: &Tooth| tooth.over_usual] {
            all.sort_unstable_by(|a, b| rank(b).total_cmp(&rank(a)));
            let most = chosen.len() + CANDIDATES;
            for Tooth { period, .. } in &all {
                if chosen.len() < most
                    && chosen.iter().all(|other| (period / other - 1.0).abs() > 0.01)
                {
                    chosen.push(*period);
                }
            }
        }

        chosen
    }

    /// The same period as exactly as the whole series allows: more and more multiples, around the
    /// best so far.
    pub(super) fn refined(&self, period: f64) -> f64 {
        let all = self.terms(period);
        let mut best = period;
        let mut within = 0.5;
        let mut terms = 4.min(all);
        loop {
            let finest = 0.25 / terms as f64;
            let steps = (within / finest).ceil() as i32;
            let around = (-steps..=steps)
                .map(|i| best + f64::from(i) * finest)
                .filter(|period| *period >= 2.0);
            let heights = around.map(|period| (self.height(period, terms), period));
            best = heights.max_by(|a, b| a.0.total_cmp(&b.0)).map_or(best, |(_, period)| period);
            if terms == all {
                return best;
            }

            within = 1.0 / terms as f64;
            terms = (terms * 2).min(all);
        }
    }
}

/// A period and how well the series agrees with it.
struct Tooth {
    period: f64,
    height: f64,
    over_usual: f64,
}

/// Divides heights by what is usual among them, when that is more than a series without memory has.
fn level(teeth: &mut [Tooth]) {
    let mut sizes: Vec<f64> = teeth.iter().map(|tooth| tooth.height.abs()).collect();
    let usual = super::series::median(&mut sizes) / 0.6745;
    if usual > 1.0 {
        teeth.iter_mut().for_each(|tooth| tooth.over_usual /= usual);
    }
}
