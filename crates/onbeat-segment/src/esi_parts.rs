//! From the information of an ESI file to the parts of a device: its objects, its PDOs, and a model.

use std::collections::{BTreeMap, BTreeSet};

use onbeat_ethercat::esi::{Behaviour, EsiError, Information, ObjectPlan, Pdo, PdoEntry, ValuePlan, values};

use crate::coe::{DataType, Dictionary, access, details};
use crate::device::{Drive, DriveSettings, Io, Model};
use crate::firmware::{Area, Mailboxes};
use crate::parts::{Parts, common_objects};
use crate::process_data::{MOST_VALUES, Rules};
use crate::sii::{Identity, Listed};

/// Values that a PDO has room for when a MainDevice may choose them.
const ROOM: usize = 16;
/// The object that assigns PDOs to SyncManager 0.
const ASSIGNMENT: u16 = 0x1c10;

/// The parts of one device of this kind. `loop_back`: each output is wired to the input of its number.
///
/// # Errors
/// [`EsiError::NotSimulated`] for PDOs that do not go with the objects.
pub(crate) fn parts(
    information: &Information,
    identity: Identity,
    settings: DriveSettings,
    loop_back: bool,
) -> Result<Parts, EsiError> {
    let mut objects = Dictionary::default();
    let drive = (information.behaviour() == Behaviour::Drive).then(|| Box::new(Drive::new(&mut objects, settings)));
    add_objects(information, &mut objects)?;
    for (pdos, right) in [(&information.pdos[0], access::OUTPUT), (&information.pdos[1], access::INPUT)] {
        for entry in values(pdos) {
            objects.permit(entry.index, entry.sub, right);
        }
    }

    let usages: Vec<u8> = information.channels.iter().map(|channel| channel.usage).collect();
    let profile = if drive.is_some() { 0x0002_0192 } else { 0x0000_1389 };
    common_objects(&mut objects, &information.order, identity, (profile, &usages));
    add_pdos(information, &mut objects);
    let model = match (drive, information.behaviour()) {
        (Some(drive), _) => Model::Drive(drive),
        (None, Behaviour::Coupler) => Model::Coupler,
        (None, _) => Model::Io(io(information, &objects, loop_back)),
    };

    let [outputs, inputs] = [0, 1].map(|way| area(information, way));
    Ok(Parts {
        identity,
        name: information.name.clone(),
        order: information.order.clone(),
        model,
        mailboxes: mailboxes(information),
        outputs,
        inputs,
        channels: information.channels.clone(),
        fmmus: information.fmmus.clone(),
        pdos: information.pdos.each_ref().map(|pdos| pdos.iter().map(listed).collect()),
        clock: information.clock.clone(),
        port_kinds: information.ports.1,
        configuration: information.configuration,
        bootstrap: information.bootstrap,
        eeprom_bytes: information.eeprom_bytes,
        objects,
    })
}

fn mailboxes(information: &Information) -> Option<Mailboxes> {
    let at = |place: usize, usage: u8| {
        information.channels.get(place).filter(|one| one.usage == usage).map(|one| (one.start, one.length))
    };
    Some(Mailboxes { to_device: at(0, 1)?, to_main: at(1, 2)?, coe: information.coe })
}

/// The SyncManager that process data of one direction are assigned to, or could be.
fn channel(information: &Information, way: usize) -> Option<usize> {
    let assigned = information.pdos[way].iter().find_map(|pdo| pdo.channel).map(usize::from);
    assigned.or_else(|| information.channels.iter().position(|channel| usize::from(channel.usage) == 3 + way))
}

fn area(information: &Information, way: usize) -> Area {
    let pdos = &information.pdos[way];
    let is_pdo = |index: &u16| pdos.iter().any(|pdo| pdo.index == *index);
    let excludes = |pdo: &Pdo| {
        let others: Vec<u16> = pdo.excludes.iter().copied().filter(is_pdo).collect();
        others.into_iter().map(|other| (pdo.index, other)).collect::<Vec<_>>()
    };

    let always = pdos.iter().filter(|pdo| pdo.mandatory && pdo.channel.is_some());
    let rules =
        Rules { excludes: pdos.iter().flat_map(excludes).collect(), mandatory: always.map(|pdo| pdo.index).collect() };
    let channel = channel(information, way);
    Area {
        channel,
        start: channel.and_then(|place| information.channels.get(place)).map_or(0, |channel| channel.start),
        assignment: channel.map_or(0, |channel| ASSIGNMENT + channel as u16),
        rules,
    }
}

/// Objects of the dictionary, and those of PDOs that it does not have. What the model has stays the model's.
fn add_objects(information: &Information, objects: &mut Dictionary) -> Result<(), EsiError> {
    let of_model: BTreeSet<u16> = objects.objects.iter().map(|object| object.index).collect();
    let is_ours = |index: u16| {
        let is_pdo = information.pdos.iter().flatten().any(|pdo| pdo.index == index);
        of_model.contains(&index) || is_pdo || matches!(index, 0x1018 | 0x1c00 | 0x1c10..0x1c20)
    };

    let mut plans: BTreeMap<u16, ObjectPlan> = information
        .objects
        .iter()
        .filter(|(index, _)| !is_ours(**index))
        .map(|(&index, plan)| (index, plan.clone()))
        .collect();
    for pdos in &information.pdos {
        let assigned = pdos.iter().filter(|pdo| pdo.channel.is_some());
        let count = assigned.clone().flat_map(|pdo| &pdo.entries).filter(|entry| entry.index != 0).count();
        if let Some(pdo) = assigned.clone().next_back().filter(|_| count > MOST_VALUES) {
            let what = format!("makes {count} values assigned by default; {MOST_VALUES} are simulated");
            return Err(EsiError::NotSimulated { line: pdo.line, element: "Pdo".to_owned(), what });
        }

        for entry in values(pdos) {
            let there = if is_ours(entry.index) {
                objects.unsorted(entry.index, entry.sub).map(|entry| entry.kind.bits())
            } else {
                Some(planned(&mut plans, entry))
            };
            if there != Some(u16::from(entry.bits)) {
                return Err(misfit(entry, there));
            }
        }
    }

    for (index, plan) in &plans {
        pour(objects, *index, plan);
    }

    Ok(())
}

/// The objects of the PDOs, and of their assignment to SyncManagers.
fn add_pdos(information: &Information, objects: &mut Dictionary) {
    let right = |bit: u8| access::READ | if information.coe & bit == 0 { 0 } else { access::WRITE_PREOP };
    for (way, pdos) in information.pdos.iter().enumerate() {
        for pdo in pdos {
            let free = !pdo.fixed && information.coe & details::PDO_CONFIGURATION != 0;
            let right = if free { right(details::PDO_CONFIGURATION) } else { access::READ };
            objects.object(pdo.index, &pdo.name);
            objects.entry("Entries", DataType::U8, right, &[pdo.entries.len() as u8]);
            let room = if free { ROOM } else { 0 }.max(pdo.entries.len());
            for number in 0..room {
                let value = pdo.entries.get(number).map_or(0, |entry| {
                    u32::from(entry.index) << 16 | u32::from(entry.sub) << 8 | u32::from(entry.bits)
                });
                objects.entry(&format!("Entry {}", number + 1), DataType::U32, right, &value.to_le_bytes());
            }
        }

        let Some(channel) = channel(information, way) else { continue };
        let right = right(details::PDO_ASSIGN);
        let assigned: Vec<u16> = pdos.iter().filter(|pdo| pdo.channel.is_some()).map(|pdo| pdo.index).collect();
        objects.object(ASSIGNMENT + channel as u16, if way == 0 { "Outputs assigned" } else { "Inputs assigned" });
        objects.entry("Entries", DataType::U8, right, &[assigned.len().min(254) as u8]);
        for number in 0..pdos.len().clamp(4, 254) {
            let index = assigned.get(number).copied().unwrap_or(0);
            objects.entry(&format!("PDO {}", number + 1), DataType::U16, right, &index.to_le_bytes());
        }
    }
}

fn io(information: &Information, objects: &Dictionary, loop_back: bool) -> Io {
    let [outputs, inputs] = information.pdos.each_ref().map(|pdos| {
        let found = values(pdos).filter_map(|entry| objects.unsorted(entry.index, entry.sub));
        found.map(|entry| (entry.slot, entry.kind.bytes())).collect()
    });
    Io::of(outputs, inputs, loop_back)
}
fn listed(pdo: &Pdo) -> Listed {
    let flags = [(pdo.mandatory, Listed::MANDATORY), (pdo.fixed, Listed::FIXED)];
    Listed {
        index: pdo.index,
        channel: pdo.channel.unwrap_or(Listed::NOT_ASSIGNED),
        flags: flags.iter().filter(|(has, _)| *has).fold(0, |all, (_, flag)| all | flag),
    }
}

/// The value that a PDO maps, made if the dictionary does not have it. Its length in bits.
fn planned(plans: &mut BTreeMap<u16, ObjectPlan>, entry: &PdoEntry) -> u16 {
    let object =
        plans.entry(entry.index).or_insert_with(|| ObjectPlan { name: entry.name.clone(), values: BTreeMap::new() });
    let value = object.values.entry(entry.sub).or_insert_with(|| ValuePlan {
        name: entry.name.clone(),
        kind: entry.kind,
        access: access::BOTH,
        value: Vec::new(),
    });

    value.kind.bits()
}

fn misfit(entry: &PdoEntry, there: Option<u16>) -> EsiError {
    let (index, sub, bits) = (entry.index, entry.sub, entry.bits);
    let what = match there {
        Some(there) => format!("maps {index:#06x}:{sub} with {bits} bits, the object has {there}; make them equal"),
        None => format!("maps {index:#06x}:{sub}, which is no value of a simulated device; take it out"),
    };
    EsiError::NotSimulated { line: entry.line, element: "Entry".to_owned(), what }
}

/// Adds an object. One of several values begins with the number of the highest.
fn pour(objects: &mut Dictionary, index: u16, plan: &ObjectPlan) {
    objects.object(index, &plan.name);
    let highest = plan.values.keys().last().copied().unwrap_or(0);
    if highest > 0 && !plan.values.contains_key(&0) {
        objects.entry_at(0, "Entries", (DataType::U8, access::READ), &[highest]);
    }

    for (&sub, value) in &plan.values {
        let told = if sub == 0 && highest > 0 && value.value.is_empty() { vec![highest] } else { value.value.clone() };
        objects.entry_at(sub, &value.name, (value.kind, value.access), &told);
    }
}
