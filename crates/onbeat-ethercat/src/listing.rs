//! What a MainDevice should find on a segment, from the segment's own file.

use super::build::build;
use super::coe::Dictionary;
use super::description::{Description, DescriptionError, DeviceTable, KindWord, TypeTable};
use super::esi::Behaviour;
use super::segment::Segment;
use super::setup_words::{setup_of, watchdog_ns};
use super::subdevice::SubDevice;
use crate::ethercat::layout::{DeviceKind, DeviceLayout, Layout, MappedValue};
use crate::ethercat::setup::DeviceSetup;

/// The layout of the process image of the segment that a file describes.
pub(crate) fn layout_of(description: &Description) -> Result<Layout, DescriptionError> {
    let devices = build(description)?.devices;
    let order = Segment::of(description)?.order_on_cable();
    let tables: Vec<(&DeviceTable, usize)> = description
        .devices
        .iter()
        .flat_map(|table| table.all_names().enumerate().map(move |(number, _)| (table, number)))
        .collect();
    let watchdog_ns = description.segment.watchdog_ms.map(watchdog_ns).transpose()?;
    let mut layout = Layout { name: description.segment.name.clone(), watchdog_ns, ..Layout::default() };
    for place in order {
        let (table, number) = tables[place];
        if let Some(kind) = description.types.get(&table.kind) {
            let what = match description.information.get(&table.kind) {
                Some(information) => information.behaviour().into(),
                None => kind.word(&table.kind)?.into(),
            };
            let setup = setup_of(&devices[place].name, kind, table)?;
            let serial = table.serial_of(number).unwrap_or(0);
            let alias = alias(table, number);
            layout.add(DeviceLayout { setup, serial, ..device(&devices[place], (kind, what), alias) });
        }
    }
    Ok(layout)
}

/// Aliases count on from the first device of a line.
fn alias(table: &DeviceTable, number: usize) -> u16 {
    if table.alias == 0 { 0 } else { table.alias.wrapping_add(number as u16) }
}

fn device(device: &SubDevice, (kind, what): (&TypeTable, DeviceKind), alias: u16) -> DeviceLayout {
    let objects = &device.firmware.objects;
    let identity = |entry| objects.lookup(0x1018, entry).map_or(0, |found| objects.u32(found.slot));
    let drive = kind.drive.filter(|_| what == DeviceKind::Drive).unwrap_or_default();
    DeviceLayout {
        name: device.name.to_string(),
        kind: what,
        alias,
        vendor: identity(1),
        product: identity(2),
        revision: identity(3),
        serial: 0,
        outputs: 0..device.firmware.outputs.bytes(),
        inputs: 0..device.firmware.inputs.bytes(),
        output_values: mapped(objects, device.firmware.setup.outputs.assignment),
        input_values: mapped(objects, device.firmware.setup.inputs.assignment),
        increments: if what == DeviceKind::Drive { drive.increments } else { 0 },
        travel: if what == DeviceKind::Drive { drive.travel } else { [0, 0] },
        setup: DeviceSetup::default(),
    }
}

/// Values that the assigned PDOs list, one behind the other; gaps only move on.
fn mapped(objects: &Dictionary, assignment: u16) -> Vec<MappedValue> {
    let number = |index, entry| objects.lookup(index, entry).ok().map(|found| found.slot);
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

impl From<KindWord> for DeviceKind {
    fn from(kind: KindWord) -> Self {
        match kind {
            KindWord::Coupler => Self::Coupler,
            KindWord::Digital => Self::Digital,
            KindWord::Analogue => Self::Analogue,
            KindWord::Drive => Self::Drive,
            KindWord::Imu => Self::Imu,
            KindWord::ForceTorque => Self::ForceTorque,
        }
    }
}

impl From<Behaviour> for DeviceKind {
    fn from(behaviour: Behaviour) -> Self {
        match behaviour {
            Behaviour::Coupler => Self::Coupler,
            Behaviour::Digital => Self::Digital,
            Behaviour::Analogue => Self::Analogue,
            Behaviour::Drive => Self::Drive,
        }
    }
}
