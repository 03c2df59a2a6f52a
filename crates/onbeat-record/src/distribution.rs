//! Counts per bucket, as read back from run files: small, sorted, and added up without loss.

use std::sync::Arc;

use hdrhistogram::{Counter, Histogram};

use super::histogram::Bucket;
use super::payload::{Encoded, PayloadError};
use super::resolution::Resolution;

/// Most samples of a run file: figures beyond are not exact as a 64-bit float, and no loop takes so many.
pub(super) const MOST_SAMPLES: u64 = 1 << 53;

/// How samples are distributed: buckets with samples, in rising order.
///
/// ```
/// use onbeat_record::Distribution;
///
/// let parts = [Distribution::from_values([10, 20]), Distribution::from_values([20, 30])];
/// let all = Distribution::merged(&parts);
/// assert_eq!((all.count(), all.count_above(15)), (4, 3));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// Shared by clones: in most intervals, wake-up latency has the same as release latency.
    buckets: Arc<[Bucket]>,
    count: u64,
}

/// A distribution in the making: buckets in rising order.
#[derive(Default)]
struct Rising {
    buckets: Vec<Bucket>,
    count: u64,
}

impl Rising {
    /// Adds a bucket that is not below the last one.
    fn push(&mut self, bucket: Bucket) {
        self.count += bucket.count;
        match self.buckets.last_mut() {
            Some(last) if last.low_ns == bucket.low_ns => last.count += bucket.count,
            _ => self.buckets.push(bucket),
        }
    }

    fn done(self) -> Distribution {
        Distribution { buckets: self.buckets.into(), count: self.count }
    }
}

impl Distribution {
    /// The buckets with samples of a histogram.
    #[must_use]
    pub fn from_histogram<T: Counter>(counts: &Histogram<T>) -> Self {
        Self::of(counts.iter_recorded().map(|step| {
            let low_ns = counts.lowest_equivalent(step.value_iterated_to());
            Bucket {
                low_ns,
                width_ns: counts.equivalent_range(low_ns),
                count: step.count_since_last_iteration(),
            }
        }))
    }

    /// Of buckets in rising order.
    fn of(buckets: impl IntoIterator<Item = Bucket>) -> Self {
        let mut all = Rising::default();
        buckets.into_iter().for_each(|bucket| all.push(bucket));
        all.done()
    }

    /// The buckets with samples of an encoded histogram. Memory is that of the filled buckets.
    pub(super) fn from_encoded(
        encoded: &Encoded<'_>,
        highest_ns: u64,
    ) -> Result<Self, PayloadError> {
        let mut all = Rising::default();
        let mut beyond = None;
        encoded.counts(|index, count| match encoded.scale.bucket(index) {
            // Counts above 2^53 are no longer exact in JSON and in the page's numbers, and no run
            // of this world has them.
            Some(bucket) if bucket.low_ns <= highest_ns && count <= MOST_SAMPLES - all.count => {
                all.push(Bucket { count, ..bucket });
            }
            _ => {
                beyond.get_or_insert(PayloadError::Count { index, value: count.cast_signed() });
            }
        })?;
        beyond.map_or_else(|| Ok(all.done()), Err)
    }

    /// A distribution of exact values, for what was never in a histogram.
    #[must_use]
    pub fn from_values(values_ns: impl IntoIterator<Item = u64>) -> Self {
        let mut values: Vec<u64> = values_ns.into_iter().collect();
        values.sort_unstable();
        Self::of(values.into_iter().map(|low_ns| Bucket { low_ns, width_ns: 1, count: 1 }))
    }

    /// The same samples in the cells of a source that counted more coarsely.
    #[must_use]
    pub fn at(self, resolution: &Resolution) -> Self {
        let mut buckets: Vec<Bucket> =
            self.buckets.iter().map(|line| resolution.bucket(*line)).collect();
        buckets.sort_unstable_by_key(|bucket| bucket.low_ns);
        Self::of(buckets)
    }

    /// How many samples lie in a bucket that holds `limit_ns` and larger values: their side of the
    /// limit is not known.
    #[must_use]
    pub fn count_astride(&self, limit_ns: u64) -> u64 {
        let is_astride =
            |bucket: &&Bucket| bucket.low_ns <= limit_ns && limit_ns < bucket.high_ns();
        self.buckets.iter().filter(is_astride).map(|bucket| bucket.count).sum()
    }

    /// Number of samples.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The buckets with samples, in rising order.
    #[must_use]
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// All given distributions together.
    #[must_use]
    pub fn merged<'d>(parts: impl IntoIterator<Item = &'d Self>) -> Self {
        let parts: Vec<&Self> = parts.into_iter().collect();
        Self::merged_halves(&parts)
    }

    /// Two by two, as equal buckets then become one early: a day's intervals hold the same buckets
    /// again and again.
    fn merged_halves(parts: &[&Self]) -> Self {
        match parts {
            [] => Self::default(),
            [one] => (*one).clone(),
            [a, b] => a.with(b),
            more => {
                // In halves: merging one after the other would copy the growing sum once for each
                // part.
                let (first, second) = more.split_at(more.len() / 2);
                Self::merged_halves(first).with(&Self::merged_halves(second))
            }
        }
    }

    fn with(&self, other: &Self) -> Self {
        let mut both = Rising {
            // Histograms of neighbouring intervals share most of their buckets.
            buckets: Vec::with_capacity(self.buckets.len().max(other.buckets.len()) * 5 / 4),
            count: 0,
        };
        let mut mine = self.buckets.iter().peekable();
        let mut others = other.buckets.iter().peekable();
        while let Some(&next) = match (mine.peek(), others.peek()) {
            (Some(a), Some(b)) if b.low_ns < a.low_ns => others.next(),
            (Some(_), _) => mine.next(),
            (None, _) => others.next(),
        } {
            both.push(next);
        }

        both.done()
    }

    /// What is left without the samples of `part`, which are among these.
    #[must_use]
    pub(super) fn without(&self, part: &Self) -> Self {
        let mut left = Rising::default();
        let mut taken = part.buckets.iter().peekable();
        for bucket in &*self.buckets {
            while taken.next_if(|other| other.low_ns < bucket.low_ns).is_some() {}
            let gone =
                taken.next_if(|other| other.low_ns == bucket.low_ns).map_or(0, |other| other.count);
            if bucket.count > gone {
                left.push(Bucket { count: bucket.count - gone, ..*bucket });
            }
        }

        left.done()
    }

    /// How many samples are larger than `limit_ns`, a bucket that holds the limit counting by its
    /// middle.
    #[must_use]
    pub fn count_above(&self, limit_ns: u64) -> u64 {
        self.buckets
            .iter()
            // A bucket across the limit is decided by its middle, and `count_astride` says how much
            // that concerns.
            .filter(|bucket| bucket.middle_ns() > limit_ns as f64)
            .map(|bucket| bucket.count)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_clone_takes_no_memory_of_its_own() {
        let all = Distribution::from_values([10, 20]);
        let same = Distribution::merged([&all]);
        assert!(std::ptr::eq(all.buckets(), same.buckets()));
    }

    proptest! {
        #[test]
        fn parts_add_up_to_the_whole(values in prop::collection::vec(1_u64..10_000_000, 0..300), cut in 0_usize..300) {
            let cut = cut.min(values.len());
            let parts = [
                Distribution::from_values(values[..cut].iter().copied()),
                Distribution::from_values(values[cut..].iter().copied()),
            ];
            prop_assert_eq!(Distribution::merged(&parts), Distribution::from_values(values));
        }

        #[test]
        fn a_histogram_read_back_holds_every_sample_in_its_bucket(
            values in prop::collection::vec(1_u64..10_000_000_000, 1..200),
        ) {
            let mut counts = crate::empty_counts(crate::Series::WakeupLatency);
            values.iter().for_each(|&value| counts.record(value).unwrap());
            let all = Distribution::from_histogram(&counts);
            prop_assert_eq!(all.count(), values.len() as u64);
            for bucket in all.buckets() {
                let within = values.iter().filter(|&&v| (bucket.low_ns..=bucket.high_ns()).contains(&v)).count();
                prop_assert_eq!(within as u64, bucket.count);
            }
        }
    }
}
