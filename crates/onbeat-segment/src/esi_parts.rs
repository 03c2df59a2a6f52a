//! Builds the parts of a device from an ESI file: objects, PDOs, and a model.

use std::collections::{BTreeMap, BTreeSet};

use onbeat_ethercat::description::DriveTable;
use onbeat_ethercat::esi::{
    EsiDevice, EsiError, EsiObject, EsiValue, Pdo, PdoEntry, SyncManagerEntry, values,
};
use onbeat_ethercat::layout::DeviceKind;
use onbeat_ethercat::setup::ObjectValue;

use crate::coe::{DataType, Dictionary, EntryFormat, access, details};
use crate::device::{Drive, Io, Model};
use crate::device_parts::{DeviceParts, common_objects};
use crate::firmware::{Mailboxes, ProcessDataArea};
use crate::process_data::{AssignedArea, AssignmentRules, USUAL_VALUES};
use crate::sii_contents::{PdoListing, SiiContents, SiiIdentity};

/// Number of entries of a PDO that a MainDevice can configure.
const CONFIGURABLE_ENTRIES: usize = 16;
/// Most entries of a mapping object (ETG.1000.6, 5.6.7.4.7).
const MOST_ENTRIES: usize = 254;
/// Most values of one direction that are assigned by default.
const MOST_VALUES: usize = 16_384;
/// PDO assignment object of SyncManager 0.
const ASSIGNMENT: u16 = 0x1c10;

/// Builds the parts of one device. `loop_back`: each output is wired to the input of the same
/// number. `startup`: what it gets on the way to OP.
///
/// # Errors
/// [`EsiError::NotSimulated`] for PDOs that do not match the objects.
pub(crate) fn parts(
    esi: &EsiDevice,
    identity: SiiIdentity,
    settings: DriveTable,
    loop_back: bool,
    startup: &[ObjectValue],
) -> Result<DeviceParts, EsiError> {
    let mut objects = Dictionary::default();
    let is_drive = esi.behaviour() == DeviceKind::Drive;
    let drive = is_drive.then(|| Box::new(Drive::new(&mut objects, settings)));
    let without_value = add_objects(esi, &mut objects, startup)?;
    for (pdos, right) in [(&esi.pdos[0], access::OUTPUT), (&esi.pdos[1], access::INPUT)] {
        for entry in values(pdos) {
            objects.permit(entry.index, entry.subindex, right);
        }
    }

    let usages: Vec<u8> = esi.sync_managers.iter().map(|channel| channel.usage).collect();
    let profile = if drive.is_some() { 0x0002_0192 } else { 0x0000_1389 };
    common_objects(&mut objects, &esi.order, identity, profile, &usages);
    add_pdos(esi, &mut objects);
    add_module_lists(esi, &mut objects);
    let model = match (drive, esi.behaviour()) {
        (Some(drive), _) => Model::Drive(drive),
        (None, DeviceKind::Coupler) => Model::Coupler,
        (None, _) => Model::Io(io(esi, &objects, &without_value, loop_back)),
    };

    let [outputs, inputs] = [0, 1].map(|direction| area(esi, direction, &without_value));
    let sii = SiiContents {
        identity,
        name: esi.name.clone(),
        order: esi.order.clone(),
        configuration: esi.configuration,
        bootstrap: esi.bootstrap,
        mailboxes: mailboxes(esi),
        sync_managers: esi.sync_managers.clone(),
        fmmus: esi.fmmus.clone(),
        pdos: esi.pdos.each_ref().map(|pdos| pdos.iter().map(pdo_listing).collect()),
        clock: esi.clock.clone(),
        ports: esi.port_kinds,
        size: esi.eeprom_bytes,
    };
    Ok(DeviceParts { sii, objects, model, outputs, inputs })
}

fn mailboxes(esi: &EsiDevice) -> Option<Mailboxes> {
    let at = |number: usize, usage: u8| {
        esi.sync_managers
            .get(number)
            .filter(|one| one.usage == usage)
            .map(|one| (one.start, one.length))
    };
    let [to, to_bytes, from, from_bytes] = esi.bootstrap;
    Some(Mailboxes {
        to_device: at(0, 1)?,
        to_main: at(1, 2)?,
        coe: esi.coe,
        foe: esi.has_files,
        bootstrap: [(to, to_bytes), (from, from_bytes)],
    })
}

/// Returns the SyncManagers to which the process data of one direction are assigned, or can be.
fn sync_managers(esi: &EsiDevice, direction: usize) -> BTreeSet<u8> {
    let pdos = &esi.pdos[direction];
    let assigned = pdos.iter().filter_map(|pdo| pdo.sync_manager);
    // A SyncManager without usage has the direction of its control byte (ETG.1000.4).
    let of_direction = |channel: &SyncManagerEntry| match channel.usage {
        0 => (channel.control & 0x0c == 0x04) == (direction == 0),
        usage => usize::from(usage) == 3 + direction,
    };
    let all = (0..).zip(&esi.sync_managers);
    let assignable = all.filter(|(_, channel)| of_direction(channel)).map(|(number, _)| number);
    assigned.chain(assignable).collect()
}

fn area(esi: &EsiDevice, direction: usize, without_value: &BTreeSet<u32>) -> ProcessDataArea {
    let pdos = &esi.pdos[direction];
    let is_pdo = |index: &u16| pdos.iter().any(|pdo| pdo.index == *index);
    let excludes = |pdo: &Pdo| {
        let others: Vec<u16> = pdo.excludes.iter().copied().filter(is_pdo).collect();
        others.into_iter().map(|other| (pdo.index, other)).collect::<Vec<_>>()
    };

    let always = pdos.iter().filter(|pdo| pdo.mandatory && pdo.sync_manager.is_some());
    let one_of = |pdo: &Pdo| {
        let others = pdos.iter().filter(|other| other.mandatory && other.excludes(pdo));
        others.map(|other| other.index).chain([pdo.index]).collect::<Vec<u16>>()
    };
    let rules = AssignmentRules {
        excludes: pdos.iter().flat_map(excludes).collect(),
        mandatory: always.map(one_of).collect(),
        without_value: without_value.iter().copied().collect(),
    };
    let areas = sync_managers(esi, direction).into_iter().map(|number| AssignedArea {
        channel: usize::from(number),
        start: esi.sync_managers.get(usize::from(number)).map_or(0, |channel| channel.start),
        assignment: ASSIGNMENT + u16::from(number),
    });
    let most_values = values(pdos).count().clamp(USUAL_VALUES, MOST_VALUES);
    ProcessDataArea { areas: areas.collect(), rules, most_values }
}

/// Adds the objects of the dictionary, and missing ones that PDOs map; without a dictionary also
/// those of start-up values. Objects of the model are kept. Returns the mapped entries for which the
/// device has no value.
fn add_objects(
    esi: &EsiDevice,
    objects: &mut Dictionary,
    startup: &[ObjectValue],
) -> Result<BTreeSet<u32>, EsiError> {
    let of_model: BTreeSet<u16> = objects.objects.iter().map(|object| object.index).collect();
    let of_pdos: BTreeSet<u16> = esi.pdos.iter().flatten().map(|pdo| pdo.index).collect();
    let is_of_profile =
        |index: u16| of_pdos.contains(&index) || matches!(index, 0x1018 | 0x1c00 | 0x1c10..0x1c20);

    let mut plans: BTreeMap<u16, EsiObject> = esi
        .objects
        .iter()
        .filter(|(index, _)| !of_model.contains(index) && !is_of_profile(**index))
        .map(|(&index, plan)| (index, plan.clone()))
        .collect();
    let mut without_value = BTreeSet::new();
    let mut mapped: BTreeMap<(u16, u8), u8> = BTreeMap::new();
    for pdos in &esi.pdos {
        check_counts(pdos)?;
        // The length of an object is that with which a PDO is assigned; others may map a part of it.
        let (first, later): (Vec<&Pdo>, Vec<&Pdo>) =
            pdos.iter().partition(|pdo| pdo.sync_manager.is_some());
        for pdo in first.into_iter().chain(later) {
            for entry in pdo.entries.iter().filter(|entry| entry.index != 0) {
                let has_value = if is_of_profile(entry.index) {
                    false
                } else if of_model.contains(&entry.index) {
                    has_model_value(objects, pdo, entry)?
                } else {
                    plan_value(&mut plans, &mut mapped, entry);
                    true
                };
                if !has_value {
                    without_value.insert(entry.mapping());
                }
            }
        }
    }

    let is_common = |index: u16| {
        is_of_profile(index) || matches!(index, 0x1000..=0x10ff | 0x1c32 | 0x1c33 | 0xf030 | 0xf050)
    };
    let written = if esi.objects.is_empty() { startup } else { &[] };
    for value in written {
        if !of_model.contains(&value.index) && !is_common(value.index) {
            plan_written(&mut plans, value);
        }
    }

    for (index, plan) in &plans {
        add_object(objects, *index, plan);
    }
    Ok(without_value)
}

/// Checks the limits of mapping objects and maps.
fn check_counts(pdos: &[Pdo]) -> Result<(), EsiError> {
    let refuse = |pdo: &Pdo, what| {
        Err(EsiError::NotSimulated { line: pdo.line, element: "Pdo".to_owned(), what })
    };
    if let Some(pdo) = pdos.iter().find(|pdo| pdo.entries.len() > MOST_ENTRIES) {
        let what = format!(
            "{:#06x} has {} entries; a mapping object has at most {MOST_ENTRIES}",
            pdo.index,
            pdo.entries.len()
        );
        return refuse(pdo, what);
    }

    let assigned: Vec<&Pdo> = pdos.iter().filter(|pdo| pdo.sync_manager.is_some()).collect();
    let entries = assigned.iter().flat_map(|pdo| &pdo.entries);
    let count = entries.filter(|entry| entry.index != 0).count();
    match assigned.last().filter(|_| count > MOST_VALUES) {
        Some(pdo) => refuse(
            pdo,
            format!(
                "makes {count} values assigned by default; at most {MOST_VALUES} are supported"
            ),
        ),
        None => Ok(()),
    }
}

/// Returns whether the model has a value for an entry.
fn has_model_value(objects: &Dictionary, pdo: &Pdo, entry: &PdoEntry) -> Result<bool, EsiError> {
    match objects.unsorted(entry.index, entry.subindex).map(|value| value.kind.bits()) {
        None => Ok(false),
        Some(bits) if bits != u16::from(entry.bits) && pdo.sync_manager.is_some() => {
            Err(length_mismatch(entry, bits))
        }
        Some(_) => Ok(true),
    }
}

/// Adds the PDO mapping objects and the PDO assignment objects.
fn add_pdos(esi: &EsiDevice, objects: &mut Dictionary) {
    let right = |bit: u8| access::READ | if esi.coe & bit == 0 { 0 } else { access::WRITE_PREOP };
    for (direction, pdos) in esi.pdos.iter().enumerate() {
        for pdo in pdos {
            let free = !pdo.fixed && esi.coe & details::PDO_CONFIGURATION != 0;
            let right = if free { right(details::PDO_CONFIGURATION) } else { access::READ };
            let room = if free { CONFIGURABLE_ENTRIES } else { 0 }.max(pdo.entries.len());
            let values: Vec<u32> = pdo.entries.iter().map(PdoEntry::mapping).collect();
            objects.list((pdo.index, &pdo.name), ("Entry", DataType::U32, right), &values, room);
        }

        let right = right(details::PDO_ASSIGN);
        for number in sync_managers(esi, direction) {
            add_assignment(esi, objects, (direction, number), right);
        }
    }
}

/// Adds the PDO assignment object of one SyncManager.
fn add_assignment(
    esi: &EsiDevice,
    objects: &mut Dictionary,
    (direction, channel): (usize, u8),
    right: u16,
) {
    let pdos = &esi.pdos[direction];
    let assigned = pdos.iter().filter(|pdo| pdo.sync_manager == Some(channel)).take(254);
    let assigned: Vec<u32> = assigned.map(|pdo| u32::from(pdo.index)).collect();
    let name = if direction == 0 { "Outputs assigned" } else { "Inputs assigned" };
    let entry = ("PDO", DataType::U16, right);
    let room = pdos.len().clamp(4, 254);
    objects.list((ASSIGNMENT + u16::from(channel), name), entry, &assigned, room);
}

fn io(esi: &EsiDevice, objects: &Dictionary, without_value: &BTreeSet<u32>, loop_back: bool) -> Io {
    let [outputs, inputs] = esi.pdos.each_ref().map(|pdos| {
        let with_value = values(pdos).filter(|entry| !without_value.contains(&entry.mapping()));
        let found = with_value.filter_map(|entry| objects.unsorted(entry.index, entry.subindex));
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

/// Adds the value that an entry maps if the dictionary does not have it. The first PDO that maps a
/// value has its length; a dictionary with another one gives way.
fn plan_value(
    plans: &mut BTreeMap<u16, EsiObject>,
    mapped: &mut BTreeMap<(u16, u8), u8>,
    entry: &PdoEntry,
) {
    let kind = match entry.kind {
        DataType::Other { number: 0, bits } => of_length(bits),
        known => known,
    };
    let is_first = !mapped.contains_key(&(entry.index, entry.subindex));
    mapped.entry((entry.index, entry.subindex)).or_insert(entry.bits);
    let object = plans
        .entry(entry.index)
        .or_insert_with(|| EsiObject { name: entry.name.clone(), values: BTreeMap::new() });
    let value = object.values.entry(entry.subindex).or_insert_with(|| EsiValue {
        name: entry.name.clone(),
        kind,
        access: access::BOTH,
        bit: None,
        value: Vec::new(),
    });
    if is_first && value.kind.bits() != u16::from(entry.bits) {
        value.kind = kind;
        value.value.clear();
    }
}

/// Returns a type for a value of which the file has only the length: a number or a string of octets.
fn of_length(bits: u16) -> DataType {
    match bits {
        8 => DataType::U8,
        16 => DataType::U16,
        32 => DataType::U32,
        _ if bits.is_multiple_of(8) => DataType::Other { number: 0x0a, bits },
        _ => DataType::Other { number: 0, bits },
    }
}

/// Adds what a start-up value writes. Complete access has entry 0 in two bytes, and the lengths of
/// the others are not known: equal ones, if they can be.
fn plan_written(plans: &mut BTreeMap<u16, EsiObject>, value: &ObjectValue) {
    let length = value.bytes.len();
    let (first, count, bytes) = match (value.complete, value.entry) {
        (true, 0) => {
            (1, value.bytes.first().copied().map_or(1, usize::from), length.saturating_sub(2))
        }
        (_, entry) => (entry, 1, length),
    };
    let is_even = count > 0 && bytes.is_multiple_of(count);
    let (count, bytes) = if is_even { (count, bytes / count) } else { (1, bytes) };
    if bytes == 0 {
        return;
    }
    let kind = of_length(8 * bytes as u16);
    let object = plans.entry(value.index).or_default();
    for subindex in (first..=u8::MAX).take(count) {
        object.values.entry(subindex).or_insert_with(|| EsiValue {
            name: format!("SubIndex {subindex:03}"),
            kind,
            access: access::BOTH,
            bit: None,
            value: Vec::new(),
        });
    }
}

fn length_mismatch(entry: &PdoEntry, object_bits: u16) -> EsiError {
    let PdoEntry { index, subindex, bits, .. } = entry;
    let what = format!(
        "maps {index:#06x}:{subindex} with {bits} bits, the object has {object_bits} in the simulated drive; make them equal"
    );
    EsiError::NotSimulated { line: entry.line, element: "Entry".to_owned(), what }
}

/// Adds the configured and the detected module ident list (ETG.5001, 0xF030 and 0xF050) of a device
/// whose slots are filled, where the file does not have them.
fn add_module_lists(esi: &EsiDevice, objects: &mut Dictionary) {
    if esi.slots.iter().all(|slot| slot.module.is_none()) {
        return;
    }
    let lists = [
        (0xf030, "Configured module ident list", access::BOTH),
        (0xf050, "Detected module ident list", access::READ),
    ];
    let count = esi.slots.len().min(254);
    for (index, name, right) in
        lists.into_iter().filter(|(index, ..)| !esi.objects.contains_key(index))
    {
        objects.object(index, name);
        objects.entry("Entries", DataType::U8, right, &[count as u8]);
        for slot in esi.slots.iter().take(count) {
            let ident = slot.module.as_ref().map_or(0, |(_, ident)| *ident);
            objects.entry(&slot.name, DataType::U32, right, &ident.to_le_bytes());
        }
    }
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
        let format = EntryFormat::new(value.kind, value.access).at(value.bit);
        objects.entry_at(subindex, &value.name, format, &bytes);
    }
}
