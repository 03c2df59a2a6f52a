//! The memory of a ring: its channel, its header, its parts. `include/onbeat_ring.h` specifies it.
//!
//! A ring belongs to one writer, which holds a lock (`flock`) on its file as long as it lives. A
//! new writer of the same channel creates a new file, so a reader never sees records of two
//! writers.

use onbeat_rt::broadcast::Broadcast;

use super::map::Map;
use super::place::{LONGEST_NAME, is_word};
use super::ring_error::RingError;
use super::ring_file::{HeaderWords, MOST_BYTES, all};

pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"ONBEATRG");
/// Version of the layout; changes with every change of it.
pub(super) const VERSION: u64 = 1;
/// Bytes of the header, with the number of records in a cache line of its own.
pub(super) const HEADER_BYTES: usize = 384;
/// Maximum length of a schema and of a description, in bytes.
pub(super) const MOST_TEXT: usize = 16 << 20;

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
        if !is_word(name) || !is_word(topic) {
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

    /// Returns the name of its file in a directory of shared objects.
    pub(super) fn file_name(&self) -> String {
        format!("{}:{}", self.name, self.topic)
    }

    pub(super) fn from_file_name(name: &str) -> Option<Self> {
        let (name, topic) = name.split_once(':')?;
        Self::new(name, topic).ok()
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

/// Returns all channels that this user may read, including those of killed writers, in order. Empty
/// if the directory of shared objects is refused; [`FoundChannels::look`](super::FoundChannels::look) returns the reason.
#[must_use]
pub fn channels() -> Vec<Channel> {
    let all = all().unwrap_or_default().into_iter();
    all.filter(|(_, ring)| ring.is_ok()).map(|(channel, _)| channel).collect()
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
    /// Computes the offsets of a new ring; `None` beyond the maximum size of a ring.
    pub(super) fn new(
        (slots, payload_bytes): (usize, usize),
        schema_bytes: usize,
        description_bytes: usize,
    ) -> Option<Self> {
        if payload_bytes as u64 > MOST_BYTES {
            return None;
        }
        let slot_bytes = Broadcast::slot_words(payload_bytes) * 8;
        let description_at = HEADER_BYTES + schema_bytes.next_multiple_of(64);
        let slots_at = description_at + description_bytes.next_multiple_of(64);
        let total = slots.checked_mul(slot_bytes)?.checked_add(slots_at)?;
        if total as u64 > MOST_BYTES {
            return None;
        }

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
    pub(super) fn from_header(header: &HeaderWords) -> Option<Self> {
        let load = |word| {
            let number = Some(header.load(word)).filter(|number| *number <= MOST_BYTES)?;
            usize::try_from(number).ok()
        };
        let text = |word| load(word).filter(|bytes| *bytes <= MOST_TEXT);
        let offsets = Self {
            slots: load(word::SLOTS)?,
            slot_bytes: load(word::SLOT_BYTES)?,
            slots_at: load(word::SLOTS_AT)?,
            schema_bytes: text(word::SCHEMA_BYTES)?,
            description_at: load(word::DESCRIPTION_AT)?,
            description_bytes: text(word::DESCRIPTION_BYTES)?,
            total: load(word::TOTAL_BYTES)?,
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
        Broadcast::over(map.one(word::WRITTEN * 8)?, words, self.slots).ok()
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
