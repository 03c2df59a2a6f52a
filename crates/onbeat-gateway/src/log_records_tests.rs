//! Logs with planted lengths, compressed bombs, and cut files.
#![allow(clippy::unwrap_used)]

use std::io::Write;

use super::*;

const MOST: u64 = 1 << 20;
const LENGTHS: [u64; 5] = [1 << 31, 1 << 32, 1 << 46, 1 << 63, u64::MAX];

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    [&[kind][..], &(content.len() as u64).to_le_bytes(), content].concat()
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

fn channel() -> Vec<u8> {
    record(CHANNEL, &[&[1, 0, 0, 0][..], &text("a"), &text("cdr"), &[0; 4]].concat())
}

fn message(data: &[u8]) -> Vec<u8> {
    record(MESSAGE, &[&[1, 0][..], &[0; 20], data].concat())
}

fn chunk(records_bytes: u64, compression: &str, stored: &[u8]) -> Vec<u8> {
    let head = [&[0; 16][..], &records_bytes.to_le_bytes(), &[0; 4], &text(compression)].concat();
    record(CHUNK, &[&head, &(stored.len() as u64).to_le_bytes()[..], stored].concat())
}

fn lz4_of(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = lz4::EncoderBuilder::new().build(Vec::new()).unwrap();
    encoder.write_all(bytes).unwrap();
    let (encoded, done) = encoder.finish();
    done.unwrap();
    encoded
}

fn file(records: &[Vec<u8>]) -> Vec<u8> {
    [&MAGIC[..], &records.concat(), &record(DATA_END, &[0; 4]), &record(FOOTER, &[0; 20]), &MAGIC]
        .concat()
}

#[test]
fn a_complete_file_has_its_messages_in_chunks_and_outside() {
    let inside = [message(b"one"), message(b"two")].concat();
    for chunk in [
        chunk(inside.len() as u64, "lz4", &lz4_of(&inside)),
        chunk(inside.len() as u64, "", &inside),
    ] {
        let check = check_log(&file(&[channel(), chunk, message(b"three")]), MOST);
        assert!(check.defect.is_none(), "{:?}", check.defect);
        assert_eq!((check.messages, check.data_bytes), (3, 11));
    }
}

#[test]
fn a_text_that_is_not_utf8_hides_no_message() {
    let pairs = [&text("operator")[..], b"\x04\0\0\0Ren\xe9"].concat();
    let bytes = (pairs.len() as u32).to_le_bytes();
    let content = [&[1, 0, 0, 0][..], &text("a"), &text("cdr"), &bytes, &pairs].concat();
    let check = check_log(&file(&[record(CHANNEL, &content), message(b"one")]), MOST);
    assert!(check.defect.is_none(), "{:?}", check.defect);
    assert_eq!(check.messages, 1);
}

#[test]
fn a_channel_that_only_the_end_defines_is_known() {
    let end = [record(DATA_END, &[0; 4]), channel(), record(FOOTER, &[0; 20])].concat();
    let log = [&MAGIC[..], &end, &MAGIC].concat();
    let mut messages = LogMessages::new(Cursor::new(&log[..]), log.len() as u64, MOST);
    assert!(messages.next().is_none());
    assert_eq!(messages.channels[&1].topic, "a");
}

#[test]
fn bytes_behind_the_end_of_a_file_are_said() {
    let one = file(&[channel(), message(b"one")]);
    let check = check_log(&one.repeat(2), MOST);
    assert_eq!(check.messages, 1);
    let wanted = format!("the log ends at byte {0}; the {0} bytes behind it", one.len());
    assert!(check.defect.unwrap().to_string().starts_with(&wanted));
}

#[test]
fn a_file_that_is_not_a_log_is_named_by_its_first_bytes() {
    for (first, wanted) in [
        (&b""[..], "; it is empty"),
        (b"\x1f\x8b\x08\0\0\0\0\0\0", ": unpack it with gunzip"),
        (b"\x89MCAP0\n\x01", ": copy it as binary"),
        (b"ULog\x01\x12\x35\x01", "; it is a ULog of PX4, which is not read"),
        (b"rosbag2_bagfile_information:\n", ": give its folder"),
        (b"version https://git-lfs.github.com/spec/v1\n", ": `git lfs pull` fetches the log"),
        (b"<!DOCTYPE html>\n", "perhaps of a download that failed"),
        (b"time,value\n", "or a bag of ROS"),
    ] {
        let why = check_log(first, MOST).defect.unwrap().to_string();
        assert!(why.starts_with("it does not begin as a log") && why.ends_with(wanted), "{why}");
    }
}

/// The kind of a record decides what it is; one that does not belong there is passed over, and said, with and without statistics.
#[test]
fn a_message_whose_kind_is_damaged_is_missed() {
    let mut strange = message(b"two");
    strange[0] ^= 0x10;
    let stated = |messages: u64| record(STATISTICS, &messages.to_le_bytes());
    let of = |messages: u64, second: Vec<u8>| {
        let records = [channel(), message(b"one"), second].concat();
        let end = [record(DATA_END, &[0; 4]), stated(messages), record(FOOTER, &[0; 20])].concat();
        check_log(&[&MAGIC[..], &records, &end, &MAGIC].concat(), MOST)
    };
    assert!(of(2, message(b"two")).defect.is_none());
    let why = of(3, message(b"two")).defect.unwrap().to_string();
    assert_eq!(why, "its statistics state 3 messages, and 2 were found");
    let why = of(1, message(b"two")).defect.unwrap().to_string();
    assert_eq!(why, "its statistics state 1 messages, and 2 were found");
    // One of a later version, a header, a message index and the index of a chunk.
    for kind in [strange[0], HEADER, MESSAGE_INDEX, 8] {
        strange[0] = kind;
        let why = of(1, strange.clone()).defect.unwrap().to_string();
        let place = 8 + channel().len() + message(b"one").len();
        let wanted = format!("the record at byte {place} is of kind {kind}, ");
        assert!(why.starts_with(&wanted), "{why}");
        let inside = [message(b"one"), strange.clone(), message(b"three")].concat();
        let log = file(&[channel(), chunk(inside.len() as u64, "", &inside)]);
        assert_eq!(all_of(&log), (2, 1), "kind {kind}");
    }
}

/// Numbers of messages and of defects, reading on behind each.
fn all_of(log: &[u8]) -> (usize, usize) {
    let mut messages = LogMessages::new(Cursor::new(log), log.len() as u64, MOST);
    let (mut read, mut defects) = (0, 0);
    while let Some(next) = messages.next() {
        if next.is_ok() {
            read += 1;
        } else {
            defects += 1;
            if !messages.resume() {
                break;
            }
        }
    }
    (read, defects)
}

/// Messages outside of chunks, and chunks without a checksum, have only that of all bytes before the end of messages.
#[test]
fn a_changed_byte_that_no_chunk_covers_is_said() {
    let inside = message(b"two");
    for last in [inside.clone(), chunk(inside.len() as u64, "", &inside)] {
        let mut log = [&MAGIC[..], &channel(), &message(b"one"), &last].concat();
        let end = record(DATA_END, &crc32fast::hash(&log).to_le_bytes());
        log.extend([end, record(FOOTER, &[0; 20]), MAGIC.to_vec()].concat());
        assert_eq!(all_of(&log), (2, 0));
        let place = log.windows(3).position(|it| it == b"two").unwrap();
        log[place] = b'T';
        assert_eq!(all_of(&log), (2, 1));
        let why = check_log(&log, MOST).defect.unwrap().to_string();
        assert!(why.starts_with("the checksum of the messages is "), "{why}");
    }
}

/// A damaged chunk had the definition of channel 2; the chunks behind it have other channels too.
#[test]
fn messages_of_a_channel_without_definition_do_not_hide_the_others() {
    let mut strange = message(b"two");
    strange[RECORD_HEAD] = 2;
    let inside = [message(b"one"), strange, message(b"three")].concat();
    let one = chunk(inside.len() as u64, "lz4", &lz4_of(&inside));
    let log = file(&[vec![channel()], vec![one; 200]].concat());
    assert_eq!(all_of(&log), (400, 1));
}

#[test]
fn a_damaged_chunk_does_not_take_its_definitions_with_it() {
    let inside = message(b"two");
    let chunks = [chunk(9, "lz4", b"nonsense"), chunk(inside.len() as u64, "", &inside)];
    let data = [chunks.concat(), record(DATA_END, &[0; 4])].concat();
    let summary = (MAGIC.len() + data.len()) as u64;
    let footer = record(FOOTER, &[&summary.to_le_bytes()[..], &[0; 12]].concat());
    let of = |repeated: Vec<u8>| all_of(&[&MAGIC[..], &data, &repeated, &footer, &MAGIC].concat());
    assert_eq!(of(Vec::new()), (0, 2));
    assert_eq!(of(channel()), (1, 1));
}

#[test]
fn a_chunk_whose_kind_or_length_is_damaged_does_not_hide_those_behind_it() {
    let one = |data: &[u8]| {
        let inside = message(data);
        chunk(inside.len() as u64, "", &inside)
    };
    let index = record(MESSAGE_INDEX, &[1, 0, 0, 0, 0, 0]);
    for (place, kind) in [(0, FOOTER), (0, MESSAGE_INDEX), (0, 14), (0, 0x46), (1, 200)] {
        let mut second = one(b"two");
        second[place] = kind;
        let log = file(&[
            channel(),
            one(b"one"),
            index.clone(),
            second,
            one(b"three"),
            one(b"four"),
            index.clone(),
        ]);
        assert_eq!(all_of(&log), (3, 1), "byte {place} is {kind}");
    }
}

#[test]
fn an_index_that_has_become_the_end_of_messages_does_not_hide_the_chunks_behind_it() {
    let one = |data: &[u8]| {
        let inside = message(data);
        chunk(inside.len() as u64, "", &inside)
    };
    let mut index = record(MESSAGE_INDEX, &[1, 0, 0, 0, 0, 0]);
    index[0] = DATA_END;
    let begin = [channel(), one(b"one")];
    let place = MAGIC.len() + begin.concat().len();
    let log = file(&[begin.concat(), index, one(b"two"), one(b"three")]);
    assert_eq!(all_of(&log), (3, 1));
    let why = check_log(&log, MOST).defect.unwrap().to_string();
    assert!(why.starts_with(&format!("the record at byte {place} is of kind 15, ")), "{why}");
}

#[test]
fn a_record_that_claims_more_than_the_file_has_takes_no_memory() {
    for bytes in LENGTHS {
        for kind in [0, CHANNEL, MESSAGE, CHUNK, FOOTER, DATA_END, 0x80] {
            let head = [&[kind][..], &bytes.to_le_bytes()].concat();
            let log = [&MAGIC[..], &channel(), &message(b"x"), &head].concat();
            let check = check_log(&log, MOST);
            assert_eq!(check.messages, 1);
            let why = check.defect.unwrap().to_string();
            assert!(why.contains(&format!("claims {bytes} bytes, and 0 are left")), "{why}");
        }
    }
}

#[test]
fn a_chunk_that_claims_more_than_it_can_hold_is_refused() {
    let zeros = lz4_of(&vec![0; 4 << 20]);
    for bytes in LENGTHS.into_iter().chain([1 << 40]) {
        for (compression, stored) in [("lz4", &zeros[..]), ("", &zeros[..])] {
            let log = file(&[channel(), message(b"x"), chunk(bytes, compression, stored)]);
            let check = check_log(&log, MOST);
            assert_eq!(check.messages, 1);
            assert!(matches!(check.defect, Some(LogDefect::Inflated { .. })), "{check:?}");
        }
    }
    // A record of the chunk that claims more than the chunk has, or than the limit.
    for bytes in LENGTHS.into_iter().chain([2 << 20]) {
        let head = [&[MESSAGE][..], &bytes.to_le_bytes(), &[0; 1 << 15]].concat();
        let inside = [head, vec![0; 3 << 20]].concat();
        let log = file(&[channel(), chunk(inside.len() as u64, "lz4", &lz4_of(&inside))]);
        let defect = check_log(&log, MOST).defect.unwrap();
        let is_refused =
            matches!(defect, LogDefect::BeyondChunk { .. } | LogDefect::TooLong { .. });
        assert!(is_refused, "{defect}");
    }
}

#[test]
fn a_record_beyond_the_limit_hides_none_behind_it() {
    let records = [message(b"one"), message(&vec![0; 2 << 20]), message(b"two"), message(b"three")];
    let inside = records.concat();
    let packed = chunk(inside.len() as u64, "lz4", &lz4_of(&inside));
    assert_eq!(all_of(&file(&[channel(), packed])), (3, 1));
    assert_eq!(all_of(&file(&[channel(), inside])), (3, 1));
}

#[test]
fn texts_and_definitions_within_records_do_not_reach_beyond_them() {
    for bytes in [2_u32, 1 << 20, u32::MAX] {
        let long = [&[1, 0, 0, 0][..], &bytes.to_le_bytes(), b"a"].concat();
        for kind in [CHANNEL, SCHEMA] {
            let defect = check_log(&file(&[record(kind, &long)]), MOST).defect;
            assert!(matches!(defect, Some(LogDefect::Record { at: 8 })), "{defect:?}");
        }
    }
    let definition = |id: u8| {
        let content = vec![b'x'; 60_000];
        record(
            SCHEMA,
            &[&[id, 0][..], &text("T"), &text("ros2msg"), &60_000_u32.to_le_bytes(), &content]
                .concat(),
        )
    };
    let many: Vec<_> = (1..9).map(definition).collect();
    let defect = check_log(&file(&many), MOST).defect;
    assert!(matches!(defect, Some(LogDefect::Definitions { most: 131_072 })), "{defect:?}");
}

#[test]
fn a_file_cut_anywhere_has_the_messages_before_and_one_sentence() {
    let inside = [message(b"one"), message(&[7; 100])].concat();
    let stored = lz4_of(&inside);
    let whole = file(&[
        channel(),
        message(b"x"),
        chunk(inside.len() as u64, "lz4", &stored),
        message(b"y"),
    ]);
    let mut last = 0;
    for end in 0..whole.len() {
        let check = check_log(&whole[..end], MOST);
        let why = check.defect.expect("a cut file is not complete").to_string();
        assert!(!why.is_empty() && !why.contains('\n'), "{why}");
        assert!(check.messages >= last, "{end}");
        last = check.messages;
    }
    assert_eq!(last, 4);
}
