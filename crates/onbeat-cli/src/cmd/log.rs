//! Logs of channels.

use std::path::Path;

use onbeat::report::units::{count, listed};
use serde_json::{Value, json};

use super::bus_words::print_json;
use super::gateway::Gateway;
use super::{ExitVerdict, Failure};
use crate::cli_message::{From, LogCompression, RecordOptions};
use crate::signals::{self, OnUsr1};
use crate::term::{Tone, advise, say};

/// Begins the log of a robot with its first cycle.
pub(super) fn of_robot(path: &Path, name: &str) -> Result<Gateway, Failure> {
    let channel = format!("{name}/{}", onbeat_robot::cycle_messages::TOPIC);
    Gateway::begin("record", &json!({ "channels": [channel], "out": path, "from": "oldest" }))
}

/// Returns the sentence about a complete log.
pub(super) fn sentence(path: &Path, account: &Value) -> String {
    let bytes = count(account["bytes"].as_u64().unwrap_or(0));
    format!("log {}: records {}; {bytes} bytes", path.display(), of_channels(account))
}

/// Returns what was received and lost on each channel of an account.
pub(super) fn of_channels(account: &Value) -> String {
    let channels = account["channels"].as_array().map_or(&[][..], Vec::as_slice);
    let number = |of: &Value, name: &str| count(of[name].as_u64().unwrap_or(0));
    let part = |of: &Value| {
        let name = of["channel"].as_str().unwrap_or_default();
        format!("{} of {name}, {} lost", number(of, "received"), number(of, "lost"))
    };
    listed(&channels.iter().map(part).collect::<Vec<_>>())
}

/// Records channels until Ctrl-C, until their writers have ended, or for the given time.
pub(super) fn record(options: &RecordOptions) -> Result<ExitVerdict, Failure> {
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let channels: Vec<String> = options.channels.iter().map(ToString::to_string).collect();
    let order = json!({
        "channels": channels,
        "out": options.out,
        "from": if options.from == From::Oldest { "oldest" } else { "newest" },
        "compression": if options.compression == LogCompression::Lz4 { "lz4" } else { "none" },
        "for_ns": options.duration,
    });

    let gateway = Gateway::begin("record", &order)?;
    advise(Tone::Faint, &format!("recording {}", listed(&channels)));
    let account = gateway.run(&interruptions.stop)?;
    if options.json {
        print_json(&account)?;
    } else {
        say(Tone::Plain, &sentence(&options.out, &account));
    }
    Ok(ExitVerdict::Holds)
}
