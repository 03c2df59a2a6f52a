//! One `<Slave>` of an ENI file.

use std::collections::{BTreeMap, BTreeSet};

use super::Account;
use super::commands::{RegisterCommand, StartupCommand, registers, startup};
use crate::esi::element::{Element, one_line};
use crate::esi::{EsiError, MOST_SYNC_MANAGERS};
use crate::registers::{
    AL_CONTROL, AL_STATUS_CODE, SYNC_CYCLE, SYNC_MANAGER, SYNC_UNIT, WATCHDOG_DIVIDER,
    WATCHDOG_TIME,
};

/// Most bits of process data of a device in one area: 64 KiB, all that a controller addresses.
const MOST_BITS: u32 = 1 << 19;
/// Register of the station alias, which identifies the first device of a hot connect group.
const ALIAS: u32 = 0x0012;

/// A device of an ENI file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkDevice {
    /// Line in the file.
    pub line: u32,
    /// Its name in the file; not unique.
    pub name: String,
    /// Station address, by which others refer to it.
    pub station: u32,
    /// Vendor, product, revision, serial number.
    pub identity: [u32; 4],
    /// Kinds of its ports, a letter each.
    pub physics: String,
    /// Station alias that identifies it; 0 for none.
    pub alias: u16,
    /// Explicit device ID that identifies it (register 0x0134); 0 for none.
    pub device_id: u16,
    /// Name of its hot connect group.
    pub group: Option<String>,
    /// Number of devices of the group that begins with it, itself included; 0 if none does.
    pub group_devices: usize,
    /// Station address and port of the device before it.
    pub before: Option<(u32, u8)>,
    /// SyncManagers by number.
    pub sync_managers: Vec<NetworkSyncManager>,
    /// PDOs of the outputs and of the inputs.
    pub pdos: [Vec<NetworkPdo>; 2],
    /// Bytes of process data: outputs and inputs.
    pub bytes: [usize; 2],
    /// Protocols of its mailboxes: CoE, FoE.
    pub protocols: [bool; 2],
    /// Start and length of the bootstrap mailboxes, to the device first.
    pub bootstrap: Option<[u16; 4]>,
    /// Objects that are written before SAFEOP.
    pub startup: Vec<StartupCommand>,
    /// The SYNC pulses of its clock.
    pub clock: Option<NetworkClock>,
    /// Whether it has a distributed clock.
    pub has_clock: bool,
    /// Watchdog of its process data, in ns; `None`: as after power-on.
    pub watchdog_ns: Option<u64>,
}

/// SYNC pulses of a device, as registers have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkClock {
    /// Registers 0x0980 and 0x0981.
    pub activation: u16,
    /// Register 0x09A0, in ns.
    pub sync0_ns: u32,
    /// Register 0x09A4, in ns.
    pub sync1_ns: u32,
    /// Shift of SYNC0, in ns.
    pub shift_ns: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkSyncManager {
    /// Start address.
    pub start: u16,
    /// Length in bytes.
    pub length: u16,
    /// Control byte.
    pub control: u8,
    /// Whether it is enabled.
    pub enabled: bool,
    /// Word of the ESI file: MBoxOut, MBoxIn, Outputs, Inputs; empty if not used.
    pub usage: &'static str,
    /// PDOs that are assigned to it, in order.
    pub pdos: Vec<u16>,
}

/// A PDO with its entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkPdo {
    /// Index of its object.
    pub index: u16,
    pub name: String,
    /// SyncManager that it is assigned to.
    pub sync_manager: Option<u8>,
    /// Whether its mapping is fixed.
    pub fixed: bool,
    /// Whether it must be assigned.
    pub mandatory: bool,
    /// PDOs that must not be assigned together with it.
    pub excludes: Vec<u16>,
    pub entries: Vec<NetworkEntry>,
}

/// An entry of a PDO.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkEntry {
    /// Index of its object; 0 for a gap.
    pub index: u16,
    pub subindex: u8,
    /// Length in bits.
    pub bits: u16,
    pub name: String,
    /// Its data type, as the file writes it; may be empty.
    pub kind: String,
}

impl NetworkPdo {
    fn bits(&self) -> usize {
        self.entries.iter().map(|entry| usize::from(entry.bits)).sum()
    }
}

impl NetworkDevice {
    pub(super) fn read(
        slave: Element<'_>,
        config: Element<'_>,
        account: &mut Account,
    ) -> Result<Self, EsiError> {
        let info = slave.needs("Info")?;
        let known = ["Info", "ProcessData", "Mailbox", "InitCmds", "PreviousPort", "HotConnect"];
        account.unknown(slave, &[&known[..], &["DC", "Dc", "Comment", "Diagnosis"]].concat());
        const OF_INFO: [&str; 16] = [
            "Name",
            "PhysAddr",
            "AutoIncAddr",
            "Physics",
            "VendorId",
            "ProductCode",
            "RevisionNo",
            "SerialNo",
            "ProductRevision",
            "Type",
            "TypeName",
            "Comment",
            "Identification",
            "IdentificationAdo",
            "ImageData16x14",
            "Image16x14",
        ];
        account.unknown(info, &OF_INFO);
        for data in slave.all("ProcessData") {
            let is_known = |child: &Element<'_>| {
                matches!(child.name(), "Send" | "Recv" | "RxPdo" | "TxPdo" | "Comment")
                    || child.name().starts_with("Sm")
            };
            for child in data.elements().filter(|child| !is_known(child)) {
                let what = format!("<{}> in <ProcessData> is not understood", child.name());
                account.add(child, what);
            }
        }
        let name = one_line(info.text_at("Name"));
        let number = |word| info.number_at(word, u32::MAX);
        let registers = registers(slave, account)?;
        let mut device = Self {
            line: slave.line(),
            station: number("PhysAddr")?,
            identity: [
                info.needs("VendorId")?.number(u32::MAX)?,
                info.needs("ProductCode")?.number(u32::MAX)?,
                number("RevisionNo")?,
                number("SerialNo")?,
            ],
            physics: info.text_at("Physics").to_owned(),
            alias: 0,
            device_id: 0,
            group: None,
            group_devices: 0,
            before: before(slave)?,
            sync_managers: sync_managers(slave, &registers)?,
            pdos: [pdos(slave, "RxPdo")?, pdos(slave, "TxPdo")?],
            bytes: [bytes(slave, "Send")?, bytes(slave, "Recv")?],
            protocols: [false; 2],
            bootstrap: None,
            startup: startup(slave, &name, account)?,
            clock: clock((slave, &name), &registers, account)?,
            has_clock: slave.first("DC").or_else(|| slave.first("Dc")).is_some(),
            watchdog_ns: watchdog(&registers),
            name,
        };
        device.has_clock |= device.clock.is_some();
        if device.watchdog_ns == Some(0) {
            device.watchdog_ns = None;
            let what = format!(
                "{}: its watchdog is switched off: onbeat leaves it as after power-on",
                device.name
            );
            account.add(slave, what);
        }
        device.read_mailbox(slave, account)?;
        device.read_identification(info, account);
        device.read_group(slave, account)?;
        device.assign(slave, account);
        device.complete(config, slave, account)?;
        Ok(device)
    }

    /// Reads the mailboxes, which are SyncManagers 0 and 1, and their protocols.
    fn read_mailbox(&mut self, slave: Element<'_>, account: &mut Account) -> Result<(), EsiError> {
        let Some(mailbox) = slave.first("Mailbox") else { return Ok(()) };
        const KNOWN: [&str; 10] =
            ["Send", "Recv", "Bootstrap", "Protocol", "CoE", "FoE", "EoE", "SoE", "AoE", "VoE"];
        // SOEM's sample file has Receive for Recv.
        account.unknown(mailbox, &[&KNOWN[..], &["Comment", "BootStrap", "Receive"]].concat());
        let has = |word: &'static str| {
            let listed = mailbox.all("Protocol").any(|protocol| protocol.text() == word);
            listed || mailbox.first(word).is_some()
        };
        self.protocols = [has("CoE"), has("FoE")];
        for word in ["EoE", "SoE", "AoE", "VoE"] {
            if has(word) {
                let at = mailbox.first(word).unwrap_or(mailbox);
                account.add(at, format!("{}: onbeat does not speak {word}", self.name));
            }
        }

        let area = |parent: Element<'_>, word| -> Result<Option<(u16, u16)>, EsiError> {
            let named = parent.first(word);
            let other = || parent.first("Receive").filter(|_| word == "Recv");
            let Some(area) = named.or_else(other) else { return Ok(None) };
            let start = area.needs("Start")?.number(0xffff)? as u16;
            let length = area.needs("Length")?.number(0xffff)? as u16;
            Ok(Some((start, length)))
        };
        let areas = [(0, "Send", 0x26, "MBoxOut"), (1, "Recv", 0x22, "MBoxIn")];
        for (number, word, control, usage) in areas {
            let Some((start, length)) = area(mailbox, word)? else { continue };
            let count = self.sync_managers.len().max(number + 1);
            self.sync_managers.resize(count, NetworkSyncManager::default());
            let channel = &mut self.sync_managers[number];
            let control = if channel.control == 0 { control } else { channel.control };
            *channel = NetworkSyncManager {
                start,
                length,
                control,
                enabled: true,
                usage,
                pdos: Vec::new(),
            };
        }
        if let Some(boot) = mailbox.first("Bootstrap").or_else(|| mailbox.first("BootStrap"))
            && let (Some(to), Some(from)) = (area(boot, "Send")?, area(boot, "Recv")?)
        {
            self.bootstrap = Some([to.0, to.1, from.0, from.1]);
        }
        Ok(())
    }

    /// Returns whether an alias or a device ID identifies it.
    #[must_use]
    pub const fn is_identified(&self) -> bool {
        self.alias != 0 || self.device_id != 0
    }

    /// Reads the hot connect group, and the alias or device ID that identifies it.
    fn read_group(&mut self, slave: Element<'_>, account: &mut Account) -> Result<(), EsiError> {
        let Some(group) = slave.first("HotConnect") else { return Ok(()) };
        let name = group.text_at("GroupName");
        self.group = Some(if name.is_empty() { self.name.clone() } else { name.to_owned() });
        let members = group.first("GroupMemberCnt").map_or(Ok(1), |count| count.number(0xffff))?;
        self.group_devices = usize::try_from(members).unwrap_or(1).max(1);
        for command in group.all("IdentifyCmd") {
            let address = command.number_at("Ado", 0xffff)?;
            // A read is compared with its validation; some tools have the value as its data.
            let compared = command.first("Validate").and_then(|value| value.first("Data"));
            let data = compared.or(command.first("Data")).map_or(Ok(Vec::new()), Element::bytes)?;
            let value = match data[..] {
                [low, high] => Some(u16::from_le_bytes([low, high])),
                _ => None,
            };
            self.identify((address, value), command, account);
        }
        Ok(())
    }

    /// Reads the alias or device ID that the file wants of a device on its own.
    fn read_identification(&mut self, info: Element<'_>, account: &mut Account) {
        let Some(own) = info.first("Identification") else { return };
        let text = own.attribute("Value").unwrap_or_else(|| own.text());
        let value = crate::esi::element::number(text);
        if text.is_empty() || value == Some(0) {
            return;
        }
        let register = own.first("Ado").or_else(|| info.first("IdentificationAdo"));
        let address = register.and_then(|register| register.number(0xffff).ok()).unwrap_or(0);
        let value = value.and_then(|value| u16::try_from(value).ok());
        self.identify((address, value), own, account);
    }

    /// Records the value of a register that identifies the device.
    fn identify(
        &mut self,
        (address, value): (u32, Option<u16>),
        at: Element<'_>,
        account: &mut Account,
    ) {
        match value {
            Some(value) if address == ALIAS => self.alias = value,
            Some(value) if address == u32::from(AL_STATUS_CODE) => self.device_id = value,
            // The request of the ID, which onbeat makes by itself.
            _ if address == u32::from(AL_CONTROL) => {}
            _ => {
                let what = format!(
                    "{}: it is identified by register {address:#06x}; onbeat does so by the station alias (0x0012) or the device ID (0x0134): set an alias with `onbeat bus alias`",
                    self.name
                );
                account.add(at, what);
            }
        }
    }

    /// Brings the assignment of the SyncManagers and of the PDOs together.
    fn assign(&mut self, slave: Element<'_>, account: &mut Account) {
        for (number, channel) in (0u8..).zip(&mut self.sync_managers) {
            for (direction, usage) in ["Outputs", "Inputs"].into_iter().enumerate() {
                let pdos = &mut self.pdos[direction];
                if channel.pdos.is_empty() {
                    let here = pdos.iter().filter(|pdo| pdo.sync_manager == Some(number));
                    channel.pdos = here.map(|pdo| pdo.index).collect();
                }
                for pdo in pdos.iter_mut().filter(|pdo| channel.pdos.contains(&pdo.index)) {
                    pdo.sync_manager = Some(number);
                    if channel.usage.is_empty() {
                        channel.usage = usage;
                    }
                }
            }
        }
        for pdos in &mut self.pdos {
            for pdo in pdos.iter_mut() {
                let number = pdo.sync_manager.map(usize::from);
                let is_assigned = number.is_some_and(|number| {
                    let channel = self.sync_managers.get(number);
                    channel.is_some_and(|channel| channel.pdos.contains(&pdo.index))
                });
                if number.is_some() && !is_assigned {
                    pdo.sync_manager = None;
                }
            }
        }
        for channel in &self.sync_managers {
            // Where the file has no PDO of a direction at all, `complete` makes them from its lengths.
            if self.pdos[usize::from(channel.usage == "Inputs")].is_empty() {
                continue;
            }
            for index in &channel.pdos {
                if !self.pdos.iter().flatten().any(|pdo| pdo.index == *index) {
                    let what = format!(
                        "{}: PDO {index:#06x} is assigned and not in the file, so it has no entries here",
                        self.name
                    );
                    account.add(slave, what);
                }
            }
        }
    }

    /// Adds PDOs where the file has the lengths of the process data only, with the names of the
    /// variables in the process image; compares the lengths otherwise.
    fn complete(
        &mut self,
        config: Element<'_>,
        slave: Element<'_>,
        account: &mut Account,
    ) -> Result<(), EsiError> {
        let of_image = [("Outputs", "Send", "Outputs"), ("Inputs", "Recv", "Inputs")];
        for (direction, (usage, area, part)) in of_image.into_iter().enumerate() {
            let assigned = || self.pdos[direction].iter().filter(|pdo| pdo.sync_manager.is_some());
            let bytes = self.bytes[direction];
            if assigned().next().is_some() {
                let here: usize = self
                    .sync_managers
                    .iter()
                    .filter(|channel| channel.usage == usage)
                    .map(|channel| {
                        let of = |index: &u16| {
                            self.pdos[direction].iter().find(|pdo| pdo.index == *index)
                        };
                        let bits: usize =
                            channel.pdos.iter().filter_map(of).map(NetworkPdo::bits).sum();
                        bits.div_ceil(8)
                    })
                    .sum();
                if bytes > 0 && here != bytes {
                    let what = format!(
                        "{}: its PDOs have {here} bytes of {}, its process data {bytes}; the PDOs count",
                        self.name,
                        usage.to_lowercase()
                    );
                    account.add(slave, what);
                }
                continue;
            }
            if bytes == 0 {
                continue;
            }

            let first = |channel: &NetworkSyncManager| channel.usage == usage;
            let Some(number) = self.sync_managers.iter().position(first) else {
                return Err(slave.lacks(format!(
                    "the SyncManager of its {bytes} bytes of {}, as <Sm2> or as a start-up command of register 0x0800",
                    usage.to_lowercase()
                )));
            };
            let indices = self.named_pdos(number, if direction == 0 { 0x1600 } else { 0x1a00 });
            // Lengths of each are not in the file: the first has all values.
            let mut entries = variables(config, slave, (area, part), direction)?;
            for &index in &indices {
                let is_mapped = self.startup.iter().any(|command| command.value.index == index);
                self.pdos[direction].push(NetworkPdo {
                    index,
                    name: usage.to_owned(),
                    sync_manager: Some(number as u8),
                    fixed: !is_mapped,
                    entries: std::mem::take(&mut entries),
                    ..NetworkPdo::default()
                });
            }
            self.sync_managers[number].pdos = indices;
        }
        Ok(())
    }
}

impl NetworkDevice {
    /// Returns the PDOs of a SyncManager that the file names without their entries: in the
    /// SyncManager, or in start-up commands of its assignment; otherwise the usual one.
    fn named_pdos(&self, number: usize, usual: u16) -> Vec<u16> {
        let mut named = self.sync_managers[number].pdos.clone();
        if named.is_empty() {
            let mut assigned = BTreeMap::new();
            let written = self.startup.iter().map(|command| &command.value);
            for value in written.filter(|value| usize::from(value.index) == 0x1c10 + number) {
                // Complete access has entry 0 in two bytes.
                let (first, pdos) = match (value.complete, value.entry) {
                    (true, _) => (1, value.bytes.get(2..).unwrap_or_default()),
                    (false, 0) => continue,
                    (false, entry) => (entry, &value.bytes[..]),
                };
                let words = pdos.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]]));
                assigned.extend((first..=254).zip(words));
            }
            named = assigned.into_values().filter(|pdo| *pdo != 0).collect();
        }
        let mut seen = BTreeSet::new();
        named.retain(|pdo| seen.insert(*pdo));
        if named.is_empty() { vec![usual] } else { named }
    }
}

/// Returns station address and port of the device before one: the selected one of several.
fn before(slave: Element<'_>) -> Result<Option<(u32, u8)>, EsiError> {
    let selected = slave.all("PreviousPort").find(|port| port.flag("Selected"));
    let Some(previous) = selected.or_else(|| slave.first("PreviousPort")) else { return Ok(None) };
    let Some(station) = previous.first("PhysAddr") else { return Ok(None) };
    let letter = previous.first("Port").map(Element::text).unwrap_or("B");
    let Some(port) = ["A", "B", "C", "D"].iter().position(|one| one.eq_ignore_ascii_case(letter))
    else {
        return Err(EsiError::Value {
            line: previous.line(),
            element: "Port".to_owned(),
            text: letter.to_owned(),
            wanted: "A, B, C or D".to_owned(),
        });
    };
    Ok(Some((station.number(0xffff)?, port as u8)))
}

/// Returns the bytes of process data of a direction: every area of its own.
fn bytes(slave: Element<'_>, area: &'static str) -> Result<usize, EsiError> {
    let areas = slave.first("ProcessData").into_iter().flat_map(|data| data.all(area));
    areas
        .map(|area| {
            let bits = area.number_at("BitLength", MOST_BITS)?;
            Ok((bits as usize).div_ceil(8))
        })
        .sum()
}

/// Reads the SyncManagers: `<Sm0>` and so on, or else the commands that write their registers.
fn sync_managers(
    slave: Element<'_>,
    registers: &[RegisterCommand],
) -> Result<Vec<NetworkSyncManager>, EsiError> {
    let mut channels: Vec<NetworkSyncManager> = Vec::new();
    let mut at = |number: usize, channel: NetworkSyncManager| {
        channels.resize(channels.len().max(number + 1), NetworkSyncManager::default());
        channels[number] = channel;
    };
    for command in registers {
        let Some(offset) = command.address.checked_sub(SYNC_MANAGER) else { continue };
        for (place, bytes) in command.data.chunks_exact(8).enumerate() {
            let number = usize::from(offset) / 8 + place;
            if offset % 8 != 0 || number >= MOST_SYNC_MANAGERS {
                continue;
            }
            let word = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
            if bytes[6] & 1 == 0 {
                continue;
            }
            at(
                number,
                NetworkSyncManager {
                    start: word(0),
                    length: word(2),
                    control: bytes[4],
                    enabled: true,
                    usage: usage_of(bytes[4], number),
                    pdos: Vec::new(),
                },
            );
        }
    }

    for element in slave.first("ProcessData").into_iter().flat_map(Element::elements) {
        let Some(number) = element.name().strip_prefix("Sm").and_then(|n| n.parse().ok()) else {
            continue;
        };
        if number >= MOST_SYNC_MANAGERS {
            return Err(element.not_simulated(format!(
                "is one too many: a device has at most {MOST_SYNC_MANAGERS} SyncManagers"
            )));
        }
        let control = element.number_at("ControlByte", 0xff)? as u8;
        let usage = match element.text_at("Type") {
            "Outputs" => "Outputs",
            "Inputs" => "Inputs",
            "MBoxOut" => "MBoxOut",
            "MBoxIn" => "MBoxIn",
            _ => usage_of(control, number),
        };
        let pdos = element.all("Pdo").map(|pdo| Ok(pdo.number(0xffff)? as u16));
        at(
            number,
            NetworkSyncManager {
                start: element.number_at("StartAddress", 0xffff)? as u16,
                length: element.number_at("DefaultSize", 0xffff)? as u16,
                control,
                enabled: element
                    .first("Enable")
                    .is_none_or(|enable| enable.number(0xff).map_or(true, |on| on & 1 != 0)),
                usage,
                pdos: pdos.collect::<Result<_, EsiError>>()?,
            },
        );
    }
    Ok(channels)
}

/// Returns the usage of a SyncManager by its control byte: bits 0 and 1 are the mode (2: mailbox),
/// bits 2 and 3 the direction (1: written by the MainDevice).
const fn usage_of(control: u8, number: usize) -> &'static str {
    match (control & 0x03, control & 0x0c) {
        (2, 0x04) if number < 2 => "MBoxOut",
        (2, 0) if number < 2 => "MBoxIn",
        (_, 0x04) => "Outputs",
        _ => "Inputs",
    }
}

fn pdos(slave: Element<'_>, word: &'static str) -> Result<Vec<NetworkPdo>, EsiError> {
    let listed = slave.first("ProcessData").into_iter().flat_map(|data| data.all(word));
    listed
        .map(|pdo| {
            let excludes = pdo.all("Exclude").map(|other| Ok(other.number(0xffff)? as u16));
            let entries = pdo.all("Entry").map(|entry| {
                Ok(NetworkEntry {
                    index: entry.number_at("Index", 0xffff)? as u16,
                    subindex: entry.number_at("SubIndex", 0xff)? as u8,
                    bits: entry.number_at("BitLen", 0xffff)? as u16,
                    name: entry.text_at("Name").to_owned(),
                    kind: entry.text_at("DataType").to_owned(),
                })
            });
            Ok(NetworkPdo {
                index: pdo.needs("Index")?.number(0xffff)? as u16,
                name: pdo.localized("Name").to_owned(),
                sync_manager: pdo.numbered("Sm", 0xff)?.map(|number| number as u8),
                fixed: pdo.flag("Fixed"),
                mandatory: pdo.flag("Mandatory"),
                excludes: excludes.collect::<Result<_, EsiError>>()?,
                entries: entries.collect::<Result<_, EsiError>>()?,
            })
        })
        .collect()
}

/// Returns entries for process data without PDOs: the variables of the process image that lie there,
/// and numbered bytes where there are none.
fn variables(
    config: Element<'_>,
    slave: Element<'_>,
    (area, part): (&'static str, &'static str),
    direction: usize,
) -> Result<Vec<NetworkEntry>, EsiError> {
    let object: u16 = if direction == 0 { 0x7000 } else { 0x6000 };
    let mut found: Vec<(u32, u16, String, String)> = Vec::new();
    let mut total = 0;
    let areas: Vec<Element<'_>> =
        slave.first("ProcessData").into_iter().flat_map(|data| data.all(area)).collect();
    let image = config.at(&["ProcessImage", part]);
    for area in areas {
        let start = area.number_at("BitStart", u32::MAX)?;
        let bits = area.number_at("BitLength", MOST_BITS)?;
        for variable in image.into_iter().flat_map(|image| image.all("Variable")) {
            let at = variable.number_at("BitOffs", u32::MAX)?;
            let size = variable.number_at("BitSize", 1 << 16)?;
            let is_inside = at >= start
                && u64::from(at) + u64::from(size) <= u64::from(start) + u64::from(bits);
            if is_inside && (1..=248).contains(&size) {
                let name = variable.text_at("Name").to_owned();
                let kind = variable.text_at("DataType").to_owned();
                found.push((total + at - start, size as u16, name, kind));
            }
        }
        total += bits.next_multiple_of(8);
    }

    if found.is_empty() {
        let byte = |at: u32| (8 * at, 8, format!("Byte {at}"), "USINT".to_owned());
        found.extend((0..total / 8).map(byte));
    }
    found.sort_by_key(|variable| variable.0);
    let mut entries = Vec::new();
    let mut next = 0;
    let gap = |entries: &mut Vec<NetworkEntry>, from: u32, to: u32| {
        let mut at = from;
        while at < to {
            let bits = (to - at).min(8) as u16;
            entries.push(NetworkEntry { bits, ..NetworkEntry::default() });
            at += u32::from(bits);
        }
    };
    for (at, size, name, kind) in found {
        // Of two variables in one place, the first.
        if at < next {
            continue;
        }
        gap(&mut entries, next, at);
        let number = entries.len() as u16;
        entries.push(NetworkEntry {
            index: object + number / 200,
            subindex: (number % 200 + 1) as u8,
            bits: size,
            name,
            kind,
        });
        next = at + u32::from(size);
    }
    gap(&mut entries, next, total);
    Ok(entries)
}

/// Returns the SYNC pulses: the registers that are written, or else what the file says about them.
fn clock(
    (slave, name): (Element<'_>, &str),
    registers: &[RegisterCommand],
    account: &mut Account,
) -> Result<Option<NetworkClock>, EsiError> {
    let data = |address: u16, least: usize| {
        let last = registers.iter().rev().find(|command| command.address == address);
        last.map(|command| command.data.as_slice()).filter(|data| data.len() >= least)
    };
    let long = |data: &[u8]| u32::from_le_bytes([data[0], data[1], data[2], data[3]]);
    let element = slave.first("DC").or_else(|| slave.first("Dc"));
    let number = |word| element.map_or(Ok(0), |dc| dc.number_at(word, u32::MAX));
    let time1 = element.and_then(|dc| dc.first("CycleTime1"));
    let is_before =
        |time: &Element<'_>| crate::esi::element::number(time.text()).is_some_and(|ns| ns < 0);
    let [sync0_ns, sync1_ns] = match (data(SYNC_CYCLE, 4), time1.filter(is_before)) {
        (Some(data), _) => [long(data), data.get(4..8).map_or(0, long)],
        (None, None) => [number("CycleTime0")?, number("CycleTime1")?],
        (None, Some(time)) => {
            let what =
                format!("{name}: SYNC1 comes before SYNC0 ({} ns): it is left out", time.text());
            account.add(time, what);
            [number("CycleTime0")?, 0]
        }
    };
    let shift = element.and_then(|dc| dc.first("ShiftTime")).map(Element::text);
    let usual = match (sync0_ns, sync1_ns) {
        (0, _) => 0,
        (_, 0) => 0x0300,
        _ => 0x0700,
    };
    let activation =
        data(SYNC_UNIT, 2).map_or(usual, |data| u16::from_le_bytes([data[0], data[1]]));
    Ok((activation & 0x0600 != 0 && sync0_ns > 0).then_some(NetworkClock {
        activation,
        sync0_ns,
        sync1_ns,
        shift_ns: shift.and_then(crate::esi::element::number).unwrap_or(0),
    }))
}

/// Returns the watchdog of the process data that is written, in ns; 0 if it is switched off.
fn watchdog(registers: &[RegisterCommand]) -> Option<u64> {
    let word = |address: u16| {
        let command = registers.iter().rev().find(|command| command.address == address)?;
        let [low, high, ..] = command.data[..] else { return None };
        Some(u64::from(u16::from_le_bytes([low, high])))
    };
    let unit_ns = (word(WATCHDOG_DIVIDER).unwrap_or(2_498) + 2) * 40;
    word(WATCHDOG_TIME).map(|units| units * unit_ns)
}
