//! What a run shows of its outages.

use onbeat_record::OutageSums;

/// Equal batches of a run in which late releases are counted, at most.
pub const BATCHES: usize = 40;

/// Fewer batches say nothing of the variance between them.
const LEAST_BATCHES: usize = 10;

/// Late releases of a run: how many, in how many outages of which sizes, and where.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outages {
    /// Releases counted, late or not.
    pub releases: u64,
    /// Outages and their sizes.
    pub sums: OutageSums,
    /// Late releases in each of [`BATCHES`] equal batches, or in the half or the quarter of as many;
    /// empty when not known.
    pub batches: Vec<f64>,
}

impl Outages {
    /// Batch counts from stretches in a row, each with its releases and its late ones: a stretch
    /// that reaches into several batches counts in proportion. As many batches as there are
    /// stretches of that length; none with fewer than ten.
    #[must_use]
    pub fn batches_of(stretches: &[(u64, u64)]) -> Vec<f64> {
        let releases: u64 = stretches.iter().map(|(releases, _)| releases).sum();
        let known = stretches.iter().filter(|(releases, _)| *releases > 0).count();
        let fits = |batches: &usize| known >= *batches;
        let Some(batches) = [BATCHES, BATCHES / 2, LEAST_BATCHES].into_iter().find(fits) else {
            return Vec::new();
        };

        let length = releases as f64 / batches as f64;
        let mut counts = vec![0.0; batches];
        let mut from = 0.0;
        for &(of_stretch, late) in stretches.iter().filter(|(releases, _)| *releases > 0) {
            let to = from + of_stretch as f64;
            if late > 0 {
                let (first, last) = ((from / length) as usize, (to / length) as usize);
                for (batch, count) in counts.iter_mut().enumerate().take(last + 1).skip(first) {
                    let begin = (batch as f64 * length).max(from);
                    let end = ((batch + 1) as f64 * length).min(to);
                    *count += late as f64 * (end - begin).max(0.0) / of_stretch as f64;
                }
            }
            from = to;
        }

        counts
    }

    /// The smallest share of late releases in a twentieth of the run, or in a tenth where that is
    /// the finest; 0 where it is not known.
    pub(super) fn least_share(&self) -> f64 {
        let finest = self.batches.len();
        if self.releases > 0 && self.sums.late >= self.releases {
            return 1.0;
        }
        if finest < LEAST_BATCHES || self.releases == 0 {
            return 0.0;
        }

        let together = (finest / (BATCHES / 2)).max(1);
        let parts = finest / together;
        let fewest = self
            .batches
            .chunks_exact(together)
            .map(|part| part.iter().sum::<f64>())
            .fold(f64::INFINITY, f64::min);
        (fewest * parts as f64 / self.releases as f64).min(1.0)
    }

    /// The variance of the number of late releases in the whole run, estimated from 10, 20 and 40
    /// batches: each with its number of batches.
    pub(super) fn batch_variances(&self) -> impl Iterator<Item = (usize, f64)> {
        let finest = self.batches.len();
        [LEAST_BATCHES, BATCHES / 2, BATCHES]
            .into_iter()
            .filter(move |batches| *batches <= finest && finest.is_multiple_of(*batches))
            .map(move |batches| {
                let together = finest / batches;
                let counts =
                    self.batches.chunks_exact(together).map(|part| part.iter().sum::<f64>());
                let (mut sum, mut square) = (0.0, 0.0);
                for count in counts {
                    sum += count;
                    square += count * count;
                }
                let n = batches as f64;
                let variance = ((square - sum * sum / n) / (n - 1.0)).max(0.0);
                (batches, n * variance)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_divided_among_equal_batches_in_proportion() {
        let even = Outages::batches_of(&[(100, 1); 80]);
        assert_eq!((even.len(), even[0], even[39]), (40, 2.0, 2.0));
        let uneven: Vec<(u64, u64)> = (0..20).map(|i| (if i < 10 { 50 } else { 150 }, 3)).collect();
        let batches = Outages::batches_of(&uneven);
        assert_eq!(batches.len(), 20);
        assert!((batches[0] - 6.0).abs() < 1e-9 && (batches[19] - 2.0).abs() < 1e-9, "{batches:?}");
        assert!((batches.iter().sum::<f64>() - 60.0).abs() < 1e-9);
        assert!(Outages::batches_of(&[(100, 1); 9]).is_empty());
    }

    #[test]
    fn what_comes_in_one_batch_of_forty_varies_more_than_what_comes_in_all() {
        let of = |batches: Vec<f64>| {
            let outages = Outages { batches, ..Outages::default() };
            outages.batch_variances().map(|(_, variance)| variance).fold(0.0, f64::max)
        };
        let mut one = vec![0.0; 40];
        one[7] = 40.0;
        assert!(of(one) > 1_500.0);
        assert!(of(vec![1.0; 40]) < 1e-9);
    }
}
