//! Faults of the simulated segment.

use crate::sim_world;

use onbeat_rt::time::Instant;
use onbeat_segment::{Command, Fault, FaultChange, Link, Nic, Segment};
use proptest::prelude::*;
use sim_world::{DIGITAL, DRIVE, World, frame_of, last_count};

/// A link to three digital devices, sending a broadcast read once a millisecond.
struct Traffic {
    link: Link,
    now_ns: u64,
    sent: u8,
}

impl Traffic {
    fn with(faults: &str) -> Self {
        let text =
            format!("{DIGITAL}[[devices]]\ntype = \"t\"\nnames = [\"a\", \"b\", \"c\"]\n{faults}");
        Self {
            link: Link::from_toml(&text).unwrap_or_else(|why| panic!("{why}")),
            now_ns: 1_000_000,
            sent: 0,
        }
    }

    /// Sends one frame. Returns numbers and working counters of the frames received within the
    /// millisecond.
    fn cycle(&mut self) -> Vec<(u8, u16)> {
        let mut frame = frame_of(&[(Command::Brd, 0, 0x0130, &[0; 2])]);
        frame[17] = self.sent;
        self.sent += 1;
        self.link.send(Nic::First, &frame, Instant::from_ns(self.now_ns));
        self.now_ns += 1_000_000;
        let mut buffer = [0; 1514];
        let mut back = Vec::new();
        while let Some((_, length)) = self.link.receive(Instant::from_ns(self.now_ns), &mut buffer)
        {
            back.push((
                buffer[17],
                if length == frame.len() { last_count(&buffer[..length]) } else { u16::MAX },
            ));
        }

        back
    }

    fn cycles(&mut self, count: usize) -> Vec<Vec<(u8, u16)>> {
        (0..count).map(|_| self.cycle()).collect()
    }
}

fn fault(words: &str) -> String {
    format!("[[faults]]\n{words}\n")
}

// ---- frames

#[test]
fn without_faults_each_frame_returns_once() {
    let mut traffic = Traffic::with("");
    for (number, back) in traffic.cycles(10).into_iter().enumerate() {
        assert_eq!(back, [(number as u8, 3)]);
    }
    let counts = traffic.link.counts();
    assert_eq!((counts.sent, counts.received, counts.lost), (10, 10, 0));
}

#[test]
fn frames_are_lost_during_the_planned_time() {
    let mut traffic = Traffic::with(&fault("kind = \"lose\"\nat_ms = 3\nfor_ms = 2"));
    let back: Vec<bool> = traffic.cycles(7).iter().map(|back| !back.is_empty()).collect();
    assert_eq!(back, [true, true, true, false, false, true, true]);
    let logged: Vec<FaultChange> = traffic.link.log().iter().map(|line| line.what).collect();
    assert_eq!(
        logged,
        [FaultChange::Begins, FaultChange::Affects, FaultChange::Affects, FaultChange::Ends]
    );
    assert_eq!(traffic.link.counts().lost, 2);
}

#[test]
fn a_share_of_frames_is_lost_and_which_ones_depends_on_the_seed() {
    let lost = |seed: u32| {
        let mut traffic = Traffic::with(&format!(
            "{}[segment]\nseed = {seed}\n",
            fault("kind = \"lose\"\nshare = 0.2")
        ));
        traffic.cycles(200).iter().map(Vec::is_empty).collect::<Vec<bool>>()
    };

    let first = lost(1);
    let count = first.iter().filter(|lost| **lost).count();
    assert!((20..=60).contains(&count), "{count} of 200 at a share of 0.2");
    assert_eq!(first, lost(1));
    assert_ne!(first, lost(2));
}

#[test]
fn a_late_frame_arrives_in_a_later_cycle() {
    let mut traffic = Traffic::with(&fault("kind = \"late\"\nby = 2000000\nat_ms = 1\nfor_ms = 1"));
    assert_eq!(
        traffic.cycles(5),
        [vec![(0, 3)], vec![], vec![(2, 3)], vec![(1, 3), (3, 3)], vec![(4, 3)]]
    );
}

#[test]
fn frames_are_duplicated_reordered_and_truncated() {
    let mut traffic = Traffic::with(&fault("kind = \"duplicate\"\nat_ms = 1\nfor_ms = 1"));
    assert_eq!(traffic.cycles(3), [vec![(0, 3)], vec![(1, 3), (1, 3)], vec![(2, 3)]]);
    let mut traffic = Traffic::with(&fault("kind = \"reorder\"\nat_ms = 1\nfor_ms = 1"));
    assert_eq!(traffic.cycles(3), [vec![(0, 3)], vec![], vec![(2, 3), (1, 3)]]);
    let mut traffic = Traffic::with(&fault("kind = \"truncate\"\nat_ms = 1\nfor_ms = 1"));
    assert_eq!(traffic.cycles(3)[1][0].1, u16::MAX, "shorter than it was sent");
}

#[test]
fn a_flip_changes_one_bit() {
    let mut link = Link::from_toml(&format!(
        "{DIGITAL}[[devices]]\ntype = \"t\"\nname = \"a\"\n{}",
        fault("kind = \"flip\"\nat_ms = 1")
    ))
    .unwrap();
    let frame = frame_of(&[(Command::Brd, 0, 0x0000, &[0; 40])]);
    let mut back = Vec::new();
    for now_ns in [0, 5_000_000] {
        link.send(Nic::First, &frame, Instant::from_ns(now_ns));
        let mut buffer = [0; 1514];
        let (_, length) = link.receive(Instant::from_ns(now_ns + 1_000_000), &mut buffer).unwrap();
        back.push(buffer[..length].to_vec());
    }

    let differing: u32 = back[0].iter().zip(&back[1]).map(|(a, b)| (a ^ b).count_ones()).sum();
    assert_eq!(differing, 1);
}

#[test]
fn faults_can_be_injected_and_healed_between_frames() {
    let mut traffic = Traffic::with("");
    traffic.cycle();
    traffic.link.inject(Fault::Cut { device: 1 }, Instant::from_ns(traffic.now_ns), None, 1.0);
    assert_eq!(traffic.cycle(), [(1, 1)]);
    traffic.link.inject(Fault::Lose, Instant::from_ns(traffic.now_ns), None, 1.0);

    assert_eq!(traffic.cycle(), []);
    traffic.link.heal(Instant::from_ns(traffic.now_ns));
    assert_eq!(traffic.cycle(), [(3, 3)]);
}

#[test]
fn an_impossible_fault_is_logged_and_an_invalid_file_is_rejected() {
    let mut traffic = Traffic::with(&fault("kind = \"mail-mute\"\ndevice = \"a\""));
    traffic.cycle();
    assert_eq!(traffic.link.log()[0].what, FaultChange::Impossible, "no mailbox");
    let why = |faults: &str| {
        let text = format!("{DIGITAL}[[devices]]\ntype = \"t\"\nname = \"a\"\n{faults}");
        Link::from_toml(&text).unwrap_err().to_string()
    };

    assert!(why(&fault("kind = \"curse\"")).contains("curse"));
    assert!(why(&fault("kind = \"cut\"\ndevice = \"z\"")).contains("\"z\""));
    assert!(why(&fault("kind = \"cut\"")).contains("needs a device"));
}

// ---- working counters, cables and power

#[test]
fn a_working_counter_is_wrong_for_one_device_or_for_all() {
    let mut world = World::line(DIGITAL, 3);
    assert!(world.segment.begin(&Fault::CounterOff { device: Some(1), by: -1 }));
    assert_eq!(world.send(Command::Brd, 0, 0, &[0]).count, 2);
    world.segment.end(&Fault::CounterOff { device: Some(1), by: -1 });

    assert!(world.segment.begin(&Fault::CounterOff { device: None, by: 4 }));
    assert_eq!(world.send(Command::Brd, 0, 0, &[0]).count, 7);
    assert_eq!(
        world.send(Command::Nop, 0, 0, &[0]).count,
        0,
        "a datagram without a recipient keeps 0"
    );
}

#[test]
fn devices_behind_a_cut_do_not_respond_and_are_unchanged_after_the_repair() {
    let mut world = World::line(DIGITAL, 4);
    world.segment.begin(&Fault::Cut { device: 2 });
    assert_eq!(world.send(Command::Brd, 0, 0, &[0]).count, 2);
    assert_eq!(world.read(0x1003, 0x0010, 2).count, 0);
    assert_eq!(world.read(0x1002, 0x0110, 2).word() & 0x0020, 0, "no link at port 1");
    assert_eq!(world.read(0x1002, 0x0310, 4).data, [0, 1, 0, 0], "one link lost there");
    world.segment.end(&Fault::Cut { device: 2 });

    assert_eq!(world.send(Command::Brd, 0, 0, &[0]).count, 4);
    assert_eq!(world.read(0x1003, 0x0010, 2).word(), 0x1003, "the station address was kept");
}

#[test]
fn a_device_without_power_interrupts_the_line_and_restarts_in_init() {
    let mut world = World::line(DIGITAL, 3);
    world.bring_up(0x1002, 0, 0);
    world.segment.begin(&Fault::PowerOff { device: 1 });
    assert_eq!(world.send(Command::Brd, 0, 0, &[0]).count, 1);
    world.wait_ns(50_000_000);
    world.segment.end(&Fault::PowerOff { device: 1 });

    assert_eq!(world.send(Command::Brd, 0, 0, &[0]).count, 3);
    assert_eq!(world.read(0x1002, 0x0010, 2).count, 0, "its address is gone");
    assert_eq!(world.send(Command::Aprd, 0xffff, 0x0130, &[0; 2]).word(), 1);
    assert_eq!(world.logical(Command::Lrw, 0, &[0]).count, 0, "and its mapping");
    assert_eq!(world.read(0x1003, 0x0010, 2).word(), 0x1003);
}

#[test]
fn a_cut_ring_is_served_from_both_ends() {
    let text = format!(
        "[segment]\nring = true\n{DIGITAL}[[devices]]\ntype = \"t\"\nnames = [\"a\", \"b\", \"c\"]\n"
    );
    let mut link = Link::from_toml(&text).unwrap();
    let frame = frame_of(&[(Command::Brd, 0, 0, &[0])]);
    let both = |link: &mut Link, now_ns: u64| {
        let mut seen = Vec::new();
        for nic in [Nic::First, Nic::Second] {
            link.send(nic, &frame, Instant::from_ns(now_ns));
            let mut buffer = [0; 1514];
            let (back, length) =
                link.receive(Instant::from_ns(now_ns + 1_000_000), &mut buffer).unwrap();
            seen.push((back, last_count(&buffer[..length])));
        }

        seen
    };

    assert_eq!(both(&mut link, 1_000), [(Nic::Second, 3), (Nic::First, 0)]);
    link.segment_mut().begin(&Fault::Cut { device: 1 });
    assert_eq!(both(&mut link, 2_000_000), [(Nic::First, 1), (Nic::Second, 2)]);
}

// ---- states, EEPROM, mailbox, clock, data

#[test]
fn a_device_falls_back_with_a_code_and_returns_to_op_after_acknowledgement() {
    let mut world = World::line(DIGITAL, 1);
    world.bring_up(0x1001, 0, 0);
    world.segment.begin(&Fault::AlError { device: 0, code: 0x001a });
    let status = world.read(0x1001, 0x0130, 6);
    assert_eq!((status.data[0], status.data[4]), (0x14, 0x1a));
    assert_eq!(world.ask_state(0x1001, 0x18), (8, 0));
}

#[test]
fn a_state_change_is_refused_or_delayed() {
    let mut world = World::line(DIGITAL, 1);
    let refusal = Fault::RefuseState { device: 0, state: 2, code: 0x0047 };
    world.segment.begin(&refusal);
    assert_eq!(world.ask_state(0x1001, 2), (0x11, 0x0047));
    world.segment.end(&refusal);
    world.segment.begin(&Fault::SlowState { device: 0, by_ns: 1_000_000 });

    assert_eq!(world.ask_state(0x1001, 0x12), (1, 0));
    world.wait_ns(1_000_000);
    assert_eq!(world.read(0x1001, 0x0130, 2).word(), 2);
}

#[test]
fn an_eeprom_is_busy_invalid_or_blank_during_the_fault() {
    let mut world = World::line(DIGITAL, 1);
    let read = |world: &mut World| {
        world.write(0x1001, 0x0502, &[0, 1, 8, 0, 0, 0]);
        (world.read(0x1001, 0x0502, 2).word() & 0x8800, world.read(0x1001, 0x0508, 4).long())
    };

    for (fault, seen) in [
        (Fault::SiiChecksum { device: 0 }, (0x0800, 0xf1c7_1005)),
        (Fault::SiiBlank { device: 0 }, (0x0000, 0xffff_ffff)),
        (Fault::SiiBusy { device: 0 }, (0x8000, 8)),
    ] {
        world.segment.begin(&fault);
        world.write(0x1001, 0x0508, &[8, 0, 0, 0]);
        assert_eq!(read(&mut world), seen, "{fault:?}");
        world.segment.end(&fault);
        assert_eq!(read(&mut world), (0, 0xf1c7_1005), "after {fault:?}");
    }
}

#[test]
fn a_slow_mailbox_replies_after_its_time() {
    let mut world = World::line(DRIVE, 1);
    world.set_up(0x1001, 128, 0);
    world.ask_state(0x1001, 2);
    let fault = Fault::MailSlow { device: 0, by_ns: 3_000_000 };
    assert!(world.segment.begin(&fault));
    let request = [0x00, 0x20, 0x40, 0x18, 0x10, 1, 0, 0, 0, 0];
    assert!(world.mail(0x1001, &request));
    world.wait_ns(2_900_000);
    assert_eq!(world.fetch(0x1001), None);
    world.wait_ns(100_000);
    assert!(world.fetch(0x1001).is_some());
    assert!(world.segment.end(&fault));
    assert!(world.mail(0x1001, &request));
    assert!(world.fetch(0x1001).is_some());
}

#[test]
fn a_mailbox_is_mute_loses_replies_miscounts_and_aborts() {
    let mut world = World::line(DRIVE, 1);
    world.set_up(0x1001, 128, 0);
    world.ask_state(0x1001, 2);
    let request = [0x00, 0x20, 0x40, 0x18, 0x10, 1, 0, 0, 0, 0];
    world.segment.begin(&Fault::MailMute { device: 0 });

    assert!(world.mail(0x1001, &request));
    assert_eq!(world.fetch(0x1001), None);
    world.segment.end(&Fault::MailMute { device: 0 });
    world.segment.begin(&Fault::MailLost { device: 0, mails: 1 });
    assert!(world.mail(0x1001, &request));
    assert_eq!(world.fetch(0x1001), None);
    assert!(world.mail(0x1001, &request));
    let before = world.fetch_whole(0x1001).unwrap()[5] >> 4;
    world.segment.begin(&Fault::MailCounter { device: 0, mails: 1 });
    let mut counters = Vec::new();
    for _ in 0..2 {
        assert!(world.mail(0x1001, &request));
        counters.push(world.fetch_whole(0x1001).unwrap()[5] >> 4);
    }

    assert_ne!(counters[0], before % 7 + 1);
    assert_eq!(counters[1], (before + 1) % 7 + 1);
    world.segment.begin(&Fault::MailAbort { device: 0, code: 0x0504_0000 });
    assert_eq!(world.upload(0x1001, 0x1018, 1), Err(0x0504_0000));
    assert!(world.upload(0x1001, 0x1018, 1).is_ok());
}

#[test]
fn an_emergency_is_sent_before_the_reply() {
    let mut world = World::line(DRIVE, 1);
    world.set_up(0x1001, 128, 0);
    world.ask_state(0x1001, 2);
    assert!(world.segment.begin(&Fault::Emergency { device: 0, code: 0x4310 }));
    assert!(world.mail(0x1001, &[0x00, 0x20, 0x40, 0x18, 0x10, 1, 0, 0, 0, 0]));
    let first = world.fetch(0x1001).unwrap();

    assert_eq!(&first[..4], [0x00, 0x10, 0x10, 0x43]);
    assert_eq!(world.fetch(0x1001).unwrap()[..3], [0x00, 0x30, 0x43]);
}

#[test]
fn a_stepped_clock_is_synchronised_again() {
    let mut world = World::line("[segment]\ndrift_ppm = 5.0\n[types.t]\nkind = \"digital\"\n", 2);
    let run = |world: &mut World, cycles: usize| {
        for _ in 0..cycles {
            world.wait_ns(990_000);
            assert_eq!(world.send(Command::Frmw, 0x1001, 0x0910, &[0; 8]).count, 2);
        }
        world.read(0x1002, 0x092c, 4).long() & 0x7fff_ffff
    };

    world.send(Command::Bwr, 0, 0x0900, &[0; 4]);
    let reference = world.read(0x1001, 0x0918, 8).quad();
    let local = world.read(0x1002, 0x0918, 8).quad();
    world.write(0x1002, 0x0920, &reference.wrapping_sub(local).to_le_bytes());
    assert!(run(&mut world, 500) < 100);
    world.segment.begin(&Fault::ClockStep { device: 1, by_ns: 50_000 });

    assert!(run(&mut world, 3) > 1_000);
    assert!(run(&mut world, 1_500) < 100);
}

#[test]
fn frozen_process_data_keep_their_values_and_the_working_counter() {
    let mut world =
        World::line("[types.t]\nkind = \"digital\"\nchannels = { loop_back = true }\n", 1);
    world.bring_up(0x1001, 0, 0);
    let cycle = |world: &mut World, outputs: u8| {
        world.wait_ns(1_000_000);
        let answer = world.logical(Command::Lrw, 0, &[outputs]);
        assert_eq!(answer.count, 3);
        answer.data[0]
    };

    cycle(&mut world, 1);
    assert_eq!(cycle(&mut world, 2), 1);
    world.segment.begin(&Fault::Freeze { device: 0 });
    assert_eq!((cycle(&mut world, 3), cycle(&mut world, 4)), (1, 1));
    world.segment.end(&Fault::Freeze { device: 0 });
    cycle(&mut world, 5);

    assert_eq!(cycle(&mut world, 6), 5);
}

// ---- random input

fn any_fault() -> impl Strategy<Value = Fault> {
    (0..25usize, 0..4usize, any::<u16>(), any::<i16>()).prop_map(|(kind, device, code, by)| {
        let some = [
            Fault::CounterOff { device: None, by },
            Fault::CounterOff { device: Some(device), by },
            Fault::Cut { device },
            Fault::PowerOff { device },
            Fault::AlError { device, code },
            Fault::RefuseState { device, state: 4, code },
            Fault::SlowState { device, by_ns: u64::from(code) },
            Fault::SiiBusy { device },
            Fault::SiiChecksum { device },
            Fault::SiiBlank { device },
            Fault::MailMute { device },
            Fault::MailLost { device, mails: 2 },
            Fault::MailCounter { device, mails: 2 },
            Fault::MailAbort { device, code: 1 },
            Fault::Emergency { device, code },
            Fault::ClockStep { device, by_ns: i64::from(by) },
            Fault::ClockDrift { device, by_ppb: i64::from(by) },
            Fault::Freeze { device },
            Fault::Swap { device, with: usize::from(code % 5) },
            Fault::Unplug { device },
            Fault::Lose,
            Fault::Late { by_ns: u64::from(code) },
            Fault::Duplicate,
            Fault::Reorder,
            Fault::Flip,
        ];
        some[kind]
    })
}

/// A random datagram with a plausible address.
fn any_datagram() -> impl Strategy<Value = Vec<u8>> {
    let address = prop_oneof![Just(0u16), Just(0xffff), 0x1001u16..0x1006, any::<u16>()];
    let offset = prop_oneof![0u16..0x1000, 0x0f00u16..0x1200, 0x17f0u16..0x1820, any::<u16>()];
    (0u8..16, address, offset, proptest::collection::vec(any::<u8>(), 0..300)).prop_map(
        |(command, address, offset, data)| {
            let mut frame = frame_of(&[(Command::Nop, address, offset, &data)]);
            frame[16] = command;
            frame
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_frame_and_no_fault_makes_a_segment_panic(
        steps in proptest::collection::vec((any_datagram(), any_fault(), 0..3u8, any::<u32>()), 1..120)
    ) {
        let mut world = World::line(&format!("{DRIVE}[types.other]\nkind = \"analogue\"\n"), 4);
        for station in 0x1001..=0x1003u16 {
            world.bring_up(station, 128, u32::from(station) * 16);
        }

        let mut link = Link::new(world.segment);
        let mut now_ns = world.now_ns;
        let mut buffer = [0; 1514];
        for (frame, fault, what, wait_ns) in steps {
            now_ns += u64::from(wait_ns) / 64;
            let now = Instant::from_ns(now_ns);
            match what {
                0 => link.inject(fault, now, Some(u64::from(wait_ns) / 8), 0.7),
                1 => link.heal(now),
                _ => link.send(Nic::First, &frame, now),
            }

            while link.receive(now, &mut buffer).is_some() {}
        }
    }

    #[test]
    fn no_bytes_make_a_segment_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), header in any::<bool>()) {
        let mut segment = Segment::from_toml(Segment::HUMANOID).unwrap();
        let mut frame = bytes;
        if header && frame.len() >= 16 {
            frame[12..16].copy_from_slice(&[0x88, 0xa4, 0xff, 0x17]);
        }
        segment.frame(&mut frame, Instant::from_ns(1));
    }
}
