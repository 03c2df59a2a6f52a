//! One `<Device>` of an ESI file.

use std::collections::{BTreeMap, BTreeSet};

use super::EsiError;
use super::commands::{InitCommand, commands};
use super::eeprom::{DEFAULT_CONFIGURATION, DcMode, EEPROM_BYTES, SyncManagerEntry};
use super::element::{Element, one_line};
use super::modules::{EsiSlot, SlotShift};
use super::objects::{EsiObject, objects};
use super::types::{from_length, kind};
use crate::coe::{DataType, details};
use crate::setup::{Sync0, Sync1};

/// Most SyncManagers of a controller (ETG.1000.4).
pub(crate) const MOST_SYNC_MANAGERS: usize = 16;
/// Valid mailbox sizes, in bytes.
const MAILBOX: std::ops::RangeInclusive<u32> = 32..=1486;
/// Most entries of all PDOs of one direction of a device or module.
const MOST_ENTRIES: usize = 65_536;
/// Longest part of a gap, in bits.
const LONGEST_ENTRY: u8 = 248;
/// Most operation modes of a clock: terminals with oversampling have one for each factor.
const MOST_CLOCK_MODES: usize = 256;
/// Largest EEPROM in bytes.
const LARGEST_EEPROM: u32 = 0x2_0000;

/// A device of an ESI file, with its slots as they are filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EsiDevice {
    /// Line in the file.
    pub line: u32,
    /// Vendor id.
    pub vendor: u32,
    /// Product code.
    pub product: u32,
    pub revision: u32,
    /// Type, used as the order name.
    pub order: String,
    pub name: String,
    /// Number of ports.
    pub ports: u8,
    /// Physical ports, four bits each.
    pub port_kinds: u16,
    /// SyncManagers; those of process data have the length of the default PDO assignment.
    pub sync_managers: Vec<SyncManagerEntry>,
    /// Lines of the SyncManagers in the file.
    pub sync_manager_lines: Vec<u32>,
    /// Usage of the FMMUs: 1 outputs, 2 inputs, 3 mailbox state, 0 unused.
    pub fmmus: Vec<u8>,
    /// PDOs of the outputs (RxPDO) and of the inputs (TxPDO).
    pub pdos: [Vec<Pdo>; 2],
    /// CoE details; 0: no CoE.
    pub coe: u8,
    /// Whether it serves files (FoE).
    pub has_files: bool,
    /// Whether it has a distributed clock.
    pub has_clock: bool,
    /// Operation modes of the distributed clock.
    pub clock: Vec<DcMode>,
    /// Object dictionary, by index.
    pub objects: BTreeMap<u16, EsiObject>,
    /// Configuration area of the EEPROM, without alias and checksum.
    pub configuration: [u8; 14],
    /// Bootstrap mailboxes: start and length of the receive mailbox, then of the send mailbox.
    pub bootstrap: [u16; 4],
    /// Size of the EEPROM in bytes, a power of two.
    pub eeprom_bytes: usize,
    /// Slots for modules, in order.
    pub slots: Vec<EsiSlot>,
    /// Whether the MainDevice writes the module ident list (object 0xF030).
    pub loads_modules: bool,
    /// Start-up commands (InitCmd) of device and modules, in order.
    pub commands: Vec<InitCommand>,
    /// What was passed over or corrected, a sentence each, with the line.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pdo {
    /// Line in the file.
    pub line: u32,
    /// Index of its object.
    pub index: u16,
    pub name: String,
    /// SyncManager to which the PDO is assigned by default.
    pub sync_manager: Option<u8>,
    /// Whether the mapping is fixed.
    pub fixed: bool,
    /// Whether the PDO must always be assigned.
    pub mandatory: bool,
    /// PDOs that must not be assigned together with it.
    pub excludes: Vec<u16>,
    /// Its entries, in order.
    pub entries: Vec<PdoEntry>,
}

/// One entry of a PDO; a gap has index 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PdoEntry {
    /// Line of the file.
    pub line: u32,
    /// Index of its object; 0 for a gap.
    pub index: u16,
    pub subindex: u8,
    /// Length in bits.
    pub bits: u8,
    pub name: String,
    pub kind: DataType,
}

impl Pdo {
    /// Returns the total length of the entries in bits.
    #[must_use]
    pub fn bits(&self) -> usize {
        self.entries.iter().map(|entry| usize::from(entry.bits)).sum()
    }

    /// Returns whether this PDO and another must not be assigned together.
    #[must_use]
    pub fn excludes(&self, other: &Self) -> bool {
        self.excludes.contains(&other.index) || other.excludes.contains(&self.index)
    }
}

impl PdoEntry {
    /// Returns the entry as a mapping object has it: index, subindex, length.
    #[must_use]
    pub fn mapping(&self) -> u32 {
        u32::from(self.index) << 16 | u32::from(self.subindex) << 8 | u32::from(self.bits)
    }
}

impl EsiDevice {
    /// Reads a device. `modules` are those of the file and of others that it refers to, `fill` the
    /// words for its slots.
    pub(super) fn read(
        device: Element<'_>,
        vendor: u32,
        modules: &[Element<'_>],
        fill: &[String],
    ) -> Result<Self, EsiError> {
        let kind = device.needs("Type")?;
        let eeprom = EepromData::read(device)?;
        let (ports, port_kinds) = ports(device);
        let mut notes: Vec<String> = sub_devices(device).into_iter().collect();
        let (sync_managers, sync_manager_lines) = sync_managers(device)?;
        let has_mailbox = sync_managers.iter().any(|channel| channel.usage == 1);
        if has_mailbox && device.first("Mailbox").is_none() {
            let line = device.line();
            notes.push(format!("line {line}: it has mailboxes and no <Mailbox>; CoE is assumed"));
        }
        let pdos = [
            pdos(device, "RxPdo", SlotShift::default(), &mut notes)?,
            pdos(device, "TxPdo", SlotShift::default(), &mut notes)?,
        ];
        let mut info = Self {
            line: device.line(),
            vendor,
            product: kind.numbered("ProductCode", u32::MAX)?.unwrap_or(0),
            revision: kind.numbered("RevisionNo", u32::MAX)?.unwrap_or(0),
            order: one_line(kind.text()),
            name: one_line(device.localized("Name")),
            ports,
            port_kinds,
            sync_managers,
            sync_manager_lines,
            fmmus: Vec::new(),
            clock: clock(device, &pdos, &mut notes)?,
            pdos,
            coe: coe(device, has_mailbox),
            has_files: device.at(&["Mailbox", "FoE"]).is_some(),
            has_clock: device.first("Dc").is_some(),
            objects: objects(device, SlotShift::default(), &mut notes)?,
            configuration: eeprom.configuration,
            bootstrap: eeprom.bootstrap,
            eeprom_bytes: eeprom.bytes,
            slots: Vec::new(),
            loads_modules: false,
            commands: commands(device, SlotShift::default())?,
            notes,
        };

        info.fill_slots(device, modules, fill)?;
        for pdos in &mut info.pdos {
            keep_first_of_each_index(pdos, &mut info.notes);
            settle_exclusions(pdos, &mut info.notes);
        }

        info.leave_out_virtual(device);
        info.name_types();
        info.assign(device)?;
        info.check_mailboxes(device)?;
        info.fmmus = info.fmmus(device);
        for protocol in ["AoE", "EoE", "SoE", "VoE"] {
            if let Some(command) = device.at(&["Mailbox", protocol, "InitCmd"]) {
                let line = command.line();
                let note = format!("line {line}: start-up commands by {protocol} are not sent");
                info.notes.push(note);
            }
        }
        if let Some(safety) = device.first("FSoE").or_else(|| device.at(&["Mailbox", "FSoE"])) {
            info.notes.push(format!(
                "line {}: Safety over EtherCAT (FSoE) is not supported; its process data are exchanged and not evaluated",
                safety.line()
            ));
        }
        // A module in several slots has the same notes in each.
        let mut seen = BTreeSet::new();
        info.notes.retain(|note| seen.insert(note.clone()));
        Ok(info)
    }

    /// Returns the SyncManagers of one direction with their default PDOs, in the order of the
    /// process data.
    #[must_use]
    pub fn default_assignment(&self, direction: usize) -> Vec<(u8, Vec<&Pdo>)> {
        let mut assigned: BTreeMap<u8, Vec<&Pdo>> = BTreeMap::new();
        for pdo in self.pdos.get(direction).into_iter().flatten() {
            if let Some(number) = pdo.sync_manager {
                assigned.entry(number).or_default().push(pdo);
            }
        }
        assigned.into_iter().collect()
    }

    /// Takes the assignment from PDOs on a virtual SyncManager: the device does not exchange them.
    fn leave_out_virtual(&mut self, device: Element<'_>) {
        let virtual_channels: Vec<bool> =
            device.all("Sm").map(|channel| channel.flag("Virtual")).collect();
        let is_left_out = |pdo: &Pdo| {
            let number = pdo.sync_manager.map(usize::from);
            number.is_some_and(|number| virtual_channels.get(number) == Some(&true))
        };
        for pdo in self.pdos.iter_mut().flatten().filter(|pdo| is_left_out(pdo)) {
            pdo.sync_manager = None;
            self.notes.push(virtual_note(pdo.line, pdo.index));
        }
    }

    /// Gives entries without a data type, or with one of the dictionary, such as an enumeration, the
    /// basic type of their object.
    fn name_types(&mut self) {
        let unnamed = |entry: &&mut PdoEntry| entry.kind.number() == 0;
        let entries = self.pdos.iter_mut().flatten().flat_map(|pdo| &mut pdo.entries);
        for entry in entries.filter(unnamed) {
            let object = self.objects.get(&entry.index);
            let value = object.and_then(|object| object.values.get(&entry.subindex));
            let kind = value.map(|value| value.kind);
            entry.kind =
                kind.filter(|kind| kind.bits() == u16::from(entry.bits)).unwrap_or(entry.kind);
        }
    }

    /// Sets the lengths of the process data SyncManagers to those of the assigned PDOs, and their
    /// directions where only the PDOs show them.
    fn assign(&mut self, device: Element<'_>) -> Result<(), EsiError> {
        let names = ["RxPdo", "TxPdo"];
        let numbers: [BTreeSet<u8>; 2] = self
            .pdos
            .each_ref()
            .map(|pdos| pdos.iter().filter_map(|pdo| pdo.sync_manager).collect());
        for direction in 0..2 {
            let usage = 3 + direction as u8;
            for pdo in &self.pdos[direction] {
                let Some(number) = pdo.sync_manager else { continue };
                let at = |what: String| EsiError::NotSimulated {
                    line: pdo.line,
                    element: names[direction].to_owned(),
                    what,
                };
                let Some(channel) = self.sync_managers.get_mut(usize::from(number)) else {
                    let count = self.sync_managers.len();
                    return Err(at(format!(
                        "is assigned to SyncManager {number}, and the device has {count}; correct its Sm"
                    )));
                };

                let is_shared = numbers[1 - direction].contains(&number);
                if channel.usage != usage && (matches!(channel.usage, 1 | 2) || is_shared) {
                    return Err(at(format!(
                        "is assigned to SyncManager {number}, which is not for {}; correct its Sm",
                        if direction == 0 { "outputs" } else { "inputs" }
                    )));
                }

                channel.usage = usage;
            }

            let lengths: Vec<(usize, usize)> = self
                .default_assignment(direction)
                .iter()
                .map(|(number, pdos)| {
                    let bits: usize = pdos.iter().map(|pdo| pdo.bits()).sum();
                    (usize::from(*number), bits.div_ceil(8))
                })
                .collect();
            for (number, bytes) in lengths {
                let what = if direction == 0 { "outputs" } else { "inputs" };
                let Ok(length) = u16::try_from(bytes) else {
                    return Err(device.not_simulated(format!(
                        "has {bytes} bytes of {what}; one SyncManager has at most 65535"
                    )));
                };
                self.sync_managers[number].length = length;
            }
        }

        let any = self.pdos.each_ref().map(|pdos| !pdos.is_empty());
        for channel in &mut self.sync_managers {
            let has_pdos = match channel.usage {
                3 => any[0],
                4 => any[1],
                _ => false,
            };
            channel.enabled = channel.enabled && has_pdos;
        }
        Ok(())
    }

    fn check_mailboxes(&self, device: Element<'_>) -> Result<(), EsiError> {
        let usages: Vec<u8> =
            self.sync_managers.iter().map(|sync_manager| sync_manager.usage).collect();
        let [to_device, to_main] = [1, 2].map(|usage| usages.iter().position(|&one| one == usage));
        match (to_device, to_main) {
            (None, None) if self.coe == 0 => Ok(()),
            (None, None) => {
                Err(device.lacks("the <Sm> of its mailboxes, MBoxOut and MBoxIn".to_owned()))
            }
            (Some(0), Some(1)) => Ok(()),
            _ => Err(device.not_simulated(
                "has its mailboxes not on SyncManagers 0 (MBoxOut) and 1 (MBoxIn); list them \
                 in this order"
                    .to_owned(),
            )),
        }
    }

    /// Returns the FMMUs of the file; by default, one for each direction with process data and one
    /// for the mailbox state.
    fn fmmus(&self, device: Element<'_>) -> Vec<u8> {
        let usage = |word: &str| match word {
            "Outputs" => 1,
            "Inputs" => 2,
            "MBoxState" => 3,
            _ => 0,
        };

        let mut usages: Vec<u8> =
            device.all("Fmmu").map(|fmmu| usage(fmmu.text())).take(16).collect();
        if usages.is_empty() {
            usages.extend(self.sync_managers.iter().filter_map(|sync_manager| {
                match sync_manager.usage {
                    2 => Some(3),
                    usage @ 3.. => Some(usage - 2),
                    _ => None,
                }
            }));
            usages.sort_unstable();
            usages.dedup();
        }

        // A file can list too few; every direction with PDOs needs one.
        for (direction, pdos) in (1..).zip(&self.pdos) {
            if !pdos.is_empty() && !usages.contains(&direction) {
                usages.push(direction);
            }
        }
        usages
    }
}

/// Returns a note about the further controllers of a device, each a device of its own on the cable.
fn sub_devices(device: Element<'_>) -> Option<String> {
    let parts: Vec<Element<'_>> = device.all("SubDevice").collect();
    let identity = |part: &Element<'_>| {
        let word = |name| part.attribute(name).unwrap_or("any").to_owned();
        format!("product {} revision {}", word("ProductCode"), word("RevisionNo"))
    };
    let listed: Vec<String> = parts.iter().map(identity).collect();
    let line = parts.first()?.line();
    Some(format!(
        "line {line}: on the cable it is {} devices (SubDevice): list those of {} as well",
        1 + parts.len(),
        listed.join(" and of ")
    ))
}

fn virtual_note(line: u32, pdo: u16) -> String {
    format!("line {line}: PDO {pdo:#06x} is virtual; the device does not exchange it")
}

/// Of several PDOs with one index, keeps the first one that is assigned, or the first.
fn keep_first_of_each_index(pdos: &mut Vec<Pdo>, notes: &mut Vec<String>) {
    let mut kept: Vec<Pdo> = Vec::new();
    for pdo in std::mem::take(pdos) {
        let Some(other) = kept.iter_mut().find(|other| other.index == pdo.index) else {
            kept.push(pdo);
            continue;
        };

        let (line, index) = (pdo.line, pdo.index);
        if other.sync_manager.is_none() && pdo.sync_manager.is_some() {
            *other = pdo;
        }
        notes.push(format!(
            "line {line}: a second PDO has the index {index:#06x}; the one of line {} is used",
            other.line
        ));
    }
    *pdos = kept;
}

/// Of PDOs that exclude each other and are both assigned by default, keeps the first assignment.
fn settle_exclusions(pdos: &mut [Pdo], notes: &mut Vec<String>) {
    for later in 1..pdos.len() {
        let (before, rest) = pdos.split_at_mut(later);
        let pdo = &mut rest[0];
        if pdo.sync_manager.is_none() {
            continue;
        }

        let excluding =
            before.iter().find(|other| other.sync_manager.is_some() && pdo.excludes(other));
        if let Some(other) = excluding {
            pdo.sync_manager = None;
            notes.push(format!(
                "line {}: PDO {:#06x} is assigned by default together with {:#06x}, which excludes it; only the first is assigned",
                pdo.line, pdo.index, other.index
            ));
        }
    }
}

/// Returns number and kinds of the ports. One letter per port: Y and H are Ethernet, K and B are EBUS;
/// a blank is a port that the device has not, as port 1 of a junction with `Y YY`.
fn ports(device: Element<'_>) -> (u8, u16) {
    let letters = device.attribute("Physics").unwrap_or_default().trim_end();
    let is_port = |letter: &char| letter.is_alphabetic() || *letter == ' ';
    let kind = |letter| match letter {
        ' ' => 0,
        'K' | 'B' => 3,
        _ => 1,
    };
    let kinds: Vec<u16> = letters.chars().filter(is_port).take(4).map(kind).collect();
    if kinds.is_empty() {
        return (2, 0x11);
    }
    (kinds.len() as u8, kinds.iter().rev().fold(0, |all, kind| all << 4 | kind))
}

/// Returns the SyncManagers, and their lines in the file.
fn sync_managers(device: Element<'_>) -> Result<(Vec<SyncManagerEntry>, Vec<u32>), EsiError> {
    let mut sync_managers = Vec::new();
    let mut lines = Vec::new();
    for sm in device.all("Sm") {
        if sync_managers.len() == MOST_SYNC_MANAGERS {
            return Err(sm.not_simulated(format!(
                "is one too many: a device has at most {MOST_SYNC_MANAGERS} SyncManagers"
            )));
        }

        let start = sm.numbered("StartAddress", 0xffff)?.unwrap_or(0);
        let given = sm.numbered("ControlByte", 0xff)?;
        // A virtual one is not in the controller; tools use it to order what they add themselves.
        let is_virtual = sm.flag("Virtual");
        let enabled = sm.is_on("Enable") && !is_virtual;
        let size = sm.numbered("DefaultSize", 0xffff)?;
        let usage = if is_virtual { 0 } else { usage(sm.text(), given.filter(|_| enabled)) };
        // A mailbox without a length is disabled (ETG.2000): the device has none.
        let is_none = matches!(usage, 1 | 2) && !enabled && size.unwrap_or(0) == 0;
        let usage = if is_none { 0 } else { usage };
        let default_control = [0, 0x26, 0x22, 0x64, 0x20][usize::from(usage)];
        let mut length = 0;
        if matches!(usage, 1 | 2) {
            length = size.ok_or_else(|| sm.lacks("the attribute DefaultSize".to_owned()))?;
            if !MAILBOX.contains(&length) {
                let what = format!(
                    "is a mailbox of {length} bytes at {start:#x}; supported are 32 to 1486 bytes"
                );
                return Err(sm.not_simulated(what));
            }
        }

        lines.push(sm.line());
        sync_managers.push(SyncManagerEntry {
            start: start as u16,
            length: length as u16,
            control: given.unwrap_or(default_control) as u8,
            usage,
            enabled,
        });
    }

    Ok((sync_managers, lines))
}

/// Returns the usage of a SyncManager: that of its text, or that of its control byte (ETG.1000.4:
/// bits 0 and 1 are the mode, bits 2 and 3 the direction).
fn usage(text: &str, control: Option<u32>) -> u8 {
    match (text, control) {
        ("MBoxOut" | "MbxOut", _) => 1,
        ("MBoxIn" | "MbxIn", _) => 2,
        ("Outputs", _) => 3,
        ("Inputs", _) => 4,
        ("", Some(control)) => match (control & 3, control & 0x0c) {
            (2, 4) => 1,
            (2, _) => 2,
            (_, 4) => 3,
            _ => 4,
        },
        _ => 0,
    }
}

/// Reads the PDOs of one direction of a device or module.
pub(super) fn pdos(
    parent: Element<'_>,
    name: &'static str,
    shift: SlotShift,
    notes: &mut Vec<String>,
) -> Result<Vec<Pdo>, EsiError> {
    let mut pdos: Vec<Pdo> = Vec::new();
    let mut count = 0;
    for element in parent.all(name) {
        let mut entries = Vec::new();
        for entry in element.all("Entry") {
            entries.extend(pdo_entry(entry, shift, notes)?);
        }

        count += entries.len();
        if count > MOST_ENTRIES {
            let what = format!("has too many entries: {MOST_ENTRIES} in all are supported");
            return Err(element.not_simulated(what));
        }

        let own = element.needs("Index")?;
        let index = shift.pdo(own)?;
        let excludes = element.all("Exclude").map(|other| shift.excluded(other, own));
        let excludes: Vec<u16> = excludes.collect::<Result<_, _>>()?;
        let is_virtual = element.flag("Virtual");
        if is_virtual {
            notes.push(virtual_note(element.line(), index));
        }
        let samples = element.attribute("OSFac").and_then(super::element::number);
        if let Some(samples @ 2..) = samples.filter(|_| element.attribute("Sm").is_some()) {
            notes.push(format!(
                "line {}: PDO {index:#06x} has {samples} samples in a cycle (OSFac), which is not supported: one is exchanged",
                element.line()
            ));
        }
        pdos.push(Pdo {
            line: element.line(),
            index,
            name: one_line(element.localized("Name")),
            sync_manager: element
                .numbered("Sm", 0xff)?
                .filter(|_| !is_virtual)
                .map(|channel| channel as u8),
            fixed: element.flag("Fixed"),
            mandatory: element.flag("Mandatory"),
            excludes: excludes.into_iter().filter(|other| *other != index).collect(),
            entries,
        });
    }

    Ok(pdos)
}

/// Reads an entry; several of a long gap or text, whose lengths a mapping stores in one byte.
fn pdo_entry(
    entry: Element<'_>,
    shift: SlotShift,
    notes: &mut Vec<String>,
) -> Result<Vec<PdoEntry>, EsiError> {
    let index = shift.object(entry.needs("Index")?)?;
    let subindex = entry.number_at("SubIndex", 0xff)? as u8;
    let length = entry.needs("BitLen")?;
    let bits = length.number(0xffff)? as u16;
    let line = entry.line();
    if bits == 0 {
        notes.push(format!("line {line}: <Entry> has 0 bits and is passed over"));
        return Ok(Vec::new());
    }

    let name = one_line(entry.localized("Name"));
    if index == 0 {
        let gap = |bits| PdoEntry {
            line,
            index,
            subindex,
            bits,
            name: name.clone(),
            kind: from_length(u16::from(bits)),
        };
        let whole =
            std::iter::repeat_n(LONGEST_ENTRY, usize::from(bits / u16::from(LONGEST_ENTRY)));
        let rest = (bits % u16::from(LONGEST_ENTRY)) as u8;
        return Ok(whole.chain((rest > 0).then_some(rest)).map(gap).collect());
    }

    let Ok(bits) = u8::try_from(bits) else {
        return Err(length.not_simulated(format!(
            "is {bits}; a mapping stores the length of an entry in one byte, so at most 255 bits"
        )));
    };
    let swapped = entry.first("DataType").and_then(|word| word.attribute("SwapData"));
    if swapped.is_some_and(|swapped| !matches!(swapped, "" | "0" | "false")) {
        notes.push(format!(
            "line {line}: the bytes of \"{name}\" are not swapped (SwapData); they have the order of the device"
        ));
    }
    let declared = entry.first("DataType").and_then(|word| kind(word.text(), u32::from(bits)));
    let kind = declared
        .filter(|kind| kind.bits() == u16::from(bits))
        .unwrap_or_else(|| from_length(u16::from(bits)));
    Ok(vec![PdoEntry { line, index, subindex, bits, name, kind }])
}

/// Returns the CoE of a device. A file that a tool wrote from the device itself, such as `ethercat xml`
/// of IgH, has mailboxes and no word about their protocols.
fn coe(device: Element<'_>, has_mailbox: bool) -> u8 {
    if has_mailbox && device.first("Mailbox").is_none() {
        return details::SDO | details::INFORMATION | details::PDO_ASSIGN;
    }
    let Some(coe) = device.at(&["Mailbox", "CoE"]) else { return 0 };
    let flags = [
        ("SdoInfo", details::INFORMATION),
        ("PdoAssign", details::PDO_ASSIGN),
        ("PdoConfig", details::PDO_CONFIGURATION),
        ("CompleteAccess", details::COMPLETE_ACCESS),
    ];

    flags.iter().filter(|(name, _)| coe.flag(name)).fold(details::SDO, |all, (_, bit)| all | bit)
}

/// Returns the operation modes of the clock of a device with these PDOs.
fn clock(
    device: Element<'_>,
    pdos: &[Vec<Pdo>; 2],
    notes: &mut Vec<String>,
) -> Result<Vec<DcMode>, EsiError> {
    let mut modes = Vec::new();
    // One that the file assigns to the same SyncManager in every mode is no change.
    let is_default = |channel: Element<'_>, pdo: &Element<'_>| {
        let value = super::element::number;
        let (index, channel) = (value(pdo.text()), channel.attribute("No").and_then(value));
        let is_it = |one: &Pdo| {
            Some(i64::from(one.index)) == index && one.sync_manager.map(i64::from) == channel
        };
        let is_once = pdo.attribute("OSFac").is_none_or(|factor| value(factor) == Some(1));
        is_once && channel.is_some() && pdos.iter().flatten().any(is_it)
    };
    let listed = device.first("Dc").into_iter().flat_map(|clock| clock.all("OpMode"));
    for mode in listed.take(MOST_CLOCK_MODES) {
        let number = |name| mode.number_at(name, u32::MAX);
        let [factor, factor1, shift_factor, shift_factor1] =
            ["CycleTimeSync0", "CycleTimeSync1", "ShiftTimeSync0", "ShiftTimeSync1"]
                .map(|name| signed(mode.first(name), Some("Factor"), notes));
        let [shift, shift1] = ["ShiftTimeSync0", "ShiftTimeSync1"]
            .map(|name| i64::from(signed(mode.first(name), None, notes)));
        modes.push(DcMode {
            name: one_line(mode.localized("Name")),
            description: mode.localized("Desc").to_owned(),
            pulses: Sync0 {
                activation: mode.number_at("AssignActivate", 0xffff)? as u16,
                period_ns: Some(number("CycleTimeSync0")?).filter(|ns| *ns > 0),
                factor,
                shift_ns: Some(shift),
                shift_factor,
                sync1: Sync1 {
                    period_ns: number("CycleTimeSync1")?,
                    factor: factor1,
                    shift_ns: shift1,
                    shift_factor: shift_factor1,
                },
            },
            pdo_line: mode
                .all("Sm")
                .find_map(|channel| channel.all("Pdo").find(|pdo| !is_default(channel, pdo)))
                .map(Element::line),
            shift_line: mode
                .first("ShiftTimeSync0")
                .filter(|shift| shift.flag("Input"))
                .map(Element::line),
            sync_type_line: mode
                .all("Sm")
                .find_map(|channel| channel.first("SyncType"))
                .map(Element::line),
        });
    }

    Ok(modes)
}

/// Returns the text of an element, or its attribute, as a number with a sign; 0 without it, and with
/// a note for one that is not a number.
fn signed(of: Option<Element<'_>>, attribute: Option<&str>, notes: &mut Vec<String>) -> i32 {
    let Some(of) = of else { return 0 };
    let text = attribute.map_or(of.text(), |name| of.attribute(name).unwrap_or_default());
    if text.is_empty() {
        return 0;
    }
    // Below 0 also in hexadecimal, as the EEPROM has them: times with 32 bits, factors with 16.
    let as_stored = |value: i64| match attribute {
        Some(_) => u16::try_from(value).ok().map(|value| value.cast_signed().into()),
        None => u32::try_from(value).ok().map(u32::cast_signed),
    };
    let value = super::element::number(text);
    let value = value.and_then(|value| as_stored(value).or_else(|| i32::try_from(value).ok()));
    value.unwrap_or_else(|| {
        notes.push(format!("line {}: <{}> has \"{text}\"; 0 is used", of.line(), of.name()));
        0
    })
}

/// The `<Eeprom>` of a device.
struct EepromData {
    configuration: [u8; 14],
    bootstrap: [u16; 4],
    bytes: usize,
}

impl EepromData {
    fn read(device: Element<'_>) -> Result<Self, EsiError> {
        let mut read =
            Self { configuration: DEFAULT_CONFIGURATION, bootstrap: [0; 4], bytes: EEPROM_BYTES };
        let Some(eeprom) = device.first("Eeprom") else { return Ok(read) };
        if let Some(data) = eeprom.first("ConfigData") {
            read.configuration = [0; 14];
            for (byte, value) in read.configuration.iter_mut().zip(data.bytes()?) {
                *byte = value;
            }
        }

        if let Some(data) = eeprom.first("BootStrap") {
            for (word, pair) in read.bootstrap.iter_mut().zip(data.bytes()?.as_chunks::<2>().0) {
                *word = u16::from_le_bytes(*pair);
            }
        }

        let size = eeprom
            .first("ByteSize")
            .map_or(Ok(EEPROM_BYTES as u32), |size| size.number(LARGEST_EEPROM))?;
        // The smallest chip has 128 bytes; sizes are powers of two.
        read.bytes = (size as usize).next_power_of_two().max(128);
        Ok(read)
    }
}
