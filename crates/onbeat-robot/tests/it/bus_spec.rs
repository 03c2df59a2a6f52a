//! The bus on a virtual clock: bring-up to OP, and cycles.

use crate::bus_world;

use bus_world::{Idle, MS, OPTIONS, World, clock};
use onbeat_ethercat::event::EventKind;
use onbeat_ethercat::layout::Layout;
use onbeat_ethercat::step::{BusCycle, Controller};
use onbeat_robot::bus::{Bus, BusError, BusOptions, ExchangeMode, InProcess, Unready};
use onbeat_segment::{Fault, Link, Segment};

#[test]
fn all_59_devices_get_to_op_and_count_in_each_of_ten_thousand_cycles_with_one_frame_a_cycle() {
    let clock = clock();
    let mut world = World::humanoid(&clock);
    println!(
        "{} frames to SAFEOP, {} cycles to OP",
        world.bus.bring_up_frames(),
        world.bus.counts().cycles
    );
    assert_eq!(world.kinds(), [EventKind::BusUp]);
    assert_eq!(world.in_op(), 59);
    assert!(world.bus.bring_up_frames() <= 700, "all devices are configured together");
    // Until the clocks are synchronised, the clock difference of each device is read.
    world.cycles(10);
    let before = world.bus.counts();

    for _ in 0..10_000 {
        let cycle = world.cycle(&mut Idle);
        assert_eq!((cycle.working_counter, cycle.expected, cycle.fresh), (171, 171, true));
    }

    let after = world.bus.counts();
    assert_eq!(after.answered - before.answered, 10_000);
    // Eleven rounds at most begin in ten seconds.
    let reads_of_errors = 11 * 59_u64.div_ceil(8);
    let sent = after.sent - before.sent;
    assert!((10_000..=10_000 + reads_of_errors).contains(&sent), "a frame each, and {sent}");
    assert_eq!((after.late, after.unknown, world.events.len()), (0, 0, 1), "no event");
    assert_eq!(world.bus.size().0, 1);
    assert!(world.bus.size().1 <= 1_150, "{} bytes", world.bus.size().1);
}

/// Copies every input of a digital device to its output.
struct Mirror;

impl Controller for Mirror {
    fn step(&mut self, _: &BusCycle, inputs: &[u8], outputs: &mut [u8]) {
        outputs[0] = inputs[0];
    }
}

const TWO: &str = r#"
    [types.io]
    kind = "digital"
    [types.joint]
    kind = "drive"
    [[devices]]
    type = "io"
    name = "io"
    [[devices]]
    type = "joint"
    name = "knee"
"#;

/// Returns the cycles from a change of an input to that of the output, as seen by the device.
fn reaction(mode: ExchangeMode) -> u64 {
    let clock = clock();
    let mut world = World::new(TWO, &clock, BusOptions { mode, ..OPTIONS });
    world.until_up(&mut Mirror);
    world.bus.wire_mut().link_mut().segment_mut().set_value(0, 0x6000, 1, &[1]);
    for cycle in 1..10 {
        world.cycle(&mut Mirror);
        let middle = world.now().plus_ns(MS / 2);
        world.bus.wire_mut().link_mut().advance(middle);
        if world.segment().value(0, 0x7000, 1) == Some(&[1][..]) {
            return cycle;
        }
    }

    panic!("the output never followed");
}

#[test]
fn an_input_reaches_an_output_within_two_cycles_in_the_same_cycle_mode_and_one_later_when_pipelined()
 {
    let same = reaction(ExchangeMode::SameCycle { reply_within_ns: 200_000 });
    let pipelined = reaction(ExchangeMode::Pipelined);
    assert!(same <= 2, "{same}");
    assert!((same + 1..=4).contains(&pipelined), "{pipelined}");
}

#[test]
fn releases_follow_the_reference_clock() {
    let clock = clock();
    let mut world =
        World::new(Segment::HUMANOID, &clock, BusOptions { follow_clock: true, ..OPTIONS });
    world.until_up(&mut Idle);
    world.cycles(3_000);

    assert!(world.bus.is_locked());
    assert_eq!(world.count(EventKind::ClockLocked), 1, "{:?}", world.events);
    let first = world.cycles(1);
    let phase = |cycle: BusCycle| cycle.reference_ns % MS;
    for _ in 0..1_000 {
        let off = phase(world.cycle(&mut Idle)).abs_diff(phase(first));
        assert!(off.min(MS - off) < 1_000, "{off} ns from the reference's grid");
    }
}

#[test]
fn a_cut_and_healed_cable_does_not_affect_other_devices() {
    let clock = clock();
    let mut world = World::humanoid(&clock);
    let cut = world.device("left knee");
    world.inject(Fault::Cut { device: cut }, Some(300 * MS), 1.0);
    let began = world.bus.counts().cycles;
    world.cycles(200);
    let lost: Vec<_> =
        world.events.iter().filter(|event| event.kind == EventKind::DeviceLost).collect();
    let first_lost = lost.iter().map(|event| event.cycle).min().unwrap();

    assert!(first_lost - began <= 5, "noticed after {} cycles", first_lost - began);
    let names: Vec<&str> = lost
        .iter()
        .map(|event| world.bus.layout().devices[usize::from(event.device)].name.as_str())
        .collect();
    assert_eq!(
        names,
        ["left knee", "left ankle pitch", "left ankle roll", "left toe", "left foot"],
        "what hangs on the cable"
    );
    assert_eq!(world.in_op(), 54, "lost devices fall back by their watchdogs, the others stay");
    world.cycles(200);

    assert!(world.bus.is_up(), "{:?}", &world.events[world.events.len() - 10..]);
    assert_eq!((world.in_op(), world.count(EventKind::DeviceBack)), (59, 5));
    assert!(world.cycles(1).fresh);
}

#[test]
fn a_device_that_lost_power_is_configured_again_and_in_op_within_fifty_cycles() {
    let clock = clock();
    let mut world = World::humanoid(&clock);
    let device = world.device("right toe");
    world.inject(Fault::PowerOff { device }, Some(100 * MS), 1.0);
    world.cycles(102);
    let found = world.bus.counts().cycles;
    world.cycles(80);

    assert!(world.bus.is_up(), "{:?}", world.events);
    let back = world
        .events
        .iter()
        .filter(|event| event.kind == EventKind::DeviceBack)
        .map(|event| event.cycle)
        .max()
        .unwrap();
    assert!(back - found <= 50, "{} cycles", back - found);
    let fell: Vec<_> =
        world.events.iter().filter(|event| event.kind == EventKind::StateChanged).collect();

    assert!(fell.is_empty(), "no other device left OP: {fell:?}");
}

#[test]
fn a_device_that_differs_from_the_file_is_never_enabled() {
    let clock = clock();
    let real = TWO.replace("kind = \"drive\"", "kind = \"drive\"\nproduct = 0x999");
    let mut wire = InProcess::on_virtual_clock(Link::from_toml(&real).unwrap(), &clock);
    let layout = Layout::from_toml(TWO).unwrap();
    let refused =
        Bus::bring_up(&mut wire, Some(&layout), OPTIONS, "the segment").map(|_| ()).unwrap_err();

    assert!(
        matches!(&refused, BusError::WrongDevice { place: 1, name, .. } if name == "knee"),
        "{refused}"
    );
    let states = (0..2).map(|device| wire.link().segment().status(device).unwrap().al_state);
    assert!(states.into_iter().all(|state| state < 4), "nothing beyond PREOP");
}

#[test]
fn a_missing_device_is_named() {
    let clock = clock();
    let real = TWO.replace("[[devices]]\n    type = \"joint\"\n    name = \"knee\"", "");
    let wire = InProcess::on_virtual_clock(Link::from_toml(&real).unwrap(), &clock);
    let layout = Layout::from_toml(TWO).unwrap();
    let refused = Bus::bring_up(wire, Some(&layout), OPTIONS, "the segment")
        .map(|_| ())
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("lists 2 SubDevices and 1 answer") && refused.contains("\"knee\""),
        "{refused}"
    );
}

#[test]
fn a_cut_cable_at_the_first_device_is_reported_as_no_device() {
    let clock = clock();
    let mut wire = InProcess::on_virtual_clock(Link::from_toml(TWO).unwrap(), &clock);
    wire.link_mut().inject(Fault::Lose, onbeat_rt::time::Clock::now(&&clock), None, 1.0);
    let refused = Bus::bring_up(wire, None, OPTIONS, "ecat0").map(|_| ()).unwrap_err().to_string();
    assert!(refused.starts_with("no SubDevice answers on ecat0"), "{refused}");
}

#[test]
fn an_emergency_that_ends_an_error_is_not_an_alarm() {
    let clock = clock();
    let mut world = World::new(TWO, &clock, OPTIONS);
    world.until_up(&mut Idle);
    world.events.clear();
    world.inject(Fault::Emergency { device: 1, code: 0 }, None, 1.0);
    world.cycles(5);
    let said: Vec<(String, bool)> =
        world.events.iter().map(|event| (event.sentence("knee"), event.is_alarm())).collect();
    let ended = "knee reports the end of its error (emergency 0x0000)";
    assert_eq!(said, [(ended.to_owned(), false)]);
}

#[test]
fn emergencies_during_bring_up_and_in_cycles_are_events_without_other_effect() {
    let clock = clock();
    let faults = "[[faults]]\nkind = \"emergency\"\ndevice = \"knee\"\ncode = 0x7305\nat_ms = ";
    for at_ms in [1.0, 3.0, 5.0, 8.0, 12.0] {
        let text = format!("{TWO}\n{faults}{at_ms}\n");
        let mut world = World::new(&text, &clock, OPTIONS);
        world.until_up(&mut Idle);
        let now = world.now();
        let reported = world
            .events
            .iter()
            .filter(|event| event.kind == EventKind::Emergency && event.code == 0x7305);
        println!(
            "at {at_ms} ms: {} of 1 reported during bring-up, which ended at {now:?}",
            reported.count()
        );
        world.inject(Fault::Emergency { device: 1, code: 0x8611 }, None, 1.0);
        world.cycles(5);
        let reported = world
            .events
            .iter()
            .filter(|event| event.kind == EventKind::Emergency && event.code == 0x8611);

        assert_eq!(
            reported.map(|event| event.device).collect::<Vec<_>>(),
            [1],
            "{at_ms} ms: {:?}",
            world.events
        );
    }
}

#[test]
fn a_failed_bring_up_is_reported_and_repeated() {
    let clock = clock();
    let mute = "[[faults]]\nkind = \"mail-mute\"\ndevice = \"knee\"\nat_ms = 0\nfor_ms = ";
    // ethercrab waits for mails in real time and keeps polling; the segment's time advances with
    // the frames.
    let mut world = World::new(&format!("{TWO}\n{mute}20\n"), &clock, OPTIONS);
    world.until_up(&mut Idle);
    let kinds = world.kinds();
    let restarts = kinds.iter().filter(|kind| **kind == EventKind::BusRestarted).count();

    assert!(restarts <= 2, "{kinds:?}");
    assert_eq!(world.in_op(), 2, "with {restarts} restarts");

    let wire = InProcess::on_virtual_clock(
        Link::from_toml(&format!("{TWO}\n{mute}100000000\n")).unwrap(),
        &clock,
    );
    let refused = Bus::bring_up(wire, None, OPTIONS, "the segment").map(|_| ()).unwrap_err();
    let is_named =
        matches!(refused, BusError::Unready { place: 1, trouble: Unready::MuteMailbox, .. });
    assert!(is_named, "{refused}");
}

#[test]
fn each_of_two_hundred_devices_in_a_line_recovers_and_frames_are_split_as_needed() {
    let names: Vec<String> = (0..200).map(|place| format!("\"device {place}\"")).collect();
    let text = format!(
        "[types.joint]\nkind = \"drive\"\n[[devices]]\ntype = \"joint\"\nnames = [{}]\n",
        names.join(", ")
    );
    let clock = clock();
    let mut world = World::new(&text, &clock, OPTIONS);
    world.until_up(&mut Idle);

    assert_eq!((world.in_op(), world.bus.size().0), (200, 3), "4,000 bytes of process data");
    for device in [199, 130, 64, 1] {
        world.events.clear();
        world.inject(Fault::PowerOff { device }, Some(20 * MS), 1.0);
        world.cycles(22);
        let lost = world.count(EventKind::DeviceLost);

        assert_eq!(lost, 200 - device, "a device without power cuts off those behind it");
        world.cycles(400);
        assert!(world.bus.is_up(), "device {device}: {} of 200 in OP", world.in_op());
        assert!(world.cycles(1).fresh);
    }
}
