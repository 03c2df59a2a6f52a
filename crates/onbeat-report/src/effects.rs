//! The effect of each of P, M, C and S, and of each id, on its own.
//!
//! For a factor, every pair of cells that differs by this factor only (none and P, M and PM, …)
//! gives a ratio of a percentile of release latency; the effect is the geometric mean of the
//! ratios. How sure it is, is found by resampling each cell's blocks with replacement
//! (`bootstrap`).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::bootstrap::{Drawn, Stretches, interval};
use super::file_facts::cell_of;
use super::statistics::Share;
use super::units::{Letters, listed, ratio, time, under};
use onbeat_record::{RunFile, Series};

/// Percentiles that may be compared, the farthest out first.
const COMPARED_BY: [Share; 4] = [Share::P99_9, Share::P99, Share::P90, Share::P50];

/// Effect of one tuning under one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// `P`, `M`, `C`, `S`, or the id of a tuning such as `irq.affinity`.
    pub factor: String,
    /// The load as typed.
    pub load: String,
    /// What was compared: `p99 release latency`.
    pub metric: String,
    /// Percentile with the tuning over that without it; below 1 the tuning helps.
    pub ratio: f64,
    /// Lower end of the 95 % interval of the ratio.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// The result as a sentence.
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
    /// Number of resamples; at least 1,000 for stable ends.
    pub resamples: u32,
    /// The farthest percentile to compare; a lower one is taken where a cell has fewer than ten
    /// samples beyond it.
    pub at_most: Share,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Self { seed: 2009, resamples: 2000, at_most: Share::P99 }
    }
}

/// The effects of every factor that the files have pairs for, load by load.
///
/// A cell with fewer than four blocks is taken apart into its intervals instead; one with fewer
/// than four of these is in no pair.
#[must_use]
pub fn of<'r>(
    files: impl IntoIterator<Item = &'r RunFile>,
    loads: &[String],
    bootstrap: Bootstrap,
) -> Vec<Effect> {
    let files: Vec<&RunFile> = files.into_iter().collect();
    let mut effects = Vec::new();
    for (load, seed) in loads.iter().zip(bootstrap.seed..) {
        let cells: BTreeMap<Factors, Stretches> = files
            .iter()
            .filter_map(|file| {
                let cell = cell_of(file);
                (cell.load == *load).then_some(())?;
                Some((
                    Factors::from_name(&cell.tuning)?,
                    Stretches::from_file(file, Series::ReleaseLatency)?,
                ))
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
        let common = of_load
            .iter()
            .all(|effect| effect.metric == of_load[0].metric)
            .then(|| of_load[0].metric.clone());
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
        let metric = common.as_deref().unwrap_or("release latency");
        format!("Effect of each tuning on {metric} {}: {each}", under(load))
    };

    loads.into_iter().map(line).collect()
}

/// What a tuning is made of: letters, one bit each, and names of settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Factors {
    letters: u32,
    names: BTreeSet<String>,
}

impl Factors {
    /// The order in which effects are listed; names of settings follow.
    const ORDER: &str = "PMCSABDEFGHIJKLNOQRTUVWXYZ";

    /// `None` when a part of the tuning is empty.
    fn from_name(tuning: &str) -> Option<Self> {
        let mut factors = Self::default();
        for part in tuning.split('+').filter(|part| *part != "none") {
            match part.chars().try_fold(0, |all, letter| Some(all | Self::bit(letter)?)) {
                Some(0) => return None,
                Some(letters) => factors.letters |= letters,
                None => _ = factors.names.insert(part.to_owned()),
            }
        }
        Some(factors)
    }

    fn bit(letter: char) -> Option<u32> {
        letter.is_ascii_uppercase().then(|| 1 << (letter as u32 - 'A' as u32))
    }

    /// The factors of several tunings, in the order in which effects are listed.
    fn listed<'f>(all: impl Iterator<Item = &'f Self>) -> Vec<String> {
        let mut any = Self::default();
        for tuning in all {
            any.letters |= tuning.letters;
            any.names.extend(tuning.names.iter().cloned());
        }

        let is_any = |letter: &char| Self::bit(*letter).is_some_and(|bit| any.letters & bit != 0);
        let letters = Self::ORDER.chars().filter(is_any).map(String::from);
        letters.chain(any.names.iter().cloned()).collect()
    }

    /// The same with one factor more; `None` when it has that already.
    fn with(&self, factor: &str) -> Option<Self> {
        let mut more = self.clone();
        match factor.chars().next().and_then(Self::bit) {
            Some(bit) if factor.len() == 1 => more.letters |= bit,
            _ => _ = more.names.insert(factor.to_owned()),
        }
        (more != *self).then_some(more)
    }
}

/// The pairs of cells that differ by one factor.
struct FactorComparison {
    factor: String,
    share: Share,
    /// Without it, with it.
    pairs: Vec<(Factors, Factors)>,
}

impl FactorComparison {
    /// `None` when no two cells differ by the factor only, or fewer than ten of their samples
    /// lie beyond even the median.
    fn new(factor: String, cells: &BTreeMap<Factors, Stretches>, at_most: Share) -> Option<Self> {
        let pairs =
            cells.keys().filter_map(|without| Some((without.clone(), without.with(&factor)?)));
        let pairs: Vec<(Factors, Factors)> =
            pairs.filter(|(_, with)| cells.contains_key(with)).collect();
        let fewest = pairs.iter().flat_map(|(a, b)| [cells[a].samples, cells[b].samples]).min()?;
        let supported = |share: &Share| *share <= at_most && share.is_supported_by(fewest);

        Some(Self { factor, share: COMPARED_BY.into_iter().find(supported)?, pairs })
    }

    /// The effect under a load, by what was drawn of the pairs.
    fn effect(&self, load: &str, pairs: &[(&Drawn, &Drawn)]) -> Effect {
        let n = pairs.len() as f64;
        let mean = |of: &dyn Fn(&(&Drawn, &Drawn)) -> f64| pairs.iter().map(of).sum::<f64>() / n;
        let without = mean(&|(without, _)| without.ln);
        let with = mean(&|(_, with)| with.ln);
        let (low, high) = interval(with - without, pairs);
        let mut effect = Effect {
            factor: self.factor.clone(),
            load: load.to_owned(),
            metric: format!("{} {}", self.share.label(), Series::ReleaseLatency.words()),
            ratio: (with - without).exp(),
            low: low.exp(),
            high: high.exp(),
            sentence: String::new(),
        };

        effect.sentence = sentence(&effect, without.exp(), with.exp());
        effect
    }
}

fn under_load(
    load: &str,
    cells: &BTreeMap<Factors, Stretches>,
    bootstrap: Bootstrap,
) -> Vec<Effect> {
    let mut random = fastrand::Rng::with_seed(bootstrap.seed);
    let questions: Vec<FactorComparison> = Factors::listed(cells.keys())
        .into_iter()
        .filter_map(|factor| FactorComparison::new(factor, cells, bootstrap.at_most))
        .collect();
    let mut drawn: BTreeMap<(Share, Factors), Drawn> = BTreeMap::new();
    for FactorComparison { share, pairs, .. } in &questions {
        for factors in pairs.iter().flat_map(|(a, b)| [a, b]) {
            drawn.entry((*share, factors.clone())).or_insert_with(|| {
                Drawn::new(&cells[factors], *share, bootstrap.resamples, &mut random)
            });
        }
    }

    let effect = |asked: &FactorComparison| {
        let of = |factors: &Factors| &drawn[&(asked.share, factors.clone())];
        let pairs: Vec<_> = asked.pairs.iter().map(|(a, b)| (of(a), of(b))).collect();
        asked.effect(load, &pairs)
    };

    questions.iter().map(effect).collect()
}

fn sentence(effect: &Effect, without_ns: f64, with_ns: f64) -> String {
    let Effect { factor, metric, .. } = effect;
    let times = ratio(effect.ratio);
    let low = ratio(effect.low);
    let high = ratio(effect.high);
    if !effect.is_visible() {
        return format!("{factor}: no visible effect on {metric} (× {times}, {low} to {high})");
    }

    let from = time(without_ns, Letters::Ascii);
    let to = time(with_ns, Letters::Ascii);
    let harm = if effect.ratio > 1.0 { "; longer with it" } else { "" };
    format!("{factor}: {metric} × {times} ({low} to {high}), from {from} to {to}{harm}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tuning_is_a_set_of_letters_and_names() {
        let of = |tuning: &str| Factors::from_name(tuning).unwrap();
        assert_eq!(of("PM"), of("MP"));
        assert_eq!(of("none"), Factors::default());
        assert_eq!(of("P+irq.affinity+plan"), of("P+plan+irq.affinity"));
        assert_eq!(of("none").with("irq.affinity"), Some(of("irq.affinity")));
        assert_eq!(of("P").with("M"), Some(of("PM")));
        assert_eq!((of("P").with("P"), Factors::from_name("P+")), (None, None));

        let all = [of("S+plan"), of("PM+irq.affinity")];
        assert_eq!(Factors::listed(all.iter()), ["P", "M", "S", "irq.affinity", "plan"]);
    }
}
