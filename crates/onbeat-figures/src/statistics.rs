//! The figures of one series: extremes, spread, lowest shares and percentiles, each with whether
//! the samples carry it.

use serde::{Deserialize, Serialize};

use onbeat_record::{Bucket, Distribution, Moments};

/// Samples that must be above a figure for it to be supported.
pub const LEAST_ABOVE: u64 = 10;

/// A share of all samples, exact to a thousandth of a percent.
///
/// ```
/// use onbeat_figures::Share;
///
/// assert_eq!(Share::P99_99.rank_in(600_000), 599_940);
/// assert!(Share::P99.is_supported_by(1_000) && !Share::P99_9.is_supported_by(1_000));
/// ```
///
/// Held as parts of 100,000, so that "99.99 % of 600,000" is 599,940 and not one more by a rounding
/// of binary fractions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share(u32);

impl Share {
    /// 50 %.
    pub const P50: Self = Self(50_000);
    /// 90 %.
    pub const P90: Self = Self(90_000);
    /// 99 %.
    pub const P99: Self = Self(99_000);
    /// 99.9 %.
    pub const P99_9: Self = Self(99_900);
    /// 99.99 %.
    pub const P99_99: Self = Self(99_990);
    /// 99.999 %.
    pub const P99_999: Self = Self(99_999);
    /// All.
    pub const ALL: Self = Self(100_000);

    /// The rows of the Low tables (Yoon, Song and Lee, 2009, figures 7 and 8).
    pub const LOW: [Self; 5] = [Self::P99, Self::P99_9, Self::P99_99, Self::P99_999, Self::ALL];
    /// The percentiles of a summary.
    pub const PERCENTILES: [Self; 6] =
        [Self::P50, Self::P90, Self::P99, Self::P99_9, Self::P99_99, Self::P99_999];

    /// How many of `n` samples it takes to have at least this share: `ceil(share · n)`.
    #[must_use]
    pub const fn rank_in(self, n: u64) -> u64 {
        let parts = self.0 as u128 * n as u128;
        parts.div_ceil(100_000) as u64
    }

    /// Whether at least [`LEAST_ABOVE`] of `n` samples are above it.
    #[must_use]
    pub const fn is_supported_by(self, n: u64) -> bool {
        n - self.rank_in(n) >= LEAST_ABOVE
    }

    /// The share nearest to a percentage of 0 to 100.
    #[must_use]
    pub fn from_percent(percent: f64) -> Self {
        Self((percent.clamp(0.0, 100.0) * 1000.0).round() as u32)
    }

    /// In percent.
    #[must_use]
    pub fn percent(self) -> f64 {
        f64::from(self.0) / 1000.0
    }

    /// `p99.9`.
    #[must_use]
    pub fn label(self) -> String {
        format!("p{}", self.percent())
    }

    /// Whether it is this percentage, as far as a binary fraction can tell.
    #[must_use]
    pub fn is(self, percent: f64) -> bool {
        (self.percent() - percent).abs() < 1e-6
    }
}

/// Statistics over the lowest share of the sorted samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Low {
    /// Percentage.
    pub q: f64,
    /// Number of its samples: `ceil(q/100 · n)`.
    pub count: u64,
    /// Their largest, in nanoseconds; equal to the percentile `q` by nearest rank.
    pub max_ns: u64,
    /// Their mean, in nanoseconds.
    pub mean_ns: f64,
    /// Their standard deviation (divided by n), in nanoseconds.
    pub sd_ns: f64,
    /// Whether at least ten samples are beyond it; always for 100 %.
    pub supported: bool,
}

/// The smallest value that at least `p` percent of the samples do not exceed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentile {
    /// Percentage.
    pub p: f64,
    /// Largest value of the bucket that it falls into, in nanoseconds; never above the maximum.
    pub value_ns: u64,
    /// Whether at least ten samples are beyond it. Show it: an unsupported figure is not a
    /// measurement.
    pub supported: bool,
}

/// The figures of one series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// Number of samples.
    pub count: u64,
    /// Smallest, in nanoseconds.
    pub min_ns: u64,
    /// Mean, in nanoseconds.
    pub mean_ns: f64,
    /// Standard deviation of the samples themselves (divided by n), in nanoseconds.
    pub sd_ns: f64,
    /// Largest, in nanoseconds.
    pub max_ns: u64,
    /// Peak to peak: `max_ns − min_ns`.
    pub jitter_ns: u64,
    /// `(max − mean) / SD`; `None` if all samples are equal.
    pub tail_ratio: Option<f64>,
    /// Figures of the lowest 99, 99.9, 99.99, 99.999 and 100 % of the samples.
    pub low: Vec<Low>,
    /// Percentiles 50, 90, 99, 99.9, 99.99 and 99.999.
    pub percentiles: Vec<Percentile>,
    /// Whether extremes, mean and standard deviation are those of histogram buckets, because the
    /// exact moments do not cover all samples, or contradict themselves: the file was cut off or is
    /// damaged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub from_buckets: bool,
}

impl Statistics {
    /// Whether the source counted its samples. Of one that states extremes without a count, one sample
    /// stands for all; one sample alone has a single value.
    #[must_use]
    pub const fn is_counted(&self) -> bool {
        self.count > 1 || self.from_buckets || self.min_ns == self.max_ns
    }

    /// The figures of a distribution; `None` when it holds no sample.
    ///
    /// `moments` are taken for extremes, mean and spread when they are of the same samples;
    /// otherwise these come from the buckets' bounds and middles, and [`Statistics::from_buckets`]
    /// says so.
    #[must_use]
    pub fn new(distribution: &Distribution, moments: &Moments) -> Option<Self> {
        let first = distribution.buckets().first()?;
        let last = distribution.buckets().last()?;
        let count = distribution.count();
        // A damaged or made-up file can state a smallest sample above the largest.
        let from_buckets = moments.n != count || moments.min_ns > moments.max_ns;
        let whole = if from_buckets {
            let spread = Spread::of_lowest(distribution.buckets(), count);
            Moments {
                n: count,
                min_ns: first.low_ns,
                max_ns: last.high_ns(),
                mean_ns: spread.mean,
                m2: spread.m2,
            }
        } else {
            *moments
        };

        let sd_ns = whole.sd_ns();
        Some(Self {
            count,
            min_ns: whole.min_ns,
            mean_ns: whole.mean_ns,
            sd_ns,
            max_ns: whole.max_ns,
            jitter_ns: whole.max_ns - whole.min_ns,
            tail_ratio: (sd_ns > 0.0).then(|| (whole.max_ns as f64 - whole.mean_ns) / sd_ns),
            low: Share::LOW.map(|share| Low::new(share, distribution.buckets(), &whole)).to_vec(),
            percentiles: Share::PERCENTILES
                .map(|share| Percentile::new(share, distribution.buckets(), &whole))
                .to_vec(),
            from_buckets,
        })
    }

    /// A percentile, when it is among those of a summary.
    #[must_use]
    pub fn percentile(&self, share: Share) -> Option<Percentile> {
        self.percentiles.iter().copied().find(|percentile| share.is(percentile.p))
    }

    /// A Low row, when it is among those of a summary.
    #[must_use]
    pub fn low(&self, share: Share) -> Option<Low> {
        self.low.iter().copied().find(|row| share.is(row.q))
    }
}

impl Low {
    fn new(share: Share, buckets: &[Bucket], whole: &Moments) -> Self {
        let count = share.rank_in(whole.n);
        let supported = share == Share::ALL || share.is_supported_by(whole.n);
        let q = share.percent();
        if count == whole.n {
            let Moments { max_ns, mean_ns, .. } = *whole;
            return Self { q, count, max_ns, mean_ns, sd_ns: whole.sd_ns(), supported };
        }

        let spread = Spread::of_lowest(buckets, count);
        let sd_ns = (spread.m2 / spread.n).sqrt();
        let max_ns = value_at_rank(buckets, count, whole);
        Self { q, count, max_ns, mean_ns: spread.mean, sd_ns, supported }
    }
}

impl Percentile {
    fn new(share: Share, buckets: &[Bucket], whole: &Moments) -> Self {
        let value_ns = value_at_rank(buckets, share.rank_in(whole.n), whole);
        Self { p: share.percent(), value_ns, supported: share.is_supported_by(whole.n) }
    }
}

/// The value of a rank, from 1 to n: that of the last rank is the maximum itself, even beyond the
/// histogram's range.
fn value_at_rank(buckets: &[Bucket], rank: u64, whole: &Moments) -> u64 {
    if rank >= whole.n {
        return whole.max_ns;
    }

    let mut below = 0;
    let reached = buckets.iter().find(|bucket| {
        below += bucket.count;
        below >= rank
    });

    reached.map_or(whole.max_ns, |bucket| bucket.high_ns().min(whole.max_ns))
}

/// Mean and sum of squared distances from it, of bucket middles.
#[derive(Default)]
struct Spread {
    n: f64,
    mean: f64,
    m2: f64,
}

impl Spread {
    /// Of the lowest `count` samples; the bucket that holds the boundary is taken in part.
    fn of_lowest(buckets: &[Bucket], count: u64) -> Self {
        let mut all = Self::default();
        let mut left = count;
        for bucket in buckets {
            let taken = bucket.count.min(left);
            if taken == 0 {
                break;
            }
            all.add(taken as f64, bucket.middle_ns());
            left -= taken;
        }

        all
    }

    /// Adds `n` equal values (Chan, Golub and LeVeque, 1979).
    fn add(&mut self, n: f64, value: f64) {
        let distance = value - self.mean;
        let together = self.n + n;
        self.m2 += distance * distance * self.n * n / together;
        self.mean += distance * n / together;
        self.n = together;
    }
}
