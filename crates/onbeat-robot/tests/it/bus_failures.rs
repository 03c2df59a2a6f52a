//! Bring-ups that fail: each names the device and the cause in one sentence, in few frames, and the
//! sentences are those of docs/bus.md.

use crate::bus_world;

use bus_world::{Counted, Idle, MS, OPTIONS, VirtualClock, World, clock};
use onbeat_ethercat::description::Description;
use onbeat_ethercat::event::EventKind;
use onbeat_ethercat::layout::Layout;
use onbeat_robot::bus::{Bus, InProcess};
use onbeat_segment::{Fault, Link};

/// Most frames of a bring-up of three devices that fails.
const MOST_FRAMES: u64 = 1_500;

const THREE: &str =
    "[types.j]\nkind = \"drive\"\n[[devices]]\ntype = \"j\"\nnames = [\"a\", \"b\", \"c\"]\n";

/// Three drives, and this fault of `b` from the first frame on.
fn with_fault(kind: &str, more: &str) -> String {
    format!("{THREE}[[faults]]\nkind = \"{kind}\"\ndevice = \"b\"\nfor_ms = 1e9\n{more}")
}

/// What is on the cable, what the file says, and what is reported.
struct Case {
    cause: &'static str,
    cable: String,
    file: String,
    expected: &'static [&'static str],
}

fn case(cause: &'static str, cable: String, expected: &'static [&'static str]) -> Case {
    Case { cause, cable, file: THREE.to_owned(), expected }
}

fn differing(cause: &'static str, file: &str, expected: &'static [&'static str]) -> Case {
    Case { cause, cable: THREE.to_owned(), file: file.to_owned(), expected }
}

/// Devices that do not come to SAFEOP.
// A table, a row a case.
#[allow(clippy::too_many_lines)]
fn cases() -> Vec<Case> {
    let one_by_one = "[types.j]\nkind = \"drive\"\n[types.k]\nkind = \"drive\"\nproduct = 0x999\n\
        [[devices]]\ntype = \"j\"\nname = \"a\"\n[[devices]]\ntype = \"k\"\nname = \"b\"\n\
        [[devices]]\ntype = \"j\"\nname = \"c\"\n";
    let other_mapping = "[types.j]\nkind = \"drive\"\n[types.k]\nkind = \"drive\"\n\
        outputs = [\"6040\", \"607a\"]\ninputs = [\"6041\", \"6064\"]\n\
        [[devices]]\ntype = \"j\"\nname = \"a\"\n[[devices]]\ntype = \"k\"\nname = \"b\"\n\
        [[devices]]\ntype = \"j\"\nname = \"c\"\n";
    let device = |more: &str| {
        format!(
            "[types.j]\nkind = \"drive\"\n[[devices]]\ntype = \"j\"\nname = \"a\"\n\
             [[devices]]\ntype = \"j\"\nname = \"b\"\n{more}[[devices]]\ntype = \"j\"\nname = \"c\"\n"
        )
    };
    let startup = |object: &str, value: &str| {
        device(&format!("[[devices.startup]]\nobject = \"{object}\"\nvalue = \"{value}\"\n"))
    };
    let four = THREE.replace("\"c\"]", "\"c\", \"d\"]");
    vec![
        case(
            "EEPROM busy",
            with_fault("sii-busy", ""),
            &["b: its EEPROM stays busy", "place 1", "port 1 of a"],
        ),
        case("EEPROM blank", with_fault("sii-blank", ""), &["b: its EEPROM is blank"]),
        case(
            "EEPROM with a wrong checksum",
            with_fault("sii-checksum", ""),
            &["b: its EEPROM has a wrong checksum"],
        ),
        case("mailbox mute", with_fault("mail-mute", ""), &["b: its mailbox does not answer"]),
        case(
            "mailbox slower than 1.5 s",
            with_fault("mail-slow", "by = 2000000000\n"),
            &["b: its mailbox does not answer, 3 mails were sent in 1.5 s"],
        ),
        case(
            "refuses PREOP",
            with_fault("refuse-state", "state = 2\ncode = 0x16\n"),
            &["b: it refuses PREOP (0x0016, invalid mailbox configuration in PREOP)"],
        ),
        case(
            "refuses SAFEOP",
            with_fault("refuse-state", "state = 4\ncode = 0x1e\n"),
            &["b: it refuses SAFEOP (0x001e, invalid input configuration)"],
        ),
        case(
            "does not reach PREOP",
            with_fault("slow-state", "by = 60000000000\n"),
            &["b: it stays in INIT and does not reach PREOP"],
        ),
        case("wrong identity", one_by_one.to_owned(), &["place 1", "\"b\"", "0x00000999"]),
        differing(
            "wrong serial number",
            &device("serial = 4711\n"),
            &["place 1", "\"b\"", "serial number 4711"],
        ),
        differing(
            "no device ID",
            &device("device_id = 9\n"),
            &["b: it does not report a device ID"],
        ),
        differing("wrong alias", &device("alias = 9\n"), &["place 1", "\"b\"", "alias 9"]),
        differing("wrong mapping", other_mapping, &["\"b\" maps"]),
        case(
            "device missing, cable cut",
            format!("{THREE}[[faults]]\nkind = \"cut\"\ndevice = \"c\"\nfor_ms = 1e9\n"),
            &["3 SubDevices and 2 answer", "\"c\"", "cable"],
        ),
        case("device without power", with_fault("power-off", ""), &["\"b\""]),
        differing(
            "device too many",
            &THREE.replace(", \"c\"]", "]"),
            &["2 SubDevices and 3 answer"],
        ),
        differing("device too few", &four, &["4 SubDevices and 3 answer", "\"d\""]),
        differing("start-up value refused", &startup("6060", "99i8"), &["\"b\"", "0x6060"]),
        differing(
            "start-up value of an object that does not exist",
            &startup("5fff", "1u8"),
            &["\"b\"", "0x5fff"],
        ),
        differing(
            "mapping of an object that does not exist",
            &startup("1a00:1", "0x5fff0020u32"),
            &["\"b\"", "0x1a00:1", "0x06040041"],
        ),
        differing(
            "mapping of the wrong direction",
            &startup("1a00:1", "0x60400010u32"),
            &["\"b\"", "0x1a00:1", "0x06040041"],
        ),
    ]
}

fn refused(case: &Case, clock: &VirtualClock) -> (String, u64) {
    let link = Link::from_toml(&case.cable).unwrap();
    let mut wire = Counted { wire: InProcess::on_virtual_clock(link, clock), frames: 0 };
    let layout = Layout::from_toml(&case.file).unwrap();
    let refused = Bus::bring_up(&mut wire, Some(&layout), OPTIONS, "ecat0")
        .map(|_| ())
        .expect_err(case.cause)
        .to_string();
    let highest = (0..3).filter_map(|device| wire.wire.link().segment().status(device));
    let highest = highest.map(|status| status.al_state).max();
    assert!(highest <= Some(4), "{}: a device is in state {highest:?}", case.cause);
    (refused, wire.frames)
}

/// Returns the table of docs/bus.md.
fn documented() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bus.md");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn each_failing_bring_up_names_its_device_and_its_cause_in_few_frames() {
    let clock = clock();
    let docs = documented();
    let mut missing = Vec::new();
    for case in cases() {
        let (sentence, frames) = refused(&case, &clock);
        println!("{frames} frames\n| {} | `{sentence}` |", case.cause);
        for part in case.expected {
            assert!(sentence.contains(part), "{}: {part:?} in {sentence:?}", case.cause);
        }
        assert!(frames <= MOST_FRAMES, "{}: {frames} frames", case.cause);
        assert_eq!(sentence.lines().count(), 1);
        if !docs.contains(&sentence) {
            missing.push(case.cause);
        }
    }
    assert!(missing.is_empty(), "not in docs/bus.md: {missing:?}");
}

#[test]
fn a_device_is_identified_by_the_id_of_its_switch() {
    let clock = clock();
    let with =
        |id: &str| THREE.replace("names =", &format!("serial = 0\ndevice_id = {id}\nnames ="));
    let case = Case { cause: "wrong switch", cable: with("7"), file: with("8"), expected: &[] };
    let (sentence, frames) = refused(&case, &clock);
    assert_eq!(
        sentence,
        "at place 0 the file has \"a\" with device ID 8, the device has device ID 7; nothing was enabled: \
         connect the devices in the order of the file, or correct the file"
    );
    assert!(frames < MOST_FRAMES, "{frames}");
    assert!(documented().contains(&sentence), "not in docs/bus.md: {sentence}");

    let mut world = World::new(&with("7"), &clock, OPTIONS);
    world.until_up(&mut Idle);
    // It stays identified when it comes back: by its ID, not by its place.
    world.events.clear();
    world.inject(Fault::PowerOff { device: 2 }, Some(50 * MS), 1.0);
    world.cycles(60);
    world.until_up_again();
    assert_eq!(world.count(EventKind::DeviceBack), 1, "{:?}", world.events);
    world.inject(Fault::PowerOff { device: 1 }, Some(50 * MS), 1.0);
    world.inject(Fault::PowerOff { device: 2 }, Some(50 * MS), 1.0);
    world.cycles(60);
    world.until_up_again();
    assert_eq!(world.count(EventKind::DeviceBack), 3, "two at once: {:?}", world.events);
}

/// Runs a bus for a while; returns the sentences of its alarms.
fn alarms(text: &str, cycles: u64) -> Vec<String> {
    let clock = clock();
    let mut world = World::new(text, &clock, OPTIONS);
    for _ in 0..cycles {
        world.cycle(&mut Idle);
    }
    let names: Vec<String> =
        world.bus.layout().devices.iter().map(|device| device.name.clone()).collect();
    let name = |device: u16| names.get(usize::from(device)).map_or("", String::as_str);
    let alarms = world.events.iter().filter(|event| event.is_alarm());
    alarms.map(|event| event.sentence(name(event.device))).collect()
}

#[test]
fn a_device_that_refuses_op_is_named_with_its_code_and_what_to_do() {
    let text = with_fault("refuse-state", "state = 8\ncode = 0x1a\n");
    let alarms = alarms(&text, 200);
    println!("{alarms:?}");
    let refused = "b refuses OP (0x001a, synchronization error): ";
    assert!(alarms.iter().any(|alarm| alarm.starts_with(refused)), "{alarms:?}");
    assert!(alarms.len() < 5, "{alarms:?}");
}

#[test]
fn a_mailbox_that_repeats_its_replies_or_answers_late_disturbs_nothing() {
    for (kind, more) in [
        ("mail-repeat", "mails = 200\n"),
        ("mail-counter", "mails = 3\n"),
        ("mail-lost", "mails = 2\n"),
        ("mail-slow", "by = 20000000\n"),
        ("mail-slow", "by = 300000000\n"),
    ] {
        let alarms = alarms(&with_fault(kind, more), 300);
        assert!(alarms.is_empty(), "{kind}: {alarms:?}");
    }
}

#[test]
fn two_devices_with_one_alias_are_both_named() {
    let text = "[types.j]\nkind = \"drive\"\n[[devices]]\ntype = \"j\"\nname = \"a\"\nalias = 5\n\
        [[devices]]\ntype = \"j\"\nname = \"b\"\nalias = 5\n";
    let warnings = Description::from_toml(text).unwrap().warnings();
    let named = |warning: &String| warning.contains("\"a\"") && warning.contains("\"b\"");
    assert!(warnings.iter().any(named), "{warnings:?}");
}

#[test]
fn many_devices_that_leave_op_after_a_pause_of_the_loop_are_one_event_with_its_cause() {
    let clock = clock();
    let mut world = World::humanoid(&clock);
    world.events.clear();
    world.pause(301 * MS);
    world.cycles(400);

    let left: Vec<_> =
        world.events.iter().filter(|event| event.kind == EventKind::DevicesLeftOp).collect();
    assert_eq!(left.len(), 1, "{:?}", world.events);
    // Who counts by device finds each of them.
    let of = world.events.iter().filter(|event| event.kind == EventKind::LeftOpWithOthers);
    let mut each: Vec<u16> = of.map(|event| event.device).collect();
    each.sort_unstable();
    each.dedup();
    assert_eq!((each.len(), world.count(EventKind::LeftOpWithOthers)), (56, 56));
    let sentence = left[0].sentence("");
    println!("{sentence}");
    assert!(
        sentence
            .starts_with("56 devices left OP (0x001b, sync manager watchdog): this loop paused 30"),
        "{sentence}"
    );
    assert!(sentence.ends_with("ms, the watchdog is 100 ms"), "{sentence}");
    assert_eq!(world.count(EventKind::StateChanged), 0);
    assert_eq!(world.count(EventKind::DevicesBackInOp), 1, "{:?}", world.events);
    assert!(world.bus.is_up());
}

#[test]
fn clocks_that_still_converge_are_no_alarm() {
    let clock = clock();
    let mut world = World::humanoid(&clock);
    world.cycles(1_000);
    assert_eq!(world.count(EventKind::ClockUnlocked), 0, "{:?}", world.events);
}

/// A device with two slots, and modules of one and of two bytes.
const MODULAR: &str = r##"<EtherCATInfo><Vendor><Id>#xF1C71005</Id><Name>none</Name></Vendor><Descriptions><Devices>
<Device Physics="YY"><Type ProductCode="#x77" RevisionNo="#x1">HEAD</Type><Name>head</Name>
<Sm DefaultSize="128" StartAddress="#x1000" ControlByte="#x26" Enable="1">MBoxOut</Sm>
<Sm DefaultSize="128" StartAddress="#x1080" ControlByte="#x22" Enable="1">MBoxIn</Sm>
<Sm StartAddress="#x1800" ControlByte="#x64" Enable="1">Outputs</Sm>
<Sm StartAddress="#x1c00" ControlByte="#x20" Enable="1">Inputs</Sm>
<Mailbox><CoE SdoInfo="1" PdoAssign="1" PdoConfig="1"/></Mailbox>
<Slots SlotPdoIncrement="1" SlotIndexIncrement="16">
<Slot MinInstances="0" MaxInstances="1"><Name>left</Name><ModuleIdent>#x31</ModuleIdent><ModuleIdent>#x32</ModuleIdent></Slot>
<Slot MinInstances="0" MaxInstances="1"><Name>right</Name><ModuleIdent>#x31</ModuleIdent><ModuleIdent>#x32</ModuleIdent></Slot>
</Slots></Device></Devices><Modules>
<Module><Type ModuleIdent="#x31">IN-8</Type><Name>eight inputs</Name><TxPdo Sm="3"><Index DependOnSlot="1">#x1a00</Index><Name>in</Name>
<Entry><Index DependOnSlot="1">#x6000</Index><SubIndex>1</SubIndex><BitLen>8</BitLen><Name>in</Name><DataType>USINT</DataType></Entry></TxPdo></Module>
<Module><Type ModuleIdent="#x32">IN-16</Type><Name>sixteen inputs</Name><TxPdo Sm="3"><Index DependOnSlot="1">#x1a00</Index><Name>in</Name>
<Entry><Index DependOnSlot="1">#x6000</Index><SubIndex>1</SubIndex><BitLen>16</BitLen><Name>in</Name><DataType>UINT</DataType></Entry></TxPdo></Module>
</Modules></Descriptions></EtherCATInfo>"##;

fn modular(slots: &str) -> Description {
    let text = format!(
        "[types.j]\nkind = \"drive\"\n[types.head]\nesi = \"head.xml\"\nslots = [{slots}]\n\
         [[devices]]\ntype = \"j\"\nname = \"a\"\n[[devices]]\ntype = \"head\"\nname = \"b\"\n"
    );
    Description::from_toml_with(&text, |_| Ok(MODULAR.as_bytes().to_vec())).unwrap()
}

/// Brings up a cable with these modules by a file with those; returns the sentence of a refusal.
fn plugged(there: &str, in_file: &str, fault: Option<Fault>) -> Result<(usize, u64), String> {
    let clock = clock();
    let mut link = Link::from_description(&modular(there)).unwrap();
    if let Some(fault) = fault {
        link.inject(fault, onbeat_rt::time::Clock::now(&&clock), None, 1.0);
    }
    let mut wire = Counted { wire: InProcess::on_virtual_clock(link, &clock), frames: 0 };
    let layout = Layout::from_description(&modular(in_file)).unwrap();
    let bytes = layout.devices[1].inputs.len();
    let up = Bus::bring_up(&mut wire, Some(&layout), OPTIONS, "ecat0").map(|_| ());
    up.map(|()| (bytes, wire.frames)).map_err(|why| why.to_string())
}

#[test]
fn modules_that_are_plugged_otherwise_than_in_the_file_are_named_with_their_slot() {
    let both = "\"IN-8\", \"IN-16\"";
    let (bytes, frames) = plugged(both, both, None).unwrap();
    assert_eq!(bytes, 3);
    assert!(frames < MOST_FRAMES, "{frames}");

    let other = plugged("\"IN-8\", \"IN-8\"", both, None).unwrap_err();
    println!("{other}");
    assert!(
        other.starts_with("b: slot 1 has module 0x31 where the file has 0x32 (place 1 "),
        "{other}"
    );
    assert!(documented().contains(&other), "not in docs/bus.md: {other}");
    let missing =
        plugged(both, both, Some(Fault::ModuleMissing { device: 1, slot: 0 })).unwrap_err();
    println!("{missing}");
    assert!(missing.starts_with("b: slot 0 is empty where the file has module 0x31 "), "{missing}");
}
