//! The latest value of one publisher for any number of readers, in memory supplied by the caller:
//! neither side ever waits.
//!
//! A value is written to the slot after the one that readers use, so [`Latest::publish`] is a fixed
//! number of stores, independent of readers, and a publisher that is stopped or dies half-way
//! damages nothing that can be read. [`Latest::read`] is one copy; it fails only when the publisher
//! has reused the slot in the meantime, and the reader then reads the newest value again. All words
//! are atomic: the memory may be shared by processes that do not trust each other's timing.
//!
//! The words of a slot: its sequence, then the value. Publication n (from 1) is in slot n modulo
//! the number of slots, with sequence 2n, and 2n − 1 while it is being written: a sequence lock per
//! slot (Lameter, 2005; Boehm, "Can seqlocks get along with programming language memory models?",
//! 2012). `tests/it/interleavings/latest.rs` explores its interleavings, with broken twins that must fail.
//!
//! Absent on purpose: concurrent publishers (the owner of the memory excludes them) and waking
//! readers (a system call).
//!
//! ```
//! use core::sync::atomic::AtomicU64;
//! use onbeat_rt::latest::Latest;
//!
//! let newest = AtomicU64::new(0);
//! let words: [AtomicU64; 8] = core::array::from_fn(|_| AtomicU64::new(0));
//! let latest = Latest::over(&newest, &words, 4).unwrap();
//! latest.publish(&[b"position"]);
//!
//! let mut value = [0; 8];
//! assert!(latest.read(latest.newest(), &mut [&mut value]));
//! assert_eq!(&value, b"position");
//! ```

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU64, Ordering, fence};

/// Words of a cache line.
const LINE_WORDS: usize = 8;

/// The words cannot be divided into this number of slots, or a slot would have no room for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSlots {
    /// Number of words.
    pub words: usize,
    /// Requested number of slots.
    pub slots: usize,
}

/// The latest published value, as publisher and readers share it.
#[derive(Clone, Copy, Debug)]
pub struct Latest<'m> {
    newest: &'m AtomicU64,
    words: &'m [AtomicU64],
    slots: u64,
    slot_words: usize,
}

impl<'m> Latest<'m> {
    /// Creates a view of shared memory. `newest` holds the number of the newest publication, 0 for
    /// none; `words` are divided into `slots` slots, at least two.
    ///
    /// # Errors
    /// [`BadSlots`].
    pub fn over(
        newest: &'m AtomicU64,
        words: &'m [AtomicU64],
        slots: usize,
    ) -> Result<Self, BadSlots> {
        if slots < 2 || words.len() < 2 * slots || !words.len().is_multiple_of(slots) {
            return Err(BadSlots { words: words.len(), slots });
        }
        Ok(Self { newest, words, slots: slots as u64, slot_words: words.len() / slots })
    }

    /// Returns the number of words of a slot for a value with parts of these lengths in bytes; each
    /// part begins at a word.
    ///
    /// ```
    /// use onbeat_rt::latest::Latest;
    ///
    /// // A sequence number, three words for 20 bytes, one for 8.
    /// assert_eq!(Latest::slot_words(&[20, 8]), 5);
    /// ```
    #[must_use]
    pub fn slot_words(parts: &[usize]) -> usize {
        parts.iter().fold(1, |words, part| words + part.div_ceil(8))
    }

    /// Returns the number of the newest publication; 0 before the first one.
    #[inline]
    #[must_use]
    pub fn newest(&self) -> u64 {
        self.newest.load(Ordering::Acquire)
    }

    /// Publishes a value given as consecutive parts, and returns its number. Readers get it whole
    /// or not at all. Parts that do not fit into the slot are cut.
    #[inline]
    pub fn publish(&self, parts: &[&[u8]]) -> u64 {
        let number = self.newest.load(Ordering::Relaxed).wrapping_add(1);
        self.put(number, parts);
        self.newest.store(number, Ordering::Release);
        number
    }

    /// Prefetches the slot of the next publication: fetches its cache lines from the CPUs of the
    /// readers that used them last. The publisher calls this when it has time. One word of each
    /// line is rewritten with its own value, so readers see no change; the stores do not stall.
    #[inline]
    pub fn prepare(&self) {
        let slot = self.slot(self.newest.load(Ordering::Relaxed).wrapping_add(1));
        // Only `put` writes the sequence, since it defines the memory order.
        let words = slot.get(1..).unwrap_or_default();
        for word in words.iter().step_by(LINE_WORDS).chain(words.last()) {
            word.store(word.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Copies publication `number` into `parts`. Returns `false` when it is not available, not yet
    /// or no longer; the contents of `parts` are then undefined.
    ///
    /// ```
    /// use core::sync::atomic::AtomicU64;
    /// use onbeat_rt::latest::Latest;
    ///
    /// let newest = AtomicU64::new(0);
    /// let words: [AtomicU64; 4] = core::array::from_fn(|_| AtomicU64::new(0));
    /// let latest = Latest::over(&newest, &words, 2).unwrap();
    /// for value in [7_u64, 8, 9] {
    ///     latest.publish(&[&value.to_le_bytes()]);
    /// }
    ///
    /// let mut value = [0; 8];
    /// assert!(latest.read(3, &mut [&mut value]));
    /// assert_eq!(u64::from_le_bytes(value), 9);
    /// assert!(!latest.read(1, &mut [&mut value]), "two slots: the first is overwritten");
    /// ```
    #[inline]
    pub fn read(&self, number: u64, parts: &mut [&mut [u8]]) -> bool {
        let Some((sequence, words)) = self.slot(number).split_first() else { return false };
        // `number` may come from another process that writes any value. Twice 2^63 would be 0, the
        // sequence of a slot that was never written.
        let Some(written) = number.checked_mul(2) else { return false };
        if sequence.load(Ordering::Acquire) != written {
            return false;
        }

        let mut left = words;
        for part in parts {
            let (of_part, others) = left.split_at(part.len().div_ceil(8).min(left.len()));
            left = others;
            // Whole words first: a copy whose length the compiler knows is one instruction, any
            // other copy a call.
            let (whole, rest) = part.as_chunks_mut::<8>();
            for (bytes, word) in whole.iter_mut().zip(of_part) {
                *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
            }

            if let (false, Some(word)) = (rest.is_empty(), of_part.get(whole.len())) {
                rest.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes()[..rest.len()]);
            }
        }

        // A reader that saw a word of a later publication sees its sequence too: this fence pairs
        // with the one in `put`.
        fence(Ordering::Acquire);
        sequence.load(Ordering::Relaxed) == written
    }

    fn put(&self, number: u64, parts: &[&[u8]]) {
        let Some((sequence, words)) = self.slot(number).split_first() else { return };
        let written = number.wrapping_mul(2);
        sequence.store(written.wrapping_sub(1), Ordering::Relaxed);
        fence(Ordering::Release);
        let mut left = words;
        for part in parts {
            let (of_part, others) = left.split_at(part.len().div_ceil(8).min(left.len()));
            left = others;
            let (whole, rest) = part.as_chunks::<8>();
            for (bytes, word) in whole.iter().zip(of_part) {
                word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
            }

            if let (false, Some(word)) = (rest.is_empty(), of_part.get(whole.len())) {
                let mut bytes = [0; 8];
                bytes[..rest.len()].copy_from_slice(rest);
                word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
            }
        }

        sequence.store(written, Ordering::Release);
    }

    #[inline]
    fn slot(&self, number: u64) -> &'m [AtomicU64] {
        let at = (number % self.slots) as usize * self.slot_words;
        &self.words[at..at + self.slot_words]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn words(n: usize) -> Vec<AtomicU64> {
        (0..n).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn the_newest_value_is_read_back_part_by_part() {
        let newest = AtomicU64::new(0);
        let words = words(4 * Latest::slot_words(&[3, 9]));
        let latest = Latest::over(&newest, &words, 4).unwrap();
        assert_eq!(latest.newest(), 0);
        for round in 1..=9_u8 {
            assert_eq!(latest.publish(&[&[round; 3], &[round + 1; 9]]), u64::from(round));
            let mut first = [0; 3];
            let mut second = [0; 9];
            assert!(latest.read(latest.newest(), &mut [&mut first, &mut second]));
            assert_eq!((first, second), ([round; 3], [round + 1; 9]));
        }
    }

    #[test]
    fn a_publication_is_available_until_its_slot_is_reused() {
        let newest = AtomicU64::new(0);
        let words = words(4 * 2);
        let latest = Latest::over(&newest, &words, 4).unwrap();
        (0..6).for_each(|_| _ = latest.publish(&[&[7; 8]]));
        let available: Vec<u64> =
            (1..=7).filter(|&number| latest.read(number, &mut [&mut [0; 8]])).collect();
        assert_eq!(available, [3, 4, 5, 6]);
    }

    #[test]
    fn a_foreign_number_finds_nothing_in_a_slot_that_was_never_written() {
        let newest = AtomicU64::new(1 << 63);
        let words = words(4 * 2);
        let latest = Latest::over(&newest, &words, 4).unwrap();
        for number in [latest.newest(), (1 << 63) + 4, u64::MAX] {
            assert!(!latest.read(number, &mut [&mut [0; 8]]), "{number}");
        }
    }

    #[test]
    fn prepare_changes_nothing_that_can_be_read() {
        let newest = AtomicU64::new(0);
        let words = words(4 * 17);
        let latest = Latest::over(&newest, &words, 4).unwrap();
        latest.prepare();
        for round in 1..=9_u8 {
            latest.publish(&[&[round; 128]]);
            let before: Vec<u64> = words.iter().map(|word| word.load(Ordering::Relaxed)).collect();
            latest.prepare();
            assert!(
                words
                    .iter()
                    .zip(before)
                    .all(|(word, before)| word.load(Ordering::Relaxed) == before)
            );
            let mut value = [0; 128];
            assert!(latest.read(latest.newest(), &mut [&mut value]) && value == [round; 128]);
        }
    }

    #[test]
    fn a_publisher_that_dies_half_way_damages_nothing_and_its_successor_continues() {
        let newest = AtomicU64::new(0);
        let words = words(4 * 3);
        let latest = Latest::over(&newest, &words, 4).unwrap();
        latest.publish(&[&[1; 16]]);
        // The first half of a publication: its sequence is odd, and `newest` has not changed.
        words[2 * 3].store(3, Ordering::Relaxed);
        words[2 * 3 + 1].store(99, Ordering::Relaxed);
        let mut value = [0; 16];

        assert!(latest.newest() == 1 && latest.read(1, &mut [&mut value]) && value == [1; 16]);
        assert!(!latest.read(2, &mut [&mut value]));
        assert_eq!(latest.publish(&[&[2; 16]]), 2);
        assert!(latest.read(2, &mut [&mut value]) && value == [2; 16]);
    }

    #[test]
    fn a_value_too_long_for_a_slot_is_cut_and_never_reaches_the_next_slot() {
        let newest = AtomicU64::new(0);
        let words = words(2 * 2);
        let latest = Latest::over(&newest, &words, 2).unwrap();
        latest.publish(&[&[1; 8]]);
        latest.publish(&[&[2; 64], &[3; 64]]);
        let mut value = [0; 8];

        assert!(latest.read(1, &mut [&mut value]) && value == [1; 8]);
        assert!(latest.read(2, &mut [&mut value]) && value == [2; 8]);
    }

    #[test]
    fn words_that_cannot_be_divided_are_rejected() {
        let newest = AtomicU64::new(0);
        let words = words(9);
        for slots in [0, 1, 2, 9] {
            assert_eq!(
                Latest::over(&newest, &words, slots).err(),
                Some(BadSlots { words: 9, slots })
            );
        }
        assert!(Latest::over(&newest, &words, 3).is_ok());
    }

    #[test]
    fn readers_in_other_threads_get_whole_values_or_none() {
        const BURST: u32 = 64;
        // Miri takes a thousand times as long.
        const READINGS: u32 = if cfg!(miri) { 100 } else { 20_000 };
        let newest = AtomicU64::new(0);
        let words = words(4 * 17);
        let latest = Latest::over(&newest, &words, 4).unwrap();
        let read = AtomicU64::new(0);
        std::thread::scope(|threads| {
            let read = &read;
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    threads.spawn(move || {
                        let mut value = [0_u8; 128];
                        let mut whole = 0_u32;
                        while whole < READINGS {
                            if latest.read(latest.newest(), &mut [&mut value]) {
                                assert!(value.iter().all(|byte| *byte == value[0]), "{value:?}");
                                whole += 1;
                                read.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    })
                })
                .collect();

            let is_read = || readers.iter().any(|reader| !reader.is_finished());
            let mut byte = 0_u8;
            while is_read() {
                let before = read.load(Ordering::Relaxed);
                for _ in 0..BURST {
                    byte = byte.wrapping_add(1);
                    latest.publish(&[&[byte; 128]]);
                }

                // Where a copy takes longer than publications to all slots, it succeeds in a pause.
                while read.load(Ordering::Relaxed) == before && is_read() {
                    std::thread::yield_now();
                }
            }
        });
    }
}
