//! One `<Device>` of an ESI file.

use std::collections::BTreeMap;

use super::EsiError;
use super::eeprom::{DEFAULT_CONFIGURATION, DcMode, EEPROM_BYTES, SyncManagerEntry};
use super::element::Element;
use super::objects::{EsiObject, objects};
use super::types::{from_length, kind};
use crate::coe::{DataType, details};
use crate::registers;

/// Number of SyncManagers of a simulated controller.
const MOST_SYNC_MANAGERS: usize = 8;
/// One past the last byte of a controller's memory.
const MEMORY_END: u32 = registers::MEMORY_END as u32;
/// First address of memory; digital outputs of simple devices are below the usual 0x1000.
const MEMORY_START: u32 = registers::MEMORY_START as u32;
/// Valid mailbox sizes, in bytes.
const MAILBOX: std::ops::RangeInclusive<u32> = 32..=1486;
/// Most entries of all PDOs of one direction.
const MOST_ENTRIES: usize = 4096;
/// Most entries of a PDO; the number is stored in one byte.
const MOST_PER_PDO: usize = 254;
/// Largest EEPROM in bytes.
const LARGEST_EEPROM: u32 = 0x2_0000;

/// A device of an ESI file, reduced to what is simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EsiDevice {
    /// Vendor id.
    pub vendor: u32,
    /// Product code.
    pub product: u32,
    /// Revision.
    pub revision: u32,
    /// Type, used as the order name.
    pub order: String,
    /// Name.
    pub name: String,
    /// Number of ports.
    pub ports: u8,
    /// Physical ports, four bits each.
    pub port_kinds: u16,
    /// SyncManagers; those of process data have the length of the default PDO assignment.
    pub sync_managers: Vec<SyncManagerEntry>,
    /// Usage of the FMMUs: 1 outputs, 2 inputs, 3 mailbox state, 0 unused.
    pub fmmus: Vec<u8>,
    /// PDOs of the outputs (RxPDO) and of the inputs (TxPDO).
    pub pdos: [Vec<Pdo>; 2],
    /// CoE details; 0: no CoE.
    pub coe: u8,
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
}

/// One PDO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pdo {
    /// Line in the file.
    pub line: u32,
    /// Index of its object.
    pub index: u16,
    /// Its name.
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
    /// Subindex.
    pub subindex: u8,
    /// Length in bits.
    pub bits: u8,
    /// Its name.
    pub name: String,
    /// Its data type.
    pub kind: DataType,
}

impl Pdo {
    /// Returns the total length of the entries in bits.
    #[must_use]
    pub fn bits(&self) -> usize {
        self.entries.iter().map(|entry| usize::from(entry.bits)).sum()
    }
}

impl EsiDevice {
    pub(super) fn read(device: Element<'_>, vendor: u32) -> Result<Self, EsiError> {
        let kind = device.needs("Type")?;
        let eeprom = EepromData::read(device)?;
        let (ports, port_kinds) = ports(device);
        let mut info = Self {
            vendor,
            product: kind.numbered("ProductCode", u32::MAX)?.unwrap_or(0),
            revision: kind.numbered("RevisionNo", u32::MAX)?.unwrap_or(0),
            order: kind.text().to_owned(),
            name: device.localized("Name").to_owned(),
            ports,
            port_kinds,
            sync_managers: sync_managers(device)?,
            fmmus: Vec::new(),
            pdos: [pdos(device, "RxPdo")?, pdos(device, "TxPdo")?],
            coe: coe(device),
            has_clock: device.first("Dc").is_some(),
            clock: clock(device)?,
            objects: objects(device)?,
            configuration: eeprom.configuration,
            bootstrap: eeprom.bootstrap,
            eeprom_bytes: eeprom.bytes,
        };

        info.assign(device)?;
        info.check_mailboxes(device)?;
        info.fmmus = info.fmmus(device);
        Ok(info)
    }

    /// Sets the lengths of the process data SyncManagers to those of the assigned PDOs.
    fn assign(&mut self, device: Element<'_>) -> Result<(), EsiError> {
        for (pdos, usage, what) in [(&self.pdos[0], 3, "outputs"), (&self.pdos[1], 4, "inputs")] {
            let mut used = None;
            for pdo in pdos {
                let Some(number) = pdo.sync_manager else { continue };
                let position = usize::from(number);
                let at = |what: String| EsiError::NotSimulated {
                    line: pdo.line,
                    element: "Pdo".to_owned(),
                    what,
                };
                if self
                    .sync_managers
                    .get(position)
                    .is_none_or(|sync_manager| sync_manager.usage != usage)
                {
                    return Err(at(format!(
                        "is assigned to SyncManager {number}, which is not for {what}; correct its Sm"
                    )));
                }

                if used.is_some_and(|used| used != number) {
                    return Err(at(format!(
                        "is assigned to a second SyncManager of {what}; only one is supported"
                    )));
                }

                used = Some(number);
            }

            let bits: usize =
                pdos.iter().filter(|pdo| pdo.sync_manager.is_some()).map(Pdo::bits).sum();
            if let Some(sync_manager) =
                used.and_then(|number| self.sync_managers.get_mut(usize::from(number)))
            {
                let bytes = bits.div_ceil(8);
                if usize::from(sync_manager.start) + bytes > MEMORY_END as usize {
                    let what = format!(
                        "has {bytes} bytes of {what} at {:#x}, beyond the end of memory at {MEMORY_END:#x}",
                        sync_manager.start
                    );
                    return Err(device.not_simulated(what));
                }

                sync_manager.length = bytes as u16;
            }
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

        let listed: Vec<u8> = device.all("Fmmu").map(|fmmu| usage(fmmu.text())).take(16).collect();
        if !listed.is_empty() {
            return listed;
        }

        let of_sync_managers =
            self.sync_managers.iter().filter_map(|sync_manager| match sync_manager.usage {
                2 => Some(3),
                usage @ 3.. => Some(usage - 2),
                _ => None,
            });

        let mut usages: Vec<u8> = of_sync_managers.collect();
        usages.sort_unstable();
        usages.dedup();
        usages
    }
}

/// Returns number and kinds of the ports. One letter per port: Y and H are Ethernet, K is EBUS.
fn ports(device: Element<'_>) -> (u8, u16) {
    let letters = device
        .attribute("Physics")
        .unwrap_or_default()
        .chars()
        .filter(|letter| letter.is_alphabetic());
    let kinds: Vec<u16> = letters.take(4).map(|letter| if letter == 'K' { 3 } else { 1 }).collect();
    if kinds.is_empty() {
        return (2, 0x11);
    }
    (kinds.len() as u8, kinds.iter().rev().fold(0, |all, kind| all << 4 | kind))
}

fn sync_managers(device: Element<'_>) -> Result<Vec<SyncManagerEntry>, EsiError> {
    let mut sync_managers = Vec::new();
    for sm in device.all("Sm") {
        if sync_managers.len() == MOST_SYNC_MANAGERS {
            return Err(sm.not_simulated(format!(
                "is one too many: {MOST_SYNC_MANAGERS} SyncManagers are supported"
            )));
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
            let what = format!(
                "begins at {start:#x}; memory goes from {MEMORY_START:#x} to {MEMORY_END:#x}"
            );
            return Err(sm.not_simulated(what));
        }

        let mut length = 0;
        if matches!(usage, 1 | 2) {
            length = sm
                .numbered("DefaultSize", 0xffff)?
                .ok_or_else(|| sm.lacks("the attribute DefaultSize".to_owned()))?;
            if !MAILBOX.contains(&length) || start + length > MEMORY_END {
                let what = format!(
                    "is a mailbox of {length} bytes at {start:#x}; supported are 32 to 1486 bytes below {MEMORY_END:#x}"
                );
                return Err(sm.not_simulated(what));
            }
        }

        let control = sm.numbered("ControlByte", 0xff)?.map_or(control, |control| control as u8);
        sync_managers.push(SyncManagerEntry {
            start: start as u16,
            length: length as u16,
            control,
            usage,
        });
    }

    Ok(sync_managers)
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
            let what = format!(
                "has too many entries: {MOST_PER_PDO} in one PDO, {MOST_ENTRIES} in all are supported"
            );
            return Err(element.not_simulated(what));
        }

        let index = element.needs("Index")?.number(0xffff)? as u16;
        if pdos.iter().any(|pdo| pdo.index == index) {
            return Err(element.not_simulated(format!(
                "has the same index {index:#x} as another PDO; use another index"
            )));
        }

        let excludes =
            element.all("Exclude").map(|other| other.number(0xffff).map(|index| index as u16));
        pdos.push(Pdo {
            line: element.line(),
            index,
            name: element.localized("Name").to_owned(),
            sync_manager: element.numbered("Sm", 0xff)?.map(|channel| channel as u8),
            fixed: element.flag("Fixed"),
            mandatory: element.flag("Mandatory"),
            excludes: excludes.collect::<Result<_, _>>()?,
            entries,
        });
    }

    for pdo in &pdos {
        let assigned = |index: &&u16| {
            pdos.iter().any(|other| other.index == **index && other.sync_manager.is_some())
        };
        if let (Some(_), Some(other)) = (pdo.sync_manager, pdo.excludes.iter().find(assigned)) {
            return Err(EsiError::NotSimulated {
                line: pdo.line,
                element: name.to_owned(),
                what: format!(
                    "is assigned by default together with {other:#x}, which it excludes; remove the Sm of one of them"
                ),
            });
        }
    }

    Ok(pdos)
}

fn pdo_entry(entry: Element<'_>) -> Result<PdoEntry, EsiError> {
    let index = entry.needs("Index")?.number(0xffff)? as u16;
    let subindex = entry.first("SubIndex").map_or(Ok(0), |subindex| subindex.number(0xff))? as u8;
    let length = entry.needs("BitLen")?;
    let bits = length.number(0xff)? as u8;
    if bits == 0 {
        return Err(length.not_simulated("is 0; write the length of the entry in bits".to_owned()));
    }

    let declared = entry.first("DataType").and_then(|word| kind(word.text(), u32::from(bits)));
    let kind = declared
        .filter(|kind| kind.bits() == u16::from(bits))
        .unwrap_or_else(|| from_length(u16::from(bits)));
    Ok(PdoEntry {
        line: entry.line(),
        index,
        subindex,
        bits,
        name: entry.localized("Name").to_owned(),
        kind,
    })
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

fn clock(device: Element<'_>) -> Result<Vec<DcMode>, EsiError> {
    let mut modes = Vec::new();
    for mode in device.first("Dc").into_iter().flat_map(|clock| clock.all("OpMode")).take(32) {
        let number = |name| mode.first(name).map_or(Ok(0), |element| element.number(u32::MAX));
        let shift = mode
            .first("ShiftTimeSync0")
            .and_then(|shift| super::element::number(shift.text()))
            .unwrap_or(0);
        modes.push(DcMode {
            name: mode.localized("Name").to_owned(),
            description: mode.localized("Desc").to_owned(),
            activate: mode.first("AssignActivate").map_or(Ok(0), |word| word.number(0xffff))?
                as u16,
            cycle_ns: number("CycleTimeSync0")?,
            shift_ns: i32::try_from(shift).unwrap_or(0),
        });
    }

    Ok(modes)
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
