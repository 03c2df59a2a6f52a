//! Logs are played: into rings, with the times and the numbers of what was recorded, at their own pace
//! or as fast as they can be read; to LCM, in its own encoding, by the command line.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)] // JSON of one test each.

use crate::equipment;
use crate::way;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use equipment::{Python, done, onbeat, root, trial};
use libtest_mimic::Trial;
use onbeat_control::{Reading, RingReader, Start};
use onbeat_gateway::{
    Compression, GatewayError, LogWriter, PlayAccount, PlayOrder, PlayStart, play,
};
use serde_json::{Value, json};

const POINT: (&str, &str) = ("demo_msgs/msg/Point", "uint64 n\n");
/// Difference of the two clocks in a log, in ns.
const UTC_OFFSET_NS: u64 = 1_700_000_000_000_000_000;
/// Messages in LCM's own encoding: they fit into the kernel's smallest receive buffer.
const OF_LCM: usize = 100;

pub(crate) fn trials() -> Vec<Trial> {
    let tests = [
        trial("logs_play::every_record_of_a_log_is_in_its_ring", || Ok(()), all_records),
        trial(
            "logs_play::two_channels_are_played_in_the_order_of_their_times",
            || Ok(()),
            in_order,
        ),
        trial("logs_play::no_record_comes_before_its_time", || Ok(()), at_its_pace),
        trial("logs_play::a_stopped_player_reports_what_it_played", || Ok(()), stopped),
        trial("logs_play::an_order_that_cannot_be_played_is_refused", || Ok(()), refused),
        trial("logs_play::a_log_of_others_is_played_into_a_ring", Python::equip, of_others),
        trial(
            "logs_play::the_command_line_speaks_lcm_to_its_python_classes",
            python_and_onbeat,
            commands,
        ),
    ];
    Vec::from(tests)
}

fn python_and_onbeat() -> Result<(Python, PathBuf), String> {
    Ok((way::equip()?, onbeat()?))
}

fn point(number: u64) -> Vec<u8> {
    [0, 1, 0, 0].into_iter().chain(number.to_le_bytes()).collect()
}

/// A channel of this process.
fn channel(topic: &str) -> String {
    format!("play-{}/{topic}", std::process::id())
}

/// Writes a log as `onbeat message record` does, of records with these numbers and times.
fn log(path: &Path, channels: &[(&str, &[(u64, u64)])]) {
    let mut log = LogWriter::create(path, Compression::Lz4).unwrap();
    let offset = UTC_OFFSET_NS.to_string();
    let texts = [("onbeat:utc_offset_ns", offset.as_str()), ("onbeat:description", "{\"a\": 1}")];
    for (topic, records) in channels {
        let of = log.add_channel(&channel(topic), POINT.0, POINT.1, &texts).unwrap();
        for (number, at_ns) in *records {
            log.write(of, *number, at_ns + UTC_OFFSET_NS, &point(*number)).unwrap();
        }
    }
    log.finish().unwrap();
}

fn order(path: &Path, more: Value) -> PlayOrder {
    let mut order = json!({ "log": path, "rate": 0.0 });
    order.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(order).unwrap()
}

/// A record as its reader sees it.
type Seen = (u64, u64, Vec<u8>);

/// All records of a ring, whose writer has ended.
fn drained(reader: &mut RingReader) -> Vec<Seen> {
    let mut seen = Vec::new();
    loop {
        match reader.next() {
            Reading::Record { number, at_ns, bytes } => seen.push((number, at_ns, bytes.to_vec())),
            Reading::Lost(lost) => panic!("{lost} records lost"),
            Reading::Nothing => return seen,
        }
    }
}

/// Plays a log; the readers of these channels are open before the first record.
fn played(order: &PlayOrder, channels: &[&str]) -> (PlayAccount, PlayStart, Vec<RingReader>) {
    let mut readers = Vec::new();
    let mut start = PlayStart::default();
    let ready = |begun: &PlayStart| {
        let open = |name: &&str| RingReader::open(&name.parse().unwrap(), Start::Oldest).unwrap();
        readers.extend(channels.iter().map(open));
        start = begun.clone();
        Ok(())
    };
    let account = play(order, ready, || false).unwrap();
    (account, start, readers)
}

fn all_records((): &()) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.mcap");
    // Four records are missing.
    let numbers = (1..=20_000).filter(|number| ![700, 800, 801, 802].contains(number));
    let records: Vec<(u64, u64)> = numbers.map(|number| (number, number * 1_000_000)).collect();
    log(&path, &[("all", &records)]);
    let name = channel("all");
    let (account, start, mut readers) = played(&order(&path, json!({})), &[&name]);

    let wanted =
        (1..).zip(&records).map(|(place, (number, at_ns))| (place, *at_ns, point(*number)));
    assert!(drained(&mut readers[0]).into_iter().eq(wanted), "other records than in the log");
    let record_type = readers[0].record_type();
    assert_eq!((record_type.name.as_str(), record_type.schema.as_str()), POINT);
    assert_ne!(record_type.hash, [0; 32]);
    assert_eq!(
        (readers[0].utc_offset_ns(), readers[0].description()),
        (UTC_OFFSET_NS, "{\"a\": 1}".into())
    );
    assert!(readers[0].check_alive().unwrap_err().to_string().ends_with("has ended"));

    assert_eq!((start.records, start.log_ns, start.cut.as_str()), (19_996, 19_999_000_000, ""));
    let of = &account.channels[0];
    assert_eq!((of.received, of.lost, of.gaps), (19_996, 4, 2));
    assert_eq!((of.channel.as_str(), account.dropped), (name.as_str(), 0));
}

/// A log has the records of one channel after those of another.
fn in_order((): &()) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.mcap");
    let ms = |ms: u64| (ms, ms * 1_000_000);
    let [left, right]: [Vec<_>; 2] =
        [1, 2].map(|first| (0..50).map(|k| ms(first + 2 * k)).collect());
    log(&path, &[("left", &left), ("right", &right)]);
    let names = [channel("left"), channel("right")];
    let order = order(&path, json!({ "rate": 1.0 }));

    let mut readers = Vec::new();
    let ready = |_: &PlayStart| {
        let open = |name: &String| RingReader::open(&name.parse().unwrap(), Start::Oldest).unwrap();
        readers.extend(names.iter().map(open));
        Ok(())
    };
    let account = play(&order, ready, || false).unwrap();
    assert_eq!([0, 1].map(|place| account.channels[place].received), [50, 50]);
    for (reader, records) in readers.iter_mut().zip([left, right]) {
        let seen = drained(reader);
        assert!(seen.iter().map(|it| it.1).eq(records.iter().map(|it| it.1)));
    }
}

fn at_its_pace((): &()) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pace.mcap");
    let records: Vec<_> = (1..=11).map(|number| (number, number * 20_000_000)).collect();
    log(&path, &[("pace", &records)]);
    for (rate, shortest_ms) in [(1.0, 200), (4.0, 50)] {
        let began = Instant::now();
        let order = order(&path, json!({ "rate": rate }));
        let (account, ..) = played(&order, &[]);
        assert!(began.elapsed() >= Duration::from_millis(shortest_ms), "rate {rate}");
        assert_eq!(account.channels[0].received, 11);
    }

    // The tenth record is 180 ms after the first one.
    let order = order(&path, json!({ "rate": 1.0, "for_ns": 170_000_000 }));
    let (account, ..) = played(&order, &[]);
    assert!(account.channels[0].received <= 9, "{account:?}");
}

fn stopped((): &()) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stopped.mcap");
    log(&path, &[("stopped", &[(1, 0), (2, 3_600_000_000_000)])]);
    let began = Instant::now();
    let order = order(&path, json!({ "rate": 1.0 }));
    let is_stopped = || began.elapsed() > Duration::from_millis(30);
    let account = play(&order, |_| Ok(()), is_stopped).unwrap();
    assert!(account.channels[0].received <= 1, "{account:?}");
}

fn refused((): &()) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("refused.mcap");
    log(&path, &[("refused", &[(1, 1)])]);
    let no_log = folder.path().join("no.mcap");
    std::fs::write(&no_log, "this is a text, and no log").unwrap();
    let empty = folder.path().join("empty.mcap");
    log(&empty, &[]);

    let refusal = |order: &PlayOrder| -> GatewayError {
        play(order, |_| panic!("an order that is refused"), || false).unwrap_err()
    };
    for (order, why) in [
        (order(&folder.path().join("none"), json!({})), "cannot open"),
        (order(&no_log, json!({})), "a log is an MCAP file"),
        (order(&empty, json!({})), "has no messages"),
        (
            order(&path, json!({ "channels": [{ "topic": "other" }] })),
            "has no messages of other; it has those of play-",
        ),
        (order(&path, json!({ "rate": -1.0 })), "a rate of -1 is not valid"),
        (
            order(&path, json!({ "channels": [{ "topic": channel("refused"), "remote": "no" }] })),
            "NAME/TOPIC",
        ),
        (order(&path, json!({ "to": "smoke://signals" })), "is not the address of a network"),
    ] {
        let said = refusal(&order).to_string();
        assert!(said.contains(why), "{said}");
    }
}

/// The Python package `mcap` has written it; its topics have no name before the slash.
fn of_others(python: &Python) {
    let folder = tempfile::tempdir().unwrap();
    for how in ["lz4", "none", "unchunked"] {
        let path = folder.path().join(how);
        done(python.script("logs.py").arg("write").arg(&path).arg(how));
        let name = channel(&format!("others.{how}"));
        let selected = json!({ "channels": [{ "topic": "/left", "remote": name }] });
        let (account, start, mut readers) = played(&order(&path, selected), &[&name]);
        let seen = drained(&mut readers[0]);

        let times = (0..1000).map(|number| number * 1000);
        assert!(seen.iter().map(|it| it.1).eq(times), "{how}");
        let angle = |it: &Seen| f64::from_le_bytes(it.2[4..12].try_into().unwrap());
        assert!(seen.iter().map(angle).eq((0..1000).map(f64::from)), "{how}");
        assert_eq!(readers[0].record_type().name, "demo_msgs/msg/Knee");
        assert_eq!((account.channels[0].lost, start.records), (0, 1000), "{how}");
    }
}

/// A channel of lcm-gen's messages is received, recorded, sent, and played, all by commands.
fn commands((python, onbeat): &(Python, PathBuf)) {
    let folder = tempfile::tempdir().unwrap();
    let mut script = python.script("lcm_commands.py");
    script.arg(onbeat).arg(root().join("tests/messages/lcm/demo.lcm"));
    script.arg(folder.path()).arg(OF_LCM.to_string()).env("ONBEAT_STATE_DIR", folder.path());
    let output = done(&mut way::in_namespace(&mut script));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();

    let sent = said["sent"].as_u64().unwrap();
    assert!(sent > OF_LCM as u64, "{said}");
    assert_eq!((&said["back"], &said["again"]), (&json!(OF_LCM), &json!(sent)), "{said}");
    let accounts = ["receive", "send", "record", "play"].map(|verb| &said["accounts"][verb]);
    assert_eq!((&accounts[0]["strange"], &accounts[0]["lost"]), (&json!(1), &json!(0)), "{said}");
    for account in &accounts[1..] {
        assert_eq!(account["channels"][0]["lost"], 0, "{said}");
    }
    assert_eq!(accounts[1]["not_encoded"], 0, "{said}");
    assert_eq!(
        (&accounts[3]["not_encoded"], &accounts[3]["dropped"]),
        (&json!(0), &json!(0)),
        "{said}"
    );
    assert_eq!(accounts[3]["channels"][0]["received"], sent, "{said}");
}
