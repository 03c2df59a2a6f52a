//! Operation modes of distributed clocks, chosen from an ESI file by name: what the MainDevice
//! writes, and what a device refuses.

use crate::bus_world;

use bus_world::{Idle, OPTIONS, VirtualClock, World, clock};
use onbeat_ethercat::description::DescriptionError;
use onbeat_ethercat::layout::Layout;
use onbeat_robot::bus::{Bus, InProcess};
use onbeat_segment::{Description, Link};

const ESI: &str = r##"<EtherCATInfo><Vendor><Id>#xf1c71005</Id></Vendor><Descriptions><Devices>
<Device Physics="YY"><Type ProductCode="#x77" RevisionNo="#x1">AX</Type><Name>axis</Name>
<Sm StartAddress="#x1000" ControlByte="#x64" Enable="1">Outputs</Sm><Sm StartAddress="#x1100" ControlByte="#x20" Enable="1">Inputs</Sm>
<RxPdo Sm="0" Fixed="1"><Index>#x1600</Index><Entry><Index>#x7000</Index><SubIndex>1</SubIndex><BitLen>16</BitLen><DataType>UINT</DataType></Entry></RxPdo>
<TxPdo Sm="1" Fixed="1"><Index>#x1a00</Index><Entry><Index>#x6000</Index><SubIndex>1</SubIndex><BitLen>16</BitLen><DataType>UINT</DataType></Entry></TxPdo>
<Dc>
<OpMode><Name>FreeRun</Name><AssignActivate>#x0</AssignActivate></OpMode>
<OpMode><Name>DC</Name><AssignActivate>#x300</AssignActivate><CycleTimeSync0 Factor="1">0</CycleTimeSync0><ShiftTimeSync0>30000</ShiftTimeSync0></OpMode>
<OpMode><Name>DC fast</Name><AssignActivate>#x700</AssignActivate><CycleTimeSync0 Factor="-4">0</CycleTimeSync0><ShiftTimeSync0>-20000</ShiftTimeSync0>
<CycleTimeSync1 Factor="4">0</CycleTimeSync1><ShiftTimeSync1>10000</ShiftTimeSync1><Sm No="1"><Pdo>#x1a00</Pdo></Sm></OpMode>
<OpMode><Name>DC oversampling</Name><AssignActivate>#x730</AssignActivate><CycleTimeSync0 Factor="-4"/><ShiftTimeSync0>0</ShiftTimeSync0>
<CycleTimeSync1 Factor="-1">0</CycleTimeSync1><Sm No="1"><Pdo OSFac="4">#x1a00</Pdo></Sm></OpMode>
<OpMode><Name>DC fixed</Name><AssignActivate>#x330</AssignActivate><CycleTimeSync0>500000</CycleTimeSync0></OpMode>
<OpMode><Name>DCIN</Name><AssignActivate>#x300</AssignActivate><CycleTimeSync0 Factor="1">0</CycleTimeSync0><ShiftTimeSync0 Input="1">0</ShiftTimeSync0></OpMode>
<OpMode><Name>DC half</Name><AssignActivate>#x300</AssignActivate><CycleTimeSync0 Factor="1">0</CycleTimeSync0><ShiftTimeSync0 Factor="-2">-10000</ShiftTimeSync0></OpMode>
</Dc></Device></Devices></Descriptions></EtherCATInfo>"##;

fn parsed(of_type: &str, of_device: &str) -> Result<Description, DescriptionError> {
    let text = format!(
        "[types.axis]\nesi = \"axis.xml\"\n{of_type}\n[[devices]]\ntype = \"axis\"\nname = \"a\"\n\
         [[devices]]\ntype = \"axis\"\nname = \"b\"\n{of_device}\n"
    );
    Description::from_toml_with(&text, |_| Ok(ESI.as_bytes().to_vec()))
}

fn leaked() -> &'static VirtualClock {
    Box::leak(Box::new(clock()))
}

fn up(of_type: &str, of_device: &str) -> World<'static> {
    let description = parsed(of_type, of_device).unwrap();
    let mut world = World::described(&description, leaked(), OPTIONS);
    world.until_up(&mut Idle);
    world
}

fn number(world: &mut World<'_>, at: u16, length: usize) -> u64 {
    let bytes = world.registers(1, at, length);
    bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// Registers 0x0980, 0x09A0, 0x09A4, and the shift of SYNC0 in its period.
fn pulses(world: &mut World<'_>) -> [u64; 4] {
    let [unit, sync0, sync1] =
        [(0x0980, 2), (0x09a0, 4), (0x09a4, 4)].map(|(at, length)| number(world, at, length));
    let next = number(world, 0x0990, 8);
    [unit, sync0, sync1, next.checked_rem(sync0).unwrap_or(0)]
}

/// The sentence with which the bring-up ends.
fn refusal(of_type: &str, of_device: &str) -> String {
    let description = parsed(of_type, of_device).unwrap();
    let clock = clock();
    let wire = InProcess::on_virtual_clock(Link::from_description(&description).unwrap(), &clock);
    let layout = Layout::from_description(&description).unwrap();
    Bus::bring_up(wire, Some(&layout), OPTIONS, "the segment").map(|_| ()).unwrap_err().to_string()
}

#[test]
fn a_mode_is_chosen_by_its_name_for_a_type_or_a_device() {
    let registers = |of_type: &str, of_device: &str| pulses(&mut up(of_type, of_device));
    assert_eq!(registers("", ""), [0, 0, 0, 0], "without `dc` the device runs freely");
    assert_eq!(registers("dc = \"FreeRun\"", ""), [0, 0, 0, 0]);
    assert_eq!(registers("dc = \"DC\"", ""), [0x300, 1_000_000, 0, 30_000]);
    assert_eq!(registers("dc = \"dc fast\"", ""), [0x700, 250_000, 760_000, 230_000]);
    assert_eq!(registers("dc = \"DC oversampling\"", ""), [0x730, 250_000, 750_000, 0]);
    assert_eq!(registers("dc = \"DC fixed\"", ""), [0x330, 500_000, 0, 0]);
    assert_eq!(registers("dc = \"DC half\"", ""), [0x300, 1_000_000, 0, 490_000]);
    assert_eq!(registers("dc = \"DC\"", "dc = \"FreeRun\""), [0, 0, 0, 0], "the device's own");
    assert_eq!(
        registers("dc = \"DC\"", "sync0 = { shift_us = 125.0 }"),
        [0x300, 1_000_000, 0, 125_000],
        "values of the file beside those of the mode"
    );
}

#[test]
fn a_mode_that_assigns_pdos_or_has_a_relative_shift_is_a_warning() {
    let warnings = |of_type: &str| parsed(of_type, "").unwrap().warnings();
    let said = warnings("dc = \"DCIN\"");
    assert!(said[0].contains("clock mode \"DCIN\": of its shift (line 14) only"), "{said:?}");
    assert_eq!(warnings("dc = \"DCIN\"\nsync0 = { shift_us = -50.0 }"), Vec::<String>::new());
    assert_eq!(warnings("dc = \"DC fast\""), Vec::<String>::new());
    let said = warnings("dc = \"DC oversampling\"");
    assert!(said[0].contains("clock mode \"DC oversampling\": its PDOs (line 12)"), "{said:?}");
}

#[test]
fn times_below_0_are_read_in_hexadecimal_and_one_that_is_no_number_is_said() {
    let with = |esi: String| {
        let text = "[types.axis]\nesi = \"axis.xml\"\ndc = \"DC fast\"\n[[devices]]\ntype = \"axis\"\nname = \"a\"\n";
        Description::from_toml_with(text, |_| Ok(esi.clone().into_bytes())).unwrap()
    };
    let sync0 = |description: &Description| {
        Layout::from_description(description).unwrap().devices[0].setup.sync0
    };
    let stored =
        ESI.replace("Factor=\"-4\">", "Factor=\"#xfffc\">").replace("-20000", "#xffffb1e0");
    assert_ne!(stored, ESI);
    assert_eq!(sync0(&with(stored)), sync0(&with(ESI.to_owned())));
    let warnings = with(ESI.replace("-20000", "soon")).warnings();
    assert!(warnings[0].contains("<ShiftTimeSync0> has \"soon\"; 0 is used"), "{warnings:?}");
}

#[test]
fn sync1_follows_every_fourth_sync0_by_its_shift() {
    let mut world = up("dc = \"DC fast\"", "");
    // The first pulse is 20 cycles after their activation.
    world.cycles(40);
    let mut nexts = Vec::new();
    for _ in 0..20 {
        world.cycles(1);
        nexts.push(number(&mut world, 0x0998, 8));
    }
    assert!(nexts.windows(2).all(|two| two[1] - two[0] == 1_000_000), "{nexts:?}");
    // 10 us after a SYNC0 pulse, which is 20 us before a multiple of its period.
    assert_eq!(nexts[0] % 250_000, 240_000, "{nexts:?}");
}

#[test]
fn a_device_that_lost_power_gets_both_pulses_again() {
    let mut world = up("dc = \"DC fast\"", "");
    let before = pulses(&mut world);
    let device = world.device("b");
    world.inject(onbeat_segment::Fault::PowerOff { device }, Some(20_000_000), 1.0);
    world.cycles(22);
    world.until_up_again();
    assert_eq!(pulses(&mut world), before);
}

#[test]
fn an_unknown_mode_is_refused_with_those_of_the_file() {
    let description = parsed("dc = \"DC slow\"", "").unwrap();
    let why = Layout::from_description(&description).unwrap_err().to_string();
    assert!(why.contains("no clock mode \"DC slow\""), "{why}");
    let modes = "\"FreeRun\", \"DC\", \"DC fast\", \"DC oversampling\", \"DC fixed\"";
    assert!(why.contains(modes), "{why}");
    let of_kind = Description::from_toml(
        "[types.j]\nkind = \"drive\"\ndc = \"DC\"\n[[devices]]\ntype = \"j\"\nname = \"a\"\n",
    );
    assert!(matches!(of_kind, Err(DescriptionError::NeedsEsi { what: "dc", .. })), "{of_kind:?}");
}

#[test]
fn a_device_refuses_pulses_that_no_mode_of_its_has() {
    for (of_device, code) in [
        ("sync0 = { activate = 0x0320 }", "0x0030"),
        ("dc = \"DC fixed\"\nsync0 = { period_us = 1000.0 }", "0x0036"),
        ("dc = \"DC fast\"\nsync0 = { sync1_us = 5.0 }", "0x0037"),
    ] {
        let sentence = refusal("", of_device);
        assert!(
            sentence.starts_with("b: it refuses SAFEOP") && sentence.contains(code),
            "{of_device}: {sentence}"
        );
    }
}
