//! A run compared with a normal distribution: its curve over the histogram, and its expected
//! maximum.
//!
//! Latency is not normal, and mean and standard deviation alone say nothing of its tail: the table
//! puts them beside the maximum and `(max − mean) / SD`, and the sentence says what a normal
//! distribution would have predicted.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

use super::statistics::Statistics;
use super::units::{Letters, count, percent, three_digits, time};
use onbeat_record::{Bucket, Distribution, Series};

/// Bins of a curve.
const BINS: usize = 64;
/// A maximum up to this many times as far out as a normal one is called normal.
const AS_FAR: f64 = 1.25;
/// Above this the tail is taken from its asymptotic series, below from the error function's own.
const FAR: f64 = 10.0;

/// A series compared with the normal distribution of the same mean and standard deviation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Normal {
    /// Number of samples.
    pub count: u64,
    /// Mean, in nanoseconds.
    pub mean_ns: f64,
    /// Standard deviation, in nanoseconds.
    pub sd_ns: f64,
    /// Largest sample, in nanoseconds.
    pub max_ns: u64,
    /// `(max − mean) / SD`.
    pub tail_ratio: f64,
    /// Value that the normal distribution exceeds once in as many samples, in nanoseconds.
    pub normal_max_ns: f64,
    /// That value as a tail ratio.
    pub normal_tail_ratio: f64,
    /// Decimal logarithm of the number of samples that the normal distribution would have at the
    /// maximum or beyond.
    pub log10_expected_beyond: f64,
    /// Fraction of samples within one standard deviation of the mean; 0.683 for a normal
    /// distribution.
    pub within_one_sd: f64,
    /// Histogram and normal distribution, bin by bin.
    pub curve: Curve,
    /// The result as a sentence.
    pub sentence: String,
}

/// A histogram in few bins of equal ratio, with what a normal distribution has in each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Bounds of the bins, in nanoseconds; one more than there are bins.
    pub from_ns: Vec<u64>,
    /// Samples per bin.
    pub count: Vec<u64>,
    /// Expected samples per bin of the normal distribution.
    pub normal: Vec<f64>,
}

/// Puts a series beside the normal distribution of its mean and standard deviation. `None` when all
/// samples are equal, or fewer than two.
#[must_use]
pub fn of(statistics: &Statistics, distribution: &Distribution, series: Series) -> Option<Normal> {
    let tail_ratio = statistics.tail_ratio?;
    let n = statistics.count as f64;
    let mean = statistics.mean_ns;
    let sd = statistics.sd_ns;
    let normal_tail_ratio = exceeded_once_in(n);
    let within = |bucket: &&Bucket| (bucket.middle_ns() - mean).abs() <= sd;
    let inside: u64 = distribution.buckets().iter().filter(within).map(|bucket| bucket.count).sum();
    let mut normal = Normal {
        count: statistics.count,
        mean_ns: mean,
        sd_ns: sd,
        max_ns: statistics.max_ns,
        tail_ratio,
        normal_max_ns: mean + normal_tail_ratio * sd,
        normal_tail_ratio,
        log10_expected_beyond: (n.ln() + ln_tail(tail_ratio)) / std::f64::consts::LN_10,
        within_one_sd: inside as f64 / distribution.count().max(1) as f64,
        curve: curve(distribution, mean, sd),
        sentence: String::new(),
    };

    normal.sentence = sentence(&normal, series);
    Some(normal)
}

fn curve(distribution: &Distribution, mean: f64, sd: f64) -> Curve {
    let (Some(first), Some(last)) = (distribution.buckets().first(), distribution.buckets().last())
    else {
        return Curve::default();
    };
    let low = first.low_ns.max(1) as f64;
    let high = (last.high_ns() + 1) as f64;
    let edge = |i: usize| low * (high / low).powf(i as f64 / BINS as f64);
    let mut from_ns: Vec<u64> = (0..=BINS).map(|i| edge(i).round() as u64).collect();
    from_ns.dedup();
    let mut counts = vec![0; from_ns.len().saturating_sub(1)];
    for bucket in distribution.buckets() {
        let bin = from_ns.partition_point(|from| *from as f64 <= bucket.middle_ns());
        if let Some(last) = counts.len().checked_sub(1) {
            counts[bin.saturating_sub(1).min(last)] += bucket.count;
        }
    }

    let n = distribution.count() as f64;
    let at = |ns: u64| (ns as f64 - mean) / sd;
    let between = |pair: &[u64]| n * chance(at(pair[0]), at(pair[1]));
    let normal = from_ns.windows(2).map(between).collect();
    Curve { from_ns, count: counts, normal }
}

/// The chance that a standard normal value lies between two others.
fn chance(low: f64, high: f64) -> f64 {
    // In the tail that is far from 0, so that small chances are not differences of numbers near 1.
    if low >= 0.0 {
        ln_tail(low).exp() - ln_tail(high).exp()
    } else {
        ln_tail(-high).exp() - ln_tail(-low).exp()
    }
}

/// The logarithm of the chance that a standard normal value is larger than `z`.
#[must_use]
pub fn ln_tail(z: f64) -> f64 {
    if z < 0.0 {
        return (-ln_tail(-z).exp()).ln_1p();
    }

    if z >= FAR {
        let square = z * z;
        // DLMF 7.12.1; at 10 the next term is below 1e-7.
        let series = 1.0 - (1.0 - (3.0 - (15.0 - 105.0 / square) / square) / square) / square;
        return -square / 2.0 - (z * (2.0 * PI).sqrt()).ln() + series.ln();
    }

    // The continued fraction of DLMF 7.9 near the far end, the power series of 7.6.2 near 0.
    if z < 2.0 {
        (0.5 - density(z) * power_series(z)).ln()
    } else {
        (density(z) * continued_fraction(z)).ln()
    }
}

fn density(z: f64) -> f64 {
    (-z * z / 2.0).exp() / (2.0 * PI).sqrt()
}

fn power_series(z: f64) -> f64 {
    let mut term = z;
    let mut sum = z;
    let mut k = 1.0;
    while term > 1e-17 * sum {
        k += 2.0;
        term *= z * z / k;
        sum += term;
    }

    sum
}

fn continued_fraction(z: f64) -> f64 {
    (1..=80).rev().fold(z, |below, k| z + f64::from(k) / below).recip()
}

/// How many standard deviations above its mean a normal distribution exceeds once in `n` samples.
pub(super) fn exceeded_once_in(n: f64) -> f64 {
    let wanted = -n.max(2.0).ln();
    let mut low = 0.0;
    let mut high = 40.0;
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if ln_tail(middle) > wanted { low = middle } else { high = middle }
    }

    f64::midpoint(low, high)
}

fn sentence(normal: &Normal, series: Series) -> String {
    let sds = |times: f64| format!("{} SD", three_digits(times));
    let samples = count(normal.count);
    if normal.tail_ratio <= AS_FAR * normal.normal_tail_ratio {
        return format!(
            "The largest {} is {} above the mean; for {samples} samples of a normal distribution, {} would be expected.",
            series.words(),
            sds(normal.tail_ratio),
            sds(normal.normal_tail_ratio)
        );
    }

    format!(
        "A normal distribution with this mean and SD would have a maximum of {} ({}) in {samples} samples; the largest {} \
         of the run is {} ({}), which {}. {} of the samples are within 1 SD of the mean (normal: 68.3 %).",
        time(normal.normal_max_ns, Letters::Ascii),
        sds(normal.normal_tail_ratio),
        series.words(),
        time(normal.max_ns as f64, Letters::Ascii),
        sds(normal.tail_ratio),
        how_often(normal.log10_expected_beyond),
        if normal.within_one_sd > 0.9995 {
            "More than 99.9 %".to_owned()
        } else {
            percent(normal.within_one_sd)
        }
    )
}

/// Expected occurrences per run of this length, from their decimal logarithm.
fn how_often(log10: f64) -> String {
    match -log10 {
        few if few < 0.0 => {
            format!("it reaches {} times in such a run", three_digits(10_f64.powf(log10)))
        }
        few if few < 6.0 => {
            format!("it reaches once in {} such runs", count(10_f64.powf(few).round() as u64))
        }
        _ => "a normal distribution practically never produces".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_record::Moments;

    fn beside(values: impl IntoIterator<Item = u64>) -> Normal {
        let values: Vec<u64> = values.into_iter().collect();
        let mut moments = Moments::default();
        values.iter().for_each(|&ns| moments.add(ns));
        let distribution = Distribution::from_values(values);
        let statistics = Statistics::new(&distribution, &moments).expect("samples");
        of(&statistics, &distribution, Series::WakeupLatency).expect("not all equal")
    }

    #[test]
    fn the_tail_is_that_of_the_tables() {
        // Abramowitz and Stegun (1964), tables 26.1 and 26.2.
        let known = [
            (0.0, 0.5),
            (1.0, 0.158_655_253_9),
            (3.0, 1.349_898_031_6e-3),
            (5.0, 2.866_515_718_8e-7),
        ];
        for (z, tail) in known {
            assert!((ln_tail(z).exp() / tail - 1.0).abs() < 1e-8, "{z}: {}", ln_tail(z).exp());
        }

        assert!((-ln_tail(500.0) / std::f64::consts::LN_10 - 54_289.908_30).abs() < 1e-4);
        assert!((ln_tail(FAR - 1e-12) - ln_tail(FAR)).abs() < 1e-5);
        assert!((ln_tail(-1.0).exp() - 0.841_344_746_1).abs() < 1e-9);
    }

    #[test]
    fn a_day_with_a_distant_maximum_is_described_in_words() {
        let normal = beside((0..100_000_u64).map(|i| 20_000 + i % 1_000).chain([3_000_000]));
        assert!(normal.tail_ratio > 300.0 && normal.log10_expected_beyond < -20_000.0);
        assert!(
            normal.sentence.contains("practically never produces. More than 99.9 % of the samples"),
            "{}",
            normal.sentence
        );
        assert!((4.2..4.3).contains(&normal.normal_tail_ratio), "{}", normal.normal_tail_ratio);
    }

    #[test]
    fn what_is_normal_is_not_called_otherwise() {
        // Sums of twelve uniform draws.
        let mut state = 1_u64;
        let mut draw = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state >> 40
        };

        let normal =
            beside((0..20_000).map(|_| 1_000_000 + (0..12).map(|_| draw() / 1024).sum::<u64>()));
        assert!(
            normal.sentence.starts_with("The largest wake-up latency is "),
            "{}",
            normal.sentence
        );
        assert!((normal.within_one_sd - 0.683).abs() < 0.02);
        let expected: f64 = normal.curve.normal.iter().sum();
        assert!(
            (expected / 20_000.0 - 1.0).abs() < 0.01,
            "the curve has as many samples: {expected}"
        );
        assert_eq!(normal.curve.count.iter().sum::<u64>(), 20_000);
        assert_eq!(normal.curve.from_ns.len(), normal.curve.count.len() + 1);
    }

    #[test]
    fn equal_samples_have_no_spread_to_compare() {
        let distribution = Distribution::from_values([5; 10]);
        let mut moments = Moments::default();
        (0..10).for_each(|_| moments.add(5));
        let statistics = Statistics::new(&distribution, &moments).expect("samples");
        assert_eq!(of(&statistics, &distribution, Series::WakeupLatency), None);
    }
}
