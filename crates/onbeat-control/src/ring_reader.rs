//! The reading end of a ring.

use onbeat_rt::broadcast::{Cursor, Next};

use super::map::{Map, padded_text};
use super::process::Process;
use super::ring_error::RingError;
use super::ring_file::{OpenedRing, at, open, open_when_made};
use super::ring_head::{check_version, check_writer};
use super::ring_map::{RingMap, RingWatch};
use super::ring_object::{Channel, HEADER_BYTES, MOST_TYPE_NAME, RecordType, RingOffsets, word};

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
    ring: RingMap,
    watch: RingWatch,
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
        let unfinished = || RingError::Unfinished { channel: channel.to_string() };
        let ring = open_when_made(|| open(channel))?.ok_or_else(unfinished)?;
        Self::over(channel, &ring, from)
    }

    fn over(channel: &Channel, opened: &OpenedRing, from: Start) -> Result<Self, RingError> {
        check_version(channel, &opened.header)?;
        let offsets = opened.offsets()?;
        let watch = RingWatch::over(channel, &opened.file, offsets.total);
        let watch = watch.map_err(at("keep open", &opened.path))?;
        // All of it has memory, so mapping it allocates none.
        let map = Map::read_only(&opened.file, offsets.total).map_err(at("map", &opened.path))?;
        let ring = RingMap::new(map);

        let no_room = || opened.spoilt("its slots have no room for a record");
        let records = offsets.records(&ring.map).ok_or_else(no_room)?;
        let cursor = match from {
            Start::Oldest => Cursor::at_oldest(&records),
            Start::Newest => Cursor::at_newest(&records),
        };
        let bytes = vec![0; records.payload_bytes()];
        Ok(Self { ring, watch, offsets, cursor, received: 0, bytes })
    }

    /// Returns the next record; makes no system call. A truncated ring has no more records, see
    /// [`RingReader::check_alive`].
    #[allow(clippy::should_implement_trait)] // A record borrows the reader's memory.
    pub fn next(&mut self) -> Reading<'_> {
        let Self { ring, offsets, cursor, received, bytes, .. } = self;
        let Some(records) = offsets.records(&ring.map) else { return Reading::Nothing };
        let before = *cursor;
        let next = records.next(cursor, bytes);
        // The copy may have met the end of a truncated file, and is of zeros then.
        if ring.is_damaged() {
            *cursor = before;
            return Reading::Nothing;
        }

        match next {
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
        self.newest().saturating_add(1).saturating_sub(self.cursor.next_number())
    }

    /// Returns the number of records published so far.
    #[must_use]
    pub fn newest(&self) -> u64 {
        let newest = self.offsets.records(&self.ring.map).map_or(0, |ring| ring.newest());
        // Zeros, or the number in a page that was not replaced.
        if self.ring.is_damaged() { 0 } else { newest }
    }

    /// Returns the channel.
    #[must_use]
    pub const fn channel(&self) -> &Channel {
        self.watch.channel()
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
        hash.copy_from_slice(&self.ring.bytes(word::TYPE_HASH * 8, 32));
        let name = padded_text(&self.ring.bytes(word::TYPE_NAME * 8, MOST_TYPE_NAME));
        let schema = self.ring.text(HEADER_BYTES, self.offsets.schema_bytes);
        RecordType { name, hash, schema }
    }

    /// Returns the writer's text about this channel.
    #[must_use]
    pub fn description(&self) -> String {
        self.ring.text(self.offsets.description_at, self.offsets.description_bytes)
    }

    /// Returns process id and name of the writer; the name is empty if it is gone.
    #[must_use]
    pub fn writer(&self) -> (u32, String) {
        Process::described(self.process())
    }

    /// Returns the number of successive rings of this channel whose writers were killed, plus 1.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.ring.load(word::GENERATION)
    }

    /// Returns what must be added to a time of the ring for nanoseconds since 1970 (UTC), as of the
    /// ring's creation.
    #[must_use]
    pub fn utc_offset_ns(&self) -> u64 {
        self.ring.load(word::UTC_OFFSET_NS)
    }

    /// Checks that the file is complete and the writer alive; looks at the file, and reads `/proc`.
    /// Records published before the writer's end can be read afterwards.
    ///
    /// # Errors
    /// [`RingError::Truncated`]; [`RingError::Ended`], [`RingError::Replaced`],
    /// [`RingError::WriterDied`].
    pub fn check_alive(&self) -> Result<(), RingError> {
        self.watch.check_with(self.ring.is_damaged())?;
        check_writer(self.channel(), || self.ring.load(word::STATE), self.process())
    }

    fn process(&self) -> Option<Process> {
        Process::from_word(self.ring.load(word::WRITER))
    }
}
