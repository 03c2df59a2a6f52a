//! Records of one writer for any number of readers, in memory supplied by the caller: the writer
//! waits for no reader, and a reader that falls behind learns exactly how many records it lost.
//!
//! A record is a time and up to a fixed number of bytes. The last records stay in the memory; each
//! reader has a [`Cursor`] of its own, of which the writer knows nothing. [`Broadcast::publish`] is
//! a fixed number of stores. [`Broadcast::next`] returns the record after the last one, complete or
//! not at all: numbers are consecutive, so `received + lost` is the number of records passed.
//!
//! The protocol of the slots is that of [`latest`](crate::latest), with as many slots as records
//! are kept. Record n (from 1) is in slot n modulo the number of slots. One slot belongs to the
//! writer, so a reader may have as many unread records as there are slots, less one.
//!
//! Absent on purpose: concurrent writers (the owner of the memory excludes them), waking readers (a
//! system call), waiting for readers, knowledge of what the bytes mean.
//!
//! ```
//! use core::sync::atomic::AtomicU64;
//! use onbeat_rt::broadcast::{Broadcast, Cursor, Next};
//!
//! let written = AtomicU64::new(0);
//! let words: [AtomicU64; 4 * 4] = core::array::from_fn(|_| AtomicU64::new(0));
//! let ring = Broadcast::over(&written, &words, 4).unwrap();
//! let mut reader = Cursor::at_oldest(&ring);
//! ring.publish(1_000, b"position");
//!
//! let mut bytes = [0; 8];
//! let next = ring.next(&mut reader, &mut bytes);
//! assert_eq!(next, Next::Record { number: 1, at_ns: 1_000, length: 8 });
//! assert_eq!(&bytes, b"position");
//! assert_eq!(ring.next(&mut reader, &mut bytes), Next::Nothing);
//! ```

#[cfg(loom)]
use loom::sync::atomic::AtomicU64;

#[cfg(not(loom))]
use core::sync::atomic::AtomicU64;

use crate::latest::{BadSlots, Latest};

/// Bytes of a slot before the payload, without its sequence: time in ns, length in bytes.
pub const HEAD_BYTES: usize = 16;

/// Largest number of a record: a writer of a billion records a second reaches it after a century.
const MOST_RECORDS: u64 = 1 << 62;

/// The records, as writer and readers share them.
#[derive(Clone, Copy, Debug)]
pub struct Broadcast<'m> {
    records: Latest<'m>,
    slots: u64,
    payload_bytes: usize,
}

/// The position of one reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    next: u64,
    lost: u64,
}

/// What a reader finds at its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The next record. Its bytes were copied; more than the reader's memory holds were cut.
    Record {
        /// Number of the record, from 1.
        number: u64,
        /// Its time, as the writer gave it, in ns.
        at_ns: u64,
        /// Its length in bytes.
        length: usize,
    },
    /// The reader has read all records.
    Nothing,
    /// The writer has overwritten this number of records before they were read. The cursor is at a
    /// later record now.
    Overtaken {
        /// Number of records lost, at least 1.
        lost: u64,
    },
}

impl<'m> Broadcast<'m> {
    /// Creates a view of shared memory. `written` holds the number of the newest record, 0 for
    /// none; `words` are divided into `slots` slots, a power of two from 2 on.
    ///
    /// # Errors
    /// [`BadSlots`].
    pub fn over(
        written: &'m AtomicU64,
        words: &'m [AtomicU64],
        slots: usize,
    ) -> Result<Self, BadSlots> {
        let bad = BadSlots { words: words.len(), slots };
        let head_words = 1 + HEAD_BYTES / 8;
        let slot_words = words.len().checked_div(slots).unwrap_or(0);
        if !slots.is_power_of_two() || slot_words < head_words {
            return Err(bad);
        }

        let records = Latest::over(written, words, slots)?;
        let payload_bytes = (slot_words - head_words) * 8;
        Ok(Self { records, slots: slots as u64, payload_bytes })
    }

    /// Returns the number of words of a slot for records of at most this many bytes. Slots are
    /// whole cache lines, so that the writer of one does not slow down the reader of another.
    ///
    /// ```
    /// use onbeat_rt::broadcast::Broadcast;
    ///
    /// // Sequence, time and length, and five words of payload in the first cache line.
    /// assert_eq!((Broadcast::slot_words(40), Broadcast::slot_words(41)), (8, 16));
    /// ```
    #[must_use]
    pub fn slot_words(payload_bytes: usize) -> usize {
        Latest::slot_words(&[HEAD_BYTES, payload_bytes]).next_multiple_of(8)
    }

    /// Returns the maximum length of a record, in bytes.
    #[must_use]
    pub const fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// Returns the number of the newest record; 0 before the first one, and for a number that no
    /// writer reaches: another process may have stored any.
    #[inline]
    #[must_use]
    pub fn newest(&self) -> u64 {
        let newest = self.records.newest();
        if newest > MOST_RECORDS { 0 } else { newest }
    }

    /// Returns the number of the oldest record that the writer will not overwrite with its next
    /// one; 1 until then.
    #[must_use]
    pub fn oldest(&self) -> u64 {
        self.newest().saturating_sub(self.slots - 2).max(1)
    }

    /// Publishes a record, and returns its number. A payload that does not fit into a slot is cut.
    #[inline]
    pub fn publish(&self, at_ns: u64, payload: &[u8]) -> u64 {
        let payload = &payload[..payload.len().min(self.payload_bytes)];
        let mut head = [0; HEAD_BYTES];
        head[..8].copy_from_slice(&at_ns.to_ne_bytes());
        head[8..].copy_from_slice(&(payload.len() as u64).to_ne_bytes());
        self.records.publish(&[&head, payload])
    }

    /// Fetches the cache lines of the next slot from the CPUs of readers; see [`Latest::prepare`].
    #[inline]
    pub fn prepare(&self) {
        self.records.prepare();
    }

    /// Copies the record at `cursor` into `bytes`, and moves the cursor.
    ///
    /// An overtaken reader continues at an eighth of the ring after the oldest record, so that the
    /// writer does not overtake it again at once.
    pub fn next(&self, cursor: &mut Cursor, bytes: &mut [u8]) -> Next {
        let newest = self.newest();
        if newest < cursor.next {
            return Next::Nothing;
        }

        if newest - cursor.next < self.slots - 1
            && let Some((at_ns, length)) = self.read(cursor.next, bytes)
        {
            let number = cursor.next;
            cursor.next = number.saturating_add(1);
            return Next::Record { number, at_ns, length };
        }

        // A record was overwritten, so it is not the newest: there is a next one. Another process
        // may have stored any number; none overflows.
        let from =
            (self.oldest().saturating_add(self.slots / 8)).max(cursor.next.saturating_add(1));
        let lost = from - cursor.next;
        *cursor = Cursor { next: from, lost: cursor.lost.saturating_add(lost) };
        Next::Overtaken { lost }
    }

    /// Copies a record; `None` when it is not available. Returns its time and its length.
    fn read(&self, number: u64, bytes: &mut [u8]) -> Option<(u64, usize)> {
        let mut at_ns = [0; 8];
        let mut length = [0; 8];
        // The length first, so that short records of a long slot are short copies.
        if !self.records.read(number, &mut [&mut at_ns, &mut length]) {
            return None;
        }

        let length = usize::try_from(u64::from_ne_bytes(length)).ok()?.min(self.payload_bytes);
        let mut head = [0; HEAD_BYTES];
        let wanted = length.min(bytes.len());
        let whole = self.records.read(number, &mut [&mut head, &mut bytes[..wanted]]);
        whole.then(|| (u64::from_ne_bytes(at_ns), length))
    }
}

impl Cursor {
    /// Returns the position of a reader that reads all records that are still available.
    #[must_use]
    pub fn at_oldest(ring: &Broadcast<'_>) -> Self {
        Self { next: ring.oldest(), lost: 0 }
    }

    /// Returns the position of a reader that reads only records published from now on.
    #[must_use]
    pub fn at_newest(ring: &Broadcast<'_>) -> Self {
        Self { next: ring.newest().saturating_add(1), lost: 0 }
    }

    /// Returns the number of the record that is read next.
    #[must_use]
    pub const fn next_number(&self) -> u64 {
        self.next
    }

    /// Returns the number of records lost so far.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    struct Memory {
        written: AtomicU64,
        words: Vec<AtomicU64>,
        slots: usize,
    }

    impl Memory {
        fn new(slots: usize, payload_bytes: usize) -> Self {
            let words = 0..slots * Broadcast::slot_words(payload_bytes);
            Self {
                written: AtomicU64::new(0),
                words: words.map(|_| AtomicU64::new(0)).collect(),
                slots,
            }
        }

        #[allow(clippy::unwrap_used)] // The test chose the sizes.
        fn ring(&self) -> Broadcast<'_> {
            Broadcast::over(&self.written, &self.words, self.slots).unwrap()
        }
    }

    /// A payload that reveals tearing and a wrong length: its length follows from its number.
    fn payload(number: u64, most: usize) -> Vec<u8> {
        std::vec![number as u8; number as usize % most + 1]
    }

    /// Reads until there is nothing left; returns the numbers received.
    fn drain(ring: &Broadcast<'_>, cursor: &mut Cursor) -> Vec<u64> {
        let mut received = Vec::new();
        let mut bytes = std::vec![0; ring.payload_bytes()];
        loop {
            match ring.next(cursor, &mut bytes) {
                Next::Nothing => return received,
                Next::Overtaken { lost } => assert!(lost > 0),
                Next::Record { number, at_ns, length } => {
                    assert_eq!(at_ns, number * 10);
                    assert_eq!(bytes[..length], payload(number, ring.payload_bytes()));
                    received.push(number);
                }
            }
        }
    }

    #[test]
    fn a_reader_may_have_as_many_unread_records_as_there_are_slots_less_one() {
        let memory = Memory::new(16, 40);
        let ring = memory.ring();
        let mut reader = Cursor::at_oldest(&ring);
        (1..=15).for_each(|number| _ = ring.publish(number * 10, &payload(number, 40)));
        assert_eq!(drain(&ring, &mut reader), (1..=15).collect::<Vec<_>>());
        assert_eq!(reader.lost(), 0);
    }

    #[test]
    fn an_overtaken_reader_learns_its_loss_and_continues_an_eighth_after_the_oldest() {
        let memory = Memory::new(16, 40);
        let ring = memory.ring();
        let mut reader = Cursor::at_oldest(&ring);
        (1..=100).for_each(|number| _ = ring.publish(number * 10, &payload(number, 40)));

        assert_eq!(ring.oldest(), 86);
        assert_eq!(ring.next(&mut reader, &mut [0; 40]), Next::Overtaken { lost: 87 });
        assert_eq!(drain(&ring, &mut reader), (88..=100).collect::<Vec<_>>());
        assert_eq!(reader.lost(), 87);
    }

    #[test]
    fn a_reader_that_starts_at_the_newest_gets_only_later_records() {
        let memory = Memory::new(4, 8);
        let ring = memory.ring();
        ring.publish(10, &payload(1, 40));
        let mut reader = Cursor::at_newest(&ring);
        assert_eq!(ring.next(&mut reader, &mut [0; 40]), Next::Nothing);
        ring.publish(20, &payload(2, 40));
        assert_eq!(drain(&ring, &mut reader), [2]);
    }

    #[test]
    fn a_payload_beyond_the_slot_is_cut_and_never_reaches_the_next_slot() {
        let memory = Memory::new(2, 8);
        let ring = memory.ring();
        let room = ring.payload_bytes();
        ring.publish(1, &[1; 1000]);
        ring.publish(2, &[2; 1000]);
        let mut bytes = [0; 1000];
        let mut reader = Cursor::at_newest(&ring);
        reader.next = 2;
        assert_eq!(
            ring.next(&mut reader, &mut bytes),
            Next::Record { number: 2, at_ns: 2, length: room }
        );
        assert!(bytes[..room].iter().all(|byte| *byte == 2) && bytes[room] == 0);
    }

    #[test]
    fn slots_that_are_not_a_power_of_two_or_too_small_are_rejected() {
        let written = AtomicU64::new(0);
        let words: Vec<AtomicU64> = (0..24).map(|_| AtomicU64::new(0)).collect();
        for slots in [0, 1, 3, 6, 16] {
            assert!(Broadcast::over(&written, &words, slots).is_err(), "{slots}");
        }
        assert!(Broadcast::over(&written, &words, 8).is_ok(), "records without payload");
    }

    #[test]
    fn a_foreign_number_of_records_ends_no_reader() {
        let memory = Memory::new(4, 8);
        let ring = memory.ring();
        let mut reader = Cursor::at_oldest(&ring);
        for foreign in [MOST_RECORDS, MOST_RECORDS + 1, u64::MAX / 2, 1 << 63, u64::MAX] {
            memory.written.store(foreign, core::sync::atomic::Ordering::Relaxed);
            assert!(drain(&ring, &mut reader).is_empty(), "{foreign}");
            assert!(drain(&ring, &mut Cursor::at_oldest(&ring)).is_empty(), "{foreign}");
            assert_eq!(ring.next(&mut Cursor::at_newest(&ring), &mut [0; 8]), Next::Nothing);
        }
    }

    proptest! {
        /// Any pace of writer and readers: received and lost add up, in order.
        #[test]
        fn received_and_lost_add_up_at_any_pace(
            slots in 1_u32..6,
            bursts in proptest::collection::vec((0_u64..80, any::<bool>()), 1..40),
        ) {
            let memory = Memory::new(1 << slots, 40);
            let ring = memory.ring();
            let mut reader = Cursor::at_oldest(&ring);
            let mut written = 0;
            let mut received = Vec::new();
            for (records, reads) in bursts {
                for _ in 0..records {
                    written += 1;
                    ring.publish(written * 10, &payload(written, ring.payload_bytes()));
                }
                if reads {
                    received.extend(drain(&ring, &mut reader));
                }
            }

            received.extend(drain(&ring, &mut reader));
            prop_assert!(received.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert_eq!(received.len() as u64 + reader.lost(), written);
        }
    }

    #[test]
    fn readers_in_other_threads_receive_whole_records_and_count_the_rest() {
        // Miri takes a thousand times as long.
        const RECORDS: u64 = if cfg!(miri) { 300 } else { 200_000 };
        let memory = Memory::new(64, 120);
        let ring = memory.ring();
        std::thread::scope(|threads| {
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    let mut reader = Cursor::at_oldest(&ring);
                    threads.spawn(move || {
                        let mut received = 0;
                        while reader.next_number() <= RECORDS {
                            received += drain(&ring, &mut reader).len() as u64;
                            std::thread::yield_now();
                        }
                        received + reader.lost()
                    })
                })
                .collect();
            for number in 1..=RECORDS {
                ring.publish(number * 10, &payload(number, ring.payload_bytes()));
            }
            for reader in readers {
                assert_eq!(reader.join().unwrap(), RECORDS);
            }
        });
    }
}
