//! Parser of raw ring buffer pages, as read from `per_cpu/cpuN/trace_pipe_raw`.
//!
//! A page is a time stamp, a byte count with flags, and records aligned to 4 bytes, each with a
//! header of 5 bits of type and 27 bits of time since the previous record
//! (`include/linux/ring_buffer.h`). Every index is checked: parsing terminates for any bytes, with
//! an error at worst.

use super::format::{FormatField, PageLayout};

/// Record types above the lengths: `events/header_event`.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Number of time bits in a record's header.
const TIME_BITS: u32 = 27;
/// Number of bits in an absolute time stamp; the higher bits come from the current time.
const STAMP_BITS: u32 = 59;

/// Flags in the byte count.
const MISSED_EVENTS: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;

/// The bytes are not a valid page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingPageError {
    /// The page is shorter than its header.
    #[error(
        "a ring buffer page of {found} bytes is shorter than its header of {needed}; the read was cut short"
    )]
    Short {
        /// Available bytes.
        found: usize,
        /// Size of the header.
        needed: usize,
    },
    /// The byte count exceeds the page.
    #[error(
        "a ring buffer page claims {said} bytes but has room for {room}; its events are skipped"
    )]
    TooLong {
        /// Byte count in the header.
        said: usize,
        /// Capacity in bytes.
        room: usize,
    },
    /// A record exceeds the page.
    #[error(
        "a record at byte {at} of a ring buffer page is {length} bytes long, but only {left} are left; the rest of the page is skipped"
    )]
    Record {
        /// Offset from the first record.
        at: usize,
        /// Length in its header.
        length: usize,
        /// Bytes left in the page.
        left: usize,
    },
}

/// Events that were lost before a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissedEvents {
    /// Their number, if the kernel stored it.
    pub count: Option<u64>,
}

/// A ring buffer page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPage<'b> {
    /// Time of the first record, in nanoseconds on the trace clock.
    pub timestamp_ns: u64,
    /// Events lost between the previous page and this one, if any.
    pub missed: Option<MissedEvents>,
    records: &'b [u8],
}

/// A record of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'b> {
    /// Time, in nanoseconds on the trace clock.
    pub at_ns: u64,
    /// Bytes of the event, possibly with padding.
    pub bytes: &'b [u8],
}

impl<'b> RingPage<'b> {
    /// Parses a page's header.
    ///
    /// # Errors
    /// [`RingPageError::Short`], [`RingPageError::TooLong`].
    pub fn parse(bytes: &'b [u8], layout: &PageLayout) -> Result<Self, RingPageError> {
        let short = RingPageError::Short { found: bytes.len(), needed: layout.data_offset };
        let records = bytes.get(layout.data_offset..).ok_or(short)?;
        let room = records.len().min(layout.data_size);
        let timestamp_ns = number(bytes, layout.timestamp).ok_or(short)?;
        let commit = number(bytes, layout.commit).ok_or(short)?;
        let said = (commit & (MISSED_STORED - 1)) as usize;
        let stored = FormatField { offset: said, ..layout.commit };
        let records = records.get(..room).unwrap_or(records);
        let missed = (commit & MISSED_EVENTS != 0).then(|| MissedEvents {
            count: if commit & MISSED_STORED == 0 { None } else { number(records, stored) },
        });
        let written = records.get(..said).ok_or(RingPageError::TooLong { said, room })?;

        Ok(Self { timestamp_ns, missed, records: written })
    }

    /// Returns the records, in order. An error ends the sequence.
    #[must_use]
    pub const fn records(&self) -> Records<'b> {
        Records { bytes: self.records, at: 0, now_ns: self.timestamp_ns }
    }
}

/// An iterator over the records of a page.
#[derive(Clone, Debug)]
pub struct Records<'b> {
    bytes: &'b [u8],
    at: usize,
    now_ns: u64,
}

impl<'b> Records<'b> {
    /// Advances by one record. Returns `None` at the end of the page, and `Some(Ok(None))` for a
    /// record without an event.
    fn step(&mut self) -> Option<Result<Option<Record<'b>>, RingPageError>> {
        let header = self.word(self.at)?;
        let (kind, delta) = split(header);
        let second = self.word(self.at + 4);
        let (skip, length) = match kind {
            PADDING if delta == 0 => return None,
            PADDING | 0 => match second {
                Some(length) => (4, length as usize),
                None => return Some(Err(self.too_long(8))),
            },
            TIME_EXTEND | TIME_STAMP => (4, 4),
            words => (4, words as usize * 4),
        };

        // Records are aligned to 4 bytes; a length of 0 still takes one word, so that parsing
        // always advances.
        let next =
            self.at.saturating_add(skip).saturating_add(length.max(4).saturating_add(3) & !3);
        if next > self.bytes.len() {
            return Some(Err(self.too_long(next - self.at)));
        }

        let begins = self.at + if kind == 0 { 8 } else { 4 };
        self.at = next;
        let long = (u64::from(second.unwrap_or(0)) << TIME_BITS) + u64::from(delta);
        match kind {
            TIME_EXTEND => self.now_ns = self.now_ns.wrapping_add(long),
            TIME_STAMP => self.now_ns = with_high_bits(long, self.now_ns),
            // A discarded event keeps its place and its time; a time of 1 means "none"
            // (ring_buffer.c, `rb_event_discard`).
            PADDING if delta == 1 => {}
            _ => self.now_ns = self.now_ns.wrapping_add(u64::from(delta)),
        }

        let is_event = kind < PADDING;
        Some(Ok(is_event.then(|| Record {
            at_ns: self.now_ns,
            bytes: self.bytes.get(begins..next).unwrap_or(&[]),
        })))
    }

    fn word(&self, at: usize) -> Option<u32> {
        let bytes = self.bytes.get(at..at.checked_add(4)?)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    }

    const fn too_long(&self, length: usize) -> RingPageError {
        RingPageError::Record { at: self.at, length, left: self.bytes.len() - self.at }
    }
}

impl<'b> Iterator for Records<'b> {
    type Item = Result<Record<'b>, RingPageError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.step()? {
                Ok(Some(record)) => return Some(Ok(record)),
                Ok(None) => {}
                Err(error) => {
                    self.bytes = &[];
                    self.at = 0;
                    return Some(Err(error));
                }
            }
        }
    }
}

/// Bit fields start at the low end on little-endian machines and at the high end on others.
const fn split(header: u32) -> (u32, u32) {
    if cfg!(target_endian = "little") {
        (header & 31, header >> 5)
    } else {
        (header >> TIME_BITS, header & ((1 << TIME_BITS) - 1))
    }
}

/// Adds the high bits to an absolute time stamp, as `rb_fix_abs_ts` in ring_buffer.c does.
const fn with_high_bits(stamp: u64, so_far: u64) -> u64 {
    let low = stamp & ((1 << STAMP_BITS) - 1);
    let full = low | (so_far >> STAMP_BITS << STAMP_BITS);
    if full < so_far && so_far >> STAMP_BITS != 0 {
        full.wrapping_add(1 << STAMP_BITS)
    } else {
        full
    }
}

/// Reads a number of 1, 2, 4 or 8 bytes; signed numbers are sign-extended.
pub(super) fn number(bytes: &[u8], field: FormatField) -> Option<u64> {
    let bytes = bytes.get(field.offset..field.offset.checked_add(field.size)?)?;
    let extend = |value: u64| {
        let unused = 64 - 8 * field.size as u32;
        if field.signed { ((value << unused) as i64 >> unused) as u64 } else { value }
    };

    let value = match field.size {
        1 => u64::from(*bytes.first()?),
        2 => u64::from(u16::from_ne_bytes(bytes.try_into().ok()?)),
        4 => u64::from(u32::from_ne_bytes(bytes.try_into().ok()?)),
        8 => u64::from_ne_bytes(bytes.try_into().ok()?),
        _ => return None,
    };

    Some(extend(value))
}

#[cfg(test)]
mod tests {
    use super::super::format::FieldStorage;
    use super::*;

    const fn field(offset: usize) -> FormatField {
        FormatField { offset, size: 8, signed: false, holds: FieldStorage::InPlace }
    }
    const LAYOUT: PageLayout =
        PageLayout { timestamp: field(0), commit: field(8), data_offset: 16, data_size: 4080 };

    const fn header(kind: u32, delta: u32) -> u32 {
        if cfg!(target_endian = "little") { kind | delta << 5 } else { kind << TIME_BITS | delta }
    }

    fn page(timestamp: u64, flags: u64, words: &[u32]) -> Vec<u8> {
        let mut bytes = timestamp.to_ne_bytes().to_vec();
        bytes.extend(((words.len() as u64 * 4) | flags).to_ne_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    fn records(bytes: &[u8]) -> Vec<(u64, usize)> {
        let page = RingPage::parse(bytes, &LAYOUT).unwrap();
        page.records()
            .map(|record| record.map(|record| (record.at_ns, record.bytes.len())).unwrap())
            .collect()
    }

    #[test]
    fn times_are_relative_to_the_page() {
        let words = [header(1, 0), 7, header(2, 10), 8, 9, header(0, 5), 12, 1, 2];
        assert_eq!(records(&page(1000, 0, &words)), [(1000, 4), (1010, 8), (1015, 8)]);
    }

    #[test]
    fn extended_and_absolute_times_are_applied() {
        let words =
            [header(TIME_EXTEND, 3), 2, header(1, 4), 7, header(TIME_STAMP, 1), 4, header(1, 2), 7];
        let extended = 1000 + (2 << TIME_BITS) + 3 + 4;
        assert_eq!(records(&page(1000, 0, &words)), [(extended, 4), ((4 << TIME_BITS) + 1 + 2, 4)]);
    }

    #[test]
    fn an_absolute_time_keeps_the_bits_above_its_59() {
        let base = 0xf8 << 56 | 5;
        let words = [header(TIME_STAMP, 9), 0, header(1, 1), 7];
        assert_eq!(records(&page(base, 0, &words)), [(0xf8 << 56 | 10, 4)]);
    }

    #[test]
    fn discarded_events_keep_their_time_but_are_not_returned() {
        let words = [
            header(PADDING, 6),
            8,
            0,
            header(1, 1),
            7,
            header(PADDING, 1),
            4,
            header(1, 1),
            7,
            header(PADDING, 0),
        ];
        assert_eq!(records(&page(0, 0, &words)), [(7, 4), (8, 4)]);
    }

    #[test]
    fn lost_events_have_their_number_if_it_is_stored() {
        let mut bytes = page(0, MISSED_EVENTS | MISSED_STORED, &[header(1, 0), 7]);
        bytes.extend(42_u64.to_ne_bytes());
        assert_eq!(
            RingPage::parse(&bytes, &LAYOUT).unwrap().missed,
            Some(MissedEvents { count: Some(42) })
        );
        let bytes = page(0, MISSED_EVENTS, &[header(1, 0), 7]);
        assert_eq!(
            RingPage::parse(&bytes, &LAYOUT).unwrap().missed,
            Some(MissedEvents { count: None })
        );
    }

    #[test]
    fn bytes_that_are_not_a_page_are_an_error_with_its_numbers() {
        assert_eq!(
            RingPage::parse(&[0; 15], &LAYOUT),
            Err(RingPageError::Short { found: 15, needed: 16 })
        );
        let long = page(0, 4096, &[]);
        assert_eq!(
            RingPage::parse(&long, &LAYOUT),
            Err(RingPageError::TooLong { said: 4096, room: 0 })
        );
        let cut = page(0, 0, &[header(2, 0), 1]);
        let mut records = RingPage::parse(&cut, &LAYOUT).unwrap().records();

        assert_eq!(records.next(), Some(Err(RingPageError::Record { at: 0, length: 12, left: 8 })));
        assert_eq!(records.next(), None);
    }

    proptest::proptest! {
        #[test]
        fn parsing_ends_for_any_bytes(words in proptest::collection::vec(proptest::prelude::any::<u32>(), 0..1030), said in 0_u64..4200) {
            let mut bytes = page(1 << 40, 0, &words);
            bytes[8..16].copy_from_slice(&said.to_ne_bytes());
            if let Ok(page) = RingPage::parse(&bytes, &LAYOUT) {
                let seen = page.records().count();
                proptest::prop_assert!(seen <= bytes.len() / 4);
            }
        }
    }
}
