//! Percentiles of a distribution, point by point on the 1/(1-p) axis: every decade to the right is
//! one more nine.

use onbeat_record::Distribution;

use crate::statistics::LEAST_ABOVE;

/// Points in a decade.
const STEPS: i32 = 48;

/// A percentile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CurvePoint {
    /// 1/(1-p): 1 is the smallest sample, 1,000 is p99.9, the number of samples is the largest.
    pub x: f64,
    pub value_ns: u64,
    /// Whether at least ten samples are beyond it.
    pub supported: bool,
}

/// All percentiles of a series.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Curve {
    /// From the smallest sample to the largest.
    pub points: Vec<CurvePoint>,
}

/// The curve of a distribution whose largest value is known exactly; `None` without samples.
pub(super) fn curve(distribution: &Distribution, max_ns: u64) -> Option<Curve> {
    let count = distribution.count();
    if count == 0 {
        return None;
    }
    let mut buckets = distribution.buckets().iter();
    let mut bucket = buckets.next()?;
    let mut below = bucket.count;
    let mut points = Vec::new();
    let mut add = |x: f64, rank: u64| {
        while below < rank {
            let Some(next) = buckets.next() else { break };
            bucket = next;
            below += bucket.count;
        }
        let value_ns = if rank == count { max_ns } else { bucket.high_ns().min(max_ns) };
        points.push(CurvePoint { x, value_ns, supported: count - rank >= LEAST_ABOVE });
    };
    for step in 0.. {
        let x = 10_f64.powf(f64::from(step) / f64::from(STEPS));
        if x >= count as f64 {
            break;
        }
        let rank = ((1.0 - 1.0 / x) * count as f64).ceil() as u64;
        add(x, rank.clamp(1, count));
    }
    add(count as f64, count);
    Some(Curve { points })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_never_falls_and_ends_at_the_largest_value() {
        for n in [1_u64, 2, 9, 10, 11, 1_000, 20_000] {
            let values = || (1..=n).map(|i| i * 37 % 1_009 + i / 100);
            let max_ns = values().max().expect("there are some");
            let of = curve(&Distribution::from_values(values()), max_ns).expect("samples");

            assert!(of.points.windows(2).all(|two| two[0].x < two[1].x), "{n}");
            assert!(of.points.windows(2).all(|two| two[0].value_ns <= two[1].value_ns), "{n}");
            let last = of.points.last().expect("there is one");
            assert_eq!((last.value_ns, last.supported), (max_ns, false), "{n}");
        }
    }

    #[test]
    fn a_point_is_supported_while_ten_samples_are_beyond_it() {
        let of = curve(&Distribution::from_values(1..=1_000), 1_000).expect("samples");
        let border = of.points.iter().take_while(|point| point.supported).last().expect("some");
        assert!((90.0..=100.1).contains(&border.x), "p99 has ten samples beyond it: {}", border.x);
        let p50 = of.points.iter().find(|point| point.x >= 2.0).expect("it is there");
        let rank = ((1.0 - 1.0 / p50.x) * 1_000.0).ceil() as u64;
        assert_eq!(p50.value_ns, rank, "of 1 to 1,000, the value is the rank");
    }

    #[test]
    fn nothing_has_no_curve() {
        assert_eq!(curve(&Distribution::from_values([]), 0), None);
    }
}
