//! Lists what a log of any format has, and converts it to MCAP.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::PathBuf;

use onbeat_message::{LcmCodec, TypeSet};
use serde::{Deserialize, Serialize};

use super::error::GatewayError;
use super::log_reader::{LogContent, LoggedChannel};
use super::log_records::LogMessage;
use super::log_writer::{Compression, LogChannel, LogWriter};
use super::network_encoding::lcm_types;

/// Messages between two looks at whether converting was stopped.
const IN_A_TURN: u64 = 1024;

/// Which log to list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListOrder {
    pub log: PathBuf,
    /// Memory for one record and one chunk, each, in bytes.
    pub most_memory: u64,
}

/// A channel of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedChannel {
    /// Topic in the log.
    pub channel: String,
    /// Name of the type, as the log has it.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Encoding of the messages, such as `cdr`, `ros1`, `json` or `lcm`.
    pub encoding: String,
    /// Language of the type's definition; empty without one.
    pub definition: String,
    /// Number of messages.
    pub records: u64,
    /// Length of the longest one, in bytes.
    pub longest_bytes: usize,
}

/// What a log has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedLog {
    /// Channels, in the order of their first messages, and those without messages.
    pub channels: Vec<ListedChannel>,
    /// Time of the first message, in ns since 1970.
    pub first_ns: u64,
    /// Time from the first to the last message, in ns.
    pub log_ns: u64,
    /// Why the log ends early, as a sentence; empty for a complete one.
    pub cut: String,
    /// Damaged places: the first 100 as sentences, and the number of all.
    pub damage: Vec<String>,
    pub damaged: u64,
}

/// Reads a whole log, and tells what it has.
///
/// # Errors
/// [`GatewayError::Open`], [`GatewayError::Read`].
pub fn list(order: &ListOrder) -> Result<ListedLog, GatewayError> {
    let content = LogContent::from_file(&order.log, order.most_memory)?;
    let silent = content.silent.iter().map(|of| listed(&LoggedChannel::new(of)));
    Ok(ListedLog {
        channels: content.channels.iter().map(listed).chain(silent).collect(),
        first_ns: content.first_ns,
        log_ns: content.last_ns - content.first_ns,
        cut: content.cut,
        damage: content.damage,
        damaged: content.damaged,
    })
}

fn listed(of: &LoggedChannel) -> ListedChannel {
    ListedChannel {
        channel: of.topic.clone(),
        type_name: of.named_type.clone(),
        encoding: of.encoding.clone(),
        definition: of.schema_encoding.clone(),
        records: of.messages,
        longest_bytes: of.longest_bytes,
    }
}

/// Which log to convert.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvertOrder {
    pub log: PathBuf,
    /// The MCAP file to create.
    pub out: PathBuf,
    /// Compression of its chunks.
    #[serde(default)]
    pub compression: Compression,
    /// Texts of `.lcm` files: messages of LCM whose fingerprint is that of one of their types become CDR.
    #[serde(default)]
    pub lcm: Vec<String>,
    /// Memory for one record, one chunk and messages out of order, each, in bytes.
    pub most_memory: u64,
}

/// What was converted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConvertAccount {
    /// Messages written.
    pub records: u64,
    /// Messages of LCM that are of none of the given types, and were copied as bytes.
    pub not_decoded: u64,
    /// Attachments and records of metadata, which were not copied.
    pub not_copied: u64,
    /// Size of the file, in bytes.
    pub bytes: u64,
    /// As in [`ListedLog::cut`].
    pub cut: String,
    /// As in [`ListedLog::damage`].
    pub damage: Vec<String>,
    pub damaged: u64,
}

/// Writes the messages of a log to an MCAP file, in the order of their times.
///
/// # Errors
/// [`GatewayError`]; also if the file exists.
pub fn convert(
    order: &ConvertOrder,
    is_stopped: impl Fn() -> bool,
) -> Result<ConvertAccount, GatewayError> {
    let content = LogContent::from_file(&order.log, order.most_memory)?;
    let types = LcmFingerprints::new(&order.lcm)?;
    let mut copy = LogCopy {
        log: LogWriter::create_as(profile(&content), &order.out, order.compression)?,
        channels: HashMap::new(),
        types,
        not_decoded: 0,
    };
    let mut records = 0;
    for message in content.in_order()? {
        copy.write(&message?)?;
        records += 1;
        if records % IN_A_TURN == 0 && is_stopped() {
            break;
        }
    }
    for of in &content.silent {
        copy.log.copy_channel(of)?;
    }
    let not_decoded = copy.not_decoded;
    let (not_copied, cut) = (content.others, content.cut);
    let (damage, damaged) = (content.damage, content.damaged);
    let bytes = copy.log.finish()?;
    Ok(ConvertAccount { records, not_decoded, not_copied, bytes, cut, damage, damaged })
}

/// The profile that all channels keep (MCAP format registry); empty for none.
fn profile(content: &LogContent) -> &'static str {
    let are = |encoding: &str| {
        let mut all = content.channels.iter().map(|of| &of.encoding);
        let mut silent = content.silent.iter().map(|of| &of.encoding);
        all.all(|of| of == encoding) && silent.all(|of| of == encoding)
    };
    match (are("cdr"), are("ros1")) {
        (true, _) => "ros2",
        (false, true) => "ros1",
        (false, false) => "",
    }
}

struct LogCopy {
    log: LogWriter,
    /// By the channel's number in the source, and the type that its messages of LCM became.
    channels: HashMap<(u16, u64), LogChannel>,
    types: LcmFingerprints,
    not_decoded: u64,
}

impl LogCopy {
    fn write(&mut self, message: &LogMessage) -> Result<(), GatewayError> {
        let of = &message.channel;
        let is_lcm = of.encoding == "lcm";
        let decoded = if is_lcm { self.types.to_cdr(&message.data) } else { None };
        self.not_decoded += u64::from(is_lcm && decoded.is_none());
        let (fingerprint, data) =
            decoded.as_ref().map_or((0, &message.data), |(of_type, bytes)| (*of_type, bytes));
        let channel = match self.channels.entry((of.id, fingerprint)) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(place) if decoded.is_some() => {
                let (name, text) = self.types.definition(fingerprint)?;
                *place.insert(self.log.add_channel(&of.topic, &name, &text, &[("lcm", &name)])?)
            }
            Entry::Vacant(place) => *place.insert(self.log.copy_channel(of)?),
        };
        self.log.copy(channel, message, data)
    }
}

/// Types of LCM by their fingerprints.
struct LcmFingerprints {
    types: TypeSet,
    codecs: HashMap<u64, (String, LcmCodec)>,
}

impl LcmFingerprints {
    fn new(files: &[String]) -> Result<Self, GatewayError> {
        let lcm = lcm_types(files)?;
        let mut types = TypeSet::default();
        lcm.add_to(&mut types)?;
        let mut codecs = HashMap::new();
        for name in lcm.names() {
            // A type that needs another one, which is not given, is not one of the log's.
            if let Ok(codec) = LcmCodec::new(&lcm, name) {
                codecs.insert(codec.fingerprint(), (name.to_owned(), codec));
            }
        }
        Ok(Self { types, codecs })
    }

    fn to_cdr(&self, bytes: &[u8]) -> Option<(u64, Vec<u8>)> {
        let fingerprint = u64::from_be_bytes(*bytes.first_chunk()?);
        let (name, codec) = self.codecs.get(&fingerprint)?;
        let value = codec.decode(bytes).ok()?;
        Some((fingerprint, self.types.encode(name, &value).ok()?))
    }

    fn definition(&self, fingerprint: u64) -> Result<(String, String), GatewayError> {
        let name = self.codecs.get(&fingerprint).map_or("", |(name, _)| name);
        Ok((name.to_owned(), self.types.text(name)?))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::super::log_records::LogRecordChannel;
    use super::*;

    #[test]
    fn a_converted_log_has_both_times_and_the_profile_of_its_channels() {
        let folder = tempfile::tempdir().unwrap();
        for (encoding, profile) in [("cdr", "ros2"), ("ros1", "ros1"), ("json", "")] {
            let [log, out] = ["in", "out"].map(|it| folder.path().join(format!("{encoding}_{it}")));
            let channel = Arc::new(LogRecordChannel {
                id: 0,
                topic: "/a".to_owned(),
                encoding: encoding.to_owned(),
                schema: None,
                texts: BTreeMap::new(),
            });
            let mut writer = LogWriter::create(&log, Compression::None).unwrap();
            let added = writer.copy_channel(&channel).unwrap();
            let (log_time, publish_time) = (9, 5);
            let message =
                LogMessage { channel, sequence: 7, log_time, publish_time, data: vec![1] };
            writer.copy(added, &message, &message.data).unwrap();
            writer.finish().unwrap();

            let (lcm, most_memory) = (Vec::new(), 1 << 20);
            let order = ConvertOrder { log, out, compression: Compression::None, lcm, most_memory };
            convert(&order, || false).unwrap();
            let bytes = std::fs::read(&order.out).unwrap();
            let found = mcap::MessageStream::new(&bytes).unwrap().next().unwrap().unwrap();
            assert_eq!((found.sequence, found.log_time, found.publish_time), (7, 9, 5));
            // Behind the magic bytes, and kind and length of the header.
            let stated = [&(profile.len() as u32).to_le_bytes()[..], profile.as_bytes()].concat();
            assert!(bytes[17..].starts_with(&stated), "{encoding}");
            let listed = list(&ListOrder { log: order.out, most_memory }).unwrap();
            assert_eq!((listed.first_ns, listed.log_ns), (9, 0));
        }
    }
}
