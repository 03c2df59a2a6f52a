//! Messages travel by ROS 2's names, without a ROS 2 installation: from a ring to Python's
//! `cyclonedds`, which decodes them, encodes them again and publishes them, and from there to another
//! ring, the same bytes.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod equipment;
mod random_messages;
mod way;

use std::process::{Command, ExitCode};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use equipment::{Python, trial};
use libtest_mimic::Arguments;
use onbeat_control::Reading;
use onbeat_message::{TypeSet, Value};
use serde_json::json;
use way::{Carried, Network, Way};

/// Messages on the way at a time.
const BATCH: usize = 50;
/// Longest random message.
const MOST_BYTES: usize = 1 << 14;
const JOINTS: &str = "demo_msgs/msg/JointState";

fn main() -> ExitCode {
    let tests = [
        trial(
            "cyclonedds_encodes_random_messages_of_each_type_to_the_same_bytes",
            equip,
            same_bytes,
        ),
        trial("long_messages_come_back", equip, long_messages_come_back),
        trial("a_receiver_that_is_stopped_counts_what_it_lost", equip, counted),
        trial("java_of_ihmc_sends_random_messages_back_with_the_same_bytes", equip_java, by_java),
    ];
    libtest_mimic::run(&Arguments::from_args(), Vec::from(tests)).exit_code()
}

fn equip() -> Result<Python, String> {
    // Trials run beside each other, and one installs.
    static PYTHON: OnceLock<Result<Python, String>> = OnceLock::new();
    PYTHON.get_or_init(|| way::equip()?.with_ros2()).clone()
}

/// As above, with the classes that `make test-interop-java` fetches.
fn equip_java() -> Result<Python, String> {
    match std::env::var_os("ONBEAT_IHMC") {
        Some(_) => way::equip(),
        None => {
            Err("27 MB of Java from Maven Central; `make test-interop-java` runs it".to_owned())
        }
    }
}

/// A way for messages of a type; `test` is part of the topic.
fn way_for(python: &Python, types: &TypeSet, of: &str, test: &str) -> Way {
    let carried =
        Carried { type_name: of.to_owned(), schema: types.text(of).unwrap(), lcm: Vec::new() };
    let reliability = if test == "lost" { "best_effort" } else { "reliable" };
    let topic = format!("{}_{test}", of.rsplit('/').next().unwrap());
    let most_bytes = if of == JOINTS { 1 << 18 } else { MOST_BYTES };
    Way::with_type(python, Network::Ros2(reliability), &topic, most_bytes, &carried)
}

fn same_bytes(python: &Python) {
    let types = random_messages::types();
    for of in types.names() {
        let messages = random_messages::encoded(&types, of, random_messages::count());
        let mut way = way_for(python, &types, of, "random");
        // A message without fields has one value only: then nothing distinguishes the mark from a hello.
        way.connect(&messages[0], &messages[1]);
        for batch in messages.chunks(BATCH) {
            way.exchange(batch);
        }

        let Way { writer, echo, sent, .. } = way;
        drop(writer);
        let end = echo.end();
        assert_eq!(end[1]["channels"][0]["received"], sent, "{of}: {end:?}");
        assert_eq!((&end[0]["lost"], &end[0]["strange"]), (&json!(0), &json!(0)), "{of}: {end:?}");
        assert_eq!(end[1]["dropped"], 0, "{of}: {end:?}");
        println!("{of}: {} messages, the same bytes", messages.len());
    }
}

/// A message whose positions make up most of its bytes; `number` is its time.
fn joints(types: &TypeSet, number: u32, positions: usize) -> Vec<u8> {
    let mut stamp = types.default_value("demo_msgs/msg/Time").unwrap();
    stamp.set("nanosec", Value::Uint(number.into()));
    let mut header = types.default_value("demo_msgs/msg/Stamp").unwrap();
    header.set("stamp", stamp);
    let mut message = types.default_value(JOINTS).unwrap();
    message.set("header", header);
    let value = |place| Value::Float64(f64::from(number) + place as f64);
    message.set("position", Value::List((0..positions).map(value).collect()));
    types.encode(JOINTS, &message).unwrap()
}

/// Beyond one datagram, DDS sends fragments.
fn long_messages_come_back(python: &Python) {
    let types = random_messages::types();
    let mut way = way_for(python, &types, JOINTS, "long");
    way.connect(&joints(&types, 0, 0), &joints(&types, 1, 0));
    for positions in [0, 1, 170, 8_000, 8_180, 8_190, 8_200, 25_000] {
        way.exchange(&[joints(&types, 2, positions)]);
    }
    assert_eq!(way.echo.end()[0]["lost"], 0);
}

/// Stops the receiver of a way while messages of 16 KB are published.
fn publish_while_stopped(way: &mut Way, types: &TypeSet, count: u32) {
    let receiver = way.reader.writer().0.to_string();
    let signal = |name: &str| equipment::done(Command::new("kill").args([name, &receiver]));
    signal("-STOP");
    for number in 0..count {
        way.publish(&joints(types, number + 2, 2000));
        std::thread::sleep(Duration::from_millis(1));
    }
    // Python may have no CPU for a second, and what it sends behind that is not lost.
    std::thread::sleep(Duration::from_secs(4));
    signal("-CONT");
}

/// Python numbers what it publishes: what lies between the first and the last number that arrived is
/// received or counted.
fn counted(python: &Python) {
    let types = random_messages::types();
    let mut way = way_for(python, &types, JOINTS, "lost");
    let hello = joints(&types, 0, 0);
    let began = Instant::now();
    while way.reader.pending() == 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "no message comes back");
        way.publish(&hello);
        std::thread::sleep(Duration::from_millis(50));
    }
    publish_while_stopped(&mut way, &types, 1000);

    // The receiver joins again. Short messages then show that those before them are missing.
    let arrived = way.reader.pending();
    let began = Instant::now();
    while way.reader.pending() < arrived + 20 {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing comes back any more");
        way.publish(&hello);
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut numbers = Vec::new();
    while let Reading::Record { bytes, .. } = way.reader.next() {
        let message = types.value(JOINTS, bytes).unwrap();
        let stamp = message.field("header").and_then(|header| header.field("stamp"));
        match stamp.and_then(|stamp| stamp.field("sec")) {
            Some(Value::Int(number)) => numbers.push(*number),
            other => panic!("{other:?}"),
        }
    }
    let end = way.echo.end();
    let published = numbers[numbers.len() - 1] - numbers[0] + 1;
    assert!(end[0]["lost"].as_i64().unwrap() > 0, "{end:?}");
    assert_eq!(end[0]["received"], numbers.len(), "{end:?}");
    assert_eq!(end[0]["lost"], published - numbers.len() as i64, "{end:?}");
}

/// `sensor_msgs/msg/JointState` and what it uses (ROS 2, common_interfaces).
const SENSOR_MSGS: &str = "std_msgs/Header header\nstring[] name\nfloat64[] position\n\
    float64[] velocity\nfloat64[] effort\n\
    ===\nMSG: std_msgs/Header\nbuiltin_interfaces/Time stamp\nstring frame_id\n\
    ===\nMSG: builtin_interfaces/Time\nint32 sec\nuint32 nanosec\n";

/// The texts of IHMC's Java have a byte for each letter.
fn in_ascii(value: &Value) -> Value {
    match value {
        Value::Text(text) => Value::Text(text.iter().copied().filter(u8::is_ascii).collect()),
        Value::List(values) => Value::List(values.iter().map(in_ascii).collect()),
        Value::Message(fields) => {
            let same = |(name, value): &(String, Value)| (name.clone(), in_ascii(value));
            Value::Message(fields.iter().map(same).collect())
        }
        other => other.clone(),
    }
}

fn by_java(python: &Python) {
    let of = "sensor_msgs/msg/JointState";
    let types = TypeSet::from_text(of, SENSOR_MSGS).unwrap();
    let any = random_messages::encoded(&types, of, random_messages::count());
    let again = |message: &Vec<u8>| in_ascii(&types.value(of, message).unwrap());
    let messages: Vec<_> =
        any.iter().map(|message| types.encode(of, &again(message)).unwrap()).collect();
    let carried =
        Carried { type_name: of.to_owned(), schema: types.text(of).unwrap(), lcm: Vec::new() };
    let mut way = Way::with_type(python, Network::Ihmc, "java", MOST_BYTES, &carried);
    // IHMC's Java leaves in the padding of CDR what was in its buffer: what comes back is decoded, and
    // encoded to the same bytes.
    way.compared =
        Box::new(move |bytes| types.encode(of, &types.value(of, bytes).unwrap()).unwrap());
    way.connect(&messages[0], &messages[1]);
    messages.chunks(BATCH).for_each(|batch| way.exchange(batch));

    let Way { writer, echo, .. } = way;
    drop(writer);
    let end = echo.end();
    assert_eq!((&end[0]["lost"], &end[0]["strange"]), (&json!(0), &json!(0)), "{end:?}");
    println!("{of}: {} messages by IHMC's Java, the same bytes", messages.len());
}
