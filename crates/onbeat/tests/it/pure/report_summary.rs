//! The summary: the schema of `docs/format.md`, and what becomes of files that were cut off.

use crate::report_world::{Cycle, MS, US, bench_file, cell, late, read, run, run_text};
use onbeat::record::{CellNotPermitted, LoadEvent, LoadEventKind, RunFile, Series, Stall};
use onbeat::thread::Grant;
use onbeat_report::{Limit, Outcome, Summary, bench_sentences};
use serde_json::Value;

/// Four blocks in which every tenth cycle is later than the others, one of them by two skipped
/// releases.
fn blocks() -> Vec<Vec<Cycle>> {
    let mut block: Vec<Cycle> = (0..1_500_u64)
        .map(|i| late(if i % 10 == 0 { 90 * US } else { (20 + i % 7) * US }))
        .collect();
    block[700] =
        Cycle { late_ns: 600 * US, skipped: 2, stall: Some(Stall::FairServer), ..Cycle::default() };
    vec![block; 4]
}

fn limit() -> Limit {
    Limit { limit_ns: 100 * US, at: 99.9, on: Series::ReleaseLatency }
}

fn summary() -> Summary {
    let asked = bench_file(&["none", "P"], &["idle", "paper"], Some(limit()));
    let cells = [("none", "idle"), ("P", "idle"), ("none", "paper"), ("P", "paper")];
    Summary::of_bench(&asked, &cells.map(|(tuning, load)| run(tuning, load, &blocks())))
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// The words of a text, as the keys of an object are listed.
fn sorted(words: &str) -> Vec<&str> {
    let mut words: Vec<&str> = words.split_whitespace().collect();
    words.sort_unstable();
    words
}

#[test]
fn the_names_are_those_of_the_format() {
    let json = serde_json::to_value(summary()).unwrap();
    assert_eq!(json["schema"], "onbeat.bench/1");
    let top = sorted(
        "schema version command started_unix_s elapsed_s host ladder limit order tunings loads period_ns \
         cells effects verdict focus",
    );

    assert_eq!(keys(&json), top);
    let cell = &json["cells"][1];
    let of_cell = sorted(
        "tuning load file permitted why_not complete blocks slots cycles skipped overruns deadline_misses \
         lost spike_count page_faults involuntary_switches cpu_share series verdict spikes stalls notes \
         windows window_bytes situation",
    );

    assert_eq!(keys(cell), of_cell);
    let of_series =
        sorted("count min_ns mean_ns sd_ns max_ns jitter_ns tail_ratio low percentiles");
    assert_eq!(keys(&cell["series"]["wakeup_latency"]), of_series);
    let low = &cell["series"]["wakeup_latency"]["low"];
    assert_eq!(keys(&low[0]), ["count", "max_ns", "mean_ns", "q", "sd_ns", "supported"]);
    assert_eq!(
        low.as_array().unwrap().iter().map(|row| row["q"].as_f64().unwrap()).collect::<Vec<_>>(),
        [99.0, 99.9, 99.99, 99.999, 100.0]
    );
    let percentiles = cell["series"]["release_latency"]["percentiles"].as_array().unwrap();

    assert_eq!(keys(&percentiles[0]), ["p", "supported", "value_ns"]);
    assert_eq!(
        percentiles.iter().map(|row| row["p"].as_f64().unwrap()).collect::<Vec<_>>(),
        [50.0, 90.0, 99.0, 99.9, 99.99, 99.999]
    );
    let of_verdict =
        "at_least at_most basis needed outages outcome over releases sentence times_longer";
    assert_eq!(keys(&cell["verdict"]), sorted(of_verdict));
    assert_eq!(
        keys(&cell["spikes"][0]),
        [
            "block",
            "execution_time_ns",
            "index",
            "number",
            "skipped",
            "stall",
            "t",
            "wakeup_latency_ns"
        ]
    );
    assert_eq!(
        keys(&json["effects"][0]),
        ["factor", "high", "load", "low", "metric", "ratio", "sentence"]
    );
    assert_eq!(keys(&json["verdict"]), ["best", "outcome", "sentence", "ties"]);
    assert_eq!(keys(&json["verdict"]["best"]), ["load", "tuning"]);
}

#[test]
fn every_slot_of_a_cell_is_accounted_for() {
    let summary = summary();
    let p = summary.cell("P", "paper").unwrap();
    assert_eq!((p.slots, p.cycles, p.skipped, p.lost, p.blocks), (6_008, 6_000, Some(8), 0, 4));
    assert_eq!((p.deadline_misses, p.spike_count, p.page_faults), (Some(0), Some(4), Some(3)));
    assert!((p.cpu_share.unwrap() - 0.02).abs() < 1e-9);
    assert_eq!(p.series[&Series::ReleaseLatency].count, p.slots);
    assert_eq!(
        p.series[&Series::WakeupLatency].count + p.series[&Series::SkippedLatency].count,
        p.slots
    );
    assert_eq!(
        p.series[&Series::ObservedPeriod].count,
        5_996,
        "the first cycle of a block has none"
    );
    assert_eq!((p.file.as_deref(), summary.period_ns), (Some("P-paper.onbeat.hlog"), MS));
}

#[test]
fn cells_stand_load_by_load_in_the_order_asked_for() {
    let names: Vec<_> =
        summary().cells.iter().map(|cell| format!("{} {}", cell.tuning, cell.load)).collect();
    assert_eq!(names, ["none idle", "P idle", "none paper", "P paper"]);
}

/// Equal, figures to the last bit but one: parsing decimal figures may round the last one.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            (a - b).abs() <= 4.0 * f64::EPSILON * b.abs()
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((i, a), (j, b))| i == j && is_same(a, b))
        }
        _ => a == b,
    }
}

#[test]
fn a_summary_reads_back_as_it_was_printed() {
    let printed = serde_json::to_value(summary()).unwrap();
    let read: Summary = serde_json::from_str(&printed.to_string()).unwrap();
    assert!(is_same(&serde_json::to_value(read).unwrap(), &printed));
}

#[test]
fn the_same_files_give_the_same_bytes() {
    assert_eq!(
        serde_json::to_string(&summary()).unwrap(),
        serde_json::to_string(&summary()).unwrap()
    );
}

#[test]
fn a_file_that_was_cut_off_gives_what_is_there_and_says_so() {
    let cell = cell("P", "paper");
    let text = run_text(&cell, &blocks());
    let without_end = &text[..text.rfind("#[onbeat: {\"end\"").unwrap()];
    let summary = Summary::of_run(&read(&cell, without_end), Some(limit()));
    let cut = &summary.cells[0];

    assert!(!cut.complete);
    assert_eq!(
        (cut.slots, cut.cycles, cut.skipped),
        (6_008, 6_000, Some(8)),
        "all intervals are there"
    );
    assert_eq!((cut.page_faults, cut.involuntary_switches, cut.cpu_share), (None, None, None));
    assert_eq!(
        cut.notes[0],
        "truncated: figures from the recorded part; warm-up cycles are not counted"
    );
    assert!(cut.verdict.is_some());
}

#[test]
fn a_file_that_was_cut_between_a_histogram_and_its_note_takes_figures_from_buckets() {
    let cell = cell("P", "paper");
    let text = run_text(&cell, &blocks());
    let last_note = text.rfind("#[onbeat: {\"interval\"").unwrap();
    let summary = Summary::of_run(&read(&cell, &text[..last_note + 20]), None);
    let cut = &summary.cells[0];
    let (_, wakeup) = cut.main().unwrap();

    assert!(!cut.complete && wakeup.from_buckets);
    assert_eq!(
        (wakeup.count, cut.cycles),
        (6_008, 5_500 - 2),
        "histograms of all releases, notes of all but the last"
    );
    assert!(
        cut.notes.iter().any(|note| note.starts_with("mean, SD and maximum of release latency")),
        "{:?}",
        cut.notes
    );
    assert!(cut.notes[0].contains("in the middle of a line"));
}

#[test]
fn a_cell_without_a_file_is_listed_as_not_run() {
    let asked = bench_file(&["none", "P"], &["idle"], Some(limit()));
    let summary = Summary::of_bench(&asked, &[run("P", "idle", &blocks())]);
    let missing = summary.cell("none", "idle").unwrap();
    assert!(
        missing.permitted
            && !missing.complete
            && missing.file.is_none()
            && missing.series.is_empty()
    );
    assert_eq!(missing.notes, ["no run file: the bench ended before this cell was run"]);
    let sentences = bench_sentences(&summary);
    let not_run = "Not run: the untuned loop with no added load";
    assert!(sentences.iter().any(|sentence| sentence == not_run), "{sentences:?}");
    assert!(!sentences.iter().any(|sentence| sentence.starts_with("Truncated")), "{sentences:?}");
}

#[test]
fn a_bench_without_samples_has_no_verdict() {
    let mut asked = bench_file(&["P"], &["idle"], Some(limit()));
    let refused =
        CellNotPermitted { cell: cell("P", "idle"), why_not: "RLIMIT_RTPRIO is 0".to_owned() };
    asked.bench.as_mut().unwrap().not_permitted.push(refused);
    let summary = Summary::of_bench(&asked, &[]);

    assert_eq!(
        (summary.verdict.outcome, &summary.verdict.best),
        (Some(Outcome::Inconclusive), &None)
    );
    assert!(!summary.cells[0].permitted);
    assert!(bench_sentences(&summary).contains(&"Not permitted: P: RLIMIT_RTPRIO is 0".to_owned()));
}

#[test]
fn a_bench_whose_own_note_is_missing_is_read_from_its_cells() {
    let mut asked = bench_file(&[], &[], None);
    asked.bench = None;
    let summary =
        Summary::of_bench(&asked, &[run("none", "idle", &blocks()), run("P", "paper", &blocks())]);
    assert_eq!(
        (summary.tunings, summary.loads),
        (vec!["none".to_owned(), "P".to_owned()], vec!["idle".to_owned(), "paper".to_owned()])
    );
}

#[test]
fn what_happened_to_a_load_stands_with_its_cells() {
    let event = |event: LoadEventKind, detail: &str| LoadEvent {
        t: 3.25,
        load: "paper".to_owned(),
        event,
        detail: detail.to_owned(),
    };

    let mut asked = bench_file(&["P"], &["idle", "paper"], None);
    asked.loads = vec![
        event(LoadEventKind::Started, "4 parts"),
        event(LoadEventKind::PartDied, "ping, exit status 2"),
    ];
    let mut paper = run("P", "paper", &blocks());
    paper.loads = vec![event(LoadEventKind::PartSubstituted, "hackbench by our own")];
    let summary = Summary::of_bench(&asked, &[run("P", "idle", &blocks()), paper]);
    let notes = &summary.cell("P", "paper").unwrap().notes;

    assert!(
        notes
            .contains(&"a part of the load paper died after 3.2 s: ping, exit status 2".to_owned()),
        "{notes:?}"
    );
    assert!(
        notes
            .contains(&"a part of the load paper was substituted: hackbench by our own".to_owned()),
        "{notes:?}"
    );
    assert!(
        summary.cell("P", "idle").unwrap().notes.iter().all(|note| !note.contains("load paper"))
    );
}

#[test]
fn under_a_load_that_died_no_limit_passes() {
    let died = |detail: &str| LoadEvent {
        t: 0.1,
        load: "run:make".to_owned(),
        event: LoadEventKind::PartDied,
        detail: format!("load part run died: exit status: 2{detail}"),
    };
    let quiet = vec![vec![late(20 * US); 100_000]; 4];
    let loose = Limit { limit_ns: 500 * US, at: 99.0, on: Series::ReleaseLatency };
    for (limit, detail, outcome) in [
        (Some(loose), "", Outcome::Inconclusive),
        (Some(loose), " (restarted)", Outcome::Pass),
        (Some(Limit { limit_ns: US, ..loose }), "", Outcome::Fail),
    ] {
        let mut asked = bench_file(&["P"], &["idle", "run:make"], limit);
        asked.loads = vec![died(detail)];
        let files = [run("P", "idle", &quiet), run("P", "run:make", &quiet)];
        let summary = Summary::of_bench(&asked, &files);
        assert_eq!(summary.verdict.outcome, Some(outcome), "{}", summary.verdict.sentence);
        let caution = "A part of the load run:make died after 0.1 s: load part run died";
        assert!(bench_sentences(&summary).iter().any(|words| words.starts_with(caution)));
        let is_named =
            summary.verdict.sentence.contains("because the load was not whole: load part");
        assert_eq!(is_named, outcome == Outcome::Inconclusive, "{}", summary.verdict.sentence);
    }

    // The default, by the loop's deadline.
    let mut asked = bench_file(&["P"], &["run:make"], None);
    let files = [run("P", "run:make", &quiet)];
    let outcome =
        |asked: &RunFile| Summary::of_bench(asked, &files).verdict.deadline.unwrap().outcome;
    let before = outcome(&asked);
    asked.loads = vec![died("")];
    assert_eq!((before, outcome(&asked)), (Outcome::Pass, Outcome::Inconclusive));

    let alarms = |asked: &RunFile| Summary::of_bench(asked, &files).with_most_alarms(Some(0));
    assert_eq!(alarms(&asked).outcome(), Some(Outcome::Inconclusive));
    asked.loads.clear();
    assert_eq!(alarms(&asked).outcome(), Some(Outcome::Pass));
}

#[test]
fn one_run_is_a_bench_of_one_cell_named_by_what_was_granted() {
    let mut file = run("ignored", "idle", &blocks());
    file.header.cell = None;
    let timing = file.header.timing.as_mut().unwrap();
    timing.priority = 98;
    timing.wait = "spin=50us".to_owned();
    let grant = |what: &str, granted| Grant {
        what: what.to_owned(),
        wanted: "all".to_owned(),
        granted,
        why_not: (!granted).then(|| "RLIMIT_MEMLOCK is 64 KiB".to_owned()),
        costs: None,
        remedy: None,
    };

    file.header.grants = vec![
        grant("locked memory", false),
        grant("CPU shield", true),
        grant("real-time priority", true),
    ];
    let summary = Summary::of_run(&file, None);
    assert_eq!(summary.schema, "onbeat.measure/1");
    assert_eq!((summary.cells[0].tuning.as_str(), summary.cells[0].load.as_str()), ("PCS", "idle"));
    assert!(
        summary.cells[0]
            .notes
            .contains(&"locked memory (all) was not granted: RLIMIT_MEMLOCK is 64 KiB".to_owned())
    );
    assert_eq!(
        summary.verdict.sentence,
        "p99 release latency 90 us with no added load, at most 2.6 ms in 6,008 releases; skipped 8 of 6,008 releases (0.133 %). \
         4 spikes caused by the fair server: scheduler policy, not machine latency"
    );
}

#[test]
fn spikes_are_listed_worst_first() {
    let mut block = vec![late(20 * US); 3_000];
    for (i, cycle) in block.iter_mut().enumerate().step_by(100) {
        cycle.late_ns = 510 * US + i as u64;
    }

    let summary = Summary::of_run(&run("P", "idle", &[block]), None);
    let spikes: Vec<u64> =
        summary.cells[0].spikes.iter().map(|spike| spike.wakeup_latency_ns).collect();
    assert_eq!((spikes.len(), spikes[0], summary.cells[0].spike_count), (30, 512_900, Some(30)));
    assert!(spikes.is_sorted_by(|a, b| a >= b));
}
