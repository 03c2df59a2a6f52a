//! Buckets that grow by a constant factor, as Prometheus' native histograms and OpenTelemetry's exponential ones have them.
//!
//! The bucket of index i holds values above b^(i - 1) seconds, up to b^i, with b = 2^(2^-scale). A bucket of the
//! run that reaches over a boundary is counted above it.

use std::collections::BTreeMap;

use onbeat_record::Distribution;

/// Buckets grow by 2^(1/32), 2.2 %, at first.
const FINEST: i32 = 5;
/// From here on a factor of 65,536: times have at most four buckets.
const COARSEST: i32 = -4;
/// Largest value of the zero bucket: what a clock of nanoseconds cannot tell from 0.
const ZERO_NS: u64 = 1;
/// The same in seconds.
pub const ZERO_S: f64 = 1e-9;
/// Buckets that a histogram has at most, as in the clients of both systems.
pub const MOST_BUCKETS: usize = 160;

/// Counts by index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exponential {
    pub scale: i32,
    /// Samples of at most [`ZERO_S`].
    pub zeros: u64,
    pub counts: BTreeMap<i32, u64>,
}

impl Exponential {
    /// Counts samples at the finest scale at which at most [`MOST_BUCKETS`] have some.
    #[must_use]
    pub fn with_few_filled(samples: &Distribution) -> Self {
        Self::finest(samples, BTreeMap::len)
    }

    /// The same where empty buckets between filled ones count as well.
    #[must_use]
    pub fn with_narrow_span(samples: &Distribution) -> Self {
        Self::finest(samples, |counts| match (counts.first_key_value(), counts.last_key_value()) {
            (Some((first, _)), Some((last, _))) => first.abs_diff(*last) as usize + 1,
            _ => 0,
        })
    }

    fn finest(samples: &Distribution, size: impl Fn(&BTreeMap<i32, u64>) -> usize) -> Self {
        let mut scale = FINEST;
        loop {
            let found = Self::at(samples, scale);
            if size(&found.counts) <= MOST_BUCKETS || scale == COARSEST {
                return found;
            }
            scale -= 1;
        }
    }

    fn at(samples: &Distribution, scale: i32) -> Self {
        let mut found = Self { scale, zeros: 0, counts: BTreeMap::new() };
        for bucket in samples.buckets() {
            match bucket.high_ns() {
                ..=ZERO_NS => found.zeros += bucket.count,
                high => *found.counts.entry(index(high, scale)).or_default() += bucket.count,
            }
        }
        found
    }
}

fn index(ns: u64, scale: i32) -> i32 {
    ((ns as f64 / 1e9).log2() * f64::from(scale).exp2()).ceil() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upper_s(index: i32, scale: i32) -> f64 {
        (f64::from(index) * f64::from(-scale).exp2()).exp2()
    }

    #[test]
    fn a_bucket_holds_its_values() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            let most = 10_u64.pow(random.u32(1..12));
            let ns = random.u64(2..most);
            for scale in COARSEST..=FINEST {
                let index = index(ns, scale);
                let s = ns as f64 / 1e9;
                assert!(s <= upper_s(index, scale) * (1.0 + 1e-12), "{ns} ns, scale {scale}");
                assert!(s > upper_s(index - 1, scale) * (1.0 - 1e-12), "{ns} ns, scale {scale}");
            }
        }
    }

    #[test]
    fn every_sample_is_counted_in_few_buckets() {
        let mut random = fastrand::Rng::with_seed(8);
        for size in [0, 1, 10, 1_000, 20_000] {
            let samples: Vec<u64> =
                (0..size).map(|_| 10_u64.pow(random.u32(0..11)) + random.u64(0..9)).collect();
            let samples = Distribution::from_values(samples);
            for found in
                [Exponential::with_few_filled(&samples), Exponential::with_narrow_span(&samples)]
            {
                let all = found.zeros + found.counts.values().sum::<u64>();
                assert_eq!(all, samples.count());
                assert!(found.counts.len() <= MOST_BUCKETS, "{found:?}");
            }
            let narrow = Exponential::with_narrow_span(&samples).counts;
            let ends = narrow.first_key_value().zip(narrow.last_key_value());
            assert!(ends.is_none_or(|((first, _), (last, _))| last - first < MOST_BUCKETS as i32));
        }
    }
}
