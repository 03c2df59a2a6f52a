//! What each of P, M, C and S paid on its own.
//!
//! For a factor, every pair of cells that differs by this factor only (none and P, M and PM, …) gives a ratio of a percentile
//! of wake-up latency; the effect is the geometric mean of the ratios. How sure it is, is found by drawing each cell's
//! blocks anew with replacement (bootstrap): blocks and not samples, because neighbouring samples share their
//! disturbances. A percentile interval over few blocks is too narrow, so it is widened as Hesterberg proposes (What
//! Teachers Should Know About the Bootstrap, 2015, section 3.2): by the bias of the variance and by Student's t.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::statistics::Share;
use super::summary::cell_of;
use super::units::{Letters, listed, ratio, time};
use crate::record::{Distribution, RunFile, Series};

/// Percentiles that may be compared, the farthest out first.
const COMPARED_BY: [Share; 4] = [Share::P99_9, Share::P99, Share::P90, Share::P50];
/// Fewer stretches than this tell nothing about how much they differ.
const LEAST_STRETCHES: usize = 4;
/// More stretches than this are put together with their neighbours.
const MOST_STRETCHES: usize = 64;

/// What one factor paid under one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// `P`, `M`, `C` or `S`.
    pub factor: String,
    /// The load as typed.
    pub load: String,
    /// What was compared: `p99 wake-up latency`.
    pub metric: String,
    /// With the factor over without it: below 1 it pays.
    pub ratio: f64,
    /// Lower end of the 95 % interval of the ratio.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// All of it in words.
    pub sentence: String,
}

impl Effect {
    /// Whether the interval leaves out 1.
    #[must_use]
    pub fn is_visible(&self) -> bool {
        self.low > 1.0 || self.high < 1.0
    }
}

/// How intervals are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bootstrap {
    /// Where the draws start: the same seed gives the same intervals.
    pub seed: u64,
    /// How often blocks are drawn anew; at least 1,000 for ends that stay put.
    pub resamples: u32,
    /// The farthest percentile to compare; a lower one is taken where a cell has too few samples for it.
    pub at_most: Share,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Self { seed: 2009, resamples: 2000, at_most: Share::P99 }
    }
}

/// The effects of every factor that the files have pairs for, load by load.
///
/// A cell with fewer than four blocks is taken apart into its intervals instead; one with fewer than four of
/// these is in no pair.
#[must_use]
pub fn of(files: &[RunFile], loads: &[String], bootstrap: Bootstrap) -> Vec<Effect> {
    let mut effects = Vec::new();
    for (load, seed) in loads.iter().zip(bootstrap.seed..) {
        let cells: BTreeMap<Factors, Stretches> = files
            .iter()
            .filter_map(|file| {
                let cell = cell_of(file);
                (cell.load == *load).then_some(())?;
                Some((Factors::of(&cell.tuning)?, Stretches::of(file)?))
            })
            .collect();
        effects.extend(under_load(load, &cells, Bootstrap { seed, ..bootstrap }));
    }
    effects
}

/// All effects in one line per load.
#[must_use]
pub fn in_one_line(effects: &[Effect]) -> Vec<String> {
    let mut loads: Vec<&str> = effects.iter().map(|effect| effect.load.as_str()).collect();
    loads.dedup();
    let line = |load: &str| {
        let of_load: Vec<&Effect> = effects.iter().filter(|effect| effect.load == load).collect();
        let common = of_load.iter().all(|effect| effect.metric == of_load[0].metric).then(|| of_load[0].metric.clone());
        let each = of_load.iter().map(|effect| {
            let paid = if effect.is_visible() {
                format!("× {}", ratio(effect.ratio))
            } else {
                "no visible effect".to_owned()
            };
            let at = if common.is_some() { String::new() } else { format!(" ({})", effect.metric) };
            format!("{} {paid}{at}", effect.factor)
        });
        let each = listed(&each.collect::<Vec<_>>());
        let metric = common.as_deref().unwrap_or("wake-up latency");
        format!("Factor by factor, {metric} under {load}: {each}")
    };
    loads.into_iter().map(line).collect()
}

/// The letters of a tuning, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Factors(u32);

impl Factors {
    /// In the order they are told.
    const TOLD: &str = "PMCSABDEFGHIJKLNOQRTUVWXYZ";

    /// `None` when the name is no set of letters.
    fn of(tuning: &str) -> Option<Self> {
        if tuning == "none" {
            return Some(Self(0));
        }
        tuning.chars().try_fold(Self(0), |all, letter| Some(Self(all.0 | Self::bit(letter)?)))
    }

    fn bit(letter: char) -> Option<u32> {
        letter.is_ascii_uppercase().then(|| 1 << (letter as u32 - 'A' as u32))
    }
}

/// A cell's wake-up latencies, stretch by stretch.
struct Stretches {
    /// What each bucket of any stretch is told as, rising, in nanoseconds.
    values_ns: Vec<u64>,
    /// Per bucket and, within it, per stretch: samples up to and with this bucket.
    up_to: Vec<u32>,
    stretches: usize,
    samples: u64,
}

impl Stretches {
    /// `None` when there are too few.
    fn of(file: &RunFile) -> Option<Self> {
        let mut parts: Vec<Distribution> = file
            .blocks
            .iter()
            .map(|block| file.distribution_in_block(Series::WakeupLatency, block.index))
            .filter(|part| part.count() > 0)
            .collect();
        if parts.len() < LEAST_STRETCHES {
            let entries = file.entries.iter().filter(|entry| entry.series == Series::WakeupLatency);
            parts = entries.map(|entry| entry.counts.clone()).collect();
        }
        let together = parts.len().div_ceil(MOST_STRETCHES).max(1);
        let parts: Vec<Distribution> = parts.chunks(together).map(Distribution::merged).collect();
        (parts.len() >= LEAST_STRETCHES).then(|| Self::of_parts(&parts, file.moments(Series::WakeupLatency).max_ns))
    }

    fn of_parts(parts: &[Distribution], max_ns: u64) -> Self {
        let whole = Distribution::merged(parts);
        let mut up_to = vec![0; whole.buckets().len() * parts.len()];
        for (stretch, part) in parts.iter().enumerate() {
            let mut buckets = part.buckets().iter().peekable();
            let mut below = 0;
            for (i, bucket) in whole.buckets().iter().enumerate() {
                if let Some(own) = buckets.next_if(|own| own.low_ns == bucket.low_ns) {
                    below += u32::try_from(own.count).unwrap_or(u32::MAX);
                }
                up_to[i * parts.len() + stretch] = below;
            }
        }
        let told = |high_ns: u64| if max_ns > 0 { high_ns.min(max_ns) } else { high_ns };
        let values_ns = whole.buckets().iter().map(|bucket| told(bucket.high_ns()).max(1)).collect();
        Self { values_ns, up_to, stretches: parts.len(), samples: whole.count() }
    }

    /// The logarithm of a percentile by nearest rank, of the stretches drawn.
    fn ln_percentile(&self, share: Share, drawn: &[usize]) -> f64 {
        let count = |bucket: usize| -> u64 {
            let row = &self.up_to[bucket * self.stretches..(bucket + 1) * self.stretches];
            drawn.iter().map(|&stretch| u64::from(row[stretch])).sum()
        };
        let last = self.values_ns.len() - 1;
        let rank = share.of(count(last));
        let (mut low, mut high) = (0, last);
        while low < high {
            let middle = low.midpoint(high);
            if count(middle) >= rank { high = middle } else { low = middle + 1 }
        }
        (self.values_ns[low] as f64).ln()
    }

    fn ln_of_all(&self, share: Share) -> f64 {
        self.ln_percentile(share, &(0..self.stretches).collect::<Vec<_>>())
    }
}

/// Cells that differ by one factor only: without it, with it.
struct Pairs<'c> {
    factor: char,
    share: Share,
    pairs: Vec<(&'c Drawn, &'c Drawn)>,
}

/// A cell and its percentile, as it is and drawn anew many times, as logarithms.
struct Drawn {
    ln: f64,
    draws: Vec<f64>,
    stretches: usize,
}

impl Drawn {
    fn of(cell: &Stretches, share: Share, resamples: u32, random: &mut fastrand::Rng) -> Self {
        let mut drawn = vec![0; cell.stretches];
        let draws = (0..resamples).map(|_| {
            drawn.fill_with(|| random.usize(..cell.stretches));
            cell.ln_percentile(share, &drawn)
        });
        Self { draws: draws.collect(), ln: cell.ln_of_all(share), stretches: cell.stretches }
    }

    /// Variance of the draws, corrected for what drawing from few loses.
    fn variance(&self) -> f64 {
        let n = self.draws.len() as f64;
        let mean = self.draws.iter().sum::<f64>() / n;
        let square = self.draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / n;
        square * self.stretches as f64 / (self.stretches - 1) as f64
    }
}

/// What is to be compared for a factor.
struct Question {
    factor: char,
    share: Share,
    /// Without it, with it.
    pairs: Vec<(Factors, Factors)>,
}

impl Question {
    /// `None` when no two cells differ by the factor only, or they have too few samples even for the median.
    fn about(factor: char, cells: &BTreeMap<Factors, Stretches>, at_most: Share) -> Option<Self> {
        let bit = Factors::bit(factor)?;
        let without = cells.keys().filter(|factors| factors.0 & bit == 0);
        let pairs = without.map(|&Factors(bits)| (Factors(bits), Factors(bits | bit)));
        let pairs: Vec<(Factors, Factors)> = pairs.filter(|(_, with)| cells.contains_key(with)).collect();
        let fewest = pairs.iter().flat_map(|(a, b)| [cells[a].samples, cells[b].samples]).min()?;
        let supported = |share: &Share| *share <= at_most && share.is_supported_by(fewest);
        Some(Self { factor, share: COMPARED_BY.into_iter().find(supported)?, pairs })
    }
}

fn under_load(load: &str, cells: &BTreeMap<Factors, Stretches>, bootstrap: Bootstrap) -> Vec<Effect> {
    let mut random = fastrand::Rng::with_seed(bootstrap.seed);
    let questions: Vec<Question> =
        Factors::TOLD.chars().filter_map(|factor| Question::about(factor, cells, bootstrap.at_most)).collect();
    let mut drawn: BTreeMap<(Share, Factors), Drawn> = BTreeMap::new();
    for Question { share, pairs, .. } in &questions {
        for factors in pairs.iter().flat_map(|&(a, b)| [a, b]) {
            drawn
                .entry((*share, factors))
                .or_insert_with(|| Drawn::of(&cells[&factors], *share, bootstrap.resamples, &mut random));
        }
    }
    let effect = |Question { factor, share, pairs }: &Question| {
        let pairs = pairs.iter().map(|&(a, b)| (&drawn[&(*share, a)], &drawn[&(*share, b)])).collect();
        Pairs { factor: *factor, share: *share, pairs }.effect(load)
    };
    questions.iter().map(effect).collect()
}

impl Pairs<'_> {
    fn effect(&self, load: &str) -> Effect {
        let n = self.pairs.len() as f64;
        let mean = |of: &dyn Fn(&(&Drawn, &Drawn)) -> f64| self.pairs.iter().map(of).sum::<f64>() / n;
        let (without, with) = (mean(&|(without, _)| without.ln), mean(&|(_, with)| with.ln));
        let (low, high) = self.interval(with - without);
        let mut effect = Effect {
            factor: self.factor.to_string(),
            load: load.to_owned(),
            metric: format!("{} {}", self.share.label(), Series::WakeupLatency.words()),
            ratio: (with - without).exp(),
            low: low.exp(),
            high: high.exp(),
            sentence: String::new(),
        };
        effect.sentence = sentence(&effect, without.exp(), with.exp());
        effect
    }

    /// The 95 % interval around `ln_ratio`, of logarithms.
    fn interval(&self, ln_ratio: f64) -> (f64, f64) {
        let resamples = self.pairs.iter().map(|(a, _)| a.draws.len()).min().unwrap_or(0);
        let n = self.pairs.len() as f64;
        let mut ratios: Vec<f64> =
            (0..resamples).map(|i| self.pairs.iter().map(|(a, b)| b.draws[i] - a.draws[i]).sum::<f64>() / n).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        if ratios.is_empty() {
            return (f64::NEG_INFINITY, f64::INFINITY);
        }
        let at = |share: f64| ratios[((resamples - 1) as f64 * share).round() as usize];
        let wider = self.widening();
        (ln_ratio + (at(0.025) - ln_ratio).min(0.0) * wider, ln_ratio + (at(0.975) - ln_ratio).max(0.0) * wider)
    }

    /// By how much an interval of draws is too narrow: the bias of the variance, and Student's t with the degrees of
    /// freedom of Welch and Satterthwaite.
    fn widening(&self) -> f64 {
        let cells = || self.pairs.iter().flat_map(|&(a, b)| [a, b]);
        let fewest = cells().map(|cell| cell.stretches).min().unwrap_or(LEAST_STRETCHES) as f64;
        let variance: f64 = cells().map(Drawn::variance).sum();
        let parts: f64 = cells().map(|cell| cell.variance().powi(2) / (cell.stretches - 1) as f64).sum();
        let freedom = if parts > 0.0 { variance * variance / parts } else { fewest - 1.0 };
        (fewest / (fewest - 1.0)).sqrt() * t_97_5(freedom) / Z_97_5
    }
}

/// The 97.5 % point of the normal distribution.
const Z_97_5: f64 = 1.959_963_984_540_054;

/// The 97.5 % point of Student's t, within 1 % from 3 degrees of freedom on (Abramowitz and Stegun, 26.7.5).
fn t_97_5(freedom: f64) -> f64 {
    let z = Z_97_5;
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / freedom + second / freedom.powi(2) + third / freedom.powi(3)
}

fn sentence(effect: &Effect, without_ns: f64, with_ns: f64) -> String {
    let Effect { factor, metric, .. } = effect;
    let (times, low, high) = (ratio(effect.ratio), ratio(effect.low), ratio(effect.high));
    if !effect.is_visible() {
        return format!("{factor}: no visible effect on {metric} (× {times}, {low} to {high})");
    }
    let (from, to) = (time(without_ns, Letters::Ascii), time(with_ns, Letters::Ascii));
    let harm = if effect.ratio > 1.0 { "; it does harm here" } else { "" };
    format!("{factor}: {metric} × {times} ({low} to {high}), from {from} to {to}{harm}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn students_t_is_within_one_percent_of_its_table() {
        for (freedom, known) in [(3.0, 3.182), (5.0, 2.571), (11.0, 2.201), (30.0, 2.042), (1000.0, 1.962)] {
            let t = t_97_5(freedom);
            assert!((t / known - 1.0).abs() < 0.01, "{freedom}: {t} instead of {known}");
        }
    }

    #[test]
    fn a_percentile_of_all_stretches_is_that_of_the_whole() {
        let parts = [1_u64, 1000, 5000].map(|from| Distribution::of_values(from..from + 200));
        let cell = Stretches::of_parts(&parts, 0);
        assert_eq!(cell.ln_of_all(Share::P50), 1099_f64.ln(), "the 300th of 600");
        assert_eq!(cell.ln_percentile(Share::P99, &[0, 0, 1]), 1193_f64.ln(), "the 594th of 600, with block 0 twice");
    }

    #[test]
    fn a_tuning_is_a_set_of_letters() {
        assert_eq!(Factors::of("PM"), Factors::of("MP"));
        assert_eq!(Factors::of("none"), Some(Factors(0)));
        assert_eq!(Factors::of("P+x"), None);
    }
}
