//! Percentiles of resampled stretches, for intervals around ratios of two recordings.
//!
//! Stretches (blocks, or intervals) and not samples are drawn with replacement, because
//! neighbouring samples share their disturbances. Neighbouring stretches share them too where the
//! level wanders: as many of them are drawn together as the data ask for (`alike`), and where they
//! ask for too many there is no interval. A percentile interval over few stretches is too
//! narrow, so it is widened as Hesterberg proposes (What Teachers Should Know About the Bootstrap,
//! 2015, section 3.2): by the bias of the variance and by Student's t.

use super::alike::Likeness;
use super::statistics::Share;
use onbeat_record::{Distribution, RunFile, Series};

/// From fewer stretches than this, how much they differ cannot be estimated.
pub(super) const LEAST_STRETCHES: usize = 4;
/// From so many runs of one side on each of them is a stretch. At three a side 96 to 97 % of intervals
/// hold (`tests/it/ratio_holds.rs`).
pub(super) const LEAST_RUNS: usize = 3;
/// More stretches than this are put together with their neighbours.
const MOST_STRETCHES: usize = 64;

/// A series of a recording, stretch by stretch.
pub(super) struct Stretches {
    /// Upper end of each bucket of any stretch, ascending, in nanoseconds.
    values_ns: Vec<u64>,
    /// Per bucket and, within it, per stretch: samples up to and with this bucket.
    up_to: Vec<u64>,
    stretches: usize,
    pub(super) samples: u64,
}

impl Stretches {
    /// `None` with fewer than [`LEAST_STRETCHES`].
    pub(super) fn from_file(file: &RunFile, series: Series) -> Option<Self> {
        let mut parts: Vec<Distribution> = file
            .blocks
            .iter()
            .map(|block| file.distribution_in_block(series, block.index))
            .filter(|part| part.count() > 0)
            .collect();
        if parts.len() < LEAST_STRETCHES {
            let entries = file.entries.iter().filter(|entry| entry.series == series);
            parts = entries.map(|entry| entry.counts.clone()).collect();
        }

        Self::of_enough(&parts, LEAST_STRETCHES, file.most_ns(series))
    }

    /// Each file a stretch. `None` with fewer than [`LEAST_RUNS`] that have the series.
    pub(super) fn from_runs(files: &[&RunFile], series: Series) -> Option<Self> {
        let of_files = files.iter().map(|file| file.distribution(series));
        let parts: Vec<Distribution> = of_files.filter(|part| part.count() > 0).collect();
        let max_ns = files.iter().map(|file| file.most_ns(series)).max().unwrap_or(0);
        // Where one of them states no maximum, the largest of the others is not that of all.
        let is_exact = files.iter().all(|file| {
            file.moments(series).n > 0 || file.entries.iter().all(|entry| entry.series != series)
        });
        Self::of_enough(&parts, LEAST_RUNS, if is_exact { max_ns } else { 0 })
    }

    fn of_enough(parts: &[Distribution], least: usize, max_ns: u64) -> Option<Self> {
        let together = parts.len().div_ceil(MOST_STRETCHES).max(1);
        let parts: Vec<Distribution> = parts.chunks(together).map(Distribution::merged).collect();
        (parts.len() >= least).then(|| Self::of_parts(&parts, max_ns))
    }

    pub(super) fn of_parts(parts: &[Distribution], max_ns: u64) -> Self {
        let whole = Distribution::merged(parts);
        let mut up_to = vec![0; whole.buckets().len() * parts.len()];
        for (stretch, part) in parts.iter().enumerate() {
            let mut buckets = part.buckets().iter().peekable();
            let mut below = 0;
            for (i, bucket) in whole.buckets().iter().enumerate() {
                if let Some(own) = buckets.next_if(|own| own.low_ns == bucket.low_ns) {
                    // oslat counts 2^32 gaps in three minutes.
                    below += own.count;
                }
                up_to[i * parts.len() + stretch] = below;
            }
        }

        let reported = |high_ns: u64| if max_ns > 0 { high_ns.min(max_ns) } else { high_ns };
        let values_ns =
            whole.buckets().iter().map(|bucket| reported(bucket.high_ns()).max(1)).collect();
        Self { values_ns, up_to, stretches: parts.len(), samples: whole.count() }
    }

    /// The logarithm of a percentile by nearest rank, of the stretches drawn.
    pub(super) fn ln_percentile(&self, share: Share, drawn: &[usize]) -> f64 {
        let count = |bucket: usize| -> u64 {
            let row = &self.up_to[bucket * self.stretches..(bucket + 1) * self.stretches];
            drawn.iter().map(|&stretch| row[stretch]).sum()
        };

        let last = self.values_ns.len() - 1;
        let rank = share.rank_in(count(last));
        let mut low = 0;
        let mut high = last;
        while low < high {
            let middle = low.midpoint(high);
            if count(middle) >= rank { high = middle } else { low = middle + 1 }
        }

        (self.values_ns[low] as f64).ln()
    }

    /// How long neighbouring stretches are alike at a percentile: of each, the part of its samples up
    /// to the percentile of all.
    fn likeness(&self, share: Share) -> Likeness {
        let buckets = self.values_ns.len();
        let all: Vec<usize> = (0..self.stretches).collect();
        let at = self
            .values_ns
            .partition_point(|ns| (*ns as f64).ln() < self.ln_percentile(share, &all));
        let row =
            |bucket: usize| &self.up_to[bucket * self.stretches..(bucket + 1) * self.stretches];
        let parts = row(at.min(buckets - 1)).iter().zip(row(buckets - 1));
        let parts: Vec<f64> =
            parts.map(|(up_to, all)| *up_to as f64 / (*all).max(1) as f64).collect();
        Likeness::of(&parts)
    }

    pub(super) fn ln_of_all(&self, share: Share) -> f64 {
        self.ln_percentile(share, &(0..self.stretches).collect::<Vec<_>>())
    }
}

/// A cell and its percentile, of the data and of many resamples, as logarithms.
pub(super) struct Drawn {
    pub(super) ln: f64,
    draws: Vec<f64>,
    /// How many stretches there are that do not share their disturbances.
    pub(super) independent: f64,
    /// Whether the level wanders so slowly that nothing can be said of it.
    pub(super) wanders: bool,
    /// The most degrees of freedom that the variance of the draws is taken to have.
    most_freedom: f64,
    /// By how much neighbours that were drawn singly are alike ([`Likeness::widening`]).
    alike: f64,
}

impl Drawn {
    pub(super) fn new(
        cell: &Stretches,
        share: Share,
        resamples: u32,
        random: &mut fastrand::Rng,
    ) -> Self {
        let Likeness { together, wanders, widening: alike } =
            cell.likeness(share).or(cell.likeness(Share::P50));
        let mut drawn = vec![0; cell.stretches];
        let draws = (0..resamples).map(|_| {
            // The end of the series is taken to be before its beginning.
            for row in drawn.chunks_mut(together) {
                let from = random.usize(..cell.stretches);
                row.iter_mut().enumerate().for_each(|(i, at)| *at = (from + i) % cell.stretches);
            }
            cell.ln_percentile(share, &drawn)
        });
        let independent = cell.stretches as f64 / together as f64;
        let most_freedom = if together > 1 { MOST_FREEDOM_TOGETHER } else { MOST_FREEDOM };
        let draws = draws.collect();
        Self { draws, ln: cell.ln_of_all(share), independent, wanders, most_freedom, alike }
    }

    /// The largest of several, draw by draw; `None` of none.
    pub(super) fn worst_of(all: &[Self]) -> Option<Self> {
        let draws = all.iter().map(|one| one.draws.len()).min()?;
        let worst =
            |of: &dyn Fn(&Self) -> f64| all.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
        Some(Self {
            ln: worst(&|one| one.ln),
            draws: (0..draws).map(|i| worst(&|one| one.draws[i])).collect(),
            independent: all.iter().map(|one| one.independent).fold(f64::INFINITY, f64::min),
            wanders: all.iter().any(|one| one.wanders),
            most_freedom: all.iter().map(|one| one.most_freedom).fold(MOST_FREEDOM, f64::min),
            alike: all.iter().map(|one| one.alike).fold(1.0, f64::max),
        })
    }

    /// Variance of the draws, corrected for what drawing from few loses.
    fn variance(&self) -> f64 {
        let n = self.draws.len() as f64;
        let mean = self.draws.iter().sum::<f64>() / n;
        let square = self.draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / n;
        square * self.independent / (self.independent - 1.0).max(1.0)
    }
}

/// The 95 % interval around `ln_ratio` of logarithms: the mean over pairs of the second over the
/// first. No bounds without draws, nor where the level of one of them wanders.
pub(super) fn interval(ln_ratio: f64, pairs: &[(&Drawn, &Drawn)]) -> (f64, f64) {
    let resamples = pairs.iter().map(|(a, _)| a.draws.len()).min().unwrap_or(0);
    let n = pairs.len() as f64;
    let mut ratios: Vec<f64> = (0..resamples)
        .map(|i| pairs.iter().map(|(a, b)| b.draws[i] - a.draws[i]).sum::<f64>() / n)
        .collect();
    ratios.sort_unstable_by(f64::total_cmp);
    if ratios.is_empty() || pairs.iter().any(|(a, b)| a.wanders || b.wanders) {
        return (f64::NEG_INFINITY, f64::INFINITY);
    }

    let at = |share: f64| ratios[((resamples - 1) as f64 * share).round() as usize];
    let wider = widening(pairs);
    (
        ln_ratio + (at(0.025) - ln_ratio).min(0.0) * wider,
        ln_ratio + (at(0.975) - ln_ratio).max(0.0) * wider,
    )
}

/// How alike stretches are is an estimate too: however many there are, the variance between them is
/// not known better than from so many independent ones.
const MOST_FREEDOM: f64 = 8.0;
/// Where they are drawn together, their number is estimated as well.
const MOST_FREEDOM_TOGETHER: f64 = 5.0;

/// By how much an interval of draws is too narrow: the bias of the variance, and Student's t with
/// the degrees of freedom of Welch and Satterthwaite.
fn widening(pairs: &[(&Drawn, &Drawn)]) -> f64 {
    let cells = || pairs.iter().flat_map(|&(a, b)| [a, b]);
    let fewest = cells().map(|cell| cell.independent).fold(f64::INFINITY, f64::min).max(2.0);
    let variance: f64 = cells().map(Drawn::variance).sum();
    let parts: f64 =
        cells().map(|cell| cell.variance().powi(2) / (cell.independent - 1.0).max(1.0)).sum();
    let freedom = if parts > 0.0 { variance * variance / parts } else { fewest - 1.0 };
    let freedom = cells().map(|cell| cell.most_freedom).fold(freedom, f64::min);
    let alike = cells().map(|cell| cell.alike).fold(1.0, f64::max);
    alike * (fewest / (fewest - 1.0)).sqrt() * student(Z_97_5, freedom) / Z_97_5
}

/// The 97.5 % point of the normal distribution.
pub(super) const Z_97_5: f64 = 1.959_963_984_540_054;

/// The point of Student's t where the normal distribution has `z`, within 1 % from 3 degrees of
/// freedom on at 97.5 % (Abramowitz and Stegun, 26.7.5).
pub(super) fn student(z: f64, freedom: f64) -> f64 {
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / freedom + second / freedom.powi(2) + third / freedom.powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn students_t_is_within_one_percent_of_its_table() {
        for (freedom, known) in
            [(3.0, 3.182), (5.0, 2.571), (11.0, 2.201), (30.0, 2.042), (1000.0, 1.962)]
        {
            let t = student(Z_97_5, freedom);
            assert!((t / known - 1.0).abs() < 0.01, "{freedom}: {t} instead of {known}");
        }
    }

    #[test]
    fn a_percentile_of_all_stretches_is_that_of_the_whole() {
        let parts = [1_u64, 1000, 5000].map(|from| Distribution::from_values(from..from + 200));
        let cell = Stretches::of_parts(&parts, 0);
        assert_eq!(cell.ln_of_all(Share::P50), 1099_f64.ln(), "the 300th of 600");
        assert_eq!(
            cell.ln_percentile(Share::P99, &[0, 0, 1]),
            1193_f64.ln(),
            "the 594th of 600, with block 0 twice"
        );
    }

    #[test]
    fn more_samples_than_32_bits_hold_are_counted() {
        let part = |_| {
            let mut counts = onbeat_record::empty_counts(Series::Gap);
            counts.record_n(100, 6 << 32).unwrap();
            counts.record_n(200, 4 << 32).unwrap();
            Distribution::from_histogram(&counts)
        };
        let cell = Stretches::of_parts(&[0, 1, 2].map(part), 0);
        assert_eq!(cell.ln_of_all(Share::P99), 200_f64.ln());
    }
}
