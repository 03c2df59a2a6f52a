//! What a tuning is worth: known ratios are found, a placebo has no visible effect.

use crate::report_world::{US, run_in_memory};
use onbeat::record::{Distribution, Series};
use onbeat_report::Share;
use onbeat_report::worth::{self, NoWorth, Worth, WorthRequest};

const PAIRS: usize = 16;
const SAMPLES: usize = 400;

/// A normal deviate: twelve uniform ones, less six.
fn normal(random: &mut fastrand::Rng) -> f64 {
    (0..12).map(|_| random.f64()).sum::<f64>() - 6.0
}

fn block(median_ns: f64, random: &mut fastrand::Rng) -> Distribution {
    let sample = |_| (median_ns * (0.5 * normal(random)).exp()) as u64;
    Distribution::from_values((0..SAMPLES).map(sample).collect::<Vec<u64>>())
}

/// Pairs of blocks of which the second has `ratio` times the latency. Neighbours share their
/// background, which wanders as on a machine that others use; each block has a little of its own.
fn pairs(ratio: f64, seed: u64) -> (Vec<Distribution>, Vec<Distribution>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut background = 0.0;
    (0..PAIRS)
        .map(|_| {
            background += 0.4 * normal(&mut random);
            let mut own = || 50e3 * (background + 0.1 * normal(&mut random)).exp();
            let (without, with) = (own(), ratio * own());
            (block(without, &mut random), block(with, &mut random))
        })
        .unzip()
}

fn worth_of(ratio: f64, seed: u64) -> Worth {
    let (without, with) = pairs(ratio, seed);
    worth::of_pairs(&without, &with, WorthRequest::default()).unwrap()
}

#[test]
fn a_known_ratio_is_found_and_covered_in_at_least_97_of_100_trials() {
    for truth in [0.25, 0.7, 1.6] {
        let trials: Vec<Worth> = (0..100).map(|seed| worth_of(truth, seed)).collect();
        let covered = trials.iter().filter(|one| (one.low..=one.high).contains(&truth)).count();
        assert!(covered >= 97, "{truth}: {covered} of 100");
        let visible = trials.iter().filter(|one| one.is_visible()).count();
        assert!(visible >= 97, "{truth}: seen in {visible} of 100");
        assert!(trials.iter().all(|one| !one.is_visible() || (one.ratio > 1.0) == (truth > 1.0)));
    }
}

#[test]
fn a_placebo_has_no_visible_effect_in_at_least_19_of_20_trials_ten_times_over() {
    for series in 0..10 {
        let trials = (0..20).map(|trial| worth_of(1.0, 1_000 + 20 * series + trial));
        let flagged = trials.filter(Worth::is_visible).count();
        assert!(flagged <= 1, "{flagged} of 20 in series {series}");
    }
}

#[test]
fn neighbours_are_compared_although_the_background_wanders_more_than_the_effect() {
    let worth = worth_of(0.7, 5);
    assert!(worth.is_visible() && worth.high / worth.low < 1.7, "{worth:?}");
}

#[test]
fn the_same_files_give_the_same_worth_in_the_words_of_a_person() {
    let fixed = |tuning: &str, ns: u64| run_in_memory(tuning, "idle", &vec![vec![ns; 1_000]; 8]);
    let of = |without: u64, with: u64| {
        let files = (fixed("none", without * US), fixed("P", with * US));
        let worth = worth::of(&files.0, &files.1, WorthRequest::default()).unwrap();
        assert_eq!(Ok(&worth), worth::of(&files.0, &files.1, WorthRequest::default()).as_ref());
        worth
    };

    let lower = of(300, 100);
    assert_eq!((lower.pairs, lower.series), (8, Series::ReleaseLatency));
    assert_eq!(lower.in_short(), "p99 3.00 [3.00, 3.00] times lower");
    assert_eq!(
        lower.sentence("P"),
        "P: p99 release latency 3.00 [3.00, 3.00] times lower with it: 300 us without it, 100 us with it"
    );
    assert!(of(100, 150).in_short().contains("1.50 [1.50, 1.50] times higher"));
    assert_eq!(of(100, 100).in_short(), "undecided: p99 (x 1.00 to x 1.00)");
}

#[test]
fn too_little_is_refused_or_compared_by_a_percentile_that_it_supports() {
    let blocks =
        |n: usize, samples: u64| vec![Distribution::from_values(1_000..1_000 + samples); n];
    let of = |n: usize, samples: u64, at: Share| {
        let blocks = blocks(n, samples);
        worth::of_pairs(&blocks, &blocks, WorthRequest { at, ..WorthRequest::default() })
    };

    assert_eq!(of(7, 1_000, Share::P99), Err(NoWorth::TooFewPairs { pairs: 7 }));
    assert_eq!(of(8, 1, Share::P99), Err(NoWorth::TooFewSamples { samples: 1 }));
    let figures = |n: usize, samples: u64, at: Share| {
        let worth = of(n, samples, at).unwrap();
        (worth.percentile, worth.pairs)
    };
    assert_eq!(figures(8, 1_000, Share::P99), ("p99".to_owned(), 8));
    assert_eq!(figures(8, 1_000, Share::P99_9), ("p99".to_owned(), 8));
    assert_eq!(figures(8, 500, Share::P99), ("p90".to_owned(), 8));
    // Neighbours together, where that leaves eight pairs.
    assert_eq!(figures(16, 500, Share::P99), ("p99".to_owned(), 8));
    assert_eq!(figures(27, 400, Share::P99), ("p99".to_owned(), 9));
}

#[test]
fn a_block_that_the_machine_disturbed_decides_nothing() {
    let mut random = fastrand::Rng::with_seed(3);
    let (without, mut with) = pairs(0.5, 3);
    with[9] = block(100e6, &mut random);
    let worth = worth::of_pairs(&without, &with, WorthRequest::default()).unwrap();
    assert!(worth.is_visible() && (0.4..0.65).contains(&worth.ratio), "{worth:?}");
}
