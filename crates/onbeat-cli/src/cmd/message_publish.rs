//! `onbeat message publish`: a channel from lines of JSON on standard input, for scripts in any language.

use std::io::{BufRead, Read, stdin};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use onbeat::report::units::count;
use onbeat_control::{RecordType, RingSettings, RingWriter};
use onbeat_message::{TypeSet, own};
use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;
use serde_json::{Value as Json, json};

use super::bus_words::print_json;
use super::failure::MessageFailure;
use super::message_files::add_files;
use super::{ExitVerdict, Failure};
use crate::cli_message::PublishOptions;
use crate::signals::{self, OnUsr1};
use crate::term::{Tone, advise};

/// How long the end and the ring's file are not looked at while no line comes.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Lines that may wait; a script that writes faster is slowed down.
const MOST_LINES: usize = 64;
/// Longest line, in bytes: a message of the longest record, as text.
const MOST_LINE: u64 = 64 << 20;
/// Memory of the ring, roughly, and limits of the records kept.
const RING_BYTES: usize = 4 << 20;
const RECORDS: (usize, usize) = (16, 4096);

/// Publishes until standard input ends, or Ctrl-C.
pub(super) fn publish(options: &PublishOptions) -> Result<ExitVerdict, Failure> {
    let mut publication = Publication::open(options)?;
    print_json(&json!({ "channel": options.channel.to_string(), "type": publication.type_name }))?;
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let lines = lines()?;
    let mut refused = 0_u64;
    let mut published = 0_u64;
    while !interruptions.stop.load(Ordering::Relaxed) {
        match lines.recv_timeout(LOOK_EVERY) {
            Ok(line) if line.trim_ascii().is_empty() => {}
            Ok(line) => match publication.publish(&line) {
                Ok(()) => published += 1,
                Err(why) => {
                    refused += 1;
                    print_json(&json!({ "refused": why.to_string() }))?;
                }
            },
            Err(RecvTimeoutError::Timeout) => publication.writer.check()?,
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }

    let line = format!("{} records published, {} lines refused", count(published), count(refused));
    advise(if refused > 0 { Tone::Careful } else { Tone::Faint }, &line);
    Ok(if refused > 0 { ExitVerdict::CouldNot } else { ExitVerdict::Holds })
}

struct Publication {
    types: TypeSet,
    type_name: String,
    most_bytes: usize,
    writer: RingWriter,
}

impl Publication {
    fn open(options: &PublishOptions) -> Result<Self, Failure> {
        let name = &options.message_type;
        let types = match &options.definition {
            Some(text) => TypeSet::from_text(name, text).map_err(MessageFailure::from)?,
            None => {
                let mut types = own::types();
                add_files(&mut types, &options.file)?;
                types
            }
        };
        let used = types.used(name).map_err(MessageFailure::from)?;
        let type_name = used.first().map_or_else(|| name.clone(), |first| first.name.clone());
        let most_bytes = options.most_bytes as usize;
        let fit = (RING_BYTES / most_bytes).clamp(RECORDS.0, RECORDS.1);
        let record_type = RecordType {
            name: type_name.clone(),
            hash: types.hash(name).map_err(MessageFailure::from)?,
            schema: types.text(name).map_err(MessageFailure::from)?,
        };
        let settings = RingSettings {
            records: 1 << fit.ilog2(),
            record_bytes: most_bytes,
            record_type,
            description: String::new(),
        };
        let writer = RingWriter::create(&options.channel, &settings)?;
        Ok(Self { types, type_name, most_bytes, writer })
    }

    fn publish(&mut self, line: &[u8]) -> Result<(), MessageFailure> {
        if line.len() as u64 > MOST_LINE {
            return Err(MessageFailure::LongLine { most: MOST_LINE });
        }
        let json: Json = serde_json::from_slice(line).map_err(MessageFailure::Json)?;
        let (at_ns, json) = stamped(json);
        let value = self.types.value_of_json(&self.type_name, &json)?;
        let bytes = self.types.encode(&self.type_name, &value)?;
        // What is longer would be cut.
        if bytes.len() > self.most_bytes {
            return Err(MessageFailure::LongRecord { bytes: bytes.len(), most: self.most_bytes });
        }
        self.writer.publish(at_ns.unwrap_or_else(|| Monotonic.now().as_ns()), &bytes);
        Ok(())
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

/// Reads lines on a thread of their own; the channel is closed at the end of standard input.
fn lines() -> Result<Receiver<Vec<u8>>, Failure> {
    let (sender, lines) = sync_channel(MOST_LINES);
    let read = move || {
        let mut input = stdin().lock();
        loop {
            let mut line = Vec::new();
            let mut bounded = input.by_ref().take(MOST_LINE + 1);
            match bounded.read_until(b'\n', &mut line) {
                Ok(1..) => {}
                Ok(0) | Err(_) => return,
            }
            if sender.send(line).is_err() {
                return;
            }
        }
    };
    let started = thread::Builder::new().name("onbeat-lines".to_owned()).spawn(read);
    started.map_err(|source| Failure::Thread { what: "lines from standard input", source })?;
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
