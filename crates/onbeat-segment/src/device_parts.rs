//! The parts of a device, from a type table or an ESI file.

use super::coe::{DataType, Dictionary, EntryFormat, access};
use super::device::Model;
use super::eeprom::SiiEeprom;
use super::esc::{Esc, EscSettings};
use super::firmware::{Firmware, FirmwareSetup, ProcessDataArea};
use super::sii_contents::{SiiContents, SiiIdentity};
use super::subdevice::SubDevice;
use onbeat_ethercat::description::ResolvedDevice;

pub(crate) struct DeviceParts {
    /// The lengths of process data in its SyncManagers are set from the mapping.
    pub(crate) sii: SiiContents,
    pub(crate) objects: Dictionary,
    pub(crate) model: Model,
    pub(crate) outputs: ProcessDataArea,
    pub(crate) inputs: ProcessDataArea,
}

impl DeviceParts {
    /// Makes the device of these parts. `delay_ns`: time from a frame to the cycle of its model.
    pub(crate) fn assemble(
        self,
        device: &ResolvedDevice<'_>,
        delay_ns: u64,
        esc_settings: &EscSettings,
    ) -> SubDevice {
        let Self { mut sii, mut objects, model, outputs, inputs } = self;
        let kind = device.kind;
        objects.sort();
        let setup = FirmwareSetup {
            mailboxes: sii.mailboxes,
            outputs,
            inputs,
            state_ns: kind.state_us.saturating_mul(1_000),
            delay_ns,
            needs_outputs: kind.needs_outputs,
            needs_eeprom: kind.needs_eeprom,
            device_id: device.setup.device_id,
            clock_modes: sii.clock.clone(),
        };

        let firmware = Firmware::new(setup, objects, model);
        for (data, map) in [
            (&firmware.setup.outputs, &firmware.outputs),
            (&firmware.setup.inputs, &firmware.inputs),
        ] {
            for (area, bytes) in data.areas.iter().zip(map.area_bytes()) {
                if let Some(sync_manager) = sii.sync_managers.get_mut(area.channel) {
                    sync_manager.length = bytes;
                }
            }
        }

        let access_ns = kind.eeprom_us.saturating_mul(1_000);
        let eeprom = SiiEeprom::new(sii.image(&firmware.objects), access_ns);
        let mut esc = Esc::new(esc_settings, eeprom);
        esc.set_deactivated(0, true, true);
        SubDevice { esc, firmware: Box::new(firmware), name: device.name.into(), powered: true }
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

    let usages: Vec<u32> = usages.iter().map(|usage| u32::from(*usage)).collect();
    let entry = ("SyncManager", DataType::U8, access::READ);
    objects.list((0x1c00, "SyncManager types"), entry, &usages, usages.len());

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
