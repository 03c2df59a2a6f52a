//! `onbeat segment fault`, `heal` and `status`: requests to a running segment.

use std::io;
use std::path::{Path, PathBuf};

use onbeat_ethercat::al;
use onbeat_report::units;
use onbeat_segment::serving::{
    CommandQueue, ControlSocket, SegmentCommand, SegmentReply, SegmentStatus, send_command,
};
use onbeat_segment::{FAULT_KINDS, FaultTable};

use super::options::{FaultOptions, OnOptions, StatusOptions};
use crate::cmd::{ExitVerdict, Failure};
use crate::state::state_directory;
use crate::term::{Tone, advise, say, wrapped};

const ENDING: &str = ".sock";

/// Why a running segment cannot be commanded.
#[derive(Debug, thiserror::Error)]
enum SegmentOrderFailure {
    #[error("no segment is running{on}; `onbeat segment run` starts one (looked for in {place})")]
    NoSegment { on: String, place: PathBuf },
    #[error("several segments are running, on {0}; choose one by --on")]
    SeveralSegments(String),
    #[error("cannot reach the segment on {on}: {source}")]
    NotAsked { on: String, source: io::Error },
    #[error("{0}")]
    Refused(String),
}

fn directory() -> PathBuf {
    state_directory().join("segments")
}

/// Returns the socket of the segment on an interface.
fn socket(interface: &str) -> PathBuf {
    directory().join(format!("{interface}{ENDING}"))
}

/// Opens the socket of a segment. A segment without one runs too, and reports that.
pub(crate) fn open(interface: &str) -> Option<(ControlSocket, CommandQueue)> {
    let path = socket(interface);
    match ControlSocket::open(&path) {
        Ok(opened) => Some(opened),
        Err(why) => {
            let why = match why.kind() {
                io::ErrorKind::AddrInUse => format!("another segment on {interface} receives them"),
                _ => format!("{}: {why}", path.display()),
            };
            advise(
                Tone::Careful,
                &wrapped(&format!("faults cannot be injected into this segment: {why}"), 80),
            );
            None
        }
    }
}

/// Returns the interfaces on which a segment answers.
fn running() -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory()) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let names = names.filter_map(|name| name.strip_suffix(ENDING).map(str::to_owned));
    let mut found: Vec<String> = names.filter(|name| is_there(&socket(name))).collect();
    found.sort();
    found
}

/// Returns whether a segment answers: the socket of a killed one does not.
fn is_there(path: &Path) -> bool {
    std::os::unix::net::UnixStream::connect(path).is_ok_and(|_| true)
}

fn chosen(on: &OnOptions) -> Result<String, Failure> {
    let none =
        |on: String| Failure::from(SegmentOrderFailure::NoSegment { on, place: directory() });
    match (&on.on, running().as_slice()) {
        (Some(name), _) if is_there(&socket(name)) => Ok(name.clone()),
        (Some(name), _) => Err(none(format!(" on {name}"))),
        (None, [one]) => Ok(one.clone()),
        (None, []) => Err(none(String::new())),
        (None, several) => Err(SegmentOrderFailure::SeveralSegments(several.join(", ")).into()),
    }
}

fn asked(on: &OnOptions, order: &SegmentCommand) -> Result<(String, SegmentReply), Failure> {
    let name = chosen(on)?;
    match send_command(&socket(&name), order) {
        Ok(SegmentReply::Refused { why }) => Err(SegmentOrderFailure::Refused(why).into()),
        Ok(answer) => Ok((name, answer)),
        Err(source) => Err(SegmentOrderFailure::NotAsked { on: name, source }.into()),
    }
}

pub(crate) fn fault(options: &FaultOptions) -> Result<ExitVerdict, Failure> {
    if options.list {
        return list(options);
    }

    let words = FaultTable {
        kind: options.kind.clone().unwrap_or_default(),
        device: options.device.clone(),
        with: options.with.clone(),
        at_ms: 0.0,
        for_ms: options.duration.map(|ns| ns as f64 / 1e6),
        share: options.share,
        code: options.code,
        state: options.state,
        by: options.by,
        mails: options.mails,
    };

    let (name, _) = asked(&options.on, &SegmentCommand::Fault(words.clone()))?;
    say(Tone::Plain, &format!("{name}: {}", described(&words)));
    Ok(ExitVerdict::Pass)
}

/// Describes a fault in one line.
fn described(words: &FaultTable) -> String {
    let of = words.device.as_ref().map(|device| format!("of \"{device}\""));
    let number = |name: &str, value: Option<String>| value.map(|value| format!("{name} {value}"));
    let share = (words.share < 1.0).then(|| format!("share {}", words.share));
    let duration = words.for_ms.map(|ms| format!("for {ms} ms"));
    let parts = [
        Some(words.kind.clone()),
        of,
        words.with.as_ref().map(|other| format!("with \"{other}\"")),
        number("by", words.by.map(|by| by.to_string())),
        number("code", words.code.map(|code| format!("{code:#06x}"))),
        number("state", words.state.map(|state| state.to_string())),
        number("mails", words.mails.map(|mails| mails.to_string())),
        share,
        duration,
    ];

    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn list(options: &FaultOptions) -> Result<ExitVerdict, Failure> {
    for (kind, of, values) in FAULT_KINDS {
        say(Tone::Plain, format!("{kind:<14} {of:<28} {values}").trim_end());
    }

    if options.on.on.is_none() && running().is_empty() {
        return Ok(ExitVerdict::Pass);
    }

    let (name, answer) = asked(&options.on, &SegmentCommand::Status)?;
    if let SegmentReply::Status(status) = answer {
        say(Tone::Head, &format!("on {name}"));
        say_faults(&status);
    }

    Ok(ExitVerdict::Pass)
}

fn say_faults(status: &SegmentStatus) {
    if status.faults.is_empty() && status.planned.is_empty() {
        say(Tone::Plain, "no faults");
    }

    for fault in &status.faults {
        say(Tone::Bad, &format!("fault: {}", described(fault)));
    }

    for fault in &status.planned {
        say(Tone::Plain, &format!("still to come: {}", described(fault)));
    }
}

pub(crate) fn heal(options: &OnOptions) -> Result<ExitVerdict, Failure> {
    let (name, _) = asked(options, &SegmentCommand::Heal)?;
    say(Tone::Plain, &format!("{name}: no faults any more"));
    Ok(ExitVerdict::Pass)
}

pub(crate) fn status(options: &StatusOptions) -> Result<ExitVerdict, Failure> {
    let (name, answer) = asked(&options.on, &SegmentCommand::Status)?;
    let SegmentReply::Status(status) = answer else { return Ok(ExitVerdict::CouldNotRun) };
    if options.json {
        say(Tone::Plain, &serde_json::to_string_pretty(&status)?);
        return Ok(ExitVerdict::Pass);
    }

    say(
        Tone::Head,
        &format!(
            "{}: {} devices on {name}, seed {}",
            status.segment,
            status.devices.len(),
            status.seed
        ),
    );
    let widest =
        status.devices.iter().map(|device| device.name.chars().count()).max().unwrap_or_default();
    for device in &status.devices {
        let state = match device.powered {
            false => "no power",
            true => al::name(device.al_state.into()).unwrap_or("?"),
        };

        let error = match device.al_status_code {
            0 => String::new(),
            code => format!("  error {code:#06x}"),
        };

        let line = format!("{:<widest$}  {:#06x}  {state}{error}", device.name, device.station);
        say(
            if device.al_status_code == 0 && device.powered { Tone::Plain } else { Tone::Bad },
            &line,
        );
    }

    let counts = status.counts;
    let lost = counts.lost + counts.swallowed + counts.no_room;
    say(
        Tone::Plain,
        &format!(
            "{}, {lost} of them lost, {} came back",
            units::counted(counts.sent, "frame"),
            units::count(counts.received)
        ),
    );
    say_faults(&status);
    Ok(ExitVerdict::Pass)
}
