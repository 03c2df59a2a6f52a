//! Intervals of percentiles of one plain histogram, from ranks.
//!
//! Where a source counted into one histogram it does not tell when samples came: there are no
//! stretches to draw again. The rank of a percentile among n samples that come independently is
//! binomial, so that two order statistics around it are an interval that assumes nothing of their
//! distribution (David and Nagaraja, Order Statistics, 2003, section 7.1). Of a ratio, the interval is
//! put together from those of both (Donner and Zou, 2012: method of variance estimates recovery). That
//! samples come independently is an assumption, which every sentence with such an interval names.

use super::bootstrap::Z_97_5;
use super::statistics::Share;
use onbeat_record::Distribution;

/// What an interval from ranks rests on.
pub(super) const ASSUMPTION: &str = "taking samples to come independently, since one histogram does not tell when they came; in bursts, and where \
     the level drifts, these intervals are too narrow";

/// A percentile and the order statistics around it, as logarithms of nanoseconds. `low` and `high`
/// are at the outer ends of their buckets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ranked {
    pub(super) ln: f64,
    low: f64,
    high: f64,
}

impl Ranked {
    /// `None` where a rank is not among the samples.
    pub(super) fn new(counts: &Distribution, share: Share, max_ns: u64) -> Option<Self> {
        let n = counts.count();
        let at = share.percent() / 100.0;
        let apart = Z_97_5 * (n as f64 * at * (1.0 - at)).sqrt();
        let rank = share.rank_in(n);
        let (first, last) = ((rank as f64 - apart).floor(), (rank as f64 + apart).ceil());
        if first < 1.0 || last > n as f64 {
            return None;
        }

        let mut below = 0;
        let (mut low, mut value, mut high) = (None, None, None);
        for bucket in counts.buckets() {
            below += bucket.count;
            let end_ns = if max_ns > 0 { bucket.high_ns().min(max_ns) } else { bucket.high_ns() };
            if below as f64 >= first {
                // Neighbouring buckets touch: each reaches down to the end of the one before.
                low.get_or_insert(match bucket.width_ns {
                    0 | 1 => bucket.low_ns,
                    _ => bucket.low_ns.saturating_sub(1),
                });
            }
            if below >= rank {
                value.get_or_insert(end_ns);
            }
            if below as f64 >= last {
                high = Some(end_ns);
                break;
            }
        }
        let ln = |ns: u64| (ns.max(1) as f64).ln();
        Some(Self { ln: ln(value?), low: ln(low?), high: ln(high?) })
    }

    /// The 95 % interval around the logarithm of this one over another.
    pub(super) fn over(&self, base: &Self) -> (f64, f64) {
        let ratio = self.ln - base.ln;
        let down = (self.ln - self.low).hypot(base.high - base.ln);
        let up = (self.high - self.ln).hypot(base.ln - base.low);
        (ratio - down, ratio + up)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_record::Resolution;

    #[test]
    fn ranks_around_the_median_are_those_of_the_binomial() {
        // scipy.stats.binom.ppf([0.025, 0.975], 1000, 0.5): 469 and 531
        let counts = Distribution::from_values(1..=1_000);
        let median = Ranked::new(&counts, Share::P50, 0).expect("inside");
        let ns = [median.low, median.ln, median.high].map(|ln| ln.exp().round());
        assert_eq!(ns, [469.0, 500.0, 531.0]);
        assert_eq!(Ranked::new(&Distribution::from_values(1..=100), Share::P99, 0), None);
    }

    #[test]
    fn a_step_to_the_next_bucket_may_be_no_step() {
        let of = |ns: u64| {
            let counts = Distribution::from_values([ns; 1_000]).at(&Resolution::even(1_000));
            Ranked::new(&counts, Share::P50, 0).expect("inside")
        };
        let (low, high) = of(5_200).over(&of(4_700));
        assert!(low.abs() < 1e-12 && high > 0.3, "{low} to {high}");
    }

    #[test]
    fn the_interval_of_a_ratio_holds_for_independent_samples() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut run = |times: f64| {
            let values = (0..2_000).map(|_| (-random.f64().ln() * times * 1e4) as u64 + 1_000);
            Distribution::from_values(values)
        };
        let left_out = (0..400)
            .filter(|_| {
                let of = |run: &Distribution| Ranked::new(run, Share::P90, 0).expect("inside");
                let (low, high) = of(&run(1.0)).over(&of(&run(1.0)));
                low > 0.0 || high < 0.0
            })
            .count();
        assert!(left_out <= 28, "{left_out} of 400");
    }
}
