//! `onbeat message publish`: records of a channel from lines of JSON, for scripts in any language.

use std::io::{self, BufRead, Read, stdin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use onbeat_control::{RecordType, RingSettings, RingWriter};
use onbeat_message::{TypeSet, own};
use onbeat_report::units::count;
use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;
use serde_json::{Value as Json, json};

use super::files::{add_files, lcm_texts};
use super::options::PublishOptions;
use crate::cmd::failure::message::MessageFailure;
use crate::cmd::gateway::Gateway;
use crate::cmd::{Common, ExitVerdict, Failure};
use crate::signals::{self, OnUsr1};
use crate::term::{Tone, advise, print_json};

/// How long the end and the ring's file are not looked at while no line comes.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Lines that may wait; a script that writes faster is slowed down.
const MOST_LINES: usize = 64;
/// Longest line, in bytes: a message of the longest record, as text.
const MOST_LINE: u64 = 64 << 20;
/// Memory of a ring, in bytes; it keeps at least 64 records, and at most 4,096.
const RING_BYTES: usize = 8 << 20;

/// Publishes until standard input ends. Answers each line by one of JSON: `{"published": N}`, or
/// `{"refused": SENTENCE}`.
pub(super) fn publish(options: &PublishOptions) -> Result<ExitVerdict, Failure> {
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let mut publication = Publication::open(options)?;
    let sent = options.to.as_ref().map(|to| send(options, to, &interruptions.stop)).transpose()?;

    print_json(&json!({ "channel": options.channel.to_string(), "type": publication.type_name }))?;
    let lines = lines()?;
    let (mut number, mut at, mut refused) = (0, 0_u64, 0_u64);
    while !interruptions.stop.load(Ordering::Relaxed) {
        let line = match lines.recv_timeout(LOOK_EVERY) {
            Ok(line) => line.map_err(MessageFailure::Input)?,
            Err(RecvTimeoutError::Timeout) => {
                publication.writer.check()?;
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        };
        at += 1;
        if line.trim_ascii().is_empty() {
            continue;
        }
        match publication.encoded(at, &line) {
            Ok((at_ns, bytes)) => {
                publication.writer.check()?;
                number = publication.writer.publish(at_ns, &bytes);
                print_json(&json!({ "published": number }))?;
            }
            Err(why) => {
                refused += 1;
                print_json(&json!({ "refused": why.to_string() }))?;
            }
        }
    }

    // Its last records are sent once it has ended.
    drop(publication);
    let dropped = match sent.map(Gateway::finish).transpose()? {
        Some(account) => {
            let dropped = account["dropped"].as_u64().unwrap_or(0);
            format!("; {} dropped for slow peers", count(dropped))
        }
        None => String::new(),
    };
    let words =
        format!("{} records published, {} lines refused{dropped}", count(number), count(refused));
    advise(if refused > 0 { Tone::Careful } else { Tone::Faint }, &words);
    Ok(if refused > 0 { ExitVerdict::CouldNotRun } else { ExitVerdict::Pass })
}

/// A channel that is written to, and the type of its records.
struct Publication {
    channel: String,
    types: TypeSet,
    type_name: String,
    most: u32,
    writer: RingWriter,
}

impl Publication {
    fn open(options: &PublishOptions) -> Result<Self, Failure> {
        let name = &options.message_type;
        let types = match &options.definition {
            Some(text) => TypeSet::from_text(name, text)?,
            None => {
                let mut types = own::types();
                add_files(&mut types, &options.file)?;
                types
            }
        };
        let used = types.used(name)?;
        let type_name = used.first().map_or_else(|| name.clone(), |first| first.name.clone());
        let record_bytes = options.most_bytes as usize;
        let records = (RING_BYTES / record_bytes).clamp(64, 4096);
        let records = records.min(RingSettings::most_records(record_bytes));
        let settings = RingSettings {
            records: records.next_power_of_two(),
            record_bytes,
            record_type: RecordType {
                name: type_name.clone(),
                hash: types.hash(name)?,
                schema: types.text(name)?,
            },
            description: String::new(),
        };
        let writer = RingWriter::create(&options.channel, &settings)?;
        let channel = options.channel.to_string();
        Ok(Self { channel, types, type_name, most: options.most_bytes, writer })
    }

    /// The time and the bytes of the record in a line.
    fn encoded(&self, line: u64, text: &[u8]) -> Result<(u64, Vec<u8>), MessageFailure> {
        if text.len() as u64 > MOST_LINE {
            return Err(MessageFailure::LongLine { line, most: MOST_LINE });
        }
        let json = serde_json::from_slice(text);
        let json = json.map_err(|source| MessageFailure::NotJson { line, source })?;
        let (at_ns, json) = stamped(json);
        let value = self.types.value_from_json(&self.type_name, &json);
        let bytes = value.and_then(|value| self.types.encode(&self.type_name, &value));
        let bytes = bytes.map_err(|source| MessageFailure::Line { line, source })?;
        // What is longer would be cut.
        if bytes.len() > self.most as usize {
            let channel = self.channel.clone();
            return Err(MessageFailure::TooLong { channel, bytes: bytes.len(), most: self.most });
        }
        Ok((at_ns.unwrap_or_else(|| Monotonic.now().as_ns()), bytes))
    }
}

/// Splits a line as `message echo` prints them, `{"number": 7, "at_ns": 1, "message": {}}`, into time and
/// message; any other line is a message of now.
fn stamped(mut json: Json) -> (Option<u64>, Json) {
    let is_echoed = json.as_object().is_some_and(|fields| {
        fields.get("at_ns").is_some_and(Json::is_u64)
            && fields.get("message").is_some_and(Json::is_object)
            && fields.keys().all(|name| ["number", "at_ns", "message"].contains(&name.as_str()))
    });
    if is_echoed { (json["at_ns"].as_u64(), json["message"].take()) } else { (None, json) }
}

fn send(options: &PublishOptions, to: &str, stop: &AtomicBool) -> Result<Gateway, Failure> {
    let channel = options.channel.to_string();
    let remote = options.remote.as_ref().unwrap_or(&channel);
    let lcm = lcm_texts(&options.file)?;
    let sent = json!({ "channel": channel, "remote": remote, "lcm": lcm });
    Gateway::begin("send", &json!({ "channels": [sent], "to": to }), stop)
}

/// Reads lines on a thread of their own, so that a signal ends the command while none comes; the channel is
/// closed at the end of standard input.
fn lines() -> Result<Receiver<io::Result<Vec<u8>>>, Failure> {
    let (sender, lines) = sync_channel(MOST_LINES);
    let read = move || {
        let mut input = stdin().lock();
        loop {
            let mut line = Vec::new();
            let mut bounded = input.by_ref().take(MOST_LINE + 1);
            let read = match bounded.read_until(b'\n', &mut line) {
                Ok(0) => return,
                Ok(_) => Ok(line),
                Err(why) => Err(why),
            };
            let is_over = read.is_err();
            if sender.send(read).is_err() || is_over {
                return;
            }
        }
    };
    let started = thread::Builder::new().name("onbeat-lines".to_owned()).spawn(read);
    started.map_err(|source| Common::Thread { what: "lines from standard input", source })?;
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_echo_keeps_its_time_and_any_other_line_is_a_message() {
        let echoed = json!({ "number": 3, "at_ns": 9, "message": { "x": 1 } });
        assert_eq!(stamped(echoed), (Some(9), json!({ "x": 1 })));
        for own in [json!({ "x": 1 }), json!({ "at_ns": 9, "message": "text" }), json!(7)] {
            assert_eq!(stamped(own.clone()), (None, own));
        }
        let with_other_fields = json!({ "at_ns": 9, "message": {}, "level": 1 });
        assert_eq!(stamped(with_other_fields.clone()), (None, with_other_fields));
    }
}
