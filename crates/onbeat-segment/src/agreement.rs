//! What a layout says of a description is what the simulated devices of the same description do.
//!
//! A layout comes from the description alone, so that a MainDevice on a real bus asks no simulator. Here both are compared.
#![allow(clippy::unwrap_used)]

use std::fmt::Write;

use onbeat_ethercat::description::{Arrangement, ChannelsTable, Description, KindWord, Way, mappable};
use onbeat_ethercat::layout::{DeviceLayout, Layout, MappedValue};
use proptest::prelude::*;

use super::coe::{Dictionary, access};
use super::subdevice::SubDevice;
use super::{Link, Segment};

const ESI: &str = include_str!("../tests/esi_files/line.toml");
const KINDS: [(&str, KindWord); 6] = [
    ("coupler", KindWord::Coupler),
    ("digital", KindWord::Digital),
    ("analogue", KindWord::Analogue),
    ("drive", KindWord::Drive),
    ("imu", KindWord::Imu),
    ("force-torque", KindWord::ForceTorque),
];
/// One of each kind, mappings of their own, aliases and serial numbers that count on, and a fork.
const MANY: &str = r#"
    [types.fork]
    kind = "coupler"
    ports = 4
    [types.contacts]
    kind = "digital"
    channels = { inputs = 11, outputs = 3 }
    [types.voltages]
    kind = "analogue"
    channels = { inputs = 2, outputs = 0 }
    [types.knee]
    kind = "drive"
    product = 77
    outputs = ["6040", "6060", "60ff:0"]
    inputs = ["6041", "1001", "0x60fd"]
    [types.trunk]
    kind = "imu"
    [types.foot]
    kind = "force-torque"
    inputs = ["6000:7", "6000:1"]

    [[devices]]
    type = "fork"
    name = "fork"
    [[devices]]
    type = "contacts"
    names = ["a", "b"]
    alias = 40
    serial = 7
    [[devices]]
    type = "knee"
    names = ["left", "right"]
    after = "fork"
    port = 3
    [[devices]]
    type = "voltages"
    name = "voltages"
    after = "fork"
    [[devices]]
    type = "trunk"
    name = "trunk"
    [[devices]]
    type = "foot"
    name = "foot"
"#;

/// Values that the assigned PDOs of a device list, one behind the other; gaps only move on.
fn mapped(objects: &Dictionary, assignment: u16) -> Vec<MappedValue> {
    let number = |index, entry| objects.slot(index, entry);
    let count = |index| number(index, 0).map_or(0, |slot| objects.u8(slot));
    let mut values = Vec::new();
    let mut bit_at = 0;
    for assigned in 1..=count(assignment) {
        let pdo = number(assignment, assigned).map_or(0, |slot| objects.u16(slot));
        for entry in 1..=count(pdo) {
            let what = number(pdo, entry).map_or(0, |slot| objects.u32(slot));
            let (index, entry, bits) = ((what >> 16) as u16, (what >> 8) as u8, (what & 0xff) as u16);
            if index != 0 {
                values.push(MappedValue { index, entry, bits, bit_at });
            }
            bit_at += usize::from(bits);
        }
    }

    values
}

fn agrees(layout: &DeviceLayout, device: &SubDevice) {
    let objects = &device.firmware.objects;
    let identity = [1, 2, 3].map(|entry| objects.u32(objects.slot(0x1018, entry).unwrap()));
    assert_eq!(layout.name, *device.name);
    assert_eq!([layout.vendor, layout.product, layout.revision], identity, "{}", layout.name);
    assert_eq!(layout.outputs.len(), device.firmware.outputs.bytes(), "{}", layout.name);
    assert_eq!(layout.inputs.len(), device.firmware.inputs.bytes(), "{}", layout.name);
    assert_eq!(layout.output_values, mapped(objects, device.firmware.setup.outputs.assignment), "{}", layout.name);
    assert_eq!(layout.input_values, mapped(objects, device.firmware.setup.inputs.assignment), "{}", layout.name);
}

fn all_agree(description: &Description) {
    let layout = Layout::of(description).unwrap();
    let segment = Segment::of(description).unwrap();
    let order = segment.order_on_cable();
    assert_eq!(layout.devices.len(), order.len());
    for (listed, place) in layout.devices.iter().zip(order) {
        agrees(listed, &segment.devices[place]);
    }
}

#[test]
fn a_layout_lists_what_the_simulated_devices_are_and_map() {
    all_agree(&Description::from_toml(Segment::HUMANOID).unwrap());
    all_agree(&Description::from_toml(MANY).unwrap());
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/esi_files");
    let with_esi = Description::from_toml_with(ESI, |name| std::fs::read(format!("{beside}/{name}"))).unwrap();
    all_agree(&with_esi);
}

#[test]
fn what_a_file_may_map_is_what_the_simulated_devices_let_process_data_hold() {
    let channels = ChannelsTable { inputs: 5, outputs: 200, loop_back: false };
    for (word, kind) in KINDS {
        let text = format!(
            "[types.t]\nkind = \"{word}\"\noutputs = []\ninputs = []\nchannels = {{ inputs = 5, outputs = 200 }}\n\
             [[devices]]\ntype = \"t\"\nname = \"one\"\n"
        );
        let segment = Segment::from_toml(&text).unwrap();
        let objects = &segment.devices[0].firmware.objects;

        for (way, right) in [(Way::Outputs, access::OUTPUT), (Way::Inputs, access::INPUT)] {
            for index in 0x1000..=0x7fff {
                for entry in 0..=255 {
                    let found = objects.lookup(index, entry).ok().filter(|entry| entry.access & right != 0);
                    let said = mappable(kind, channels, way, (index, entry));
                    assert_eq!(said, found.map(|entry| entry.kind), "{word} {index:#06x}:{entry}");
                }
            }
        }
    }
}

#[test]
fn what_makes_no_segment_makes_no_layout_and_both_say_the_same() {
    let device = "[[devices]]\ntype = \"t\"\nname = \"one\"\n";
    let wrong = [
        "[types.t]\nkind = \"drive\"\nports = 5\n",
        "[types.t]\nkind = \"drive\"\nmailbox = 7\n",
        "[types.t]\nkind = \"drive\"\noutputs = [\"6064\"]\n",
        "[types.t]\nkind = \"drive\"\ninputs = [\"knee\"]\n",
        "[types.t]\nkind = \"drive\"\n[types.t.drive]\nincrements = 0\n",
        "[types.t]\nkind = \"analogue\"\nchannels = { inputs = 65, outputs = 0 }\n",
        "[types.t]\n",
        "[types.other]\nkind = \"drive\"\n",
    ];

    for kind in wrong {
        let description = Description::from_toml(&format!("{kind}{device}")).unwrap();
        let of_layout = Layout::of(&description).unwrap_err();
        assert_eq!(Segment::of(&description).unwrap_err(), of_layout, "{kind}");
        assert_eq!(Link::of(&description).unwrap_err(), of_layout, "{kind}");
    }
}

proptest! {
    /// Each device hangs on any earlier one that has a port left.
    #[test]
    fn any_tree_has_one_order(parents in prop::collection::vec(any::<prop::sample::Index>(), 0..40), ring: bool) {
        let mut text = format!("[segment]\nring = {ring}\n[types.t]\nkind = \"coupler\"\nports = 4\n\
            [[devices]]\ntype = \"t\"\nname = \"0\"\n");
        let mut free = vec![3];
        for (number, parent) in (1..).zip(parents) {
            let with_room: Vec<usize> = (0..free.len()).filter(|place| free[*place] > 0).collect();
            let after = *parent.get(&with_room);
            free[after] -= 1;
            free.push(3);
            write!(text, "[[devices]]\ntype = \"t\"\nname = \"{number}\"\nafter = \"{after}\"\n").unwrap();
        }

        let description = Description::from_toml(&text).unwrap();
        let arrangement = Arrangement::of(&description).unwrap();
        prop_assert_eq!(arrangement.order_on_cable(), Segment::of(&description).unwrap().order_on_cable());
    }
}
