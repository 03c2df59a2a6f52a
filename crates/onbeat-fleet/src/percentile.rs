//! Percentiles by rank, of buckets: whole numbers only, so that SQL finds the same ones.

use onbeat_record::Distribution;

/// Returns the largest value of the bucket that holds the sample of rank ⌈n · of / out_of⌉; 0 without samples.
///
/// The query of `percentiles.sql` does the same with buckets of many runs together.
pub(crate) fn by_rank(all: &Distribution, of: u64, out_of: u64) -> u64 {
    let wanted = u128::from(all.count()) * u128::from(of);
    let mut so_far = 0_u128;
    for bucket in all.buckets() {
        so_far += u128::from(bucket.count);
        if so_far * u128::from(out_of) >= wanted {
            return bucket.high_ns();
        }
    }
    0
}

/// Returns 1,000,000 · ln(ns), rounded; 0 for 0 and 1 ns.
pub(crate) fn ln_millionths(ns: u64) -> i64 {
    ((ns.max(1) as f64).ln() * 1e6).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_sample_that_so_many_are_not_above() {
        let all = Distribution::from_values(1..=1_000);
        assert_eq!(
            (by_rank(&all, 50, 100), by_rank(&all, 999, 1_000), by_rank(&all, 9_999, 10_000)),
            (500, 999, 1_000)
        );
        assert_eq!(by_rank(&Distribution::from_values([7]), 50, 100), 7);
        assert_eq!(by_rank(&Distribution::default(), 50, 100), 0);
    }

    #[test]
    fn logarithms_are_whole_numbers() {
        assert_eq!(
            (ln_millionths(0), ln_millionths(1), ln_millionths(100_000)),
            (0, 0, 11_512_925)
        );
    }
}
