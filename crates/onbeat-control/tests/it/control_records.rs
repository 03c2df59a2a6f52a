//! Events, statistics and SDO requests in the image.

use crate::control_world;

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use control_world::{PATIENCE, client, exchange, layout, unique_name, until};
use onbeat_control::{
    BusRequest, BusSide, Client, ControlError, Counter, Image, RequestFailure, SdoAction,
    SdoRequest, Sharing, Timed,
};
use onbeat_ethercat::event::{Event, EventKind, NO_DEVICE};

fn world() -> (BusSide, Client) {
    let name = unique_name();
    let bus = Image::create(&name, &layout(), Sharing::WaitFree).unwrap();
    let client = client(&name);
    (bus, client)
}

fn event(number: u64) -> Event {
    let kind = EventKind::ALL[number as usize % EventKind::ALL.len()];
    Event {
        at_ns: number * 7,
        cycle: number,
        kind,
        device: NO_DEVICE,
        old: 1,
        new: u16::MAX,
        code: number as u32,
    }
}

#[test]
fn events_arrive_unchanged_and_in_order() {
    let (mut bus, client) = world();
    assert_eq!((client.events(0).events, client.events(0).next), (Vec::new(), 1));
    (1..=30).for_each(|number| bus.push(&event(number)));
    let all = client.events(1);

    assert_eq!(all.events, (1..=30).map(|number| (number, event(number))).collect::<Vec<_>>());
    assert_eq!((all.next, all.missed), (31, 0));
    assert_eq!(client.events(29).events.len(), 2);
    assert_eq!(client.events(31).events, []);
}

#[test]
fn a_slow_reader_learns_how_many_events_it_missed() {
    let (mut bus, client) = world();
    (1..=5000).for_each(|number| bus.push(&event(number)));
    let found = client.events(101);
    assert_eq!(
        found.missed + found.events.len() as u64,
        4900,
        "each event is read or counted as missed"
    );
    assert!(
        found.missed > 0
            && found.events.iter().all(|(number, found_event)| *found_event == event(*number))
    );
    assert_eq!(found.events.last().map(|(number, _)| *number), Some(5000));
    assert_eq!(client.events(found.next).missed, 0);
}

#[test]
fn events_are_read_consistently_while_others_are_published() {
    let (mut bus, client) = world();
    const EVENTS: u64 = 300_000;
    thread::scope(|threads| {
        threads.spawn(|| (1..=EVENTS).for_each(|number| bus.push(&event(number))));
        let mut next = 1;
        let mut read = 0;
        let mut missed = 0;
        while next <= EVENTS {
            let found = client.events(next);
            assert!(
                found.events.iter().all(|(number, found_event)| *found_event == event(*number))
            );
            (next, read, missed) =
                (found.next, read + found.events.len() as u64, missed + found.missed);
        }

        assert_eq!(read + missed, EVENTS);
    });
}

#[test]
fn times_are_counted_with_exact_maxima_and_quantiles_to_a_sixteenth() {
    let (bus, client) = world();
    (1..=1000).for_each(|us| bus.record(Timed::RoundTrip, us * 1000));
    let stats = client.stats();
    let times = stats.times(Timed::RoundTrip);

    assert_eq!((times.count(), times.max_ns()), (1000, 1_000_000));
    assert!((times.mean_ns() - 500_500.0).abs() < 1e-6);
    for (share, exact) in [(0.5, 500_000), (0.99, 990_000), (0.999, 999_000), (1.0, 1_000_000)] {
        let quantile = times.quantile_ns(share);
        assert!(quantile >= exact && quantile - exact <= exact / 16, "{share}: {quantile}");
    }

    assert_eq!(
        (stats.times(Timed::Exchange).count(), stats.times(Timed::Exchange).quantile_ns(0.5)),
        (0, 0)
    );
}

#[test]
fn the_text_of_the_statistics_has_a_key_and_a_value_in_each_line() {
    let (mut bus, client) = world();
    (1..=3).for_each(|number| _ = exchange(&mut bus, number));
    bus.count(Counter::FramesLost, 2);
    bus.record(Timed::WakeupLatency, 15);
    let text = client.stats_text();
    let pairs: BTreeMap<&str, &str> =
        text.lines().map(|line| line.split_once(' ').expect("a key and a value")).collect();

    assert_eq!(pairs.len(), text.lines().count(), "no key twice");
    let pid = std::process::id().to_string();
    let expected = [
        ("segment", "two joints"),
        ("bus_pid", pid.as_str()),
        ("sharing", "wait-free"),
        ("owner_pid", "0"),
        ("devices", "2"),
        ("cycles", "3"),
        ("frames_lost", "2"),
        ("wakeup_latency_count", "1"),
        ("wakeup_latency_p99.9_ns", "15"),
        ("wakeup_latency_max_ns", "15"),
        ("round_trip_count", "0"),
    ];
    expected.into_iter().for_each(|(key, value)| assert_eq!(pairs.get(key), Some(&value), "{key}"));
}

fn request(device: u16, action: SdoAction) -> SdoRequest {
    SdoRequest { device, index: 0x607D, entry: 2, complete: false, action }
}

/// Answers this number of requests with `serve`.
fn serving(
    bus: &BusSide,
    count: usize,
    serve: impl Fn(SdoRequest) -> Result<Vec<u8>, RequestFailure>,
) {
    let cold = bus.cold_side();
    let mut served = 0;
    until("requests come", || {
        while let Some(job) = cold.take_request() {
            let BusRequest::Sdo(asked) = job.request.clone() else { panic!("{:?}", job.request) };
            cold.answer(&job, &serve(asked));
            served += 1;
        }
        served >= count
    });
}

#[test]
fn an_sdo_request_and_its_answer_pass_through_the_image() {
    let (bus, client) = world();
    thread::scope(|threads| {
        threads.spawn(|| {
            serving(&bus, 5, |asked| match &asked.action {
                SdoAction::Write(bytes) if bytes.len() == 1024 && asked.complete => Ok(Vec::new()),
                SdoAction::Write(_) => Err(RequestFailure::Abort(0x0601_0002)),
                SdoAction::Read if asked == request(1, SdoAction::Read) => Ok(vec![1, 2, 3]),
                SdoAction::Read if asked.index == 1 => Ok(vec![0; 1025]),
                SdoAction::Read => Err(RequestFailure::NoReply),
            });
        });

        let ask = |asked: SdoRequest| client.request(&asked, PATIENCE).unwrap();
        assert_eq!(ask(request(1, SdoAction::Read)), Ok(vec![1, 2, 3]));
        let long = SdoRequest {
            complete: true,
            ..request(0, SdoAction::Write((0..1024).map(|n| n as u8).collect()))
        };
        assert_eq!(ask(long), Ok(Vec::new()));
        let refused = ask(request(0, SdoAction::Write(vec![1, 2, 3, 4]))).unwrap_err();

        assert_eq!(
            refused.to_string(),
            "the device refused with abort code 0x06010002: read-only object"
        );
        assert_eq!(ask(request(0, SdoAction::Read)), Err(RequestFailure::NoReply));
        assert_eq!(
            ask(SdoRequest { index: 1, ..request(0, SdoAction::Read) }),
            Err(RequestFailure::TooLong)
        );
    });
}

#[test]
fn requests_are_served_in_order() {
    let (bus, client) = world();
    let cold = bus.cold_side();
    thread::scope(|threads| {
        let mut jobs = Vec::new();
        for index in 1..=3 {
            let asked = SdoRequest { index, ..request(0, SdoAction::Read) };
            let client = &client;
            threads.spawn(move || client.request(&asked, PATIENCE).unwrap().unwrap());
            // One after the other; the middle one's record is free again before the third request.
            until("it is asked", || {
                jobs.extend(cold.take_request());
                jobs.len() == usize::from(index)
            });
        }

        let asked: Vec<BusRequest> = jobs.iter().map(|job| job.request.clone()).collect();
        let expected =
            [1, 2, 3].map(|index| SdoRequest { index, ..request(0, SdoAction::Read) }.into());
        assert_eq!(asked, expected);
        jobs.iter().for_each(|job| cold.answer(job, &Ok(Vec::new())));
    });
}

#[test]
fn an_invalid_request_is_refused_in_one_sentence() {
    let (bus, client) = world();
    let long = client.request(request(0, SdoAction::Write(vec![0; 1025])), PATIENCE);
    assert!(matches!(long, Err(ControlError::SdoTooLong { bytes: 1025, most: 1024 })));
    let nowhere = client.request(request(2, SdoAction::Read), PATIENCE);

    assert!(matches!(nowhere, Err(ControlError::NoDevice { device: 2, devices: 2, .. })));
    let soon = Duration::from_millis(3);
    for _ in 0..40 {
        let late = client.request(request(0, SdoAction::Read), soon);
        assert!(
            matches!(late, Err(ControlError::NoAnswer { ms: 3, .. })),
            "and its record is free: {late:?}"
        );
    }

    assert!(bus.cold_side().take_request().is_none(), "no requester waits for them any more");
}

#[test]
fn a_late_answer_frees_the_record() {
    let (bus, client) = world();
    let cold = bus.cold_side();
    for _ in 0..20 {
        thread::scope(|threads| {
            let asking = threads
                .spawn(|| client.request(request(0, SdoAction::Read), Duration::from_millis(20)));
            let mut job = None;
            until("it is asked", || {
                job = cold.take_request();
                job.is_some() || asking.is_finished()
            });

            let late = asking.join().unwrap();
            assert!(matches!(late, Err(ControlError::NoAnswer { .. })));
            job.iter().for_each(|job| cold.answer(job, &Ok(vec![1])));
        });
    }
}
