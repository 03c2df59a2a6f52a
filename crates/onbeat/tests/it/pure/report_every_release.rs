//! No figure leaves out what was worst: a loop on a clock without a kernel is stopped for 400 of
//! 6,000 periods, and everything that people read of it is held against an account of all 6,000
//! releases that this file makes by itself.

use std::sync::atomic::AtomicBool;

use crate::report_world::{MS, US, bench_file, cell, header};
use onbeat::record::{
    Account, Cell, Header, Recorder, Recording, RunFile, RunWriter, Series, SpikeLimit,
    empty_counts,
};
use onbeat_report::compare::{Comparison, Digest, SHARES};
use onbeat_report::gate::{Chosen, limit_checks};
use onbeat_report::statistics::Share;
use onbeat_report::units::Letters;
use onbeat_report::{Limit, Outcome, Statistics, Summary, closing, export, tables};
use onbeat_rt::ring::Ring;
use onbeat_rt::{
    Clock, Cycle, Flow, Instant, MockClock, OnOverrun, Plan, Sample, Slot, Wait, split,
};

const T: u64 = MS;
const RELEASES: u64 = 6_000;
const STOPPED: u64 = 400;
const WARM_UP: u64 = 10;

/// A loop of a millisecond whose sleeps are some microseconds late, and which is stopped for 400
/// periods while it waits for the release `stopped_at`. The run file, and the latency of each
/// release by our own account.
fn run(tuning: &str, load: &str, stopped_at: Option<u64>) -> (RunFile, Vec<u64>) {
    let cell = cell(tuning, load);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(cell.file_name());
    let late_us = |k: u64| 20 + k * 7 % 31;
    let clock = MockClock::starting_at(Instant::from_ns(0), move |until: Instant| {
        let k = until.as_ns() / T - 1;
        if Some(k) == stopped_at { STOPPED * T + 300 * US } else { late_us(k) * US }
    });

    let plan = Plan {
        period_ns: T,
        first_release: Instant::from_ns(T),
        deadline_ns: T,
        releases: RELEASES,
        wait: Wait::Sleep,
        on_overrun: OnOverrun::SkipKeepPhase,
    };

    let mut slots: Vec<Slot<Sample>> = (0..8_192).map(|_| Slot::empty()).collect();
    let mut ring = Ring::over(&mut slots).unwrap();
    let (mut hot, mut cold) = split(&mut ring);
    let mut starts: Vec<(u64, u64)> = Vec::new();
    let mut task = |cycle: &Cycle| {
        starts.push((cycle.index, clock.now().as_ns()));
        clock.spend(10 * US);
        Flow::Continue
    };

    let outcome =
        onbeat_rt::cycle::run(&clock, &plan, &mut task, &mut hot, &AtomicBool::new(false));

    let recording = Recording {
        period_ns: T,
        work_ns: 10 * US,
        interval_ns: 1_000 * MS,
        spike_limit: SpikeLimit::TenTimesMedian,
    };
    let header = Header { cell: Some(cell), ..header(None) };
    let writer = RunWriter::create(&path, &header).unwrap();
    let mut recorder = Recorder::new(writer, Instant::from_ns(0), recording);
    recorder.begin_block(0, Instant::from_ns(T), load, WARM_UP).unwrap();

    while let Some(sample) = cold.pop() {
        recorder.sample(&sample, None).unwrap();
    }

    recorder.end_block(&outcome).unwrap();
    recorder.close(&Account::default()).unwrap();
    (RunFile::read(&path).unwrap(), by_our_own_account(&starts, outcome.last_end.as_ns()))
}

/// Every release that was not served on time in the warm-up: from when it was due to the first
/// start at or after it, or to the end of the last cycle where no start came any more.
fn by_our_own_account(starts: &[(u64, u64)], last_end: u64) -> Vec<u64> {
    let mut latencies = Vec::new();
    for k in 0..RELEASES {
        let due = (k + 1) * T;
        let (served, start) =
            starts.iter().copied().find(|(index, _)| *index >= k).unwrap_or((RELEASES, last_end));
        let is_on_time = served == k && start - due + 10 * US <= T;
        if k >= WARM_UP || !is_on_time {
            latencies.push(start - due);
        }
    }

    latencies
}

/// A percentile by nearest rank, as the histogram reports it: the largest value of its bucket.
fn percentile(latencies: &[u64], p: f64) -> u64 {
    let mut sorted = latencies.to_vec();
    sorted.sort_unstable();
    let rank = ((p / 100.0 * sorted.len() as f64) - 1e-9).ceil().max(1.0) as usize;
    let counts = empty_counts(Series::ReleaseLatency);
    counts.highest_equivalent(sorted[rank - 1]).min(*sorted.last().unwrap())
}

fn is_close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * b.abs().max(1.0)
}

fn assert_figures(of: &Statistics, latencies: &[u64]) {
    assert_eq!(of.count, latencies.len() as u64);
    assert_eq!(
        (of.min_ns, of.max_ns),
        (*latencies.iter().min().unwrap(), *latencies.iter().max().unwrap())
    );
    let mean = latencies.iter().sum::<u64>() as f64 / latencies.len() as f64;
    let sd = (latencies.iter().map(|&ns| (ns as f64 - mean).powi(2)).sum::<f64>()
        / latencies.len() as f64)
        .sqrt();

    assert!(
        is_close(of.mean_ns, mean) && is_close(of.sd_ns, sd),
        "{} {mean}, {} {sd}",
        of.mean_ns,
        of.sd_ns
    );
    for share in Share::PERCENTILES {
        let reported = of.percentile(share).unwrap().value_ns;
        assert_eq!(reported, percentile(latencies, share.percent()), "{}", share.label());
    }

    for share in Share::LOW {
        let low = of.low(share).unwrap();
        assert_eq!(low.max_ns, percentile(latencies, share.percent()), "Low {}", share.percent());
        assert_eq!(
            low.count,
            (latencies.len() as f64 * share.percent() / 100.0 - 1e-9).ceil() as u64
        );
    }
}

fn limit() -> Limit {
    Limit { limit_ns: 100 * US, at: 99.0, on: Series::ReleaseLatency }
}

/// `none` is stopped at the release given, `P` never.
fn bench(stopped_at: u64, limit: Option<Limit>) -> (Summary, Vec<RunFile>, Vec<u64>, Vec<u64>) {
    let (none, all_of_none) = run("none", "paper", Some(stopped_at));
    let (p, all_of_p) = run("P", "paper", None);
    let files = vec![none, p];
    let summary = Summary::of_bench(&bench_file(&["none", "P"], &["paper"], limit), &files);
    (summary, files, all_of_none, all_of_p)
}

#[test]
fn the_stop_is_what_this_file_believes_it_to_be() {
    let (run, latencies) = run("none", "paper", Some(1_000));
    let end = run.end.as_ref().unwrap();
    assert_eq!((end.slots, end.skipped, end.cycles), (RELEASES, STOPPED, RELEASES - STOPPED));
    assert_eq!(latencies.len() as u64, RELEASES - WARM_UP);
    assert_eq!(
        latencies.iter().filter(|ns| **ns > T).count() as u64,
        STOPPED + 1,
        "the late one and those skipped"
    );
}

#[test]
fn percentiles_and_low_rows_are_of_all_releases() {
    for stopped_at in [1_000, 5_500, 5_800] {
        let (summary, _, all_of_none, all_of_p) = bench(stopped_at, None);
        let figures =
            |tuning: &str| summary.cell(tuning, "paper").unwrap().main().unwrap().1.clone();
        assert_eq!(
            summary.cell("none", "paper").unwrap().main().unwrap().0,
            Series::ReleaseLatency
        );
        assert_figures(&figures("none"), &all_of_none);
        assert_figures(&figures("P"), &all_of_p);
    }
}

#[test]
fn a_stop_in_the_warm_up_is_in_every_figure() {
    for stopped_at in [0, 3, 9] {
        let (summary, _, all_of_none, _) = bench(stopped_at, Some(limit()));
        let none = summary.cell("none", "paper").unwrap();
        assert_figures(none.main().unwrap().1, &all_of_none);
        assert_eq!(none.skipped, Some(STOPPED), "stopped at {stopped_at}");
        let verdict = none.verdict.as_ref().unwrap();
        assert_eq!(verdict.over, STOPPED + 1);
        // One outage does not show how often such outages come.
        assert_eq!((verdict.outages, verdict.outcome), (1, Outcome::Inconclusive));
    }
}

#[test]
fn the_tables_print_the_same_figures() {
    let (summary, _, all, _) = bench(1_000, None);
    let table = tables::by_tuning(&summary, "paper", Letters::Ascii);
    let row: Vec<String> =
        table.rows[0].entries.iter().map(|entry| entry.text.replace([' ', '~', ','], "")).collect();
    let us = |ns: u64| (ns as f64 / 1e3).round().to_string();
    let printed =
        [(3, percentile(&all, 100.0)), (6, percentile(&all, 99.0)), (7, percentile(&all, 99.9))];
    for (column, ns) in printed {
        assert_eq!(row[column], us(ns), "column {column} of {row:?}");
    }

    assert_eq!(row[10], STOPPED.to_string());

    let full = tables::full(&summary, "paper", Series::ReleaseLatency, Letters::Ascii);
    let max_of = |low: &str| {
        let row = full.rows.iter().find(|row| row.entries[0].text == low).unwrap();
        row.entries[2].text.replace(['~', ','], "").parse::<f64>().unwrap()
    };

    assert!((max_of("99%") - percentile(&all, 99.0) as f64 / 1e3).abs() < 1.0);
    assert!((max_of("100%") - percentile(&all, 100.0) as f64 / 1e3).abs() < 1.0);

    let served = tables::by_tuning_of(&summary, "paper", Series::WakeupLatency, Letters::Ascii);
    assert!(served.title.starts_with("wake-up latency (served releases)"), "{}", served.title);
}

#[test]
fn effect_ranking_and_closing_lines_see_the_stop() {
    let (summary, _, all_of_none, all_of_p) = bench(1_000, None);
    let effect = summary.effects.iter().find(|effect| effect.factor == "P").unwrap();
    assert_eq!(effect.metric, "p99 release latency");
    let expected = percentile(&all_of_p, 99.0) as f64 / percentile(&all_of_none, 99.0) as f64;

    assert!(is_close(effect.ratio, expected), "{} instead of {expected}", effect.ratio);
    assert_eq!(summary.verdict.best, Some(cell("P", "paper")));
    assert!(
        summary.verdict.sentence.contains("skipped 400 of 6,000 releases"),
        "{}",
        summary.verdict.sentence
    );

    // One stop in six seconds may be chance, with a limit as well: it is one outage.
    let (with_limit, _, _, _) = bench(1_000, Some(limit()));
    for summary in [&summary, &with_limit] {
        let lines = closing::of(summary);
        assert!(lines.len() <= 5 && lines[0].label == "verdict", "{lines:?}");
        assert!(
            lines.iter().any(|line| line.text.contains("no tuning is distinguishable")),
            "{lines:?}"
        );
        assert!(lines.iter().all(|line| line.text.chars().count() <= 2 * 71), "{lines:?}");
    }
}

#[test]
fn verdict_and_gate_count_every_release() {
    let (summary, _, all_of_none, _) = bench(5_500, Some(limit()));
    let over = all_of_none.iter().filter(|ns| **ns > 100 * US).count() as u64;
    let none = summary.cell("none", "paper").unwrap().verdict.clone().unwrap();
    assert_eq!(
        (none.over, none.releases, none.outcome),
        (over, all_of_none.len() as u64, Outcome::Inconclusive)
    );
    assert_eq!(
        summary.verdict.outcome,
        Some(Outcome::Inconclusive),
        "six seconds without an outage do not exclude rare ones"
    );

    let chosen = Chosen { tuning: Some("none".to_owned()), load: None };
    let checks = limit_checks("nightly", &chosen.cells(&summary), limit());
    assert_eq!(
        checks.iter().map(|check| check.outcome).collect::<Vec<_>>(),
        [Outcome::Inconclusive]
    );
    assert!(
        checks[0].sentence.starts_with(&format!("{over} of 5,990 releases")),
        "{}",
        checks[0].sentence
    );
}

#[test]
fn a_limit_on_wake_up_latency_leaves_no_release_out() {
    let (file, all) = run("none", "idle", Some(100));
    let on_served = Limit { on: Series::WakeupLatency, ..limit() };
    let verdict = onbeat_report::verdict::judge(&file, on_served);
    assert_eq!(verdict.releases, all.len() as u64);
    assert_eq!(verdict.over, STOPPED + 1);
}

#[test]
fn compare_speaks_of_all_releases() {
    let (slow, all) = run("none", "idle", Some(1_000));
    let (fast, _) = run("none", "idle", None);
    let digest = |name: &str, place, run: &RunFile| {
        Digest::new(name, place, Summary::of_run(run, None), std::slice::from_ref(run), &SHARES)
    };
    let comparison = Comparison::new(&[digest("fast", 0, &fast), digest("slow", 1, &slow)]);
    let main = comparison.main()[0];

    assert_eq!(main.series, Series::ReleaseLatency);
    let p99 = main.runs[1].percentiles.iter().find(|one| (one.p - 99.0).abs() < 1e-9).unwrap();
    assert_eq!(p99.value_ns, percentile(&all, 99.0));
    assert_eq!(main.runs[1].max_ns, *all.iter().max().unwrap());
}

#[test]
fn what_charts_draw_from_has_every_release_at_its_time() {
    let (file, all) = run("none", "idle", Some(1_000));
    let untagged: Vec<_> =
        file.entries.iter().filter(|entry| entry.series == Series::ReleaseLatency).collect();
    assert_eq!(untagged.iter().map(|entry| entry.counts.count()).sum::<u64>(), all.len() as u64);
    let text = std::fs::read_to_string(&file.path).unwrap_or_default();

    assert!(text.is_empty(), "the file is gone with its directory; its lines were read before");

    // Interval by interval: the largest value of each second, the skipped releases of that second
    // among them.
    for (second, interval) in file.intervals.iter().enumerate() {
        let of_second = |k: &usize| (*k as u64 + WARM_UP) / 1_000 == second as u64;
        let largest = (0..all.len()).filter(of_second).map(|i| all[i]).max().unwrap();
        assert_eq!(interval.moments(Series::ReleaseLatency).max_ns, largest, "second {second}");
    }

    let steps: Vec<_> = file.trends.iter().flat_map(onbeat::record::Trend::steps).collect();
    assert_eq!(steps.len(), 60, "a step for each tenth of a second, those of the stop among them");
    let in_stop = steps.iter().filter(|step| step.min_ns > 1e6).count();
    assert!(
        (3..=4).contains(&in_stop),
        "four tenths of a second without a served release: {in_stop}"
    );
}

#[test]
fn exports_hold_every_release() {
    let (file, all) = run("none", "idle", Some(1_000));
    let of = Cell::new("none", "idle");
    let exported: u64 = export::rows(&file, &of)
        .filter(|row| row.series == Series::ReleaseLatency)
        .map(|row| row.bucket.count)
        .sum();

    assert_eq!(exported, all.len() as u64);

    let mut metrics = Vec::new();
    export::openmetrics::write(std::slice::from_ref(&file), &mut metrics).unwrap();
    let metrics = String::from_utf8(metrics).unwrap();
    let count = metrics
        .lines()
        .find(|line| line.starts_with("onbeat_release_latency_seconds_count"))
        .unwrap();

    assert!(count.ends_with(&format!(" {}", all.len())), "{count}");

    let mut rows = Vec::new();
    export::csv::write([&file], &mut rows).unwrap();
    assert!(String::from_utf8(rows).unwrap().contains("release_latency"));
}
