//! A device file, and an ESI file with the types that it uses, from an ENI file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::{
    NetworkDevice, NetworkEntry, NetworkError, NetworkInformation, NetworkPdo, StartupCommand,
};
use crate::description::{Description, DescriptionError, ResolvedDescription};

/// Longest name of a device in a device file, in bytes.
const LONGEST_NAME: usize = 64;
/// Watchdog of a device after power-on, in ns.
const USUAL_WATCHDOG_NS: u64 = 100_000_000;

/// Watchdogs that a device file can have, in ns.
const WATCHDOGS_NS: std::ops::RangeInclusive<u64> = 100_000..=6_553_500_000;

/// The texts of two files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFiles {
    /// The device file, in TOML.
    pub devices: String,
    /// The ESI file, in XML.
    pub types: String,
}

/// A type of devices with equal definitions.
struct DeviceType<'n> {
    name: String,
    device: &'n NetworkDevice,
    /// Number of ports that cables need.
    ports: u8,
}

impl DeviceFiles {
    /// Writes the files for a network. `esi` is the name of the ESI file, relative to the device
    /// file. What cannot be expressed is added to the account of `network`.
    ///
    /// ```no_run
    /// use onbeat_ethercat::eni::{DeviceFiles, NetworkInformation};
    ///
    /// let mut network = NetworkInformation::read(&std::fs::read("cell.xml")?)?;
    /// let files = DeviceFiles::from_network(&mut network, "cell-types.xml")?;
    /// std::fs::write("cell.toml", files.devices)?;
    /// std::fs::write("cell-types.xml", files.types)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NetworkError::Inconsistent`] when onbeat would refuse the device file, with the reason.
    pub fn from_network(network: &mut NetworkInformation, esi: &str) -> Result<Self, NetworkError> {
        let (types, type_of) = types(network);
        let types_text = types_text(&types);
        let names: Vec<String> = types.iter().map(|one| one.name.clone()).collect();
        let inconsistent = |why: DescriptionError| NetworkError::Inconsistent(why.to_string());
        let described = |devices: &str| {
            Description::from_toml_with(devices, |_| Ok(types_text.clone().into_bytes()))
        };
        let left_out = network.left_out.clone();
        let mut devices = devices_text(network, esi, (&names, &type_of), true);
        let mut description = described(&devices).map_err(inconsistent)?;
        if let Err(why @ DescriptionError::Group { .. }) = ResolvedDescription::new(&description) {
            // The other tool may connect groups as onbeat does not.
            network.left_out = left_out;
            network.leave_out(0, why.to_string());
            devices = devices_text(network, esi, (&names, &type_of), false);
            description = described(&devices).map_err(inconsistent)?;
        }
        let resolved = ResolvedDescription::new(&description).map_err(inconsistent)?;
        let mut order = resolved.order_on_cable().into_iter().enumerate();
        if let Some((place, _)) = order.find(|(place, position)| place != position) {
            let line = network.devices.get(place).map_or(0, |one| one.line);
            let what = "the ports give another order of the devices than the file; the order of the ports counts"
                .to_owned();
            network.leave_out(line, what);
        }
        Ok(Self { devices, types: types_text })
    }
}

/// Returns the types, and the type of each device.
fn types(network: &NetworkInformation) -> (Vec<DeviceType<'_>>, Vec<usize>) {
    let mut types: Vec<DeviceType<'_>> = Vec::new();
    let mut names = BTreeSet::new();
    let mut type_of = Vec::new();
    for device in &network.devices {
        let behind = network.devices.iter().filter_map(|other| other.before);
        let last = behind.filter(|(station, _)| *station == device.station).map(|(_, port)| port);
        let ports = last.max().map_or(2, |port| port + 1).max(2);
        let same = types.iter().position(|one| is_same_type(one.device, device));
        let number = same.unwrap_or_else(|| {
            let name = unique(&type_name(device), &mut names);
            types.push(DeviceType { name, device, ports });
            types.len() - 1
        });
        types[number].ports = types[number].ports.max(ports);
        type_of.push(number);
    }
    (types, type_of)
}

fn is_same_type(one: &NetworkDevice, other: &NetworkDevice) -> bool {
    one.identity[..3] == other.identity[..3]
        && one.sync_managers == other.sync_managers
        && one.pdos == other.pdos
        && one.protocols == other.protocols
        && one.bootstrap == other.bootstrap
        && one.has_clock == other.has_clock
        && one.physics == other.physics
        && writes_mapping(one) == writes_mapping(other)
}

/// Returns whether start-up commands write PDO assignments, and PDO mappings.
fn writes_mapping(device: &NetworkDevice) -> [bool; 2] {
    let writes =
        |range: &dyn Fn(u16) -> bool| device.startup.iter().any(|one| range(one.value.index));
    [
        writes(&|index| (0x1c10..0x1c30).contains(&index)),
        writes(&|index| (0x1600..0x1800).contains(&index) || (0x1a00..0x1c00).contains(&index)),
    ]
}

/// Returns the order name, which TwinCAT writes in parentheses: `Term 2 (EL2008)`.
fn type_name(device: &NetworkDevice) -> String {
    let inner = device.name.strip_suffix(')').and_then(|name| name.rsplit_once('('));
    let word = inner.map_or(device.name.as_str(), |(_, inner)| inner);
    let kept: String = word
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
        .take(40)
        .collect();
    let kept = kept.trim_matches('-');
    if kept.is_empty() { format!("product-{:x}", device.identity[1]) } else { kept.to_owned() }
}

/// Returns a name that is not taken: itself, or with a number.
fn unique(wanted: &str, taken: &mut BTreeSet<String>) -> String {
    let mut number = 1;
    loop {
        let name = if number == 1 { wanted.to_owned() } else { format!("{wanted} {number}") };
        if taken.insert(name.clone()) {
            return name;
        }
        number += 1;
    }
}

/// Returns a name for each device, as in the network where it can be.
fn unique_names(network: &NetworkInformation) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let name = |(place, device): (usize, &NetworkDevice)| {
        let mut name = device.name.trim().to_owned();
        while name.len() > LONGEST_NAME - 4 {
            name.pop();
        }
        let wanted = if name.is_empty() { format!("device {}", place + 1) } else { name };
        unique(&wanted, &mut taken)
    };
    network.devices.iter().enumerate().map(name).collect()
}

/// Returns the device file, with the devices in the order of the network.
fn devices_text(
    network: &mut NetworkInformation,
    esi: &str,
    (types, type_of): (&[String], &[usize]),
    with_groups: bool,
) -> String {
    let mut text = String::from("[segment]\n");
    let name: String = network.name.chars().take(64).collect();
    let _ = writeln!(text, "name = {}", quoted(if name.is_empty() { "network" } else { &name }));
    if let Some(watchdog_ns) = common_watchdog(network) {
        let _ = writeln!(text, "watchdog_ms = {:.4}", watchdog_ns as f64 / 1e6);
    }
    for name in types {
        let _ = write!(
            text,
            "\n[types.{}]\nesi = {}\ndevice = {}\n",
            quoted(name),
            quoted(esi),
            quoted(name)
        );
    }

    let names = unique_names(network);
    let stations: BTreeMap<u32, usize> =
        network.devices.iter().enumerate().map(|(place, device)| (device.station, place)).collect();
    let mut notes = Vec::new();
    let groups = if with_groups { groups_by_device(network) } else { Vec::new() };
    for (place, device) in network.devices.iter().enumerate() {
        let _ = write!(
            text,
            "\n[[devices]]\ntype = {}\nname = {}\n",
            quoted(&types[type_of[place]]),
            quoted(&names[place])
        );
        let numbers = [("alias", device.alias), ("device_id", device.device_id)];
        for (key, number) in numbers.into_iter().filter(|(_, number)| *number != 0) {
            let _ = writeln!(text, "{key} = {number}");
        }
        if device.identity[3] != 0 {
            let _ = writeln!(text, "serial = {}", device.identity[3]);
        }
        match device.before.map(|(station, port)| (stations.get(&station), station, port)) {
            Some((Some(&before), _, port)) if before < place && port > 0 => {
                let _ = writeln!(text, "after = {}\nport = {port}", quoted(&names[before]));
            }
            Some((_, station, _)) if place > 0 => notes.push((
                device.line,
                format!(
                    "{}: the device before it ({station}) is not in front of it in the file; it is connected to {}",
                    names[place],
                    names[place - 1]
                ),
            )),
            _ => {}
        }
        if let Some(group) = groups.get(place).and_then(Option::as_ref) {
            let _ = writeln!(text, "group = {}", quoted(group));
        } else if let Some(group) = &device.group {
            notes.push((
                device.line,
                format!(
                    "{}: hot connect group \"{group}\": the device file has it as a device that is always there",
                    names[place]
                ),
            ));
        }
        write_setup(&mut text, device);
    }
    for (line, what) in notes {
        network.leave_out(line, what);
    }
    let is_joint = |(place, device): (usize, &NetworkDevice)| {
        let maps = |direction: usize, index: u16| {
            let entries = device.pdos[direction].iter().flat_map(|pdo| &pdo.entries);
            entries.into_iter().any(|entry| entry.index == index)
        };
        maps(0, 0x6040) && maps(1, 0x6041) && groups.get(place).is_none_or(Option::is_none)
    };
    if network.devices.iter().enumerate().any(is_joint) {
        text.push_str(
            "\n# Each CiA 402 drive is a joint of `onbeat robot run`. Limits, names and signs of joints\n\
             # are in [[joints]] tables, which the ENI file does not have.\n[robot]\n",
        );
    }
    text
}

/// Returns the hot connect group of each device, for groups that are identified by an alias or a device ID.
fn groups_by_device(network: &NetworkInformation) -> Vec<Option<String>> {
    let mut groups = vec![None; network.devices.len()];
    let mut names = BTreeSet::new();
    for (place, head) in network.devices.iter().enumerate() {
        let Some(group) = head.group.as_ref().filter(|_| head.is_identified()) else { continue };
        let name = unique(group, &mut names);
        for member in groups.iter_mut().skip(place).take(head.group_devices.max(1)) {
            *member = Some(name.clone());
        }
    }
    groups
}

/// Writes clock and start-up values of a device.
fn write_setup(text: &mut String, device: &NetworkDevice) {
    let us = |ns: i64| {
        let (sign, ns) = (if ns < 0 { "-" } else { "" }, ns.unsigned_abs());
        format!("{sign}{}.{:03}", ns / 1_000, ns % 1_000)
    };
    if let Some(clock) = device.clock {
        let shift = clock.shift_ns % i64::from(clock.sync0_ns);
        let sync1 = if clock.activation & 0x0400 != 0 {
            format!(", sync1_us = {}", us(clock.sync1_ns.into()))
        } else {
            String::new()
        };
        let _ = writeln!(
            text,
            "sync0 = {{ period_us = {}, shift_us = {}, activate = {:#06x}{sync1} }}",
            us(clock.sync0_ns.into()),
            us(shift),
            clock.activation
        );
    }
    for StartupCommand { value, comment } in &device.startup {
        let bytes: String = value.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let comment: String = comment.chars().filter(|one| !one.is_control()).collect();
        let comment = comment.trim();
        let _ = write!(
            text,
            "\n[[devices.startup]]{}\nobject = \"{:04x}:{:x}\"\nvalue = \"hex:{bytes}\"\n",
            if comment.is_empty() { String::new() } else { format!(" # {comment}") },
            value.index,
            value.entry
        );
        if value.complete {
            text.push_str("complete = true\n");
        }
    }
}

/// Returns the watchdog that all devices with outputs have, if it is not the usual one; lists others.
fn common_watchdog(network: &mut NetworkInformation) -> Option<u64> {
    let with_outputs = || network.devices.iter().filter(|device| device.bytes[0] > 0);
    let common = with_outputs().map(|one| one.watchdog_ns.unwrap_or(USUAL_WATCHDOG_NS)).min()?;
    let others: Vec<(u32, String)> = with_outputs()
        .filter(|one| one.watchdog_ns.unwrap_or(USUAL_WATCHDOG_NS) != common)
        .map(|one| {
            let ms = one.watchdog_ns.unwrap_or(USUAL_WATCHDOG_NS) as f64 / 1e6;
            let what = format!(
                "{}: a watchdog of {ms} ms: a device file has one for all devices, {} ms",
                one.name,
                common as f64 / 1e6
            );
            (one.line, what)
        })
        .collect();
    for (line, what) in others {
        network.leave_out(line, what);
    }
    if !WATCHDOGS_NS.contains(&common) {
        let what =
            format!("a watchdog of {} ms: a device file has 0.1 to 6553.5 ms", common as f64 / 1e6);
        network.leave_out(0, what);
        return None;
    }
    (common != USUAL_WATCHDOG_NS).then_some(common)
}

/// Returns the ESI file of the types.
fn types_text(types: &[DeviceType<'_>]) -> String {
    let mut vendors: BTreeMap<u32, Vec<&DeviceType<'_>>> = BTreeMap::new();
    for one in types {
        vendors.entry(one.device.identity[0]).or_default().push(one);
    }
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<EtherCATInfoList>\n");
    for (vendor, types) in vendors {
        let _ = write!(
            text,
            "<EtherCATInfo>\n<Vendor><Id>#x{vendor:x}</Id><Name>vendor {vendor:#x}</Name></Vendor>\n<Descriptions><Devices>\n"
        );
        for one in types {
            write_type(&mut text, one);
        }
        text.push_str("</Devices></Descriptions>\n</EtherCATInfo>\n");
    }
    text.push_str("</EtherCATInfoList>\n");
    text
}

fn write_type(text: &mut String, one: &DeviceType<'_>) {
    let device = one.device;
    let [_, product, revision, _] = device.identity;
    let letters: Vec<char> =
        device.physics.chars().filter(|letter| letter.is_alphabetic()).collect();
    let ports = usize::from(one.ports).max(letters.len()).min(4);
    let physics: String =
        (0..ports).map(|port| letters.get(port).copied().unwrap_or('Y')).collect();
    let name = escaped(&one.name);
    let _ = write!(
        text,
        "<Device Physics=\"{physics}\">\n<Type ProductCode=\"#x{product:x}\" RevisionNo=\"#x{revision:x}\">{name}</Type>\n<Name>{name}</Name>\n"
    );
    for channel in &device.sync_managers {
        let size = match channel.usage {
            "MBoxOut" | "MBoxIn" => format!(" DefaultSize=\"{}\"", channel.length),
            _ => String::new(),
        };
        let _ = writeln!(
            text,
            "<Sm StartAddress=\"#x{:x}\" ControlByte=\"#x{:x}\" Enable=\"{}\"{size}>{}</Sm>",
            channel.start,
            channel.control,
            u8::from(channel.enabled),
            channel.usage
        );
    }
    for (direction, word) in ["RxPdo", "TxPdo"].into_iter().enumerate() {
        for pdo in in_order(device, direction) {
            write_pdo(text, word, pdo, &device.pdos[direction]);
        }
    }

    let [coe, foe] = device.protocols;
    if coe || foe {
        text.push_str("<Mailbox>");
        let [assigns, maps] = writes_mapping(device).map(u8::from);
        if coe {
            let complete = u8::from(device.startup.iter().any(|command| command.value.complete));
            let _ = write!(
                text,
                "<CoE SdoInfo=\"1\" PdoAssign=\"{assigns}\" PdoConfig=\"{maps}\" CompleteAccess=\"{complete}\"/>"
            );
        }
        text.push_str(if foe { "<FoE/></Mailbox>\n" } else { "</Mailbox>\n" });
    } else if device.sync_managers.iter().any(|channel| channel.usage == "MBoxOut") {
        text.push_str("<Mailbox/>\n");
    }
    if device.has_clock {
        text.push_str("<Dc><OpMode><Name>free</Name><AssignActivate>#x0</AssignActivate></OpMode>");
        if let Some(clock) = device.clock {
            let _ = write!(
                text,
                "<OpMode><Name>DC</Name><AssignActivate>#x{:x}</AssignActivate></OpMode>",
                clock.activation
            );
        }
        text.push_str("</Dc>\n");
    }
    if let Some(boot) = device.bootstrap {
        let bytes: String = boot
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let _ = writeln!(
            text,
            "<Eeprom><ByteSize>2048</ByteSize><BootStrap>{bytes}</BootStrap></Eeprom>"
        );
    }
    text.push_str("</Device>\n");
}

/// Returns the PDOs of a direction: those that are assigned, in the order of their SyncManagers, then
/// the others.
fn in_order(device: &NetworkDevice, direction: usize) -> Vec<&NetworkPdo> {
    let pdos = &device.pdos[direction];
    let find = |index: &u16| pdos.iter().find(|pdo| pdo.index == *index);
    let assigned =
        device.sync_managers.iter().flat_map(|channel| channel.pdos.iter().filter_map(find));
    let mut all: Vec<&NetworkPdo> = assigned.collect();
    all.extend(pdos.iter().filter(|pdo| pdo.sync_manager.is_none()));
    all
}

fn write_pdo(text: &mut String, word: &str, pdo: &NetworkPdo, all: &[NetworkPdo]) {
    let channel = pdo.sync_manager.map_or_else(String::new, |number| format!(" Sm=\"{number}\""));
    let _ = write!(
        text,
        "<{word}{channel} Fixed=\"{}\" Mandatory=\"{}\"><Index>#x{:x}</Index><Name>{}</Name>",
        u8::from(pdo.fixed),
        u8::from(pdo.mandatory && pdo.sync_manager.is_some()),
        pdo.index,
        escaped(&pdo.name)
    );
    let is_assigned =
        |index: u16| all.iter().any(|other| other.index == index && other.sync_manager.is_some());
    for other in pdo.excludes.iter().filter(|other| **other != pdo.index) {
        // A tool that assigned both knew better.
        if pdo.sync_manager.is_none() || !is_assigned(*other) {
            let _ = write!(text, "<Exclude>#x{other:x}</Exclude>");
        }
    }
    for NetworkEntry { index, subindex, bits, name, kind } in &pdo.entries {
        if *index == 0 {
            let mut left = *bits;
            while left > 0 {
                let part = left.min(248);
                let _ = write!(text, "<Entry><Index>0</Index><BitLen>{part}</BitLen></Entry>");
                left -= part;
            }
            continue;
        }
        let kind = if kind.is_empty() {
            String::new()
        } else {
            format!("<DataType>{}</DataType>", escaped(kind))
        };
        let _ = write!(
            text,
            "<Entry><Index>#x{index:x}</Index><SubIndex>{subindex}</SubIndex><BitLen>{bits}</BitLen><Name>{}</Name>{kind}</Entry>",
            escaped(name)
        );
    }
    let _ = writeln!(text, "</{word}>");
}

/// Returns a string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            control if control.is_control() => quoted.push(' '),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns text of XML.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            control if control.is_control() => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}
