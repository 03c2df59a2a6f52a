//! Reads the records of MCAP files (<https://mcap.dev/spec>) that anyone may have made.
//!
//! A file claims lengths; none is believed. A record and a chunk must fit into what is left of the file,
//! a record of a chunk into what is left of the chunk, a chunk into what its compressed bytes can hold,
//! and all of them into the limit. Memory grows with the bytes that are there.
//!
//! A chunk whose checksum is wrong, and a record that contradicts the file, are damage; [`LogMessages::resume`]
//! reads on from the next sound record.
//!
//! Absent on purpose: writing, and indexes, which repeat what the records say. The definitions behind the messages are read
//! where those before them are damaged.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Cursor, ErrorKind, Read, Seek, SeekFrom};
use std::sync::Arc;

use super::log_defect::{LogDefect, MOST_CHANNELS, hint_of, printable};

/// First and last bytes of a file.
const MAGIC: [u8; 8] = *b"\x89MCAP0\r\n";
/// Kinds of records.
const HEADER: u8 = 1;
const FOOTER: u8 = 2;
const SCHEMA: u8 = 3;
const CHANNEL: u8 = 4;
const MESSAGE: u8 = 5;
const CHUNK: u8 = 6;
const MESSAGE_INDEX: u8 = 7;
const ATTACHMENT: u8 = 9;
const STATISTICS: u8 = 11;
const METADATA: u8 = 12;
const DATA_END: u8 = 15;

/// Bytes before a record's content, of a chunk's content before the name of its compression, and of a
/// message's before its data.
const RECORD_HEAD: usize = 9;
const CHUNK_HEAD: u64 = 40;
const MESSAGE_HEAD: usize = 22;
/// Bytes of the last record's content.
const FOOTER_BYTES: usize = 20;
/// Bytes of a message index before its entries, and of each of them.
const INDEX_HEAD: u64 = 6;
const INDEX_ENTRY: u64 = 16;
/// Bytes that one compressed byte of LZ4 can stand for, and what a frame can have beside them.
const LZ4_RATIO: u64 = 255;
const LZ4_MORE: u64 = 1 << 16;
/// Bytes that are looked through at a time for a sound record.
const SEARCH_BYTES: usize = 1 << 20;
/// Bytes that are rather read than passed over.
const SHORT_SKIP: u64 = 1 << 16;
/// Part of the memory limit for definitions and texts of channels.
const FOR_DEFINITIONS: u64 = 8;

/// A channel of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LogRecordChannel {
    pub(super) id: u16,
    pub(super) topic: String,
    pub(super) encoding: String,
    pub(super) schema: Option<Arc<LogSchema>>,
    pub(super) texts: BTreeMap<String, String>,
}

/// A definition of a type.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LogSchema {
    pub(super) name: String,
    pub(super) encoding: String,
    pub(super) definition: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct LogMessage {
    pub(super) channel: Arc<LogRecordChannel>,
    pub(super) sequence: u32,
    pub(super) log_time: u64,
    /// The log time where the log has no other.
    pub(super) publish_time: u64,
    pub(super) data: Vec<u8>,
}

impl LogMessage {
    /// A message of a log without numbers, and with one time for each.
    pub(super) const fn bare(channel: Arc<LogRecordChannel>, log_time: u64, data: Vec<u8>) -> Self {
        Self { channel, sequence: 0, log_time, publish_time: log_time, data }
    }
}

/// The messages of a file, in its order, and at last why it ends early.
pub(super) struct LogMessages<R> {
    source: R,
    file_bytes: u64,
    at: u64,
    /// Where the last record outside of chunks began, and where it ends by its own length.
    begun: u64,
    begun_end: u64,
    /// Where the record is behind which there are no messages.
    data_end: u64,
    /// Whether a chunk was met: messages outside of chunks are then parts of a damaged one.
    has_chunks: bool,
    /// Whether messages were met that no chunk's checksum covers: that of the whole data section does.
    is_unchecked: bool,
    most_memory: u64,
    chunk: Option<OpenChunk>,
    state: ReadState,
    schemas: HashMap<u16, Arc<LogSchema>>,
    pub(super) channels: HashMap<u16, Arc<LogRecordChannel>>,
    definition_bytes: u64,
    /// Messages so far; `None` once some are known to be damaged.
    found: Option<u64>,
    /// Messages that the file states.
    stated: Option<u64>,
    /// Attachments and records of metadata, which are passed over.
    pub(super) others: u64,
    /// Kinds of records that were passed over where they do not belong; each is said once.
    misplaced: HashSet<u8>,
    /// Channels that messages have and the file does not define; each is said once.
    undefined: HashSet<u16>,
    /// Whether the definitions behind the messages were looked for.
    has_repeated: bool,
    /// Whether the last defect was a record of the open chunk, behind which the chunk goes on.
    is_passed_over: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadState {
    Begin,
    Data,
    /// After the last message: what follows repeats what was read.
    Summary,
    Ended,
}

/// A chunk whose records are being read.
struct OpenChunk {
    at: u64,
    left: u64,
    records: ChunkBytes,
}

pub(super) type Zstd<R> = ruzstd::decoding::StreamingDecoder<R, ruzstd::decoding::FrameDecoder>;

enum ChunkBytes {
    Plain(Cursor<Arc<[u8]>>),
    Lz4(Box<lz4::Decoder<Cursor<Arc<[u8]>>>>),
    Zstd(Box<Zstd<Cursor<Arc<[u8]>>>>),
}

impl ChunkBytes {
    fn new(stored: Arc<[u8]>, compression: &str, at: u64) -> Result<Self, LogDefect> {
        let stored = Cursor::new(stored);
        Ok(match compression {
            "" => Self::Plain(stored),
            "lz4" => Self::Lz4(Box::new(lz4::Decoder::new(stored).map_err(not_packed(at))?)),
            "zstd" => {
                let decoder = Zstd::new(stored)
                    .map_err(|why| LogDefect::Packed { at, why: why.to_string() })?;
                Self::Zstd(Box::new(decoder))
            }
            name => {
                let name = printable(name).chars().take(32).collect();
                return Err(LogDefect::Compression { at, name });
            }
        })
    }

    /// Computes the checksum of this many bytes without keeping them.
    fn checksum(mut self, bytes: u64, at: u64) -> Result<u32, LogDefect> {
        let mut hash = crc32fast::Hasher::new();
        let mut piece = [0; 1 << 14];
        let mut left = bytes;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(piece.len()).min(piece.len());
            match self.read(&mut piece[..most]).map_err(not_packed(at))? {
                0 => return Err(LogDefect::Record { at }),
                read => {
                    hash.update(&piece[..read]);
                    left -= read as u64;
                }
            }
        }
        Ok(hash.finalize())
    }
}

impl Read for ChunkBytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(bytes) => bytes.read(buffer),
            Self::Lz4(decoder) => decoder.read(buffer),
            Self::Zstd(decoder) => decoder.read(buffer),
        }
    }
}

impl<R: Read + Seek> LogMessages<R> {
    /// Reads a source of this length. Most memory is for a record, for a chunk's compressed bytes, and an
    /// eighth of it for all definitions.
    pub(super) fn new(source: R, file_bytes: u64, most_memory: u64) -> Self {
        Self {
            source,
            file_bytes,
            at: 0,
            begun: 0,
            begun_end: 0,
            data_end: 0,
            has_chunks: false,
            is_unchecked: false,
            most_memory,
            chunk: None,
            state: ReadState::Begin,
            schemas: HashMap::new(),
            channels: HashMap::new(),
            definition_bytes: 0,
            found: Some(0),
            stated: None,
            others: 0,
            misplaced: HashSet::new(),
            undefined: HashSet::new(),
            has_repeated: false,
            is_passed_over: false,
        }
    }

    fn next_message(&mut self) -> Result<Option<LogMessage>, LogDefect> {
        if self.state == ReadState::Begin {
            let mut first = Vec::new();
            self.source.by_ref().take(MAGIC.len() as u64).read_to_end(&mut first)?;
            if first != MAGIC {
                return Err(LogDefect::NotMcap { hint: hint_of(&first) });
            }
            self.at = MAGIC.len() as u64;
            self.state = ReadState::Data;
        }
        loop {
            let record = if self.chunk.is_some() { self.chunk_record()? } else { self.record()? };
            let Some((at, kind, content)) = record else {
                if self.state == ReadState::Ended {
                    return Ok(None);
                }
                continue;
            };
            let taken = self.take(at, kind, content);
            // Records behind it in the chunk can be sound.
            self.is_passed_over = taken.is_err() && self.chunk.is_some();
            if let Some(message) = taken? {
                return Ok(Some(message));
            }
        }
    }

    fn left(&self) -> u64 {
        self.file_bytes.saturating_sub(self.at)
    }

    /// Reads bytes that are known to be in the file.
    fn bytes_of_file(&mut self, bytes: u64, of: u64) -> Result<Vec<u8>, LogDefect> {
        let content = exactly(&mut self.source, bytes)?.ok_or(LogDefect::Cut { at: of })?;
        self.at += bytes;
        Ok(content)
    }

    /// Returns the next record outside of chunks, if it matters; opens a chunk.
    fn record(&mut self) -> Result<Option<(u64, u8, Vec<u8>)>, LogDefect> {
        let at = self.at;
        self.begun = at;
        self.begun_end = at;
        if self.left() < RECORD_HEAD as u64 {
            return Err(if self.left() == 0 {
                LogDefect::NotClosed
            } else {
                LogDefect::Cut { at }
            });
        }
        let head = self.bytes_of_file(RECORD_HEAD as u64, at)?;
        let (kind, bytes) = kind_and_length(&head).ok_or(LogDefect::Cut { at })?;
        let left = self.left();
        if bytes > left {
            return Err(LogDefect::BeyondFile { at, bytes, left });
        }
        self.begun_end = self.at + bytes;
        self.has_chunks |= kind == CHUNK;
        if (kind, self.state) == (CHUNK, ReadState::Summary) {
            return Err(self.go_back_to(at));
        }

        match (kind, self.state) {
            (CHUNK, ReadState::Data) => self.open_chunk(at, bytes)?,
            (SCHEMA | CHANNEL | MESSAGE, ReadState::Data) => {
                self.check_length(at, bytes)?;
                self.is_unchecked |= kind == MESSAGE;
                return Ok(Some((at, kind, self.bytes_of_file(bytes, at)?)));
            }
            (DATA_END, ReadState::Data) if bytes == 4 && std::mem::take(&mut self.is_unchecked) => {
                self.check_data(at)?;
            }
            (FOOTER, _) => {
                self.skip(bytes)?;
                let magic = self.bytes_of_file(MAGIC.len() as u64, at);
                if magic.map_err(|_| LogDefect::NotClosed)? != MAGIC {
                    // A chunk may have become one.
                    let is_last = self.left() == 0;
                    return Err(if is_last {
                        LogDefect::NotClosed
                    } else {
                        LogDefect::Record { at }
                    });
                }
                self.state = ReadState::Ended;
                let (at, bytes) = (self.at, self.left());
                if bytes > 0 {
                    return Err(LogDefect::Behind { at, bytes });
                }
                if let Some((stated, read)) = self.stated.zip(self.found)
                    && stated != read
                {
                    return Err(LogDefect::Stated { stated, read });
                }
            }
            (STATISTICS, ReadState::Summary) => {
                self.check_length(at, bytes)?;
                self.stated = Fields(&self.bytes_of_file(bytes, at)?).long();
            }
            // The writer in C++, which records bags of ROS 2, defines channels without messages only here.
            (SCHEMA | CHANNEL, ReadState::Summary) if bytes <= self.most_memory => {
                let content = self.bytes_of_file(bytes, at)?;
                // What contradicts the definitions before it was used by no message.
                let _ = self.take(at, kind, content);
            }
            (_, ReadState::Data) if kind != DATA_END => self.pass_over(at, kind, bytes)?,
            _ => {
                if self.state == ReadState::Data {
                    self.data_end = at;
                }
                self.state = ReadState::Summary;
                self.skip(bytes)?;
            }
        }
        Ok(None)
    }

    /// Compares the checksum of all bytes before the end of messages, and goes back to that end.
    fn check_data(&mut self, at: u64) -> Result<(), LogDefect> {
        let stated = Fields(&self.bytes_of_file(4, at)?).word().unwrap_or(0);
        let mut hash = crc32fast::Hasher::new();
        // Known damage would be said twice.
        if stated != 0 && self.found.is_some() {
            let mut piece = vec![0; SEARCH_BYTES];
            self.source.seek(SeekFrom::Start(0))?;
            let mut before = self.source.by_ref().take(at);
            loop {
                match before.read(&mut piece)? {
                    0 => break,
                    read => hash.update(&piece[..read]),
                }
            }
        }
        self.source.seek(SeekFrom::Start(at))?;
        self.at = at;
        let found = hash.finalize();
        if stated == 0 || self.found.is_none() || found == stated {
            return Ok(());
        }
        self.is_passed_over = true;
        Err(LogDefect::DataChecksum { found, stated })
    }

    /// Goes back to a chunk behind the end of messages, which was another record before it was damaged; returns that defect.
    fn go_back_to(&mut self, at: u64) -> LogDefect {
        if let Err(why) = self.source.seek(SeekFrom::Start(at)) {
            return why.into();
        }
        self.at = at;
        self.is_passed_over = true;
        LogDefect::Kind { at: self.data_end, kind: DATA_END }
    }

    /// Passes over a record without messages. One that does not belong among them may have had some before it was damaged.
    fn pass_over(&mut self, at: u64, kind: u8, bytes: u64) -> Result<(), LogDefect> {
        let belongs = match kind {
            HEADER => at == MAGIC.len() as u64,
            ATTACHMENT | METADATA => true,
            MESSAGE_INDEX if bytes >= INDEX_HEAD => {
                let head = self.bytes_of_file(INDEX_HEAD, at)?;
                let mut fields = Fields(&head);
                let entries = fields.short().and_then(|_| fields.word());
                // A later version may add a field.
                let more = entries.and_then(|it| (bytes - INDEX_HEAD).checked_sub(it.into()));
                more.is_some_and(|more| more < INDEX_ENTRY)
            }
            _ => false,
        };
        self.others += u64::from(matches!(kind, ATTACHMENT | METADATA));
        self.skip(self.begun_end - self.at)?;
        if belongs || !self.misplaced.insert(kind) {
            return Ok(());
        }
        Err(LogDefect::Kind { at, kind })
    }

    fn skip(&mut self, bytes: u64) -> Result<(), LogDefect> {
        let to = self.at + bytes;
        // A buffered source loses its buffer where it seeks.
        if bytes <= SHORT_SKIP {
            io::copy(&mut self.source.by_ref().take(bytes), &mut io::sink())?;
        } else {
            self.source.seek(SeekFrom::Start(to))?;
        }
        self.at = to;
        Ok(())
    }

    const fn check_length(&self, at: u64, bytes: u64) -> Result<(), LogDefect> {
        let most = self.most_memory;
        if bytes > most { Err(LogDefect::TooLong { at, bytes, most }) } else { Ok(()) }
    }

    fn open_chunk(&mut self, at: u64, bytes: u64) -> Result<(), LogDefect> {
        if bytes < CHUNK_HEAD {
            return Err(LogDefect::Record { at });
        }
        self.check_length(at, bytes)?;
        let mut content = self.bytes_of_file(bytes, at)?;
        let mut fields = Fields(&content);
        let head = (|| {
            fields.take(16)?;
            let records_bytes = fields.long()?;
            let checksum = fields.word()?;
            let compression = fields.text()?;
            let compressed_bytes = fields.long()?;
            Some((records_bytes, checksum, compression, compressed_bytes))
        })();
        let (left, stated, compression, compressed) = head.ok_or(LogDefect::Record { at })?;
        let begin = content.len() - fields.0.len();
        let stored = usize::try_from(compressed).ok().filter(|bytes| *bytes <= fields.0.len());
        let end = begin + stored.ok_or(LogDefect::Record { at })?;
        // A later version may add fields; what is no record behind the chunk has its length damaged.
        if end < content.len() {
            let is_sound = self.is_sound(self.begun_end)?;
            self.source.seek(SeekFrom::Start(self.at))?;
            if !is_sound {
                return Err(LogDefect::Record { at });
            }
        }
        content.truncate(end);
        let records = content.split_off(begin);

        let most = match compression.as_str() {
            "" => compressed,
            "zstd" => u64::MAX,
            _ => compressed.saturating_mul(LZ4_RATIO).saturating_add(LZ4_MORE),
        };
        if left > most {
            return Err(LogDefect::Inflated { at, bytes: left, compressed });
        }
        let records: Arc<[u8]> = records.into();
        self.is_unchecked |= stated == 0;
        // Decompressed twice rather than kept: memory is for one record.
        if stated != 0 {
            let found =
                ChunkBytes::new(Arc::clone(&records), &compression, at)?.checksum(left, at)?;
            if found != stated {
                return Err(LogDefect::Checksum { at, found, stated });
            }
        }
        let records = ChunkBytes::new(records, &compression, at)?;
        self.chunk = Some(OpenChunk { at, left, records });
        Ok(())
    }

    /// Returns the next record of the open chunk; closes it at its end.
    fn chunk_record(&mut self) -> Result<Option<(u64, u8, Vec<u8>)>, LogDefect> {
        let most = self.most_memory;
        let Some(chunk) = self.chunk.as_mut() else { return Ok(None) };
        let at = chunk.at;
        if chunk.left == 0 {
            self.chunk = None;
            return Ok(None);
        }
        if chunk.left < RECORD_HEAD as u64 {
            return Err(LogDefect::Record { at });
        }
        let head = exactly(&mut chunk.records, RECORD_HEAD as u64).map_err(not_packed(at))?;
        let head = head.ok_or(LogDefect::Record { at })?;
        let (kind, bytes) = kind_and_length(&head).ok_or(LogDefect::Record { at })?;
        chunk.left -= RECORD_HEAD as u64;
        if bytes > chunk.left {
            return Err(LogDefect::BeyondChunk { at, bytes, left: chunk.left });
        }
        if bytes > most {
            let passed =
                io::copy(&mut Read::by_ref(&mut chunk.records).take(bytes), &mut io::sink());
            if passed.map_err(not_packed(at))? < bytes {
                return Err(LogDefect::Record { at });
            }
            chunk.left -= bytes;
            self.is_passed_over = true;
            return Err(LogDefect::TooLong { at, bytes, most });
        }
        chunk.left -= bytes;
        let content = exactly(&mut chunk.records, bytes).map_err(not_packed(at))?;
        let content = content.ok_or(LogDefect::Record { at })?;
        if !matches!(kind, SCHEMA | CHANNEL | MESSAGE) {
            if !self.misplaced.insert(kind) {
                return Ok(None);
            }
            self.is_passed_over = true;
            return Err(LogDefect::Kind { at, kind });
        }
        Ok(Some((at, kind, content)))
    }

    fn take(
        &mut self,
        at: u64,
        kind: u8,
        content: Vec<u8>,
    ) -> Result<Option<LogMessage>, LogDefect> {
        match kind {
            SCHEMA => {
                let (id, schema) = schema(&content).ok_or(LogDefect::Record { at })?;
                let known = self.schemas.get(&id);
                if known.is_some_and(|known| **known != schema) {
                    return Err(LogDefect::Conflict { id, at });
                }
                if known.is_none() {
                    self.count_definition(content.len())?;
                    self.schemas.insert(id, Arc::new(schema));
                }
            }
            CHANNEL => {
                let channel = self.channel(at, &content)?;
                let (id, known) = (channel.id, self.channels.get(&channel.id));
                if known.is_some_and(|known| **known != channel) {
                    return Err(LogDefect::Conflict { id, at });
                }
                if known.is_none() {
                    self.count_definition(content.len())?;
                    if self.channels.len() >= MOST_CHANNELS {
                        return Err(LogDefect::Channels);
                    }
                    self.channels.insert(id, Arc::new(channel));
                }
            }
            MESSAGE => {
                let id = Fields(&content).short();
                if id.is_some_and(|id| !self.channels.contains_key(&id)) {
                    self.take_repeated()?;
                }
                let message = match self.message(at, content) {
                    // Said at the first one.
                    Err(LogDefect::Unknown { id, .. }) if !self.undefined.insert(id) => {
                        return Ok(None);
                    }
                    message => message?,
                };
                self.found = self.found.map(|found| found + 1);
                return Ok(Some(message));
            }
            _ => {}
        }
        Ok(None)
    }

    /// Takes the definitions that the file repeats behind its messages: the chunk that had them may be damaged.
    fn take_repeated(&mut self) -> Result<(), LogDefect> {
        if std::mem::replace(&mut self.has_repeated, true) {
            return Ok(());
        }
        let back = self.at;
        // What is damaged there, too, stays undefined, and is said.
        let _ = self.read_summary();
        self.at = back;
        self.source.seek(SeekFrom::Start(back))?;
        Ok(())
    }

    fn read_summary(&mut self) -> Result<(), LogDefect> {
        let end = (RECORD_HEAD + FOOTER_BYTES + MAGIC.len()) as u64;
        let footer = self.file_bytes.saturating_sub(end);
        self.source.seek(SeekFrom::Start(footer))?;
        let last = self.bytes_of_file(end, footer)?;
        let begin = Fields(&last[RECORD_HEAD..]).long().unwrap_or(0);
        let is_footer = kind_and_length(&last) == Some((FOOTER, FOOTER_BYTES as u64));
        if !is_footer || begin < MAGIC.len() as u64 {
            return Ok(());
        }
        self.source.seek(SeekFrom::Start(begin))?;
        self.at = begin;
        while self.at < footer {
            let at = self.at;
            let head = self.bytes_of_file(RECORD_HEAD as u64, at)?;
            let (kind, bytes) = kind_and_length(&head).ok_or(LogDefect::Cut { at })?;
            if bytes > footer.saturating_sub(self.at) {
                return Err(LogDefect::Record { at });
            }
            if matches!(kind, SCHEMA | CHANNEL) {
                self.check_length(at, bytes)?;
                let content = self.bytes_of_file(bytes, at)?;
                // One that contradicts another hides no third.
                let _ = self.take(at, kind, content);
            } else {
                self.skip(bytes)?;
            }
        }
        Ok(())
    }

    fn count_definition(&mut self, bytes: usize) -> Result<(), LogDefect> {
        let most = self.most_memory / FOR_DEFINITIONS;
        self.definition_bytes += bytes as u64;
        if self.definition_bytes > most { Err(LogDefect::Definitions { most }) } else { Ok(()) }
    }

    fn channel(&self, at: u64, content: &[u8]) -> Result<LogRecordChannel, LogDefect> {
        let mut fields = Fields(content);
        let read = (|| {
            let (id, of_schema) = (fields.short()?, fields.short()?);
            let (topic, encoding) = (fields.text()?, fields.text()?);
            let bytes = fields.word()? as usize;
            let mut pairs = Fields(fields.take(bytes)?);
            let mut texts = BTreeMap::new();
            while !pairs.0.is_empty() {
                texts.insert(pairs.text()?, pairs.text()?);
            }
            let channel = LogRecordChannel { id, topic, encoding, schema: None, texts };
            Some((of_schema, channel))
        })();
        let (of_schema, channel) = read.ok_or(LogDefect::Record { at })?;
        if of_schema == 0 {
            return Ok(channel);
        }
        let schema = self.schemas.get(&of_schema).cloned();
        let unknown = LogDefect::Unknown { what: "definition", id: of_schema, at };
        Ok(LogRecordChannel { schema: Some(schema.ok_or(unknown)?), ..channel })
    }

    fn message(&self, at: u64, mut content: Vec<u8>) -> Result<LogMessage, LogDefect> {
        let mut fields = Fields(&content);
        let head = (|| Some((fields.short()?, fields.word()?, fields.long()?, fields.long()?)))();
        let (id, sequence, log_time, publish_time) = head.ok_or(LogDefect::Record { at })?;
        let channel = self.channels.get(&id);
        let channel = channel.ok_or(LogDefect::Unknown { what: "channel", id, at })?;
        let channel = Arc::clone(channel);
        content.drain(..MESSAGE_HEAD);
        Ok(LogMessage { channel, sequence, log_time, publish_time, data: content })
    }
}

impl<R: Read + Seek> LogMessages<R> {
    /// Goes on after a defect: with the next sound record. Returns false where there is none.
    pub(super) fn resume(&mut self) -> bool {
        self.found = None;
        if std::mem::take(&mut self.is_passed_over) {
            self.state = ReadState::Data;
            return true;
        }
        let is_open = self.chunk.take().is_some();
        if self.at < MAGIC.len() as u64 || self.left() == 0 && !is_open {
            return false;
        }
        // Behind the whole record, where others follow: what seem to be records within a damaged chunk are damaged too.
        let is_whole = is_open
            || self.begun_end > self.begun && self.is_sound(self.begun_end).unwrap_or(false);
        // A length beyond the limit that leads to no record is no reason to search through all of it.
        if !is_whole && self.begun_end.saturating_sub(self.begun) > self.most_memory {
            return false;
        }
        let from = match (is_open, is_whole) {
            (true, _) => self.at,
            (false, true) => self.begun_end,
            (false, false) => self.begun,
        };
        match self.sound_from(from, is_whole) {
            Ok(Some(at)) => {
                self.at = at;
                self.state = ReadState::Data;
                true
            }
            Ok(None) | Err(_) => false,
        }
    }

    /// Finds the first place from which records follow one another; `from` itself counts if `is_record`.
    fn sound_from(&mut self, from: u64, is_record: bool) -> io::Result<Option<u64>> {
        let mut window = vec![0; SEARCH_BYTES];
        let mut begin = from + u64::from(!is_record);
        while begin + RECORD_HEAD as u64 <= self.file_bytes {
            self.source.seek(SeekFrom::Start(begin))?;
            let bytes =
                SEARCH_BYTES.min(usize::try_from(self.file_bytes - begin).unwrap_or(SEARCH_BYTES));
            self.source.read_exact(&mut window[..bytes])?;
            let likely = window[..bytes]
                .windows(RECORD_HEAD)
                .enumerate()
                .filter(|(_, head)| {
                    let is_part = self.has_chunks && head[0] == MESSAGE;
                    (1..=DATA_END).contains(&head[0]) && !is_part && head[5..] == [0; 4]
                })
                .map(|(place, _)| begin + place as u64);
            for at in likely.collect::<Vec<_>>() {
                if self.is_sound(at)? {
                    self.source.seek(SeekFrom::Start(at))?;
                    return Ok(Some(at));
                }
            }
            begin += (bytes - RECORD_HEAD + 1) as u64;
        }
        Ok(None)
    }

    /// Returns whether records follow one another from here on: three of them, or up to the end.
    fn is_sound(&mut self, mut at: u64) -> io::Result<bool> {
        for _ in 0..3 {
            if at + MAGIC.len() as u64 == self.file_bytes {
                return Ok(true);
            }
            if at + RECORD_HEAD as u64 > self.file_bytes {
                return Ok(false);
            }
            self.source.seek(SeekFrom::Start(at))?;
            let mut head = [0; RECORD_HEAD];
            self.source.read_exact(&mut head)?;
            let Some((kind, bytes)) = kind_and_length(&head) else { return Ok(false) };
            let end = (at + RECORD_HEAD as u64).checked_add(bytes);
            match end.filter(|end| *end <= self.file_bytes && (1..=DATA_END).contains(&kind)) {
                Some(end) => at = end,
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

impl<R: Read + Seek> Iterator for LogMessages<R> {
    type Item = Result<LogMessage, LogDefect>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.state == ReadState::Ended {
            return None;
        }
        let next = self.next_message().transpose();
        if !matches!(next, Some(Ok(_))) {
            self.state = ReadState::Ended;
        }
        next
    }
}

/// Reads exactly this many bytes into memory that grows with them; `None` if there are fewer.
pub(super) fn exactly(source: &mut impl Read, bytes: u64) -> io::Result<Option<Vec<u8>>> {
    // Most records are short; the first allocation is theirs.
    let mut content = Vec::with_capacity(usize::try_from(bytes.min(1 << 16)).unwrap_or(0));
    match source.take(bytes).read_to_end(&mut content) {
        Ok(_) => Ok((content.len() as u64 == bytes).then_some(content)),
        Err(why) if why.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(why) => Err(why),
    }
}

/// Says of compressed bytes at a place what is wrong with them.
pub(super) fn not_packed(at: u64) -> impl Fn(io::Error) -> LogDefect {
    move |why| LogDefect::Packed { at, why: why.to_string() }
}

fn kind_and_length(head: &[u8]) -> Option<(u8, u64)> {
    let mut fields = Fields(head);
    Some((*fields.take(1)?.first()?, fields.long()?))
}

fn schema(content: &[u8]) -> Option<(u16, LogSchema)> {
    let mut fields = Fields(content);
    let id = fields.short()?;
    let (name, encoding) = (fields.text()?, fields.text()?);
    let bytes = fields.word()? as usize;
    let definition = fields.take(bytes)?.to_vec();
    Some((id, LogSchema { name, encoding, definition }))
}

/// Fields of a record, one after the other; `None` beyond its end.
pub(super) struct Fields<'r>(pub(super) &'r [u8]);

impl<'r> Fields<'r> {
    pub(super) fn take(&mut self, bytes: usize) -> Option<&'r [u8]> {
        let (field, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(field)
    }

    pub(super) fn short(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    pub(super) fn word(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(super) fn long(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// A text; some writers have other encodings than UTF-8.
    pub(super) fn text(&mut self) -> Option<String> {
        let bytes = self.word()? as usize;
        Some(String::from_utf8_lossy(self.take(bytes)?).into_owned())
    }
}

/// What a log contains, as counted by [`check_log`].
#[derive(Debug, Default)]
pub struct LogCheck {
    pub messages: u64,
    pub data_bytes: u64,
    /// Why the log ends early; `None` for a complete one.
    pub defect: Option<LogDefect>,
}

/// Reads all messages of a log, and keeps none.
///
/// ```
/// use onbeat_gateway::check_log;
///
/// let mut log = b"\x89MCAP0\r\n\x05".to_vec();
/// log.extend(u64::to_le_bytes(1 << 46));
/// let why = check_log(&log, 1 << 20).defect.unwrap();
/// assert_eq!(why.to_string(), "the record at byte 8 claims 70368744177664 bytes, and 0 are left in the file");
/// ```
#[must_use]
pub fn check_log(bytes: &[u8], most_memory: u64) -> LogCheck {
    let mut check = LogCheck::default();
    for message in LogMessages::new(Cursor::new(bytes), bytes.len() as u64, most_memory) {
        match message {
            Ok(message) => {
                check.messages += 1;
                check.data_bytes += message.data.len() as u64;
            }
            Err(defect) => check.defect = Some(defect),
        }
    }
    check
}

#[cfg(test)]
#[path = "log_records_tests.rs"]
mod tests;
