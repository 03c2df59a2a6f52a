//! `onbeat segment check`: what onbeat reads from the ESI files of vendors, and from device files,
//! device by device.

use std::fs;
use std::path::{Path, PathBuf};

use onbeat_ethercat::esi::{self, EsiDevice, EsiSlot, ListedDevice};
use onbeat_ethercat::layout::Layout;
use onbeat_host::foreign;
use onbeat_segment::{Description, Link, Segment};

use super::options::CheckOptions;
use crate::cmd::{Common, ExitVerdict, Failure};
use crate::term::{Tone, counted, say};

/// Widest column of device types.
const WIDEST_ORDER: usize = 28;
/// Most modules that are listed of one device.
const MOST_MODULES: usize = 4;

pub(crate) fn run(options: &CheckOptions) -> Result<ExitVerdict, Failure> {
    let mut files = Vec::new();
    for path in &options.files {
        files.extend(files_of(path)?);
    }

    let mut devices = 0;
    let mut refused = 0;
    for file in &files {
        say(Tone::Head, &file.display().to_string());
        let checked = if file.extension().is_some_and(|end| end.eq_ignore_ascii_case("toml")) {
            say_device_file(file).map(|count| (count, 0))
        } else {
            listed_in(file).map(|listed| (listed.len(), say_devices(&listed)))
        };
        match checked {
            Ok((count, wrong)) => {
                devices += count;
                refused += wrong;
            }
            Err(why) => {
                refused += 1;
                say(Tone::Bad, &format!("  not read: {why}"));
            }
        }
    }

    say(
        if refused == 0 { Tone::Good } else { Tone::Careful },
        &format!(
            "{} in {}, {refused} not usable",
            counted(devices, "device"),
            counted(files.len(), "file")
        ),
    );
    Ok(if refused == 0 { ExitVerdict::Pass } else { ExitVerdict::Fail })
}

/// Reads the devices of an ESI file, with the modules of the files beside it that it refers to.
fn listed_in(file: &Path) -> Result<Vec<ListedDevice>, String> {
    let read = |path: &Path| foreign::read(path, foreign::MOST_BYTES_BY_HAND);
    let bytes = read(file).map_err(|why| why.to_string())?;
    let others = esi::referenced(&bytes, |name| read(&file.with_file_name(name)).ok());
    esi::list(&bytes, &others).map_err(|why| why.to_string())
}

/// Returns the ESI files that a path names: itself, or those in a folder.
fn files_of(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = Common::file("read", path);
    if !fs::metadata(path).map_err(failed)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }

    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        if file.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("xml")) {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// Prints the devices of a device file, which can be simulated; returns their number.
fn say_device_file(path: &Path) -> Result<usize, String> {
    let description = Description::from_file(path).map_err(|why| why.to_string())?;
    let layout = Layout::from_description(&description).map_err(|why| why.to_string())?;
    // With its faults.
    Link::from_description(&description).map_err(|why| why.to_string())?;
    let lengths = layout.devices.iter().map(|device| device.name.chars().count());
    let width = lengths.max().unwrap_or(0).max("device".len());
    say(Tone::Faint, &format!("  {:width$}  {:>5}  {:>5}", "device", "out", "in"));
    for device in &layout.devices {
        let [out, into] = [device.outputs.len(), device.inputs.len()];
        say(Tone::Plain, &format!("  {:width$}  {out:>5}  {into:>5}", device.name));
    }
    for warning in description.warnings() {
        say(Tone::Careful, &format!("    {warning}"));
    }
    Ok(layout.devices.len())
}

/// Prints a table of devices; returns the number of those that cannot be used.
fn say_devices(listed: &[ListedDevice]) -> usize {
    let lengths = listed.iter().map(|device| device.order.chars().count());
    let width = lengths.max().unwrap_or(0).clamp("device".len(), WIDEST_ORDER);
    let head = format!(
        "  {:width$}  {:>10}  {:>10}  {:>5}  {:>5}  SyncManagers; modules",
        "device", "product", "revision", "out", "in"
    );
    say(Tone::Faint, &head);

    let mut refused = 0;
    for device in listed {
        let start = format!(
            "  {:width$}  {:#010x}  {:#010x}",
            device.order, device.product, device.revision
        );
        match usable(device) {
            Ok(esi) => {
                let [out, into] = [0, 1].map(|direction| bytes(&esi, direction));
                say(Tone::Plain, &format!("{start}  {out:>5}  {into:>5}  {}", described(&esi)));
                for note in &esi.notes {
                    say(Tone::Careful, &format!("    {note}"));
                }
            }
            Err(why) => {
                refused += 1;
                say(Tone::Bad, &format!("{start}  {why}"));
            }
        }
    }
    refused
}

/// Returns the device if it can be simulated too.
fn usable(device: &ListedDevice) -> Result<EsiDevice, String> {
    let mut esi = device.device.clone().map_err(|why| why.to_string())?;
    let description = Description::from_esi_devices(vec![esi.clone()], "the file")
        .map_err(|why| why.to_string())?;
    Segment::from_description(&description).map_err(|why| why.to_string())?;
    esi.notes.extend(description.shared_memory());
    Ok(esi)
}

fn bytes(esi: &EsiDevice, direction: usize) -> usize {
    let assigned = esi.default_assignment(direction);
    let areas = assigned.iter().map(|(_, pdos)| {
        let bits: usize = pdos.iter().map(|pdo| pdo.bits()).sum();
        bits.div_ceil(8)
    });
    areas.sum()
}

/// Describes SyncManagers, such as "2: 10 out, 3: 6 in", and the modules that were assumed.
fn described(esi: &EsiDevice) -> String {
    let mut words = Vec::new();
    for (number, channel) in esi.sync_managers.iter().enumerate() {
        let length = channel.length;
        words.push(match channel.usage {
            1 | 2 => format!("{number}: {length} mail"),
            3 => format!("{number}: {length} out"),
            4 => format!("{number}: {length} in"),
            _ => format!("{number}: not used"),
        });
    }

    let mut text = words.join(", ");
    let filled: Vec<&EsiSlot> = esi.slots.iter().filter(|slot| slot.module.is_some()).collect();
    if !esi.slots.is_empty() {
        let names: Vec<String> =
            filled.iter().take(MOST_MODULES).map(|slot| slot.usual_module()).collect();
        let more = if filled.len() > MOST_MODULES { ", ..." } else { "" };
        text += &format!(
            "; {}, counted with {}{}{}{more}",
            counted(esi.slots.len(), "slot"),
            counted(filled.len(), "module"),
            if names.is_empty() { "" } else { ": " },
            names.join(", ")
        );
    }
    text
}
