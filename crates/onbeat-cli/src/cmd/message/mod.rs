//! `onbeat message`: records that robots and buses publish on rings in shared memory.

mod command;
mod files;
pub(super) mod log;
pub(crate) mod options;
mod publish;
mod remote_command;
mod transport;

use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use onbeat_control::{FoundChannels, Reading, RingError, RingHead, RingReader, Start};
use onbeat_host::foreign::printable;
use onbeat_message::{TypeSet, Value, generate, own};
use onbeat_report::table::{Column, Row, Table};
use onbeat_report::units::count;
use serde_json::{Map, Value as Json, json};

use super::byte_words::hex_of;
use super::failure::message::MessageFailure;
use super::{ExitVerdict, Failure};
use crate::signals::{self, OnUsr1};
use crate::term::{Tone, advise, columns, is_read, print_json, put, say};
use files::add_files;
use options::{
    EchoOptions, From, GenerateCodecOptions, Language, ListOptions, Message, TypeOptions,
};

/// Interval between two looks at an empty ring, and between two checks of its writer.
const LOOK_EVERY: Duration = Duration::from_millis(1);
const CHECK_EVERY: Duration = Duration::from_millis(100);

pub(crate) fn run(command: &Message) -> Result<ExitVerdict, Failure> {
    match command {
        Message::List(options) => match &options.log {
            Some(log) => log::list(log, options.json),
            None => list(options),
        },
        Message::Echo(options) => echo(options),
        Message::Record(options) => log::record(options),
        Message::Play(options) => log::play(options),
        Message::Convert(options) => log::convert(options),
        Message::Send(options) => transport::send(options),
        Message::Publish(options) => publish::publish(options),
        Message::Receive(options) => transport::receive(options),
        Message::Command(options) => match &options.from {
            Some(from) => remote_command::listen(options, from),
            None => command::command(options),
        },
        Message::Key(options) => remote_command::create_key(options),
        Message::Type(options) => print_type(options),
        Message::Generate(options) => generate_codec(options),
    }
}

fn list(options: &ListOptions) -> Result<ExitVerdict, Failure> {
    let found = FoundChannels::look()?;
    for why in found.ignored.iter().chain(&found.denied) {
        advise(Tone::Careful, &format!("ignored: {why}"));
    }
    if options.json {
        let all: Vec<Json> = found.rings.iter().map(listed_json).collect();
        print_json(&Json::from(all))?;
        return Ok(ExitVerdict::Pass);
    }

    if found.rings.is_empty() {
        let starts = "`onbeat robot run --name NAME` and `onbeat bus run` publish one";
        advise(Tone::Plain, &format!("there are no channels; {starts}"));
        return Ok(ExitVerdict::Pass);
    }

    let row = |ring: &RingHead| {
        let (pid, process) = ring.writer();
        let writer = match ring.check_alive() {
            Ok(()) => format!("{process} ({pid})"),
            Err(_) => "has ended".to_owned(),
        };
        Row::new([
            ring.channel().to_string(),
            printable(&ring.type_name()),
            writer,
            count(ring.newest()),
            count(ring.records()),
        ])
    };
    let table = Table {
        title: "Channels".to_owned(),
        columns: Column::all(&["channel", "type", "writer"], &["records", "kept"]),
        rows: found.rings.iter().map(row).collect(),
        ..Table::default()
    };
    say(Tone::Plain, table.to_text(columns()).trim_end());
    Ok(ExitVerdict::Pass)
}

fn listed_json(ring: &RingHead) -> Json {
    let (pid, process) = ring.writer();
    json!({
        "channel": ring.channel().to_string(), "type": ring.type_name(),
        "hash": format!("RIHS01_{}", hex_of(&ring.type_hash())),
        "writer": { "pid": pid, "name": process, "alive": ring.check_alive().is_ok() },
        "generation": ring.generation(), "records": ring.newest(), "kept": ring.records(),
    })
}

/// The types of a channel, from the text in its ring.
fn types_of(reader: &RingReader) -> Result<(String, TypeSet), MessageFailure> {
    let record_type = reader.record_type();
    let types = TypeSet::from_text(&record_type.name, &record_type.schema);
    let channel = || reader.channel().to_string();
    let types = types.map_err(|source| MessageFailure::Type { channel: channel(), source })?;
    Ok((record_type.name, types))
}

// ---- echo

/// Prints records until enough were printed or the writer has ended.
struct Echo<'o> {
    options: &'o EchoOptions,
    types: TypeSet,
    type_name: String,
    printed: u64,
    /// Why the first of the records that are not of their type could not be decoded.
    failed: Option<MessageFailure>,
}

fn echo(options: &EchoOptions) -> Result<ExitVerdict, Failure> {
    let from = if options.from == From::Oldest { Start::Oldest } else { Start::Newest };
    let mut reader = RingReader::open(&options.channel, from)?;
    let (type_name, types) = types_of(&reader)?;
    check_fields(options, &types, &type_name)?;

    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let mut echo = Echo { options, types, type_name, printed: 0, failed: None };
    let began = Instant::now();
    let mut checked = began;
    let mut end = Ok(());
    // After the writer's end, what it had published is read.
    while end.is_ok() || reader.pending() > 0 {
        echo.print_all(&mut reader)?;
        let is_over = options.duration > 0 && began.elapsed().as_nanos() >= options.duration.into();
        if echo.is_done() || is_over || interruptions.stop.load(Ordering::Relaxed) || !is_read() {
            break;
        }

        sleep(LOOK_EVERY);
        if end.is_ok() && checked.elapsed() >= CHECK_EVERY {
            checked = Instant::now();
            end = reader.check_alive();
        }
    }

    let received = count(reader.received());
    let lost = count(reader.lost());
    advise(Tone::Faint, &format!("{received} records received, {lost} lost"));
    match (end, echo.failed) {
        (Err(RingError::Ended { .. }) | Ok(()), None) => Ok(ExitVerdict::Pass),
        (Err(RingError::Ended { .. }) | Ok(()), Some(why)) => Err(why.into()),
        // The line of each record that is not of its type has said so.
        (Err(why), _) => Err(why.into()),
    }
}

fn check_fields(
    options: &EchoOptions,
    types: &TypeSet,
    type_name: &str,
) -> Result<(), MessageFailure> {
    let definition = types.definition(type_name);
    let fields = definition.map_or(&[][..], |definition| &definition.fields);
    let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
    match options.fields.iter().find(|field| !names.contains(&field.as_str())) {
        None => Ok(()),
        Some(field) => Err(MessageFailure::NoField {
            type_name: type_name.to_owned(),
            field: field.clone(),
            fields: names.join(", "),
        }),
    }
}

impl Echo<'_> {
    fn is_done(&self) -> bool {
        self.options.count > 0 && self.printed >= self.options.count
    }

    fn print_all(&mut self, reader: &mut RingReader) -> Result<(), Failure> {
        let channel = reader.channel().to_string();
        while !self.is_done() && is_read() {
            let line = match reader.next() {
                Reading::Nothing => return Ok(()),
                Reading::Lost(lost) => json!({ "lost": lost }),
                Reading::Record { number, at_ns, bytes } => {
                    self.printed += 1;
                    match self.types.value(&self.type_name, bytes) {
                        Ok(value) => {
                            let message = self.chosen(&value);
                            json!({ "number": number, "at_ns": at_ns, "message": message })
                        }
                        // Those behind it can be sound.
                        Err(source) => {
                            let why = source.to_string();
                            let channel = channel.clone();
                            self.failed.get_or_insert(MessageFailure::Type { channel, source });
                            json!({ "number": number, "at_ns": at_ns, "not_decoded": why })
                        }
                    }
                }
            };
            print_json(&line)?;
        }
        Ok(())
    }

    fn chosen(&self, value: &Value) -> Json {
        if self.options.fields.is_empty() {
            return value.to_json();
        }
        let fields = self.options.fields.iter();
        let chosen = fields.filter_map(|name| Some((name.clone(), value.field(name)?.to_json())));
        Json::Object(chosen.collect::<Map<String, Json>>())
    }
}

fn print_type(options: &TypeOptions) -> Result<ExitVerdict, Failure> {
    let reader = RingReader::open(&options.channel, Start::Newest)?;
    let record_type = reader.record_type();
    say(Tone::Plain, &format!("# {} RIHS01_{}", record_type.name, hex_of(&record_type.hash)));
    say(Tone::Plain, record_type.schema.trim_end());
    Ok(ExitVerdict::Pass)
}

// ---- codecs

fn generate_codec(options: &GenerateCodecOptions) -> Result<ExitVerdict, Failure> {
    let mut types = own::types();
    add_files(&mut types, &options.file)?;

    let name = &options.message_type;
    let code = match options.language {
        Language::C => generate::c(&types, name),
        Language::Java => generate::java(&types, name),
        Language::Python => generate::python(&types, name),
        Language::Rust => generate::rust(&types, name),
    };
    let code = code?;
    put(|out| out.write_all(code.as_bytes()));
    Ok(ExitVerdict::Pass)
}
