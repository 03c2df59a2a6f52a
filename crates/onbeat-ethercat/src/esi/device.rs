//! One `<Device>` of an ESI file.

use std::collections::BTreeMap;

use super::EsiError;
use super::eeprom::{Channel, ClockMode, EEPROM_BYTES, USUAL_CONFIGURATION};
use super::element::Element;
use super::objects::{ObjectPlan, objects};
use super::types::{kind, of_length};
use crate::coe::{DataType, details};

/// SyncManagers that a simulated controller has.
const CHANNELS: usize = 8;
/// Last byte of a controller's memory, and one more.
const MEMORY_END: u32 = 0x3000;
/// First byte of process memory; digital outputs of simple devices stand below the usual 0x1000.
const MEMORY_START: u32 = 0x0f00;
/// Shortest and longest mailbox in bytes.
const MAILBOX: std::ops::RangeInclusive<u32> = 32..=1486;
/// Values of all PDOs of one direction at most.
const MOST_ENTRIES: usize = 4096;
/// A PDO has at most this many values, and a value at most this many bits: both are told in one byte.
const MOST_PER_PDO: usize = 254;
/// Largest EEPROM in bytes.
const LARGEST_EEPROM: u32 = 0x2_0000;

/// What a device's part of the file says, as far as it is simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Information {
    /// Vendor id.
    pub vendor: u32,
    /// Product code.
    pub product: u32,
    /// Revision.
    pub revision: u32,
    /// Its type, which is what it is ordered by.
    pub order: String,
    /// Its name.
    pub name: String,
    /// How many ports, and their kinds with four bits for each.
    pub ports: (u8, u16),
    /// Lengths of process data are those of the PDOs assigned by default.
    pub channels: Vec<Channel>,
    /// What the FMMUs are for: 1 outputs, 2 inputs, 3 state of the mailbox, 0 nothing.
    pub fmmus: Vec<u8>,
    /// PDOs of the outputs and of the inputs.
    pub pdos: [Vec<Pdo>; 2],
    /// What it can do with CoE; 0 for nothing.
    pub coe: u8,
    /// Whether it has a distributed clock.
    pub has_clock: bool,
    /// Modes of the distributed clock.
    pub clock: Vec<ClockMode>,
    /// The object dictionary, by index.
    pub objects: BTreeMap<u16, ObjectPlan>,
    /// First bytes of the EEPROM, but for the alias and the checksum.
    pub configuration: [u8; 14],
    /// Mailboxes of the bootstrap state: start and length, to the device and from it.
    pub bootstrap: [u16; 4],
    /// Bytes of the EEPROM, a power of two.
    pub eeprom_bytes: usize,
}

/// One PDO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pdo {
    /// Line of the file.
    pub line: u32,
    /// Index of its object.
    pub index: u16,
    /// Its name.
    pub name: String,
    /// SyncManager that it is assigned to by default.
    pub channel: Option<u8>,
    /// Its values cannot be changed.
    pub fixed: bool,
    /// It is always assigned.
    pub mandatory: bool,
    /// PDOs that are never assigned together with it.
    pub excludes: Vec<u16>,
    /// Its values, in order.
    pub entries: Vec<PdoEntry>,
}

/// One value of a PDO; a gap has index 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PdoEntry {
    /// Line of the file.
    pub line: u32,
    /// Index of its object; 0 for a gap.
    pub index: u16,
    /// Entry of its object.
    pub sub: u8,
    /// Length in bits.
    pub bits: u8,
    /// Its name.
    pub name: String,
    /// Its data type.
    pub kind: DataType,
}

impl Pdo {
    /// Length of all its values in bits.
    #[must_use]
    pub fn bits(&self) -> usize {
        self.entries.iter().map(|entry| usize::from(entry.bits)).sum()
    }
}

impl Information {
    pub(super) fn read(device: Element<'_>, vendor: u32) -> Result<Self, EsiError> {
        let kind = device.needs("Type")?;
        let (configuration, bootstrap, eeprom_bytes) = eeprom(device)?;
        let mut info = Self {
            vendor,
            product: kind.numbered("ProductCode", u32::MAX)?.unwrap_or(0),
            revision: kind.numbered("RevisionNo", u32::MAX)?.unwrap_or(0),
            order: kind.text().to_owned(),
            name: device.told("Name").to_owned(),
            ports: ports(device),
            channels: channels(device)?,
            fmmus: Vec::new(),
            pdos: [pdos(device, "RxPdo")?, pdos(device, "TxPdo")?],
            coe: coe(device),
            has_clock: device.first("Dc").is_some(),
            clock: clock(device)?,
            objects: objects(device)?,
            configuration,
            bootstrap,
            eeprom_bytes,
        };

        info.assign(device)?;
        info.check_mailboxes(device)?;
        info.fmmus = info.fmmus(device);
        Ok(info)
    }

    /// Gives the SyncManagers of process data the lengths of what is assigned to them.
    fn assign(&mut self, device: Element<'_>) -> Result<(), EsiError> {
        for (pdos, usage, what) in [(&self.pdos[0], 3, "outputs"), (&self.pdos[1], 4, "inputs")] {
            let mut used = None;
            for pdo in pdos {
                let Some(channel) = pdo.channel else { continue };
                let place = usize::from(channel);
                let at = |what: String| EsiError::NotSimulated { line: pdo.line, element: "Pdo".to_owned(), what };
                if self.channels.get(place).is_none_or(|channel| channel.usage != usage) {
                    return Err(at(format!(
                        "is assigned to SyncManager {channel}, which is none of {what}; correct its Sm"
                    )));
                }

                if used.is_some_and(|used| used != channel) {
                    return Err(at(format!("is assigned to a second SyncManager of {what}; one is simulated")));
                }

                used = Some(channel);
            }

            let bits: usize = pdos.iter().filter(|pdo| pdo.channel.is_some()).map(Pdo::bits).sum();
            if let Some(channel) = used.and_then(|channel| self.channels.get_mut(usize::from(channel))) {
                let bytes = bits.div_ceil(8);
                if usize::from(channel.start) + bytes > MEMORY_END as usize {
                    let what = format!(
                        "has {bytes} bytes of {what} at {:#x}, more than memory up to {MEMORY_END:#x}",
                        channel.start
                    );
                    return Err(device.not_simulated(what));
                }

                channel.length = bytes as u16;
            }
        }
        Ok(())
    }

    fn check_mailboxes(&self, device: Element<'_>) -> Result<(), EsiError> {
        let usages: Vec<u8> = self.channels.iter().map(|channel| channel.usage).collect();
        let [to_device, to_main] = [1, 2].map(|usage| usages.iter().position(|&one| one == usage));
        match (to_device, to_main) {
            (None, None) if self.coe == 0 => Ok(()),
            (None, None) => Err(device.lacks("the <Sm> of its mailboxes, MBoxOut and MBoxIn".to_owned())),
            (Some(0), Some(1)) => Ok(()),
            _ => Err(device.not_simulated(
                "has its mailboxes elsewhere than on SyncManagers 0 (MBoxOut) and 1 (MBoxIn); list them in this order"
                    .to_owned(),
            )),
        }
    }

    /// As the file lists them; else one for each direction that has process data, and one for the mailbox.
    fn fmmus(&self, device: Element<'_>) -> Vec<u8> {
        let usage = |word: &str| match word {
            "Outputs" => 1,
            "Inputs" => 2,
            "MBoxState" => 3,
            _ => 0,
        };

        let told: Vec<u8> = device.all("Fmmu").map(|fmmu| usage(fmmu.text())).take(16).collect();
        if !told.is_empty() {
            return told;
        }

        let of_channels = self.channels.iter().filter_map(|channel| match channel.usage {
            2 => Some(3),
            usage @ 3.. => Some(usage - 2),
            _ => None,
        });

        let mut usages: Vec<u8> = of_channels.collect();
        usages.sort_unstable();
        usages.dedup();
        usages
    }
}

/// A port for each letter: Y and H are Ethernet, K is the bus within a block of terminals.
fn ports(device: Element<'_>) -> (u8, u16) {
    let letters = device.attribute("Physics").unwrap_or_default().chars().filter(|letter| letter.is_alphabetic());
    let kinds: Vec<u16> = letters.take(4).map(|letter| if letter == 'K' { 3 } else { 1 }).collect();
    if kinds.is_empty() {
        return (2, 0x11);
    }
    (kinds.len() as u8, kinds.iter().rev().fold(0, |all, kind| all << 4 | kind))
}

fn channels(device: Element<'_>) -> Result<Vec<Channel>, EsiError> {
    let mut channels = Vec::new();
    for sm in device.all("Sm") {
        if channels.len() == CHANNELS {
            return Err(sm.not_simulated(format!("is one too many: {CHANNELS} SyncManagers are simulated")));
        }

        let (usage, control) = match sm.text() {
            "MBoxOut" => (1, 0x26),
            "MBoxIn" => (2, 0x22),
            "Outputs" => (3, 0x64),
            "Inputs" => (4, 0x20),
            _ => (0, 0),
        };

        let start = sm.numbered("StartAddress", 0xffff)?.unwrap_or(0);
        if usage != 0 && !(MEMORY_START..MEMORY_END).contains(&start) {
            let what = format!("begins at {start:#x}; memory goes from {MEMORY_START:#x} to {MEMORY_END:#x}");
            return Err(sm.not_simulated(what));
        }

        let mut length = 0;
        if matches!(usage, 1 | 2) {
            length =
                sm.numbered("DefaultSize", 0xffff)?.ok_or_else(|| sm.lacks("the attribute DefaultSize".to_owned()))?;
            if !MAILBOX.contains(&length) || start + length > MEMORY_END {
                let what = format!(
                    "is a mailbox of {length} bytes at {start:#x}; simulated are 32 to 1486 bytes below {MEMORY_END:#x}"
                );
                return Err(sm.not_simulated(what));
            }
        }

        let control = sm.numbered("ControlByte", 0xff)?.map_or(control, |control| control as u8);
        channels.push(Channel { start: start as u16, length: length as u16, control, usage });
    }

    Ok(channels)
}

fn pdos(device: Element<'_>, name: &'static str) -> Result<Vec<Pdo>, EsiError> {
    let mut pdos: Vec<Pdo> = Vec::new();
    let mut count = 0;
    for element in device.all(name) {
        let mut entries = Vec::new();
        for entry in element.all("Entry") {
            entries.push(pdo_entry(entry)?);
        }

        count += entries.len();
        if entries.len() > MOST_PER_PDO || count > MOST_ENTRIES {
            let what = format!("has too many values: {MOST_PER_PDO} in one, {MOST_ENTRIES} in all are simulated");
            return Err(element.not_simulated(what));
        }

        let index = element.needs("Index")?.number(0xffff)? as u16;
        if pdos.iter().any(|pdo| pdo.index == index) {
            return Err(
                element.not_simulated(format!("has the index {index:#x} of another one; give it one of its own"))
            );
        }

        let excludes = element.all("Exclude").map(|other| other.number(0xffff).map(|index| index as u16));
        pdos.push(Pdo {
            line: element.line(),
            index,
            name: element.told("Name").to_owned(),
            channel: element.numbered("Sm", 0xff)?.map(|channel| channel as u8),
            fixed: element.flag("Fixed"),
            mandatory: element.flag("Mandatory"),
            excludes: excludes.collect::<Result<_, _>>()?,
            entries,
        });
    }

    for pdo in &pdos {
        let assigned = |index: &&u16| pdos.iter().any(|other| other.index == **index && other.channel.is_some());
        if let (Some(_), Some(other)) = (pdo.channel, pdo.excludes.iter().find(assigned)) {
            return Err(EsiError::NotSimulated {
                line: pdo.line,
                element: name.to_owned(),
                what: format!(
                    "is assigned by default together with {other:#x}, which it excludes; take the Sm from one of them"
                ),
            });
        }
    }

    Ok(pdos)
}

fn pdo_entry(entry: Element<'_>) -> Result<PdoEntry, EsiError> {
    let index = entry.needs("Index")?.number(0xffff)? as u16;
    let sub = entry.first("SubIndex").map_or(Ok(0), |sub| sub.number(0xff))? as u8;
    let length = entry.needs("BitLen")?;
    let bits = length.number(0xff)? as u8;
    if bits == 0 {
        return Err(length.not_simulated("is 0; give the value's length in bits".to_owned()));
    }

    let told = entry.first("DataType").and_then(|word| kind(word.text(), u32::from(bits)));
    let kind = told.filter(|kind| kind.bits() == u16::from(bits)).unwrap_or_else(|| of_length(u16::from(bits)));
    Ok(PdoEntry { line: entry.line(), index, sub, bits, name: entry.told("Name").to_owned(), kind })
}

fn coe(device: Element<'_>) -> u8 {
    let Some(coe) = device.at(&["Mailbox", "CoE"]) else { return 0 };
    let flags = [
        ("SdoInfo", details::INFORMATION),
        ("PdoAssign", details::PDO_ASSIGN),
        ("PdoConfig", details::PDO_CONFIGURATION),
        ("CompleteAccess", details::COMPLETE_ACCESS),
    ];

    flags.iter().filter(|(name, _)| coe.flag(name)).fold(details::SDO, |all, (_, bit)| all | bit)
}

fn clock(device: Element<'_>) -> Result<Vec<ClockMode>, EsiError> {
    let mut modes = Vec::new();
    for mode in device.first("Dc").into_iter().flat_map(|clock| clock.all("OpMode")).take(32) {
        let number = |name| mode.first(name).map_or(Ok(0), |element| element.number(u32::MAX));
        let shift = mode.first("ShiftTimeSync0").and_then(|shift| super::element::number(shift.text())).unwrap_or(0);
        modes.push(ClockMode {
            name: mode.told("Name").to_owned(),
            description: mode.told("Desc").to_owned(),
            activate: mode.first("AssignActivate").map_or(Ok(0), |word| word.number(0xffff))? as u16,
            cycle_ns: number("CycleTimeSync0")?,
            shift_ns: i32::try_from(shift).unwrap_or(0),
        });
    }

    Ok(modes)
}

/// First bytes, mailboxes of the bootstrap state, and size of the EEPROM.
fn eeprom(device: Element<'_>) -> Result<([u8; 14], [u16; 4], usize), EsiError> {
    let (mut configuration, mut bootstrap) = (USUAL_CONFIGURATION, [0; 4]);
    let Some(eeprom) = device.first("Eeprom") else { return Ok((configuration, bootstrap, EEPROM_BYTES)) };
    if let Some(data) = eeprom.first("ConfigData") {
        configuration = [0; 14];
        for (place, byte) in configuration.iter_mut().zip(data.bytes()?) {
            *place = byte;
        }
    }

    if let Some(data) = eeprom.first("BootStrap") {
        for (place, pair) in bootstrap.iter_mut().zip(data.bytes()?.as_chunks::<2>().0) {
            *place = u16::from_le_bytes(*pair);
        }
    }

    let size = eeprom.first("ByteSize").map_or(Ok(EEPROM_BYTES as u32), |size| size.number(LARGEST_EEPROM))?;
    // Chips come in powers of two of 128 bytes.
    Ok((configuration, bootstrap, (size as usize).next_power_of_two().max(128)))
}
