//! Events of bus and robot as notes of a run file: whole, bounded, counted, and under a limit.

use onbeat::probe::header;
use onbeat::record::{
    Account, Header, MOST_OF_A_KIND, Recorder, Recording, RunFile, RunWriter, Series, SpikeLimit,
};
use onbeat_ethercat::event::{Event, EventKind, NO_DEVICE};
use onbeat_report::gate::alarm_checks;
use onbeat_report::{Outcome, Summary, closing};
use onbeat_rt::time::Instant;
use onbeat_rt::{End, Outcome as LoopOutcome, Sample};

const MS: u64 = 1_000_000;
const CYCLES: u64 = 2_000;
/// What the bus probe is about.
const BUS_SERIES: [Series; 3] = [Series::ResponseTime, Series::RoundTrip, Series::DeviceInterval];

fn event(at_ms: u64, kind: EventKind, device: u16, code: u32) -> Event {
    Event { at_ns: at_ms * MS, cycle: at_ms, kind, device, old: 8, new: 4, code }
}

/// A run of two seconds with these events, the device of place 0 being the left knee.
fn run(events: &[Event], lost: u64, most_alarms: Option<u64>) -> RunFile {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bus.onbeat.hlog");
    let words = ["onbeat".to_owned()];
    let header = Header { most_alarms, ..header(&words, "bus", &BUS_SERIES, 0.0) };
    let recording = Recording {
        period_ns: MS,
        work_ns: 0,
        interval_ns: 1_000 * MS,
        spike_limit: SpikeLimit::TenTimesMedian,
    };
    let mut recorder =
        Recorder::new(RunWriter::create(&path, &header).unwrap(), Instant::from_ns(0), recording);
    recorder.begin_block(0, Instant::from_ns(0), "idle", 0).unwrap();

    for index in 0..CYCLES {
        let release = Instant::from_ns(index * MS);
        let sample = Sample {
            index,
            release,
            wakeup_latency_ns: 10_000,
            execution_time_ns: 20_000,
            ..Sample::default()
        };
        recorder.sample(&sample, None).unwrap();
    }

    for event in events {
        recorder.event(event, if event.device == 0 { "left knee" } else { "" }).unwrap();
    }

    recorder.lose_events(lost);
    let last_end = Instant::from_ns(CYCLES * MS);
    let outcome = LoopOutcome {
        end: End::Complete,
        slots: CYCLES,
        cycles: CYCLES,
        skipped: 0,
        skipped_at_end: 0,
        last_end,
    };
    recorder.end_block(&outcome).unwrap();
    recorder.close(&Account::default()).unwrap();
    RunFile::read(&path).unwrap()
}

fn summary(run: &RunFile, most: Option<u64>) -> Summary {
    Summary::of_run(run, None).with_most_alarms(most)
}

const OFF: [(u64, EventKind, u32); 5] = [
    (500, EventKind::WorkingCounterOff, 0),
    (502, EventKind::DeviceLost, 0),
    (1_000, EventKind::DeviceFound, 0),
    (1_022, EventKind::DeviceBack, 520_000),
    (1_023, EventKind::WorkingCounterBack, 522),
];

fn switched_off() -> Vec<Event> {
    let device = |kind| match kind {
        EventKind::WorkingCounterOff | EventKind::WorkingCounterBack => NO_DEVICE,
        _ => 0,
    };
    OFF.into_iter().map(|(at_ms, kind, code)| event(at_ms, kind, device(kind), code)).collect()
}

#[test]
fn a_drive_that_was_switched_off_is_named_with_the_time_it_was_gone() {
    let run = run(&switched_off(), 0, None);
    assert_eq!(run.events.len(), 5);
    let lost = &run.events[1];
    assert_eq!(
        (lost.kind, lost.device.as_deref(), lost.cycle),
        (EventKind::DeviceLost, Some("left knee"), 502)
    );
    assert!((lost.t - 0.502).abs() < 1e-9 && lost.alarm, "{lost:?}");
    let summary = summary(&run, None);
    let said = "left knee stopped answering at 0.502 s, back in OP after 0.520 s";

    assert!(onbeat_report::bench_sentences(&summary).iter().any(|sentence| sentence == said));
    let events = summary.cells[0].events.as_ref().unwrap();
    assert_eq!((events.alarm_count(), events.others.len(), events.listed.len()), (2, 3, 5));
    assert!(
        closing::of(&summary).iter().any(|line| line.label == "events" && line.text.contains(said))
    );
    assert_eq!(summary.verdict.outcome, None, "without a limit nothing is judged");
}

#[test]
fn emergencies_before_one_without_a_note_are_counted_as_well() {
    // `old` of each is the number of those before it that were not reported.
    let events = (0..MOST_OF_A_KIND + 2).map(|at| event(at, EventKind::Emergency, 0, 0x8611));
    let run = run(&events.collect::<Vec<_>>(), 0, None);
    let summary = summary(&run, None);
    let events = summary.cells[0].events.as_ref().unwrap();
    assert_eq!((events.alarm_count(), events.left_out), (9 * (MOST_OF_A_KIND + 2), 2 * 9));
}

#[test]
fn a_nuisance_does_not_make_the_file_grow_and_hides_no_other_kind() {
    let mut events: Vec<Event> =
        (0..50_000).map(|at| event(at % 2_000, EventKind::FrameLate, NO_DEVICE, 0)).collect();
    events.extend(switched_off());
    let run = run(&events, 7, None);
    let late = run.events.iter().filter(|event| event.kind == EventKind::FrameLate).count() as u64;

    assert_eq!((late, run.events.len() as u64), (MOST_OF_A_KIND, MOST_OF_A_KIND + 5));
    assert_eq!(run.events_left_out.alarms[&EventKind::FrameLate], 50_000 - MOST_OF_A_KIND);
    assert_eq!(run.events_left_out.lost, 7);
    let summary = summary(&run, None);
    let events = summary.cells[0].events.as_ref().unwrap();

    assert_eq!(
        (events.alarms[&EventKind::FrameLate], events.left_out),
        (50_000, 50_000 - MOST_OF_A_KIND)
    );
    assert!(
        events.incidents[0].starts_with("left knee stopped answering"),
        "{:?}",
        events.incidents
    );
    assert!(
        events.incidents.iter().any(|what| what == "7 events were lost between loop and recorder")
    );
}

#[test]
fn an_event_of_a_later_version_is_passed_over_and_anything_else_that_cannot_be_read_is_not() {
    let header = Header {
        schema: Header::SCHEMA.to_owned(),
        ..header(&["onbeat".to_owned()], "bus", &BUS_SERIES, 0.0)
    };
    let first = serde_json::to_string(&onbeat::record::Note::Run(Box::new(header))).unwrap();
    let read = |note: &str| {
        let text = format!("#[onbeat: {first}]\n#[onbeat: {note}]\n");
        RunFile::parse(std::path::Path::new("bus.onbeat.hlog"), text.as_bytes())
            .map(|run| run.events.len())
    };

    let event = |kind: &str| {
        format!(
            r#"{{"event":{{"t":1.0,"cycle":1,"kind":"{kind}","old":0,"new":0,"code":0,"alarm":true,"sentence":"it"}}}}"#
        )
    };

    assert_eq!(
        (read(&event("device_lost")).unwrap(), read(&event("of_the_future")).unwrap()),
        (1, 0)
    );
    assert!(read(r#"{"block":{"index":"none"}}"#).is_err());
}

#[test]
fn a_limit_on_alarms_decides_alone_and_beside_a_limit_on_latency() {
    let run_of = |events: &[Event]| run(events, 0, Some(0));
    let (bad, good) =
        (run_of(&switched_off()), run_of(&[event(1, EventKind::BusUp, NO_DEVICE, 2)]));
    assert_eq!(bad.header.most_alarms, Some(0));
    let failed = summary(&bad, Some(0));

    assert_eq!(failed.verdict.outcome, Some(Outcome::Fail));
    assert!(
        failed.verdict.sentence.starts_with("FAIL: 2 bus and robot alarms, 0 allowed: left knee"),
        "{failed:?}"
    );
    assert_eq!(closing::of(&failed)[0].text, "FAIL: 2 bus and robot alarms, 0 allowed");
    assert_eq!(summary(&bad, Some(2)).verdict.outcome, Some(Outcome::Pass));
    assert_eq!(summary(&good, Some(0)).verdict.outcome, Some(Outcome::Pass));
    let limit =
        |limit_ns| Some(onbeat_report::Limit { limit_ns, at: 75.0, on: Series::ReleaseLatency });
    let both = |run: &RunFile, ns| {
        Summary::of_run(run, limit(ns)).with_most_alarms(Some(0)).verdict.outcome
    };

    assert_eq!(
        (both(&good, 50_000), both(&good, 5_000)),
        (Some(Outcome::Pass), Some(Outcome::Fail))
    );
    assert_eq!((both(&bad, 50_000), both(&bad, 5_000)), (Some(Outcome::Fail), Some(Outcome::Fail)));
    let cells: Vec<_> = failed.cells.iter().collect();
    let checks = [alarm_checks("nightly", &cells, 0), alarm_checks("nightly", &cells, 2)].concat();
    assert_eq!(
        checks.iter().map(|check| check.outcome).collect::<Vec<_>>(),
        [Outcome::Fail, Outcome::Pass]
    );
}
