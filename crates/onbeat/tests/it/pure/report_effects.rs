//! What a factor paid: true effects are found, missing ones are not invented.

use crate::report_world::{US, bench_file, run_in_memory};
use onbeat::record::RunFile;
use onbeat_report::effects::{self, Bootstrap, Effect};
use onbeat_report::{Share, Summary, bench_sentences};

const TUNINGS: [&str; 9] = ["none", "M", "C", "MC", "P", "PM", "PC", "PMC", "PMCS"];
const BLOCKS: usize = 12;
const SAMPLES: usize = 300;

/// A normal deviate: twelve uniform ones, less six.
fn normal(random: &mut fastrand::Rng) -> f64 {
    (0..12).map(|_| random.f64()).sum::<f64>() - 6.0
}

/// Latencies around `median_ns`; each block has its own background on top of what each sample has.
fn blocks(median_ns: f64, random: &mut fastrand::Rng) -> Vec<Vec<u64>> {
    let block = |random: &mut fastrand::Rng| {
        let background = 0.25 * normal(random);
        (0..SAMPLES)
            .map(|_| (median_ns * (background + 0.5 * normal(random)).exp()) as u64)
            .collect()
    };
    (0..BLOCKS).map(|_| block(random)).collect()
}

/// A bench in which P makes latencies ten times and S three times smaller, C a half larger, and M
/// does nothing.
fn bench(tunings: &[&str], random: &mut fastrand::Rng) -> Vec<RunFile> {
    let median_us = |tuning: &str| {
        let factor = |letter: char, ratio: f64| if tuning.contains(letter) { ratio } else { 1.0 };
        400.0 * factor('P', 0.1) * factor('S', 1.0 / 3.0) * factor('C', 1.5)
    };
    tunings
        .iter()
        .map(|tuning| run_in_memory(tuning, "paper", &blocks(median_us(tuning) * 1e3, random)))
        .collect()
}

fn effects_of(files: &[RunFile]) -> Vec<Effect> {
    effects::of(files, &["paper".to_owned()], Bootstrap { resamples: 1000, ..Bootstrap::default() })
}

fn effect<'e>(effects: &'e [Effect], factor: &str) -> &'e Effect {
    effects.iter().find(|effect| effect.factor == factor).unwrap()
}

fn covers(effect: &Effect, truth: f64) -> bool {
    (effect.low..=effect.high).contains(&truth)
}

#[test]
fn every_factor_is_listed_once_in_the_order_of_the_paper() {
    let effects = effects_of(&bench(&TUNINGS, &mut fastrand::Rng::with_seed(1)));
    assert_eq!(
        effects.iter().map(|effect| effect.factor.as_str()).collect::<Vec<_>>(),
        ["P", "M", "C", "S"]
    );
    assert!(
        effects
            .iter()
            .all(|effect| effect.metric == "p99 release latency" && effect.load == "paper")
    );
    assert!(effects.iter().all(|effect| effect.low <= effect.ratio && effect.ratio <= effect.high));
}

#[test]
fn intervals_cover_the_truth_in_at_least_90_of_100_benches() {
    let truths = [("P", 0.1), ("M", 1.0), ("C", 1.5), ("S", 1.0 / 3.0)];
    let mut covered = [0; 4];
    for seed in 0..100 {
        let effects = effects_of(&bench(&TUNINGS, &mut fastrand::Rng::with_seed(seed)));
        for ((factor, truth), covered) in truths.iter().zip(&mut covered) {
            *covered += u32::from(covers(effect(&effects, factor), *truth));
        }
    }

    assert!(covered.iter().all(|&times| times >= 90), "P, M, C, S: {covered:?} of 100");
}

#[test]
fn a_comparison_of_equals_is_flagged_in_at_most_8_of_100_benches() {
    let flagged = (100..200).filter(|&seed| {
        let effects = effects_of(&bench(&["none", "M"], &mut fastrand::Rng::with_seed(seed)));
        effect(&effects, "M").is_visible()
    });
    let flagged = flagged.count();
    assert!(flagged <= 8, "{flagged} of 100");
}

#[test]
fn an_interval_is_narrow_enough_to_see_a_tenth_and_a_half_more() {
    let effects = effects_of(&bench(&TUNINGS, &mut fastrand::Rng::with_seed(7)));
    assert!(
        effect(&effects, "P").is_visible()
            && effect(&effects, "S").is_visible()
            && effect(&effects, "C").is_visible()
    );
    let p = effect(&effects, "P");
    assert!(p.high / p.low < 2.0, "{p:?}");
}

#[test]
fn the_same_seed_draws_the_same_intervals() {
    let files = bench(&TUNINGS, &mut fastrand::Rng::with_seed(3));
    assert_eq!(effects_of(&files), effects_of(&files));
    let other =
        effects::of(&files, &["paper".to_owned()], Bootstrap { seed: 5, ..Bootstrap::default() });
    assert_ne!(effects_of(&files)[0].low, other[0].low);
    assert_eq!(effects_of(&files)[0].ratio, other[0].ratio, "only intervals are drawn");
}

#[test]
fn a_ratio_is_the_geometric_mean_over_pairs_of_the_percentiles_in_the_table() {
    let fixed = |tuning: &str, ns: u64| run_in_memory(tuning, "paper", &vec![vec![ns; 500]; 6]);
    let files = [
        fixed("none", 800 * US),
        fixed("P", 100 * US),
        fixed("M", 800 * US),
        fixed("PM", 200 * US),
    ];
    let effects = effects_of(&files);
    let p = effect(&effects, "P");

    assert!(
        (p.ratio - (1.0_f64 / 8.0 / 4.0).sqrt()).abs() < 1e-12,
        "the mean of an eighth and a quarter: {}",
        p.ratio
    );
    assert_eq!(p.sentence, "P: p99 release latency × 0.18 (0.18 to 0.18), from 800 us to 141 us");
    assert_eq!(
        effect(&effects, "M").sentence,
        "M: p99 release latency × 1.41 (1.41 to 1.41), from 283 us to 400 us; longer with it"
    );
}

#[test]
fn an_effect_that_may_be_none_is_said_to_be_invisible() {
    let files = bench(&["none", "M"], &mut fastrand::Rng::with_seed(2));
    let sentence = &effects_of(&files)[0].sentence;
    assert!(sentence.starts_with("M: no visible effect on p99 release latency (× "), "{sentence}");
}

#[test]
fn few_samples_are_compared_by_a_percentile_that_they_support() {
    let fixed = |tuning: &str, n: usize| run_in_memory(tuning, "idle", &vec![vec![50 * US; n]; 5]);
    let of = |n: usize, at_most: Share| {
        let files = [fixed("none", n), fixed("P", 10_000)];
        let effects = effects::of(
            &files,
            &["idle".to_owned()],
            Bootstrap { at_most, ..Bootstrap::default() },
        );
        effects.first().map(|effect| effect.metric.clone())
    };

    assert_eq!(of(10_000, Share::P99).as_deref(), Some("p99 release latency"));
    assert_eq!(of(10_000, Share::P99_9).as_deref(), Some("p99.9 release latency"));
    assert_eq!(of(100, Share::P99_9).as_deref(), Some("p90 release latency"));
    assert_eq!(of(1, Share::P99_9), None, "five samples decide nothing");
}

#[test]
fn a_cell_of_one_long_block_is_taken_apart_into_its_intervals() {
    let mut files = bench(&["none", "P"], &mut fastrand::Rng::with_seed(4));
    for file in &mut files {
        file.blocks.truncate(1);
        file.entries.iter_mut().for_each(|entry| entry.block = Some(0));
    }

    let effects = effects_of(&files);
    assert!(covers(effect(&effects, "P"), 0.1));
    for file in &mut files {
        file.entries.truncate(3);
    }

    assert_eq!(effects_of(&files), [], "three stretches do not show how much they differ");
}

#[test]
fn a_bench_says_what_each_factor_paid_in_one_line_per_load() {
    let files = bench(&TUNINGS, &mut fastrand::Rng::with_seed(11));
    let summary = Summary::of_bench(&bench_file(&TUNINGS, &["idle", "paper"], None), &files);
    let sentences = bench_sentences(&summary);
    let line = sentences.iter().find(|line| line.starts_with("Effect of each tuning")).unwrap();
    let words = [
        "p99 release latency under the 2009 stress mix (`paper`): P × 0.",
        ", M no visible effect, C × 1.",
        " and S × 0.",
    ];
    assert!(words.iter().all(|words| line.contains(words)), "{line}");
}
