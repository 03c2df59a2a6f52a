//! The messages of a log in whatever format it is: MCAP, a log of LCM, a bag of ROS 1, or a bag of ROS 2 in SQLite.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

use onbeat_host::foreign;

use super::error::GatewayError;
use super::log_defect::{LogDefect, MOST_CHANNELS};
use super::log_records::{Fields, LogMessage, LogMessages, LogRecordChannel, LogSchema, exactly};

/// First bytes of each format.
const SQLITE: &[u8] = b"SQLite format 3\0";
const ROSBAG: &[u8] = b"#ROSBAG V2.0\n";
const LCM: &[u8] = b"\xed\xa1\xda\x01";
/// Bytes of an event of LCM before its channel, and the longest name of one.
const LCM_HEAD: usize = 28;
const LCM_NAME: u32 = 1024;
/// Rows that are taken from a database at a time.
const ROWS: i64 = 256;

/// The messages of a file, in its order.
pub(super) enum FormatMessages {
    Mcap(LogMessages<BufReader<File>>),
    Lcm(LcmEvents),
    Rosbag(RosbagRecords),
    Sqlite(SqliteRows),
}

impl FormatMessages {
    /// Opens a log; its first bytes name its format.
    ///
    /// # Errors
    /// [`GatewayError::Open`], [`GatewayError::Read`].
    pub(super) fn open(path: &Path, most_memory: u64) -> Result<Self, GatewayError> {
        let opened = foreign::open(path).and_then(|mut file| {
            let mut first = Vec::new();
            file.by_ref().take(16).read_to_end(&mut first)?;
            file.seek(SeekFrom::Start(0))?;
            Ok((first, file.metadata()?.len(), file))
        });
        let (first, bytes, file) =
            opened.map_err(|source| GatewayError::Open { path: path.to_owned(), source })?;
        let failed = |source| GatewayError::Read { path: path.to_owned(), source };

        Ok(if first.starts_with(SQLITE) {
            Self::Sqlite(SqliteRows::open(file, path).map_err(failed)?)
        } else if first.starts_with(ROSBAG) {
            Self::Rosbag(RosbagRecords::new(file, bytes, most_memory).map_err(failed)?)
        } else if first.starts_with(LCM) {
            Self::Lcm(LcmEvents {
                source: BufReader::new(file),
                at: 0,
                bytes,
                most_memory,
                channels: HashMap::new(),
                is_over: false,
            })
        } else {
            Self::Mcap(LogMessages::new(BufReader::new(file), bytes, most_memory))
        })
    }

    /// Goes on after a defect; returns false where nothing sound follows.
    pub(super) fn resume(&mut self) -> bool {
        match self {
            Self::Mcap(messages) => messages.resume(),
            Self::Lcm(events) => !events.is_over,
            Self::Rosbag(_) | Self::Sqlite(_) => false,
        }
    }
}

impl Iterator for FormatMessages {
    type Item = Result<LogMessage, LogDefect>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Mcap(messages) => messages.next(),
            Self::Lcm(events) => events.next(),
            Self::Rosbag(records) => records.next(),
            Self::Sqlite(rows) => rows.next(),
        }
    }
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
        let Some(head) = exactly(&mut self.source, LCM_HEAD as u64)? else {
            self.is_over = true;
            return if at == self.bytes { Ok(None) } else { Err(LogDefect::Cut { at }) };
        };
        let word = |from: usize| {
            head[from..from + 4].iter().fold(0_u32, |all, byte| all << 8 | u32::from(*byte))
        };
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
            self.is_over = true;
            return Err(LogDefect::TooLong { at, bytes: data.into(), most: self.most_memory });
        }
        let name = exactly(&mut self.source, name.into())?.ok_or(LogDefect::Cut { at })?;
        let payload = exactly(&mut self.source, data.into())?.ok_or(LogDefect::Cut { at })?;
        self.at = at + LCM_HEAD as u64 + name.len() as u64 + payload.len() as u64;
        let channel = self.channel(&String::from_utf8_lossy(&name))?;
        // Events are numbered across all channels: a gap in those of one is no loss.
        let log_time = long(12).saturating_mul(1000);
        Ok(Some(LogMessage { channel, sequence: 0, log_time, data: payload }))
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
                return Ok(LogDefect::Strange { at, end: self.at, what: "event of LCM" });
            }
            begin += (here - LCM.len() + 1) as u64;
        }
        self.is_over = true;
        Ok(LogDefect::Strange { at, end: self.bytes, what: "event of LCM" })
    }

    fn channel(&mut self, name: &str) -> Result<Arc<LogRecordChannel>, LogDefect> {
        if let Some(known) = self.channels.get(name) {
            return Ok(Arc::clone(known));
        }
        let channel = new_channel(self.channels.len(), name, "lcm", None)?;
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

fn new_channel(
    id: usize,
    topic: &str,
    encoding: &str,
    schema: Option<LogSchema>,
) -> Result<Arc<LogRecordChannel>, LogDefect> {
    let id = u16::try_from(id).ok().filter(|id| usize::from(*id) < MOST_CHANNELS);
    Ok(Arc::new(LogRecordChannel {
        id: id.ok_or(LogDefect::Channels)?,
        topic: topic.to_owned(),
        encoding: encoding.to_owned(),
        schema: schema.map(Arc::new),
        texts: BTreeMap::new(),
    }))
}

/// Records of a bag of ROS 1, version 2.0 (wiki.ros.org/Bags/Format/2.0).
pub(super) struct RosbagRecords {
    source: BufReader<File>,
    at: u64,
    bytes: u64,
    most_memory: u64,
    channels: HashMap<u32, Arc<LogRecordChannel>>,
    waiting: VecDeque<LogMessage>,
    is_over: bool,
}

/// Header and content of a record.
type RosbagRecord = (HashMap<String, Vec<u8>>, Vec<u8>);

impl RosbagRecords {
    fn new(file: File, bytes: u64, most_memory: u64) -> Result<Self, LogDefect> {
        let mut source = BufReader::new(file);
        let at = ROSBAG.len() as u64;
        source.seek(SeekFrom::Start(at))?;
        let (channels, waiting) = (HashMap::new(), VecDeque::new());
        Ok(Self { source, at, bytes, most_memory, channels, waiting, is_over: false })
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
                return Ok(None);
            }
            let header = self.part(at)?;
            let content = self.part(at)?;
            let header = rosbag_header(&header).ok_or(LogDefect::Record { at })?;
            match header.get("op").and_then(|op| op.first()) {
                Some(5) => {
                    let records = self.unpacked(at, &header, content)?;
                    let mut rest = Fields(&records);
                    while !rest.0.is_empty() {
                        let (header, content) =
                            rosbag_record(&mut rest).ok_or(LogDefect::Record { at })?;
                        self.take(at, &header, content)?;
                    }
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
        let whole = match name {
            b"none" => return Ok(content),
            b"lz4" => exactly(&mut lz4::Decoder::new(&content[..])?, bytes)?,
            b"bz2" => exactly(&mut bzip2::read::BzDecoder::new(&content[..]), bytes)?,
            other => {
                let name = String::from_utf8_lossy(other);
                let name = name.chars().take(32).filter(|it| !it.is_control()).collect();
                return Err(LogDefect::Compression { at, name });
            }
        };
        whole.ok_or(LogDefect::Record { at })
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
                let channel = new_channel(
                    self.channels.len(),
                    &text(header.get("topic")),
                    "ros1",
                    Some(schema),
                )?;
                self.channels.insert(id, channel);
            }
            Some(2) => {
                let id = number("conn").ok_or(LogDefect::Record { at })?;
                let time = header.get("time").map_or(&[][..], Vec::as_slice);
                let mut time = Fields(time);
                let (seconds, ns) = time.word().zip(time.word()).ok_or(LogDefect::Record { at })?;
                let unknown = LogDefect::Unknown { what: "connection", id: id as u16, at };
                let channel = Arc::clone(self.channels.get(&id).ok_or(unknown)?);
                let log_time = u64::from(seconds) * 1_000_000_000 + u64::from(ns);
                self.waiting.push_back(LogMessage {
                    channel,
                    sequence: 0,
                    log_time,
                    data: content,
                });
            }
            _ => {}
        }
        Ok(())
    }
}

impl Iterator for RosbagRecords {
    type Item = Result<LogMessage, LogDefect>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = self.read().transpose();
        self.is_over = !matches!(next, Some(Ok(_)));
        next
    }
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

/// Rows of the database of a bag of ROS 2, as they were written.
pub(super) struct SqliteRows {
    database: rusqlite::Connection,
    /// Keeps the path in /proc that the database is opened by.
    _file: File,
    channels: HashMap<i64, Arc<LogRecordChannel>>,
    waiting: VecDeque<LogMessage>,
    last: i64,
    is_over: bool,
}

#[allow(clippy::needless_pass_by_value)] // What `map_err` hands over.
fn sqlite_says(why: rusqlite::Error) -> LogDefect {
    LogDefect::Database(why.to_string().replace('\n', " "))
}

impl SqliteRows {
    fn open(file: File, path: &Path) -> Result<Self, LogDefect> {
        let mut journal = path.as_os_str().to_owned();
        journal.push("-wal");
        if std::fs::metadata(&journal).is_ok_and(|it| it.len() > 0) {
            let why = "its newest records are in the file beside it that ends in -wal; `sqlite3 FILE 'pragma wal_checkpoint(truncate)'` puts them in";
            return Err(LogDefect::Database(why.to_owned()));
        }
        let flags =
            rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY | rusqlite::OpenFlags::SQLITE_OPEN_URI;
        // By the descriptor: the file that was checked, whatever the path means by now.
        let name = format!("file:/proc/self/fd/{}?immutable=1", file.as_raw_fd());
        let database = rusqlite::Connection::open_with_flags(name, flags).map_err(sqlite_says)?;
        let channels = channels_of(&database).map_err(sqlite_says)?;
        let channels = channels?;
        Ok(Self {
            database,
            _file: file,
            channels,
            waiting: VecDeque::new(),
            last: i64::MIN,
            is_over: false,
        })
    }

    fn fill(&mut self) -> Result<(), LogDefect> {
        let mut query = self
            .database
            .prepare_cached(
                "select id, topic_id, timestamp, data from messages where id > ?1 order by id limit ?2",
            )
            .map_err(sqlite_says)?;
        let mut rows = query.query((self.last, ROWS)).map_err(sqlite_says)?;
        while let Some(row) = rows.next().map_err(sqlite_says)? {
            let (id, topic, at): (i64, i64, i64) = (
                row.get(0).map_err(sqlite_says)?,
                row.get(1).map_err(sqlite_says)?,
                row.get(2).map_err(sqlite_says)?,
            );
            let data: Vec<u8> = row.get(3).map_err(sqlite_says)?;
            self.last = id;
            let unknown = LogDefect::Unknown { what: "topic", id: topic as u16, at: 0 };
            let channel = Arc::clone(self.channels.get(&topic).ok_or(unknown)?);
            let log_time = u64::try_from(at).unwrap_or(0);
            self.waiting.push_back(LogMessage { channel, sequence: 0, log_time, data });
        }
        Ok(())
    }
}

impl Iterator for SqliteRows {
    type Item = Result<LogMessage, LogDefect>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.waiting.is_empty() && !self.is_over {
            if let Err(why) = self.fill() {
                self.is_over = true;
                return Some(Err(why));
            }
            self.is_over = self.waiting.is_empty();
        }
        self.waiting.pop_front().map(Ok)
    }
}

type Channels = HashMap<i64, Arc<LogRecordChannel>>;

fn channels_of(database: &rusqlite::Connection) -> rusqlite::Result<Result<Channels, LogDefect>> {
    let table =
        "select count(*) from sqlite_master where type = 'table' and name = 'message_definitions'";
    let has_definitions = database.query_row(table, [], |row| row.get::<_, i64>(0))? > 0;
    let mut definitions: HashMap<String, (String, String)> = HashMap::new();
    if has_definitions {
        let mut query = database.prepare(
            "select topic_type, encoding, encoded_message_definition from message_definitions",
        )?;
        let rows = query.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?;
        definitions = rows.collect::<rusqlite::Result<_>>()?;
    }

    let mut query = database.prepare("select id, name, type, serialization_format from topics")?;
    let rows = query.query_map([], |row| {
        Ok((
            row.get::<_, i64>(0)?,
            row.get::<_, String>(1)?,
            row.get::<_, String>(2)?,
            row.get::<_, String>(3)?,
        ))
    })?;
    let mut channels = HashMap::new();
    for row in rows {
        let (id, topic, name, encoding) = row?;
        let (schema_encoding, text) = definitions.get(&name).cloned().unwrap_or_default();
        let schema = LogSchema { name, encoding: schema_encoding, definition: text.into_bytes() };
        match new_channel(channels.len(), &topic, &encoding, Some(schema)) {
            Ok(channel) => channels.insert(id, channel),
            Err(why) => return Ok(Err(why)),
        };
    }
    Ok(Ok(channels))
}
