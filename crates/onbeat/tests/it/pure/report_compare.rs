//! What differs between runs is named, and runs that do not differ are not said to.

use crate::report_days::{Day, MS, Noise, drawn};
use onbeat::record::{RunFile, Series};
use onbeat_report::compare::{Comparison, Digest, SHARES};
use onbeat_report::gate::{Baseline, baseline_checks};
use onbeat_report::statistics::Share;
use onbeat_report::{CellSummary, Outcome, Summary};

/// Some seconds of a loop, every latency multiplied by a factor; levels of the seconds differ a
/// little, as those of a machine do.
fn run(seed: u64, times: f64) -> RunFile {
    let mut noise = Noise::seeded(seed);
    let mut draws = crate::report_days::Draws(seed + 77);
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
        (0..drawn(10, 40)).map(|seed| sentence(&run(seed, 1.0), &run(seed + 1000, 1.05))).collect();
    let named =
        said.iter().filter(|said| said.contains("differs from that of a: p50 x 1.0")).count();
    assert!(named * 20 >= said.len() * 19, "{named} of {}: {said:#?}", said.len());
}

#[test]
fn runs_of_the_same_are_said_to_differ_in_at_most_five_of_a_hundred_pairs() {
    let differ =
        |pair: &u64| sentence(&run(2 * pair, 1.0), &run(2 * pair + 1, 1.0)).contains("differs");
    let pairs = drawn(40, 200);
    let alarms = (10_000..10_000 + pairs).filter(differ).count();
    println!("{alarms} of {pairs} pairs of the same are said to differ");
    assert!(alarms as u64 * 20 <= pairs, "{alarms} of {pairs}");
}

#[test]
fn under_a_load_that_died_a_run_is_not_held_against_another() {
    let (before, after) = (run(1, 1.0), run(2, 1.0));
    for (times, alone, of_run, of_base) in [
        (1.2, Outcome::Pass, Outcome::Inconclusive, Outcome::Pass),
        (0.5, Outcome::Fail, Outcome::Fail, Outcome::Inconclusive),
    ] {
        for (dies, expected) in
            [([false; 2], alone), ([false, true], of_run), ([true, false], of_base)]
        {
            let mut digests = [digest("before", 0, &before), digest("after", 1, &after)];
            for (digest, _) in digests.iter_mut().zip(dies).filter(|(_, dies)| *dies) {
                let cell = &mut digest.summary.cells[0];
                let note = format!("a part of the load {} died after 1.0 s: killed", cell.load);
                cell.notes.push(note);
            }
            let [base, run] = &digests;
            let (series, share) = (Series::WakeupLatency, Share::from_percent(50.0));
            let baseline = Baseline { run: base, series, share, no_worse_than: times };
            let cells: Vec<&CellSummary> = run.summary.cells.iter().collect();
            let checks = baseline_checks(run, &cells, &baseline);
            assert_eq!(checks[0].outcome, expected, "{dies:?}: {}", checks[0].sentence);

            let warnings = Comparison::new(&digests).warnings;
            let named = warnings.iter().filter(|words| words.contains("died after 1.0 s")).count();
            assert_eq!(named, dies.iter().filter(|dies| **dies).count(), "{warnings:?}");
        }
    }
}

#[test]
fn a_run_beside_its_own_copy_shows_no_difference() {
    for seed in 0..drawn(5, 20) {
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

#[test]
fn releases_that_were_never_served_are_said_though_no_interval_between_writes_shows_them() {
    let of_writes = |run: RunFile| {
        let writes = run.entries.iter().filter(|entry| entry.series == Series::ObservedPeriod);
        let on_time = |entry: &onbeat::record::Entry| onbeat::record::Entry {
            series: Series::WriteInterval,
            counts: onbeat::record::Distribution::from_values((0..800).map(|i| MS + i % 90)),
            ..entry.clone()
        };
        let writes: Vec<_> = writes.map(on_time).collect();
        let mut run = run;
        run.header.series = vec![Series::WriteInterval];
        run.entries.extend(writes);
        run
    };
    let base = of_writes(Day::at(MS).seconds(16).recorded(|_, _| 0));
    let lossy = of_writes(Day::at(MS).seconds(16).skipping(128, 872).seeded(3).recorded(|_, _| 0));
    let said = Comparison::new(&[digest("a", 0, &base), digest("b", 1, &lossy)]).sentences;

    assert!(said[0].contains("release latency"), "{said:#?}");
    assert!(
        said[1] == "b skipped 2,048 of 16,000 releases (12.8 %), a 0 of 16,000 releases (0 %)",
        "five stops are not hidden: {said:#?}"
    );
    assert!(said[2].contains("write interval"), "{said:#?}");
}
