//! Logs of channels: recording, playing, listing and converting them.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, UNIX_EPOCH};

use onbeat_host::foreign::printable;
use onbeat_report::table::{Column, Row, Table};
use onbeat_report::units::{count, listed, spoken, time_ns};
use serde_json::{Value, json};

use super::files::only_lcm_texts;
use super::options::{ConvertOptions, From, LogCompression, PlayOptions, RecordOptions};
use super::transport::{bytes_of_mib, not_of_lcm, refused_peers};
use crate::cmd::failure::message::MessageFailure;
use crate::cmd::gateway::Gateway;
use crate::cmd::{ExitVerdict, Failure};
use crate::signals::{self, OnUsr1};
use crate::term::{Tone, advise, columns, letters, print_json, say};

/// Memory for one record and one chunk while a log is listed, in MiB.
const LIST_MIB: u32 = 256;
/// A pause of a log that is said before it is played, in s.
const LONG_PAUSE_S: f64 = 3600.0;
/// Damaged places that are said one by one.
const MOST_SAID: usize = 5;

/// Begins the log of a robot with its first cycle.
pub(in crate::cmd) fn of_robot(
    path: &Path,
    name: &str,
    stop: &AtomicBool,
) -> Result<Gateway, Failure> {
    let channel = format!("{name}/{}", onbeat_robot::cycle_messages::TOPIC);
    let order = json!({ "channels": [channel], "out": path, "from": "oldest" });
    Gateway::begin("record", &order, stop)
}

/// Returns the sentence about a complete log.
pub(in crate::cmd) fn sentence(path: &Path, account: &Value) -> String {
    let bytes = count(account["bytes"].as_u64().unwrap_or(0));
    format!("log {}: records {}; {bytes} bytes", path.display(), of_channels(account))
}

/// Returns what was received and lost on each channel of an account.
pub(in crate::cmd) fn of_channels(account: &Value) -> String {
    let channels = account["channels"].as_array().map_or(&[][..], Vec::as_slice);
    let number = |of: &Value, name: &str| count(of[name].as_u64().unwrap_or(0));
    let part = |of: &Value| {
        let name = printable(of["channel"].as_str().unwrap_or_default());
        format!("{} of {name}, {} lost", number(of, "received"), number(of, "lost"))
    };
    listed(&channels.iter().map(part).collect::<Vec<_>>())
}

/// Records channels until Ctrl-C, until their writers have ended, or for the given time.
pub(in crate::cmd) fn record(options: &RecordOptions) -> Result<ExitVerdict, Failure> {
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let channels: Vec<String> = options.channels.iter().map(ToString::to_string).collect();
    let order = json!({
        "channels": channels,
        "out": options.out,
        "from": if options.from == From::Oldest { "oldest" } else { "newest" },
        "compression": compression_word(options.compression),
        "for_ns": options.duration,
    });

    let gateway = Gateway::begin("record", &order, &interruptions.stop)?;
    advise(Tone::Faint, &format!("recording {}", listed(&channels)));
    let account = gateway.run(&interruptions.stop)?;
    accounted(options.json, &account, || sentence(&options.out, &account))
}

/// Prints the account of a gateway, as it is or as a sentence.
pub(super) fn accounted(
    is_json: bool,
    account: &Value,
    sentence: impl FnOnce() -> String,
) -> Result<ExitVerdict, Failure> {
    if is_json {
        print_json(account)?;
    } else {
        say(Tone::Plain, &sentence());
    }
    Ok(ExitVerdict::Pass)
}

/// Lists what a log has.
pub(in crate::cmd) fn list(log: &Path, is_json: bool) -> Result<ExitVerdict, Failure> {
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let order = json!({ "log": log, "most_memory": bytes_of_mib(LIST_MIB) });
    let listed = Gateway::begin("list", &order, &interruptions.stop)?.run(&interruptions.stop)?;
    if is_json {
        print_json(&listed)?;
        return Ok(ExitVerdict::Pass);
    }
    say_defects(log, &listed);
    let channels = listed["channels"].as_array().map_or(&[][..], Vec::as_slice);
    if channels.is_empty() {
        advise(Tone::Plain, &format!("{} has no messages", log.display()));
        return Ok(ExitVerdict::Pass);
    }
    let row = |of: &Value| {
        let word = |name: &str| printable(of[name].as_str().unwrap_or_default());
        let records = count(of["records"].as_u64().unwrap_or(0));
        Row::new([word("channel"), word("type"), word("encoding"), records])
    };
    let table = Table {
        title: title(&listed),
        columns: Column::all(&["channel", "type", "encoding"], &["records"]),
        rows: channels.iter().map(row).collect(),
        ..Table::default()
    };
    say(Tone::Plain, table.to_text(columns()).trim_end());
    Ok(ExitVerdict::Pass)
}

/// The title of a list: when the log begins, and how long it is.
fn title(of: &Value) -> String {
    let number = |name: &str| of[name].as_u64().unwrap_or(0);
    match (number("first_ns"), number("log_ns")) {
        (0, 0) => "Log".to_owned(),
        (first_ns, log_ns) => {
            let begin = UNIX_EPOCH + Duration::from_nanos(first_ns);
            let begin = humantime::format_rfc3339_seconds(begin);
            format!("Log of {} from {begin}", spoken(log_ns as f64 / 1e9))
        }
    }
}

/// Says why a log is not complete, and where it is damaged.
fn say_defects(log: &Path, of: &Value) {
    let log = log.display();
    let damage = of["damage"].as_array().map_or(&[][..], Vec::as_slice);
    for why in damage.iter().take(MOST_SAID).filter_map(Value::as_str) {
        advise(Tone::Careful, &format!("{log}: {why}; the rest is read"));
    }
    let more = of["damaged"].as_u64().unwrap_or(0).saturating_sub(MOST_SAID as u64);
    if more > 0 {
        let more = count(more);
        advise(Tone::Careful, &format!("{log}: {more} more such places"));
    }
    match of["cut"].as_str() {
        None | Some("") => {}
        Some(why) => advise(Tone::Careful, &format!("{log}: {why}")),
    }
}

/// Converts a log to MCAP.
pub(in crate::cmd) fn convert(options: &ConvertOptions) -> Result<ExitVerdict, Failure> {
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let order = json!({
        "log": options.log,
        "out": options.out,
        "compression": compression_word(options.compression),
        "lcm": only_lcm_texts(&options.file)?,
        "most_memory": bytes_of_mib(options.most_memory),
    });
    let account =
        Gateway::begin("convert", &order, &interruptions.stop)?.run(&interruptions.stop)?;
    accounted(options.json, &account, || converted_sentence(options, &account))
}

/// Says where the log is damaged, and returns the sentence about its conversion.
fn converted_sentence(options: &ConvertOptions, account: &Value) -> String {
    say_defects(&options.log, account);
    let number = |name: &str| count(account[name].as_u64().unwrap_or(0));
    let strange = match account["not_decoded"].as_u64() {
        None | Some(0) => String::new(),
        Some(_) => format!("; {} of LCM as bytes, of no type in --file", number("not_decoded")),
    };
    let left = match account["not_copied"].as_u64() {
        None | Some(0) => String::new(),
        Some(_) => {
            format!("; {} attachments and metadata records not copied", number("not_copied"))
        }
    };
    let (records, bytes) = (number("records"), number("bytes"));
    let out = options.out.display();
    format!("log {out}: {records} records{strange}{left}; {bytes} bytes")
}

const fn compression_word(of: LogCompression) -> &'static str {
    match of {
        LogCompression::Lz4 => "lz4",
        LogCompression::None => "none",
    }
}

/// Plays a log until its end, until Ctrl-C, or for the given time.
pub(in crate::cmd) fn play(options: &PlayOptions) -> Result<ExitVerdict, Failure> {
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let channels = options.channels.len();
    if options.remote.is_some() && channels != 1 {
        return Err(MessageFailure::ManyRemotes { channels }.into());
    }
    let remote = options.remote.clone().unwrap_or_default();
    let played = |topic: &String| json!({ "topic": topic, "remote": remote });
    let order = json!({
        "log": options.log,
        "channels": options.channels.iter().map(played).collect::<Vec<_>>(),
        "to": options.to.clone().unwrap_or_default(),
        "lcm": only_lcm_texts(&options.file)?,
        "rate": options.rate,
        "delay_ns": options.delay,
        "for_ns": options.duration,
        "most_memory": bytes_of_mib(options.most_memory),
    });

    let gateway = Gateway::begin("play", &order, &interruptions.stop)?;
    announce(options, gateway.begun());
    let account = gateway.run(&interruptions.stop)?;
    accounted(options.json, &account, || played_sentence(options, &account))
}

/// Says what is going to be played, and to where.
fn announce(options: &PlayOptions, start: &Value) {
    let number = |name: &str| start[name].as_u64().unwrap_or(0);
    let records = count(number("records"));
    let log_time = spoken(number("log_ns") as f64 / 1e9);
    let to = options.to.as_deref().unwrap_or("channels of this machine");
    let log = options.log.display();
    advise(Tone::Faint, &format!("playing {log}, {records} records of {log_time}, to {to}"));
    for pair in start["renamed"].as_array().map_or(&[][..], Vec::as_slice) {
        if let (Some(topic), Some(name)) = (pair[0].as_str(), pair[1].as_str()) {
            advise(Tone::Faint, &format!("{} is played as {name}", printable(topic)));
        }
    }
    let pause_s = number("pause_ns") as f64 / 1e9;
    if options.rate > 0.0 && pause_s / options.rate >= LONG_PAUSE_S {
        let why = "perhaps because the clock was set; --rate 0 does not wait";
        let pause = spoken(pause_s);
        advise(Tone::Careful, &format!("{log}: {pause} without a record, {why}"));
    }
    say_defects(&options.log, start);
}

/// Returns the sentence about what was played.
fn played_sentence(options: &PlayOptions, account: &Value) -> String {
    let number = |name: &str| account[name].as_u64().unwrap_or(0);
    let strange = not_of_lcm(account);
    let refused = refused_peers(account);
    let behind = match options.rate > 0.0 {
        true => format!("; at most {} late", time_ns(number("latest_ns"), letters())),
        false => String::new(),
    };
    format!(
        "played {}: records {}; {} dropped for slow peers{refused}{strange}{behind}",
        options.log.display(),
        of_channels(account),
        count(number("dropped")),
    )
}
