//! `onbeat bus import`: a device file from an ENI file of another tool.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use onbeat::thread::shell_word;
use onbeat_ethercat::eni::{DeviceFiles, NetworkInformation};
use onbeat_figures::units::count;
use onbeat_host::foreign;
use serde_json::json;

use super::options::ImportOptions;
use crate::failure::bus::BusFailure;
use crate::term::{Tone, advise, counted, print_json, say, wrapped};
use crate::{ExitVerdict, Failure};

pub(crate) fn import(options: &ImportOptions) -> Result<ExitVerdict, Failure> {
    let path = &options.file;
    let bytes = foreign::read(path, foreign::MOST_BYTES_BY_HAND)
        .map_err(|source| BusFailure::File { path: path.clone(), source })?;
    let unusable = |why| BusFailure::Network { path: path.clone(), why };
    let mut network = NetworkInformation::read(&bytes).map_err(unusable)?;
    let (devices_path, types_path) = outputs(options);
    let esi = types_path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let files = DeviceFiles::from_network(&mut network, &esi).map_err(unusable)?;
    write_both([(&types_path, &files.types), (&devices_path, &files.devices)], options.force)?;

    if options.json {
        let left_out = network.left_out.iter();
        let left_out: Vec<_> =
            left_out.map(|one| json!({ "line": one.line, "what": one.what })).collect();
        print_json(&json!({
            "devices_file": devices_path, "types_file": types_path, "devices": network.devices.len(),
            "cycle_ns": network.cycle_ns, "left_out": left_out, "more_left_out": network.more_left_out,
        }))?;
        return Ok(ExitVerdict::Pass);
    }

    say(Tone::Plain, &summary(&network, &devices_path, &types_path));
    for one in &network.left_out {
        say(Tone::Plain, &format!("  {one}"));
    }
    if network.more_left_out > 0 {
        say(Tone::Plain, &format!("  and {} more", network.more_left_out));
    }
    let period =
        network.cycle_ns.map_or_else(String::new, |ns| format!(" -- --period {}us", ns / 1_000));
    let file = shell_word(&devices_path.display().to_string());
    let robot = if files.devices.contains("\n[robot]\n") {
        format!(
            "; its drives are joints: give them limits in [[joints]] tables (docs/robot.md), then `onbeat robot run {file}`"
        )
    } else {
        "; it has no CiA 402 drive, so no [robot] table".to_owned()
    };
    let next = format!(
        "try it on simulated devices: onbeat segment check {}; onbeat bus run {file}{period}{robot}",
        shell_word(&types_path.display().to_string())
    );
    advise(Tone::Faint, &wrapped(&next, 80));
    Ok(ExitVerdict::Pass)
}

/// Returns the paths of the device file and of the ESI file beside it.
fn outputs(options: &ImportOptions) -> (PathBuf, PathBuf) {
    let devices = options.output.clone().unwrap_or_else(|| {
        let stem = options.file.file_stem().unwrap_or_default();
        PathBuf::from(stem).with_extension("toml")
    });
    let mut name = devices.file_stem().unwrap_or_default().to_owned();
    name.push("-types.xml");
    let types = devices.with_file_name(name);
    (devices, types)
}

fn summary(network: &NetworkInformation, devices: &Path, types: &Path) -> String {
    let bytes = |direction: usize| -> usize {
        network.devices.iter().map(|device| device.bytes[direction]).sum()
    };
    let startup: usize = network.devices.iter().map(|device| device.startup.len()).sum();
    let clocks = network.devices.iter().filter(|device| device.clock.is_some()).count();
    let cycle = network
        .cycle_ns
        .map_or("no cycle time".to_owned(), |ns| format!("cycle time {} us", count(ns / 1_000)));
    let mut text = format!(
        "{}: {}, {} out, {} in, {}, {clocks} with SYNC pulses, {cycle}\n{}: their types",
        devices.display(),
        counted(network.devices.len(), "device"),
        counted(bytes(0), "byte"),
        counted(bytes(1), "byte"),
        counted(startup, "start-up value"),
        types.display()
    );
    let left_out = network.left_out.len() + network.more_left_out;
    text.push_str(&match left_out {
        0 => "\nnothing was left out".to_owned(),
        count => format!("\nleft out, {count}:"),
    });
    text
}

/// Writes both files, or neither.
fn write_both(files: [(&PathBuf, &String); 2], may_replace: bool) -> Result<(), BusFailure> {
    for (path, _) in files {
        if path.exists() && !path.is_file() {
            return Err(BusFailure::NotAFile { path: path.clone() });
        }
        if !may_replace && path.exists() {
            return Err(BusFailure::Exists { path: path.clone() });
        }
    }

    let beside = |path: &Path| {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        path.with_file_name(name)
    };
    let named = |path: &Path, done: io::Result<()>| {
        done.map_err(|source| BusFailure::File { path: path.to_owned(), source })
    };
    let write = |(path, text): (&PathBuf, &String)| named(path, write_new(&beside(path), text));
    let place = |(path, _): (&PathBuf, &String)| named(path, fs::rename(beside(path), path));
    let written = files.into_iter().try_for_each(write);
    let written = written.and_then(|()| files.into_iter().try_for_each(place));
    if written.is_err() {
        for (path, _) in files {
            let _ = fs::remove_file(beside(path));
        }
    }
    written
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
