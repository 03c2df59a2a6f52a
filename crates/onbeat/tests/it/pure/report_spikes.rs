//! There is one number of spikes: counts, causes, tables, sentences, exports and comparisons say
//! the same, also where the limit of a spike moves from interval to interval.

use crate::report_world::{MS, US, cell, header};
use onbeat::cause::{Cause, CauseKind, Explanation};
use onbeat::record::{Account, Header, Recorder, Recording, RunFile, RunWriter, SpikeLimit, Why};
use onbeat_report::compare::{Comparison, Digest, SHARES};
use onbeat_report::units::{Letters, count, time_ns};
use onbeat_report::{Summary, causes, closing, export, spikes};
use onbeat_rt::{End, Instant, Outcome, Sample};
use serde_json::json;

const CYCLES: u64 = 5_000;
const INTERVAL: u64 = 500;

/// The loop's latency changes from interval to interval, so that one and the same latency is a
/// spike in some of them only.
fn late_ns(index: u64) -> u64 {
    let median = [4, 40, 9, 22, 70][(index / INTERVAL % 5) as usize] * US;
    match index {
        // The first interval begins with a median that its end does not have.
        0..60 => return if index % 20 == 7 { 100 * US } else { 30 * US },
        // A sample that begins an interval: a spike by the limit of one interval, and none by that
        // of the one before.
        _ if index.is_multiple_of(INTERVAL) => return 300 * US,
        _ => {}
    }

    if index % 23 == 7 { median + index * 7_919 % 700 * US } else { median }
}

/// A run whose spikes are explained as a probe does it: those that are spikes by what is known when
/// they happen.
fn run(tuning: &str) -> (RunFile, u64) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.onbeat.hlog");
    let header = Header { cell: Some(cell(tuning, "paper")), ..header(None) };
    let recording = Recording {
        period_ns: MS,
        work_ns: 0,
        interval_ns: INTERVAL * MS,
        spike_limit: SpikeLimit::TenTimesMedian,
    };
    let mut recorder =
        Recorder::new(RunWriter::create(&path, &header).unwrap(), Instant::from_ns(0), recording);
    recorder.begin_block(0, Instant::from_ns(0), "paper", 0).unwrap();

    let mut explained = 0;
    for index in 0..CYCLES {
        let release = Instant::from_ns(index * MS);
        let sample =
            Sample { index, release, wakeup_latency_ns: late_ns(index), ..Sample::default() };
        let explanation = recorder.is_spike(&sample).then(|| {
            explained += 1;
            let kind = if index % 2 == 0 { CauseKind::HypervisorSteal } else { CauseKind::Softirq };
            let cause = Cause {
                kind,
                ns: sample.wakeup_latency_ns,
                evidence: "counted".to_owned(),
                culprit: None,
            };
            Explanation::from_causes(vec![cause])
        });

        recorder.sample_with(&sample, Why { explanation, ..Why::default() }).unwrap();
    }

    let last_end = Instant::from_ns(CYCLES * MS);
    let outcome = Outcome {
        end: End::Complete,
        slots: CYCLES,
        cycles: CYCLES,
        skipped: 0,
        skipped_at_end: 0,
        last_end,
    };
    recorder.end_block(&outcome).unwrap();
    recorder.close(&Account::default()).unwrap();
    (RunFile::read(&path).unwrap(), explained)
}

#[test]
fn the_limit_of_this_run_moves_so_that_it_decides() {
    let over = |ns: u64| (0..CYCLES).filter(|index| late_ns(*index) > ns).count();
    let (_, explained) = run("none");
    assert!(explained > 50, "{explained}");
    assert!(
        over(90 * US) as u64 > explained,
        "some latencies are spikes in one interval and none in another"
    );
}

#[test]
fn every_place_says_the_same_number_of_spikes() {
    let (file, all) = run("none");
    let summary = Summary::of_run(&file, None);
    let cell = &summary.cells[0];

    // Account and causes.
    assert_eq!(cell.spike_count, Some(all));
    assert_eq!(cell.causes.values().map(|of| of.spikes).sum::<u64>(), all);

    // Terminal.
    let table = spikes::worst(&summary, Letters::Ascii).unwrap();
    assert!(table.title.ends_with(&format!("of {} spikes", count(all))), "{}", table.title);
    let sentences = causes::sentences(&summary.cells, &summary.loads);

    assert!(sentences[0].contains(&format!("{} spikes: ", count(all))), "{}", sentences[0]);
    let closing = closing::of(&summary);
    let cause = closing.iter().find(|line| line.label == "cause").unwrap();
    assert!(cause.text.contains(&format!("of {} spikes", count(all))), "{}", cause.text);

    // Machine-readable.
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!(json["cells"][0]["spike_count"], all);
    let mut metrics = Vec::new();
    export::openmetrics::write(std::slice::from_ref(&file), &mut metrics).unwrap();
    let metrics = String::from_utf8(metrics).unwrap();
    let line = metrics.lines().find(|line| line.starts_with("onbeat_spikes_total{")).unwrap();

    assert!(line.ends_with(&format!(" {all}")), "{line}");

    // Beside another run.
    let other = run("P").0;
    let digest = |name: &str, place, run: &RunFile| {
        Digest::new(name, place, Summary::of_run(run, None), std::slice::from_ref(run), &SHARES)
    };
    let comparison = Comparison::new(&[digest("one", 0, &file), digest("other", 1, &other)]);
    let json = serde_json::to_value(&comparison).unwrap();

    for cell in json["cells"].as_array().unwrap() {
        assert_eq!(
            (&cell["runs"][0]["spikes"], &cell["runs"][1]["spikes"]),
            (&json!(all), &json!(all))
        );
    }

    assert!(file.spikes.len() as u64 <= all, "none is listed that was not counted");
}

#[test]
fn every_place_says_the_same_time_of_the_worst_spike() {
    let (file, _) = run("none");
    let summary = Summary::of_run(&file, None);
    let cell = &summary.cells[0];
    let worst_ns = file.spikes.iter().map(|spike| spike.wakeup_latency_ns).max().unwrap();
    let in_words = time_ns(worst_ns, Letters::Ascii);

    assert_eq!(cell.spikes[0].wakeup_latency_ns, worst_ns);
    assert_eq!(cell.spikes[0].causes.iter().map(|cause| cause.ns).sum::<u64>(), worst_ns);
    let (_, of_kind) = cell.causes.iter().max_by_key(|(_, of)| of.worst_ns).unwrap();
    assert_eq!(of_kind.worst_ns, worst_ns);
    let table = spikes::worst(&summary, Letters::Ascii).unwrap();

    assert!(format!("{:?}", table.rows[0]).contains(&in_words), "{:?}", table.rows[0]);
    let sentences = causes::sentences(&summary.cells, &summary.loads);
    assert!(sentences[0].contains(&format!("worst {in_words})")), "{}", sentences[0]);
}

#[test]
fn what_the_terminal_advises_stands_in_the_json() {
    let (file, _) = run("none");
    let summary = Summary::of_run(&file, None);
    let json = serde_json::to_value(&summary).unwrap();
    let first = &json["cells"][0]["remedies"][0];
    let kind = cell_kind(&summary);

    assert_eq!(first["kind"], serde_json::to_value(kind).unwrap(), "the kind of most spikes");
    let texts: Vec<&str> =
        first["texts"].as_array().unwrap().iter().filter_map(|text| text.as_str()).collect();
    let said = if texts.is_empty() { "no further remedy".to_owned() } else { texts.join("; ") };
    assert!(summary.causes[1].contains(&said), "{said}: {:?}", summary.causes);
}

/// The kind that most spikes of the first cell have.
fn cell_kind(summary: &Summary) -> CauseKind {
    let mut kinds: Vec<_> =
        summary.cells[0].causes.iter().map(|(kind, of)| (of.spikes, *kind)).collect();
    kinds.sort_by_key(|(spikes, _)| std::cmp::Reverse(*spikes));
    kinds[0].1
}
