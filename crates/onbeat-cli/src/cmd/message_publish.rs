//! `onbeat message publish`: records of a channel from lines of JSON, for scripts in any language.

use std::io::{BufRead, Read, stdin};
use std::sync::atomic::Ordering;

use onbeat::report::units::count;
use onbeat_control::{RecordType, RingSettings, RingWriter};
use onbeat_message::{TypeSet, own};
use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;
use serde_json::json;

use super::bus_words::print_json;
use super::failure::MessageFailure;
use super::gateway::Gateway;
use super::message_files::{add_files, only_lcm_texts};
use super::{ExitVerdict, Failure};
use crate::cli_message::PublishOptions;
use crate::signals::{self, OnUsr1};
use crate::term::{Tone, advise};

/// Longest line, in bytes.
const MOST_LINE: u64 = 256 << 20;
/// Memory of a ring, in bytes; it keeps at least 64 records, and at most 4,096.
const RING_BYTES: usize = 8 << 20;

/// Publishes until standard input ends. Answers each line by one of JSON: `{"published": N}`, or `{"refused": SENTENCE}`.
pub(super) fn publish(options: &PublishOptions) -> Result<ExitVerdict, Failure> {
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let mut types: TypeSet = own::types();
    add_files(&mut types, &options.file)?;
    let mut writer = create(options, &types)?;
    let sent = options.to.as_ref().map(|to| send(options, to, &interruptions.stop)).transpose()?;

    print_json(&json!({ "channel": options.channel.to_string() }))?;
    let mut number = 0;
    let mut lines = stdin().lock();
    let mut refused = 0_u64;
    for line in 1.. {
        let mut text = String::new();
        let read = lines.by_ref().take(MOST_LINE).read_line(&mut text);
        if read.map_err(MessageFailure::Input)? == 0 || interruptions.stop.load(Ordering::Relaxed) {
            break;
        }
        if text.trim().is_empty() {
            continue;
        }
        match encoded(options, &types, line, &text) {
            Ok(bytes) => {
                writer.check()?;
                number = writer.publish(Monotonic.now().as_ns(), &bytes);
                print_json(&json!({ "published": number }))?;
            }
            Err(why) => {
                refused += 1;
                print_json(&json!({ "refused": why.to_string() }))?;
            }
        }
    }

    // Its last records are sent once it has ended.
    drop(writer);
    let dropped = match sent.map(Gateway::finish).transpose()? {
        Some(account) => {
            let dropped = account["dropped"].as_u64().unwrap_or(0);
            format!("; {} dropped for slow peers", count(dropped))
        }
        None => String::new(),
    };
    let (published, not) = (count(number), count(refused));
    advise(Tone::Faint, &format!("{published} records published, {not} lines refused{dropped}"));
    Ok(if refused == 0 { ExitVerdict::Holds } else { ExitVerdict::CouldNot })
}

fn create(options: &PublishOptions, types: &TypeSet) -> Result<RingWriter, Failure> {
    let name = &options.message_type;
    let schema = types.text(name).map_err(MessageFailure::from)?;
    let hash = types.hash(name).map_err(MessageFailure::from)?;
    let record_bytes = options.most_bytes as usize;
    let records = (RING_BYTES / record_bytes).clamp(64, 4096);
    let records = records.min(RingSettings::most_records(record_bytes));
    let settings = RingSettings {
        records: records.next_power_of_two(),
        record_bytes,
        record_type: RecordType { name: name.clone(), hash, schema },
        description: String::new(),
    };
    Ok(RingWriter::create(&options.channel, &settings)?)
}

fn send(
    options: &PublishOptions,
    to: &str,
    stop: &std::sync::atomic::AtomicBool,
) -> Result<Gateway, Failure> {
    let channel = options.channel.to_string();
    let remote = options.remote.as_ref().unwrap_or(&channel);
    let is_lcm = |path: &std::path::PathBuf| path.extension().is_some_and(|it| it == "lcm");
    let of_lcm: Vec<_> = options.file.iter().filter(|path| is_lcm(path)).cloned().collect();
    let lcm = only_lcm_texts(&of_lcm)?;
    let sent = json!({ "channel": channel, "remote": remote, "lcm": lcm });
    Gateway::begin("send", &json!({ "channels": [sent], "to": to }), stop)
}

fn encoded(
    options: &PublishOptions,
    types: &TypeSet,
    line: u64,
    text: &str,
) -> Result<Vec<u8>, MessageFailure> {
    let json = serde_json::from_str(text);
    let json = json.map_err(|source| MessageFailure::NotJson { line, source })?;
    let name = &options.message_type;
    let value = types.value_from_json(name, &json);
    let bytes = value.and_then(|value| types.encode(name, &value));
    let bytes = bytes.map_err(|source| MessageFailure::Line { line, source })?;
    if bytes.len() > options.most_bytes as usize {
        let (channel, most) = (options.channel.to_string(), options.most_bytes);
        return Err(MessageFailure::TooLong { channel, bytes: bytes.len(), most });
    }
    Ok(bytes)
}
