//! Frames as they are on the wire.
#![allow(missing_docs, clippy::unwrap_used)]

use onbeat_rt::frame::{
    Command, LONGEST, MOST_DATA, Writer, is_reply_to, number, number_of, position, purpose_of,
    register, word, working_counter,
};

fn status_frame(buffer: &mut [u8]) -> (usize, usize) {
    let mut writer = Writer::new(buffer, 3);
    writer.push_data(Command::Lrw, 0x0001_0000, &[1, 2, 3, 4]).unwrap();
    let at = writer.push(Command::Brd, register(0, 0x0130), 2).unwrap();
    (writer.finish(), at)
}

#[test]
fn a_frame_with_two_datagrams_has_the_standard_layout() {
    let mut buffer = [0; LONGEST];
    let (length, at) = status_frame(&mut buffer);
    number(&mut buffer[..length], 0x0705);
    assert_eq!(length, 60, "short frames are padded");
    assert_eq!(
        &buffer[..14],
        &[255, 255, 255, 255, 255, 255, 0x10, 0x0b, 0xea, 0x70, 0, 3, 0x88, 0xa4]
    );
    assert_eq!(word(&buffer, 14), 0x1000 | ((10 + 4 + 2) + (10 + 2 + 2)));
    assert_eq!(
        &buffer[16..32],
        &[12, 5, 0, 0, 1, 0, 4, 0x80, 0, 0, 1, 2, 3, 4, 0, 0],
        "the first has the flag that another follows"
    );
    assert_eq!(&buffer[32..46], &[7, 7, 0, 0, 0x30, 1, 2, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!((at, number_of(&buffer[..length])), (42, 0x0705));
}

#[test]
fn a_frame_is_a_reply_when_a_device_processed_it_and_its_datagrams_are_unchanged() {
    let mut sent = [0; LONGEST];
    let (length, at) = status_frame(&mut sent);
    number(&mut sent[..length], 9);
    let mut reply = sent;

    assert_eq!(purpose_of(&reply[..length]), None, "no device has processed it");
    reply[6] |= 2;
    reply[at..at + 4].copy_from_slice(&[8, 0, 59, 0]);
    assert_eq!(purpose_of(&reply[..length]), Some(3));
    assert!(is_reply_to(&reply[..length], &sent[..length]));
    assert_eq!(working_counter(&reply, at, 2), 59);
    let damaged: [fn(&mut [u8]); 4] = [
        |frame| frame[17] ^= 1,
        |frame| frame[33] ^= 1,
        |frame| frame[22] ^= 1,
        |frame| frame[16] = 11,
    ];

    for damage in damaged {
        let mut other = reply;
        damage(&mut other);
        assert!(!is_reply_to(&other[..length], &sent[..length]));
    }

    assert!(!is_reply_to(&reply[..40], &sent[..length]), "the end is missing");
}

#[test]
fn the_longest_datagram_fills_a_frame_and_one_more_byte_does_not_fit() {
    let mut buffer = [0; LONGEST];
    let mut writer = Writer::new(&mut buffer, 0);
    assert!(writer.push(Command::Lrw, 0, MOST_DATA + 1).is_none());
    assert!(writer.push(Command::Lrw, 0, MOST_DATA).is_some());
    assert!(writer.push(Command::Brd, 0, 0).is_none());
    assert_eq!(writer.finish(), LONGEST);
}

#[test]
fn the_third_device_on_the_cable_has_auto_increment_address_minus_two() {
    assert_eq!((position(0), position(2)), (0, 0xfffe));
}
