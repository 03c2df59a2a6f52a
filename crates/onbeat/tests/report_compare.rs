//! What differs between runs is named, and runs that do not differ are not said to.
#![allow(clippy::print_stdout, missing_docs, clippy::unwrap_used)]

mod report_days;

use onbeat::record::{RunFile, Series};
use onbeat::report::Summary;
use onbeat::report::compare::{Comparison, Digest, SHARES};
use report_days::{Day, MS, Noise};

/// Some seconds of a loop, every latency multiplied by a factor; levels of the seconds differ a
/// little, as those of a machine do.
fn run(seed: u64, times: f64) -> RunFile {
    let mut noise = Noise::seeded(seed);
    let mut draws = report_days::Draws(seed + 77);
    let mut level = 1.0;
    let mut run = Day::at(MS).seconds(16).recorded_as(|_, cycle| {
        if cycle % 1000 == 0 {
            level = times * (1.0 + 0.02 * (draws.share() - 0.5));
        }
        (noise.next_ns() as f64 * level) as u64
    });

    run.entries.retain(|entry| entry.series == Series::WakeupLatency);
    run
}

fn digest(name: &str, place: u64, run: &RunFile) -> Digest {
    Digest::new(name, place, Summary::of_run(run, None), std::slice::from_ref(run), &SHARES)
}

/// The sentence about two runs.
fn sentence(a: &RunFile, b: &RunFile) -> String {
    Comparison::new(&[digest("a", 0, a), digest("b", 1, b)]).sentences.remove(0)
}

#[test]
fn a_median_five_percent_apart_is_named_in_nearly_all_pairs() {
    let said: Vec<String> =
        (0..40).map(|seed| sentence(&run(seed, 1.0), &run(seed + 1000, 1.05))).collect();
    let named =
        said.iter().filter(|said| said.contains("differs from that of a: p50 x 1.0")).count();
    assert!(named >= 38, "{named} of 40: {said:#?}");
}

#[test]
fn runs_of_the_same_are_said_to_differ_in_at_most_five_of_a_hundred_pairs() {
    let differ =
        |pair: &u64| sentence(&run(2 * pair, 1.0), &run(2 * pair + 1, 1.0)).contains("differs");
    let alarms = (10_000..10_200_u64).filter(differ).count();
    println!("{alarms} of 200 pairs of the same are said to differ");
    assert!(alarms <= 10, "{alarms} of 200");
}

#[test]
fn a_run_beside_its_own_copy_shows_no_difference() {
    for seed in 0..20 {
        let run = run(seed, 1.0);
        let said = sentence(&run, &run);
        assert!(
            said.starts_with(
                "No visible difference of wake-up latency between b and a: p50 x 1.00"
            ),
            "{said}"
        );
    }
}

#[test]
fn only_what_differs_is_named_and_the_rest_is_said_not_to() {
    let base = run(1, 1.0);
    let mut noise = Noise::seeded(500);
    let mut tailed = Day::at(MS)
        .seconds(16)
        .recorded_as(|_, cycle| noise.next_ns() * if cycle % 200 == 7 { 8 } else { 1 });
    tailed.entries.retain(|entry| entry.series == Series::WakeupLatency);
    let said = sentence(&base, &tailed);

    assert!(
        said.starts_with("The wake-up latency of b differs from that of a: p99 x 1.")
            && said.contains(", p99.9 x 3."),
        "{said}"
    );
    assert!(said.contains("; no visible difference: p50 x "), "{said}");
}
