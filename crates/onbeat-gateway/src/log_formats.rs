//! The messages of a log in whatever format it is: MCAP, a log of LCM, a bag of ROS 1, or a bag of ROS 2 in SQLite; a file
//! that was compressed as a whole by zstd, or a folder of them.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use onbeat_host::foreign;
use rustix::fs::{Mode, OFlags};
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};

use super::error::GatewayError;
use super::lcm_packets;
use super::log_defect::{LogDefect, MOST_CHANNELS, printable};
use super::log_folder::FolderMessages;
use super::log_records::{
    Fields, LogMessage, LogMessages, LogRecordChannel, LogSchema, Zstd, exactly, not_packed,
};
use super::log_sqlite::SqliteRows;

/// First bytes of each format.
const SQLITE: &[u8] = b"SQLite format 3\0";
const ROSBAG: &[u8] = b"#ROSBAG V2.0\n";
const LCM: &[u8] = b"\xed\xa1\xda\x01";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
/// Most bytes of a file that was compressed as a whole.
const MOST_UNPACKED: u64 = 64 << 30;
/// The field of a record's header that says what it is, most bytes of the header before it, and of a header that is looked for.
const ROSBAG_OP: &[u8] = b"\x04\0\0\0op=";
const ROSBAG_BEFORE_OP: usize = 128;
const ROSBAG_HEADER: usize = 1 << 12;
/// Bytes of an event of LCM before its channel, and the longest name of one.
const LCM_HEAD: usize = 28;
const LCM_NAME: u32 = 1024;

/// The messages of a log, in its order.
pub(super) struct FormatMessages {
    format: Format,
    most_memory: u64,
    /// Whether the last defect was in the bytes of one message, or noticed before the first.
    is_in_message: bool,
    noticed: Option<LogDefect>,
}

enum Format {
    Mcap(LogMessages<BufReader<File>>),
    Lcm(LcmEvents),
    Rosbag(RosbagRecords),
    Sqlite(SqliteRows),
    Folder(FolderMessages),
}

impl FormatMessages {
    /// Opens a log: a file, or the folder of a bag of ROS 2.
    ///
    /// # Errors
    /// [`GatewayError::Open`], [`GatewayError::Read`].
    pub(super) fn open(path: &Path, most_memory: u64) -> Result<Self, GatewayError> {
        if path.is_dir() {
            let format = Format::Folder(FolderMessages::open(path, most_memory)?);
            return Ok(Self { format, most_memory, is_in_message: false, noticed: None });
        }
        Self::of_file(path, most_memory)
    }

    /// Opens a file; its first bytes name its format.
    ///
    /// # Errors
    /// As [`FormatMessages::open`].
    pub(super) fn of_file(path: &Path, most_memory: u64) -> Result<Self, GatewayError> {
        let opened = |source| GatewayError::Open { path: path.to_owned(), source };
        let failed = |source| GatewayError::Read { path: path.to_owned(), source };
        let mut file = foreign::open(path).map_err(opened)?;
        let mut first = first_bytes(&mut file).map_err(opened)?;
        // pzstd begins with a frame that has no content.
        let is_packed =
            first.starts_with(ZSTD) || matches!(first[..], [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]);
        let mut noticed = None;
        if is_packed {
            (file, noticed) = unpacked(file).map_err(failed)?;
            first = first_bytes(&mut file).map_err(opened)?;
        }
        let bytes = file.metadata().map_err(opened)?.len();

        let format = if first.starts_with(SQLITE) {
            // What is unpacked has no journal beside it.
            let journal = (!is_packed).then_some(path);
            Format::Sqlite(SqliteRows::open(file, journal).map_err(failed)?)
        } else if first.starts_with(ROSBAG) {
            Format::Rosbag(RosbagRecords::new(file, bytes, most_memory).map_err(failed)?)
        } else if first.starts_with(LCM) {
            Format::Lcm(LcmEvents {
                source: BufReader::new(file),
                at: 0,
                bytes,
                most_memory,
                channels: HashMap::new(),
                is_over: false,
            })
        } else {
            Format::Mcap(LogMessages::new(BufReader::new(file), bytes, most_memory))
        };
        Ok(Self { format, most_memory, is_in_message: false, noticed })
    }

    /// Returns the number of attachments and records of metadata that were passed over so far.
    pub(super) fn others(&self) -> u64 {
        match &self.format {
            Format::Mcap(messages) => messages.others,
            Format::Folder(messages) => messages.others,
            Format::Lcm(_) | Format::Rosbag(_) | Format::Sqlite(_) => 0,
        }
    }

    /// Returns the channels that were defined so far, in the order of their numbers, also those without messages.
    pub(super) fn channels(&self) -> Vec<Arc<LogRecordChannel>> {
        let mut all: Vec<_> = match &self.format {
            Format::Mcap(messages) => messages.channels.values().cloned().collect(),
            Format::Lcm(events) => events.channels.values().cloned().collect(),
            Format::Rosbag(records) => records.channels.values().cloned().collect(),
            Format::Sqlite(rows) => rows.channels.values().cloned().collect(),
            Format::Folder(messages) => messages.channels.clone(),
        };
        all.sort_by_key(|of| of.id);
        all
    }

    /// Goes on after a defect; returns false where nothing sound follows.
    pub(super) fn resume(&mut self) -> bool {
        if std::mem::take(&mut self.is_in_message) {
            return true;
        }
        match &mut self.format {
            Format::Mcap(messages) => messages.resume(),
            Format::Lcm(events) => !events.is_over,
            Format::Sqlite(rows) => rows.resume(),
            Format::Folder(messages) => messages.resume(),
            Format::Rosbag(records) => records.resume(),
        }
    }
}

impl Iterator for FormatMessages {
    type Item = Result<LogMessage, LogDefect>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(why) = self.noticed.take() {
            self.is_in_message = true;
            return Some(Err(why));
        }
        let next = match &mut self.format {
            Format::Mcap(messages) => messages.next(),
            Format::Lcm(events) => events.next(),
            Format::Rosbag(records) => records.next(),
            Format::Sqlite(rows) => rows.next(),
            Format::Folder(messages) => messages.next(),
        };
        match next {
            // CDR begins with a zero: ROS 2 has compressed this message alone.
            Some(Ok(message))
                if message.data.starts_with(ZSTD) && message.channel.encoding == "cdr" =>
            {
                let message = unpacked_message(message, self.most_memory);
                self.is_in_message = message.is_err();
                Some(message)
            }
            other => other,
        }
    }
}

fn first_bytes(file: &mut File) -> io::Result<Vec<u8>> {
    let mut first = Vec::new();
    Read::by_ref(file).take(16).read_to_end(&mut first)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(first)
}

/// Unpacks a file that was compressed by zstd into one without a name, which is gone when it is closed; up to the damage of
/// one that is damaged or was cut.
fn unpacked(packed: File) -> Result<(File, Option<LogDefect>), LogDefect> {
    let place = std::env::temp_dir();
    let failed =
        |why: io::Error| LogDefect::Unpack(format!("{why} (TMPDIR is {})", place.display()));
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let to = rustix::fs::open(&place, flags, Mode::RUSR | Mode::WUSR);
    let mut to = File::from(to.map_err(|why| failed(why.into()))?);
    let mut from = BufReader::with_capacity(1 << 16, packed);
    let (mut piece, mut left, mut noticed) = (vec![0; 1 << 16], MOST_UNPACKED, None);
    let mut cut = None;
    // A file may have several frames, one behind the other.
    while cut.is_none() && !from.fill_buf()?.is_empty() {
        let mut frame = match Zstd::new(&mut from) {
            Ok(frame) => frame,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => {
                // Without content: the index of the seekable format, and lengths of pzstd.
                io::copy(&mut Read::by_ref(&mut from).take(length.into()), &mut io::sink())?;
                continue;
            }
            Err(why) if left == MOST_UNPACKED => {
                return Err(LogDefect::Unpack(why.to_string()));
            }
            Err(_) => {
                cut = Some("no frame of zstd is behind them".to_owned());
                break;
            }
        };
        loop {
            match frame.read(&mut piece) {
                Ok(0) => break,
                Ok(bytes) => {
                    left = left.checked_sub(bytes as u64).ok_or_else(|| {
                        LogDefect::Unpack(format!("it has more than {} GiB", MOST_UNPACKED >> 30))
                    })?;
                    to.write_all(&piece[..bytes]).map_err(failed)?;
                }
                Err(why) => {
                    cut = Some(why.to_string());
                    break;
                }
            }
        }
        let stated = frame.decoder.get_checksum_from_data();
        let found = frame.decoder.get_calculated_checksum();
        if let Some((stated, found)) = stated.zip(found)
            && stated != found
        {
            noticed = Some(LogDefect::DataChecksum { found, stated });
        }
    }
    let bytes = MOST_UNPACKED - left;
    let noticed = match cut {
        Some(why) if bytes == 0 => return Err(LogDefect::Unpack(why)),
        Some(why) => Some(LogDefect::Unpacked { bytes, why }),
        None => noticed,
    };
    to.seek(SeekFrom::Start(0))?;
    Ok((to, noticed))
}

fn unpacked_message(packed: LogMessage, most: u64) -> Result<LogMessage, LogDefect> {
    let failed = |why: String| LogDefect::Message { topic: printable(&packed.channel.topic), why };
    let frame = Zstd::new(packed.data.as_slice()).map_err(|why| failed(why.to_string()))?;
    let mut data = Vec::new();
    let bound = most.saturating_add(1);
    frame.take(bound).read_to_end(&mut data).map_err(|why| failed(why.to_string()))?;
    if data.len() as u64 > most {
        return Err(failed(format!("it has more than {most} bytes; --most-memory sets the limit")));
    }
    Ok(LogMessage { data, ..packed })
}

/// Events of a log of LCM: big-endian, each with a sync word, its number, its time in µs, its channel and its bytes.
pub(super) struct LcmEvents {
    source: BufReader<File>,
    at: u64,
    bytes: u64,
    most_memory: u64,
    channels: HashMap<String, Arc<LogRecordChannel>>,
    is_over: bool,
}

impl LcmEvents {
    fn event(&mut self) -> Result<Option<LogMessage>, LogDefect> {
        let at = self.at;
        let is_inside = at + LCM_HEAD as u64 <= self.bytes;
        // A log that is still being written ends where it ended when it was opened.
        let Some(head) = exactly(&mut self.source, LCM_HEAD as u64)?.filter(|_| is_inside) else {
            self.is_over = true;
            return if at == self.bytes { Ok(None) } else { Err(LogDefect::Cut { at }) };
        };
        let word = |from: usize| lcm_packets::word(&head, from).unwrap_or(0);
        let long = |from: usize| u64::from(word(from)) << 32 | u64::from(word(from + 4));
        let (name, data) = (word(20), word(24));
        if &head[..4] != LCM || name > LCM_NAME {
            return Err(self.pass_over(at)?);
        }
        let left = self.bytes - at - LCM_HEAD as u64;
        if u64::from(name) + u64::from(data) > left {
            let strange = self.pass_over(at)?;
            return Err(if self.is_over { LogDefect::Cut { at } } else { strange });
        }
        if u64::from(data) > self.most_memory {
            self.at = at + LCM_HEAD as u64 + u64::from(name) + u64::from(data);
            self.source.seek(SeekFrom::Start(self.at))?;
            return Err(LogDefect::TooLong { at, bytes: data.into(), most: self.most_memory });
        }
        let name = exactly(&mut self.source, name.into())?.ok_or(LogDefect::Cut { at })?;
        let payload = exactly(&mut self.source, data.into())?.ok_or(LogDefect::Cut { at })?;
        self.at = at + LCM_HEAD as u64 + name.len() as u64 + payload.len() as u64;
        let channel = self.channel(&String::from_utf8_lossy(&name))?;
        // Events are numbered across all channels: a gap in those of one is no loss. A time before 1970 is not the last one.
        let time_us = u64::try_from(long(12).cast_signed()).unwrap_or(0);
        Ok(Some(LogMessage::bare(channel, time_us.saturating_mul(1000), payload)))
    }

    /// Looks for the next sync word.
    fn pass_over(&mut self, at: u64) -> Result<LogDefect, LogDefect> {
        let mut begin = at + 1;
        let mut window = vec![0; 1 << 16];
        while begin + LCM.len() as u64 <= self.bytes {
            self.source.seek(SeekFrom::Start(begin))?;
            let here =
                window.len().min(usize::try_from(self.bytes - begin).unwrap_or(window.len()));
            self.source.read_exact(&mut window[..here])?;
            if let Some(place) = window[..here].windows(LCM.len()).position(|it| it == LCM) {
                self.at = begin + place as u64;
                self.source.seek(SeekFrom::Start(self.at))?;
                return Ok(LogDefect::Strange { at, end: self.at });
            }
            begin += (here - LCM.len() + 1) as u64;
        }
        self.is_over = true;
        Ok(LogDefect::Strange { at, end: self.bytes })
    }

    fn channel(&mut self, name: &str) -> Result<Arc<LogRecordChannel>, LogDefect> {
        if let Some(known) = self.channels.get(name) {
            return Ok(Arc::clone(known));
        }
        let channel = new_channel(self.channels.len(), name, "lcm", None, BTreeMap::new())?;
        self.channels.insert(name.to_owned(), Arc::clone(&channel));
        Ok(channel)
    }
}

impl Iterator for LcmEvents {
    type Item = Result<LogMessage, LogDefect>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over { None } else { self.event().transpose() }
    }
}

pub(super) fn new_channel(
    id: usize,
    topic: &str,
    encoding: &str,
    schema: Option<LogSchema>,
    texts: BTreeMap<String, String>,
) -> Result<Arc<LogRecordChannel>, LogDefect> {
    let id = u16::try_from(id).ok().filter(|id| usize::from(*id) < MOST_CHANNELS);
    Ok(Arc::new(LogRecordChannel {
        id: id.ok_or(LogDefect::Channels)?,
        topic: topic.to_owned(),
        encoding: encoding.to_owned(),
        schema: schema.map(Arc::new),
        texts,
    }))
}

/// Records of a bag of ROS 1, version 2.0 (wiki.ros.org/Bags/Format/2.0).
pub(super) struct RosbagRecords {
    source: BufReader<File>,
    at: u64,
    bytes: u64,
    most_memory: u64,
    channels: HashMap<u32, Arc<LogRecordChannel>>,
    /// Number of channels so far, also of bags before this one in the file.
    defined: usize,
    waiting: VecDeque<LogMessage>,
    /// Connections that messages have and the bag does not define; each is said once.
    undefined: HashSet<u32>,
    /// Messages of each connection in the last chunk, which the index behind it counts, too; `None` if it is damaged.
    found: Option<HashMap<u32, u32>>,
    /// Where the last record outside of chunks begins, and whether it was read to its end: another one follows it.
    begun: u64,
    is_whole: bool,
    /// Whether the index is where the first record says, which a recorder writes at last.
    is_closed: bool,
    is_over: bool,
}

/// Header and content of a record.
type RosbagRecord = (HashMap<String, Vec<u8>>, Vec<u8>);

impl RosbagRecords {
    fn new(file: File, bytes: u64, most_memory: u64) -> Result<Self, LogDefect> {
        let mut source = BufReader::new(file);
        let at = ROSBAG.len() as u64;
        source.seek(SeekFrom::Start(at))?;
        Ok(Self {
            source,
            at,
            bytes,
            most_memory,
            channels: HashMap::new(),
            defined: 0,
            waiting: VecDeque::new(),
            undefined: HashSet::new(),
            found: None,
            begun: at,
            is_whole: true,
            is_closed: true,
            is_over: false,
        })
    }

    /// Goes on after a defect; returns false where no record follows.
    fn resume(&mut self) -> bool {
        if !self.is_whole {
            self.found = None;
            let next = match self.joined() {
                Ok(None) => self.next_record(),
                joined => joined,
            };
            match next {
                Ok(Some(at)) if self.source.seek(SeekFrom::Start(at)).is_ok() => {
                    self.at = at;
                    self.is_whole = true;
                }
                _ => self.is_over = true,
            }
        }
        !self.is_over
    }

    /// Where the records begin of a bag that was joined to this one; it has its own connections.
    fn joined(&mut self) -> io::Result<Option<u64>> {
        let mut first = Vec::new();
        self.source.seek(SeekFrom::Start(self.begun))?;
        Read::by_ref(&mut self.source).take(ROSBAG.len() as u64).read_to_end(&mut first)?;
        if first != ROSBAG {
            return Ok(None);
        }
        self.channels.clear();
        self.undefined.clear();
        Ok(Some(self.begun + ROSBAG.len() as u64))
    }

    /// Finds the next chunk, index or connection behind a damaged record.
    fn next_record(&mut self) -> io::Result<Option<u64>> {
        // The next one is nearly always near.
        let mut window = vec![0; 4 * ROSBAG_HEADER];
        let mut begin = self.begun + 1;
        loop {
            let here = usize::try_from(self.bytes.saturating_sub(begin)).unwrap_or(window.len());
            let here = here.min(window.len());
            self.source.seek(SeekFrom::Start(begin))?;
            self.source.read_exact(&mut window[..here])?;
            let left = self.bytes - begin;
            for (place, _) in window[..here]
                .windows(ROSBAG_OP.len() + 1)
                .enumerate()
                .filter(|(_, it)| it.starts_with(ROSBAG_OP) && (4..=7).contains(&it[it.len() - 1]))
            {
                // Fields of the header can be before its `op`.
                let starts = place.saturating_sub(ROSBAG_BEFORE_OP)..place.saturating_sub(3);
                let is_record =
                    |at: &usize| is_rosbag_record(&window[*at..here], left - *at as u64);
                if let Some(at) = starts.rev().find(is_record) {
                    return Ok(Some(begin + at as u64));
                }
            }
            if here < window.len() {
                return Ok(None);
            }
            begin += (here - ROSBAG_HEADER) as u64;
            window.resize(1 << 20, 0);
        }
    }

    /// Takes the connections of the index at the end: the chunk that defines them may be damaged.
    fn read_index(&mut self, begin: u64) -> Result<(), LogDefect> {
        let back = self.at;
        if begin <= back || begin >= self.bytes {
            return Ok(());
        }
        self.source.seek(SeekFrom::Start(begin))?;
        self.at = begin;
        while self.at < self.bytes {
            let at = self.at;
            let (Ok(header), Ok(content)) = (self.part(at), self.part(at)) else { break };
            let Some(header) = rosbag_header(&header) else { break };
            let is_connection = header.get("op").is_some_and(|op| op[..] == [7]);
            if !is_connection || self.take(at, &header, content).is_err() {
                break;
            }
        }
        self.source.seek(SeekFrom::Start(back))?;
        self.at = back;
        Ok(())
    }

    /// Reads a part that has its length before it.
    fn part(&mut self, of: u64) -> Result<Vec<u8>, LogDefect> {
        let length = exactly(&mut self.source, 4)?.ok_or(LogDefect::Cut { at: of })?;
        let bytes = u64::from(Fields(&length).word().unwrap_or(0));
        let left = self.bytes.saturating_sub(self.at + 4);
        if bytes > left {
            return Err(LogDefect::BeyondFile { at: of, bytes, left });
        }
        if bytes > self.most_memory {
            return Err(LogDefect::TooLong { at: of, bytes, most: self.most_memory });
        }
        self.at += 4 + bytes;
        exactly(&mut self.source, bytes)?.ok_or(LogDefect::Cut { at: of })
    }

    fn read(&mut self) -> Result<Option<LogMessage>, LogDefect> {
        while self.waiting.is_empty() {
            let at = self.at;
            if at == self.bytes {
                let is_closed = std::mem::replace(&mut self.is_closed, true);
                return if is_closed { Ok(None) } else { Err(LogDefect::NoIndex) };
            }
            self.is_whole = false;
            self.begun = at;
            let header = self.part(at)?;
            let content = self.part(at)?;
            // Where bytes were lost, or are zeros, its lengths are any.
            let header = rosbag_header(&header).filter(|it| it.contains_key("op"));
            let header = header.ok_or(LogDefect::Record { at })?;
            self.is_whole = true;
            match header.get("op").and_then(|op| op.first()) {
                Some(5) => {
                    self.found = None;
                    let records = self.unpacked(at, &header, content)?;
                    self.found = Some(HashMap::new());
                    let (mut rest, mut failed) = (Fields(&records), None);
                    while !rest.0.is_empty() {
                        let Some((header, content)) = rosbag_record(&mut rest) else {
                            failed = Some(LogDefect::Record { at });
                            break;
                        };
                        let taken = match header.get("op").map(Vec::as_slice) {
                            Some([2 | 7]) => self.take(at, &header, content),
                            op => Err(strange_kind(at, op)),
                        };
                        failed = failed.or(taken.err());
                    }
                    if let Some(why) = failed {
                        self.found = None;
                        return Err(why);
                    }
                }
                Some(3) => {
                    if let Some(by) = header.get("encryptor").filter(|by| !by.is_empty()) {
                        let by = printable(&String::from_utf8_lossy(by));
                        return Err(LogDefect::Encrypted { by });
                    }
                    let index = header.get("index_pos").and_then(|it| Fields(it).long());
                    let index = index.unwrap_or(0);
                    // That of a bag without connections has no bytes.
                    let is_empty = header.get("conn_count").is_some_and(|it| it[..] == [0; 4]);
                    self.is_closed = index > 0 && index < self.bytes + u64::from(is_empty);
                    self.read_index(index)?;
                }
                _ => self.take(at, &header, content)?,
            }
        }
        Ok(self.waiting.pop_front())
    }

    fn unpacked(
        &self,
        at: u64,
        header: &HashMap<String, Vec<u8>>,
        content: Vec<u8>,
    ) -> Result<Vec<u8>, LogDefect> {
        let bytes = u64::from(header.get("size").and_then(|it| Fields(it).word()).unwrap_or(0));
        let most = self.most_memory;
        if bytes > most {
            return Err(LogDefect::TooLong { at, bytes, most });
        }
        let name = header.get("compression").map_or(&b"none"[..], Vec::as_slice);
        let mut packed: Box<dyn Read + '_> = match name {
            b"none" => return Ok(content),
            b"lz4" => Box::new(lz4::Decoder::new(&content[..]).map_err(not_packed(at))?),
            b"bz2" => Box::new(bzip2::read::BzDecoder::new(&content[..])),
            other => {
                let name = String::from_utf8_lossy(other);
                let name = name.chars().take(32).filter(|it| !it.is_control()).collect();
                return Err(LogDefect::Compression { at, name });
            }
        };
        let whole = exactly(&mut packed, bytes).map_err(not_packed(at))?;
        let whole = whole.ok_or(LogDefect::Record { at })?;
        // Their checksum is behind them.
        match packed.read(&mut [0]).map_err(not_packed(at))? {
            0 => Ok(whole),
            _ => Err(LogDefect::Record { at }),
        }
    }

    fn take(
        &mut self,
        at: u64,
        header: &HashMap<String, Vec<u8>>,
        content: Vec<u8>,
    ) -> Result<(), LogDefect> {
        let number = |name: &str| header.get(name).and_then(|it| Fields(it).word());
        match header.get("op").and_then(|op| op.first()) {
            Some(7) => {
                let id = number("conn").ok_or(LogDefect::Record { at })?;
                if self.channels.contains_key(&id) {
                    return Ok(());
                }
                let about = rosbag_header(&content).ok_or(LogDefect::Record { at })?;
                let text = |of: Option<&Vec<u8>>| {
                    of.map(|it| String::from_utf8_lossy(it).into_owned()).unwrap_or_default()
                };
                let schema = LogSchema {
                    name: text(about.get("type")),
                    encoding: "ros1msg".to_owned(),
                    definition: about.get("message_definition").cloned().unwrap_or_default(),
                };
                let mut texts = BTreeMap::new();
                if about.contains_key("callerid") {
                    texts.insert("callerid".to_owned(), text(about.get("callerid")));
                }
                if let Some(latching) = about.get("latching") {
                    let word = if latching == b"1" { "true" } else { "false" };
                    texts.insert("latching".to_owned(), word.to_owned());
                }
                let topic = text(header.get("topic"));
                let channel = new_channel(self.defined, &topic, "ros1", Some(schema), texts)?;
                self.defined += 1;
                self.channels.insert(id, channel);
            }
            Some(2) => {
                let id = number("conn").ok_or(LogDefect::Record { at })?;
                let time = header.get("time").map_or(&[][..], Vec::as_slice);
                let mut time = Fields(time);
                let (seconds, ns) = time.word().zip(time.word()).ok_or(LogDefect::Record { at })?;
                if let Some(found) = &mut self.found {
                    *found.entry(id).or_default() += 1;
                }
                let Some(channel) = self.channels.get(&id).cloned() else {
                    let unknown = LogDefect::Unknown { what: "connection", id: id as u16, at };
                    return if self.undefined.insert(id) { Err(unknown) } else { Ok(()) };
                };
                let log_time = u64::from(seconds) * 1_000_000_000 + u64::from(ns);
                self.waiting.push_back(LogMessage::bare(channel, log_time, content));
            }
            // Indexes have this field, and no other records have it.
            Some(6) if header.contains_key("ver") => {}
            Some(4) if header.contains_key("ver") => {
                let (id, stated) =
                    number("conn").zip(number("count")).ok_or(LogDefect::Record { at })?;
                let read = self.found.as_ref().map(|it| it.get(&id).copied().unwrap_or(0));
                if let Some(read) = read.filter(|read| *read < stated) {
                    return Err(LogDefect::Index { at, stated, read });
                }
            }
            _ => return Err(strange_kind(at, header.get("op").map(Vec::as_slice))),
        }
        Ok(())
    }
}

impl Iterator for RosbagRecords {
    type Item = Result<LogMessage, LogDefect>;

    fn next(&mut self) -> Option<Self::Item> {
        // Behind a damaged record only `resume` goes on.
        if self.is_over || !self.is_whole {
            return None;
        }
        let next = self.read().transpose();
        self.is_over = next.is_none();
        next
    }
}

/// A record of a bag that may have been another one before it was damaged.
fn strange_kind(at: u64, op: Option<&[u8]>) -> LogDefect {
    LogDefect::Kind { at, kind: op.and_then(|op| op.first()).copied().unwrap_or(0) }
}

/// Returns whether bytes begin as a record, of which this many are left in the file.
fn is_rosbag_record(bytes: &[u8], left: u64) -> bool {
    let mut rest = Fields(bytes);
    let header = rosbag_part(&mut rest).and_then(rosbag_header);
    let length = rest.word().map(u64::from);
    let is_complete = header.is_some_and(|header| header.contains_key("op"));
    let head = (bytes.len() - rest.0.len()) as u64;
    is_complete && length.is_some_and(|length| head + length <= left)
}

fn rosbag_part<'r>(rest: &mut Fields<'r>) -> Option<&'r [u8]> {
    let bytes = rest.word()? as usize;
    rest.take(bytes)
}

fn rosbag_record(rest: &mut Fields<'_>) -> Option<RosbagRecord> {
    let header = rosbag_header(rosbag_part(rest)?)?;
    Some((header, rosbag_part(rest)?.to_vec()))
}

fn rosbag_header(bytes: &[u8]) -> Option<HashMap<String, Vec<u8>>> {
    let mut rest = Fields(bytes);
    let mut found = HashMap::new();
    while !rest.0.is_empty() {
        let field = rosbag_part(&mut rest)?;
        let equals = field.iter().position(|letter| *letter == b'=')?;
        found.insert(
            String::from_utf8_lossy(&field[..equals]).into_owned(),
            field[equals + 1..].to_vec(),
        );
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::log_reader::{LogContent, LoggedChannel};
    use super::*;

    fn part(bytes: &[u8]) -> Vec<u8> {
        [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat()
    }

    fn fields(all: &[&[u8]]) -> Vec<u8> {
        all.iter().flat_map(|it| part(it)).collect()
    }

    fn record(head: &[&[u8]], content: &[u8]) -> Vec<u8> {
        [part(&fields(head)), part(content)].concat()
    }

    #[test]
    fn a_connection_of_a_bag_keeps_its_caller_and_whether_it_latches() {
        let about = fields(&[b"type=a/B", b"callerid=/map_server", b"latching=1"]);
        let bag = [
            ROSBAG.to_vec(),
            record(&[b"op=\x07", b"conn=\0\0\0\0", b"topic=/map"], &about),
            record(&[b"op=\x02", b"conn=\0\0\0\0", b"time=\x01\0\0\0\x02\0\0\0"], &[7]),
        ];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map.bag");
        std::fs::write(&path, bag.concat()).unwrap();
        let message = FormatMessages::open(&path, 1 << 20).unwrap().next().unwrap().unwrap();
        let texts = &message.channel.texts;
        let found = (texts["callerid"].as_str(), texts["latching"].as_str());
        assert_eq!(found, ("/map_server", "true"));
        assert_eq!((message.log_time, message.data.as_slice()), (1_000_000_002, &[7][..]));
    }

    #[test]
    fn a_damaged_chunk_of_a_bag_does_not_hide_those_behind_it() {
        let message = |second: u8| {
            let time = [&b"time="[..], &[second, 0, 0, 0, 0, 0, 0, 0]].concat();
            record(&[b"op=\x02", b"conn=\0\0\0\0", &time], &[second])
        };
        let about = fields(&[b"type=a/B"]);
        let damaged = record(
            &[b"op=\x05", b"compression=bz2", b"size=\x09\0\0\0"],
            b"BZh9 and nothing of it",
        );
        let mut encoder = lz4::EncoderBuilder::new().build(Vec::new()).unwrap();
        encoder.write_all(&message(3)).unwrap();
        let (mut packed, done) = encoder.finish();
        done.unwrap();
        // The checksum of what is before it.
        *packed.last_mut().unwrap() ^= 1;
        let size = [&b"size="[..], &(message(3).len() as u32).to_le_bytes()].concat();
        let changed = record(&[b"op=\x05", b"compression=lz4", &size], &packed);
        let bag = [
            ROSBAG.to_vec(),
            record(&[b"op=\x07", b"conn=\0\0\0\0", b"topic=/map"], &about),
            message(1),
            damaged,
            changed,
            message(2),
        ];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map.bag");
        let whole = bag.concat();
        for (end, messages, damage, is_cut) in [(0, 2, 2, false), (1, 1, 2, true)] {
            std::fs::write(&path, &whole[..whole.len() - end]).unwrap();
            let content = LogContent::from_file(&path, 1 << 20).unwrap();
            assert_eq!((content.messages, content.damage.len()), (messages, damage));
            assert_eq!(content.cut.is_empty(), !is_cut, "{}", content.cut);
            assert_eq!(content.in_order().unwrap().count() as u64, messages);
        }
    }

    #[test]
    fn a_message_of_a_bag_that_has_become_another_record_is_missed() {
        let time = b"time=\x01\0\0\0\0\0\0\0";
        let message = record(&[b"op=\x02", b"conn=\0\0\0\0", time], &[1]);
        let of = |conn: &[u8]| record(&[b"op=\x07", conn, b"topic=/map"], &fields(&[b"type=a/B"]));
        let connections = [of(b"conn=\0\0\0\0"), of(b"conn=\x01\0\0\0")].concat();
        let head: [&[u8]; 4] =
            [b"op=\x04", b"ver=\x01\0\0\0", b"conn=\0\0\0\0", b"count=\x02\0\0\0"];
        let index = record(&head, &[0; 24]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map.bag");
        for (second, wanted) in [
            (message.clone(), (2, 0)),
            (record(&[b"op=\x06", b"conn=\0\0\0\0", time], &[1]), (1, 1)),
            (record(&[b"op=\x02", b"cony=\0\0\0\0", time], &[1]), (1, 1)),
            (record(&[b"op=\x02", b"conn=\x01\0\0\0", time], &[1]), (2, 1)),
        ] {
            let inside = [message.clone(), second].concat();
            let chunk = record(&[b"op=\x05", b"compression=none", b"size=\0\0\0\0"], &inside);
            std::fs::write(&path, [ROSBAG, &connections, &chunk, &index].concat()).unwrap();
            let content = LogContent::from_file(&path, 1 << 20).unwrap();
            let damage = &content.damage;
            assert_eq!((content.messages, damage.len()), wanted, "{damage:?}");
        }
    }

    #[test]
    fn a_bag_that_was_joined_to_another_has_its_own_connections() {
        let time = b"time=\x01\0\0\0\0\0\0\0";
        let bag = |topic: &[u8]| {
            let topic = [&b"topic="[..], topic].concat();
            let connection =
                record(&[b"op=\x07", b"conn=\0\0\0\0", &topic], &fields(&[b"type=a/B"]));
            let message = record(&[b"op=\x02", b"conn=\0\0\0\0", time], &[1]);
            [ROSBAG, &connection, &message].concat()
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("joined.bag");
        std::fs::write(&path, [bag(b"/map"), bag(b"/odom")].concat()).unwrap();
        let content = LogContent::from_file(&path, 1 << 20).unwrap();
        let of = |of: &LoggedChannel| (of.topic.clone(), of.messages);
        let found: Vec<_> = content.channels.iter().map(of).collect();
        assert_eq!(found, [("/map".to_owned(), 1), ("/odom".to_owned(), 1)]);
        assert_eq!((content.damaged, content.cut.as_str()), (1, ""));
        assert_eq!(content.in_order().unwrap().count(), 2);
    }

    #[test]
    fn a_bag_without_its_index_was_not_closed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map.bag");
        let connection =
            record(&[b"op=\x07", b"conn=\0\0\0\0", b"topic=/map"], &fields(&[b"type=a/B"]));
        let message = record(&[b"op=\x02", b"conn=\0\0\0\0", b"time=\x01\0\0\0\0\0\0\0"], &[1]);
        // One whose recorder was killed states no place; that of a whole one can be cut off.
        for (index, is_cut) in [(0, true), (60, false), (1 << 20, true)] {
            let index = [&b"index_pos="[..], &u64::to_le_bytes(index)].concat();
            let head = record(&[b"op=\x03", b"conn_count=\x01\0\0\0", &index], b"");
            std::fs::write(&path, [ROSBAG, &head, &connection, &message].concat()).unwrap();
            let content = LogContent::from_file(&path, 1 << 20).unwrap();
            assert_eq!((content.messages, content.damaged), (1, 0));
            assert_eq!(content.cut.contains("has no index"), is_cut, "{}", content.cut);
            assert_eq!(content.in_order().unwrap().count(), 1);
        }
    }

    #[test]
    fn a_bag_that_is_encrypted_is_refused_by_that_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map.bag");
        let head = record(&[b"op=\x03", b"encryptor=rosbag/AesCbcEncryptor"], b"");
        std::fs::write(&path, [ROSBAG, &head].concat()).unwrap();
        let why = LogContent::from_file(&path, 1 << 20).unwrap_err().to_string();
        assert!(why.contains("encrypted by rosbag/AesCbcEncryptor: `rosbag decrypt`"), "{why}");
    }

    #[test]
    fn a_byte_too_many_in_a_bag_hides_nothing_behind_its_record() {
        let message = |second: u8| {
            let time = [&b"time="[..], &[second, 0, 0, 0, 0, 0, 0, 0]].concat();
            record(&[b"conn=\0\0\0\0", b"op=\x02", &time], &[second])
        };
        let connection =
            record(&[b"conn=\0\0\0\0", b"op=\x07", b"topic=/map"], &fields(&[b"type=a/B"]));
        let chunk = |records: &[Vec<u8>]| {
            record(&[b"compression=none", b"op=\x05", b"size=\0\0\0\0"], &records.concat())
        };
        // The definition is in the chunk that is damaged, and again in the index.
        let first = chunk(&[connection.clone(), message(1), message(2)]);
        let second = chunk(&[message(3), message(4)]);
        let header = |index: usize| {
            let index = [&b"index_pos="[..], &(index as u64).to_le_bytes()].concat();
            record(&[b"chunk_count=\x02\0\0\0", &index, b"op=\x03"], &[b' '; 20])
        };
        let begin = ROSBAG.len() + header(0).len();
        let index = begin + first.len() + second.len() + 1;
        let bag = |place: usize| {
            let head = header(index);
            let parts = [ROSBAG, &head, &first, &second, &connection];
            let mut whole = parts.concat();
            whole.insert(begin + place, 0xff);
            whole
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map.bag");
        // In the length of the first chunk's header, in its connection, and in its last message.
        for (place, wanted) in [(1, 2), (70, 2), (first.len() - 3, 3)] {
            std::fs::write(&path, bag(place)).unwrap();
            let content = LogContent::from_file(&path, 1 << 20).unwrap();
            assert!(content.messages >= wanted, "{place}: {:?}", content.damage);
            assert!(!content.damage.is_empty() && content.cut.is_empty(), "{}", content.cut);
            assert_eq!(content.in_order().unwrap().count() as u64, content.messages);
        }
        // Zeros behind the last record, as a file system leaves them where power failed.
        std::fs::write(&path, [ROSBAG, &connection, &first, &[0; 4096]].concat()).unwrap();
        let content = LogContent::from_file(&path, 1 << 20).unwrap();
        assert_eq!((content.messages, content.damaged), (2, 0));
        assert!(content.cut.ends_with("is not valid"), "{}", content.cut);
    }

    /// An event of LCM, of 100 bytes.
    fn lcm_event() -> Vec<u8> {
        let sizes = [1_u32.to_be_bytes(), 71_u32.to_be_bytes()].concat();
        [LCM, &[0; 16], &sizes, b"A", &[7; 71]].concat()
    }

    #[test]
    fn a_log_that_grows_ends_where_it_ended_when_it_was_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lcmlog");
        let mut early = lcm_event();
        early[12..20].fill(0xff);
        std::fs::write(&path, &early).unwrap();
        let mut messages = FormatMessages::open(&path, 1 << 20).unwrap();
        std::fs::write(&path, early.repeat(2)).unwrap();
        let message = messages.next().unwrap().unwrap();
        assert_eq!((message.data, message.log_time), (vec![7; 71], 0));
        assert!(messages.next().is_none());
    }

    #[test]
    fn many_damaged_places_do_not_end_a_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lcmlog");
        let damaged = [&b"junk"[..], &lcm_event()].concat().repeat(150);
        std::fs::write(&path, [lcm_event(), damaged].concat()).unwrap();
        let content = LogContent::from_file(&path, 1 << 20).unwrap();
        assert_eq!((content.messages, content.damaged, content.cut.as_str()), (151, 150, ""));
        assert_eq!((content.damage.len(), content.in_order().unwrap().count()), (100, 151));
        // Nor do events beyond the limit.
        let content = LogContent::from_file(&path, 50).unwrap();
        assert_eq!((content.messages, content.damaged, content.cut.as_str()), (0, 301, ""));
    }

    /// A frame of zstd: a window of 1 KiB, blocks that are stored as they are, and a checksum.
    fn frame(content: &[u8], checksum: u32) -> Vec<u8> {
        let mut packed = [ZSTD, &[4, 0]].concat();
        let blocks = content.chunks(1000);
        let last = blocks.len() - 1;
        for (number, block) in blocks.enumerate() {
            let head = (block.len() as u32) << 3 | u32::from(number == last);
            packed.extend(&head.to_le_bytes()[..3]);
            packed.extend(block);
        }
        packed.extend(checksum.to_le_bytes());
        packed
    }

    #[test]
    fn a_packed_log_is_read_as_far_as_it_can_be_unpacked() {
        let events = lcm_event().repeat(100);
        // The checksum is that of zstd itself.
        let (whole, changed) = (frame(&events, 0x89e1_a57a), frame(&events, 0x89e1_a57b));
        let empty = b"\x5e\x2a\x4d\x18\x03\0\0\0abc";
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lcmlog.zst");
        for (packed, messages, damage, is_cut) in [
            (whole[..6500].to_vec(), 40..60, "bytes can be unpacked", true),
            // As pzstd and the seekable format have them, and padded to whole sectors.
            ([&empty[..], &whole, &whole, empty].concat(), 200..201, "", false),
            ([&whole[..], &[0; 512]].concat(), 100..101, "no frame of zstd is behind", false),
            ([changed, whole].concat(), 200..201, "some byte has changed", false),
        ] {
            std::fs::write(&path, packed).unwrap();
            let content = LogContent::from_file(&path, 1 << 20).unwrap();
            let found = content.damage.concat();
            assert!(messages.contains(&content.messages), "{damage}: {}", content.messages);
            assert!(found.contains(damage) && found.is_empty() == damage.is_empty(), "{found}");
            assert_eq!(!content.cut.is_empty(), is_cut, "{}", content.cut);
            assert_eq!(content.in_order().unwrap().count() as u64, content.messages);
        }
    }
}
