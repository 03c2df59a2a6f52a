//! All that a device is put together from, wherever it was told.

use super::coe::{DataType, Dictionary, access};
use super::controller::{Chip, Controller};
use super::device::Model;
use super::eeprom::Eeprom;
use super::firmware::{Area, Firmware, Mailboxes, Setup};
use super::sii::{Contents, Identity, Listed};
use super::subdevice::SubDevice;
use onbeat_ethercat::esi::{Channel, ClockMode};

/// The parts of one device.
pub(crate) struct Parts {
    pub(crate) identity: Identity,
    /// Strings of the EEPROM.
    pub(crate) name: String,
    pub(crate) order: String,
    pub(crate) objects: Dictionary,
    pub(crate) model: Model,
    pub(crate) mailboxes: Option<Mailboxes>,
    pub(crate) outputs: Area,
    pub(crate) inputs: Area,
    /// Lengths of process data are filled in from what is mapped.
    pub(crate) channels: Vec<Channel>,
    pub(crate) fmmus: Vec<u8>,
    /// PDOs of the outputs and of the inputs.
    pub(crate) pdos: [Vec<Listed>; 2],
    pub(crate) clock: Vec<ClockMode>,
    /// Kinds of the ports, four bits for each.
    pub(crate) port_kinds: u16,
    pub(crate) configuration: [u8; 14],
    pub(crate) bootstrap: [u16; 4],
    pub(crate) eeprom_bytes: usize,
}

/// What differs between two devices of a type, or is not in the EEPROM.
#[derive(Debug)]
pub(crate) struct Individual<'n> {
    pub(crate) name: &'n str,
    pub(crate) chip: Chip,
    pub(crate) eeprom_ns: u64,
    pub(crate) state_ns: u64,
    pub(crate) delay_ns: u64,
    pub(crate) needs_outputs: bool,
}

impl Parts {
    pub(crate) fn assemble(mut self, own: &Individual<'_>) -> SubDevice {
        self.objects.sort();
        let setup = Setup {
            mailboxes: self.mailboxes,
            outputs: self.outputs,
            inputs: self.inputs,
            state_ns: own.state_ns,
            delay_ns: own.delay_ns,
            needs_outputs: own.needs_outputs,
        };

        let firmware = Firmware::new(setup, self.objects, self.model);
        for (area, bytes) in
            [(&firmware.setup.outputs, firmware.outputs.bytes()), (&firmware.setup.inputs, firmware.inputs.bytes())]
        {
            if let Some(channel) = area.channel.and_then(|channel| self.channels.get_mut(channel)) {
                channel.length = bytes as u16;
            }
        }

        let contents = Contents {
            identity: self.identity,
            name: &self.name,
            order: &self.order,
            configuration: self.configuration,
            bootstrap: self.bootstrap,
            mailboxes: self.mailboxes,
            channels: &self.channels,
            fmmus: &self.fmmus,
            objects: &firmware.objects,
            pdos: [&self.pdos[0], &self.pdos[1]],
            clock: &self.clock,
            ports: self.port_kinds,
            size: self.eeprom_bytes,
        };

        let eeprom = Eeprom::new(contents.image(), own.eeprom_ns);
        let mut controller = Controller::new(&own.chip, eeprom);
        controller.hold(0, (true, true));
        SubDevice { controller, firmware: Box::new(firmware), name: own.name.into(), powered: true }
    }
}

/// Objects that each device with a mailbox has; those that were told already stay. `usages`: of the SyncManagers.
pub(crate) fn common_objects(
    objects: &mut Dictionary,
    name: &str,
    identity: Identity,
    (profile, usages): (u32, &[u8]),
) {
    let text = |text: &str| DataType::Text(text.len().min(64) as u16);
    let version = env!("CARGO_PKG_VERSION");
    let mut value = |index, title, kind, bytes: &[u8]| {
        if !objects.has(index) {
            objects.value(index, title, (kind, access::READ), bytes);
        }
    };

    value(0x1000, "Device type", DataType::U32, &profile.to_le_bytes());
    value(0x1008, "Device name", text(name), name.as_bytes());
    value(0x1009, "Hardware version", text("simulated"), b"simulated");
    value(0x100a, "Software version", text(version), version.as_bytes());
    objects.object(0x1018, "Identity");
    objects.entry("Entries", DataType::U8, access::READ, &[4]);
    let numbers = [identity.vendor, identity.product, identity.revision, identity.serial];

    for (name, number) in ["Vendor id", "Product code", "Revision", "Serial number"].iter().zip(numbers) {
        objects.entry(name, DataType::U32, access::READ, &number.to_le_bytes());
    }

    objects.object(0x1c00, "SyncManager types");
    objects.entry("Entries", DataType::U8, access::READ, &[usages.len() as u8]);
    for (number, &usage) in (1..).zip(usages) {
        objects.entry(&format!("SyncManager {number}"), DataType::U8, access::READ, &[usage]);
    }

    for (index, name) in [(0x1c32, "Output synchronization"), (0x1c33, "Input synchronization")] {
        if objects.has(index) {
            continue;
        }

        objects.object(index, name);
        objects.entry("Entries", DataType::U8, access::READ, &[4]);
        objects.entry("Type", DataType::U16, access::BOTH, &[1, 0]);
        objects.entry("Cycle time", DataType::U32, access::BOTH, &1_000_000u32.to_le_bytes());
        objects.entry("Shift time", DataType::U32, access::READ, &[]);
        objects.entry("Types supported", DataType::U16, access::READ, &[0x06, 0]);
    }
}
