//! The shared memory object of a ring: its name, its header, its life. `docs/ring.md` specifies it.
//!
//! A ring belongs to one writer, which holds a lock (`flock`) on it as long as it lives. A new
//! writer of the same channel creates a new object, so a reader never sees records of two writers.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use onbeat_rt::broadcast::Broadcast;
use rustix::fs::{FlockOperation, flock};

use super::map::Map;
use super::place::{is_at, remove_leftover_images};
use super::process::Process;
use super::ring_error::RingError;

const DIRECTORY: &str = "/dev/shm";
/// The images of buses begin with `onbeat-`.
const PREFIX: &str = "onbeat:";
const LONGEST_NAME: usize = 64;
/// The writer writes; its group reads.
const MODE: u32 = 0o640;
/// Maximum number of attempts, as another process may take or remove the object between two steps.
const MOST_TRIES: u32 = 20;
/// The bytes "ONBEATRG".
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"ONBEATRG");
/// Version of the layout; changes with every change of it.
pub(super) const VERSION: u64 = 1;
/// Bytes of the header, with the number of records in a cache line of its own.
pub(super) const HEADER_BYTES: usize = 384;
/// Maximum length of a schema and of a description, in bytes.
const MOST_TEXT: u64 = 16 << 20;

/// Words of the header.
pub(super) mod word {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const VERSION: usize = 1;
    pub(crate) const TOTAL_BYTES: usize = 2;
    pub(crate) const GENERATION: usize = 3;
    pub(crate) const WRITER: usize = 4;
    pub(crate) const STATE: usize = 5;
    pub(crate) const SLOTS: usize = 6;
    pub(crate) const SLOT_BYTES: usize = 7;
    pub(crate) const SLOTS_AT: usize = 8;
    pub(crate) const SCHEMA_BYTES: usize = 9;
    pub(crate) const DESCRIPTION_AT: usize = 10;
    pub(crate) const DESCRIPTION_BYTES: usize = 11;
    pub(crate) const CREATED_NS: usize = 12;
    pub(crate) const UTC_OFFSET_NS: usize = 13;
    /// Four words.
    pub(crate) const TYPE_HASH: usize = 16;
    /// Twenty words.
    pub(crate) const TYPE_NAME: usize = 20;
    pub(crate) const WRITTEN: usize = 40;
}

/// Maximum length of the name of a type, in bytes.
pub(super) const MOST_TYPE_NAME: usize = (word::WRITTEN - word::TYPE_NAME) * 8;

/// State of the writer, as it reports it; a killed one reports nothing.
pub(super) mod state {
    pub(crate) const RUNNING: u64 = 1;
    pub(crate) const ENDED: u64 = 2;
    pub(crate) const REPLACED: u64 = 3;
}

/// A channel: the records that one writer publishes on one topic.
///
/// ```
/// use onbeat_control::Channel;
///
/// let channel: Channel = "walker/cycle".parse()?;
/// assert_eq!((channel.name(), channel.topic()), ("walker", "cycle"));
/// assert!("walker".parse::<Channel>().is_err());
/// # Ok::<(), onbeat_control::RingError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Channel {
    name: String,
    topic: String,
}

impl Channel {
    /// Creates a channel: `name` is that of a robot or bus, `topic` what it publishes.
    ///
    /// # Errors
    /// [`RingError::BadName`].
    pub fn new(name: &str, topic: &str) -> Result<Self, RingError> {
        let fits = |part: &str| {
            let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
            (1..=LONGEST_NAME).contains(&part.len()) && part.chars().all(is_letter)
        };
        if !fits(name) || !fits(topic) {
            let given = format!("{name}/{topic}");
            return Err(RingError::BadName { given, most: LONGEST_NAME });
        }

        Ok(Self { name: name.to_owned(), topic: topic.to_owned() })
    }

    /// Returns the name of the robot or bus.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the topic.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.topic
    }

    pub(super) fn path(&self) -> PathBuf {
        Path::new(DIRECTORY).join(format!("{PREFIX}{}:{}", self.name, self.topic))
    }
}

impl std::fmt::Display for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.name, self.topic)
    }
}

impl std::str::FromStr for Channel {
    type Err = RingError;

    fn from_str(text: &str) -> Result<Self, RingError> {
        let (name, topic) = text
            .split_once('/')
            .ok_or_else(|| RingError::BadName { given: text.to_owned(), most: LONGEST_NAME })?;
        Self::new(name, topic)
    }
}

/// The type of a channel's records, as its ring carries it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordType {
    /// Name, such as `onbeat_msgs/msg/Cycle`; at most 160 bytes.
    pub name: String,
    /// Hash of the definition (RIHS01 of ROS 2); zeros if there is none.
    pub hash: [u8; 32],
    /// Text of the definition, with those of the types it uses; the format of a log's schema.
    pub schema: String,
}

/// Returns all channels, including those of killed writers, in order.
#[must_use]
pub fn channels() -> Vec<Channel> {
    let entries = fs::read_dir(DIRECTORY).into_iter().flatten().flatten();
    let mut found: Vec<Channel> = entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let (name, topic) = name.to_str()?.strip_prefix(PREFIX)?.split_once(':')?;
            Channel::new(name, topic).ok()
        })
        .collect();
    found.sort();
    found
}

/// Removes the images of killed bus processes, and the rings of killed writers; returns their names
/// and channels. Those of living processes are not changed.
#[must_use]
pub fn remove_leftovers() -> Vec<String> {
    let rings = remove_leftover_rings().into_iter().map(|channel| channel.to_string());
    remove_leftover_images().into_iter().chain(rings).collect()
}

fn remove_leftover_rings() -> Vec<Channel> {
    let is_ring = |channel: &Channel| {
        let file = open(&channel.path()).ok();
        file.and_then(|file| header(&file).ok()).is_some_and(|map| {
            word_at(&map, word::MAGIC).is_some_and(|magic| magic.load(Ordering::Acquire) == MAGIC)
        })
    };
    let all = channels().into_iter();
    let removed = |channel: &Channel| {
        retire(&channel.path(), state::RUNNING).is_ok_and(|generation| generation.is_some())
    };
    all.filter(|channel| is_ring(channel) && removed(channel)).collect()
}

pub(super) fn at<'p>(what: &'static str, path: &'p Path) -> impl Fn(io::Error) -> RingError + 'p {
    move |source| RingError::System { what, path: path.to_owned(), source }
}

/// Creates the object of a channel and locks it; returns its generation too.
pub(super) fn create(channel: &Channel) -> Result<(File, u64), RingError> {
    let path = channel.path();
    let mut generation = 1;
    for _ in 0..MOST_TRIES {
        match OpenOptions::new().read(true).write(true).create_new(true).mode(MODE).open(&path) {
            Ok(file) => {
                // Another process may have taken the object for abandoned before it was locked.
                if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
                    && is_at(&file, &path)
                {
                    return Ok((file, generation));
                }
            }
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                match retire(&path, state::REPLACED).map_err(at("take over", &path))? {
                    Some(last) => generation = generation.max(last + 1),
                    None => return Err(taken(channel)),
                }
            }
            Err(why) => return Err(at("create", &path)(why)),
        }
    }

    Err(taken(channel))
}

fn taken(channel: &Channel) -> RingError {
    let map = open(&channel.path()).and_then(|file| header(&file)).ok();
    let writer = map
        .and_then(|map| Process::from_word(word_at(&map, word::WRITER)?.load(Ordering::Relaxed)));
    let (pid, process) = writer.map_or((0, String::new()), |it| (it.pid(), it.name()));
    RingError::Taken { channel: channel.to_string(), pid, process }
}

/// Removes the ring of a dead writer, leaves a state for its readers, and returns its generation; 0
/// if it is gone, `None` if its writer is alive.
fn retire(path: &Path, left: u64) -> io::Result<Option<u64>> {
    let no_link = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let file = match OpenOptions::new().read(true).write(true).custom_flags(no_link).open(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Some(0)),
        opened => opened?,
    };
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(None);
    }

    // An object shorter than a header is a ring that was never completed.
    let mut generation = 0;
    if file.metadata()?.len() >= HEADER_BYTES as u64 {
        let map = Map::new(&file, HEADER_BYTES)?;
        let load = |word| word_at(&map, word).map_or(0, |word| word.load(Ordering::Acquire));
        if ![0, MAGIC].contains(&load(word::MAGIC)) {
            let why = "it is not a ring of onbeat; remove it, or use another name";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        generation = load(word::GENERATION);
        if let Some(state) = word_at(&map, word::STATE) {
            // A writer that has ended in order since the file was opened has informed its readers.
            let _ =
                state.compare_exchange(state::RUNNING, left, Ordering::Release, Ordering::Relaxed);
        }
    }

    if is_at(&file, path) {
        fs::remove_file(path)?;
    }
    Ok(Some(generation))
}

pub(super) fn open(path: &Path) -> io::Result<File> {
    let no_link = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(no_link).open(path)
}

pub(super) fn header(file: &File) -> io::Result<Map> {
    if file.metadata()?.len() < HEADER_BYTES as u64 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Map::read_only(file, HEADER_BYTES)
}

pub(super) fn word_at(map: &Map, word: usize) -> Option<&AtomicU64> {
    map.one(word * 8)
}

/// Offsets of a ring, in bytes, from the header of its writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RingOffsets {
    pub(super) slots: usize,
    pub(super) slot_bytes: usize,
    pub(super) slots_at: usize,
    pub(super) schema_bytes: usize,
    pub(super) description_at: usize,
    pub(super) description_bytes: usize,
    pub(super) total: usize,
}

impl RingOffsets {
    /// Computes the offsets of a new ring; `None` beyond the range of addresses.
    pub(super) fn new(
        (slots, payload_bytes): (usize, usize),
        schema_bytes: usize,
        description_bytes: usize,
    ) -> Option<Self> {
        let slot_bytes = Broadcast::slot_words(payload_bytes) * 8;
        let description_at = HEADER_BYTES + schema_bytes.next_multiple_of(64);
        let slots_at = description_at + description_bytes.next_multiple_of(64);
        let total = slots.checked_mul(slot_bytes)?.checked_add(slots_at)?;
        let offsets = Self {
            slots,
            slot_bytes,
            slots_at,
            schema_bytes,
            description_at,
            description_bytes,
            total,
        };
        Some(offsets)
    }

    /// Reads the offsets from a header and checks them; `None` when they contradict each other.
    pub(super) fn from_header(map: &Map) -> Option<Self> {
        let load = |word| Some(word_at(map, word)?.load(Ordering::Relaxed));
        let text = |word| load(word).filter(|bytes| *bytes <= MOST_TEXT).map(|it| it as usize);
        let slots = load(word::SLOTS)?;
        let slot_bytes = load(word::SLOT_BYTES)?;
        let offsets = Self {
            slots: usize::try_from(slots).ok()?,
            slot_bytes: usize::try_from(slot_bytes).ok()?,
            slots_at: usize::try_from(load(word::SLOTS_AT)?).ok()?,
            schema_bytes: text(word::SCHEMA_BYTES)?,
            description_at: usize::try_from(load(word::DESCRIPTION_AT)?).ok()?,
            description_bytes: text(word::DESCRIPTION_BYTES)?,
            total: usize::try_from(load(word::TOTAL_BYTES)?).ok()?,
        };

        // Sequence, time and length come before the payload.
        let payload_bytes = offsets.slot_bytes.checked_sub(24)?;
        let own = Self::new(
            (offsets.slots, payload_bytes),
            offsets.schema_bytes,
            offsets.description_bytes,
        );
        (own == Some(offsets)).then_some(offsets)
    }

    /// Returns the ring's records.
    pub(super) fn records<'m>(&self, map: &'m Map) -> Option<Broadcast<'m>> {
        let words = map.all(self.slots_at, self.slots.checked_mul(self.slot_bytes)? / 8);
        Broadcast::over(word_at(map, word::WRITTEN)?, words, self.slots).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_the_directory_are_rejected() {
        for wrong in ["", "/", "a/", "/b", "a/../b", "a b/c", "a:b/c", "ä/c"] {
            assert!(wrong.parse::<Channel>().is_err(), "{wrong}");
        }
        let longest = "x".repeat(LONGEST_NAME);
        assert!(Channel::new(&longest, &longest).is_ok());
        assert!(Channel::new(&format!("{longest}x"), "cycle").is_err());
    }

    #[test]
    fn all_parts_of_a_ring_begin_with_a_cache_line() {
        let offsets = RingOffsets::new((8, 100), 1, 65).unwrap();
        assert_eq!((offsets.description_at, offsets.slots_at), (448, 576));
        assert_eq!((offsets.slot_bytes, offsets.total), (128, 576 + 8 * 128));
        assert!(RingOffsets::new((usize::MAX / 64, 100), 1, 1).is_none());
    }
}
