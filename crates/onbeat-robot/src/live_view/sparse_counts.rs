//! Counts of durations in the buckets of an HdrHistogram with three significant digits.

use std::collections::BTreeMap;

/// Buckets of one width: 2 × 10^3, up to the next power of two, halved.
const HALF: u64 = 1024;
const HALF_BITS: u32 = 10;

/// A histogram with its filled buckets alone, and its exact largest value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SparseCounts {
    counts: BTreeMap<u32, u64>,
    /// Largest value, in ns; 0 without a value.
    pub largest_ns: u64,
    /// Cycle of the largest value.
    pub at_cycle: u64,
}

impl SparseCounts {
    /// Counts a value of a cycle.
    pub(super) fn add(&mut self, value_ns: u64, cycle: u64) {
        *self.counts.entry(bucket(value_ns)).or_default() += 1;
        if value_ns > self.largest_ns {
            (self.largest_ns, self.at_cycle) = (value_ns, cycle);
        }
    }

    /// Adds all values of another histogram.
    pub(super) fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.counts {
            *self.counts.entry(*bucket).or_default() += count;
        }
        if other.largest_ns > self.largest_ns {
            (self.largest_ns, self.at_cycle) = (other.largest_ns, other.at_cycle);
        }
    }

    /// Forgets all values.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the filled buckets in ascending order: index, count.
    pub(super) fn filled(&self) -> impl Iterator<Item = (u32, u64)> {
        self.counts.iter().map(|(bucket, count)| (*bucket, *count))
    }
}

/// Index of the bucket of a value, as HdrHistogram counts them.
const fn bucket(value: u64) -> u32 {
    if value < 2 * HALF {
        return value as u32;
    }
    let doublings = value.ilog2() - HALF_BITS;
    // The index is below 56 × 1024.
    ((doublings + 1) << HALF_BITS) + ((value >> doublings) - HALF) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Smallest value of a bucket, as the page computes it.
    fn low(index: u32) -> u64 {
        match index >> HALF_BITS {
            0 => u64::from(index),
            doublings => (u64::from(index) % HALF + HALF) << (doublings - 1),
        }
    }

    #[test]
    fn every_value_is_in_the_bucket_that_begins_at_or_below_it() {
        for value in
            (0..5_000).chain((5..60).flat_map(|bits| [(1 << bits) - 1, 1 << bits, 3 << bits]))
        {
            let index = bucket(value);
            assert!(low(index) <= value && value < low(index + 1), "{value} in {index}");
        }
    }

    #[test]
    fn a_merged_histogram_has_all_counts_and_the_largest_value_with_its_cycle() {
        let (mut all, mut more) = (SparseCounts::default(), SparseCounts::default());
        [(1_000, 1), (5_000, 2), (1_000, 3)]
            .iter()
            .for_each(|(value, cycle)| all.add(*value, *cycle));
        [(9_000, 4), (1_000, 5)].iter().for_each(|(value, cycle)| more.add(*value, *cycle));
        all.merge(&more);
        let counts: Vec<u64> = all.filled().map(|(_, count)| count).collect();
        assert_eq!(counts, [3, 1, 1]);
        assert_eq!((all.largest_ns, all.at_cycle), (9_000, 4));
    }
}
