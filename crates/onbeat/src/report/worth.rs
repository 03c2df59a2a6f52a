//! What one tuning is worth, from blocks with and without it that ran in pairs.
//!
//! The ratio is that of a percentile over all blocks. Its interval comes from resampling pairs of
//! neighbouring blocks with replacement (`bootstrap`): both blocks of a pair saw the same
//! background. The interval is one of 99 %, not of 95 %: who tries a dozen settings must not find
//! one by chance.

use serde::{Deserialize, Serialize};

use super::bootstrap::{Stretches, student_t};
use super::statistics::Share;
use super::units::{Letters, ratio, time};
use crate::record::{Distribution, RunFile, Series};

/// The 99.5 % point of the normal distribution: two tails of 0.5 % leave 99 %.
const Z_99_5: f64 = 2.575_829_303_548_901;
/// Fewest pairs of an interval.
pub const LEAST_PAIRS: usize = 6;
/// Percentiles that may be compared, the farthest out first.
const COMPARED_BY: [Share; 5] = [Share::P99_99, Share::P99_9, Share::P99, Share::P90, Share::P50];

/// What is compared, and how intervals are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorthRequest {
    /// The series.
    pub series: Series,
    /// The percentile; a lower one is taken where a side has too few samples for it.
    pub at: Share,
    /// Where the draws start: the same seed gives the same interval.
    pub seed: u64,
    /// Number of resamples.
    pub resamples: u32,
}

impl Default for WorthRequest {
    fn default() -> Self {
        Self { series: Series::ReleaseLatency, at: Share::P99, seed: 2009, resamples: 4000 }
    }
}

/// What a tuning is worth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Worth {
    /// The percentile: `p99`.
    pub percentile: String,
    /// The series that was compared.
    pub series: Series,
    /// The percentile with the tuning divided by that without it: below 1 the tuning helps.
    pub ratio: f64,
    /// Lower end of the 99 % interval of the ratio.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// The percentile without the tuning, in nanoseconds.
    pub without_ns: f64,
    /// The percentile with it, in nanoseconds.
    pub with_ns: f64,
    /// Pairs of blocks.
    pub pairs: usize,
}

/// There is no interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoWorth {
    /// Too few pairs of blocks.
    #[error("{pairs} pairs of blocks were measured and {LEAST_PAIRS} are needed; measure longer")]
    TooFewPairs {
        /// How many there are.
        pairs: usize,
    },
    /// Too few samples even for the median.
    #[error("{samples} samples are too few to compare; measure longer")]
    TooFewSamples {
        /// Of the side that has fewer.
        samples: u64,
    },
}

/// Compares the blocks of two cells; blocks of the same index are a pair.
///
/// # Errors
/// [`NoWorth`].
pub fn of(without: &RunFile, with: &RunFile, request: WorthRequest) -> Result<Worth, NoWorth> {
    let of_block = |file: &RunFile, index: u32| file.distribution_in_block(request.series, index);
    let both = without
        .blocks
        .iter()
        .map(|block| (of_block(without, block.index), of_block(with, block.index)));
    let (a, b): (Vec<_>, Vec<_>) = both.filter(|(a, b)| a.count() > 0 && b.count() > 0).unzip();
    of_pairs(&a, &b, request)
}

/// Compares pairs of blocks, given by their distributions.
///
/// # Errors
/// [`NoWorth`].
pub fn of_pairs(
    without: &[Distribution],
    with: &[Distribution],
    request: WorthRequest,
) -> Result<Worth, NoWorth> {
    let pairs = without.len().min(with.len());
    if pairs < LEAST_PAIRS {
        return Err(NoWorth::TooFewPairs { pairs });
    }

    let (a, b) =
        (Stretches::of_parts(&without[..pairs], 0), Stretches::of_parts(&with[..pairs], 0));
    let samples = a.samples.min(b.samples);
    let supported = |share: &Share| *share <= request.at && share.is_supported_by(samples);
    let share = std::iter::once(request.at)
        .chain(COMPARED_BY)
        .find(supported)
        .ok_or(NoWorth::TooFewSamples { samples })?;

    let (ln_without, ln_with) = (a.ln_of_all(share), b.ln_of_all(share));
    let (low, high) =
        interval(ln_with - ln_without, &drawn((&a, &b), share, pairs, request), pairs);
    Ok(Worth {
        percentile: share.label(),
        series: request.series,
        ratio: (ln_with - ln_without).exp(),
        low: low.exp(),
        high: high.exp(),
        without_ns: ln_without.exp(),
        with_ns: ln_with.exp(),
        pairs,
    })
}

/// The logarithm of the ratio of pairs drawn again, ascending.
fn drawn(
    (without, with): (&Stretches, &Stretches),
    share: Share,
    pairs: usize,
    request: WorthRequest,
) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(request.seed);
    let mut places = vec![0; pairs];
    let mut draws: Vec<f64> = (0..request.resamples)
        .map(|_| {
            places.fill_with(|| random.usize(..pairs));
            with.ln_percentile(share, &places) - without.ln_percentile(share, &places)
        })
        .collect();
    draws.sort_unstable_by(f64::total_cmp);
    draws
}

/// The interval of draws, as wide as Student's t makes it with so few pairs.
fn interval(ln_ratio: f64, draws: &[f64], pairs: usize) -> (f64, f64) {
    let Some(last) = draws.len().checked_sub(1) else {
        return (f64::NEG_INFINITY, f64::INFINITY);
    };

    let at = |share: f64| draws[(last as f64 * share).round() as usize];
    let n = pairs as f64;
    let wider = (n / (n - 1.0)).sqrt() * student_t(Z_99_5, n - 1.0) / Z_99_5;
    (
        ln_ratio + (at(0.005) - ln_ratio).min(0.0) * wider,
        ln_ratio + (at(0.995) - ln_ratio).max(0.0) * wider,
    )
}

impl Worth {
    /// Whether the interval leaves out 1.
    #[must_use]
    pub fn is_visible(&self) -> bool {
        self.low > 1.0 || self.high < 1.0
    }

    /// Returns the result without the name of the tuning: `p99 3.1 [2.2, 4.0] times lower`.
    #[must_use]
    pub fn in_short(&self) -> String {
        let Self { percentile, .. } = self;
        if !self.is_visible() {
            let (low, high) = (ratio(self.low), ratio(self.high));
            return format!("no visible effect on {percentile} (x {low} to x {high})");
        }

        let times = self.times();
        format!("{percentile} {times}")
    }

    /// Returns the result as a sentence, with the tuning's name and both figures.
    #[must_use]
    pub fn sentence(&self, name: &str) -> String {
        let (percentile, series) = (&self.percentile, self.series.words());
        let [without, with] = [self.without_ns, self.with_ns].map(|ns| time(ns, Letters::Ascii));
        if !self.is_visible() {
            let (low, high) = (ratio(self.low), ratio(self.high));
            return format!(
                "{name}: no visible effect on {percentile} {series}: {without} without it, {with} with it (x {low} to x {high})"
            );
        }

        let times = self.times();
        format!(
            "{name}: {percentile} {series} {times} with it: {without} without it, {with} with it"
        )
    }

    /// `3.1 [2.2, 4.0] times lower`.
    fn times(&self) -> String {
        let (factor, low, high, way) = if self.ratio > 1.0 {
            (self.ratio, self.low, self.high, "higher")
        } else {
            (1.0 / self.ratio, 1.0 / self.high, 1.0 / self.low, "lower")
        };
        format!("{} [{}, {}] times {way}", ratio(factor), ratio(low), ratio(high))
    }
}
