//! What one tuning is worth, from blocks with and without it that ran in pairs.
//!
//! Each pair of neighbouring blocks gives a ratio of a percentile; both blocks saw the same
//! background. The estimate is that of Hodges and Lehmann (1963): the median of the means of all
//! two pairs, so that a few disturbed blocks decide nothing. Its interval is that of Wilcoxon's
//! signed-rank test, which holds exactly, whatever the noise: the order within a pair is drawn at
//! random. It is one of 99 %, not of 95 %: who tries a dozen settings must not find one by chance.

use serde::{Deserialize, Serialize};

use super::bootstrap::Stretches;
use super::statistics::Share;
use super::units::{Letters, ratio, time};
use super::verdict::Outcome;
use onbeat_record::{Distribution, RunFile, Series};

/// What the interval may leave out at each end.
const TAIL: f64 = 0.005;
/// Fewest pairs of an interval: all eight in one direction are less likely than 1 %.
pub const LEAST_PAIRS: usize = 8;
/// Percentiles that may be compared, the farthest out first.
const COMPARED_BY: [Share; 5] = [Share::P99_99, Share::P99_9, Share::P99, Share::P90, Share::P50];

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorthRequest {
    pub series: Series,
    /// The percentile; a lower one is taken where blocks have fewer than ten samples beyond it.
    pub at: Share,
}

impl Default for WorthRequest {
    fn default() -> Self {
        Self { series: Series::ReleaseLatency, at: Share::P99 }
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
    /// The percentile without the tuning, in nanoseconds: the median over the blocks.
    pub without_ns: f64,
    /// The percentile with it, in the same way.
    pub with_ns: f64,
    /// Pairs that were compared: of blocks, or of as many neighbours as the percentile takes.
    pub pairs: usize,
}

/// Why no interval can be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoWorth {
    /// Fewer than [`LEAST_PAIRS`] pairs of blocks.
    #[error("{pairs} pairs of blocks were measured and {LEAST_PAIRS} are needed; measure longer")]
    TooFewPairs {
        /// How many there are.
        pairs: usize,
    },
    /// Fewer than ten samples beyond even the median.
    #[error(
        "the shortest block has {samples} samples, fewer than 10 of them beyond the median; measure longer"
    )]
    TooFewSamples {
        /// Of the shortest block.
        samples: u64,
    },
}

/// Compares the blocks of two cells; blocks of the same index are a pair.
///
/// # Errors
/// [`NoWorth`].
pub fn of(without: &RunFile, with: &RunFile, request: WorthRequest) -> Result<Worth, NoWorth> {
    let of_block = |file: &RunFile, index: u32| file.distribution_in_block(request.series, index);
    let both =
        without.blocks.iter().map(|block| [without, with].map(|file| of_block(file, block.index)));
    let both: Vec<[Distribution; 2]> = both.collect();
    let longest = both.iter().flatten().map(Distribution::count).max().unwrap_or(0);

    // A block that a signal has ended early is not compared.
    let is_whole = |part: &Distribution| part.count() > 0 && part.count() >= longest / 2;
    let whole = both.into_iter().filter(|pair| pair.iter().all(is_whole));
    let (a, b): (Vec<_>, Vec<_>) = whole.map(|[a, b]| (a, b)).unzip();
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

    let without = &without[..pairs];
    let with = &with[..pairs];
    let samples = without.iter().chain(with).map(Distribution::count).min().unwrap_or(0);
    let most_together = (pairs / LEAST_PAIRS) as u64;
    let supported =
        |share: &Share| *share <= request.at && share.is_supported_by(samples * most_together);
    let share = std::iter::once(request.at)
        .chain(COMPARED_BY)
        .find(supported)
        .ok_or(NoWorth::TooFewSamples { samples })?;

    // As many neighbours together as the percentile takes.
    let together = (1..most_together).find(|n| share.is_supported_by(samples * n));
    let together = together.unwrap_or(most_together) as usize;
    let a = by_group(without, together, share);
    let b = by_group(with, together, share);
    let ratios: Vec<f64> = a.iter().zip(&b).map(|(without, with)| with - without).collect();
    let (ln_ratio, low, high) = hodges_lehmann(&ratios);

    Ok(Worth {
        percentile: share.label(),
        series: request.series,
        ratio: ln_ratio.exp(),
        low: low.exp(),
        high: high.exp(),
        without_ns: median(a).exp(),
        with_ns: median(b).exp(),
        pairs: ratios.len(),
    })
}

/// The logarithm of a percentile of each group of `together` blocks; a rest is added to the last
/// group.
fn by_group(blocks: &[Distribution], together: usize, share: Share) -> Vec<f64> {
    let groups = blocks.len() / together;
    let whole = Stretches::of_parts(blocks, 0);
    let group = |at: usize| {
        let until = if at + 1 == groups { blocks.len() } else { (at + 1) * together };
        whole.ln_percentile(share, &(at * together..until).collect::<Vec<_>>())
    };
    (0..groups).map(group).collect()
}

/// The middle one, or the mean of the two in the middle; NaN of nothing.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let n = values.len();
    if n == 0 { f64::NAN } else { f64::midpoint(values[(n - 1) / 2], values[n / 2]) }
}

/// The median of the means of all two values, a value with itself included, and its interval.
fn hodges_lehmann(values: &[f64]) -> (f64, f64, f64) {
    let with_later =
        |at: usize| values[at..].iter().map(move |later| f64::midpoint(values[at], *later));
    let mut means: Vec<f64> = (0..values.len()).flat_map(with_later).collect();
    means.sort_unstable_by(f64::total_cmp);

    let left_out = left_out(values.len());
    let low = means[left_out];
    let high = means[means.len() - 1 - left_out];
    (median(means), low, high)
}

/// How many of the sorted means are left out at each end of the interval: the largest rank sum that
/// Wilcoxon's statistic does not exceed with a probability of at most [`TAIL`].
fn left_out(pairs: usize) -> usize {
    let most = pairs * (pairs + 1) / 2;
    // The share of the 2^pairs choices of signs with each rank sum.
    let mut shares = vec![0.0; most + 1];
    shares[0] = 1.0;
    for rank in 1..=pairs {
        for sum in (0..=most).rev() {
            let with_it = if sum >= rank { shares[sum - rank] } else { 0.0 };
            shares[sum] = f64::midpoint(shares[sum], with_it);
        }
    }

    let mut up_to = 0.0;
    let exceeds = |share: &f64| {
        up_to += *share;
        up_to > TAIL
    };
    shares.iter().position(exceeds).unwrap_or(0).saturating_sub(1)
}

impl Worth {
    /// Whether the interval leaves out 1.
    #[must_use]
    pub fn is_visible(&self) -> bool {
        self.low > 1.0 || self.high < 1.0
    }

    /// PASS where the figure is lower with the tuning, FAIL where it is higher, INCONCLUSIVE where
    /// both fit.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self.is_visible() {
            false => Outcome::Inconclusive,
            true if self.high < 1.0 => Outcome::Pass,
            true => Outcome::Fail,
        }
    }

    /// Returns the result without the name of the tuning: `p99 3.1 [2.2, 4.0] times lower`.
    #[must_use]
    pub fn in_short(&self) -> String {
        let Self { percentile, .. } = self;
        if !self.is_visible() {
            let (low, high) = (ratio(self.low), ratio(self.high));
            return format!("undecided: {percentile} (x {low} to x {high})");
        }

        format!("{percentile} {}", self.times())
    }

    /// Returns the result as a sentence, with the tuning's name and both figures.
    #[must_use]
    pub fn sentence(&self, name: &str) -> String {
        let percentile = &self.percentile;
        let series = self.series.words();
        let [without, with] = [self.without_ns, self.with_ns].map(|ns| time(ns, Letters::Ascii));
        if !self.is_visible() {
            let (low, high) = (ratio(self.low), ratio(self.high));
            return format!(
                "{name}: undecided: {percentile} {series} {without} -> {with}, but the interval (x {low} to x {high}) includes 1; \
                 run longer"
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_leaves_out_as_many_means_as_the_tables_of_wilcoxon_say() {
        // Critical values of the signed-rank test, two-sided 1 %.
        for (pairs, critical) in [(8, 0), (9, 1), (10, 3), (12, 7), (16, 19), (20, 37)] {
            assert_eq!(left_out(pairs), critical, "{pairs} pairs");
        }
    }

    #[test]
    fn lower_passes_higher_fails_and_an_interval_around_one_is_inconclusive() {
        let of = |low: f64, high: f64| Worth {
            percentile: "p99".to_owned(),
            series: Series::ReleaseLatency,
            ratio: f64::midpoint(low, high),
            low,
            high,
            without_ns: 1.0,
            with_ns: 1.0,
            pairs: 8,
        };
        let outcomes = [of(0.3, 0.9), of(1.1, 2.0), of(0.9, 1.1), of(0.9, 1.0), of(1.0, 1.2)];
        assert_eq!(outcomes.map(|of| of.outcome().exit_status()), [0, 1, 3, 3, 3]);
    }

    #[test]
    fn one_disturbed_pair_moves_neither_the_estimate_nor_the_interval() {
        let mut values = vec![-1.0; 15];
        values.push(20.0);
        assert_eq!(hodges_lehmann(&values), (-1.0, -1.0, -1.0));
    }
}
