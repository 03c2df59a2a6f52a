//! The parts of a device, from a type table or an ESI file.

use super::coe::{DataType, Dictionary, EntryFormat, access};
use super::device::Model;
use super::eeprom::SiiEeprom;
use super::esc::{Esc, EscSettings};
use super::firmware::{Firmware, FirmwareSetup, Mailboxes, ProcessDataArea};
use super::sii_contents::{PdoListing, SiiContents, SiiIdentity};
use super::subdevice::SubDevice;
use onbeat_ethercat::esi::{DcMode, SyncManagerEntry};

pub(crate) struct DeviceParts {
    pub(crate) identity: SiiIdentity,
    /// Name in the EEPROM.
    pub(crate) name: String,
    pub(crate) order: String,
    pub(crate) objects: Dictionary,
    pub(crate) model: Model,
    pub(crate) mailboxes: Option<Mailboxes>,
    pub(crate) outputs: ProcessDataArea,
    pub(crate) inputs: ProcessDataArea,
    /// SyncManagers; the lengths of process data are set from the mapping.
    pub(crate) sync_managers: Vec<SyncManagerEntry>,
    pub(crate) fmmus: Vec<u8>,
    /// PDOs of the outputs and of the inputs.
    pub(crate) pdos: [Vec<PdoListing>; 2],
    pub(crate) clock: Vec<DcMode>,
    /// Physical ports, four bits each.
    pub(crate) port_kinds: u16,
    pub(crate) configuration: [u8; 14],
    pub(crate) bootstrap: [u16; 4],
    pub(crate) eeprom_bytes: usize,
}

/// Properties of an individual device that are not in its EEPROM.
#[derive(Debug)]
pub(crate) struct DeviceInstance<'n> {
    pub(crate) name: &'n str,
    pub(crate) esc_settings: EscSettings,
    pub(crate) eeprom_ns: u64,
    pub(crate) state_ns: u64,
    pub(crate) delay_ns: u64,
    pub(crate) needs_outputs: bool,
    pub(crate) needs_eeprom: bool,
    /// Explicit device ID, 0 for none.
    pub(crate) device_id: u16,
}

impl DeviceParts {
    pub(crate) fn assemble(mut self, instance: &DeviceInstance<'_>) -> SubDevice {
        self.objects.sort();
        let setup = FirmwareSetup {
            mailboxes: self.mailboxes,
            outputs: self.outputs,
            inputs: self.inputs,
            state_ns: instance.state_ns,
            delay_ns: instance.delay_ns,
            needs_outputs: instance.needs_outputs,
            needs_eeprom: instance.needs_eeprom,
            device_id: instance.device_id,
            clock_modes: self.clock.clone(),
        };

        let firmware = Firmware::new(setup, self.objects, self.model);
        for (data, map) in [
            (&firmware.setup.outputs, &firmware.outputs),
            (&firmware.setup.inputs, &firmware.inputs),
        ] {
            for (area, bytes) in data.areas.iter().zip(map.area_bytes()) {
                if let Some(sync_manager) = self.sync_managers.get_mut(area.channel) {
                    sync_manager.length = bytes;
                }
            }
        }

        let contents = SiiContents {
            identity: self.identity,
            name: &self.name,
            order: &self.order,
            configuration: self.configuration,
            bootstrap: self.bootstrap,
            mailboxes: self.mailboxes,
            sync_managers: &self.sync_managers,
            fmmus: &self.fmmus,
            objects: &firmware.objects,
            pdos: [&self.pdos[0], &self.pdos[1]],
            clock: &self.clock,
            ports: self.port_kinds,
            size: self.eeprom_bytes,
        };

        let eeprom = SiiEeprom::new(contents.image(), instance.eeprom_ns);
        let mut esc = Esc::new(&instance.esc_settings, eeprom);
        esc.set_deactivated(0, true, true);
        SubDevice { esc, firmware: Box::new(firmware), name: instance.name.into(), powered: true }
    }
}

/// Adds the objects of every device with a mailbox, except those that exist. `usages`: SyncManager
/// types.
pub(crate) fn common_objects(
    objects: &mut Dictionary,
    name: &str,
    identity: SiiIdentity,
    profile: u32,
    usages: &[u8],
) {
    let text = |text: &str| DataType::Text(text.len().min(64) as u16);
    let version = env!("CARGO_PKG_VERSION");
    let mut value = |index, title, kind, bytes: &[u8]| {
        if !objects.has(index) {
            objects.value(index, title, EntryFormat::new(kind, access::READ), bytes);
        }
    };

    value(0x1000, "Device type", DataType::U32, &profile.to_le_bytes());
    value(0x1008, "Device name", text(name), name.as_bytes());
    value(0x1009, "Hardware version", text("simulated"), b"simulated");
    value(0x100a, "Software version", text(version), version.as_bytes());
    objects.object(0x1018, "Identity");
    objects.entry("Entries", DataType::U8, access::READ, &[4]);
    let numbers = [identity.vendor, identity.product, identity.revision, identity.serial];

    for (name, number) in
        ["Vendor id", "Product code", "Revision", "Serial number"].iter().zip(numbers)
    {
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
