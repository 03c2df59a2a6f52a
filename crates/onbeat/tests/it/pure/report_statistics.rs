//! The figures of a series: against a brute-force computation, and against numbers worked out by
//! hand.

use onbeat::record::{Distribution, Moments, Series, empty_counts};
use onbeat_report::{Share, Statistics};
use proptest::prelude::*;

fn moments_of(values: &[u64]) -> Moments {
    let mut moments = Moments::default();
    values.iter().for_each(|&ns| moments.add(ns));
    moments
}

fn counted(series: Series, values: &[u64]) -> Distribution {
    let mut counts = empty_counts(series);
    values.iter().for_each(|&ns| counts.record(ns).unwrap());
    Distribution::from_histogram(&counts)
}

fn statistics(values: &[u64]) -> Statistics {
    Statistics::new(&counted(Series::WakeupLatency, values), &moments_of(values)).unwrap()
}

/// Mean and standard deviation, the slow way.
fn mean_and_sd(sorted: &[u64]) -> (f64, f64) {
    let n = sorted.len() as f64;
    let mean = sorted.iter().map(|&ns| ns as f64).sum::<f64>() / n;
    let square = sorted.iter().map(|&ns| (ns as f64 - mean).powi(2)).sum::<f64>() / n;
    (mean, square.sqrt())
}

fn is_close(a: f64, b: f64, relative: f64) -> bool {
    (a - b).abs() <= relative * b.abs().max(1.0)
}

#[test]
fn moments_that_contradict_themselves_are_not_believed() {
    let values = [10, 20, 30];
    let moments = Moments { min_ns: 40, ..moments_of(&values) };
    let figures = Statistics::new(&counted(Series::WakeupLatency, &values), &moments).unwrap();
    assert!(figures.from_buckets);
    assert_eq!((figures.min_ns, figures.max_ns, figures.jitter_ns), (10, 30, 20));
}

#[test]
fn the_numbers_from_one_to_a_thousand_have_the_figures_of_the_text_books() {
    let figures = statistics(&(1..=1000).collect::<Vec<_>>());
    assert_eq!(
        (figures.count, figures.min_ns, figures.max_ns, figures.jitter_ns),
        (1000, 1, 1000, 999)
    );
    assert!(is_close(figures.mean_ns, 500.5, 1e-12));
    assert!(is_close(figures.sd_ns, 288.674_990_257, 1e-10), "sqrt((n² − 1) / 12)");
    assert!(
        is_close(figures.tail_ratio.unwrap(), 1.730_319_621_9, 1e-10),
        "(1000 − 500.5) / 288.675"
    );
    let low = figures.low(Share::P99).unwrap();

    assert_eq!((low.count, low.max_ns, low.supported), (990, 990, true));
    assert!(is_close(low.mean_ns, 495.5, 1e-12) && is_close(low.sd_ns, 285.788_237_453, 1e-9));
    let low = figures.low(Share::P99_9).unwrap();
    assert_eq!((low.count, low.max_ns, low.supported), (999, 999, false), "one above");
    assert!(is_close(low.mean_ns, 500.0, 1e-12) && is_close(low.sd_ns, 288.386_314_978, 1e-9));
    let medians: Vec<u64> = [Share::P50, Share::P90, Share::P99]
        .map(|p| figures.percentile(p).unwrap().value_ns)
        .into();

    assert_eq!(medians, [500, 900, 990]);
}

#[test]
fn a_tail_shows_row_by_row() {
    let mut values = vec![10; 990];
    values.extend([1000; 9]);
    values.push(2000);
    let figures = statistics(&values);

    assert!(is_close(figures.mean_ns, 20.9, 1e-12), "(9,900 + 9,000 + 2,000) / 1,000");
    assert!(is_close(figures.sd_ns, 112.526_396_903, 1e-9), "sqrt(13,099,000 / 1000 − 20.9²)");
    assert!(is_close(figures.tail_ratio.unwrap(), 17.587_873_196_6, 1e-10), "1,979.1 / 112.526");
    let rows: Vec<(u64, u64)> = figures.low.iter().map(|low| (low.count, low.max_ns)).collect();
    assert_eq!(rows, [(990, 10), (999, 1000), (1000, 2000), (1000, 2000), (1000, 2000)]);
    assert_eq!((figures.low[0].mean_ns, figures.low[0].sd_ns), (10.0, 0.0));
    assert!(is_close(figures.low[1].mean_ns, 18.918_918_92, 1e-9), "18,900 / 999");
    assert!(
        is_close(figures.low[1].sd_ns, 93.542_410_782_7, 1e-10),
        "sqrt(9,099,000 / 999 − 18.9189²)"
    );
}

#[test]
fn equal_samples_have_no_tail_ratio() {
    let figures = statistics(&[70; 100]);
    assert_eq!((figures.sd_ns, figures.jitter_ns, figures.tail_ratio), (0.0, 0, None));
}

#[test]
fn no_samples_have_no_figures() {
    assert_eq!(Statistics::new(&Distribution::default(), &Moments::default()), None);
}

#[test]
fn ten_minutes_at_a_kilohertz_support_99_99_percent_and_not_99_999() {
    let n: u64 = 600_000;
    assert_eq!(n - Share::P99_999.rank_in(n), 6);
    assert_eq!(n - Share::P99_99.rank_in(n), 60);
    let figures =
        Statistics::new(&Distribution::from_values((0..n).map(|i| i % 1000)), &Moments::default())
            .unwrap();
    let supported: Vec<bool> = figures.low.iter().map(|low| low.supported).collect();

    assert_eq!(supported, [true, true, true, false, true], "the last row is an observation");
    assert!(!figures.percentile(Share::P99_999).unwrap().supported);
    assert!(figures.percentile(Share::P99_99).unwrap().supported);
}

#[test]
fn a_share_is_rounded_up_to_whole_samples_without_the_errors_of_binary_fractions() {
    assert_eq!(Share::P99_9.rank_in(1000), 999, "0.999 · 1000 is 999 and not 999.0000000000001");
    assert_eq!(Share::P99_9.rank_in(1001), 1000);
    assert_eq!(Share::P99_999.rank_in(86_400_000), 86_399_136);
    assert_eq!(Share::ALL.rank_in(7), 7);
    assert_eq!(Share::P50.rank_in(1), 1);
    assert_eq!(Share::P99_9.label(), "p99.9");
}

#[test]
fn moments_of_fewer_samples_than_the_histogram_are_not_taken_and_it_is_said() {
    let values = [100, 200, 3001];
    let figures =
        Statistics::new(&counted(Series::WakeupLatency, &values), &moments_of(&values[..2]))
            .unwrap();
    assert!(figures.from_buckets);
    assert_eq!(
        (figures.count, figures.min_ns, figures.max_ns),
        (3, 100, 3001),
        "3000 and 3001 share a bucket"
    );
    assert!(is_close(figures.mean_ns, (100.0 + 200.0 + 3000.5) / 3.0, 1e-12));
    assert!(!statistics(&values).from_buckets);
}

#[test]
fn a_value_beyond_the_histogram_is_exact() {
    let beyond = 2 * onbeat::record::LONGEST_NS;
    let mut counts = empty_counts(Series::WakeupLatency);
    counts.saturating_record(beyond);
    let figures =
        Statistics::new(&Distribution::from_histogram(&counts), &moments_of(&[beyond])).unwrap();
    assert_eq!((figures.max_ns, figures.low(Share::ALL).unwrap().max_ns), (beyond, beyond));
}

proptest! {
    #[test]
    fn where_buckets_are_exact_every_figure_is(values in prop::collection::vec(1_u64..2048, 1..3000)) {
        let figures = statistics(&values);
        let mut sorted = values;
        sorted.sort_unstable();
        let (mean, sd) = mean_and_sd(&sorted);

        prop_assert!(is_close(figures.mean_ns, mean, 1e-9) && is_close(figures.sd_ns, sd, 1e-9));
        prop_assert_eq!((figures.min_ns, figures.max_ns), (sorted[0], sorted[sorted.len() - 1]));
        for low in &figures.low {
            let lowest = &sorted[..low.count as usize];
            let (mean, sd) = mean_and_sd(lowest);
            prop_assert_eq!(low.max_ns, lowest[lowest.len() - 1]);
            prop_assert!(is_close(low.mean_ns, mean, 1e-9) && is_close(low.sd_ns, sd, 1e-9), "{low:?}: {mean} {sd}");
        }

        for percentile in &figures.percentiles {
            let at_most = |ns: u64| sorted.iter().filter(|&&v| v <= ns).count() as f64 / sorted.len() as f64 * 100.0;
            prop_assert!(at_most(percentile.value_ns) >= percentile.p - 1e-9);
            prop_assert!(at_most(percentile.value_ns - 1) < percentile.p, "it is the smallest that does");
        }
    }

    #[test]
    fn a_period_near_a_millisecond_has_the_precision_of_its_bucket(offsets in prop::collection::vec(0_u64..4_000, 1..2000)) {
        let mut values: Vec<u64> = offsets.iter().map(|offset| 998_000 + offset).collect();
        let counts = counted(Series::ObservedPeriod, &values);
        let figures = Statistics::new(&counts, &moments_of(&values)).unwrap();
        values.sort_unstable();
        for low in &figures.low {
            let lowest = &values[..low.count as usize];
            let (mean, _) = mean_and_sd(lowest);
            let max = lowest[lowest.len() - 1];
            prop_assert!(max <= low.max_ns && low.max_ns < max + 32, "{} is reported as {}", max, low.max_ns);
            prop_assert!((low.mean_ns - mean).abs() <= 32.0);
        }
    }
}
