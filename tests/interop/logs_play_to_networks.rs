//! A log is played to ZeroMQ and to ROS 2 by the command line: Python's `pyzmq` and `cyclonedds` receive every message of it, the
//! same bytes in the same order.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod equipment;
mod random_messages;
mod way;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use equipment::{Python, done, onbeat, trial};
use libtest_mimic::Arguments;
use onbeat_gateway::{Compression, LogWriter};
use onbeat_message::TypeSet;
use serde_json::{Map, Value, json};

const ZMQ: &str = "tcp://127.0.0.1:5558";
const DOMAIN: &str = "8";
/// Time of the first record in the log, and from one to the next, in ns.
const FIRST_NS: u64 = 5_000_000_000;
const STEP_NS: u64 = 1_000;

fn main() -> ExitCode {
    let tests = [
        trial("pyzmq_receives_every_message_of_a_log", programs, by_zmq),
        trial("cyclonedds_receives_every_message_of_a_log", programs_with_ros2, by_ros2),
    ];
    libtest_mimic::run(&Arguments::from_args(), Vec::from(tests)).exit_code()
}

fn programs() -> Result<(Python, PathBuf), String> {
    Ok((way::equip()?, onbeat()?))
}

fn programs_with_ros2() -> Result<(Python, PathBuf), String> {
    Ok((way::equip()?.with_ros2()?, onbeat()?))
}

/// A channel of the log: its name there, its type, its messages.
struct LoggedTopic {
    topic: String,
    type_name: String,
    messages: Vec<Vec<u8>>,
}

/// Random messages of each type, on a channel of their own.
fn recorded(types: &TypeSet) -> Vec<LoggedTopic> {
    let channel = |type_name: &str| LoggedTopic {
        topic: format!("played/{}", type_name.rsplit('/').next().unwrap().to_lowercase()),
        type_name: type_name.to_owned(),
        messages: random_messages::encoded(types, type_name, random_messages::count()),
    };
    types.names().map(channel).collect()
}

/// Writes a log in which the channels take turns.
fn log(path: &Path, types: &TypeSet, recorded: &[LoggedTopic]) {
    let mut log = LogWriter::create(path, Compression::Lz4).unwrap();
    let texts = [("onbeat:utc_offset_ns", "0")];
    let channels: Vec<_> = recorded
        .iter()
        .map(|of| {
            let schema = types.text(&of.type_name).unwrap();
            log.add_channel(&of.topic, &of.type_name, &schema, &texts).unwrap()
        })
        .collect();

    for place in 0..random_messages::count() {
        let number = place as u64 + 1;
        for (channel, of) in channels.iter().zip(recorded) {
            log.write(*channel, number, FIRST_NS + number * STEP_NS, &of.messages[place]).unwrap();
        }
    }
    log.finish().unwrap();
}

/// A message as a peer received it.
#[derive(PartialEq)]
struct PeerMessage<'f> {
    number: u64,
    at_ns: u64,
    bytes: &'f [u8],
}

/// Splits the file of a peer.
fn peer_messages(file: &[u8]) -> Vec<PeerMessage<'_>> {
    let mut left = file;
    let mut all = Vec::new();
    while let Some((head, rest)) = left.split_first_chunk::<20>() {
        let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap());
        let length = u32::from_le_bytes(head[16..].try_into().unwrap()) as usize;
        let (bytes, rest) = rest.split_at(length);
        all.push(PeerMessage { number: word(0), at_ns: word(8), bytes });
        left = rest;
    }
    all
}

/// Plays a log to a peer of `network`, for which the program waits before the first record. Whether the network has the number and
/// the time of a record is `numbered`.
fn plays_to(equipped: &(Python, PathBuf), network: [&str; 2], to: &str, numbered: bool) {
    let (python, onbeat) = equipped;
    let folder = tempfile::tempdir().unwrap();
    let types = random_messages::types();
    let recorded = recorded(&types);
    let path = folder.path().join("played.mcap");
    log(&path, &types, &recorded);
    let described = |of: &LoggedTopic| {
        (of.topic.clone(), json!({ "type": of.type_name, "count": of.messages.len() }))
    };
    let channels: Map<String, Value> = recorded.iter().map(described).collect();

    let mut script = python.script("play_peer.py");
    script.args(network).arg(folder.path()).arg(Value::Object(channels).to_string());
    script.arg(onbeat).args(["message", "play"]).arg(&path);
    script.args(["--to", to, "--rate", "0", "--delay", "10s", "--json"]);
    script.env("ONBEAT_STATE_DIR", folder.path());
    let said = done(&mut way::in_namespace(&mut script)).stdout;
    let account: Value = serde_json::from_slice(&said).unwrap();

    for of in &recorded {
        let file = std::fs::read(folder.path().join(of.topic.replace('/', ":"))).unwrap();
        let wanted = (1..).zip(&of.messages).map(|(number, bytes)| match numbered {
            true => PeerMessage { number, at_ns: FIRST_NS + number * STEP_NS, bytes },
            false => PeerMessage { number: 0, at_ns: 0, bytes },
        });
        let seen = peer_messages(&file);
        assert_eq!(seen.len(), of.messages.len(), "{}: {account}", of.topic);
        assert!(seen.into_iter().eq(wanted), "{}: other messages than in the log", of.topic);
    }

    assert_eq!((&account["dropped"], &account["not_encoded"]), (&json!(0), &json!(0)), "{account}");
    let played = account["channels"].as_array().unwrap();
    let all = random_messages::count() as u64;
    assert!(played.iter().all(|of| of["received"] == all && of["lost"] == 0), "{account}");
    println!("{to}: {all} messages of each of {} types, the same bytes", recorded.len());
}

fn by_zmq(equipped: &(Python, PathBuf)) {
    plays_to(equipped, ["zmq", ZMQ], ZMQ, true);
}

fn by_ros2(equipped: &(Python, PathBuf)) {
    plays_to(equipped, ["ros2", DOMAIN], &format!("ros2://{DOMAIN}"), false);
}
