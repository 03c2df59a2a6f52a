//! The Java client reads messages without allocating memory, by the JVM's own counter of the reading
//! thread.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use crate::equipment;

use std::process::Command;

use equipment::{Java, done, root, trial};
use libtest_mimic::Trial;
use onbeat_control::{Channel, RecordType, RingSettings, RingWriter};

/// Messages of the shorter reading.
const MESSAGES: usize = 10_000;
/// Room for three readings: a warm one, a short one, and one four times as long.
const RECORDS: usize = 1 << 16;

pub(crate) fn trials() -> Vec<Trial> {
    let tests = [
        trial(
            "java_allocates_nothing::reading_rows_allocates_no_object_for_a_message",
            Java::equip,
            not_more,
        ),
        trial(
            "java_allocates_nothing::objects_for_each_message_would_be_counted",
            Java::equip,
            objects_are_counted,
        ),
    ];
    Vec::from(tests)
}

/// Publishes messages and has them read; returns the bytes of the shorter and of the longer reading.
fn allocated(java: &Java, how: &str) -> [u64; 2] {
    let name = format!("java_{how}_{}", std::process::id());
    let channel = Channel::new(&name, "state").unwrap();
    let schema = "uint64 n\nfloat64[14] joints\nuint32 last\n".to_owned();
    let record_type = RecordType { name: "demo_msgs/msg/State".to_owned(), schema, hash: [0; 32] };
    let settings = RingSettings {
        records: RECORDS,
        record_bytes: 128,
        record_type,
        ..RingSettings::default()
    };
    let mut writer = RingWriter::create(&channel, &settings).unwrap();
    for number in 1..=6 * MESSAGES as u64 {
        let mut message = [0; 128];
        message[1] = 1;
        message[4..12].copy_from_slice(&number.to_le_bytes());
        writer.publish(number, &message);
    }

    let classes = tempfile::tempdir().unwrap();
    let source = root().join("tests/interop/Allocations.java");
    done(
        Command::new("javac")
            .arg("-cp")
            .arg(&java.classes)
            .arg("-d")
            .arg(classes.path())
            .arg(source),
    );
    let mut path = java.classes.clone().into_os_string();
    path.push(":");
    path.push(classes.path());
    let mut read = Command::new("java");
    if how == "messages" {
        // The compiler, once it is done, leaves out objects that it finds unused.
        read.args(["-XX:+IgnoreUnrecognizedVMOptions", "-XX:-DoEscapeAnalysis"]);
    }
    read.arg("-cp").arg(path).args([
        "Allocations",
        &channel.to_string(),
        &MESSAGES.to_string(),
        how,
    ]);
    let output = String::from_utf8(done(&mut read).stdout).unwrap();
    let numbers: Vec<f64> = output.split_whitespace().map(|it| it.parse().unwrap()).collect();

    // All messages were read: the sum of their numbers, twice.
    let whole = (6 * MESSAGES) as f64;
    assert_eq!(numbers[2..], [0.0, whole * (whole + 1.0)], "{output}");
    [numbers[0] as u64, numbers[1] as u64]
}

fn not_more(java: &Java) {
    let [some, more] = allocated(java, "rows");
    println!("{some} bytes for {MESSAGES} messages, {more} for {}", 4 * MESSAGES);
    // An object has 16 bytes at least, so that one for each message would be 160,000. The JVM makes
    // some of its own at times, when it compiles or loads a class: 904 bytes were seen.
    let most = MESSAGES as u64;
    assert!(more < most && some < most, "{some} {more}");
}

fn objects_are_counted(java: &Java) {
    let [some, more] = allocated(java, "messages");
    assert!(more >= 3 * some && some > 100 * MESSAGES as u64, "{some} {more}");
}
