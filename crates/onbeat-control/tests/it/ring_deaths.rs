//! Writers and readers of a ring in other processes, killed at any instruction.

use crate::control_world;

use std::sync::{Mutex, MutexGuard, PoisonError};

use control_world::{Other, print_line, role, unique_name, until};
use onbeat_control::{
    Channel, Reading, RecordType, RingError, RingReader, RingSettings, RingWriter, Start, channels,
    remove_leftovers,
};
use onbeat_host::runtime_dir::RuntimeDir;

/// Held by a test that kills writers or removes what killed ones left, of any name.
static LEFT_BEHIND: Mutex<()> = Mutex::new(());
const RECORD_BYTES: usize = 200;
/// Number of records that the ring of another process keeps.
const RECORDS: usize = 64;

fn settings(records: usize) -> RingSettings {
    let record_type = RecordType {
        name: "test_msgs/msg/Pattern".to_owned(),
        hash: [7; 32],
        schema: "uint64 number\n".to_owned(),
    };
    let description = "{\"of\":\"a test\"}".to_owned();
    RingSettings { records, record_bytes: RECORD_BYTES, record_type, description }
}

fn alone() -> MutexGuard<'static, ()> {
    LEFT_BEHIND.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The names of what was removed. The guard: no other test is between a death and the next writer.
fn removed(_alone: &MutexGuard<'_, ()>) -> Vec<String> {
    remove_leftovers()
}

/// A payload whose length and bytes follow from its number: a torn record does not pass.
fn payload(number: u64) -> Vec<u8> {
    let length = 8 + (number as usize * 13) % (RECORD_BYTES - 8);
    let mut bytes = vec![number as u8; length];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Checks what the reader finds next; returns whether there was anything.
fn finds(reader: &mut RingReader) -> bool {
    match reader.next() {
        Reading::Nothing => return false,
        Reading::Lost(lost) => assert!(lost > 0),
        Reading::Record { number, at_ns, bytes } => {
            assert_eq!((at_ns, bytes), (number * 10, payload(number).as_slice()), "torn");
        }
    }

    true
}

/// Reads all there is. Does not end while a faster writer publishes without pauses.
fn drain(reader: &mut RingReader) {
    while finds(reader) {}
}

#[test]
fn in_another_process() {
    let Some(words) = role() else {
        return assert!(std::env::args().count() > 0, "a role for others");
    };
    let channel = Channel::new(&words[1], "pattern").unwrap();

    match words[0].as_str() {
        "write" => {
            let mut writer = RingWriter::create(&channel, &settings(RECORDS)).unwrap();
            for number in 1.. {
                writer.publish(number * 10, &payload(number));
                if number == 100 {
                    print_line("writes");
                }
            }
        }
        "read" => {
            let mut reader = RingReader::open(&channel, Start::Newest).unwrap();
            print_line("reads");
            loop {
                drain(&mut reader);
            }
        }
        other => panic!("unknown role {other}"),
    }
}

/// The writer runs without pause, so each kill hits another instruction of a publication.
#[test]
fn a_hundred_writers_killed_at_any_instruction_leave_no_torn_record_and_no_object() {
    let alone = alone();
    let name = unique_name();
    let channel = Channel::new(&name, "pattern").unwrap();
    let mut received = 0;
    for generation in 1..=100 {
        let mut writer = Other::with(module_path!(), &format!("write {name}"));
        let pid = writer.pid();
        assert_eq!(writer.next_line(), "writes");
        let mut reader = RingReader::open(&channel, Start::Oldest).unwrap();
        (0..RECORDS as u64 * generation).for_each(|_| _ = finds(&mut reader));
        writer.kill();

        until(
            "the reader learns of the death",
            || matches!(reader.check_alive(), Err(RingError::WriterDied { pid: dead, .. }) if dead == pid),
        );
        drain(&mut reader);
        received += reader.received();
        let passed = reader.received() + reader.lost();
        let first = reader.newest() + 1 - passed;
        assert!(first >= 1, "received and lost add up to the records since the first");
        assert_eq!((reader.pending(), reader.generation()), (0, generation));
    }

    // At least what the ring held when the first reader opened it.
    assert!(received > 0);
    assert!(channels().contains(&channel));
    assert!(removed(&alone).contains(&channel.to_string()));
    assert!(!channels().contains(&channel));
}

#[test]
fn a_reader_killed_at_any_instruction_does_not_affect_the_writer() {
    let name = unique_name();
    let channel = Channel::new(&name, "pattern").unwrap();
    let mut writer = RingWriter::create(&channel, &settings(64)).unwrap();
    let mut other = RingReader::open(&channel, Start::Oldest).unwrap();
    let mut number = 0;
    for _ in 0..10 {
        let mut reader = Other::with(module_path!(), &format!("read {name}"));
        assert_eq!(reader.next_line(), "reads");
        for _ in 0..1000 {
            number += 1;
            assert_eq!(writer.publish(number * 10, &payload(number)), number);
        }
        reader.kill();
        drain(&mut other);
    }

    assert_eq!(other.received() + other.lost(), number);
}

#[test]
fn a_second_writer_is_refused_and_the_next_one_replaces_the_ring() {
    let _alone = alone();
    let name = unique_name();
    let channel = Channel::new(&name, "pattern").unwrap();
    let mut first = Other::with(module_path!(), &format!("write {name}"));
    let pid = first.pid();
    assert_eq!(first.next_line(), "writes");
    let refused = RingWriter::create(&channel, &settings(64)).unwrap_err();
    assert!(matches!(refused, RingError::Taken { pid: taken, .. } if taken == pid), "{refused}");
    let reader = RingReader::open(&channel, Start::Oldest).unwrap();
    first.kill();

    let writer = RingWriter::create(&channel, &settings(64)).unwrap();
    assert!(matches!(reader.check_alive(), Err(RingError::Replaced { .. })));
    let reader = RingReader::open(&channel, Start::Oldest).unwrap();
    assert_eq!((reader.generation(), reader.newest()), (2, 0));
    drop(writer);
    assert!(matches!(reader.check_alive(), Err(RingError::Ended { .. })));
    assert!(matches!(RingReader::open(&channel, Start::Oldest), Err(RingError::NoChannel { .. })));
}

#[test]
fn a_reader_learns_what_the_channel_carries() {
    let channel = Channel::new(&unique_name(), "pattern").unwrap();
    let writer = RingWriter::create(&channel, &settings(8)).unwrap();
    let reader = RingReader::open(&channel, Start::Oldest).unwrap();
    let wanted = settings(8);
    assert_eq!(reader.record_type(), wanted.record_type);
    assert_eq!(reader.description(), wanted.description);
    assert_eq!((reader.records(), reader.writer().0), (8, std::process::id()));
    assert!(reader.check_alive().is_ok() && reader.utc_offset_ns() > 0);
    drop(writer);
}

#[test]
fn rings_that_cannot_exist_and_objects_that_are_none_are_refused() {
    let alone = alone();
    let channel = Channel::new(&unique_name(), "pattern").unwrap();
    for records in [0, 1, 3, 1 << 30] {
        let wrong = RingWriter::create(&channel, &settings(records));
        assert!(matches!(wrong, Err(RingError::BadSize { .. })), "{records}");
    }

    let directory = RuntimeDir::own_in_memory().unwrap();
    let path = directory.path().join(format!("{}:pattern", channel.name()));
    std::fs::write(&path, [b'x'; 4096]).unwrap();
    let wrong = RingReader::open(&channel, Start::Oldest);
    assert!(matches!(wrong, Err(RingError::NotARing { .. })));
    assert!(RingWriter::create(&channel, &settings(8)).is_err());
    assert!(!removed(&alone).contains(&channel.to_string()) && path.exists());

    // The file of a writer that was killed before it wrote the magic number.
    std::fs::write(&path, [0; 4096]).unwrap();
    assert!(removed(&alone).contains(&channel.to_string()) && !path.exists());
}
