//! Builds the parts of a device from an ESI file: objects, PDOs, and a model.

use std::collections::{BTreeMap, BTreeSet};

use onbeat_ethercat::esi::{
    Behaviour, EsiDevice, EsiError, EsiObject, EsiValue, Pdo, PdoEntry, values,
};

use crate::coe::{DataType, Dictionary, EntryFormat, access, details};
use crate::device::{Drive, DriveSettings, Io, Model};
use crate::device_parts::{DeviceParts, common_objects};
use crate::firmware::{Mailboxes, ProcessDataArea};
use crate::process_data::{AssignmentRules, MOST_VALUES};
use crate::sii_contents::{PdoListing, SiiIdentity};

/// Number of entries of a PDO that a MainDevice can configure.
const CONFIGURABLE_ENTRIES: usize = 16;
/// PDO assignment object of SyncManager 0.
const ASSIGNMENT: u16 = 0x1c10;

/// Builds the parts of one device. `loop_back`: each output is wired to the input of the same
/// number.
///
/// # Errors
/// [`EsiError::NotSimulated`] for PDOs that do not match the objects.
pub(crate) fn parts(
    esi: &EsiDevice,
    identity: SiiIdentity,
    settings: DriveSettings,
    loop_back: bool,
) -> Result<DeviceParts, EsiError> {
    let mut objects = Dictionary::default();
    let drive =
        (esi.behaviour() == Behaviour::Drive).then(|| Box::new(Drive::new(&mut objects, settings)));
    add_objects(esi, &mut objects)?;
    for (pdos, right) in [(&esi.pdos[0], access::OUTPUT), (&esi.pdos[1], access::INPUT)] {
        for entry in values(pdos) {
            objects.permit(entry.index, entry.subindex, right);
        }
    }

    let usages: Vec<u8> = esi.sync_managers.iter().map(|channel| channel.usage).collect();
    let profile = if drive.is_some() { 0x0002_0192 } else { 0x0000_1389 };
    common_objects(&mut objects, &esi.order, identity, profile, &usages);
    add_pdos(esi, &mut objects);
    let model = match (drive, esi.behaviour()) {
        (Some(drive), _) => Model::Drive(drive),
        (None, Behaviour::Coupler) => Model::Coupler,
        (None, _) => Model::Io(io(esi, &objects, loop_back)),
    };

    let [outputs, inputs] = [0, 1].map(|direction| area(esi, direction));
    Ok(DeviceParts {
        identity,
        name: esi.name.clone(),
        order: esi.order.clone(),
        model,
        mailboxes: mailboxes(esi),
        outputs,
        inputs,
        sync_managers: esi.sync_managers.clone(),
        fmmus: esi.fmmus.clone(),
        pdos: esi.pdos.each_ref().map(|pdos| pdos.iter().map(pdo_listing).collect()),
        clock: esi.clock.clone(),
        port_kinds: esi.port_kinds,
        configuration: esi.configuration,
        bootstrap: esi.bootstrap,
        eeprom_bytes: esi.eeprom_bytes,
        objects,
    })
}

fn mailboxes(esi: &EsiDevice) -> Option<Mailboxes> {
    let at = |number: usize, usage: u8| {
        esi.sync_managers
            .get(number)
            .filter(|one| one.usage == usage)
            .map(|one| (one.start, one.length))
    };
    Some(Mailboxes { to_device: at(0, 1)?, to_main: at(1, 2)?, coe: esi.coe })
}

/// Returns the SyncManager to which the process data of one direction are assigned, or can be.
fn sync_manager(esi: &EsiDevice, direction: usize) -> Option<usize> {
    let assigned = esi.pdos[direction].iter().find_map(|pdo| pdo.sync_manager).map(usize::from);
    assigned.or_else(|| {
        esi.sync_managers.iter().position(|channel| usize::from(channel.usage) == 3 + direction)
    })
}

fn area(esi: &EsiDevice, direction: usize) -> ProcessDataArea {
    let pdos = &esi.pdos[direction];
    let is_pdo = |index: &u16| pdos.iter().any(|pdo| pdo.index == *index);
    let excludes = |pdo: &Pdo| {
        let others: Vec<u16> = pdo.excludes.iter().copied().filter(is_pdo).collect();
        others.into_iter().map(|other| (pdo.index, other)).collect::<Vec<_>>()
    };

    let always = pdos.iter().filter(|pdo| pdo.mandatory && pdo.sync_manager.is_some());
    let rules = AssignmentRules {
        excludes: pdos.iter().flat_map(excludes).collect(),
        mandatory: always.map(|pdo| pdo.index).collect(),
    };
    let channel = sync_manager(esi, direction);
    ProcessDataArea {
        channel,
        start: channel
            .and_then(|number| esi.sync_managers.get(number))
            .map_or(0, |channel| channel.start),
        assignment: channel.map_or(0, |channel| ASSIGNMENT + channel as u16),
        rules,
    }
}

/// Adds the objects of the dictionary, and missing ones that PDOs map. Objects of the model are
/// kept.
fn add_objects(esi: &EsiDevice, objects: &mut Dictionary) -> Result<(), EsiError> {
    let of_model: BTreeSet<u16> = objects.objects.iter().map(|object| object.index).collect();
    let is_predefined = |index: u16| {
        let is_pdo = esi.pdos.iter().flatten().any(|pdo| pdo.index == index);
        of_model.contains(&index) || is_pdo || matches!(index, 0x1018 | 0x1c00 | 0x1c10..0x1c20)
    };

    let mut plans: BTreeMap<u16, EsiObject> = esi
        .objects
        .iter()
        .filter(|(index, _)| !is_predefined(**index))
        .map(|(&index, plan)| (index, plan.clone()))
        .collect();
    for pdos in &esi.pdos {
        let assigned = pdos.iter().filter(|pdo| pdo.sync_manager.is_some());
        let count =
            assigned.clone().flat_map(|pdo| &pdo.entries).filter(|entry| entry.index != 0).count();
        if let Some(pdo) = assigned.clone().next_back().filter(|_| count > MOST_VALUES) {
            let what = format!(
                "makes {count} values assigned by default; at most {MOST_VALUES} are supported"
            );
            return Err(EsiError::NotSimulated { line: pdo.line, element: "Pdo".to_owned(), what });
        }

        for entry in values(pdos) {
            let bits = if is_predefined(entry.index) {
                objects.unsorted(entry.index, entry.subindex).map(|entry| entry.kind.bits())
            } else {
                Some(planned_bits(&mut plans, entry))
            };
            if bits != Some(u16::from(entry.bits)) {
                return Err(length_mismatch(entry, bits));
            }
        }
    }

    for (index, plan) in &plans {
        add_object(objects, *index, plan);
    }

    Ok(())
}

/// Adds the PDO mapping objects and the PDO assignment objects.
fn add_pdos(esi: &EsiDevice, objects: &mut Dictionary) {
    let right = |bit: u8| access::READ | if esi.coe & bit == 0 { 0 } else { access::WRITE_PREOP };
    for (direction, pdos) in esi.pdos.iter().enumerate() {
        for pdo in pdos {
            let free = !pdo.fixed && esi.coe & details::PDO_CONFIGURATION != 0;
            let right = if free { right(details::PDO_CONFIGURATION) } else { access::READ };
            objects.object(pdo.index, &pdo.name);
            objects.entry("Entries", DataType::U8, right, &[pdo.entries.len() as u8]);
            let room = if free { CONFIGURABLE_ENTRIES } else { 0 }.max(pdo.entries.len());
            for number in 0..room {
                let value = pdo.entries.get(number).map_or(0, |entry| {
                    u32::from(entry.index) << 16
                        | u32::from(entry.subindex) << 8
                        | u32::from(entry.bits)
                });
                objects.entry(
                    &format!("Entry {}", number + 1),
                    DataType::U32,
                    right,
                    &value.to_le_bytes(),
                );
            }
        }

        let Some(channel) = sync_manager(esi, direction) else { continue };
        let right = right(details::PDO_ASSIGN);
        let assigned: Vec<u16> =
            pdos.iter().filter(|pdo| pdo.sync_manager.is_some()).map(|pdo| pdo.index).collect();
        objects.object(
            ASSIGNMENT + channel as u16,
            if direction == 0 { "Outputs assigned" } else { "Inputs assigned" },
        );
        objects.entry("Entries", DataType::U8, right, &[assigned.len().min(254) as u8]);
        for number in 0..pdos.len().clamp(4, 254) {
            let index = assigned.get(number).copied().unwrap_or(0);
            objects.entry(
                &format!("PDO {}", number + 1),
                DataType::U16,
                right,
                &index.to_le_bytes(),
            );
        }
    }
}

fn io(esi: &EsiDevice, objects: &Dictionary, loop_back: bool) -> Io {
    let [outputs, inputs] = esi.pdos.each_ref().map(|pdos| {
        let found = values(pdos).filter_map(|entry| objects.unsorted(entry.index, entry.subindex));
        found.map(|entry| (entry.slot, entry.kind.bytes())).collect()
    });
    Io::from_values(outputs, inputs, loop_back)
}

fn pdo_listing(pdo: &Pdo) -> PdoListing {
    let flags = [(pdo.mandatory, PdoListing::MANDATORY), (pdo.fixed, PdoListing::FIXED)];
    PdoListing {
        index: pdo.index,
        channel: pdo.sync_manager.unwrap_or(PdoListing::NOT_ASSIGNED),
        flags: flags.iter().filter(|(has, _)| *has).fold(0, |all, (_, flag)| all | flag),
    }
}

/// Returns the length in bits of the value that a PDO entry maps; adds the value if the dictionary
/// does not have it.
fn planned_bits(plans: &mut BTreeMap<u16, EsiObject>, entry: &PdoEntry) -> u16 {
    let object = plans
        .entry(entry.index)
        .or_insert_with(|| EsiObject { name: entry.name.clone(), values: BTreeMap::new() });
    let value = object.values.entry(entry.subindex).or_insert_with(|| EsiValue {
        name: entry.name.clone(),
        kind: entry.kind,
        access: access::BOTH,
        value: Vec::new(),
    });

    value.kind.bits()
}

fn length_mismatch(entry: &PdoEntry, object_bits: Option<u16>) -> EsiError {
    let PdoEntry { index, subindex, bits, .. } = entry;
    let what = match object_bits {
        Some(object_bits) => {
            format!(
                "maps {index:#06x}:{subindex} with {bits} bits, the object has {object_bits}; make them equal"
            )
        }
        None => format!(
            "maps {index:#06x}:{subindex}, which the simulated device does not have; remove it"
        ),
    };
    EsiError::NotSimulated { line: entry.line, element: "Entry".to_owned(), what }
}

/// Adds an object. Entry 0 of an object with several values is the highest subindex.
fn add_object(objects: &mut Dictionary, index: u16, plan: &EsiObject) {
    objects.object(index, &plan.name);
    let highest = plan.values.keys().last().copied().unwrap_or(0);
    if highest > 0 && !plan.values.contains_key(&0) {
        objects.entry_at(0, "Entries", EntryFormat::new(DataType::U8, access::READ), &[highest]);
    }

    for (&subindex, value) in &plan.values {
        let bytes = if subindex == 0 && highest > 0 && value.value.is_empty() {
            vec![highest]
        } else {
            value.value.clone()
        };
        objects.entry_at(subindex, &value.name, EntryFormat::new(value.kind, value.access), &bytes);
    }
}
