//! Verdicts: what counts as a release, and which tuning is best.

use crate::report_days::Day;
use crate::report_world::{
    Cycle, MS, US, bench_file, cell, late, run, run_with_late, run_with_over,
};
use onbeat::record::{CellNotPermitted, Distribution, Entry, RunFile, Series, Stall};
use onbeat_report::verdict::judge;
use onbeat_report::{Limit, Outcome, Summary, closing};

fn limit(at: f64) -> Limit {
    Limit { limit_ns: 100 * US, at, on: Series::ReleaseLatency }
}

#[test]
fn a_limit_holds_when_enough_releases_are_within_it() {
    let verdict = judge(&run_with_over("P", "paper", 40_000, 0), limit(99.0));
    assert_eq!(
        (verdict.outcome, verdict.over, verdict.outages, verdict.releases, verdict.needed),
        (Outcome::Pass, 0, 0, 40_000, 38_415)
    );
    assert_eq!(
        verdict.sentence,
        "none of 40,000 releases is over 100 us; with 95 % confidence at most 0.96 % exceed it (1 % allowed); \
         no outage in 40.0 s: one every 13.4 s or rarer would not show"
    );
    assert_eq!(
        verdict.basis,
        "The verdict counts outages: late releases at most 10 apart are one outage; an outage not seen yet is assumed to last \
         100 releases on average. Changes slower than a sixtieth of this run (667 ms) are not covered."
    );
}

#[test]
fn fewer_releases_than_needed_are_inconclusive_even_with_none_over() {
    let verdict = judge(&run_with_over("P", "paper", 6_000, 0), limit(99.0));
    assert_eq!((verdict.outcome, verdict.needed), (Outcome::Inconclusive, 38_415));
    assert_eq!(
        verdict.sentence,
        "none of 6,000 releases is over 100 us; no outage in 6.0 s: one every 2.0 s or rarer would not show; \
         PASS needs 38.4 s with none over"
    );
}

/// A camera has a picture in 33 releases of the loop that looks for it.
#[test]
fn pictures_are_counted_as_such_and_take_their_own_time() {
    let mut run = run_with_over("P", "paper", 6_000, 0);
    let looks = run.entries.iter().filter(|entry| entry.series == Series::ReleaseLatency);
    let pictures: Vec<Entry> = looks
        .map(|entry| Entry {
            series: Series::CaptureToUser,
            counts: Distribution::from_values(std::iter::repeat_n(50 * US, 30)),
            ..entry.clone()
        })
        .collect();
    assert_eq!(pictures.len(), 6);
    run.entries.extend(pictures);
    let verdict = judge(&run, Limit { on: Series::CaptureToUser, ..limit(99.0) });
    let words = "none of 180 pictures is over 100 us; no outage in 6.0 s: one every 2.0 s or rarer would not show";
    assert!(verdict.sentence.starts_with(words), "{}", verdict.sentence);
}

#[test]
fn a_limit_is_broken_when_chance_cannot_explain_how_many_outages_there_are() {
    let verdict = judge(&run_with_late("P", "paper", 6_000, 150), limit(99.9));
    assert_eq!((verdict.outcome, verdict.over, verdict.outages), (Outcome::Fail, 40, 40));
    assert_eq!(
        verdict.sentence,
        "40 of 6,000 releases are over 100 us, in 40 outages; with 95 % confidence at least 0.503 % exceed it (0.1 % allowed)"
    );
    assert_eq!(
        judge(&run_with_late("P", "paper", 6_000, 850), limit(99.9)).outcome,
        Outcome::Inconclusive,
        "7 for 6"
    );
}

#[test]
fn as_many_late_releases_in_one_outage_prove_nothing() {
    let verdict = judge(&run_with_over("P", "paper", 6_000, 40), limit(99.9));
    assert_eq!((verdict.outcome, verdict.outages), (Outcome::Inconclusive, 1));
    assert!(
        verdict
            .sentence
            .starts_with("40 of 6,000 releases are over 100 us, in 1 outage; 0.0186 % to "),
        "{}",
        verdict.sentence
    );
}

#[test]
fn a_limit_that_was_not_watched_is_judged_by_intervals() {
    let run = run_with_late("P", "paper", 20_000, 2_000);
    let other = Limit { limit_ns: 300 * US, at: 99.0, on: Series::ReleaseLatency };
    let (watched, by_interval) = (judge(&run, limit(99.0)), judge(&run, other));
    assert_eq!((watched.outages, by_interval.outages), (10, 10));
    assert!(by_interval.sentence.contains("in 10 intervals"), "{}", by_interval.sentence);
    assert!(by_interval.at_most >= watched.at_most, "never easier");
    let dense = run_with_late("P", "paper", 20_000, 100);
    assert!(judge(&dense, other).at_most > judge(&dense, limit(99.0)).at_most);
}

#[test]
fn a_limit_for_all_releases_is_broken_by_one_and_reports_what_the_run_can_support() {
    let verdict = judge(&run_with_over("P", "paper", 60_000, 1), limit(100.0));
    assert_eq!(verdict.outcome, Outcome::Fail);
    assert_eq!(verdict.sentence, "1 of 60,000 releases is over 100 us (none allowed)");
    let verdict = judge(&run_with_over("P", "paper", 60_000, 0), limit(100.0));

    assert_eq!((verdict.outcome, verdict.needed), (Outcome::Pass, 1));
    assert_eq!(
        verdict.sentence,
        "none of 60,000 releases is over 100 us; no outage in 1 min: one every 20.0 s or rarer would not show"
    );
}

#[test]
fn skipped_releases_count_with_the_latency_they_had() {
    let blocks = [vec![
        late(20 * US),
        Cycle { late_ns: 40 * US, skipped: 3, ..Cycle::default() },
        late(20 * US),
    ]];
    let run = run("none", "paper", &blocks);
    let on = |on| judge(&run, Limit { limit_ns: 2_500 * US, at: 99.0, on });
    let wakeup = on(Series::ReleaseLatency);

    assert_eq!(
        (wakeup.over, wakeup.releases),
        (1, 6),
        "passed over 1, 2 and 3 ms before: of these one is over 2.5 ms"
    );
    let response = on(Series::ResponseTime);
    assert_eq!((response.over, response.releases), (3, 6), "none of them ever responded");
    let period = on(Series::ObservedPeriod);
    assert_eq!((period.over, period.releases), (1, 2), "4.02 ms and 0.98 ms");
}

#[test]
fn a_maximum_that_shares_its_bucket_with_the_limit_decides_exactly() {
    let limit_at = |limit_ns| Limit { limit_ns, at: 100.0, on: Series::ReleaseLatency };
    let run = run("P", "idle", &[vec![late(100_020), late(50_000)]]);
    assert_eq!(
        judge(&run, limit_at(100_000)).over,
        1,
        "100,020 ns in a bucket whose middle is below 100 us"
    );
    assert_eq!(judge(&run, limit_at(100_020)).over, 0);
}

#[test]
fn lost_samples_count_against_either_outcome() {
    let mut run = run_with_over("P", "paper", 38_420, 0);
    assert_eq!(judge(&run, limit(99.0)).outcome, Outcome::Pass);
    run.intervals[0].lost = 50;
    let verdict = judge(&run, limit(99.0));
    assert_eq!(
        (verdict.outcome, verdict.over),
        (Outcome::Inconclusive, 0),
        "50 of 38,470 might have been over"
    );
    assert!(
        verdict.sentence.ends_with("; 50 lost samples count against either outcome"),
        "{}",
        verdict.sentence
    );
    run.intervals[0].lost = 500;
    let sentence = judge(&run, limit(99.0)).sentence;
    assert!(sentence.contains("; a run without lost samples would decide it;"), "{sentence}");
    run.intervals[0].lost = 40;
    let verdict = judge(&run, limit(99.9));
    let times = verdict.times_longer.unwrap();
    assert!(times > 5.0, "{}", verdict.sentence);
}

#[test]
fn lost_samples_are_late_where_they_were_and_not_all_in_one_outage() {
    let with = |every: usize, lost: u64| {
        let cycle = |i: usize| match i % every {
            0 => Cycle { lost, ..late(20 * US) },
            _ => late(20 * US),
        };
        let run = run("P", "idle", &[(0..40_000).map(cycle).collect()]);
        assert_eq!(run.account().lost, lost * 40_000_u64.div_ceil(every as u64));
        judge(&run, limit(99.0)).outcome
    };
    assert_eq!(with(800, 4), Outcome::Pass, "0.5 % in fifty places");
    assert_eq!(with(40_000, 200), Outcome::Inconclusive, "as many in one");
    assert_eq!(with(200, 4), Outcome::Inconclusive, "2 % in two hundred places");
}

#[test]
fn outcomes_have_the_exit_status_of_the_manual() {
    let all = [Outcome::Pass, Outcome::Fail, Outcome::Inconclusive];
    assert_eq!(all.map(Outcome::exit_status), [0, 1, 3]);
}

fn bench(tunings: &[&str], loads: &[&str], limit: Option<Limit>, cells: &[RunFile]) -> Summary {
    Summary::of_bench(&bench_file(tunings, loads, limit), cells)
}

#[test]
fn a_tuning_holds_only_if_it_holds_under_every_load() {
    let cells = [
        run_with_late("P", "idle", 12_000, 20),
        run_with_over("P", "paper", 12_000, 0),
        run_with_over("PM", "idle", 12_000, 0),
        run_with_over("PM", "paper", 12_000, 1),
    ];
    let summary = bench(&["P", "PM"], &["idle", "paper"], Some(limit(99.0)), &cells);

    assert_eq!(summary.verdict.outcome, Some(Outcome::Pass));
    assert_eq!(summary.verdict.best, Some(cell("PM", "paper")), "P is broken when idle");
    let sentence = &summary.verdict.sentence;
    assert!(
        sentence.starts_with(
            "PASS: limit met with PM: 99 % of releases within 100 us under every load (idle and paper); under the 2009 \
             stress mix (`paper`): 1 of 12,000 releases is over 100 us; with 95 % confidence at most 0."
        ),
        "{sentence}"
    );
    assert!(sentence.ends_with("exceed it (1 % allowed); no other tuning passes"), "{sentence}");
    let basis = &summary.cell("PM", "paper").unwrap().verdict.as_ref().unwrap().basis;
    assert!(
        basis.contains(
            "assumed to last 10 releases on average, as those of all cells under this load"
        ) && basis.contains("for a wrong PASS are shared by 2, for a wrong FAIL by 4 verdicts"),
        "{basis}"
    );
}

/// "limit met with none" reads as if no tuning met it.
#[test]
fn the_untuned_loop_is_never_called_none_in_a_sentence() {
    let both = [("none", 0), ("P", 0)];
    let cells = both.map(|(tuning, over)| run_with_over(tuning, "idle", 72_000, over));
    let sentence = |limit| bench(&["none", "P"], &["idle"], limit, &cells).verdict.sentence;
    let passed = sentence(Some(limit(99.0)));
    assert!(passed.starts_with("PASS: limit met without tuning: 99 % of"), "{passed}");
    assert!(passed.contains("; P passes too"), "{passed}");
    let compared = sentence(None);
    assert!(compared.starts_with("No tuning is "), "{compared}");
    assert!(compared.contains(" the untuned loop: "), "{compared}");
}

/// A bench that ends at the first look may not have reached every load.
#[test]
fn the_first_line_names_the_load_that_failed_and_not_one_that_was_hardly_measured() {
    let cells = [run_with_over("P", "idle", 999, 999), run_with_over("P", "paper", 40, 0)];
    let limit = Limit { limit_ns: MS, at: 99.0, on: Series::ReleaseLatency };
    let summary = bench(&["P"], &["idle", "paper"], Some(limit), &cells);
    let first = &closing::of(&summary)[0];
    assert_eq!(
        first.text,
        "FAIL: fewer than 99 % of releases within 1 ms; worst load `idle`, 999 of 999 late (100 %)"
    );
}

#[test]
fn when_every_tuning_is_broken_the_best_one_is_named_with_where_it_broke() {
    let cells = [run_with_late("none", "paper", 1_000, 2), run_with_late("P", "paper", 4_000, 20)];
    let summary = bench(&["none", "P"], &["paper"], Some(limit(99.0)), &cells);
    assert_eq!(summary.verdict.outcome, Some(Outcome::Fail));
    let sentence = &summary.verdict.sentence;
    assert!(
        sentence.starts_with(
            "FAIL: fewer than 99 % of releases within 100 us with any tuning; P (the best), under the 2009 stress mix (`paper`): \
             200 of 4,000 releases are over 100 us, in 200 outages; with 95 % confidence at least "
        ),
        "{sentence}"
    );
}

#[test]
fn a_failure_is_one_of_the_tunings_that_were_permitted() {
    let mut asked = bench_file(&["none", "M", "PMC"], &["idle"], Some(limit(99.0)));
    let refused = CellNotPermitted { cell: cell("PMC", "idle"), why_not: "no root".to_owned() };
    let files = ["none", "M"].map(|tuning| run_with_late(tuning, "idle", 4_000, 20));
    asked.bench.as_mut().unwrap().not_permitted.push(refused);
    let summary = Summary::of_bench(&asked, &files);
    let sentence = &summary.verdict.sentence;
    assert!(sentence.contains(" with any permitted tuning; "), "{sentence}");
    let first = &closing::of(&summary)[0].text;
    assert!(first.starts_with("FAIL with any permitted tuning: fewer than 99 % "), "{first}");
}

#[test]
fn a_tuning_that_was_not_permitted_under_a_load_cannot_hold() {
    let mut asked = bench_file(&["P"], &["idle", "paper"], Some(limit(99.0)));
    let why_not = "needs root; run with sudo".to_owned();
    asked
        .bench
        .as_mut()
        .unwrap()
        .not_permitted
        .push(CellNotPermitted { cell: cell("P", "idle"), why_not: why_not.clone() });
    let summary = Summary::of_bench(&asked, &[run_with_over("P", "paper", 1_000, 0)]);

    assert_eq!(summary.verdict.outcome, Some(Outcome::Inconclusive));
    let refused = summary.cell("P", "idle").unwrap();
    assert_eq!((refused.permitted, &refused.why_not), (false, &Some(why_not)));
}

#[test]
fn equal_tunings_are_ranked_by_their_tail_and_then_by_their_letters() {
    let all_late = |tuning: &str, ns: u64| run(tuning, "paper", &[vec![late(ns); 1_000]]);
    let best_of = |cells: &[RunFile]| {
        let summary = bench(&["PMC", "PM", "P"], &["paper"], Some(limit(99.0)), cells);
        summary.verdict.best.unwrap().tuning
    };

    assert_eq!(
        best_of(&[all_late("PMC", 9 * US), all_late("PM", 8 * US), all_late("P", 9 * US)]),
        "PM"
    );
    assert_eq!(
        best_of(&[all_late("PMC", 9 * US), all_late("PM", 9 * US), all_late("P", 9 * US)]),
        "P"
    );
    let slightly_fewer = run("PMC", "paper", &[vec![late(7 * US); 990]]);
    assert_eq!(
        best_of(&[slightly_fewer, all_late("PM", 9 * US)]),
        "PMC",
        "ten releases fewer are no demerit"
    );
}

#[test]
fn without_a_limit_the_best_tuning_is_compared_with_none() {
    let of = |tuning: &str, ns: u64| run(tuning, "paper", &[vec![late(ns); 20_000]]);
    let summary = bench(
        &["none", "PMCS"],
        &["idle", "paper"],
        None,
        &[of("none", 750 * US), of("PMCS", 12_300)],
    );
    assert_eq!(
        (summary.verdict.outcome, summary.verdict.best),
        (None, Some(cell("PMCS", "paper")))
    );
    assert_eq!(
        summary.verdict.sentence,
        "PMCS is best: p99.9 release latency 12.3 us under the 2009 stress mix (`paper`), 61 times below the untuned loop"
    );
}

#[test]
fn a_bench_that_ended_before_its_heaviest_load_is_compared_by_what_was_run() {
    let of = |tuning: &str, ns: u64| run(tuning, "idle", &[vec![late(ns); 2_000]]);
    let cells = [of("none", 80 * US), of("P", 8_000)];
    let sentence =
        |limit| bench(&["none", "P"], &["idle", "paper"], limit, &cells).verdict.sentence;
    assert_eq!(
        sentence(None),
        "P is best: p99 release latency 8 us with no added load, 10 times below the untuned loop"
    );
    assert_eq!(
        sentence(Some(limit(99.0))),
        "INCONCLUSIVE: limit may be met with P: 99 % of releases within 100 us; not every requested load was run"
    );
}

#[test]
fn tails_of_two_loads_are_named_and_not_divided() {
    let of = |tuning: &str, load: &str, ns: u64| run(tuning, load, &[vec![late(ns); 2_000]]);
    let cells = [
        of("none", "idle", 90 * US),
        of("none", "paper", 700 * US),
        of("P", "idle", 30 * US),
        of("P", "paper", 6 * US),
    ];
    let sentence = bench(&["none", "P"], &["idle", "paper"], None, &cells).verdict.sentence;
    let expected = "P is best: p99 release latency 30 us with no added load, its worst load; the untuned loop has 700 us under the 2009 stress \
                    mix (`paper`)";

    assert_eq!(sentence, expected);
}

#[test]
fn with_few_samples_the_comparison_falls_back_to_a_percentile_that_they_support() {
    let of = |tuning: &str, ns: u64| run(tuning, "paper", &[vec![late(ns); 500]]);
    let summary = bench(&["none", "P"], &["paper"], None, &[of("none", 40 * US), of("P", 20 * US)]);
    assert_eq!(
        summary.verdict.sentence,
        "P is best: p90 release latency 20 us under the 2009 stress mix (`paper`), 2.0 times below the untuned loop"
    );
}

#[test]
fn releases_that_none_skipped_are_said() {
    let skipping = vec![Cycle { late_ns: 40 * US, skipped: 1, ..Cycle::default() }; 500];
    let cells =
        [run("none", "paper", &[skipping]), run("P", "paper", &[vec![late(20 * US); 1_000]])];
    let sentence = bench(&["none", "P"], &["paper"], None, &cells).verdict.sentence;
    assert!(
        sentence.ends_with(
            "52 times below the untuned loop, which skipped 500 of 1,000 releases (50 %)"
        ),
        "{sentence}"
    );
}

#[test]
fn stalls_are_reported_apart_from_machine_latency() {
    let mut cycles = vec![late(20 * US); 1_000];
    cycles[10] = Cycle { late_ns: 50 * MS, stall: Some(Stall::RtThrottling), ..Cycle::default() };
    let cells = [run("P", "idle", &[cycles])];
    let summary = bench(&["P"], &["idle"], None, &cells);
    let said = "1 spike caused by real-time throttling: scheduler policy, not machine latency";

    assert!(
        summary.verdict.sentence.ends_with(&format!(". {said}")),
        "{}",
        summary.verdict.sentence
    );
    assert!(summary.cells[0].notes.contains(&said.to_owned()), "{:?}", summary.cells[0].notes);
}

#[test]
fn the_heaviest_load_is_the_last_that_is_not_idle() {
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let heaviest = |loads: &[&str]| onbeat_report::best::heaviest_load(&words(loads)).cloned();
    assert_eq!(heaviest(&["cpu", "paper", "idle"]).as_deref(), Some("paper"));
    assert_eq!(heaviest(&["idle"]).as_deref(), Some("idle"));
    assert_eq!(heaviest(&[]), None);
}

/// Five stops that lose a hundred writes each are five long intervals, and five hundred writes that
/// were due.
#[test]
fn a_limit_on_write_intervals_counts_the_writes_that_were_due() {
    let mut run = Day::at(MS).seconds(16).skipping(128, 872).seeded(3).recorded(|_, _| 0);
    let of_writes = run.entries.iter().filter(|entry| entry.series == Series::ObservedPeriod);
    let writes: Vec<Entry> =
        of_writes.map(|entry| Entry { series: Series::WriteInterval, ..entry.clone() }).collect();
    let written: u64 = writes.iter().map(|entry| entry.counts.count()).sum();
    run.entries.extend(writes);
    let skipped = run.distribution(Series::SkippedLatency).count();
    let limit = Limit { limit_ns: 3 * MS / 2, at: 99.5, on: Series::WriteInterval };
    let judged = judge(&run, limit);
    assert_eq!(judged.releases, written + skipped, "what was due");
    assert!(judged.over >= skipped && skipped > 1_000, "{} over, {skipped} skipped", judged.over);
    assert_eq!(judged.outcome, Outcome::Fail, "{}", judged.sentence);
}
