//! The rule: which rates of late releases fit what was seen, when lateness comes in outages.
//!
//! Late releases are a compound Poisson process: outages come independently of each other, each with
//! its size. The rate has the gamma bounds of Fay and Feuer (1997) for a weighted sum of Poisson
//! variables, with three guards (docs/verdict.md):
//!
//! * the variance is that of whole stretches where these differ more than outages explain;
//! * the size of the next outage is taken to be larger than the largest one seen;
//! * while few outages were seen, the size of one that was not seen yet is taken to be `unseen`.
//!
//! A run that is late from its beginning to its end is one outage, which alone proves nothing. That a
//! part of it has more than twice the rate late happens in at most every second part (Markov); in all
//! of twenty it does not: half of the share of the best part is a lower bound as well.
//!
//! Where late releases come singly the bounds are those of a Poisson count.

use super::outages::Outages;
use super::quantile::{chi_square, normal, student};
use onbeat_record::OutageSums;

/// Significance level of a verdict on one run, each way: 5 %.
pub const LEVEL: f64 = 0.05;

/// Mean size that an outage not seen yet is taken to have, in releases.
pub const UNSEEN: f64 = 100.0;

/// More times as long than this is not estimated.
pub const MOST_TIMES_LONGER: f64 = 30.0;

/// The smallest and the largest rate that fit what was seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The smallest.
    pub lower: f64,
    /// The largest.
    pub upper: f64,
}

/// How a rate is judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// The rate that is allowed.
    pub allowed: f64,
    /// Probability of a wrong PASS at the allowed rate, and of a wrong FAIL.
    pub level: f64,
    /// Mean size that an outage not seen yet is taken to have, in releases.
    pub unseen: f64,
}

/// Which side of the allowed rate the bounds are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// All that fits is at most the allowed rate.
    Within,
    /// All that fits is more.
    Beyond,
    /// Both fit.
    Either,
}

impl Rule {
    /// One run that is looked at once.
    #[must_use]
    pub const fn new(allowed: f64) -> Self {
        Self { allowed, level: LEVEL, unseen: UNSEEN }
    }

    /// The level shared by as many verdicts, so that with this probability none of them is wrong.
    #[must_use]
    pub fn shared_by(self, verdicts: usize) -> Self {
        Self { level: self.level / verdicts.max(1) as f64, ..self }
    }

    /// With another assumption on outages not seen yet.
    #[must_use]
    pub const fn with_unseen(self, unseen: f64) -> Self {
        Self { unseen, ..self }
    }

    /// The rates that fit what was seen, at this level each way.
    #[must_use]
    pub fn bounds(&self, seen: &Outages) -> Bounds {
        self.bounds_of(&self.sums(seen))
    }

    /// On which side of the allowed rate they are.
    #[must_use]
    pub fn side(&self, seen: &Outages) -> Side {
        self.side_of(&self.sums(seen))
    }

    /// How many times as long a run decides, if it goes on as it went: an estimate, the smallest of
    /// a geometric grid. `None` beyond [`MOST_TIMES_LONGER`], except with no late release, when the
    /// time for a PASS is known.
    #[must_use]
    pub fn times_longer(&self, seen: &Outages) -> Option<f64> {
        let sums = self.sums(seen);
        if sums.late == 0.0 && sums.releases > 0.0 {
            return Some((self.bounds_of(&sums).upper / self.allowed).max(1.0));
        }

        let decides = |times: &f64| self.side_of(&sums.times(*times)) != Side::Either;
        (0..=70)
            .map(|step| 1.05_f64.powi(step))
            .filter(|times| *times <= MOST_TIMES_LONGER)
            .find(decides)
    }

    /// How many releases with none late suffice to show that the rate is at most the allowed one.
    #[must_use]
    pub fn releases_with_none_late(&self) -> u64 {
        let unseen = self.unseen.max(1.0);
        (unseen * chi_square(1.0 - self.level, 1.0) / self.allowed).ceil() as u64
    }

    /// How many releases suffice when so many of them will have been late, each by itself.
    #[must_use]
    pub fn releases_with(&self, late: u64) -> u64 {
        if late == 0 {
            return self.releases_with_none_late();
        }

        let sums = OutageSums { outages: late, late, squares: late, largest: 1 };
        let shows = |releases: u64| {
            let seen = Outages { releases, sums, ..Outages::default() };
            self.side(&seen) == Side::Within
        };
        let (mut few, mut many) = (late, late * 2);
        while !shows(many) {
            (few, many) = (many, many.saturating_mul(2));
        }
        while few + 1 < many {
            let middle = few + (many - few) / 2;
            if shows(middle) { many = middle } else { few = middle }
        }

        many
    }

    fn side_of(&self, sums: &Sums) -> Side {
        let Bounds { lower, upper } = self.bounds_of(sums);
        if lower > self.allowed {
            Side::Beyond
        } else if upper <= self.allowed {
            Side::Within
        } else {
            Side::Either
        }
    }

    fn sums(&self, seen: &Outages) -> Sums {
        let late = seen.sums.late as f64;
        let squares = (seen.sums.squares as f64).max(late);
        let largest_variance = seen
            .batch_variances()
            .map(|(batches, variance)| variance * self.widening(batches))
            .fold(squares, f64::max);
        Sums {
            releases: seen.releases as f64,
            late,
            squares,
            variance: largest_variance,
            outages: seen.sums.outages as f64,
            largest: seen.sums.largest as f64,
            throughout: seen.least_share() / 2.0,
        }
    }

    /// A variance from few batches is uncertain itself: Student's t instead of the normal, squared.
    fn widening(&self, batches: usize) -> f64 {
        let p = 1.0 - self.level.max(0.005);
        (student(p, (batches - 1) as f64) / normal(p)).powi(2)
    }

    fn bounds_of(&self, sums: &Sums) -> Bounds {
        let Sums { releases, late, variance, .. } = *sums;
        if releases <= 0.0 {
            return Bounds { lower: 0.0, upper: 1.0 };
        }

        let (mean, square) = self.next_outage(sums);
        let (with_next, its_variance) = (late + mean, variance + square);
        let freedom = 2.0 * with_next * with_next / its_variance;
        let upper = its_variance / (2.0 * with_next) * chi_square(1.0 - self.level, freedom);
        let lower = if late > 0.0 {
            variance / (2.0 * late) * chi_square(self.level, 2.0 * late * late / variance)
        } else {
            0.0
        };
        let lower = (lower / releases).max(sums.throughout);
        Bounds { lower: lower.min(1.0), upper: (upper / releases).clamp(lower.min(1.0), 1.0) }
    }

    /// Mean and second moment of an outage that was not seen yet.
    fn next_outage(&self, sums: &Sums) -> (f64, f64) {
        let Sums { late, squares, variance, outages, largest, .. } = *sums;
        let strictness = (-self.level.ln() / 3.0).max(1.0);
        let mut size = 1.0_f64;
        if late > 0.0 {
            size = size.max(largest * (1.0 + 1.25 * strictness * largest * largest / squares));
        }
        if variance > 1.5 * squares {
            size = size.max(variance / late);
        }

        let floor = self.unseen / (1.0 + (outages / (6.0 * strictness)).powi(4));
        (size.max(floor), (size * size).max(2.0 * floor * floor))
    }
}

/// What the bounds are computed from.
#[derive(Clone, Copy)]
struct Sums {
    releases: f64,
    late: f64,
    /// Of the sizes of outages.
    squares: f64,
    /// Of the number of late releases: the largest at any scale.
    variance: f64,
    outages: f64,
    largest: f64,
    /// A rate that was exceeded in every part of the run.
    throughout: f64,
}

impl Sums {
    /// Of a run so many times as long that goes on as this one; its largest outage stays.
    const fn times(self, times: f64) -> Self {
        Self {
            releases: self.releases * times,
            late: self.late * times,
            squares: self.squares * times,
            variance: self.variance * times,
            outages: self.outages * times,
            largest: self.largest,
            throughout: self.throughout,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(releases: u64, sizes: &[u64]) -> Outages {
        let mut sums = OutageSums::default();
        sizes.iter().for_each(|&size| sums.add(size));
        Outages { releases, sums, ..Outages::default() }
    }

    /// The exact ones are those of Clopper and Pearson (1934), from the regularised incomplete beta
    /// function in thirty digits.
    #[test]
    fn single_late_releases_have_nearly_the_exact_bounds() {
        let rule = Rule::new(0.01);
        let exact = [
            (60, 0.002_393_283_375_100_12, 0.003_718_142_871_227_66),
            (200, 0.008_870_843_751_112_64, 0.011_236_711_362_695_7),
            (1_000, 0.047_488_627_198_932_1, 0.052_608_731_246_580_1),
        ];
        for (late, exact_lower, exact_upper) in exact {
            let Bounds { lower, upper } = rule.bounds(&seen(20_000, &vec![1; late]));
            assert!((upper / exact_upper - 1.0).abs() < 0.02, "{late}: {upper}");
            assert!((lower / exact_lower - 1.0).abs() < 0.02, "{late}: {lower}");
        }
    }

    #[test]
    fn without_a_late_release_the_bound_is_the_assumed_size_times_chi_square() {
        let rule = Rule::new(0.01);
        let known = 3.841_458_820_694_124;
        for unseen in [100.0, 20.0, 1.0] {
            let upper = rule.with_unseen(unseen).bounds(&seen(50_000, &[])).upper;
            assert!((upper - unseen * known / 50_000.0).abs() < 1e-9, "{unseen}: {upper}");
        }
        assert_eq!(rule.releases_with_none_late(), 38_415);
        assert_eq!(rule.side(&seen(38_415, &[])), Side::Within);
        assert_eq!(rule.side(&seen(38_414, &[])), Side::Either);
        assert!((rule.times_longer(&seen(10_000, &[])).expect("known") - 3.8415).abs() < 1e-3);
    }

    #[test]
    fn two_long_outages_decide_nothing_where_as_many_single_ones_do() {
        let rule = Rule::new(0.01);
        assert_eq!(rule.side(&seen(100_000, &[200, 200])), Side::Either, "0.4 % in two outages");
        assert_eq!(rule.side(&seen(100_000, &vec![1; 400])), Side::Within);
        assert_eq!(rule.side(&seen(20_000, &[400, 400])), Side::Either, "4 % in two");
        assert_eq!(rule.side(&seen(20_000, &vec![1; 800])), Side::Beyond);
    }

    #[test]
    fn what_is_late_all_the_time_is_beyond_the_limit_though_it_is_one_outage() {
        let rule = Rule::new(0.01).shared_by(100);
        let one = |late: u64, batches: Vec<f64>| Outages { batches, ..seen(20_000, &[late]) };
        assert_eq!(rule.side(&one(20_000, vec![500.0; 40])), Side::Beyond);
        assert_eq!(rule.side(&one(20_000, Vec::new())), Side::Beyond, "it is not known when");
        let mut with_a_pause = vec![512.0; 40];
        (with_a_pause[20], with_a_pause[21]) = (0.0, 0.0);
        assert_eq!(
            rule.side(&one(38 * 512, with_a_pause)),
            Side::Either,
            "late nearly all the time"
        );
    }

    #[test]
    fn a_shared_level_widens_both_bounds() {
        let rule = Rule::new(0.01);
        let of = |rule: Rule| rule.bounds(&seen(20_000, &vec![1; 100]));
        let (alone, shared) = (of(rule), of(rule.shared_by(9)));
        assert!(shared.upper > alone.upper && shared.lower < alone.lower);
    }
}
