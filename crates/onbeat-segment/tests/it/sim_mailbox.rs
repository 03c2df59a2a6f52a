//! Mailbox and objects of the simulated devices.

use crate::sim_world;

use sim_world::{DIGITAL, DRIVE, World};

/// A drive in PREOP.
fn drive() -> World {
    let mut world = World::line(DRIVE, 1);
    world.set_up(0x1001, 128, 0);
    assert_eq!(world.ask_state(0x1001, 2), (2, 0));
    world
}

#[test]
fn a_small_value_is_uploaded_in_one_mail() {
    let mut world = drive();
    assert_eq!(world.upload(0x1001, 0x1018, 1), Ok(0xf1c7_1005u32.to_le_bytes().to_vec()));
    assert_eq!(world.upload(0x1001, 0x6060, 0), Ok(vec![8]));
    assert_eq!(world.upload(0x1001, 0x6041, 0).map(|value| value.len()), Ok(2));
}

#[test]
fn a_text_is_uploaded_with_its_length() {
    assert_eq!(drive().upload(0x1001, 0x1009, 0), Ok(b"simulated".to_vec()));
}

#[test]
fn a_downloaded_value_is_uploaded_again() {
    let mut world = drive();
    assert_eq!(world.download(0x1001, 0x6081, 0, &12_345u32.to_le_bytes()), Ok(()));
    assert_eq!(world.upload(0x1001, 0x6081, 0), Ok(12_345u32.to_le_bytes().to_vec()));
}

#[test]
fn refusals_carry_the_abort_codes_of_the_standard() {
    let mut world = drive();
    assert_eq!(world.upload(0x1001, 0x5555, 0), Err(0x0602_0000), "no object");
    assert_eq!(world.upload(0x1001, 0x1018, 9), Err(0x0609_0011), "no entry");
    assert_eq!(world.download(0x1001, 0x6041, 0, &[0; 2]), Err(0x0601_0002), "read only");
    assert_eq!(world.download(0x1001, 0x6040, 0, &[0; 4]), Err(0x0607_0010), "length");
    world.ask_state(0x1001, 4);

    assert_eq!(world.download(0x1001, 0x1c12, 0, &[0]), Err(0x0800_0022), "state");
}

#[test]
fn unexpected_segments_are_aborted() {
    let mut world = drive();
    let reply = world.sdo(0x1001, &[0x60, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(
        (reply[0], u32::from_le_bytes(reply[4..8].try_into().unwrap())),
        (0x80, 0x0504_0001)
    );
}

/// Uploads a whole object; panics on an abort.
fn whole(world: &mut World, index: u16, from: u8) -> Vec<u8> {
    let [low, high] = index.to_le_bytes();
    let reply = world.sdo(0x1001, &[0x50, low, high, from, 0, 0, 0, 0]);
    assert_eq!(reply[0] & 0xf0, 0x50, "{reply:02x?}");
    if reply[0] & 2 != 0 {
        return reply[4..8 - usize::from(reply[0] >> 2 & 3)].to_vec();
    }

    let size = u32::from_le_bytes(reply[4..8].try_into().unwrap()) as usize;
    let mut value = reply[8..].to_vec();
    let mut toggle = 0;
    while value.len() < size {
        let segment = world.sdo(0x1001, &[0x60 | toggle, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(segment[0] & 0x10, toggle);
        let unused = if segment.len() == 8 { usize::from(segment[0] >> 1 & 7) } else { 0 };
        value.extend_from_slice(&segment[1..segment.len() - unused]);
        assert_eq!(segment[0] & 1 == 1, value.len() == size, "the last segment says so");
        toggle ^= 0x10;
    }

    value
}

#[test]
fn complete_access_has_the_number_of_entries_in_two_bytes() {
    let mut world = drive();
    let identity = whole(&mut world, 0x1018, 0);
    assert_eq!((identity.len(), &identity[..6]), (18, [4, 0, 0x05, 0x10, 0xc7, 0xf1].as_slice()));
    assert_eq!(whole(&mut world, 0x1018, 1), identity[2..]);
    assert_eq!(whole(&mut world, 0x1c12, 0), [1, 0, 0x00, 0x16], "as many entries as are assigned");
}

#[test]
fn a_long_object_is_segmented_and_a_wrong_toggle_bit_aborts_the_transfer() {
    // 64 mapped values: 258 bytes in mails of 128.
    let list = vec!["\"6000:1\""; 64].join(", ");
    let kind = format!(
        "[types.t]\nkind = \"analogue\"\nchannels = {{ inputs = 2, outputs = 0 }}\ninputs = [{list}]\n"
    );
    let mut world = World::line(&kind, 1);
    world.set_up(0x1001, 128, 0);
    world.ask_state(0x1001, 2);
    let value = whole(&mut world, 0x1a00, 0);

    assert_eq!(value.len(), 2 + 64 * 4);
    assert!(value[2..].chunks(4).all(|entry| entry == [16, 1, 0x00, 0x60]));
    let reply = world.sdo(0x1001, &[0x50, 0x00, 0x1a, 0, 0, 0, 0, 0]);
    assert_eq!(reply[0], 0x51);
    let reply = world.sdo(0x1001, &[0x70, 0, 0, 0, 0, 0, 0, 0]);

    assert_eq!(
        (reply[0], u32::from_le_bytes(reply[4..8].try_into().unwrap())),
        (0x80, 0x0503_0000)
    );
}

#[test]
fn a_mapping_written_by_complete_access_in_segments_changes_the_process_data() {
    let mut world = drive();
    assert_eq!(world.segment.status(0).unwrap().output_bytes, 8);
    assert_eq!(world.download(0x1001, 0x1c12, 0, &[0]), Ok(()));
    assert_eq!(world.segment.status(0).unwrap().output_bytes, 0);
    // Two values, in a normal transfer whose second half comes as a segment.
    let value = [2u8, 0, 16, 0, 0x40, 0x60, 32, 0, 0xff, 0x60];
    let mut first = vec![0x31, 0x00, 0x16, 0, value.len() as u8, 0, 0, 0];
    first.extend_from_slice(&value[..4]);

    assert_eq!(world.sdo(0x1001, &first)[0], 0x60);
    let mut second = vec![0x01 | 1 << 1];
    second.extend_from_slice(&value[4..]);
    second.resize(8, 0);
    assert_eq!(world.sdo(0x1001, &second)[0], 0x20);
    assert_eq!(world.download(0x1001, 0x1c12, 0, &[1]), Ok(()));
    assert_eq!(world.segment.status(0).unwrap().output_bytes, 6);
    world.set_up(0x1001, 128, 0);

    assert_eq!(world.ask_state(0x1001, 4), (4, 0));
}

#[test]
fn what_does_not_exist_or_has_the_other_direction_cannot_be_mapped() {
    let mut world = drive();
    // An object that does not exist; the statusword as an output; a wrong length.
    for mapped in [0x5555_0010u32, 0x6041_0010, 0x6040_0020] {
        let refused = world.download(0x1001, 0x1600, 1, &mapped.to_le_bytes());
        assert_eq!(refused, Err(0x0604_0041), "{mapped:#x}");
    }
    let as_input = world.download(0x1001, 0x1a00, 1, &0x607a_0020u32.to_le_bytes());
    assert_eq!(as_input, Err(0x0604_0041), "the target position as an input");
    assert_eq!(world.download(0x1001, 0x1600, 1, &0x6040_0010u32.to_le_bytes()), Ok(()));
    let other = 0x6071_0010u32.to_le_bytes();
    assert_eq!(world.download(0x1001, 0x1600, 1, &other), Err(0x0601_0003), "entry 0 is not 0");
    assert_eq!(world.download(0x1001, 0x1600, 0, &[0]), Ok(()));
    assert_eq!(world.download(0x1001, 0x1600, 1, &other), Ok(()));
}

// ---- SDO information

fn information(world: &mut World, request: &[u8]) -> Vec<u8> {
    let mut body = vec![0x00, 0x80];
    body.extend_from_slice(request);
    assert!(world.mail(0x1001, &body));
    world.fetch(0x1001).expect("a reply")
}

#[test]
fn the_object_list_is_divided_into_mails() {
    let mut world = drive();
    let mut reply = information(&mut world, &[1, 0, 0, 0, 1, 0]);
    let mut words = Vec::new();
    let mut mails = 1;
    loop {
        assert_eq!(reply[2] & 0x7f, 2);
        words.extend(reply[6..].chunks(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])));
        let left = u16::from_le_bytes([reply[4], reply[5]]);
        assert_eq!(reply[2] & 0x80 != 0, left > 0);
        if left == 0 {
            break;
        }

        reply = world.fetch(0x1001).expect("the next part");
        mails += 1;
    }

    assert_eq!(
        (words[0], mails),
        (1, if words.len() <= 58 { 1 } else { words.len().div_ceil(58) })
    );
    assert!(words[1..].is_sorted() && words.contains(&0x6040) && words.contains(&0x1a00));
    let lengths = information(&mut world, &[1, 0, 0, 0, 0, 0]);
    assert_eq!(usize::from(u16::from_le_bytes([lengths[8], lengths[9]])), words.len() - 1);
    assert_eq!(lengths.len(), 6 + 2 + 10, "five lengths");
}

#[test]
fn objects_and_entries_are_described() {
    let mut world = drive();
    let object = information(&mut world, &[3, 0, 0, 0, 0x18, 0x10]);
    // Type IDENTITY, a record whose highest entry is 4.
    assert_eq!(
        (object[2], &object[8..12], &object[12..]),
        (4, [0x23, 0, 4, 9].as_slice(), b"Identity".as_slice())
    );
    let object = information(&mut world, &[3, 0, 0, 0, 0x7d, 0x60]);

    // UNSIGNED and INTEGER alike: an array has the type of its entries.
    assert_eq!(&object[8..12], [4, 0, 2, 8]);
    let entry = information(&mut world, &[5, 0, 0, 0, 0x40, 0x60, 0, 0]);
    // Type UNSIGNED16, 16 bits, readable and writable everywhere, may be an output.
    assert_eq!(
        (entry[2], &entry[10..16], &entry[16..]),
        (6, [6, 0, 16, 0, 0x7f, 0].as_slice(), b"Controlword".as_slice())
    );
    let none = information(&mut world, &[3, 0, 0, 0, 0x55, 0x55]);

    assert_eq!((none[2], u32::from_le_bytes(none[6..10].try_into().unwrap())), (7, 0x0602_0000));
}

// ---- the mailbox itself

#[test]
fn a_repeated_counter_is_a_repeated_request_and_gets_no_reply() {
    let mut world = drive();
    let request = [0x00, 0x20, 0x40, 0x18, 0x10, 1, 0, 0, 0, 0];
    assert!(world.mail_as(0x1001, 0x53, &request));
    assert!(world.fetch(0x1001).is_some());
    assert!(world.mail_as(0x1001, 0x53, &request));
    assert_eq!(world.fetch(0x1001), None);
    assert!(world.mail_as(0x1001, 0x03, &request), "counter 0 is not checked");
    assert!(world.fetch(0x1001).is_some());
}

#[test]
fn replies_have_their_own_counter() {
    let mut world = drive();
    let mut counters = Vec::new();
    for _ in 0..9 {
        assert!(world.mail_as(0x1001, 0x03, &[0x00, 0x20, 0x40, 0x18, 0x10, 1, 0, 0, 0, 0]));
        counters.push(world.fetch_whole(0x1001).unwrap()[5] >> 4);
    }

    assert_eq!(counters, [1, 2, 3, 4, 5, 6, 7, 1, 2]);
}

#[test]
fn an_unsupported_protocol_is_refused() {
    let mut world = drive();
    assert!(world.mail_as(0x1001, 0x12, &[0; 12]), "Ethernet");
    let mail = world.fetch_whole(0x1001).unwrap();
    assert_eq!((mail[5] & 0x0f, &mail[6..]), (0, [1, 0, 2, 0].as_slice()));
}

#[test]
fn a_mail_longer_than_its_mailbox_is_refused() {
    let mut world = drive();
    let mut mail = vec![0xff, 0x01, 0, 0, 0, 0x13];
    mail.resize(128, 0);
    assert_eq!(world.write(0x1001, 0x1000, &mail), 1);
    assert_eq!(world.fetch(0x1001).unwrap(), [1, 0, 8, 0]);
}

#[test]
fn a_lost_mail_is_sent_again_when_the_repeat_bit_toggles() {
    let mut world = drive();
    assert!(world.mail(0x1001, &[0x00, 0x20, 0x40, 0x18, 0x10, 1, 0, 0, 0, 0]));
    let first = world.fetch_whole(0x1001).unwrap();
    assert_eq!(world.fetch_whole(0x1001), None);
    assert_eq!(world.write(0x1001, 0x080e, &[3]), 1);
    assert_eq!(world.read(0x1001, 0x080f, 1).data[0] & 2, 2, "the device has done it");
    assert_eq!(world.fetch_whole(0x1001), Some(first));
}

#[test]
fn the_eeprom_of_a_device_without_a_mailbox_lists_none() {
    let mut world = World::line(DIGITAL, 1);
    world.write(0x1001, 0x0502, &[0, 1, 0x18, 0, 0, 0]);
    assert_eq!(world.read(0x1001, 0x0508, 8).data, [0; 8]);
    world.write(0x1001, 0x0502, &[0, 1, 0x1c, 0, 0, 0]);
    assert_eq!(world.read(0x1001, 0x0508, 2).word(), 0, "no protocol");
}

/// Returns the detail of a mailbox error.
fn mailbox_error(world: &mut World) -> Option<u16> {
    world.wait_ns(1_000_000);
    let mail = world.fetch_whole(0x1001)?;
    (mail[5] & 0x0f == 0 && mail[6..8] == [1, 0]).then(|| u16::from_le_bytes([mail[8], mail[9]]))
}

#[test]
fn a_mail_in_init_is_refused_and_the_mailbox_is_empty_in_preop() {
    let mut world = World::line(DRIVE, 1);
    world.set_up(0x1001, 128, 0);
    let upload = [0x00, 0x20, 0x40, 0x18, 0x10, 0x01, 0, 0, 0, 0];
    assert!(!world.mail(0x1001, &upload), "no working counter");
    assert_eq!(world.ask_state(0x1001, 2), (2, 0));
    assert_eq!(world.read(0x1001, 0x0805, 1).data[0] & 0x08, 0, "the mailbox is empty");
    assert_eq!(world.upload(0x1001, 0x1018, 1), Ok(0xf1c7_1005u32.to_le_bytes().to_vec()));
    assert_eq!(world.ask_state(0x1001, 1), (1, 0));
    assert!(!world.mail(0x1001, &upload), "closed again");

    assert_eq!(world.ask_state(0x1001, 2), (2, 0));
    assert!(world.mail(0x1001, &upload));
    assert_eq!(world.read(0x1001, 0x080d, 1).data[0] & 0x08, 0x08, "a reply waits");
    assert_eq!(world.ask_state(0x1001, 1), (1, 0));
    assert_eq!(world.ask_state(0x1001, 2), (2, 0));
    assert_eq!(world.read(0x1001, 0x080d, 1).data[0] & 0x08, 0, "INIT discards it");
}

#[test]
fn short_requests_and_unknown_services_get_a_mailbox_error() {
    let mut world = drive();
    for (body, detail) in [
        (&[][..], 6),
        (&[0x00], 6),
        (&[0x00, 0x20, 0x40, 0x18, 0x10], 6),
        (&[0x00, 0x80, 0x01], 6),
        (&[0x00, 0x30, 0x40, 0x18, 0x10, 0x01, 0, 0, 0, 0], 4),
        (&[0x00, 0xf0, 0, 0, 0, 0, 0, 0, 0, 0], 4),
    ] {
        assert!(world.mail(0x1001, body));
        assert_eq!(mailbox_error(&mut world), Some(detail), "{body:02x?}");
    }

    assert_eq!(world.upload(0x1001, 0x6060, 0), Ok(vec![8]), "the next request is served");
}

#[test]
fn an_unsupported_mode_of_operation_is_out_of_range() {
    let mut world = drive();
    for mode in [99, 2, 0xff] {
        assert_eq!(world.download(0x1001, 0x6060, 0, &[mode]), Err(0x0609_0030), "mode {mode}");
    }

    for mode in [9, 0, 8] {
        assert_eq!(world.download(0x1001, 0x6060, 0, &[mode]), Ok(()), "mode {mode}");
    }
}
