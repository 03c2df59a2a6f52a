//! Rows by run and by load: every figure against the samples themselves, and what is not known.

use crate::report_world::{Cycle, US, bench_file, late, run};
use onbeat::record::{Import, LimitNote, RunFile, Series};
use onbeat_report::compare::{Comparison, Digest, SHARES};
use onbeat_report::compare_rows::{SeriesChoice, rows, series_of, table};
use onbeat_report::{Letters, Summary, by_load};
use proptest::prelude::*;

fn digest(name: &str, place: u64, file: RunFile) -> Digest {
    let files = [file];
    Digest::new(name, place, Summary::of_run(&files[0], None), &files, &SHARES)
}

/// Cycles that woke up so late, block by block.
fn blocks(latencies_ns: &[Vec<u64>]) -> Vec<Vec<Cycle>> {
    latencies_ns.iter().map(|block| block.iter().copied().map(late).collect()).collect()
}

/// What a row must hold: count, smallest, mean, SD, largest, jitter, tail ratio.
fn by_hand(values: &[u64]) -> (u64, u64, f64, f64, u64, u64, Option<f64>) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<u64>() as f64 / n;
    let sd = (values.iter().map(|value| (*value as f64 - mean).powi(2)).sum::<f64>() / n).sqrt();
    let (min, max) = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
    let tail = (max > min).then(|| (max as f64 - mean) / sd);
    (values.len() as u64, min, mean, sd, max, max - min, tail)
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * b.abs().max(1.0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn each_row_holds_what_the_samples_come_to(
        runs in prop::collection::vec(prop::collection::vec(prop::collection::vec(0_u64..400_000, 1..60), 1..4), 1..4),
    ) {
        let digests: Vec<Digest> = runs.iter().zip(0..).map(|(latencies, place)| {
            digest(&format!("r{place}"), place, run("P", "idle", &blocks(latencies)))
        }).collect();
        let found = rows(&digests, SeriesChoice::One(Series::WakeupLatency));

        prop_assert_eq!(found.len(), 1);
        prop_assert_eq!(found[0].rows.len(), runs.len());
        for (row, latencies) in found[0].rows.iter().zip(&runs) {
            let all: Vec<u64> = latencies.concat();
            let (count, min, mean, sd, max, jitter, tail) = by_hand(&all);
            prop_assert_eq!((row.count, row.min_ns, row.max_ns, row.jitter_ns), (count, min, max, jitter));
            let sd_ns = row.sd_ns.unwrap_or_default();
            prop_assert!(near(row.mean_ns, mean) && near(sd_ns, sd), "{} {} {} {}", row.mean_ns, mean, sd_ns, sd);
            match (row.tail_ratio, tail) {
                (Some(found), Some(tail)) => prop_assert!(near(found, tail), "{found} {tail}"),
                (found, tail) => prop_assert_eq!(found, tail),
            }

            prop_assert_eq!((row.overruns, row.skipped), (Some(0), Some(0)));
        }
    }
}

#[test]
fn the_main_rows_are_of_what_each_run_is_about() {
    let mut hiccup = run("P", "idle", &blocks(&[vec![50_000; 40]]));
    hiccup.header.series = vec![Series::ResponseTime];
    let digests =
        [digest("a", 0, run("P", "idle", &blocks(&[vec![20_000; 40]]))), digest("b", 1, hiccup)];
    let found = rows(&digests, SeriesChoice::Main);
    let about: Vec<(Series, usize)> =
        found.iter().flat_map(|of| of.rows.iter().map(|row| (of.series, row.run))).collect();
    let mains = digests.iter().map(|run| run.summary.cells[0].main().unwrap().0);
    let wanted: Vec<(Series, usize)> = mains.zip(0..).collect();

    assert_eq!(about, wanted);
    assert_eq!(about[1].0, Series::ResponseTime);
    let all = rows(&digests, SeriesChoice::All);
    assert_eq!(
        all.iter().map(|of| of.series).collect::<Vec<_>>(),
        series_of(&digests).into_iter().collect::<Vec<_>>()
    );
    assert!(all.iter().any(|of| of.series == Series::ObservedPeriod && of.rows.len() == 2));
}

#[test]
fn skipped_releases_stand_in_their_run_and_what_a_source_does_not_count_is_a_dash_that_is_explained()
 {
    let mut cycles = blocks(&[vec![20_000; 500]]);
    cycles[0][100] = Cycle { late_ns: 3_200 * US, skipped: 3, ..Cycle::default() };
    let own = run("P", "idle", &cycles);
    let mut foreign = run("imported", "unknown", &blocks(&[vec![30_000; 300]]));
    foreign.header.timing = None;
    foreign.import = Some(Import { format: "cyclictest".to_owned(), ..Import::default() });
    let digests = [digest("own", 0, own), digest("foreign", 1, foreign)];
    let found = rows(&digests, SeriesChoice::One(Series::WakeupLatency));
    let counts: Vec<_> =
        found[0].rows.iter().map(|row| (row.overruns.is_some(), row.skipped)).collect();

    assert_eq!(counts, [(true, Some(3)), (false, None)]);
    let text = table(&digests, &found[0], Letters::Ascii).to_text(80);
    let row = text.lines().find(|line| line.starts_with("foreign")).unwrap();
    assert_eq!(
        row.split_whitespace().filter(|word| *word == "-").count(),
        3,
        "overruns, skipped, tail: {text}"
    );
    assert!(
        text.contains("the tool that recorded foreign does not count it")
            && text.contains("all samples are equal")
    );
    assert!(
        text.contains("load") && row.contains("unknown"),
        "loads differ, so they stand there: {text}"
    );

    // A program that reads the JSON must not take what nobody counted for none.
    let json = |run: &Digest| serde_json::to_value(&run.summary.cells[0]).unwrap();
    for count in ["skipped", "overruns", "deadline_misses", "spike_count"] {
        assert!(json(&digests[0])[count].is_u64(), "{count}");
        assert!(json(&digests[1])[count].is_null(), "{count}");
    }
}

#[test]
fn a_day_of_four_systems_stands_in_one_table_of_80_columns() {
    let mut digests: Vec<Digest> =
        (0..4).map(|n| digest("", n, run("P", "idle", &blocks(&[vec![1, 2, 9]])))).collect();
    for (digest, name) in digests.iter_mut().zip(["windows", "osx", "ubuntu", "rt"]) {
        digest.name = name.to_owned();
        let cell = &mut digest.summary.cells[0];
        (cell.overruns, cell.skipped) = (Some(1_234), Some(12_345));
        for of in cell.series.values_mut() {
            (of.count, of.min_ns, of.max_ns, of.jitter_ns) =
                (80_304_595, 54_321, 17_170_000, 17_115_679);
            (of.mean_ns, of.sd_ns, of.tail_ratio) = (550_000.0, 370_000.0, Some(44.918_9));
        }
    }

    let found = rows(&digests, SeriesChoice::One(Series::WakeupLatency));
    let table = table(&digests, &found[0], Letters::Ascii);
    assert!(table.fits(80), "{}", table.to_text(80));
    let text = table.to_text(80);
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    let row = text.lines().find(|line| line.starts_with("windows")).unwrap();
    let words: Vec<&str> = row.split_whitespace().collect();

    assert_eq!(
        words,
        [
            "windows",
            "80,304,595",
            "54.3",
            "550",
            "370",
            "17,170",
            "17,116",
            "1,234",
            "12,345",
            "44.9"
        ],
        "{text}"
    );
}

fn two_loads(limit: Option<LimitNote>) -> (RunFile, Vec<RunFile>) {
    let cells = vec![
        run("P", "idle", &blocks(&vec![vec![20_000, 30_000, 25_000, 22_000]; 300])),
        run("P", "paper", &blocks(&vec![vec![40_000, 90_000, 45_000, 42_000]; 300])),
    ];
    (bench_file(&["P"], &["idle", "paper"], limit), cells)
}

#[test]
fn the_loads_of_one_run_are_compared_as_runs_are() {
    let (bench, files) = two_loads(None);
    let whole = Digest::new("night", 0, Summary::of_bench(&bench, &files), &files, &SHARES);
    let loads = whole.by_load();
    assert_eq!(loads.iter().map(|load| load.name.as_str()).collect::<Vec<_>>(), ["idle", "paper"]);
    let found = rows(&loads, SeriesChoice::One(Series::WakeupLatency));
    let jitters: Vec<u64> = found[0].rows.iter().map(|row| row.jitter_ns).collect();

    assert_eq!(jitters, [10_000, 50_000], "no load against load");
    let text = table(&loads, &found[0], Letters::Ascii).to_text(80);
    assert!(
        text.starts_with("wake-up latency by load")
            && text.lines().any(|line| line.starts_with("paper")),
        "{text}"
    );
    let comparison = Comparison::new(&loads);
    let of_load = comparison.cells.iter().find(|of| of.series == Series::WakeupLatency).unwrap();
    let p50 = of_load.runs[1].ratios.iter().find(|ratio| ratio.metric == "p50").unwrap();

    assert!(
        p50.low.is_some_and(|low| low > 1.0) && (p50.ratio - 42.0 / 22.0).abs() < 0.01,
        "{p50:?}"
    );
    assert!(
        comparison.warnings.iter().all(|warning| !warning.contains("differ")),
        "{:?}",
        comparison.warnings
    );
    assert!(
        comparison.warnings.iter().all(|warning| !warning.contains("one after the other")),
        "they took turns"
    );
    assert!(comparison.differences.is_empty(), "{:?}", comparison.differences);
}

#[test]
fn tunings_of_a_bench_have_their_own_rows_in_each_load() {
    let one =
        |tuning: &str, load: &str, ns: u64| run(tuning, load, &blocks(&[vec![ns, ns + 1_000]]));
    let files = [
        one("none", "idle", 50_000),
        one("P", "idle", 20_000),
        one("none", "paper", 90_000),
        one("P", "paper", 30_000),
    ];
    let bench = bench_file(&["none", "P"], &["idle", "paper"], None);
    let loads = Digest::new("b", 0, Summary::of_bench(&bench, &files), &files, &SHARES).by_load();
    let found = rows(&loads, SeriesChoice::One(Series::WakeupLatency));
    let named: Vec<(usize, &str, u64)> =
        found[0].rows.iter().map(|row| (row.run, row.tuning.as_str(), row.min_ns)).collect();

    assert_eq!(
        named,
        [(0, "none", 50_000), (0, "P", 20_000), (1, "none", 90_000), (1, "P", 30_000)]
    );
    let table = table(&loads, &found[0], Letters::Ascii);
    assert_eq!(
        table.columns[..2].iter().map(|column| column.header.as_str()).collect::<Vec<_>>(),
        ["load", "tuning"]
    );
    let comparison = Comparison::new(&loads);
    let cells: Vec<&str> = comparison
        .cells
        .iter()
        .filter(|of| of.series == Series::WakeupLatency)
        .map(|of| of.cell.as_str())
        .collect();

    assert_eq!(cells, ["none", "P"], "each tuning under one load against the other");
}

#[test]
fn loads_are_rows_with_their_verdicts() {
    let limit = LimitNote { limit_ns: 80_000, at: 99.0, on: Series::WakeupLatency };
    let (bench, files) = two_loads(Some(limit));
    let summary = Summary::of_bench(&bench, &files);
    assert!(by_load::is_by_load(&summary));
    let main = summary.cells[0].main().unwrap().0;
    let text = by_load::table(&summary, main, Letters::Ascii).to_text(100);
    let row = |load: &str| text.lines().find(|line| line.starts_with(load)).unwrap().to_owned();
    let [idle, paper] = ["idle", "paper"].map(row);
    let words = |load: usize| summary.cells[load].verdict.as_ref().unwrap().outcome.words();

    assert!(idle.trim_end().ends_with(words(0)) && paper.trim_end().ends_with(words(1)), "{text}");
    assert_ne!(words(0), words(1));
    assert!(paper.contains(" 300 "), "300 of 1,200 are over: {text}");
    let without = by_load::table(&summary, Series::ObservedPeriod, Letters::Ascii);
    assert!(
        without.columns.iter().all(|column| column.header != "verdict"),
        "the limit is on another series"
    );
    let (bench, files) = two_loads(None);
    let summary = Summary::of_bench(&bench, &files[..1]);
    let text = by_load::table(&summary, main, Letters::Ascii).to_text(80);

    assert!(
        text.lines().any(|line| line.starts_with("paper") && line.contains('-')),
        "a load that had no turn: {text}"
    );
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
}
