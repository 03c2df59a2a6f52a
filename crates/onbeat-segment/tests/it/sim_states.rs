//! AL states, watchdog and distributed clocks of the simulated devices.

use crate::sim_world;

use onbeat_segment::Command;
use sim_world::{DIGITAL, DRIVE, World};

#[test]
fn states_are_reached_one_by_one() {
    let mut world = World::line(DRIVE, 1);
    world.set_up(0x1001, 128, 0);
    assert_eq!(world.ask_state(0x1001, 4), (0x11, 0x0011), "SAFEOP from INIT is refused");
    assert_eq!(world.ask_state(0x1001, 2), (0x11, 0x0011), "the error must be acknowledged first");
    assert_eq!(world.ask_state(0x1001, 0x11), (0x01, 0));
    assert_eq!(world.ask_state(0x1001, 2), (2, 0));
    assert_eq!(world.ask_state(0x1001, 8), (0x12, 0x0011));
    assert_eq!(world.ask_state(0x1001, 2), (0x12, 0x0011), "the same state does not acknowledge");
    assert_eq!(world.ask_state(0x1001, 0x12), (2, 0));
    assert_eq!(world.ask_state(0x1001, 8), (0x12, 0x0011));
    assert_eq!(world.ask_state(0x1001, 1), (1, 0), "INIT ends an error");
    assert_eq!(world.ask_state(0x1001, 2), (2, 0));
    assert_eq!(world.ask_state(0x1001, 4), (4, 0));
    assert_eq!(world.ask_state(0x1001, 8), (8, 0));
    assert_eq!(world.ask_state(0x1001, 1), (1, 0), "down in one step");
}

#[test]
fn unknown_states_and_bootstrap_are_refused_with_their_codes() {
    let mut world = World::line(DRIVE, 1);
    assert_eq!(world.ask_state(0x1001, 7), (0x11, 0x0012));
    assert_eq!(world.ask_state(0x1001, 0x13), (0x11, 0x0015), "its mailboxes are not set up");

    let mut world = World::line(DIGITAL, 1);
    world.set_up(0x1001, 0, 0);
    assert_eq!(world.ask_state(0x1001, 3), (0x11, 0x0013), "it has no files");
}

#[test]
fn a_wrong_mailbox_keeps_a_device_in_init() {
    let mut world = World::line(DRIVE, 1);
    assert_eq!(world.ask_state(0x1001, 2), (0x11, 0x0016), "no SyncManager at all");
    world.set_up(0x1001, 128, 0);
    world.sync_manager(0x1001, 1, (0x1080, 64, 0x22));

    assert_eq!(world.ask_state(0x1001, 0x12), (0x11, 0x0016), "a SyncManager that is too short");
    world.sync_manager(0x1001, 1, (0x1080, 128, 0x22));
    assert_eq!(world.ask_state(0x1001, 0x12), (2, 0));
}

#[test]
fn wrong_process_data_keep_a_device_in_preop() {
    let mut world = World::line(DRIVE, 1);
    world.set_up(0x1001, 128, 0);
    world.ask_state(0x1001, 2);
    world.sync_manager(0x1001, 2, (0x1800, 7, 0x64));

    assert_eq!(world.ask_state(0x1001, 4), (0x12, 0x001d));
    world.sync_manager(0x1001, 2, (0x1800, 8, 0x64));
    world.sync_manager(0x1001, 3, (0x2400, 13, 0x20));
    assert_eq!(world.ask_state(0x1001, 0x14), (0x12, 0x001e));
    world.sync_manager(0x1001, 3, (0x2400, 12, 0x20));

    assert_eq!(world.ask_state(0x1001, 0x14), (4, 0));
}

#[test]
fn a_device_can_require_outputs_before_op() {
    let mut world = World::line("[types.t]\nkind = \"drive\"\nneeds_outputs = true\n", 1);
    world.set_up(0x1001, 128, 0);
    world.ask_state(0x1001, 2);
    world.ask_state(0x1001, 4);

    assert_eq!(world.ask_state(0x1001, 8), (0x14, 0x0019));
    world.logical(Command::Lrw, 0, &[0; 12]);
    assert_eq!(world.ask_state(0x1001, 0x18), (8, 0));
}

#[test]
fn a_slow_state_change_reports_the_old_state_until_it_is_done() {
    let mut world = World::line("[types.t]\nkind = \"digital\"\nstate_us = 2000\n", 1);
    assert_eq!(world.ask_state(0x1001, 2), (1, 0));
    world.wait_ns(1_900_000);
    assert_eq!(world.read(0x1001, 0x0130, 2).word(), 1);
    world.wait_ns(100_000);
    assert_eq!(world.read(0x1001, 0x0130, 2).word(), 2);
}

#[test]
fn a_device_reports_the_id_of_its_switch_on_request_and_keeps_its_state() {
    let mut world = World::from_toml(
        "[types.t]\nkind = \"digital\"\n\
         [[devices]]\ntype = \"t\"\nnames = [\"a\", \"b\"]\ndevice_id = 7\n\
         [[devices]]\ntype = \"t\"\nname = \"c\"\n",
    );
    world.address_all();
    assert_eq!(world.ask_state(0x1001, 0x21), (0x21, 7));
    assert_eq!(world.ask_state(0x1001, 0x01), (0x01, 0), "no longer requested");
    assert_eq!(world.ask_state(0x1002, 0x22), (0x22, 8), "together with a change of state");
    assert_eq!(world.ask_state(0x1003, 0x21), (0x01, 0), "without a switch");
    assert_eq!(world.ask_state(0x1001, 0x28), (0x11, 0x0011), "an error has its own code");
    assert_eq!(world.ask_state(0x1001, 0x31), (0x21, 7), "acknowledged");
}

#[test]
fn the_watchdog_expires_after_its_time_and_resets_the_outputs() {
    let mut world = World::line(DIGITAL, 1);
    world.bring_up(0x1001, 0, 0);
    world.logical(Command::Lrw, 0, &[0xff]);
    world.wait_ns(99_900_000);

    assert_eq!(world.read(0x1001, 0x0130, 1).data, [8], "a hundred milliseconds are its time");
    assert_eq!(world.segment.value(0, 0x7000, 1), Some([1].as_slice()));
    world.wait_ns(100_000);
    let status = world.read(0x1001, 0x0130, 6);
    assert_eq!(
        (status.data[0], u16::from_le_bytes([status.data[4], status.data[5]])),
        (0x14, 0x001b)
    );
    assert_eq!(world.read(0x1001, 0x0440, 3).data, [0, 0, 1], "expired, counted once");
    assert_eq!(world.segment.value(0, 0x7000, 1), Some([0].as_slice()));
}

#[test]
fn the_watchdog_time_is_set_by_its_registers_and_zero_disables_it() {
    let mut world = World::line(DIGITAL, 2);
    for station in [0x1001, 0x1002] {
        world.bring_up(station, 0, u32::from(station));
    }

    // (248 + 2) × 40 ns = 10 µs, a hundred times.
    world.write(0x1001, 0x0400, &248u16.to_le_bytes());
    world.write(0x1001, 0x0420, &100u16.to_le_bytes());
    world.write(0x1002, 0x0420, &0u16.to_le_bytes());
    world.logical(Command::Lrw, 0x1001, &[0; 2]);
    world.wait_ns(950_000);

    assert_eq!(world.read(0x1001, 0x0130, 1).data, [8]);
    world.wait_ns(100_000);
    assert_eq!(world.read(0x1001, 0x0130, 1).data, [0x14]);
    world.wait_ns(10_000_000_000);
    assert_eq!(world.read(0x1002, 0x0130, 1).data, [8]);
}

// ---- distributed clocks

/// Port 0 and port 1 receive times of a device.
fn port_times(world: &mut World, station: u16) -> (u32, u32) {
    let data = world.read(station, 0x0900, 8).data;
    let time = |at: usize| u32::from_le_bytes(data[at..at + 4].try_into().unwrap());
    (time(0), time(4))
}

#[test]
fn receive_times_give_the_cable_delays() {
    let kind = "[segment]\ncable_ns = 500\ndrift_ppm = 0.0\n[types.t]\nkind = \"digital\"\n";
    let mut world = World::line(kind, 3);
    assert_eq!(world.send(Command::Bwr, 0, 0x0900, &[0; 4]).count, 3);
    let loops: Vec<u32> = [0x1001, 0x1002]
        .map(|station| {
            let (sent, back) = port_times(&mut world, station);
            back.wrapping_sub(sent)
        })
        .into();

    assert_eq!(port_times(&mut world, 0x1003).1, 0, "no port 1 at the end of the line");
    // Between two devices: cable there and back, the processing of the far one, nothing forwarded
    // from beyond the last.
    assert_eq!(loops[1], 320 + 500 + 320 + 500);
    assert_eq!(loops[0] - loops[1], 320 + 500 + 500 + 120);
}

#[test]
fn the_system_time_is_the_local_time_and_the_offset() {
    let mut world = World::line("[segment]\ndrift_ppm = 0.0\n[types.t]\nkind = \"digital\"\n", 1);
    world.send(Command::Bwr, 0, 0x0900, &[0; 4]);
    let local = world.read(0x1001, 0x0918, 8).quad();
    let wanted = 700_000_000_000_000_000u64;
    world.write(0x1001, 0x0920, &wanted.wrapping_sub(local).to_le_bytes());

    // The latch came with the frame three frames of 10 µs earlier.
    assert_eq!(world.read(0x1001, 0x0910, 8).quad(), wanted + 30_000);
}

#[test]
fn drifting_clocks_follow_the_reference_within_a_hundred_nanoseconds() {
    let mut world =
        World::line("[segment]\ndrift_ppm = 50.0\nseed = 3\n[types.t]\nkind = \"digital\"\n", 8);
    world.send(Command::Bwr, 0, 0x0900, &[0; 4]);
    let reference = world.read(0x1001, 0x0918, 8).quad();
    for station in 0x1002..=0x1008u16 {
        let local = world.read(station, 0x0918, 8).quad();
        world.write(station, 0x0920, &reference.wrapping_sub(local).to_le_bytes());
    }

    for _ in 0..1_000 {
        world.wait_ns(990_000);
        let answer = world.send(Command::Frmw, 0x1001, 0x0910, &[0; 8]);
        assert_eq!(answer.count, 8);
    }

    for station in 0x1002..=0x1008u16 {
        let difference = world.read(station, 0x092c, 4).long() & 0x7fff_ffff;
        assert!(difference <= 100, "{station:#x}: {difference} ns");
    }
}

#[test]
fn without_a_reference_the_clocks_drift_apart() {
    let mut world =
        World::line("[segment]\ndrift_ppm = 50.0\nseed = 3\n[types.t]\nkind = \"digital\"\n", 2);
    let apart = |world: &mut World| {
        world.send(Command::Bwr, 0, 0x0900, &[0; 4]);
        let first = world.read(0x1001, 0x0918, 8).quad();
        world.read(0x1002, 0x0918, 8).quad().wrapping_sub(first) as i64
    };

    let before = apart(&mut world);
    world.wait_ns(1_000_000_000);
    let after = apart(&mut world);
    assert!((after - before).abs() > 1_000, "{before} {after}");
}

#[test]
fn sync0_triggers_the_device_and_a_start_time_in_the_past_keeps_it_from_op() {
    let mut world = World::line(DRIVE, 1);
    world.set_up(0x1001, 128, 0);
    world.ask_state(0x1001, 2);
    world.write(0x1001, 0x09a0, &1_000_000u32.to_le_bytes());
    world.write(0x1001, 0x0990, &1u64.to_le_bytes());
    world.write(0x1001, 0x0981, &[3]);
    world.ask_state(0x1001, 4);

    assert_eq!(world.ask_state(0x1001, 8), (0x14, 0x002d));
    world.write(0x1001, 0x0981, &[0]);
    let soon = world.read(0x1001, 0x0910, 8).quad() + 5_000_000;
    world.write(0x1001, 0x0990, &soon.to_le_bytes());
    world.write(0x1001, 0x0981, &[3]);

    assert_eq!(world.ask_state(0x1001, 0x18), (8, 0));
    world.wait_ns(20_000_000);
    let next = world.read(0x1001, 0x0990, 8).quad();
    assert_eq!((next - soon) % 1_000_000, 0, "the pulses keep their grid");
    assert!(next > soon + 14_000_000);
}

#[test]
fn waiting_for_a_first_pulse_centuries_ahead_is_cheap() {
    let mut world = World::line(DRIVE, 1);
    world.set_up(0x1001, 128, 0);
    world.ask_state(0x1001, 2);
    world.write(0x1001, 0x09a0, &1_000_000u32.to_le_bytes());
    world.write(0x1001, 0x0990, &(u64::MAX / 4 * 3).to_le_bytes());
    world.write(0x1001, 0x0981, &[3]);

    assert_eq!(world.ask_state(0x1001, 4), (4, 0));
    // A simulation step per nanosecond would take half an hour.
    world.wait_ns(20_000_000_000);
    assert_eq!(world.read(0x1001, 0x0990, 8).quad(), u64::MAX / 4 * 3, "it has not come");
}

#[test]
fn sync0_without_a_cycle_time_is_refused() {
    let mut world = World::line(DRIVE, 1);
    world.set_up(0x1001, 128, 0);
    world.ask_state(0x1001, 2);
    world.write(0x1001, 0x0990, &u64::MAX.to_le_bytes());
    world.write(0x1001, 0x0981, &[3]);
    assert_eq!(world.ask_state(0x1001, 4), (0x12, 0x0030));
}
