//! The reading end of a ring.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

use onbeat_rt::broadcast::{Cursor, Next};

use super::map::Map;
use super::process::Process;
use super::ring_error::RingError;
use super::ring_object::{
    Channel, HEADER_BYTES, MAGIC, MOST_TYPE_NAME, RecordType, RingOffsets, VERSION, at, header,
    open, state, word, word_at,
};

/// Maximum number of polls for a ring being created, and their interval.
const MAKING: (u32, Duration) = (100, Duration::from_millis(5));

/// Which record a reader receives first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The oldest record kept.
    Oldest,
    /// The first one published from now on.
    Newest,
}

/// What a reader finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading<'r> {
    /// The next record.
    Record {
        /// Number of the record, from 1.
        number: u64,
        /// Its time, by `CLOCK_MONOTONIC`, in ns.
        at_ns: u64,
        /// Its bytes.
        bytes: &'r [u8],
    },
    /// All records published so far have been read.
    Nothing,
    /// This number of records was overwritten before they were read.
    Lost(u64),
}

/// The reading end of a ring. The writer does not know of it.
#[derive(Debug)]
pub struct RingReader {
    channel: Channel,
    map: Map,
    offsets: RingOffsets,
    cursor: Cursor,
    received: u64,
    bytes: Vec<u8>,
}

impl RingReader {
    /// Opens a channel. A ring whose writer has died or ended can be read, until another one
    /// replaces it.
    ///
    /// # Errors
    /// [`RingError`].
    pub fn open(channel: &Channel, from: Start) -> Result<Self, RingError> {
        let path = channel.path();
        for _ in 0..MAKING.0 {
            let file = match open(&path) {
                Err(why) if why.kind() == io::ErrorKind::NotFound => {
                    return Err(RingError::NoChannel { channel: channel.to_string() });
                }
                opened => opened.map_err(at("open", &path))?,
            };
            let head = header(&file).ok();
            let magic = head.as_ref().and_then(|map| word_at(map, word::MAGIC));

            match (magic.map_or(0, |magic| magic.load(Ordering::Acquire)), &head) {
                (MAGIC, Some(head)) => {
                    check_version(channel, head)?;
                    let spoilt = |why| RingError::NotARing { path: path.clone(), why };
                    let offsets = RingOffsets::from_header(head)
                        .ok_or_else(|| spoilt("the sizes in its header contradict each other"))?;
                    let length = file.metadata().map_err(at("look at", &path))?.len();
                    if length < offsets.total as u64 {
                        return Err(spoilt("it is shorter than its header states"));
                    }
                    let map = Map::read_only(&file, offsets.total).map_err(at("map", &path))?;
                    return Self::over(channel, map, offsets, from)
                        .ok_or_else(|| spoilt("its slots have no room for a record"));
                }
                (0, _) => sleep(MAKING.1),
                _ => {
                    let why = "it begins with other bytes";
                    return Err(RingError::NotARing { path, why });
                }
            }
        }

        Err(RingError::NotARing { path, why: "its header is not complete" })
    }

    fn over(channel: &Channel, map: Map, offsets: RingOffsets, from: Start) -> Option<Self> {
        let ring = offsets.records(&map)?;
        let cursor = match from {
            Start::Oldest => Cursor::at_oldest(&ring),
            Start::Newest => Cursor::at_newest(&ring),
        };
        let bytes = vec![0; ring.payload_bytes()];
        Some(Self { channel: channel.clone(), map, offsets, cursor, received: 0, bytes })
    }

    /// Returns the next record; makes no system call.
    #[allow(clippy::should_implement_trait)] // A record borrows the reader's memory.
    pub fn next(&mut self) -> Reading<'_> {
        let Self { map, offsets, cursor, received, bytes, .. } = self;
        let Some(ring) = offsets.records(map) else { return Reading::Nothing };
        match ring.next(cursor, bytes) {
            Next::Record { number, at_ns, length } => {
                *received += 1;
                Reading::Record { number, at_ns, bytes: &bytes[..length] }
            }
            Next::Nothing => Reading::Nothing,
            Next::Overtaken { lost } => Reading::Lost(lost),
        }
    }

    /// Returns the number of records received.
    #[must_use]
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// Returns the number of records lost.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.cursor.lost()
    }

    /// Returns the number of records published and not yet read.
    #[must_use]
    pub fn pending(&self) -> u64 {
        let newest = self.offsets.records(&self.map).map_or(0, |ring| ring.newest());
        newest.saturating_add(1).saturating_sub(self.cursor.next_number())
    }

    /// Returns the number of records published so far.
    #[must_use]
    pub fn newest(&self) -> u64 {
        self.offsets.records(&self.map).map_or(0, |ring| ring.newest())
    }

    /// Returns the channel.
    #[must_use]
    pub const fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Returns the number of records that the ring keeps.
    #[must_use]
    pub const fn records(&self) -> usize {
        self.offsets.slots
    }

    /// Returns the type of the records. Text that is not valid UTF-8 is replaced.
    #[must_use]
    pub fn record_type(&self) -> RecordType {
        let mut hash = [0; 32];
        hash.copy_from_slice(&self.text(word::TYPE_HASH * 8, 32));
        let name = self.text(word::TYPE_NAME * 8, MOST_TYPE_NAME);
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        let schema = self.text(HEADER_BYTES, self.offsets.schema_bytes);
        RecordType {
            name: String::from_utf8_lossy(&name[..end]).into_owned(),
            hash,
            schema: String::from_utf8_lossy(&schema).into_owned(),
        }
    }

    /// Returns the writer's text about this channel.
    #[must_use]
    pub fn description(&self) -> String {
        let bytes = self.text(self.offsets.description_at, self.offsets.description_bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns process id and name of the writer; the name is empty if it is gone.
    #[must_use]
    pub fn writer(&self) -> (u32, String) {
        self.process().map_or((0, String::new()), |writer| (writer.pid(), writer.name()))
    }

    /// Returns the number of successive rings of this channel whose writers were killed, plus 1.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.load(word::GENERATION)
    }

    /// Returns what must be added to a time of the ring for nanoseconds since 1970 (UTC), as of the
    /// ring's creation.
    #[must_use]
    pub fn utc_offset_ns(&self) -> u64 {
        self.load(word::UTC_OFFSET_NS)
    }

    /// Checks that the writer is alive; reads `/proc`. Records published before its end can be read
    /// afterwards.
    ///
    /// # Errors
    /// [`RingError::Ended`], [`RingError::Replaced`], [`RingError::WriterDied`].
    pub fn check_alive(&self) -> Result<(), RingError> {
        let channel = || self.channel.to_string();
        let reported = || match self.load(word::STATE) {
            state::RUNNING => Ok(()),
            state::ENDED => Err(RingError::Ended { channel: channel() }),
            _ => Err(RingError::Replaced { channel: channel() }),
        };

        reported()?;
        match self.process() {
            Some(writer) if writer.is_alive() => Ok(()),
            // It may have ended in order in between.
            writer => reported().and(Err(RingError::WriterDied {
                channel: channel(),
                pid: writer.map_or(0, Process::pid),
            })),
        }
    }

    fn process(&self) -> Option<Process> {
        Process::from_word(self.load(word::WRITER))
    }

    fn load(&self, place: usize) -> u64 {
        word_at(&self.map, place).map_or(0, |word| word.load(Ordering::Acquire))
    }

    fn text(&self, at: usize, length: usize) -> Vec<u8> {
        let words: &[AtomicU64] = self.map.all(at, length.div_ceil(8));
        let mut bytes: Vec<u8> =
            words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect();
        bytes.resize(length, 0);
        bytes
    }
}

fn check_version(channel: &Channel, head: &Map) -> Result<(), RingError> {
    let theirs = word_at(head, word::VERSION).map_or(0, |word| word.load(Ordering::Relaxed));
    if theirs == VERSION {
        return Ok(());
    }
    Err(RingError::OtherVersion { channel: channel.to_string(), theirs, ours: VERSION })
}
