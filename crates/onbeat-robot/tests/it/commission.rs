//! Commissioning without a running bus: registers, EEPROM, states, objects, files.

use crate::bus_world;

use bus_world::{OPTIONS, VirtualClock, World, clock};
use onbeat_control::SdoAction;
use onbeat_ethercat::al::{BOOT, INIT, PREOP};
use onbeat_ethercat::layout::Layout;
use onbeat_robot::bus::{Bus, InProcess, Upstream, upstreams};
use onbeat_robot::commission::{CommissionError, Line, alias_of, with_alias};
use onbeat_segment::{Fault, Link, Segment};
use proptest::prelude::*;

/// A drive, a digital device without a mailbox, and a drive that needs its EEPROM.
const THREE: &str = "[types.drive]\nkind = \"drive\"\n[types.io]\nkind = \"digital\"\n\
    [types.strict]\nkind = \"drive\"\nneeds_eeprom = true\n\
    [[devices]]\ntype = \"drive\"\nname = \"a\"\n[[devices]]\ntype = \"io\"\nname = \"b\"\n\
    [[devices]]\ntype = \"strict\"\nname = \"c\"\nalias = 7\n";

fn wire<'c>(text: &str, clock: &'c VirtualClock) -> InProcess<&'c VirtualClock> {
    InProcess::on_virtual_clock(Link::from_toml(text).unwrap(), clock)
}

#[test]
fn a_device_is_taken_to_preop_and_back_without_a_station_address() {
    let clock = clock();
    let mut wire = wire(THREE, &clock);
    let mut line = Line::open(&mut wire, "the line").unwrap();
    for place in 0..3 {
        line.request_state(place, PREOP).unwrap();
        assert_eq!(line.state(place).unwrap(), (PREOP, 0));
        assert_eq!(line.registers(place).unwrap().station.0, 0, "its address is as it was");
    }
    line.request_state(0, INIT).unwrap();
    assert_eq!(line.state(0).unwrap(), (INIT, 0));
    assert!(matches!(line.state(3), Err(CommissionError::NoDevice { place: 3, devices: 3 })));
}

#[test]
fn an_access_that_does_not_fit_into_a_frame_is_refused_and_not_sent() {
    let clock = clock();
    let mut wire = wire(THREE, &clock);
    let mut line = Line::open(&mut wire, "the line").unwrap();
    assert_eq!(line.read(0, 0x1000, 1_486).unwrap().len(), 1_486);
    line.write(0, 0x1000, &[7; 4]).unwrap();
    let why = line.read(0, 0x1000, 1_487).unwrap_err();
    assert!(matches!(why, CommissionError::TooLong { bytes: 1_487, most: 1_486 }), "{why}");
    assert!(matches!(line.write(0, 0x1000, &[0; 1_487]), Err(CommissionError::TooLong { .. })));
    assert_eq!(line.read(0, 0x1000, 4).unwrap(), [7; 4]);
}

#[test]
fn objects_are_read_written_and_described() {
    let clock = clock();
    let mut wire = wire(THREE, &clock);
    let mut line = Line::open(&mut wire, "the line").unwrap();
    let closed = line.sdo(0, (0x1018, 1), false, SdoAction::Read).unwrap_err().to_string();
    assert!(closed.contains("is in INIT") && closed.contains("onbeat bus state"), "{closed}");

    line.request_state(0, PREOP).unwrap();
    assert_eq!(
        line.sdo(0, (0x1018, 1), false, SdoAction::Read).unwrap(),
        0xf1c7_1005u32.to_le_bytes()
    );
    line.sdo(0, (0x6065, 0), false, SdoAction::Write(1_234u32.to_le_bytes().to_vec())).unwrap();
    assert_eq!(line.sdo(0, (0x6065, 0), false, SdoAction::Read).unwrap(), 1_234u32.to_le_bytes());
    let missing = line.sdo(0, (0x5fff, 0), false, SdoAction::Read).unwrap_err().to_string();
    assert!(
        missing.contains("0x5fff:0 of the device at place 0") && missing.contains("0x06020000"),
        "{missing}"
    );

    let indices = line.object_indices(0).unwrap();
    assert!(indices.contains(&0x1018) && indices.contains(&0x6040), "{indices:04x?}");
    let identity = line.object(0, 0x1018).unwrap();
    assert_eq!((identity.highest, identity.name.as_str()), (4, "Identity"));
    let vendor = line.entry(0, 0x1018, 1).unwrap().unwrap();
    assert_eq!((vendor.bits, vendor.data_type, vendor.rights().as_str()), (32, 7, "r-r-r-"));
    assert_eq!(line.entry(0, 0x1018, 9).unwrap(), None);
}

#[test]
fn an_eeprom_is_read_changed_and_read_again() {
    let clock = clock();
    let mut wire = wire(THREE, &clock);
    let mut line = Line::open(&mut wire, "the line").unwrap();
    let image = line.read_sii(2).unwrap();
    assert_eq!(alias_of(&image), 7);
    let words = line.write_sii(2, 0, &with_alias(&image, 1001), |_| ()).unwrap();
    assert_eq!(words, 2, "alias and checksum");
    line.reload_sii(2).unwrap();

    assert_eq!(line.registers(2).unwrap().station.1, 1001);
    let sii = line.sii(2).unwrap();
    assert_eq!((sii.alias, sii.protocols & 0x0c), (1001, 0x0c), "CoE and FoE");
    assert_eq!(line.read_sii(0).unwrap()[..8], image[..8], "the others are as they were");
}

#[test]
fn files_go_to_a_device_and_back_and_firmware_needs_boot() {
    let clock = clock();
    let mut wire = wire(THREE, &clock);
    let mut line = Line::open(&mut wire, "the line").unwrap();
    line.request_state(0, PREOP).unwrap();
    let file: Vec<u8> = (0..1_000u32).map(|byte| byte as u8).collect();
    line.write_file(0, ("a.bin", 0), &file, |_| ()).unwrap();
    assert_eq!(line.read_file(0, "a.bin", 0, |_| ()).unwrap(), file);
    let missing = line.read_file(0, "b.bin", 0, |_| ()).unwrap_err().to_string();
    assert!(missing.contains("0x8001 (not found)"), "{missing}");

    let name = "n".repeat(117);
    let long = line.read_file(0, &name, 0, |_| ()).unwrap_err();
    assert!(matches!(long, CommissionError::LongName { bytes: 117, most: 116, .. }), "{long}");
    let long = line.write_file(0, (&name, 0), &file, |_| ()).unwrap_err();
    assert!(matches!(long, CommissionError::LongName { .. }), "{long}");

    let too_early = line.write_file(0, ("new.efw", 0), &file, |_| ()).unwrap_err().to_string();
    assert!(too_early.contains("bootstrap only"), "{too_early}");
    line.request_state(0, BOOT).unwrap();
    line.write_file(0, ("new.efw", 0), &file, |_| ()).unwrap();
    assert!(line.sdo(0, (0x1018, 1), false, SdoAction::Read).is_err(), "no CoE in BOOT");
    line.request_state(0, INIT).unwrap();
    assert!(matches!(line.request_state(1, BOOT), Err(CommissionError::Unsupported { .. })));
}

#[test]
fn a_device_that_needs_its_eeprom_refuses_preop_with_0050_until_it_has_it() {
    let clock = clock();
    let mut wire = wire(THREE, &clock);
    let mut line = Line::open(&mut wire, "the line").unwrap();
    line.request_state(2, PREOP).unwrap();
    line.write(2, 0x0120, &[1, 0]).unwrap();
    line.write(2, 0x0500, &[0]).unwrap();
    line.write(2, 0x0120, &[2, 0]).unwrap();
    assert_eq!(line.state(2).unwrap(), (0x11, 0x0050));
}

#[test]
fn the_humanoid_is_a_line_behind_the_interface() {
    let clock = clock();
    let mut wire = wire(Segment::HUMANOID, &clock);
    let mut line = Line::open(&mut wire, "the line").unwrap();
    let before = upstreams(&line.links().unwrap());
    assert_eq!(before[0], Upstream::Interface);
    assert!(before[1..].iter().all(|one| matches!(one, Upstream::Device(..))), "{before:?}");
}

#[test]
fn a_bus_comes_up_after_commissioning_left_devices_in_any_state() {
    let clock = clock();
    let mut wire = wire(THREE, &clock);
    let mut line = Line::open(&mut wire, "the line").unwrap();
    line.request_state(0, BOOT).unwrap();
    line.request_state(2, PREOP).unwrap();
    let layout = Layout::from_toml(THREE).unwrap();
    let bus = Bus::bring_up(wire, Some(&layout), OPTIONS, "the line").unwrap();
    assert_eq!(bus.layout().devices.len(), 3);
    // A world of its own is as good as untouched devices.
    assert!(World::new(THREE, &clock, OPTIONS).bus.bring_up_frames() > 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Lengths around the data of a packet, 116 bytes, are those that differ in their last packet.
    #[test]
    fn files_of_every_length_arrive_whole(length in 0usize..400, seed in any::<u8>()) {
        let clock = clock();
        let mut wire = wire(THREE, &clock);
        let mut line = Line::open(&mut wire, "the line").unwrap();
        line.request_state(0, PREOP).unwrap();
        let file: Vec<u8> = (0..length).map(|byte| (byte as u8).wrapping_mul(31) ^ seed).collect();
        line.write_file(0, ("x", 0), &file, |_| ()).unwrap();
        prop_assert_eq!(line.read_file(0, "x", 0, |_| ()).unwrap(), file);
    }
}

#[test]
fn replies_later_than_a_try_lose_no_mail() {
    let clock = clock();
    let mut wire = wire(THREE, &clock);
    let late = Fault::Late { by_ns: 7_000_000 };
    wire.link_mut().inject(late, onbeat_rt::time::Clock::now(&&clock), None, 1.0);
    let mut line = Line::open(&mut wire, "the line").unwrap();
    line.request_state(0, PREOP).unwrap();
    let file = vec![7; 500];
    line.write_file(0, ("x", 0), &file, |_| ()).unwrap();
    assert_eq!(line.read_file(0, "x", 0, |_| ()).unwrap(), file);
}

#[test]
fn a_cable_that_loses_frames_loses_no_mail() {
    let clock = clock();
    let mut wire = wire(THREE, &clock);
    wire.link_mut().inject(Fault::Lose, onbeat_rt::time::Clock::now(&&clock), None, 0.05);
    let mut line = Line::open(&mut wire, "the line").unwrap();
    line.request_state(0, PREOP).unwrap();
    let file: Vec<u8> = (0..20_000_u32).map(|byte| byte as u8).collect();
    line.write_file(0, ("x", 0), &file, |_| ()).unwrap();
    assert_eq!(line.read_file(0, "x", 0, |_| ()).unwrap(), file);
    // The bit stays as it was toggled last, and a device that starts anew has nothing to repeat.
    line.request_state(0, INIT).unwrap();
    line.request_state(0, PREOP).unwrap();
    assert_eq!(line.read_file(0, "x", 0, |_| ()).unwrap(), file);
}

#[test]
fn a_second_command_is_answered_although_it_counts_its_mails_like_the_first() {
    let clock = clock();
    let mut wire = wire(THREE, &clock);
    Line::open(&mut wire, "the line").unwrap().request_state(0, PREOP).unwrap();
    for _ in 0..20 {
        let mut line = Line::open(&mut wire, "the line").unwrap();
        let vendor = line.sdo(0, (0x1018, 1), false, SdoAction::Read).unwrap();
        assert_eq!(vendor, 0xf1c7_1005u32.to_le_bytes());
    }
}
