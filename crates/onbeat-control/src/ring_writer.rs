//! The writing end of a ring.

use std::io;
use std::sync::atomic::Ordering;

use onbeat_rt::broadcast::Broadcast;
use rustix::fs::{FallocateFlags, fallocate};

use super::map::Map;
use super::process::Process;
use super::ring_error::RingError;
use super::ring_file::{OwnRing, at};
use super::ring_map::{RingMap, RingWatch, check_file, now_and_utc_offset};
use super::ring_object::{
    Channel, HEADER_BYTES, MAGIC, MOST_TEXT, MOST_TYPE_NAME, RecordType, RingOffsets, VERSION,
    state, word,
};

/// Maximum number of records kept.
const MOST_RECORDS: usize = 1 << 24;

/// What a ring is created for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingSettings {
    /// Number of records kept, a power of two. A reader may have as many
    /// unread, less one.
    pub records: usize,
    /// Maximum length of a record, in bytes.
    pub record_bytes: usize,
    /// The type of the records.
    pub record_type: RecordType,
    /// Text for readers about this channel, JSON; for a cycle of a bus its joints and devices.
    pub description: String,
}

impl RingSettings {
    /// Returns the number of records of this length that a ring can keep, a power of two; less than
    /// 2 if none can.
    ///
    /// ```
    /// use onbeat_control::RingSettings;
    ///
    /// assert_eq!(RingSettings::most_records(2_500), 1 << 19);
    /// assert_eq!(RingSettings::most_records(usize::MAX), 0);
    /// ```
    #[must_use]
    pub fn most_records(record_bytes: usize) -> usize {
        let fits = |records: &usize| {
            RingOffsets::new((*records, record_bytes), MOST_TEXT, MOST_TEXT).is_some()
        };
        (1..=MOST_RECORDS.ilog2()).rev().map(|bits| 1 << bits).find(fits).unwrap_or(0)
    }
}

/// The writing end of a ring, for one thread. Dropping it reports the end to readers and frees the
/// channel.
///
/// ```
/// use onbeat_control::{Channel, Reading, RecordType, RingReader, RingSettings, RingWriter, Start};
///
/// let channel = Channel::new(&format!("example-{}", std::process::id()), "numbers")?;
/// let record_type = RecordType { name: "example/Number".to_owned(), ..RecordType::default() };
/// let settings = RingSettings { records: 8, record_bytes: 8, record_type, ..RingSettings::default() };
/// let mut writer = RingWriter::create(&channel, &settings)?;
/// let mut reader = RingReader::open(&channel, Start::Oldest)?;
///
/// writer.publish(1_000, b"position");
/// let Reading::Record { number, at_ns, bytes } = reader.next() else { panic!("one record") };
/// assert_eq!((number, at_ns, bytes), (1, 1_000, b"position".as_slice()));
/// # Ok::<(), onbeat_control::RingError>(())
/// ```
#[derive(Debug)]
pub struct RingWriter {
    channel: Channel,
    ring: RingMap,
    offsets: RingOffsets,
    /// Locked as long as this lives.
    own: OwnRing,
    /// A process that it forks has a copy of this, which must not end the ring.
    creator: u32,
}

impl RingWriter {
    /// Creates the ring of a channel. The ring of a dead writer is replaced; its readers must open
    /// the channel again.
    ///
    /// # Errors
    /// [`RingError`]: [`Taken`](RingError::Taken) if a living process writes the channel.
    pub fn create(channel: &Channel, settings: &RingSettings) -> Result<Self, RingError> {
        let RingSettings { records, record_bytes, record_type, description } = settings;
        let bad =
            || RingError::BadSize { records: *records, bytes: *record_bytes, most: MOST_RECORDS };
        if !records.is_power_of_two() || !(2..=MOST_RECORDS).contains(records) {
            return Err(bad());
        }
        let texts = (record_type.schema.len(), description.len());
        let offsets =
            RingOffsets::new((*records, *record_bytes), texts.0, texts.1).ok_or_else(bad)?;

        let (own, generation) = OwnRing::create(channel)?;
        let ring = memory(&own, offsets).inspect_err(|_| own.remove())?;
        let writer =
            Self { channel: channel.clone(), ring, offsets, own, creator: std::process::id() };
        writer.fill(settings, generation);
        Ok(writer)
    }

    fn fill(&self, settings: &RingSettings, generation: u64) {
        let (ring, offsets) = (&self.ring, &self.offsets);
        let RecordType { name, hash, schema } = &settings.record_type;
        let most_name = name.len().min(MOST_TYPE_NAME);
        ring.put(word::TYPE_HASH * 8, hash);
        ring.put(word::TYPE_NAME * 8, &name.as_bytes()[..most_name]);
        ring.put(HEADER_BYTES, schema.as_bytes());
        ring.put(offsets.description_at, settings.description.as_bytes());

        let [created_ns, utc_offset_ns] = now_and_utc_offset();
        let words = [
            (word::VERSION, VERSION),
            (word::TOTAL_BYTES, offsets.total as u64),
            (word::GENERATION, generation),
            (word::WRITER, Process::this().word()),
            (word::STATE, state::RUNNING),
            (word::SLOTS, offsets.slots as u64),
            (word::SLOT_BYTES, offsets.slot_bytes as u64),
            (word::SLOTS_AT, offsets.slots_at as u64),
            (word::SCHEMA_BYTES, offsets.schema_bytes as u64),
            (word::DESCRIPTION_AT, offsets.description_at as u64),
            (word::DESCRIPTION_BYTES, offsets.description_bytes as u64),
            (word::CREATED_NS, created_ns),
            (word::UTC_OFFSET_NS, utc_offset_ns),
        ];
        for (place, value) in words {
            ring.store(place, value, Ordering::Relaxed);
        }

        // A process that sees the magic number sees all of the above.
        ring.store(word::MAGIC, MAGIC, Ordering::Release);
    }

    /// Publishes a record and returns its number, from 1. `at_ns` is a time of `CLOCK_MONOTONIC`.
    ///
    /// A fixed number of stores: no allocation, no system call, no waiting. A payload beyond
    /// [`RingSettings::record_bytes`] is cut.
    #[inline]
    pub fn publish(&mut self, at_ns: u64, payload: &[u8]) -> u64 {
        self.records().map_or(0, |ring| ring.publish(at_ns, payload))
    }

    /// Sets what readers add to the times of this ring for nanoseconds since 1970 (UTC), where they are not times of
    /// this boot, as those of a log. To be called before the first publication.
    pub fn set_utc_offset_ns(&mut self, utc_offset_ns: u64) {
        self.ring.store(word::UTC_OFFSET_NS, utc_offset_ns, Ordering::Release);
    }

    /// Prepares the next publication outside the time-critical part of a cycle; see
    /// [`Broadcast::prepare`].
    #[inline]
    pub fn prepare(&self) {
        if let Some(ring) = self.records() {
            ring.prepare();
        }
    }

    /// Checks that the ring's file is complete; looks at the file. A writer whose file was
    /// truncated publishes into memory of its own, which nobody reads.
    ///
    /// # Errors
    /// [`RingError::Truncated`].
    pub fn check(&self) -> Result<(), RingError> {
        check_file(&self.channel, &self.own.file, self.offsets.total as u64, self.ring.is_damaged())
    }

    /// Returns a watch over the ring's file for another thread.
    ///
    /// # Errors
    /// The system's.
    pub fn watch(&self) -> io::Result<RingWatch> {
        RingWatch::over(&self.channel, &self.own.file, self.offsets.total)
    }

    #[inline]
    fn records(&self) -> Option<Broadcast<'_>> {
        self.offsets.records(&self.ring.map)
    }
}

impl Drop for RingWriter {
    fn drop(&mut self) {
        if self.creator != std::process::id() {
            return;
        }

        self.ring.store(word::STATE, state::ENDED, Ordering::Release);
        self.own.remove();
    }
}

fn memory(own: &OwnRing, offsets: RingOffsets) -> Result<RingMap, RingError> {
    let path = own.path();
    // Allocated completely: access to a sparse file without free memory ends the process with
    // SIGBUS.
    fallocate(&own.file, FallocateFlags::empty(), 0, offsets.total as u64)
        .map_err(|why| at("find memory for", &path)(why.into()))?;
    let map = Map::new(&own.file, offsets.total).map_err(at("map", &path))?;
    Ok(RingMap::new(map))
}
