//! Exact count, extremes, mean and spread of a stream of figures, without keeping the figures.

use serde::{Deserialize, Serialize};

/// Count, extremes, mean and the sum of squared distances from the mean.
///
/// ```
/// use onbeat_record::Moments;
///
/// let mut latency = Moments::default();
/// [10, 20, 30].into_iter().for_each(|ns| latency.add(ns));
/// assert_eq!((latency.n, latency.min_ns, latency.max_ns, latency.mean_ns), (3, 10, 30, 20.0));
/// ```
///
/// Single values are added by Welford's recurrence (1962), whole sets by Chan, Golub and LeVeque's
/// pairwise formula (1979); both keep full precision where a plain sum of squares of nanoseconds
/// would not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    /// Number of samples.
    pub n: u64,
    /// Smallest, in nanoseconds; 0 without a sample.
    pub min_ns: u64,
    /// Largest, in nanoseconds; 0 without a sample.
    pub max_ns: u64,
    /// Mean, in nanoseconds; 0 without a sample.
    pub mean_ns: f64,
    /// Sum of squared distances from the mean, in ns²; moments of two sets merge exactly.
    pub m2: f64,
}

impl Moments {
    /// Adds one figure, in nanoseconds.
    #[inline]
    pub fn add(&mut self, ns: u64) {
        self.add_floored(ns, ns as f64);
    }

    /// Adds a figure that may be below 0: among the extremes it is then 0, `floor_ns`, in mean and
    /// spread itself.
    #[inline]
    pub(super) fn add_floored(&mut self, floor_ns: u64, ns: f64) {
        self.min_ns = if self.n == 0 { floor_ns } else { self.min_ns.min(floor_ns) };
        self.max_ns = self.max_ns.max(floor_ns);
        self.n += 1;
        // Welford (1962): sums of squares of 10^9 ns would lose a spread of nanoseconds in the
        // digits that a double has.
        let distance = ns - self.mean_ns;
        self.mean_ns += distance / self.n as f64;
        self.m2 += distance * (ns - self.mean_ns);
    }

    /// The moments of both sets together.
    #[must_use]
    pub fn merged(self, other: Self) -> Self {
        if self.n == 0 {
            return other;
        }
        if other.n == 0 {
            return self;
        }

        let n = self.n + other.n;
        let distance = other.mean_ns - self.mean_ns;
        // Chan, Golub and LeVeque (1979): two halves merge to the moments of the whole.
        let share = other.n as f64 / n as f64;
        Self {
            n,
            min_ns: self.min_ns.min(other.min_ns),
            max_ns: self.max_ns.max(other.max_ns),
            mean_ns: self.mean_ns + distance * share,
            m2: self.m2 + other.m2 + distance * distance * self.n as f64 * share,
        }
    }

    /// Standard deviation of the set itself (divided by n, not n − 1), in nanoseconds.
    #[must_use]
    pub fn sd_ns(&self) -> f64 {
        if self.n == 0 { 0.0 } else { (self.m2 / self.n as f64).sqrt() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Moments {
        let mut moments = Moments::default();
        values.iter().for_each(|&ns| moments.add(ns));
        moments
    }

    #[test]
    fn a_spread_of_nanoseconds_around_a_second_is_not_lost() {
        let values: Vec<u64> = (0..1000).map(|i| 1_000_000_000 + i % 2).collect();
        assert!((of(&values).sd_ns() - 0.5).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn two_halves_merge_to_the_whole(
            values in prop::collection::vec(0_u64..10_000_000_000, 1..300),
            cut in 0_usize..300,
        ) {
            let cut = cut.min(values.len());
            let merged = of(&values[..cut]).merged(of(&values[cut..]));
            let whole = of(&values);
            prop_assert_eq!((merged.n, merged.min_ns, merged.max_ns), (whole.n, whole.min_ns, whole.max_ns));
            prop_assert!((merged.mean_ns - whole.mean_ns).abs() <= 1e-6 * whole.mean_ns.max(1.0));
            prop_assert!((merged.sd_ns() - whole.sd_ns()).abs() <= 1e-6 * whole.sd_ns().max(1.0));
        }
    }
}
