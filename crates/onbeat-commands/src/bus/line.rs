//! Reads of devices on a cable, without a running bus: `onbeat bus pdos`, `sdos`, `sii read`,
//! `registers`, `topology`, `state --interface`, `sdo read --interface`.

use std::path::Path;

use onbeat_control::SdoAction;
use onbeat_ethercat::description::{ChannelsTable, PdoDirection, mappable};
use onbeat_ethercat::esi::DcMode;
use onbeat_ethercat::layout::DeviceKind;
use onbeat_ethercat::setup::Sync0;
use onbeat_ethercat::sii::{Sii, SiiEntry, SiiPdo};
use onbeat_ethercat::{al, al_codes};
use onbeat_host::foreign;
use onbeat_robot::bus::{Upstream, upstreams};
use onbeat_robot::commission::{CommissionError, DeviceRegisters, Line};
use serde_json::{Value, json};

use super::drawing::drawn;
use super::line_words::{
    LineWire, on_line, place_on, places_on, protocol_words, state_word, type_word, value_word,
};
use super::options::{
    CableDevice, LineOptions, SdoOptions, SdosOptions, SiiReadOptions, SiiTypeOptions,
    TopologyOptions, cable_device,
};
use super::say_object;
use crate::byte_words::number;
use crate::failure::bus::BusFailure;
use crate::term::{Tone, advise, letters, print_json, say};
use crate::{ExitVerdict, Failure};

/// Largest EEPROM, in bytes.
const MOST_IMAGE: u64 = 131_072;
/// Most entries of an object after entry 0, whatever a device says (CiA 301).
const MOST_ENTRIES: u64 = 254;

// ---- states, registers, topology

pub(crate) fn states(interface: &str, is_json: bool) -> Result<ExitVerdict, Failure> {
    on_line(interface, |line| {
        for place in 0..line.devices() {
            let (state, code) = line.state(place)?;
            let has_error = state & al::ERROR != 0;
            if is_json {
                print_json(&json!({
                    "place": place, "al_state": state & al::STATE, "al_error": has_error, "al_status_code": code,
                }))?;
                continue;
            }
            let error = if has_error {
                format!("  error: {}", al_codes::words(code))
            } else {
                String::new()
            };
            say(Tone::Plain, &format!("{place:>4}  {}{error}", state_word(state)));
        }
        Ok(ExitVerdict::Pass)
    })
}

pub(crate) fn registers(options: &LineOptions) -> Result<ExitVerdict, Failure> {
    on_line(&options.interface, |line| {
        for place in places_on(line, options.device)? {
            let seen = line.registers(place)?;
            if options.json {
                print_json(&registers_json(place, &seen))?;
            } else {
                registers_text(place, &seen);
            }
        }
        Ok(ExitVerdict::Pass)
    })
}

fn registers_json(place: u16, seen: &DeviceRegisters) -> Value {
    let ports: Vec<Value> = (0..4)
        .map(|port| json!({ "link": seen.links.has_link(port), "open": seen.links.is_open(port) }))
        .collect();
    json!({
        "place": place, "controller": seen.controller.0, "controller_revision": seen.controller.1,
        "fmmus": seen.channels.0, "sync_managers": seen.channels.1, "memory_kib": seen.memory_kib,
        "features": seen.features, "station": seen.station.0, "alias": seen.station.1,
        "al_state": seen.state.0 & al::STATE, "al_error": seen.state.0 & al::ERROR != 0,
        "al_status_code": seen.state.1, "ports": ports,
    })
}

fn registers_text(place: u16, seen: &DeviceRegisters) {
    let DeviceRegisters { controller, channels, memory_kib, features, station, state, links } =
        seen;
    say(Tone::Head, &format!("place {place}"));
    let error = (state.0 & al::ERROR != 0).then(|| al_codes::words(state.1));
    let error = error.map_or_else(String::new, |words| format!(", error: {words}"));
    let clock = match features & 0x000c {
        0x000c => "64 bits",
        0x0004 => "32 bits",
        _ => "none",
    };
    let port = |port: u8| match (links.has_link(port), links.is_open(port)) {
        (_, true) => "open",
        (true, false) => "link, closed",
        (false, false) => "no link",
    };
    for text in [
        format!("  0x0000  controller type {:#04x}, revision {:#04x}", controller.0, controller.1),
        format!(
            "  0x0004  {} FMMUs, {} SyncManagers, {memory_kib} KiB of memory",
            channels.0, channels.1
        ),
        format!("  0x0008  features {features:#06x}, distributed clock: {clock}"),
        format!("  0x0010  station address {:#06x}, alias {}", station.0, station.1),
        format!(
            "  0x0110  port 0 {}; port 1 {}; port 2 {}; port 3 {}",
            port(0),
            port(1),
            port(2),
            port(3)
        ),
        format!("  0x0130  {}{error}", state_word(state.0)),
    ] {
        say(Tone::Plain, &text);
    }
}

pub(crate) fn topology(options: &TopologyOptions) -> Result<ExitVerdict, Failure> {
    let TopologyOptions { line: options, view } = options;
    if *view {
        return on_line(&options.interface, |line| {
            let before = upstreams(&line.links()?);
            let names: Vec<String> =
                (0..before.len()).map(|place| name_at(line, place as u16)).collect();
            for text in drawn(&options.interface, &names, &before, letters()) {
                say(Tone::Plain, &text);
            }
            Ok(ExitVerdict::Pass)
        });
    }

    on_line(&options.interface, |line| {
        let places = places_on(line, options.device)?;
        let links = line.links()?;
        let before = upstreams(&links);
        let mut depths: Vec<usize> = Vec::new();
        for (place, upstream) in (0..).zip(&before) {
            let depth = match upstream {
                Upstream::Device(device, _) => {
                    depths.get(usize::from(*device)).copied().unwrap_or(0) + 1
                }
                Upstream::Interface | Upstream::Unknown => 0,
            };
            depths.push(depth);
            if !places.contains(&place) {
                continue;
            }
            let name = name_at(line, place);
            let ports: Vec<u8> =
                (0..4).filter(|port| links[usize::from(place)].is_open(*port)).collect();
            if options.json {
                print_json(&topology_json(place, &name, *upstream, &ports))?;
                continue;
            }
            // A line is drawn without indentation: only branches move to the right.
            let is_branch = matches!(upstream, Upstream::Device(_, port) if *port != 1);
            let at = match upstream {
                Upstream::Interface => format!("the interface {}", options.interface),
                Upstream::Device(device, port) => format!("port {port} of {device}"),
                Upstream::Unknown => "not known: devices and links contradict".to_owned(),
            };
            let branch = if is_branch { "+ " } else { "" };
            say(Tone::Plain, &format!("{place:>4}  {branch}{name}  at {at}; open ports {ports:?}"));
        }
        Ok(ExitVerdict::Pass)
    })
}

fn topology_json(place: u16, name: &str, upstream: Upstream, ports: &[u8]) -> Value {
    let (device, port) = match upstream {
        Upstream::Device(device, port) => (Some(device), Some(port)),
        Upstream::Interface | Upstream::Unknown => (None, None),
    };
    json!({ "place": place, "name": name, "behind": device, "port": port, "open_ports": ports })
}

/// Returns the name in the EEPROM; empty where it cannot be read.
fn name_at(line: &mut Line<'_, LineWire>, place: u16) -> String {
    match line.sii(place) {
        Ok(sii) if sii.order.is_empty() => sii.name,
        Ok(sii) => sii.order,
        Err(_) => "?".to_owned(),
    }
}

// ---- EEPROM

pub(crate) fn read_sii(options: &SiiReadOptions) -> Result<ExitVerdict, Failure> {
    on_line(&options.of.interface, |line| {
        let place = place_on(line, options.of.device)?;
        let image = line.read_sii(place)?;
        if let Some(path) = &options.output {
            std::fs::write(path, &image)
                .map_err(|source| BusFailure::File { path: path.clone(), source })?;
            say(Tone::Plain, &format!("{} bytes saved to {}", image.len(), path.display()));
            return Ok(ExitVerdict::Pass);
        }

        let sii = Sii::decode(&image).map_err(|why| CommissionError::Sii { place, why })?;
        if options.json {
            print_json(&sii_json(place, &sii))?;
        } else {
            sii_text(&sii);
        }
        Ok(ExitVerdict::Pass)
    })
}

fn sii_json(place: u16, sii: &Sii) -> Value {
    let mailbox =
        |one: onbeat_ethercat::sii::SiiMailbox| json!({ "start": one.start, "length": one.length });
    let channels: Vec<Value> = sii
        .sync_managers
        .iter()
        .map(|one| json!({ "start": one.start, "length": one.length, "control": one.control, "usage": one.usage }))
        .collect();
    json!({
        "place": place, "name": sii.name, "order": sii.order, "alias": sii.alias, "vendor": sii.vendor,
        "product": sii.product, "revision": sii.revision, "serial": sii.serial, "bytes": sii.chip_bytes,
        "protocols": protocol_words(sii.protocols), "mailbox_to_device": mailbox(sii.mailbox_to_device),
        "mailbox_from_device": mailbox(sii.mailbox_from_device), "sync_managers": channels,
    })
}

/// Prints what an EEPROM holds.
pub(crate) fn sii_text(sii: &Sii) {
    let usages =
        ["unused", "mailbox to the device", "mailbox from the device", "outputs", "inputs"];
    let mut lines = vec![
        format!("  {} {}", sii.order, sii.name),
        format!(
            "  vendor {:#010x}, product {:#010x}, revision {:#010x}, serial number {}, alias {}",
            sii.vendor, sii.product, sii.revision, sii.serial, sii.alias
        ),
        format!(
            "  {} bytes; mailbox protocols: {}; mailboxes {}+{} and {}+{}",
            sii.chip_bytes,
            protocol_words(sii.protocols),
            sii.mailbox_to_device.start,
            sii.mailbox_to_device.length,
            sii.mailbox_from_device.start,
            sii.mailbox_from_device.length
        ),
    ];
    for (number, one) in sii.sync_managers.iter().enumerate() {
        let usage = usages.get(usize::from(one.usage)).copied().unwrap_or("unknown");
        let enabled = if one.enabled { "" } else { ", disabled" };
        lines.push(format!(
            "  SyncManager {number}: {:#06x}, {} bytes, control {:#04x}, {usage}{enabled}",
            one.start, one.length, one.control
        ));
    }
    lines.extend(sii.clock.iter().map(clock_mode_text));
    lines.iter().for_each(|text| say(Tone::Plain, text));
}

fn clock_mode_text(mode: &DcMode) -> String {
    let multiple = |of: &str, factor: i32| match factor {
        -1..=1 => of.to_owned(),
        2.. => format!("{factor} x {of}"),
        part => format!("{of} / {}", part.unsigned_abs()),
    };
    let Sync0 { period_ns, factor, activation, sync1, shift_ns, .. } = mode.pulses;
    let cycle = match period_ns {
        None => multiple("bus period", factor),
        Some(ns) => format!("{ns} ns"),
    };
    let sync1 = if activation & Sync0::WITH_SYNC1 == 0 {
        String::new()
    } else {
        let of = if sync1.factor < 0 { "bus period" } else { "SYNC0" };
        let cycle = multiple(of, sync1.factor.saturating_abs());
        format!("; SYNC1 cycle {cycle}, shift {} ns", sync1.shift_ns)
    };
    format!(
        "  clock mode \"{}\": AssignActivate {activation:#06x}; SYNC0 cycle {cycle}, shift {} ns{sync1}",
        mode.name,
        shift_ns.unwrap_or(0)
    )
}

pub(crate) fn sii_type(options: &SiiTypeOptions) -> Result<ExitVerdict, Failure> {
    let image = image_of(&options.file)?;
    let sii =
        Sii::decode(&image).map_err(|why| BusFailure::Image { path: options.file.clone(), why })?;
    say(Tone::Plain, type_table(&sii).trim_end());
    Ok(ExitVerdict::Pass)
}

/// Reads the bytes of an EEPROM from a file.
pub(crate) fn image_of(path: &Path) -> Result<Vec<u8>, BusFailure> {
    foreign::read(path, MOST_IMAGE)
        .map_err(|source| BusFailure::File { path: path.to_owned(), source })
}

/// Returns a device type with the process data of an EEPROM.
fn type_table(sii: &Sii) -> String {
    let word = if sii.order.is_empty() { &sii.name } else { &sii.order };
    let is_other = |letter: char| !letter.is_ascii_alphanumeric();
    let word = word.to_ascii_lowercase().replace(is_other, "-");
    let name = Some(word.trim_matches('-')).filter(|name| !name.is_empty()).unwrap_or("device");
    let [outputs, inputs] = [&sii.outputs, &sii.inputs].map(|pdos| mapped(pdos));
    let is_drive = outputs.iter().any(|entry| entry.index == 0x6040);
    let kind = match channels_of(sii) {
        _ if is_drive => "kind = \"drive\"".to_owned(),
        Some(channels) => channels,
        None if outputs.is_empty() && inputs.is_empty() => "kind = \"coupler\"".to_owned(),
        None => {
            "kind = \"digital\" # with other process data than this device, which needs its ESI file"
                .to_owned()
        }
    };
    let mut text = format!(
        "# {} {}\n[types.{name}]\n{kind}\nvendor = {:#x}\nproduct = {:#x}\nrevision = {:#x}\n",
        sii.order, sii.name, sii.vendor, sii.product, sii.revision
    );
    if sii.protocols != 0 {
        text += &format!("mailbox = {}\n", sii.mailbox_from_device.length.clamp(32, 1024));
    }
    // A simulated drive maps these objects; what other devices do is not in an EEPROM.
    let mark = if is_drive { "" } else { "# " };
    let directions =
        [("outputs", outputs, PdoDirection::Outputs), ("inputs", inputs, PdoDirection::Inputs)];
    for (what, entries, direction) in directions {
        let channels = ChannelsTable::default();
        let is_simulated = |one: &&SiiEntry| {
            let kind = mappable(DeviceKind::Drive, channels, direction, one.index, one.entry);
            !is_drive || kind.is_some()
        };
        let (here, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_simulated);
        text += &format!("{mark}{what} = [{}]\n", objects(&here));
        if !others.is_empty() {
            text += &format!(
                "# not simulated: {}; a real device needs its ESI file\n",
                objects(&others)
            );
        }
    }
    text + &format!("\n[[devices]]\ntype = \"{name}\"\nname = \"{name}\"\n")
}

/// Returns kind and channels of a device whose values all have one bit, or all 16 bits, without gaps
/// and on one SyncManager per direction; `None` for others.
fn channels_of(sii: &Sii) -> Option<String> {
    const MOST_CHANNELS: usize = 64;
    let bits_of = |pdos: &[SiiPdo]| {
        let assigned = || pdos.iter().filter(|pdo| pdo.sync_manager.is_some());
        let first = assigned().next().and_then(|pdo| pdo.sync_manager);
        let entries = assigned().flat_map(|pdo| &pdo.entries);
        let bits: Vec<u8> = entries.map(|one| if one.index == 0 { 0 } else { one.bits }).collect();
        let is_one = assigned().all(|pdo| pdo.sync_manager == first);
        (is_one && bits.len() <= MOST_CHANNELS).then_some(bits)
    };
    let (inputs, outputs) = (bits_of(&sii.inputs)?, bits_of(&sii.outputs)?);
    let mut all = inputs.iter().chain(&outputs);
    let first = *all.next()?;
    let kind = match first {
        1 => "digital",
        16 => "analogue",
        _ => return None,
    };
    let (inputs, outputs) = (inputs.len(), outputs.len());
    all.all(|bits| *bits == first).then(|| {
        format!("kind = \"{kind}\"\nchannels = {{ inputs = {inputs}, outputs = {outputs} }}")
    })
}

/// Returns the entries of assigned PDOs, without gaps.
fn mapped(pdos: &[SiiPdo]) -> Vec<&SiiEntry> {
    let assigned = pdos.iter().filter(|pdo| pdo.sync_manager.is_some());
    assigned.flat_map(|pdo| &pdo.entries).filter(|one| one.index != 0).collect()
}

/// Returns objects as a device file lists them.
fn objects(entries: &[&SiiEntry]) -> String {
    let word = |one: &&SiiEntry| match one.entry {
        0 => format!("\"{:04x}\"", one.index),
        entry => format!("\"{:04x}:{entry:x}\"", one.index),
    };
    entries.iter().map(word).collect::<Vec<String>>().join(", ")
}

// ---- PDOs and objects

pub(crate) fn pdos(options: &LineOptions) -> Result<ExitVerdict, Failure> {
    on_line(&options.interface, |line| {
        for place in places_on(line, options.device)? {
            let sii = line.sii(place)?;
            let is_mapped =
                line.state(place)?.0 & al::STATE != al::INIT && sii.protocols & 0x04 != 0;
            let source = if is_mapped { "mapping" } else { "EEPROM" };
            let [outputs, inputs] = if is_mapped {
                [present_pdos(line, place, (&sii, 3))?, present_pdos(line, place, (&sii, 4))?]
            } else {
                [sii.outputs.clone(), sii.inputs.clone()]
            };
            let groups = [("RxPDO", outputs), ("TxPDO", inputs)];
            if options.json {
                let all = groups
                    .iter()
                    .flat_map(|(kind, pdos)| pdos.iter().map(|pdo| pdo_json(kind, pdo)));
                print_json(&json!({
                    "place": place, "name": sii.order, "source": source, "pdos": all.collect::<Vec<Value>>(),
                }))?;
                continue;
            }
            say(
                Tone::Head,
                &format!("place {place}: {} {} (from its {source})", sii.order, sii.name),
            );
            for (kind, pdos) in &groups {
                pdos.iter().for_each(|pdo| pdo_text(kind, pdo));
            }
        }
        Ok(ExitVerdict::Pass)
    })
}

/// Reads the PDOs that are assigned now to the SyncManagers of a usage: 3 outputs, 4 inputs.
fn present_pdos(
    line: &mut Line<'_, LineWire>,
    place: u16,
    (sii, usage): (&Sii, u8),
) -> Result<Vec<SiiPdo>, Failure> {
    let mut pdos = Vec::new();
    for number in channels(sii, usage) {
        pdos.extend(assigned_pdos(line, place, 0x1c10 + u16::from(number))?);
    }
    Ok(pdos)
}

/// Returns the SyncManagers of a usage; 2 and 3, as usual, if the EEPROM names none.
fn channels(sii: &Sii, usage: u8) -> Vec<u8> {
    let all = (0u8..).zip(&sii.sync_managers);
    let found: Vec<u8> =
        all.filter(|(_, one)| one.usage == usage).map(|(number, _)| number).collect();
    if found.is_empty() && !sii.sync_managers.iter().any(|one| one.usage >= 3) {
        return vec![usage - 1];
    }
    found
}

/// Reads the PDOs that an assignment object lists now, with their entries.
fn assigned_pdos(
    line: &mut Line<'_, LineWire>,
    place: u16,
    assignment: u16,
) -> Result<Vec<SiiPdo>, Failure> {
    let mut read = |index: u16, entry: u8| -> Result<u64, Failure> {
        match line.sdo(place, (index, entry), false, SdoAction::Read) {
            Ok(bytes) => Ok(number(&bytes).unwrap_or_default()),
            // A device without outputs or inputs has no such object.
            Err(CommissionError::Object { .. }) if entry == 0 => Ok(0),
            Err(why) => Err(why.into()),
        }
    };
    let mut pdos = Vec::new();
    for number in 1..=read(assignment, 0)?.min(MOST_ENTRIES) {
        let index = read(assignment, number as u8)? as u16;
        let mut entries = Vec::new();
        for entry in 1..=read(index, 0)?.min(MOST_ENTRIES) {
            let mapped = read(index, entry as u8)?;
            entries.push(SiiEntry {
                index: (mapped >> 16) as u16,
                entry: (mapped >> 8) as u8,
                data_type: 0,
                bits: mapped as u8,
                name: String::new(),
            });
        }
        let sync_manager = Some((assignment - 0x1c10) as u8);
        pdos.push(SiiPdo { index, sync_manager, flags: 0, name: String::new(), entries });
    }
    Ok(pdos)
}

fn pdo_json(kind: &str, pdo: &SiiPdo) -> Value {
    let entries: Vec<Value> = pdo
        .entries
        .iter()
        .map(|one| json!({ "index": one.index, "entry": one.entry, "bits": one.bits, "name": one.name }))
        .collect();
    json!({
        "kind": kind, "index": pdo.index, "sync_manager": pdo.sync_manager, "name": pdo.name, "entries": entries,
    })
}

fn pdo_text(kind: &str, pdo: &SiiPdo) {
    let bits: usize = pdo.entries.iter().map(|entry| usize::from(entry.bits)).sum();
    let at = pdo
        .sync_manager
        .map_or("not assigned".to_owned(), |number| format!("SyncManager {number}"));
    let name = if pdo.name.is_empty() { String::new() } else { format!("  \"{}\"", pdo.name) };
    say(Tone::Plain, &format!("  {kind} 0x{:04x}  {at}, {bits} bits{name}", pdo.index));
    for entry in &pdo.entries {
        let name = match (entry.index, entry.name.as_str()) {
            (0, _) => "  gap".to_owned(),
            (_, "") => String::new(),
            (_, name) => format!("  \"{name}\""),
        };
        say(
            Tone::Plain,
            &format!("    0x{:04x}:{:02x}  {:>3} bits{name}", entry.index, entry.entry, entry.bits),
        );
    }
}

pub(crate) fn sdos(options: &SdosOptions) -> Result<ExitVerdict, Failure> {
    on_line(&options.of.interface, |line| {
        let place = place_on(line, options.of.device)?;
        for index in line.object_indices(place)? {
            let object = match line.object(place, index) {
                // Devices list objects that they do not describe.
                Err(CommissionError::Object { why, .. }) => {
                    advise(Tone::Careful, &format!("0x{index:04x}  not described: {why}"));
                    continue;
                }
                object => object?,
            };
            if !options.json {
                say(Tone::Plain, &format!("0x{index:04x}  \"{}\"", object.name));
            }
            for entry in 0..=object.highest {
                let Some(described) = line.entry(place, index, entry)? else { continue };
                let is_read = options.values && described.access & 0x0007 != 0;
                let value =
                    is_read.then(|| line.sdo(place, (index, entry), false, SdoAction::Read));
                let shown = match value {
                    None => String::new(),
                    Some(Ok(bytes)) => format!("  {}", value_word(described.data_type, &bytes)),
                    Some(Err(CommissionError::Object { why, .. })) => {
                        format!("  not readable now: {why}")
                    }
                    // Whatever is not about this object ends the list.
                    Some(Err(why)) => return Err(why.into()),
                };
                if options.json {
                    print_json(&json!({
                        "index": index, "object": object.name, "entry": entry, "name": described.name,
                        "type": type_word(described.data_type, described.bits), "bits": described.bits,
                        "access": described.rights(), "value": shown.trim(),
                    }))?;
                } else {
                    say(
                        Tone::Plain,
                        &format!(
                            "  0x{index:04x}:{entry:02x}  {:8}  {:10}  {:>4} bits  \"{}\"{shown}",
                            described.rights(),
                            type_word(described.data_type, described.bits),
                            described.bits,
                            described.name
                        ),
                    );
                }
            }
        }
        Ok(ExitVerdict::Pass)
    })
}

pub(crate) fn sdo(interface: &str, options: &SdoOptions) -> Result<ExitVerdict, Failure> {
    on_line(interface, |line| {
        let place = place_on(line, device_of(options)?)?;
        let bytes = line.sdo(place, options.object, options.complete, SdoAction::Read)?;
        say_object(options, &bytes)
    })
}

/// Returns the device of a request on a cable, where devices have no names.
pub(crate) fn device_of(options: &SdoOptions) -> Result<CableDevice, BusFailure> {
    cable_device(&options.device)
        .map_err(|_| BusFailure::NotOnCable { device: options.device.clone() })
}

/// Prints what `onbeat bus scan --details` adds to its table.
pub(crate) fn details(interface: &str) -> Result<(), Failure> {
    on_line(interface, |line| {
        for place in 0..line.devices() {
            let seen = line.registers(place)?;
            registers_text(place, &seen);
            match line.sii(place) {
                Ok(sii) => sii_text(&sii),
                Err(why) => say(Tone::Careful, &format!("  {why}")),
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use onbeat_ethercat::esi::SyncManagerEntry;
    use onbeat_ethercat::layout::Layout;
    use onbeat_ethercat::sii::SiiMailbox;

    use super::*;

    #[test]
    fn process_data_are_on_the_sync_managers_that_the_eeprom_names() {
        let of = |usages: &[u8]| {
            let one = |&usage: &u8| SyncManagerEntry {
                start: 0x1000,
                length: 0,
                control: 0,
                usage,
                enabled: true,
            };
            let sync_managers = usages.iter().map(one).collect();
            let sii = Sii { sync_managers, ..Sii::default() };
            [channels(&sii, 3), channels(&sii, 4)]
        };
        assert_eq!(of(&[1, 2, 3, 4, 3]), [vec![2u8, 4], vec![3]]);
        assert_eq!(of(&[1, 2, 4]), [vec![], vec![2u8]], "a sensor");
        assert_eq!(of(&[]), [[2u8], [3]]);
    }

    #[test]
    fn the_type_of_a_drive_with_a_touch_probe_is_accepted() {
        let entry = |&index: &u16| SiiEntry {
            index,
            entry: 0,
            data_type: 0,
            bits: 16,
            name: String::new(),
        };
        let pdo = |index: u16, objects: &[u16]| SiiPdo {
            index,
            sync_manager: Some(2),
            flags: 0,
            name: String::new(),
            entries: objects.iter().map(entry).collect(),
        };
        let sii = Sii {
            order: "SV-1".to_owned(),
            protocols: 4,
            mailbox_from_device: SiiMailbox { start: 0x1400, length: 1486 },
            outputs: vec![pdo(0x1600, &[0x6040, 0x607a, 0x60b8])],
            inputs: vec![pdo(0x1a00, &[0x6041, 0x6064])],
            ..Sii::default()
        };
        let text = type_table(&sii);
        assert!(text.contains("# not simulated: \"60b8\""), "{text}");
        assert_eq!(Layout::from_toml(&text).unwrap().output_bytes, 6);
    }

    #[test]
    fn the_type_of_a_terminal_has_its_channels() {
        let entry = |&(index, bits): &(u16, u8)| SiiEntry {
            index,
            entry: 1,
            data_type: 0,
            bits,
            name: String::new(),
        };
        let pdo = |number, entries: &[(u16, u8)]| SiiPdo {
            index: 0x1a00,
            sync_manager: Some(number),
            flags: 0,
            name: String::new(),
            entries: entries.iter().map(entry).collect(),
        };
        let lengths = |inputs: Vec<SiiPdo>, outputs: Vec<SiiPdo>| {
            let text = type_table(&Sii { inputs, outputs, ..Sii::default() });
            let layout = Layout::from_toml(&text).unwrap();
            (layout.input_bytes, layout.output_bytes, text.contains("ESI file"))
        };
        let bit = |number| pdo(number, &[(0x7000, 1)]);
        let word = |number| pdo(number, &[(0x6000, 16)]);
        assert_eq!(lengths(vec![], [0; 4].map(bit).into()), (0, 1, false));
        assert_eq!(lengths([0; 9].map(bit).into(), vec![bit(1)]), (2, 1, false));
        assert_eq!(lengths(vec![word(3), word(3)], vec![]), (4, 0, false));
        let other = [vec![word(3), bit(3)], vec![bit(0), bit(1)], vec![pdo(0, &[(0, 1)])]];
        for inputs in other {
            assert!(lengths(inputs, vec![word(2)]).2);
        }
    }
}
