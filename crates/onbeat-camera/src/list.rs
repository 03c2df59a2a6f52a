//! `onbeat camera list`.

use std::fs;

use clap::Args;
use onbeat_control::frames::cameras;
use serde_json::json;

use crate::{Failure, advise, say};

#[derive(Debug, Args)]
pub(crate) struct ListOptions {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Lists cameras that run and devices of the kernel; nothing is opened but headers.
pub(crate) fn list(options: &ListOptions) -> Result<(), Failure> {
    let (found, ignored) = cameras()?;
    for why in &ignored {
        advise(&format!("ignored: {why}"));
    }
    let devices = devices();
    if options.json {
        let running: Vec<_> = found
            .iter()
            .map(|it| {
                json!({ "name": it.name, "width": it.format.width, "height": it.format.height,
                    "channels": it.format.channels, "newest": it.newest, "alive": it.is_alive,
                    "pid": it.writer.0 })
            })
            .collect();
        let devices: Vec<_> =
            devices.iter().map(|(path, name)| json!({ "path": path, "name": name })).collect();
        say(&json!({ "cameras": running, "devices": devices }).to_string());
        return Ok(());
    }
    for it in &found {
        let kind = if it.format.channels == 1 { "gray" } else { "colour" };
        let state =
            if it.is_alive { format!("process {}", it.writer.0) } else { "has ended".into() };
        let (width, height, newest) = (it.format.width, it.format.height, it.newest);
        say(&format!("{:<16} {width} x {height} {kind}, frame {newest}, {state}", it.name));
    }
    for (path, name) in &devices {
        say(&format!("{path:<16} {name}"));
    }
    if found.is_empty() && devices.is_empty() {
        advise(
            "no camera runs, and the kernel has no video device; try: onbeat camera run test:640x480@30",
        );
    }
    Ok(())
}

/// Video devices of the kernel, with their names.
fn devices() -> Vec<(String, String)> {
    let Ok(entries) = fs::read_dir("/sys/class/video4linux") else { return Vec::new() };
    let mut found: Vec<(String, String)> = entries
        .flatten()
        .map(|entry| {
            let name = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
            (format!("/dev/{}", entry.file_name().to_string_lossy()), name.trim().to_owned())
        })
        .collect();
    found.sort();
    found
}
