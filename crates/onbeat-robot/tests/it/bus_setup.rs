//! Configuration of devices during bring-up and recovery, on a virtual clock: start-up values,
//! SYNC0, watchdog.

use crate::bus_world;

use bus_world::{Idle, MS, OPTIONS, VirtualClock, World, clock};
use onbeat_control::{SdoAction, SdoRequest};
use onbeat_ethercat::event::EventKind;
use onbeat_ethercat::layout::Layout;
use onbeat_robot::bus::{Bus, BusError, BusOptions, BusTransfer, ExchangeMode, InProcess};
use onbeat_segment::{DescriptionError, Fault, Link};

/// Replies are read in their own cycle, so no frame is in flight between cycles.
const SAME: BusOptions =
    BusOptions { mode: ExchangeMode::SameCycle { reply_within_ns: 200_000 }, ..OPTIONS };

/// Two drives; the second string is appended to the second one.
fn drives(of_segment: &str, of_second: &str) -> String {
    format!(
        "[segment]\nname = \"drives\"\n{of_segment}\n[types.joint]\nkind = \"drive\"\n[[devices]]\ntype = \"joint\"\nname = \"hip\"\n\
         [[devices]]\ntype = \"joint\"\nname = \"knee\"\n{of_second}\n"
    )
}

fn startup(object: &str, value: &str) -> String {
    format!("[[devices.startup]]\nobject = \"{object}\"\nvalue = \"{value}\"\n")
}

fn refusal(text: &str) -> BusError {
    let clock = clock();
    let mut wire = InProcess::on_virtual_clock(Link::from_toml(text).unwrap(), &clock);
    let layout = Layout::from_toml(text).unwrap();
    let refused =
        Bus::bring_up(&mut wire, Some(&layout), OPTIONS, "the segment").map(|_| ()).unwrap_err();
    let segment = wire.link().segment();
    let states = (0..segment.len()).map(|device| segment.status(device).unwrap().al_state);

    assert!(states.into_iter().all(|state| state < 4), "nothing beyond PREOP");
    refused
}

fn value(world: &World<'_>, device: &str, index: u16, entry: u8) -> i64 {
    let bytes = world.segment().value(world.device(device), index, entry).unwrap();
    bytes.iter().rev().fold(0, |sum, byte| sum << 8 | i64::from(*byte))
}

fn up(text: &str, clock: &'static VirtualClock) -> World<'static> {
    let mut world = World::new(text, clock, SAME);
    world.until_up(&mut Idle);
    world
}

fn leaked() -> &'static VirtualClock {
    Box::leak(Box::new(clock()))
}

#[test]
fn start_up_values_are_written_in_the_order_of_the_file_before_op() {
    let of_knee = startup("6065", "1234u32")
        + &startup("6098", "-3i8")
        + &startup("607d:1", "-500i32")
        + &startup("6065", "4321u32");
    let world = up(&drives("", &of_knee), leaked());
    assert_eq!(value(&world, "knee", 0x6065, 0), 4_321, "the later line overrides the earlier one");
    assert_eq!((value(&world, "knee", 0x6098, 0), value(&world, "hip", 0x6098, 0)), (0xfd, 37));
    assert_eq!(value(&world, "knee", 0x607d, 1), 0xffff_fe0c);
    assert_eq!(world.in_op(), 2);
    assert_eq!(world.kinds(), [EventKind::BusUp], "no other event");
}

#[test]
fn start_up_values_of_a_type_apply_to_all_its_devices_before_those_of_the_device() {
    let of_type = "[[types.joint.startup]]\nobject = \"6065\"\nvalue = \"77u32\"\n";
    let world = up(&(drives("", &startup("6065", "99u32")) + of_type), leaked());
    assert_eq!((value(&world, "hip", 0x6065, 0), value(&world, "knee", 0x6065, 0)), (77, 99));
}

#[test]
fn a_mapping_written_by_start_up_values_is_used() {
    let of_knee = startup("1c13:0", "0u8")
        + &startup("1a00:0", "0u8")
        + &startup("1a00:1", "0x60410010u32")
        + &startup("1a00:2", "0x60640020u32")
        + &startup("1a00:0", "2u8")
        + &startup("1c13:0", "1u8");
    let refused = refusal(&drives("", &of_knee));
    let BusError::OtherProcessData { name, expected, found } = &refused else {
        panic!("{refused}")
    };

    assert_eq!(
        (name.as_str(), expected.1, found.1),
        ("knee", 12, 6),
        "the device uses the written mapping"
    );
}

#[test]
fn a_mapping_of_the_same_length_in_another_order_is_refused() {
    let of_knee = startup("1c12:0", "0u8")
        + &startup("1600:0", "0u8")
        + &startup("1600:1", "0x60400010u32")
        + &startup("1600:2", "0x60710010u32")
        + &startup("1600:3", "0x607a0020u32")
        + &startup("1600:0", "3u8")
        + &startup("1c12:0", "1u8");
    assert_eq!(
        refusal(&drives("", &of_knee)).to_string(),
        "\"knee\" maps 0x6071:0 (16 bits) at bit 16 of its outputs where the file has 0x607a:0 (32 bits); nothing was enabled: \
         correct its mapping or the file",
        "a target position would be a torque"
    );
}

#[test]
fn a_value_longer_than_a_mail_is_sent_in_segments() {
    let text = drives("", &startup("6065", "1u32"))
        .replace("kind = \"drive\"", "kind = \"drive\"\nmailbox = 32");
    let whole = format!(
        "[[devices.startup]]\nobject = \"1a00:0\"\ncomplete = true\nvalue = \"hex:0400{}{}\"\n",
        "100041602000646020006c6010007760",
        "00000000".repeat(12)
    );
    let world = up(&(text + &whole), leaked());

    assert_eq!((value(&world, "knee", 0x1a00, 4), world.in_op()), (0x6077_0010, 2));
}

#[test]
fn a_refused_value_is_one_sentence_and_no_device_is_enabled() {
    let refused = refusal(&drives("", &(startup("6065", "5u32") + &startup("6099:7", "5u32"))));
    assert_eq!(
        refused.to_string(),
        "\"knee\" refused the start-up value of object 0x6099:7: the device refused with abort code 0x06090011: subindex does not \
         exist; nothing was enabled: correct the file"
    );
    let without_mailbox =
        drives("", &startup("6065", "5u32")).replace("kind = \"drive\"", "kind = \"digital\"");
    let refused = refusal(&without_mailbox).to_string();

    assert!(refused.contains("\"knee\"") && refused.contains("no mailbox"), "{refused}");
}

#[test]
fn invalid_values_are_refused_with_device_and_object_before_anything_is_sent() {
    for (object, value) in [("60zz", "1u8"), ("6065", "300u8"), ("6065", "5")] {
        let refused = Layout::from_toml(&drives("", &startup(object, value))).unwrap_err();
        let DescriptionError::Startup { device, object: named, .. } = &refused else {
            panic!("{refused}")
        };
        assert_eq!((device.as_str(), named.as_str()), ("knee", object));
    }

    for key in ["sync0 = { period_us = 5.0 }", "sync0 = { period_us = 100.0, shift_us = 100.0 }"] {
        assert!(
            matches!(Layout::from_toml(&drives("", key)), Err(DescriptionError::Range { .. })),
            "{key}"
        );
    }

    for ms in ["0.0", "7000.0"] {
        let refused = Layout::from_toml(&drives(&format!("watchdog_ms = {ms}"), ""));
        assert!(matches!(refused, Err(DescriptionError::Watchdog(_))), "{ms}");
    }
}

#[test]
fn a_device_that_lost_power_gets_its_values_again_while_the_others_stay_in_op() {
    let mut world =
        up(&drives("", &(startup("6065", "1234u32") + &startup("6098", "-3i8"))), leaked());
    world.events.clear();
    let device = world.device("knee");
    world.inject(Fault::PowerOff { device }, Some(50 * MS), 1.0);
    let mut hip_in_op = true;
    for _ in 0..52 {
        world.cycle(&mut Idle);
        hip_in_op &= world.segment().status(0).unwrap().al_state == 8;
    }

    assert_ne!(value(&world, "knee", 0x6065, 0), 1_234, "lost with the power");
    for _ in 0..100 {
        world.cycle(&mut Idle);
        hip_in_op &= world.segment().status(0).unwrap().al_state == 8;
    }

    assert!(world.bus.is_up() && hip_in_op, "{:?}", world.events);
    assert_eq!((value(&world, "knee", 0x6065, 0), value(&world, "knee", 0x6098, 0)), (1_234, 0xfd));
    assert_eq!(world.count(EventKind::DeviceBack), 1);
}

#[test]
fn many_devices_recovered_at_once_all_get_their_values_again() {
    let names: Vec<String> = (0..40).map(|place| format!("\"joint {place}\"")).collect();
    let text = format!(
        "[types.joint]\nkind = \"drive\"\nmailbox = 512\n[[types.joint.startup]]\nobject = \"6065\"\nvalue = \"1234u32\"\n\
         [[types.joint.startup]]\nobject = \"6098\"\nvalue = \"-3i8\"\n[[devices]]\ntype = \"joint\"\nnames = [{}]\n",
        names.join(", ")
    );
    let mut world = up(&text, leaked());
    world.events.clear();

    for device in 20..40 {
        world.inject(Fault::PowerOff { device }, Some(20 * MS), 1.0);
    }

    world.cycles(900);
    assert!(world.bus.is_up(), "{:?}", world.events);
    assert_eq!(world.count(EventKind::DeviceBack), 20);
    for place in 0..40 {
        assert_eq!(value(&world, &format!("joint {place}"), 0x6065, 0), 1_234, "joint {place}");
    }

    let fell = world.events.iter().filter(|event| event.kind == EventKind::StateChanged).count();
    assert_eq!(fell, 0, "no other device left OP");
}

#[test]
fn values_arrive_although_every_tenth_frame_is_lost() {
    let mut world =
        up(&drives("", &(startup("6065", "1234u32") + &startup("6098", "-3i8"))), leaked());
    let device = world.device("knee");
    world.inject(Fault::PowerOff { device }, Some(50 * MS), 1.0);
    world.inject(Fault::Lose, Some(4_000 * MS), 0.1);
    world.cycles(4_100);

    assert!(world.bus.is_up(), "{:?}", world.events);
    assert_eq!((value(&world, "knee", 0x6065, 0), value(&world, "knee", 0x6098, 0)), (1_234, 0xfd));
}

#[test]
fn a_recovered_device_that_refuses_a_value_is_not_enabled_until_it_accepts_it() {
    let mut world = up(&drives("", &startup("6065", "1234u32")), leaked());
    world.events.clear();
    let device = world.device("knee");
    world.inject(Fault::PowerOff { device }, Some(50 * MS), 1.0);
    world.cycles(51);
    world.inject(Fault::MailAbort { device, code: 0x0609_0030 }, None, 1.0);
    world.cycles(200);
    let refused =
        world.events.iter().find(|event| event.kind == EventKind::SdoRefused).expect("an event");
    let said = (usize::from(refused.device), refused.old, refused.new, refused.code);

    assert_eq!(said, (device, 0x6065, 0, 0x0609_0030));
    assert!(world.segment().status(device).unwrap().al_state < 4, "not enabled");
    assert_eq!(world.segment().status(0).unwrap().al_state, 8, "the other one is as it was");
    world.cycles(600);
    assert!(world.bus.is_up(), "{:?}", world.events);
    assert_eq!(value(&world, "knee", 0x6065, 0), 1_234);
}

#[test]
fn mail_counters_continue_after_the_bring_up() {
    // A device ignores a second mail with the same counter, and the number of mails during bring-up
    // depends on the mapping.
    for values in 1..=7 {
        let inputs =
            ["\"6041\"", "\"6064\"", "\"606c\"", "\"6077\"", "\"6061\"", "\"603f\"", "\"60f4\""]
                [..values]
                .join(", ");
        let text = drives("", "")
            .replace("kind = \"drive\"", &format!("kind = \"drive\"\ninputs = [{inputs}]"));
        let mut world = up(&text, leaked());
        let request = SdoRequest {
            device: 1,
            index: 0x1018,
            entry: 2,
            complete: false,
            action: SdoAction::Read,
        };

        assert!(world.bus.begin_transfer(Box::new(BusTransfer::new(request.into()))).is_ok());
        world.cycles(20);
        let outcome = world.bus.ended_transfer().and_then(|transfer| transfer.outcome());
        assert!(
            matches!(&outcome, Some(Ok(bytes)) if bytes.len() == 4),
            "{values} inputs: {outcome:?}"
        );
    }
}

/// Reads registers of a device between two cycles.
fn registers(world: &mut World<'_>, device: usize, at: u16, length: usize) -> u64 {
    let bytes = world.registers(device, at, length);
    bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// Returns the next pulse relative to multiples of the period, the period, and the activation.
fn sync0(world: &mut World<'_>, device: usize) -> (u64, u64, u64) {
    let period = registers(world, device, 0x09a0, 4);
    let next = registers(world, device, 0x0990, 8);
    (if period == 0 { 0 } else { next % period }, period, registers(world, device, 0x0980, 2))
}

#[test]
fn sync0_has_the_period_of_the_bus_and_a_shift_of_half_a_period_or_as_configured() {
    let mut world = up(&drives("", "sync0 = {}"), leaked());
    assert_eq!(sync0(&mut world, 1), (500_000, 1_000_000, 0x0300));
    assert_eq!(sync0(&mut world, 0), (0, 0, 0), "the other one has none");
    let mut world = up(&drives("", "sync0 = { period_us = 500.0, shift_us = -125.0 }"), leaked());

    assert_eq!(sync0(&mut world, 1), (375_000, 500_000, 0x0300));
    assert_eq!(world.kinds(), [EventKind::BusUp]);
    let mut world = up(
        &(drives("", "")
            + "[types.other]\nkind = \"imu\"\nsync0 = { shift_us = 100.0 }\n\
        [[devices]]\ntype = \"other\"\nname = \"imu\"\n"),
        leaked(),
    );

    assert_eq!(sync0(&mut world, 2), (100_000, 1_000_000, 0x0300));
}

#[test]
fn a_sync0_period_that_does_not_fit_the_bus_is_refused_with_both_periods() {
    for (period_us, goes) in
        [(250.0, true), (1_000.0, true), (3_000.0, true), (300.0, false), (1_500.0, false)]
    {
        let text = drives("", &format!("sync0 = {{ period_us = {period_us:.1}, shift_us = 0.0 }}"));
        if goes {
            assert_eq!(sync0(&mut up(&text, leaked()), 1).1, period_us as u64 * 1_000);
            continue;
        }

        let refused = refusal(&text);
        let BusError::OddPulses { name, pulse_ns, bus_ns } = &refused else { panic!("{refused}") };
        assert_eq!(
            (name.as_str(), *pulse_ns, *bus_ns),
            ("knee", period_us as u64 * 1_000, 1_000_000)
        );
    }
}

#[test]
fn sync0_is_not_activated_before_the_clock_is_synchronised() {
    let text = drives("drift_ppm = 100.0", "sync0 = {}");
    let mut world = World::new(&text, leaked(), SAME);
    let apart = registers(&mut world, 1, 0x092c, 4) & 0x7fff_ffff;
    assert!(apart < 1_000, "{apart} ns apart in SAFEOP");
    let system = registers(&mut world, 1, 0x0910, 8);
    let next = registers(&mut world, 1, 0x0990, 8);

    assert!(
        next > system && registers(&mut world, 1, 0x0980, 2) == 0x0300,
        "{next} is to come at {system}"
    );
    world.until_up(&mut Idle);
}

#[test]
fn a_device_with_sync0_runs_at_its_pulses_and_not_at_its_frames() {
    let mut world = up(&drives("", "sync0 = {}"), leaked());
    // The position advances with the pulse, half a period after the frame.
    world.cycles(40);
    let mut seen = Vec::new();
    for _ in 0..20 {
        world.cycle(&mut Idle);
        let early = world.now().plus_ns(50_000);
        world.bus.wire_mut().link_mut().advance(early);
        seen.push(registers(&mut world, 1, 0x0990, 8));
    }

    assert!(seen.windows(2).all(|two| two[1] - two[0] == MS), "a pulse in each cycle: {seen:?}");
}

#[test]
fn a_recovered_device_gets_sync0_with_a_future_start_and_its_watchdog_again() {
    let mut world = up(&drives("watchdog_ms = 30", "sync0 = { shift_us = 250.0 }"), leaked());
    let before = sync0(&mut world, 1);
    assert_eq!(before, (250_000, 1_000_000, 0x0300));
    let device = world.device("knee");
    world.inject(Fault::PowerOff { device }, Some(50 * MS), 1.0);
    world.cycles(52);

    assert_eq!(registers(&mut world, 1, 0x0980, 2), 0, "lost with the power");
    let began = world.bus.counts().cycles;
    while !world.bus.is_up() {
        world.cycle(&mut Idle);
        assert!(world.bus.counts().cycles < began + 1_000, "{:?}", world.events);
    }

    world.cycles(50);
    assert_eq!(sync0(&mut world, 1), before);
    let system = registers(&mut world, 1, 0x0910, 8);
    let next = registers(&mut world, 1, 0x0990, 8);
    assert!(next > system && next < system + 2 * MS, "they come: {next} at {system}");
    assert_eq!(
        (registers(&mut world, 1, 0x0400, 2), registers(&mut world, 1, 0x0420, 2)),
        (2_498, 300)
    );
    assert!(world.bus.is_up());
}

#[test]
fn sync0_of_a_device_without_a_clock_is_refused() {
    let text = drives("", "sync0 = {}").replace(
        "[[devices]]\ntype = \"joint\"\nname = \"knee\"",
        "[types.plain]\nkind = \"drive\"\nclock = false\n[[devices]]\ntype = \"plain\"\nname = \"knee\"",
    );
    let refused = refusal(&text);
    assert!(matches!(&refused, BusError::NoClock(name) if name == "knee"), "{refused}");
}

#[test]
fn a_watchdog_expires_after_the_time_of_the_file_and_by_default_after_100_ms() {
    let bitten_after = |of_segment: &str| {
        let mut world = up(&drives(of_segment, ""), leaked());
        (1..200).find(|_| {
            world.pause(MS);
            world.in_op() == 0
        })
    };

    let short = bitten_after("watchdog_ms = 20").unwrap();
    let usual = bitten_after("").unwrap();
    assert!((18..=22).contains(&short), "{short} ms");
    assert!((98..=102).contains(&usual), "{usual} ms");
}
