//! The events around spikes: what a run file keeps of a day is bounded, and the worst spikes are in
//! it.

use std::collections::BTreeSet;

use onbeat::cause::keep::PACKED_MOST;
use onbeat::cause::{Cause, CauseKind, Explanation, KeptWindow, SpikeFacts};
use onbeat::probe;
use onbeat::record::{
    Account, Recorder, Recording, RunFile, RunWriter, Series, SpikeLimit, Timing, Why, WindowFate,
};
use onbeat_report::{Letters, Summary, spikes};
use onbeat_rt::{End, Instant, Outcome, Sample};

const SECOND: u64 = 1_000_000_000;
const PERIOD: u64 = 10_000_000;
const LIMIT: u64 = 50_000;

/// A run of `cycles` at 100 Hz; `late` says how late each is, and each spike's window is as large
/// as one may be.
fn run(cycles: u64, late: impl Fn(u64) -> u64) -> RunFile {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.onbeat.hlog");
    let timing = Timing {
        period_ns: PERIOD,
        phase_ns: 0,
        avoids_tick: false,
        deadline_ns: PERIOD,
        work_ns: 0,
        wait: "sleep".to_owned(),
        on_overrun: "skip".to_owned(),
        cpu: Some(1),
        priority: 0,
        delay_ns: 0,
    };

    let mut header =
        probe::header(&["onbeat".to_owned()], "timer", &[Series::ReleaseLatency], 1_763_712_000.5);
    header.timing = Some(timing);
    let recording = Recording {
        period_ns: PERIOD,
        work_ns: 0,
        interval_ns: SECOND,
        spike_limit: SpikeLimit::Above(LIMIT),
    };
    let mut recorder =
        Recorder::new(RunWriter::create(&path, &header).unwrap(), Instant::from_ns(0), recording);
    recorder.begin_block(0, Instant::from_ns(0), "idle", 0).unwrap();
    for index in 0..cycles {
        let release = Instant::from_ns(index * PERIOD);
        let sample = Sample { index, release, wakeup_latency_ns: late(index), ..Sample::default() };
        let why = if recorder.is_spike(&sample) { why(&recorder, &sample) } else { Why::default() };
        recorder.sample_with(&sample, why).unwrap();
    }

    let last_end = Instant::from_ns(cycles * PERIOD);
    let outcome = Outcome {
        end: End::Complete,
        slots: cycles,
        cycles,
        skipped: 0,
        skipped_at_end: 0,
        last_end,
    };
    recorder.end_block(&outcome).unwrap();
    recorder
        .close(&Account { causes_cpu_ns: SECOND / 2, causes_bytes: 1 << 20, ..Account::default() })
        .unwrap();
    RunFile::read(&path).unwrap()
}

fn why(recorder: &Recorder, sample: &Sample) -> Why {
    let cause = Cause {
        kind: CauseKind::HypervisorSteal,
        ns: sample.wakeup_latency_ns,
        evidence: "counted".to_owned(),
        culprit: None,
    };

    let facts = SpikeFacts { release: sample.release, tid: 7, ..SpikeFacts::default() };
    let window = || KeptWindow { facts, events: 3, left_out: 0, packed: "A".repeat(PACKED_MOST) };
    let window = recorder.wants_window(sample).then(window);
    Why { explanation: Some(Explanation::from_causes(vec![cause])), window, ..Why::default() }
}

/// Spread over 51 to 1051 µs without an order: 7919 is a prime.
fn scattered(index: u64) -> u64 {
    51_000 + index * 7919 % 1_000_003
}

#[test]
fn a_file_with_a_hundred_thousand_spikes_holds_two_mebibytes_of_events_at_most_and_the_worst_are_in_it()
 {
    let file = run(100_000, scattered);
    let bytes: usize = file.windows.iter().map(|window| window.packed.len()).sum();
    assert!(bytes <= 2 << 20, "{bytes} bytes");
    let mut worst: Vec<u64> = file.spikes.iter().map(|spike| spike.wakeup_latency_ns).collect();
    worst.sort_unstable_by(|a, b| b.cmp(a));
    let kept: BTreeSet<u64> = file
        .spikes
        .iter()
        .filter(|spike| spike.window == Some(WindowFate::Kept))
        .map(|spike| spike.wakeup_latency_ns)
        .collect();

    assert_eq!(kept.len(), file.windows.len());
    // Windows as large as these fill half of the room with 85; from there on only a worse one by a
    // quarter is kept.
    let best_kept = *kept.last().unwrap();
    assert!(
        best_kept * 5 >= worst[0] * 4,
        "the worst, {} ns, is within a quarter of {best_kept}",
        worst[0]
    );
    assert!(
        file.spikes.iter().all(|spike| spike.window.is_some()),
        "each says what became of its window"
    );
}

#[test]
fn a_window_follows_its_spike_and_has_its_facts() {
    let file = run(500, |index| if index % 100 == 50 { 60_000 + index } else { 5_000 });
    assert_eq!((file.spikes.len(), file.windows.len()), (5, 5));
    for spike in &file.spikes {
        let window = file.window_of(spike).unwrap();
        assert_eq!(window.facts().release, Instant::from_ns(spike.index * PERIOD));
    }
}

#[test]
fn spikes_have_their_place_in_the_file_as_a_number_and_keep_it_in_the_summary() {
    let file = run(500, |index| if index % 100 == 50 { 60_000 + index } else { 5_000 });
    assert_eq!(file.spikes.iter().map(|spike| spike.number).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    let summary = Summary::of_run(&file, None);
    let cell = &summary.cells[0];

    assert_eq!(
        cell.spikes.iter().map(|spike| spike.number).collect::<Vec<_>>(),
        [5, 4, 3, 2, 1],
        "worst first"
    );
    assert_eq!((cell.windows, cell.window_bytes), (5, 5 * PACKED_MOST as u64));
    assert_eq!(cell.causes_cpu_share, Some(0.1), "half a second of five");
    let words = spikes::windows_in_words(&summary).unwrap();
    assert_eq!(words, "The events around 5 of 5 spikes are kept (60 KiB): onbeat export --list");
    let table = spikes::worst(&summary, Letters::Ascii).unwrap();

    assert_eq!(table.rows[0].entries[0].text, "5");
    let names: Vec<&str> = table.columns.iter().map(|column| column.header.as_str()).collect();
    assert_eq!(names, ["spike", "at, s", "wake-up", "events", "cause"]);
    assert!(!std::fs::read_to_string(&file.path).is_ok_and(|text| text.contains("\"number\"")));
}

#[test]
fn without_a_recorder_no_window_is_spoken_of() {
    let summary = Summary::of_run(&run(10, |_| 5_000), None);
    assert_eq!(spikes::windows_in_words(&summary), None);
    assert!(spikes::worst(&summary, Letters::Ascii).is_none());
}
