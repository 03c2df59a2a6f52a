//! Bring-up in lock-step, with faults from the first frame on: what ethercrab is answered is what
//! the devices said, and each device gets its configuration.

use crate::bus_world;

use bus_world::{Counted, Idle, OPTIONS, VirtualClock, World, clock};
use onbeat_ethercat::event::EventKind;
use onbeat_ethercat::layout::Layout;
use onbeat_ethercat::step::{BusCycle, Controller};
use onbeat_robot::bus::{Bus, BusError, BusOptions, ExchangeMode, InProcess, Wire};
use onbeat_rt::frame::purpose_of;
use onbeat_rt::time::{Clock, Instant};
use onbeat_segment::{Description, Fault, Link};

const DEVICES: usize = 20;
/// Three quarters of what a thread has by default. How much a bring-up takes depends on how the
/// compiler divides the program.
const STACK_BYTES: usize = 1_536 << 10;
/// A fault that lasts longer than any bring-up.
const FOR_EVER: &str = "at_ms = 0\nfor_ms = 100000000\n";

/// Drives, digital devices and an empty coupler in turns.
fn mixed(fault: &str) -> String {
    let mut text = "[types.drive]\nkind = \"drive\"\n[types.io]\nkind = \"digital\"\n\
        [types.coupler]\nkind = \"coupler\"\n"
        .to_owned();
    for place in 0..DEVICES {
        let kind = ["drive", "drive", "io", "drive", "coupler"][place % 5];
        text += &format!("[[devices]]\ntype = \"{kind}\"\nname = \"device {place}\"\n");
    }

    format!("{text}{fault}")
}

fn fault(kind: &str, words: &str) -> String {
    format!("[[faults]]\nkind = \"{kind}\"\n{words}")
}

fn refused(text: &str, clock: &VirtualClock) -> BusError {
    let wire = InProcess::on_virtual_clock(Link::from_toml(text).unwrap(), clock);
    let layout = Layout::from_toml(text).unwrap();
    Bus::bring_up(wire, Some(&layout), OPTIONS, "the segment").map(|_| ()).unwrap_err()
}

#[test]
fn twice_the_devices_take_far_less_than_twice_the_frames() {
    let clock = clock();
    let frames = |count: usize| {
        let names: Vec<String> = (0..count).map(|place| format!("\"joint {place}\"")).collect();
        let text = format!(
            "[types.joint]\nkind = \"drive\"\n[[devices]]\ntype = \"joint\"\nnames = [{}]\n",
            names.join(", ")
        );
        World::new(&text, &clock, OPTIONS).bus.bring_up_frames()
    };

    let few = frames(5);
    let twice = frames(10);
    println!("{few} frames for 5 drives, {twice} for 10");
    assert!(twice * 10 < few * 15, "{few} frames for 5 drives, {twice} for 10");
}

/// Ends the process, with the name of the thread, if it needs more.
#[test]
fn a_bring_up_leaves_a_quarter_of_a_thread_s_stack_free() {
    let in_op = || {
        let clock = clock();
        let mut world = World::new(&mixed(""), &clock, OPTIONS);
        world.until_up(&mut Idle);
        world.in_op()
    };

    let builder = std::thread::Builder::new().name("small stack".to_owned());
    let thread = builder.stack_size(STACK_BYTES).spawn(in_op).unwrap();
    assert_eq!(thread.join().unwrap(), DEVICES);
}

#[test]
fn all_devices_come_up_although_every_tenth_frame_is_lost_or_late() {
    let clock = clock();
    for kind in ["lose", "late", "duplicate", "reorder", "truncate"] {
        let text = mixed(&fault(kind, "at_ms = 0\nfor_ms = 400\nshare = 0.1\n"));
        let mut world = World::new(&text, &clock, OPTIONS);
        for _ in 0..1_000 {
            world.cycle(&mut Idle);
        }

        assert_eq!(world.in_op(), DEVICES, "{kind}: {:?}", world.events);
    }
}

#[test]
fn a_device_that_refuses_preop_is_named_with_its_code() {
    let clock = clock();
    let words = format!("device = \"device 3\"\nstate = 2\ncode = 0x16\n{FOR_EVER}");
    let refused = refused(&mixed(&fault("refuse-state", &words)), &clock).to_string();

    assert!(
        refused.starts_with("device 3: it refuses PREOP (0x0016, invalid mailbox configuration"),
        "{refused}"
    );
}

#[test]
fn slow_devices_are_awaited_together() {
    let clock = clock();
    let began = clock.now();
    let slow: String = (0..DEVICES)
        .map(|place| {
            let words = format!("device = \"device {place}\"\nby = 50000000\n{FOR_EVER}");
            fault("slow-state", &words)
        })
        .collect();
    let world = World::new(&mixed(&slow), &clock, OPTIONS);
    let took_ms = world.now().ns_since(began) / bus_world::MS;

    println!("{took_ms} ms for {DEVICES} devices of 50 ms each");
    assert!(took_ms < 50 * DEVICES as u64, "one after the other: {took_ms} ms");
}

#[test]
fn a_device_that_cannot_be_configured_is_named_with_its_cause_in_hundreds_of_frames() {
    for (kind, place, sentence) in [
        ("sii-busy", 0, "device 0: its EEPROM stays busy for more than 1 s (place"),
        ("sii-busy", 7, "device 7: its EEPROM stays busy for more than 1 s (place"),
        ("sii-blank", 0, "device 0: its EEPROM is blank, its vendor id reads 0xffffffff (place"),
        ("sii-blank", 4, "device 4: its EEPROM is blank, its vendor id reads 0xffffffff (place"),
        (
            "mail-mute",
            1,
            "device 1: its mailbox does not answer, 3 mails were sent in 1.5 s (place",
        ),
        (
            "mail-mute",
            18,
            "device 18: its mailbox does not answer, 3 mails were sent in 1.5 s (place",
        ),
    ] {
        let clock = clock();
        let text = mixed(&fault(kind, &format!("device = \"device {place}\"\n{FOR_EVER}")));
        let mut wire = Counted {
            wire: InProcess::on_virtual_clock(Link::from_toml(&text).unwrap(), &clock),
            frames: 0,
        };
        let layout = Layout::from_toml(&text).unwrap();
        let refused = Bus::bring_up(&mut wire, Some(&layout), OPTIONS, "the segment")
            .map(|_| ())
            .unwrap_err();
        let frames = wire.frames;
        println!("{frames} frames: {refused}");

        assert!(refused.to_string().starts_with(sentence), "{kind}: {refused}");
        assert!(matches!(refused, BusError::Unready { place: at, .. } if usize::from(at) == place));
        assert!(frames < 1_000, "{kind}: {frames} frames");
    }
}

#[test]
fn lost_mails_do_not_change_the_mapping() {
    let clock = clock();
    let text = mixed(&fault("mail-lost", "device = \"device 1\"\nmails = 2\nat_ms = 0\n"));
    let mut world = World::new(&text, &clock, OPTIONS);
    world.until_up(&mut Idle);

    assert_eq!(world.in_op(), DEVICES);
}

#[test]
fn an_emergency_at_any_time_is_an_event_and_does_not_change_the_mapping() {
    let clock = clock();
    let mut seen = 0;
    for at_us in (0..40_000).step_by(500) {
        let words = format!(
            "device = \"device 3\"\ncode = 0x8110\nat_ms = {}\n",
            f64::from(at_us) / 1_000.0
        );
        let mut world = World::new(&mixed(&fault("emergency", &words)), &clock, OPTIONS);
        world.until_up(&mut Idle);

        assert_eq!(world.in_op(), DEVICES, "{at_us} us");
        let emergencies = world.count(EventKind::Emergency);
        assert!(emergencies <= 1, "{at_us} us: {:?}", world.events);
        seen += emergencies;
    }

    // Before its mailbox is configured, the device has no way to say so.
    println!("{seen} of 80 arrived");
    assert!(seen > 0, "some came during bring-up");
}

/// A wire on which replies to the frames between cycles arrive when the inputs of their cycle are
/// there already, as on a network.
struct BehindTheCycle<'c> {
    inner: InProcess<&'c VirtualClock>,
    /// From the first cycle on.
    is_running: bool,
    kept: Vec<Vec<u8>>,
    arrived: Vec<Vec<u8>>,
}

/// Purposes of frames of a cycle are below this value.
const BETWEEN_CYCLES: u8 = 0x80;

impl Wire for BehindTheCycle<'_> {
    fn send(&mut self, frame: &[u8]) {
        self.arrived.append(&mut self.kept);
        self.inner.send(frame);
    }

    fn receive(&mut self, buffer: &mut [u8], until: Instant) -> Option<usize> {
        while let Some(length) = self.inner.receive(buffer, until) {
            if !self.is_running || purpose_of(&buffer[..length]) != Some(BETWEEN_CYCLES) {
                return Some(length);
            }
            self.kept.push(buffer[..length].to_vec());
        }

        let arrived = self.arrived.pop()?;
        buffer[..arrived.len()].copy_from_slice(&arrived);
        Some(arrived.len())
    }

    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn rest(&mut self) {
        self.inner.rest();
    }
}

#[test]
fn a_reply_behind_the_inputs_of_its_cycle_is_taken_in_the_next_one() {
    let clock = clock();
    let text = mixed("");
    let layout = Layout::from_toml(&text).unwrap();
    let inner = InProcess::on_virtual_clock(Link::from_toml(&text).unwrap(), &clock);
    let wire = BehindTheCycle { inner, is_running: false, kept: Vec::new(), arrived: Vec::new() };
    let mode = ExchangeMode::SameCycle { reply_within_ns: bus_world::MS / 2 };
    let options = BusOptions { mode, ..OPTIONS };
    let mut bus = Bus::bring_up(wire, Some(&layout), options, "the segment").unwrap();
    bus.wire_mut().is_running = true;

    let mut next = clock.now();
    for _ in 0..100 {
        next = next.plus_ns(bus_world::MS);
        let _ = clock.sleep_until(next);
        bus.cycle(next, bus_world::MS, &mut Idle);
    }

    assert!(bus.is_up());
    assert_eq!((bus.counts().late, bus.counts().unknown), (0, 0));
    assert!(bus.counts().sent > 100, "frames between cycles were sent");
}

/// A device of an ESI file with a mailbox and two SyncManagers of outputs, of three bytes each; the
/// second one begins here.
fn two_areas(second: &str) -> Description {
    let pdo = |sm: u32| {
        format!(
            "<RxPdo Sm='{sm}'><Index>#x{:x}</Index><Entry><Index>#x{:x}</Index><SubIndex>1</SubIndex><BitLen>24</BitLen></Entry></RxPdo>",
            0x1600 + sm,
            0x7000 + sm
        )
    };
    let esi = format!(
        "<EtherCATInfo><Vendor><Id>1</Id></Vendor><Descriptions><Devices><Device><Type ProductCode='2'>TWO</Type><Name>two</Name>\
         <Sm DefaultSize='128' StartAddress='#x1000' ControlByte='#x26' Enable='1'>MBoxOut</Sm><Sm DefaultSize='128' StartAddress='#x1080' ControlByte='#x22' Enable='1'>MBoxIn</Sm>\
         <Sm StartAddress='#x1100' ControlByte='#x64' Enable='1'>Outputs</Sm><Sm StartAddress='{second}' ControlByte='#x64' Enable='1'>Outputs</Sm>{}{}\
         <Mailbox><CoE PdoAssign='1'/></Mailbox></Device></Devices></Descriptions></EtherCATInfo>",
        pdo(2),
        pdo(3)
    );
    let text =
        "[types.t]\nesi = \"two.xml\"\n[[devices]]\ntype = \"t\"\nnames = [\"left\", \"right\"]\n";
    Description::from_toml_with(text, |_| Ok(esi.clone().into_bytes())).unwrap()
}

#[test]
fn process_data_that_file_and_eeprom_leave_disabled_are_exchanged() {
    for enable in ["0", "1"] {
        let esi = format!(
            "<EtherCATInfo><Vendor><Id>1</Id></Vendor><Descriptions><Devices><Device><Type ProductCode='3'>FREE</Type><Name>free</Name>\
             <Sm DefaultSize='128' StartAddress='#x1000' ControlByte='#x26' Enable='1'>MBoxOut</Sm><Sm DefaultSize='128' StartAddress='#x1080' ControlByte='#x22' Enable='1'>MBoxIn</Sm>\
             <Sm StartAddress='#x1100' ControlByte='#x64' Enable='{enable}'>Outputs</Sm>\
             <RxPdo><Index>#x1600</Index><Entry><Index>#x7000</Index><SubIndex>1</SubIndex><BitLen>16</BitLen></Entry></RxPdo>\
             <Mailbox><CoE PdoAssign='1'/></Mailbox></Device></Devices></Descriptions></EtherCATInfo>"
        );
        let text = "[types.t]\nesi = \"free.xml\"\npdos = [\"1600\"]\n[[devices]]\ntype = \"t\"\nname = \"a\"\n";
        let description = Description::from_toml_with(text, |_| Ok(esi.clone().into_bytes()));
        let clock = clock();
        let mut world = World::described(&description.unwrap(), &clock, OPTIONS);
        world.until_up(&mut Bytes);
        for _ in 0..20 {
            assert_eq!(world.cycle(&mut Bytes).working_counter, 2);
        }
        assert_eq!(world.segment().value(0, 0x7000, 1).unwrap()[..2], [1, 2]);
    }
}

/// Writes six different bytes to each device.
struct Bytes;

impl Controller for Bytes {
    fn step(&mut self, _: &BusCycle, _: &[u8], outputs: &mut [u8]) {
        for (number, byte) in (1..).zip(outputs) {
            *byte = number;
        }
    }
}

#[test]
fn areas_that_one_fmmu_cannot_map_get_one_each_also_after_a_power_cycle() {
    for second in ["#x1103", "#x1200", "#x2000"] {
        let clock = clock();
        let mut world = World::described(&two_areas(second), &clock, OPTIONS);
        assert_eq!(world.bus.layout().output_bytes, 12);
        world.until_up(&mut Bytes);
        for again in [false, true] {
            if again {
                world.inject(Fault::PowerOff { device: 1 }, Some(20 * bus_world::MS), 1.0);
                world.cycles(30);
                world.until_up_again();
            }
            for _ in 0..20 {
                assert_eq!(world.cycle(&mut Bytes).working_counter, 4, "{second}");
            }
            for (device, bytes) in [(0, [1, 2, 3, 4, 5, 6]), (1, [7, 8, 9, 10, 11, 12])] {
                let value = |index| world.segment().value(device, index, 1).unwrap()[..3].to_vec();
                assert_eq!([value(0x7002), value(0x7003)].concat(), bytes, "{second}");
            }
        }
    }
}
