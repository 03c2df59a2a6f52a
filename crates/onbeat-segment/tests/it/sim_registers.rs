//! Registers of the simulated SubDevice controllers.

use crate::sim_world;

use onbeat_rt::time::Instant;
use onbeat_segment::{Command, Passage};
use sim_world::{DIGITAL, DRIVE, World, frame_of, last_count};

// ---- datagrams and working counters

#[test]
fn a_read_by_position_reaches_the_device_at_this_position() {
    let mut world = World::line(DIGITAL, 3);
    for (position, station) in [(0u16, 0x1001), (1, 0x1002), (2, 0x1003)] {
        let answer = world.send(Command::Aprd, 0u16.wrapping_sub(position), 0x0010, &[0; 2]);
        assert_eq!((answer.count, answer.word()), (1, station));
        assert_eq!(answer.address, 3u16.wrapping_sub(position), "each device passed adds one");
    }

    assert_eq!(world.send(Command::Aprd, 0u16.wrapping_sub(3), 0x0010, &[0; 2]).count, 0);
}

#[test]
fn a_broadcast_read_combines_by_or_and_counts_each_device() {
    let mut world = World::line(DIGITAL, 3);
    let answer = world.send(Command::Brd, 0, 0x0010, &[0; 2]);
    assert_eq!((answer.count, answer.word()), (3, 0x1001 | 0x1002 | 0x1003));
}

#[test]
fn a_write_counts_one_and_a_read_with_write_counts_three() {
    let mut world = World::line(DIGITAL, 2);
    assert_eq!(world.send(Command::Fpwr, 0x1001, 0x0f80, &[1, 2]).count, 1);
    let answer = world.send(Command::Fprw, 0x1001, 0x0f80, &[3, 4]);
    assert_eq!((answer.count, answer.data), (3, vec![1, 2]));
    assert_eq!(world.read(0x1001, 0x0f80, 2).data, [3, 4]);
    assert_eq!(world.send(Command::Bwr, 0, 0x0f80, &[5, 6]).count, 2);
    assert_eq!(world.send(Command::Brw, 0, 0x0f80, &[7, 8]).count, 6);
}

#[test]
fn nop_and_unknown_commands_pass_unchanged() {
    let mut world = World::line(DIGITAL, 2);
    let answer = world.send(Command::Nop, 7, 0x0010, &[9, 9]);
    assert_eq!((answer.count, answer.address, answer.data), (0, 7, vec![9, 9]));
    let mut frame = frame_of(&[(Command::Brd, 0, 0x0010, &[0; 2])]);
    frame[16] = 0x2f;
    let before = frame.clone();
    world.pass(&mut frame);
    frame[6] = before[6];

    assert_eq!(frame, before);
}

#[test]
fn one_device_reads_and_all_others_write() {
    let mut world = World::line(DIGITAL, 3);
    world.write(0x1001, 0x0f80, &[0xaa]);
    let answer = world.send(Command::Frmw, 0x1001, 0x0f80, &[0x55]);
    assert_eq!((answer.count, answer.data), (3, vec![0xaa]));
    assert_eq!(world.read(0x1003, 0x0f80, 1).data, [0xaa]);
    // A device before the one that reads gets what the datagram held before.
    let answer = world.send(Command::Armw, 0xffff, 0x0f80, &[0x77]);

    assert_eq!(answer.count, 3);
    assert_eq!(world.read(0x1001, 0x0f80, 1).data, [0x77]);
    assert_eq!(world.read(0x1003, 0x0f80, 1).data, [0xaa]);
}

#[test]
fn all_datagrams_of_a_frame_are_processed_in_order() {
    let mut world = World::line(DIGITAL, 1);
    let mut frame = frame_of(&[
        (Command::Fpwr, 0x1001, 0x0010, &[0x34, 0x12]),
        (Command::Fprd, 0x1234, 0x0010, &[0; 2]),
    ]);
    world.pass(&mut frame);
    assert_eq!(last_count(&frame), 1, "the second already uses the address that the first set");
}

#[test]
fn a_truncated_frame_is_processed_up_to_its_end() {
    let mut world = World::line(DIGITAL, 2);
    let whole =
        frame_of(&[(Command::Brd, 0, 0x0010, &[0; 2]), (Command::Bwr, 0, 0x0f80, &[1; 40])]);
    for length in 0..whole.len() {
        let mut frame = whole[..length].to_vec();
        world.pass(&mut frame);
        if length >= 30 {
            assert_eq!(u16::from_le_bytes([frame[28], frame[29]]), 2, "{length}");
        }
    }

    assert_eq!(world.read(0x1001, 0x0f80, 1).data, [0], "the truncated datagram wrote nothing");
}

#[test]
fn other_protocols_pass_unchanged_and_processed_frames_are_marked() {
    let mut world = World::line(DIGITAL, 1);
    let mut frame = vec![0; 60];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    assert_eq!(world.segment.frame(&mut frame, Instant::from_ns(1)), Passage::Foreign);
    assert_eq!(frame[6], 0);
    let mut frame = frame_of(&[(Command::Brd, 0, 0, &[0])]);
    world.pass(&mut frame);

    assert_eq!(frame[6], 0x12);
}

// ---- registers

#[test]
fn a_read_only_register_keeps_its_value_and_does_not_count_the_write() {
    let mut world = World::line(DIGITAL, 1);
    assert_eq!(world.write(0x1001, 0x0000, &[0x99]), 0);
    assert_eq!(world.read(0x1001, 0x0000, 1).data, [0x11]);
    assert_eq!(world.read(0x1001, 0x0e00, 2).count, 0, "no register, no count");
}

#[test]
fn clock_registers_exist_on_devices_with_a_clock_only() {
    let with = World::line(DIGITAL, 1).read(0x1001, 0x0910, 8);
    let mut world = World::line("[types.t]\nkind = \"digital\"\nclock = false\n", 1);
    let without = world.read(0x1001, 0x0910, 8);
    assert_eq!((with.count, without.count), (1, 0));
    assert_eq!(world.send(Command::Bwr, 0, 0x0900, &[0; 4]).count, 0);
}

#[test]
fn the_alias_is_a_station_address_when_it_is_enabled() {
    let text = format!("{DIGITAL}[[devices]]\ntype = \"t\"\nname = \"a\"\nalias = 0x2a2a\n");
    let mut world = World::from_toml(&text);
    world.address_all();
    assert_eq!(world.read(0x1001, 0x0012, 2).word(), 0x2a2a);
    assert_eq!(world.read(0x2a2a, 0x0010, 2).count, 0);
    assert_eq!(world.write(0x1001, 0x0103, &[1]), 1);
    assert_eq!(world.read(0x2a2a, 0x0010, 2).word(), 0x1001);
}

#[test]
fn all_devices_with_the_same_address_respond() {
    let mut world = World::line(DIGITAL, 3);
    world.write(0x1003, 0x0010, &0x1002u16.to_le_bytes());
    assert_eq!(world.read(0x1002, 0x0130, 2).count, 2);
}

#[test]
fn error_counters_are_cleared_by_any_write() {
    let mut world = World::line(DIGITAL, 2);
    assert_eq!(world.write(0x1001, 0x0300, &[7; 4]), 1);
    assert_eq!(world.read(0x1001, 0x0300, 4).data, [0; 4]);
}

#[test]
fn three_letters_reset_a_device() {
    let mut world = World::line(DIGITAL, 2);
    for letter in [b"R", b"E", b"S"] {
        assert_eq!(world.write(0x1002, 0x0040, letter), 1);
    }
    assert_eq!(world.read(0x1002, 0x0010, 2).count, 0, "its station address is gone");
    assert_eq!(world.read(0x1001, 0x0010, 2).count, 1);
}

// ---- FMMUs

#[test]
fn a_device_counts_one_for_inputs_two_for_outputs_three_for_both() {
    let mut world = World::line(DIGITAL, 2);
    world.bring_up(0x1001, 0, 0x1_0000);
    world.bring_up(0x1002, 0, 0x1_0001);
    assert_eq!(world.logical(Command::Lrw, 0x1_0000, &[0; 2]).count, 6);
    assert_eq!(world.logical(Command::Lrd, 0x1_0000, &[0; 2]).count, 2);
    assert_eq!(world.logical(Command::Lwr, 0x1_0000, &[0; 2]).count, 2);
    assert_eq!(world.logical(Command::Lrw, 0x1_0001, &[0]).count, 3);
    assert_eq!(world.logical(Command::Lrw, 0x2_0000, &[0; 2]).count, 0);
}

#[test]
fn outputs_are_written_before_inputs_are_read_in_shared_logical_bytes() {
    let mut world =
        World::line("[types.t]\nkind = \"digital\"\nchannels = { loop_back = true }\n", 1);
    world.bring_up(0x1001, 0, 0);
    assert_eq!(world.logical(Command::Lrw, 0, &[0xa5]).data, [0], "the previous inputs");
    assert_eq!(
        world.logical(Command::Lrw, 0, &[0x5a]).data,
        [0xa5],
        "the outputs arrived although inputs overwrote them"
    );
}

#[test]
fn an_fmmu_maps_single_bits_and_keeps_the_others() {
    let mut world = World::line(DIGITAL, 1);
    world.write(0x1001, 0x0f80, &[0b1010_0101, 0xff]);
    // Logical bits 3 to 5 of byte 0x10 onto bits 6 to 8 of the registers at 0x0f80; reads and
    // writes.
    let mut registers = [0x10, 0, 0, 0, 1, 0, 3, 5, 0x80, 0x0f, 6, 3, 1, 0, 0, 0];
    world.write(0x1001, 0x0600, &registers);
    let answer = world.logical(Command::Lrd, 0x10, &[0]);

    assert_eq!((answer.count, answer.data), (1, vec![0b0011_0000 & 0b0011_1000]));
    assert_eq!(world.logical(Command::Lwr, 0x10, &[0b0000_1000]).count, 1);
    assert_eq!(world.read(0x1001, 0x0f80, 2).data, [0b0110_0101, 0xfe]);
    registers[12] = 0;
    world.write(0x1001, 0x0600, &registers);

    assert_eq!(world.logical(Command::Lrd, 0x10, &[0]).count, 0);
}

#[test]
fn an_fmmu_can_map_registers() {
    let mut world = World::line(DRIVE, 1);
    world.set_up(0x1001, 128, 0);
    world.ask_state(0x1001, 2);
    world.fmmu(0x1001, 2, 0x100, (1, 0x080d, 1));

    assert_eq!(world.logical(Command::Lrd, 0x100, &[0]).data[0] & 8, 0);
    assert!(world.mail(0x1001, &[0x00, 0x20, 0x40, 0x00, 0x10, 0, 0, 0, 0, 0]));
    let answer = world.logical(Command::Lrd, 0x100, &[0]);
    assert_eq!((answer.count, answer.data[0] & 8), (1, 8), "the mailbox has an answer");
}

// ---- SyncManagers

#[test]
fn process_data_are_refused_below_safeop_and_when_they_miss_the_first_byte() {
    let mut world = World::line(DRIVE, 1);
    world.set_up(0x1001, 128, 0);
    world.ask_state(0x1001, 2);
    assert_eq!(world.write(0x1001, 0x1800, &[0; 8]), 0);
    world.ask_state(0x1001, 4);

    assert_eq!(world.write(0x1001, 0x1800, &[0; 8]), 1);
    assert_eq!(world.write(0x1001, 0x1801, &[0; 7]), 0, "not opened by its first byte");
    assert_eq!(world.write(0x1001, 0x1800, &[0; 4]), 1);
    assert_eq!(world.write(0x1001, 0x1804, &[0; 4]), 1, "opened before, completed now");
    assert_eq!(world.read(0x1001, 0x1800, 8).count, 0, "an area that is written to cannot be read");
}

#[test]
fn a_write_beyond_an_area_reaches_the_plain_memory_there() {
    let mut world = World::line(DRIVE, 1);
    world.bring_up(0x1001, 128, 0);
    assert_eq!(world.write(0x1001, 0x1807, &[1, 2, 3]), 1);
    assert_eq!(world.read(0x1001, 0x1808, 2).data, [2, 3]);
    assert_eq!(world.write(0x1001, 0x2fff, &[4, 5]), 1, "the last byte of memory");
    assert_eq!(world.write(0x1001, 0x3000, &[6]), 0);
}

#[test]
fn a_full_mailbox_refuses_mail_and_an_empty_one_refuses_reading() {
    let mut world = World::line(DRIVE, 1);
    world.set_up(0x1001, 128, 0);
    assert_eq!(world.ask_state(0x1001, 2), (2, 0));
    assert_eq!(world.fetch(0x1001), None);
    // The firmware takes a mail between frames: the second mail of a frame finds the mailbox full.
    const MAIL: (Command, u16, u16, &[u8]) = (Command::Fpwr, 0x1001, 0x1000, &[0; 128]);
    let mut frame = frame_of(&[MAIL, MAIL, (Command::Fprd, 0x1001, 0x0805, &[0])]);
    world.pass(&mut frame);
    let counter = |at: usize| u16::from_le_bytes([frame[at], frame[at + 1]]);
    let second = 16 + 10 + 128;

    assert_eq!([counter(second), counter(second + 2 + 10 + 128)], [1, 0]);
    assert_eq!(frame[frame.len() - 3] & 8, 8);
}

// ---- SII

#[test]
fn the_eeprom_is_read_by_command_and_is_busy_for_its_time() {
    let mut world = World::line("[types.t]\nkind = \"digital\"\neeprom_us = 500\n", 1);
    assert_eq!(world.write(0x1001, 0x0502, &[0, 1, 8, 0, 0, 0]), 1);
    assert_ne!(world.read(0x1001, 0x0502, 2).word() & 0x8000, 0);
    world.wait_ns(500_000);
    assert_eq!(world.read(0x1001, 0x0502, 2).word() & 0x8000, 0);
    assert_eq!(world.read(0x1001, 0x0508, 4).long(), 0xf1c7_1005);
}

#[test]
fn the_eeprom_is_not_accessible_while_assigned_to_the_device() {
    let mut world = World::line(DIGITAL, 1);
    world.write(0x1001, 0x0500, &[1]);
    assert_eq!(world.write(0x1001, 0x0502, &[0, 1, 8, 0, 0, 0]), 0);
    world.write(0x1001, 0x0500, &[0]);
    assert_eq!(world.write(0x1001, 0x0502, &[0, 1, 8, 0, 0, 0]), 1);
}

#[test]
fn a_new_alias_is_used_after_a_reload_of_the_eeprom_with_a_valid_checksum() {
    let mut world = World::line(DIGITAL, 1);
    let write_word = |world: &mut World, address: u8, value: u16| {
        let [low, high] = value.to_le_bytes();
        world.write(0x1001, 0x0508, &[low, high]);
        world.write(0x1001, 0x0502, &[1, 2, address, 0, 0, 0]);
    };

    write_word(&mut world, 4, 0x4711);
    world.write(0x1001, 0x0502, &[0, 4, 0, 0, 0, 0]);
    assert_ne!(world.read(0x1001, 0x0502, 2).word() & 0x0800, 0, "checksum error");
    assert_eq!(world.read(0x1001, 0x0012, 2).word(), 0);
    let mut area = Vec::new();
    for address in [0u8, 4] {
        world.write(0x1001, 0x0502, &[0, 1, address, 0, 0, 0]);
        area.extend(world.read(0x1001, 0x0508, 8).data);
    }

    let sum = area[..14].iter().fold(0xffu8, |sum, byte| {
        (0..8).fold(sum ^ byte, |sum, _| if sum & 0x80 == 0 { sum << 1 } else { sum << 1 ^ 7 })
    });
    write_word(&mut world, 7, u16::from(sum));
    world.write(0x1001, 0x0502, &[0, 4, 0, 0, 0, 0]);

    assert_eq!(world.read(0x1001, 0x0502, 2).word() & 0x0800, 0);
    assert_eq!(world.read(0x1001, 0x0012, 2).word(), 0x4711);
}

#[test]
fn a_vlan_tag_stays_in_the_reply() {
    let mut world = World::line(DIGITAL, 2);
    let mut frame = frame_of(&[(Command::Brd, 0, 0x0130, &[0; 2])]);
    frame.splice(12..12, [0x81, 0x00, 0x60, 0x05]);
    assert!(matches!(world.pass(&mut frame), Passage::Back { .. }));
    assert_eq!(frame[12..18], [0x81, 0x00, 0x60, 0x05, 0x88, 0xa4]);
    assert_eq!((frame[6] & 2, last_count(&frame)), (2, 2), "both devices have passed it on");
}

#[test]
fn an_eeprom_of_16_kbit_has_one_byte_addresses() {
    let mut world = World::line(DIGITAL, 1);
    assert_eq!(world.read(0x1001, 0x0502, 2).word() & 0x0080, 0);
}

#[test]
fn a_frame_that_latches_receive_times_is_not_received_early() {
    use onbeat_segment::{Link, Nic};
    let names: Vec<String> = (0..40).map(|number| format!("\"d{number}\"")).collect();
    let text = format!(
        "[types.t]\nkind = \"digital\"\n[[devices]]\ntype = \"t\"\nnames = [{}]\n",
        names.join(", ")
    );
    let mut link = Link::from_toml(&text).unwrap();
    let mut buffer = [0; 1514];
    let sent = onbeat_rt::time::Instant::from_ns(1_000_000);
    const EARLY_NS: u64 = 200_000;

    link.send(Nic::First, &frame_of(&[(Command::Brd, 0, 0x0130, &[0; 2])]), sent);
    assert!(
        link.receive_early(sent, EARLY_NS, &mut buffer).is_some(),
        "any other frame can be received early"
    );

    link.send(Nic::First, &frame_of(&[(Command::Bwr, 0, 0x0900, &[0; 4])]), sent);
    assert_eq!(link.receive_early(sent, EARLY_NS, &mut buffer), None);
    let arrives = link.next_arrival().unwrap();
    assert!(link.receive_early(arrives, EARLY_NS, &mut buffer).is_some());
    // Receive times of the first device: from the MainDevice, and from the devices behind it.
    link.send(Nic::First, &frame_of(&[(Command::Aprd, 0, 0x0900, &[0; 8])]), arrives);

    assert!(link.receive_early(arrives, EARLY_NS, &mut buffer).is_some());
    let time = |at: usize| u32::from_le_bytes(buffer[26 + at..30 + at].try_into().unwrap());
    let of_the_others = time(4).wrapping_sub(time(0));
    assert!(
        of_the_others > 10_000 && arrives.ns_since(sent) > u64::from(of_the_others),
        "{of_the_others} ns"
    );
}
