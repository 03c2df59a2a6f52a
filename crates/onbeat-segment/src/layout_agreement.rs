//! Tests that the layout of a description agrees with the simulated devices of the same
//! description.
//!
//! The layout is derived from the description alone, so that a MainDevice on a real bus does not
//! depend on the simulator.
#![allow(clippy::unwrap_used)]

use std::fmt::Write;

use onbeat_ethercat::description::{
    ChannelsTable, Description, PdoDirection, ResolvedDescription, mappable,
};
use onbeat_ethercat::layout::{DeviceKind, DeviceLayout, Layout, MappedValue};
use proptest::prelude::*;

use super::coe::{Dictionary, access};
use super::link::Link;
use super::process_data::AssignedArea;
use super::segment::Segment;
use super::subdevice::SubDevice;

const ESI: &str = include_str!("../tests/esi_files/line.toml");
/// One device of each kind, custom mappings, consecutive aliases and serial numbers, and a branch.
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

/// Returns the values of the assigned PDOs of a device, in order, without gaps.
fn mapped(objects: &Dictionary, areas: &[AssignedArea]) -> Vec<MappedValue> {
    let slot = |index, entry| objects.slot(index, entry);
    let count = |index| slot(index, 0).map_or(0, |slot| objects.u8(slot));
    let mut values = Vec::new();
    let mut bit_at = 0;
    for area in areas {
        let assignment = area.assignment;
        bit_at = usize::next_multiple_of(bit_at, 8);
        for assigned in 1..=count(assignment) {
            let pdo = slot(assignment, assigned).map_or(0, |slot| objects.u16(slot));
            for entry in 1..=count(pdo) {
                let mapped = slot(pdo, entry).map_or(0, |slot| objects.u32(slot));
                let index = (mapped >> 16) as u16;
                let entry = (mapped >> 8) as u8;
                let bits = (mapped & 0xff) as u16;
                if index != 0 {
                    let object = objects.lookup(index, entry).unwrap();
                    let (name, data_type) = (object.name.clone(), object.kind.number());
                    values.push(MappedValue { index, entry, bits, data_type, bit_at, name });
                }
                bit_at += usize::from(bits);
            }
        }
    }

    values
}

fn assert_agrees(layout: &DeviceLayout, device: &SubDevice) {
    let objects = &device.firmware.objects;
    let identity = [1, 2, 3].map(|entry| objects.u32(objects.slot(0x1018, entry).unwrap()));
    assert_eq!(layout.name, *device.name);
    assert_eq!([layout.vendor, layout.product, layout.revision], identity, "{}", layout.name);
    assert_eq!(layout.outputs.len(), device.firmware.outputs.bytes(), "{}", layout.name);
    assert_eq!(layout.inputs.len(), device.firmware.inputs.bytes(), "{}", layout.name);
    assert_eq!(
        layout.output_values,
        mapped(objects, &device.firmware.setup.outputs.areas),
        "{}",
        layout.name
    );

    assert_eq!(
        layout.input_values,
        mapped(objects, &device.firmware.setup.inputs.areas),
        "{}",
        layout.name
    );
}

fn assert_all_agree(description: &Description) {
    let layout = Layout::from_description(description).unwrap();
    let segment = Segment::from_description(description).unwrap();
    let order = segment.order_on_cable();
    assert_eq!(layout.devices.len(), order.len());
    for (listed, position) in layout.devices.iter().zip(order) {
        assert_agrees(listed, &segment.devices[position]);
    }
}

#[test]
fn a_layout_has_the_identities_and_mappings_of_the_simulated_devices() {
    assert_all_agree(&Description::from_toml(Segment::HUMANOID).unwrap());
    assert_all_agree(&Description::from_toml(MANY).unwrap());
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/esi_files");
    let with_esi =
        Description::from_toml_with(ESI, |name| std::fs::read(format!("{directory}/{name}")))
            .unwrap();
    assert_all_agree(&with_esi);
}

#[test]
fn mappable_objects_are_those_that_the_simulated_devices_allow() {
    let channels = ChannelsTable { inputs: 5, outputs: 200, loop_back: false };
    for kind in DeviceKind::ALL {
        let word = kind.word();
        let text = format!(
            "[types.t]\nkind = \"{word}\"\noutputs = []\ninputs = []\nchannels = {{ inputs = 5, outputs = 200 }}\n\
             [[devices]]\ntype = \"t\"\nname = \"one\"\n"
        );
        let segment = Segment::from_toml(&text).unwrap();
        let objects = &segment.devices[0].firmware.objects;

        for (direction, right) in
            [(PdoDirection::Outputs, access::OUTPUT), (PdoDirection::Inputs, access::INPUT)]
        {
            for index in 0x1000..=0x7fff {
                for entry in 0..=255 {
                    let found =
                        objects.lookup(index, entry).ok().filter(|entry| entry.access & right != 0);
                    let allowed = mappable(kind, channels, direction, index, entry);
                    assert_eq!(
                        allowed,
                        found.map(|entry| entry.kind),
                        "{word} {index:#06x}:{entry}"
                    );
                }
            }
        }
    }
}

#[test]
fn an_invalid_description_gives_the_same_error_for_segment_layout_and_link() {
    let device = "[[devices]]\ntype = \"t\"\nname = \"one\"\n";
    let invalid = [
        "[types.t]\nkind = \"drive\"\nports = 5\n",
        "[types.t]\nkind = \"drive\"\nmailbox = 7\n",
        "[types.t]\nkind = \"drive\"\noutputs = [\"6064\"]\n",
        "[types.t]\nkind = \"drive\"\ninputs = [\"knee\"]\n",
        "[types.t]\nkind = \"drive\"\n[types.t.drive]\nincrements = 0\n",
        "[types.t]\nkind = \"analogue\"\nchannels = { inputs = 65, outputs = 0 }\n",
        "[types.t]\n",
        "[types.other]\nkind = \"drive\"\n",
    ];

    for kind in invalid {
        let description = Description::from_toml(&format!("{kind}{device}")).unwrap();
        let layout_error = Layout::from_description(&description).unwrap_err();
        assert_eq!(Segment::from_description(&description).unwrap_err(), layout_error, "{kind}");
        assert_eq!(Link::from_description(&description).unwrap_err(), layout_error, "{kind}");
    }
}

proptest! {
    /// Each device is connected to any earlier one with a free port.
    #[test]
    fn cable_order_agrees_for_any_tree(parents in prop::collection::vec(any::<prop::sample::Index>(), 0..40), ring: bool) {
        let mut text = format!("[segment]\nring = {ring}\n[types.t]\nkind = \"coupler\"\nports = 4\n\
            [[devices]]\ntype = \"t\"\nname = \"0\"\n");
        let mut free = vec![3];
        for (number, parent) in (1..).zip(parents) {
            let with_free_port: Vec<usize> = (0..free.len()).filter(|device| free[*device] > 0).collect();
            let after = *parent.get(&with_free_port);
            free[after] -= 1;
            free.push(3);
            write!(text, "[[devices]]\ntype = \"t\"\nname = \"{number}\"\nafter = \"{after}\"\n").unwrap();
        }

        let description = Description::from_toml(&text).unwrap();
        let resolved = ResolvedDescription::new(&description).unwrap();
        prop_assert_eq!(resolved.order_on_cable(), Segment::from_description(&description).unwrap().order_on_cable());
    }
}
