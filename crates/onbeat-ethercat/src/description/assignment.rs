//! Which PDOs of an ESI file a device exchanges: those of the file, those that `pdos` chooses, and
//! what start-up values change.

use std::collections::{BTreeMap, BTreeSet};

use super::{DescriptionError, TypeTable};
use crate::coe::{DataType, details};
use crate::esi::{EsiDevice, MOST_SYNC_MANAGERS, Pdo, PdoEntry, SyncManagerEntry};
use crate::setup::ObjectValue;

/// PDO assignment object of SyncManager 0.
const ASSIGNMENT: u16 = 0x1c10;
/// Start of the process data memory of a controller, after its registers.
const MEMORY_START: u16 = 0x1000;

/// PDOs of a device by direction (outputs, inputs) and SyncManager, in the order of the process
/// data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Assignment(pub(super) [Vec<(u8, Vec<Pdo>)>; 2]);

impl Assignment {
    /// Returns the assignment of the file.
    fn default_of(esi: &EsiDevice) -> Self {
        let owned = |(number, pdos): (u8, Vec<&Pdo>)| (number, pdos.into_iter().cloned().collect());
        Self(
            [0, 1].map(|direction| {
                esi.default_assignment(direction).into_iter().map(owned).collect()
            }),
        )
    }

    fn numbers(&self) -> [Vec<(u8, Vec<u16>)>; 2] {
        self.0.each_ref().map(|channels| {
            let indices = |pdos: &[Pdo]| pdos.iter().map(|pdo| pdo.index).collect();
            channels.iter().map(|(number, pdos)| (*number, indices(pdos))).collect()
        })
    }

    fn channel_mut(&mut self, direction: usize, number: u8) -> &mut Vec<Pdo> {
        let channels = &mut self.0[direction];
        let at = channels.partition_point(|(other, _)| *other < number);
        if channels.get(at).is_none_or(|(other, _)| *other != number) {
            channels.insert(at, (number, Vec::new()));
        }
        &mut channels[at].1
    }
}

/// Refuses a choice of PDOs.
struct Refusal<'k>(&'k str);

impl Refusal<'_> {
    fn because<T>(&self, why: String) -> Result<T, DescriptionError> {
        Err(DescriptionError::Pdos { kind: self.0.to_owned(), why })
    }
}

/// The PDOs of a type.
pub(super) struct Chosen {
    pub(super) assignment: Assignment,
    /// Start-up values that establish it, if `pdos` chooses it.
    pub(super) values: Vec<ObjectValue>,
    /// Assignment objects that `pdos` chooses: start-up commands of the ESI file for them are not
    /// sent, as they would replace the choice.
    pub(super) objects: BTreeSet<u16>,
}

/// Returns the assignment of a type.
pub(super) fn chosen(
    name: &str,
    kind: &TypeTable,
    esi: &EsiDevice,
) -> Result<Chosen, DescriptionError> {
    let default = Assignment::default_of(esi);
    let unchanged =
        |assignment| Chosen { assignment, values: Vec::new(), objects: BTreeSet::new() };
    let Some(words) = &kind.pdos else { return Ok(unchanged(default)) };

    let mut objects = BTreeSet::new();
    let refusal = Refusal(name);
    let picked = picked(&refusal, words, esi)?;
    let mut assignment = default.clone();
    for direction in 0..2 {
        let chosen: Vec<&Pdo> =
            picked.iter().filter(|(of, _)| *of == direction).map(|(_, pdo)| *pdo).collect();
        if chosen.is_empty() && !words.is_empty() {
            continue;
        }

        check(&refusal, esi, direction, &chosen)?;
        assignment.0[direction].clear();
        for pdo in chosen {
            let Some(number) = sync_manager_of(esi, direction, pdo) else {
                return refusal.because(format!(
                    "PDO {:#06x} has no SyncManager: the file has none for its direction",
                    pdo.index
                ));
            };
            assignment.channel_mut(direction, number).push(pdo.clone());
        }
        let channels = default.0[direction].iter().chain(&assignment.0[direction]);
        objects.extend(channels.map(|(number, _)| ASSIGNMENT + u16::from(*number)));
    }

    if esi.coe & details::PDO_ASSIGN == 0 {
        if assignment.numbers() == default.numbers() {
            return Ok(unchanged(assignment));
        }
        return refusal.because(
            "the device does not permit a choice (its CoE has no PdoAssign); remove `pdos`"
                .to_owned(),
        );
    }

    let values = assigning(&assignment, &default);
    Ok(Chosen { assignment, values, objects })
}

/// Returns the chosen PDOs with their direction, in the order of the file.
fn picked<'e>(
    refusal: &Refusal<'_>,
    words: &[String],
    esi: &'e EsiDevice,
) -> Result<Vec<(usize, &'e Pdo)>, DescriptionError> {
    let all = || {
        let of = |direction: usize| esi.pdos[direction].iter().map(move |pdo| (direction, pdo));
        of(0).chain(of(1))
    };
    let mut picked: Vec<(usize, &Pdo)> = Vec::new();
    for word in words {
        let index = word.trim_start_matches("#x").trim_start_matches("0x");
        let index = u16::from_str_radix(index, 16).ok();
        let by_index: Vec<_> = all().filter(|(_, pdo)| Some(pdo.index) == index).collect();
        let found = if by_index.is_empty() {
            all().filter(|(_, pdo)| pdo.name == *word).collect()
        } else {
            by_index
        };

        match found[..] {
            [one] if picked.contains(&one) => {
                return refusal
                    .because(format!("`pdos` lists \"{word}\" twice; remove one of them"));
            }
            [one] => picked.push(one),
            [] => {
                let mut names: Vec<String> = all()
                    .take(16)
                    .map(|(_, pdo)| format!("{:04x} \"{}\"", pdo.index, pdo.name))
                    .collect();
                let more = all().count().saturating_sub(16);
                if more > 0 {
                    names.push(format!("{more} more"));
                }
                let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                return refusal
                    .because(format!("the device has no PDO \"{word}\"; it has {names}"));
            }
            _ => {
                return refusal.because(format!(
                    "{} PDOs are called \"{word}\"; write its index",
                    found.len()
                ));
            }
        }
    }
    Ok(picked)
}

/// Checks the rules of the file: Exclude and Mandatory.
fn check(
    refusal: &Refusal<'_>,
    esi: &EsiDevice,
    direction: usize,
    chosen: &[&Pdo],
) -> Result<(), DescriptionError> {
    for (number, pdo) in chosen.iter().enumerate() {
        for other in &chosen[..number] {
            if pdo.excludes(other) {
                return refusal.because(format!(
                    "PDOs {:#06x} and {:#06x} exclude each other (line {} of the ESI file); remove one of them",
                    other.index, pdo.index, pdo.line
                ));
            }
        }
    }

    // Of mandatory PDOs that exclude each other, one is enough.
    let is_there = |missing: &Pdo| {
        let stands_for = |pdo: &&Pdo| pdo.mandatory && pdo.excludes(missing);
        chosen.iter().any(|pdo| pdo.index == missing.index || stands_for(pdo))
    };
    match esi.pdos[direction].iter().find(|pdo| pdo.mandatory && !is_there(pdo)) {
        Some(missing) => refusal.because(format!(
            "PDO {:#06x} \"{}\" is mandatory (line {} of the ESI file); add it to `pdos`",
            missing.index, missing.name, missing.line
        )),
        None => Ok(()),
    }
}

/// Returns the SyncManager of a PDO: its own, that of the PDOs assigned by default, or the first of
/// its direction. A file may disable one to which it assigns nothing (ETG.2000).
fn sync_manager_of(esi: &EsiDevice, direction: usize, pdo: &Pdo) -> Option<u8> {
    let of_default = || esi.pdos[direction].iter().find_map(|other| other.sync_manager);
    let usage = 3 + direction as u8;
    let first = |fits: fn(&SyncManagerEntry) -> bool| {
        esi.sync_managers.iter().position(|channel| channel.usage == usage && fits(channel))
    };
    let of_usage = || {
        first(|channel| channel.enabled).or_else(|| first(|channel| channel.start >= MEMORY_START))
    };
    pdo.sync_manager.or_else(of_default).or_else(|| of_usage().map(|number| number as u8))
}

/// Returns the start-up values that establish an assignment: the number of PDOs to 0, the PDOs, the
/// number (ETG.1000.6, 5.6.7.4).
fn assigning(wanted: &Assignment, default: &Assignment) -> Vec<ObjectValue> {
    let mut values = Vec::new();
    for direction in 0..2 {
        let mut lists: BTreeMap<u8, Vec<u16>> =
            default.numbers()[direction].iter().map(|(number, _)| (*number, Vec::new())).collect();
        lists.extend(wanted.numbers()[direction].iter().cloned());
        for (number, list) in lists {
            let index = ASSIGNMENT + u16::from(number);
            let value =
                |entry, bytes| ObjectValue { index, entry, bytes, ..ObjectValue::default() };
            values.push(value(0, vec![0]));
            for (entry, pdo) in (1..).zip(&list) {
                values.push(value(entry, pdo.to_le_bytes().to_vec()));
            }
            if !list.is_empty() {
                values.push(value(0, vec![list.len() as u8]));
            }
        }
    }
    values
}

/// Returns the number of the SyncManager whose PDO assignment object has this index.
fn channel_of(index: u16) -> Option<u8> {
    let number = u8::try_from(index.checked_sub(ASSIGNMENT)?).ok()?;
    (usize::from(number) < MOST_SYNC_MANAGERS).then_some(number)
}

/// Applies start-up values that change the assignment or the mapping of PDOs, as the device does.
pub(super) fn apply(
    name: &str,
    esi: &EsiDevice,
    mut assignment: Assignment,
    startup: &[ObjectValue],
) -> Result<Assignment, DescriptionError> {
    let refusal = Refusal(name);
    let is_pdo = |index| esi.pdos.iter().flatten().any(|pdo| pdo.index == index);
    let mut objects: BTreeMap<u16, BTreeMap<u8, u32>> = BTreeMap::new();
    for value in startup {
        let width = match value.index {
            index if channel_of(index).is_some() => 2,
            index if is_pdo(index) => 4,
            _ => continue,
        };
        let entries =
            objects.entry(value.index).or_insert_with(|| present(&assignment, esi, value.index));
        for (entry, number) in written(value, width) {
            entries.insert(entry, number);
        }
    }

    // Of all PDOs: one that is not assigned yet may be by the values that follow.
    let mut remapped: Vec<(usize, Pdo)> = Vec::new();
    for (index, entries) in objects.iter().filter(|(index, _)| channel_of(**index).is_none()) {
        remapped.extend(remap(&refusal, esi, *index, entries)?);
    }
    for pdo in assignment.0.iter_mut().flatten().flat_map(|(_, pdos)| pdos) {
        if let Some((_, new)) = remapped.iter().find(|(_, new)| new.index == pdo.index) {
            pdo.entries.clone_from(&new.entries);
        }
    }

    for (index, entries) in &objects {
        let Some(number) = channel_of(*index) else { continue };
        for pdos in &mut assignment.0 {
            pdos.retain(|(other, _)| *other != number);
        }
        for entry in 1..=entries.get(&0).copied().unwrap_or(0).min(254) as u8 {
            let pdo = entries.get(&entry).copied().unwrap_or(0) as u16;
            let Some((direction, pdo)) = find(esi, &remapped, pdo) else {
                return refusal.because(format!(
                    "a start-up value assigns PDO {pdo:#06x} in {index:#06x}:{entry}, which the ESI file does not have"
                ));
            };
            assignment.channel_mut(direction, number).push(pdo);
        }
    }
    Ok(assignment)
}

/// Finds a PDO and its direction, among those that have another mapping now and those of the file.
fn find(esi: &EsiDevice, remapped: &[(usize, Pdo)], index: u16) -> Option<(usize, Pdo)> {
    let of_file = || {
        (0..2).find_map(|direction| {
            let pdo = esi.pdos[direction].iter().find(|pdo| pdo.index == index)?;
            Some((direction, pdo.clone()))
        })
    };
    remapped.iter().find(|(_, pdo)| pdo.index == index).cloned().or_else(of_file)
}

/// Returns the entries of an assignment or a PDO before start-up values.
fn present(assignment: &Assignment, esi: &EsiDevice, index: u16) -> BTreeMap<u8, u32> {
    let numbers: Vec<u32> = match channel_of(index) {
        Some(number) => {
            let of = assignment.0.iter().flatten().filter(|(other, _)| *other == number);
            of.flat_map(|(_, pdos)| pdos).map(|pdo| u32::from(pdo.index)).collect()
        }
        None => find(esi, &[], index)
            .map_or_else(Vec::new, |(_, pdo)| pdo.entries.iter().map(PdoEntry::mapping).collect()),
    };
    let entries = (1..=254).zip(numbers.iter().copied());
    std::iter::once((0, numbers.len() as u32)).chain(entries).collect()
}

/// Returns the entries that a start-up value writes, of `width` bytes each.
fn written(value: &ObjectValue, width: usize) -> Vec<(u8, u32)> {
    let number =
        |bytes: &[u8]| bytes.iter().rev().fold(0u32, |number, byte| number << 8 | u32::from(*byte));
    if !value.complete {
        return vec![(value.entry, number(&value.bytes[..value.bytes.len().min(4)]))];
    }

    // Complete access has entry 0 in two bytes.
    let (first, rest) = match value.entry {
        0 => (Some((0, u32::from(value.bytes[0]))), value.bytes.get(2..).unwrap_or_default()),
        _ => (None, &value.bytes[..]),
    };
    let others = (1..=254).zip(rest.chunks(width).map(number));
    first.into_iter().chain(others).collect()
}

/// Returns a PDO with other entries, and its direction; `None` if the file does not have it.
fn remap(
    refusal: &Refusal<'_>,
    esi: &EsiDevice,
    index: u16,
    entries: &BTreeMap<u8, u32>,
) -> Result<Option<(usize, Pdo)>, DescriptionError> {
    let count = entries.get(&0).copied().unwrap_or(0).min(254) as u8;
    let mut mapped = Vec::new();
    for number in 1..=count {
        let entry = entries.get(&number).copied().unwrap_or(0);
        let (object, subindex, bits) = ((entry >> 16) as u16, (entry >> 8) as u8, entry as u8);
        if bits == 0 {
            return refusal.because(format!(
                "start-up values map {count} entries in {index:#06x}, and entry {number} is not written"
            ));
        }
        let (name, kind) = known_object(esi, object, subindex).unzip();
        let kind = kind
            .filter(|kind| kind.bits() == u16::from(bits))
            .unwrap_or(DataType::Other { number: 0, bits: bits.into() });
        let name = name.unwrap_or_default();
        mapped.push(PdoEntry { line: 0, index: object, subindex, bits, name, kind });
    }

    let Some((direction, known)) = find(esi, &[], index) else { return Ok(None) };
    let is_same = known.entries.len() == mapped.len()
        && known.entries.iter().zip(&mapped).all(|(old, new)| {
            (old.index, old.subindex, old.bits) == (new.index, new.subindex, new.bits)
        });
    if known.fixed && !is_same {
        return refusal.because(format!(
            "start-up values change the mapping of PDO {index:#06x}, which is fixed (line {} of the ESI file)",
            known.line
        ));
    }
    Ok(Some((direction, Pdo { entries: mapped, ..known })))
}

/// Returns name and data type of an object as far as the file has them.
fn known_object(esi: &EsiDevice, index: u16, subindex: u8) -> Option<(String, DataType)> {
    let mut all = esi.pdos.iter().flatten().flat_map(|pdo| &pdo.entries);
    let of_entry = all.find(|entry| (entry.index, entry.subindex) == (index, subindex));
    let of_object = || esi.objects.get(&index)?.values.get(&subindex);
    of_entry
        .map(|entry| (entry.name.clone(), entry.kind))
        .or_else(|| of_object().map(|value| (value.name.clone(), value.kind)))
}
