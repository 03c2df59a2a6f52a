//! Reads logs: what is in them, and their messages in the order of their times.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::GatewayError;
use super::log_defect::LogDefect;
use super::log_formats::FormatMessages;
use super::log_records::{LogMessage, LogRecordChannel};

/// Encodings of messages and of definitions whose types other channels have too.
const TYPED: [&str; 2] = ["cdr", "ros2msg"];
/// Most damaged places that are named; those behind them are counted.
const MOST_DAMAGE: u64 = 100;
/// Memory of a message that waits, beside its bytes.
const OF_A_MESSAGE: u64 = 64;

/// A channel of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LoggedChannel {
    pub(super) topic: String,
    /// Encoding of the messages, name of their type, and language of its definition, as the log has them.
    pub(super) encoding: String,
    pub(super) named_type: String,
    pub(super) schema_encoding: String,
    /// Name and definition of the type; empty for other encodings than CDR.
    pub(super) type_name: String,
    pub(super) schema: String,
    /// Texts for readers.
    pub(super) texts: BTreeMap<String, String>,
    /// Number of messages, and the length of the longest one in bytes.
    pub(super) messages: u64,
    pub(super) longest_bytes: usize,
}

impl LoggedChannel {
    pub(super) fn new(of: &LogRecordChannel) -> Self {
        let typed = of
            .schema
            .as_ref()
            .filter(|schema| [of.encoding.as_str(), schema.encoding.as_str()] == TYPED);
        let text = |definition: &[u8]| String::from_utf8_lossy(definition).into_owned();
        Self {
            topic: of.topic.clone(),
            encoding: of.encoding.clone(),
            named_type: of.schema.as_ref().map_or_else(String::new, |schema| schema.name.clone()),
            schema_encoding: of
                .schema
                .as_ref()
                .map_or_else(String::new, |schema| schema.encoding.clone()),
            type_name: typed.map_or_else(String::new, |schema| schema.name.clone()),
            schema: typed.map_or_else(String::new, |schema| text(&schema.definition)),
            texts: of.texts.clone(),
            messages: 0,
            longest_bytes: 0,
        }
    }

    /// Returns what was subtracted from times since 1970 for times of the channel, in ns.
    pub(super) fn utc_offset_ns(&self) -> u64 {
        self.texts.get("onbeat:utc_offset_ns").and_then(|text| text.parse().ok()).unwrap_or(0)
    }
}

/// What a log contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LogContent {
    pub(super) path: PathBuf,
    most_memory: u64,
    pub(super) channels: Vec<LoggedChannel>,
    /// Channels whose topics have no messages.
    pub(super) silent: Vec<Arc<LogRecordChannel>>,
    /// Places in `channels`, by the channels' numbers in the file.
    places: HashMap<u16, usize>,
    pub(super) messages: u64,
    /// Time of the earliest and of the latest message, in ns since 1970.
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
    /// The longest time without a message, in ns.
    pub(super) pause_ns: u64,
    /// The longest time by which a message is earlier than one that stands before it, in ns.
    disorder_ns: u64,
    /// Attachments and records of metadata.
    pub(super) others: u64,
    /// Why the file ends early; empty if it is complete.
    pub(super) cut: String,
    /// Damaged places, behind which reading went on: the first of them as sentences, and the number of all.
    pub(super) damage: Vec<String>,
    pub(super) damaged: u64,
}

impl LogContent {
    /// Reads a whole log. A file whose end is missing, or damaged, has the messages before.
    ///
    /// # Errors
    /// [`GatewayError::Open`]; [`GatewayError::Read`] if no message can be read.
    pub(super) fn from_file(path: &Path, most_memory: u64) -> Result<Self, GatewayError> {
        let mut content =
            Self { path: path.to_owned(), most_memory, first_ns: u64::MAX, ..Self::default() };
        let mut messages = FormatMessages::open(path, most_memory)?;
        let mut unknown = None;
        loop {
            match messages.next() {
                Some(Ok(message)) => content.add(&message),
                Some(Err(why)) => {
                    if why.is_damage() && messages.resume() {
                        if content.damaged < MOST_DAMAGE {
                            content.damage.push(why.to_string());
                        }
                        content.damaged += 1;
                        if matches!(why, LogDefect::Compression { .. }) {
                            unknown = unknown.or(Some(why));
                        }
                        continue;
                    }
                    if content.messages == 0 && content.damage.is_empty() {
                        return Err(GatewayError::Read { path: path.to_owned(), source: why });
                    }
                    content.cut = why.to_string();
                    break;
                }
                None => break,
            }
        }
        // A log without a chunk that can be read is not a damaged one.
        if let Some(source) = unknown.filter(|_| content.messages == 0) {
            return Err(GatewayError::Read { path: path.to_owned(), source });
        }
        content.others = messages.others();
        for of in messages.channels() {
            let is_known = content.places.contains_key(&of.id)
                || content.place(&of.topic).is_some()
                || content.silent.iter().any(|it| it.topic == of.topic);
            if !is_known {
                content.silent.push(of);
            }
        }
        content.first_ns = content.first_ns.min(content.last_ns);
        Ok(content)
    }

    fn add(&mut self, message: &LogMessage) {
        if self.messages > 0 {
            let pause_ns = message.log_time.saturating_sub(self.last_ns);
            self.pause_ns = self.pause_ns.max(pause_ns);
        }
        self.disorder_ns = self.disorder_ns.max(self.last_ns.saturating_sub(message.log_time));
        self.first_ns = self.first_ns.min(message.log_time);
        self.last_ns = self.last_ns.max(message.log_time);
        self.messages += 1;

        let place = match self.places.get(&message.channel.id) {
            Some(place) => *place,
            None => self.add_channel(&message.channel),
        };
        let of = &mut self.channels[place];
        of.messages += 1;
        of.longest_bytes = of.longest_bytes.max(message.data.len());
    }

    /// Several writers of a topic have one channel if they have the same type; another type has a topic with a number.
    fn add_channel(&mut self, channel: &LogRecordChannel) -> usize {
        let mut other = LoggedChannel::new(channel);
        let is_same = |of: &LoggedChannel| {
            (&of.type_name, &of.schema, &of.encoding, &of.named_type)
                == (&other.type_name, &other.schema, &other.encoding, &other.named_type)
        };
        let mut number = 1;
        let place = loop {
            match self.place(&other.topic) {
                Some(place) if is_same(&self.channels[place]) => break place,
                Some(_) => {
                    number += 1;
                    other.topic = format!("{}_{number}", channel.topic);
                }
                None => {
                    self.channels.push(other);
                    break self.channels.len() - 1;
                }
            }
        };
        self.places.insert(channel.id, place);
        place
    }

    /// Returns the place in `channels` of the channel of a message.
    pub(super) fn place_of(&self, message: &LogMessage) -> Option<usize> {
        self.places.get(&message.channel.id).copied()
    }

    /// Returns the place of a topic in `channels`.
    pub(super) fn place(&self, topic: &str) -> Option<usize> {
        self.channels.iter().position(|of| of.topic == topic)
    }

    /// Returns the messages that were counted, in the order of their times.
    ///
    /// # Errors
    /// [`GatewayError::Open`].
    pub(super) fn in_order(&self) -> Result<OrderedMessages, GatewayError> {
        Ok(OrderedMessages {
            path: self.path.clone(),
            file: FormatMessages::open(&self.path, self.most_memory)?,
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            most_memory: self.most_memory,
            disorder_ns: self.disorder_ns,
            newest_ns: 0,
            taken: 0,
            unread: self.messages,
        })
    }
}

/// Messages of a log in the order of their times; those of one instant in the order of the file.
/// As many wait in memory as the file has within its disorder, up to the limit.
pub(super) struct OrderedMessages {
    path: PathBuf,
    file: FormatMessages,
    /// By their times and their places in the file.
    waiting: BTreeMap<[u64; 2], LogMessage>,
    waiting_bytes: u64,
    most_memory: u64,
    disorder_ns: u64,
    newest_ns: u64,
    taken: u64,
    /// A file that is still being written is not followed.
    unread: u64,
}

impl Iterator for OrderedMessages {
    type Item = Result<LogMessage, GatewayError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let first = self.waiting.first_key_value();
            let is_next = first.is_some_and(|([at_ns, _], _)| {
                at_ns.saturating_add(self.disorder_ns) <= self.newest_ns
            });
            if self.unread == 0 || is_next {
                let (_, first) = self.waiting.pop_first()?;
                self.waiting_bytes -= memory_of(&first);
                return Some(Ok(first));
            }

            match self.file.next() {
                Some(Ok(message)) => {
                    self.newest_ns = self.newest_ns.max(message.log_time);
                    self.unread -= 1;
                    self.taken += 1;
                    self.waiting_bytes += memory_of(&message);
                    if self.waiting_bytes > self.most_memory.saturating_add(memory_of(&message)) {
                        return Some(Err(self.end_for_disorder()));
                    }
                    self.waiting.insert([message.log_time, self.taken], message);
                }
                Some(Err(why)) if why.is_damage() && self.file.resume() => {}
                Some(Err(_)) | None => self.unread = 0,
            }
        }
    }
}

impl OrderedMessages {
    fn end_for_disorder(&mut self) -> GatewayError {
        self.waiting.clear();
        self.unread = 0;
        let (disorder_ns, most) = (self.disorder_ns, self.most_memory);
        let source = LogDefect::Disorder { disorder_ns, most };
        GatewayError::Read { path: self.path.clone(), source }
    }
}

fn memory_of(message: &LogMessage) -> u64 {
    message.data.len() as u64 + OF_A_MESSAGE
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::log_writer::{Compression, LogWriter};
    use super::*;

    const MOST: u64 = 1 << 20;

    fn time_and_number(message: &LogMessage) -> [u64; 2] {
        [message.log_time, message.sequence.into()]
    }

    /// A log with these times on two channels in turns.
    fn log(folder: &Path, times: &[u64]) -> PathBuf {
        let path = folder.join("times.mcap");
        let mut log = LogWriter::create(&path, Compression::Lz4).unwrap();
        let of = ["a", "b"].map(|topic| log.add_channel(topic, "", "", &[]).unwrap());
        for (number, at_ns) in (1..).zip(times) {
            log.write(of[number as usize % 2], number, *at_ns, &number.to_le_bytes()).unwrap();
        }
        log.finish().unwrap();
        path
    }

    #[test]
    fn messages_come_in_the_order_of_their_times_and_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let content =
            LogContent::from_file(&log(folder.path(), &[5, 3, 3, 9, 4, 8, 9, 1]), MOST).unwrap();
        assert_eq!((content.first_ns, content.last_ns, content.messages), (1, 9, 8));
        assert_eq!(content.pause_ns, 4);
        let found: Vec<_> =
            content.in_order().unwrap().map(|it| time_and_number(&it.unwrap())).collect();
        assert_eq!(found, [[1, 8], [3, 2], [3, 3], [4, 5], [5, 1], [8, 6], [9, 4], [9, 7]]);
    }

    #[test]
    fn a_log_in_order_waits_in_memory_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let content = LogContent::from_file(&log(folder.path(), &[1, 2, 3, 3, 4]), MOST).unwrap();
        let mut messages = content.in_order().unwrap();
        for number in 1..=5 {
            assert_eq!(messages.next().unwrap().unwrap().sequence, number);
            assert!(messages.waiting.is_empty());
        }
        assert!(messages.next().is_none());
    }

    #[test]
    fn a_chunk_of_an_unknown_compression_does_not_hide_those_behind_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chunks.mcap");
        let mut log = LogWriter::create(&path, Compression::Lz4).unwrap();
        let of = log.add_channel("a", "", "", &[]).unwrap();
        for number in 1..=3 {
            log.write(of, number, number, &[7]).unwrap();
            log.flush().unwrap();
        }
        log.finish().unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        let place = |bytes: &[u8]| bytes.windows(3).position(|it| it == b"lz4");
        let first = place(&bytes).unwrap();
        bytes[first] = b'm';
        std::fs::write(&path, &bytes).unwrap();
        let content = LogContent::from_file(&path, MOST).unwrap();
        assert_eq!((content.messages, content.damaged, content.cut.as_str()), (2, 1, ""));
        assert_eq!(content.in_order().unwrap().count(), 2);

        while let Some(next) = place(&bytes) {
            bytes[next] = b'm';
        }
        std::fs::write(&path, &bytes).unwrap();
        let why = LogContent::from_file(&path, MOST).unwrap_err().to_string();
        assert!(why.contains("is compressed by `mz4`"), "{why}");
    }

    #[test]
    fn a_topic_without_messages_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("silent.mcap");
        let mut log = LogWriter::create(&path, Compression::Lz4).unwrap();
        let of = ["a", "b"].map(|topic| log.add_channel(topic, "", "", &[]).unwrap());
        log.write(of[0], 1, 1, &[7]).unwrap();
        log.finish().unwrap();
        for path in [path.as_path(), folder.path()] {
            let content = LogContent::from_file(path, MOST).unwrap();
            let silent: Vec<_> = content.silent.iter().map(|of| of.topic.as_str()).collect();
            assert_eq!((content.channels.len(), silent), (1, vec!["b"]));
        }
    }

    #[test]
    fn a_file_without_its_end_has_the_messages_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cut.mcap");
        let mut log = LogWriter::create(&path, Compression::Lz4).unwrap();
        let of = log.add_channel("a", "", "", &[]).unwrap();
        log.write(of, 1, 1, &[7]).unwrap();
        log.flush().unwrap();
        let content = LogContent::from_file(&path, MOST).unwrap();
        assert_eq!(content.messages, 1);
        assert!(!content.cut.is_empty());
        assert_eq!(content.in_order().unwrap().count(), 1);
    }

    #[test]
    fn messages_out_of_order_by_more_than_the_memory_end_with_a_sentence() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disorder.mcap");
        let mut log = LogWriter::create(&path, Compression::Lz4).unwrap();
        let of = log.add_channel("a", "", "", &[]).unwrap();
        for number in 0..3000_u64 {
            let at_ns = if number == 2999 { 1 } else { 1_000_000 + number };
            log.write(of, number, at_ns, &[0; 1000]).unwrap();
        }
        log.finish().unwrap();

        let content = LogContent::from_file(&path, MOST).unwrap();
        assert_eq!(content.messages, 3000);
        let mut messages = content.in_order().unwrap();
        let why = messages.next().unwrap().unwrap_err().to_string();
        assert!(why.contains("1002997 ns out of order: more than 1048576 bytes"), "{why}");
        assert!(messages.next().is_none());
        assert_eq!(
            LogContent::from_file(&path, 16 << 20).unwrap().in_order().unwrap().count(),
            3000
        );
    }
}
