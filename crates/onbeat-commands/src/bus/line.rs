//! Reads of devices on a cable, without a running bus: `onbeat bus pdos`, `sdos`, `sii read`,
//! `registers`, `topology`, `state --interface`, `sdo read --interface`.

use std::path::Path;

use onbeat_control::SdoAction;
use onbeat_ethercat::al;
use onbeat_ethercat::al_codes;
use onbeat_ethercat::sii::{Sii, SiiPdo};
use onbeat_host::foreign;
use onbeat_robot::bus::{Upstream, upstreams};
use onbeat_robot::commission::{CommissionError, DeviceRegisters, Line};
use serde_json::{Value, json};

use super::drawing::drawn;
use super::line_words::{
    LineWire, on_line, place_on, places_on, protocol_words, state_word, type_word, value_word,
};
use super::options::{
    LineOptions, SdoOptions, SdosOptions, SiiReadOptions, SiiTypeOptions, TopologyOptions,
};
use crate::byte_words::{hex_and_text, hex_of, number};
use crate::failure::bus::BusFailure;
use crate::term::print_json;
use crate::term::{Tone, letters, say};
use crate::{ExitVerdict, Failure};

/// Largest EEPROM, in bytes.
const MOST_IMAGE: u64 = 131_072;

fn line_error(why: CommissionError) -> Failure {
    BusFailure::from(why).into()
}

// ---- states, registers, topology

pub(crate) fn states(interface: &str, is_json: bool) -> Result<ExitVerdict, Failure> {
    on_line(interface, |line| {
        for place in 0..line.devices() {
            let (state, code) = line.state(place).map_err(line_error)?;
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
            let seen = line.registers(place).map_err(line_error)?;
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
    let error = if state.0 & al::ERROR != 0 {
        format!(", error: {}", al_codes::words(state.1))
    } else {
        String::new()
    };
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
            let before = upstreams(&line.links().map_err(line_error)?);
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
        let links = line.links().map_err(line_error)?;
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
        let image = line.read_sii(place).map_err(line_error)?;
        if let Some(path) = &options.output {
            std::fs::write(path, &image)
                .map_err(|source| BusFailure::File { path: path.clone(), source })?;
            say(Tone::Plain, &format!("{} bytes saved to {}", image.len(), path.display()));
            return Ok(ExitVerdict::Pass);
        }

        let sii = Sii::decode(&image).map_err(|why| CommissionError::Sii { place, why });
        let sii = sii.map_err(line_error)?;
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
        let enabled = if one.enable & 1 == 0 { ", disabled" } else { "" };
        lines.push(format!(
            "  SyncManager {number}: {:#06x}, {} bytes, control {:#04x}, {usage}{enabled}",
            one.start, one.length, one.control
        ));
    }
    for mode in &sii.clock {
        lines.push(format!(
            "  clock mode \"{}\": AssignActivate {:#06x}, SYNC0 {} ns, shift {} ns",
            mode.name, mode.activate, mode.cycle_ns, mode.shift_ns
        ));
    }
    lines.iter().for_each(|text| say(Tone::Plain, text));
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
    let word = |text: &str| {
        let word: String = text
            .chars()
            .map(
                |letter| {
                    if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' }
                },
            )
            .collect();
        word.trim_matches('-').to_owned()
    };
    let name = word(if sii.order.is_empty() { &sii.name } else { &sii.order });
    let name = if name.is_empty() { "device".to_owned() } else { name };
    let entries = |pdos: &[SiiPdo]| -> Vec<String> {
        let assigned = pdos.iter().filter(|pdo| pdo.sync_manager.is_some());
        assigned
            .flat_map(|pdo| &pdo.entries)
            .filter(|one| one.index != 0)
            .map(|one| match one.entry {
                0 => format!("\"{:04x}\"", one.index),
                entry => format!("\"{:04x}:{entry:x}\"", one.index),
            })
            .collect()
    };
    let outputs = entries(&sii.outputs);
    let inputs = entries(&sii.inputs);
    let is_drive = outputs.iter().any(|entry| entry.starts_with("\"6040"));
    let kind = match () {
        () if is_drive => "drive",
        () if outputs.is_empty() && inputs.is_empty() => "coupler",
        () => "digital",
    };
    let mut text = format!(
        "# {} {}\n[types.{name}]\nkind = \"{kind}\"\nvendor = {:#x}\nproduct = {:#x}\nrevision = {:#x}\n",
        sii.order, sii.name, sii.vendor, sii.product, sii.revision
    );
    if sii.protocols != 0 {
        text += &format!("mailbox = {}\n", sii.mailbox_from_device.length);
    }
    // A simulated drive maps these objects; what other devices do is not in an EEPROM.
    let mark = if is_drive { "" } else { "# " };
    for (what, entries) in [("outputs", &outputs), ("inputs", &inputs)] {
        text += &format!("{mark}{what} = [{}]\n", entries.join(", "));
    }
    text + &format!("\n[[devices]]\ntype = \"{name}\"\nname = \"{name}\"\n")
}

// ---- PDOs and objects

pub(crate) fn pdos(options: &LineOptions) -> Result<ExitVerdict, Failure> {
    on_line(&options.interface, |line| {
        for place in places_on(line, options.device)? {
            let sii = line.sii(place).map_err(line_error)?;
            let is_mapped = line.state(place).map_err(line_error)?.0 & al::STATE != al::INIT
                && sii.protocols & 0x04 != 0;
            let source = if is_mapped { "mapping" } else { "EEPROM" };
            let [outputs, inputs] = if is_mapped {
                [present_pdos(line, place, 0x1c12)?, present_pdos(line, place, 0x1c13)?]
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

/// Reads the PDOs that an assignment object lists now, with their entries.
fn present_pdos(
    line: &mut Line<'_, LineWire>,
    place: u16,
    assignment: u16,
) -> Result<Vec<SiiPdo>, Failure> {
    let mut read = |index: u16, entry: u8| -> Result<u64, Failure> {
        match line.sdo(place, (index, entry), false, SdoAction::Read) {
            Ok(bytes) => Ok(number(&bytes).unwrap_or_default()),
            // A device without outputs or inputs has no such object.
            Err(CommissionError::Object { .. }) if entry == 0 => Ok(0),
            Err(why) => Err(line_error(why)),
        }
    };
    let mut pdos = Vec::new();
    for number in 1..=read(assignment, 0)? {
        let index = read(assignment, number as u8)? as u16;
        let mut entries = Vec::new();
        for entry in 1..=read(index, 0)? {
            let mapped = read(index, entry as u8)?;
            entries.push(onbeat_ethercat::sii::SiiEntry {
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
        for index in line.object_indices(place).map_err(line_error)? {
            let object = line.object(place, index).map_err(line_error)?;
            if !options.json {
                say(Tone::Plain, &format!("0x{index:04x}  \"{}\"", object.name));
            }
            for entry in 0..=object.highest {
                let Some(described) = line.entry(place, index, entry).map_err(line_error)? else {
                    continue;
                };
                let value = if options.values && described.access & 0x0007 != 0 {
                    Some(line.sdo(place, (index, entry), false, SdoAction::Read))
                } else {
                    None
                };
                let shown = match &value {
                    Some(Ok(bytes)) => format!("  {}", value_word(described.data_type, bytes)),
                    Some(Err(CommissionError::Object { why, .. })) => {
                        format!("  not readable now: {why}")
                    }
                    None | Some(Err(_)) => String::new(),
                };
                // Whatever is not about this object ends the list.
                if let Some(Err(why)) = value
                    && !matches!(why, CommissionError::Object { .. })
                {
                    return Err(line_error(why));
                }
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
        let bytes = line
            .sdo(place, options.object, options.complete, SdoAction::Read)
            .map_err(line_error)?;
        let (index, entry) = options.object;
        let hex = hex_of(&bytes);
        if options.named.json {
            print_json(
                &json!({ "index": index, "entry": entry, "bytes": hex, "unsigned": number(&bytes) }),
            )?;
        } else {
            say(Tone::Plain, &hex_and_text(&bytes, &hex));
        }
        Ok(ExitVerdict::Pass)
    })
}

/// Returns the device of a request on a cable, where devices have no names.
pub(crate) fn device_of(options: &SdoOptions) -> Result<super::options::CableDevice, BusFailure> {
    super::options::cable_device(&options.device)
        .map_err(|_| BusFailure::NotOnCable { device: options.device.clone() })
}

/// Prints what `onbeat bus scan --details` adds to its table.
pub(crate) fn details(interface: &str) -> Result<(), Failure> {
    on_line(interface, |line| {
        for place in 0..line.devices() {
            let seen = line.registers(place).map_err(line_error)?;
            registers_text(place, &seen);
            match line.sii(place) {
                Ok(sii) => sii_text(&sii),
                Err(why) => say(Tone::Careful, &format!("  {why}")),
            }
        }
        Ok(())
    })
}
