//! A mapped ring, and a watch over its file.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;

use super::map::{self, Map};
use super::ring_error::RingError;
use super::ring_file::memory_of;
use super::ring_object::Channel;
use super::truncation::ProtectedRange;

/// The memory of a ring, protected against the truncation of its file in programs that asked for
/// it.
#[derive(Debug)]
pub(super) struct RingMap {
    /// Dropped before the memory is unmapped.
    range: ProtectedRange,
    pub(super) map: Map,
}

impl RingMap {
    pub(super) fn new(map: Map) -> Self {
        Self { range: ProtectedRange::new(map.address(), map.bytes()), map }
    }

    /// Returns whether the memory is no longer that of the file.
    #[inline]
    pub(super) fn is_damaged(&self) -> bool {
        self.range.is_damaged()
    }

    /// Returns a word of the header.
    pub(super) fn load(&self, word: usize) -> u64 {
        self.map.one::<AtomicU64>(word * 8).map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// Sets a word of the header.
    pub(super) fn store(&self, word: usize, value: u64, order: Ordering) {
        if let Some(word) = self.map.one::<AtomicU64>(word * 8) {
            word.store(value, order);
        }
    }

    /// Returns bytes at a multiple of 8; zeros beyond the memory.
    pub(super) fn bytes(&self, at: usize, length: usize) -> Vec<u8> {
        let mut bytes = map::load(self.map.all(at, length.div_ceil(8)));
        bytes.resize(length, 0);
        bytes
    }

    /// Returns a text at a multiple of 8. What is not valid UTF-8 is replaced.
    pub(super) fn text(&self, at: usize, length: usize) -> String {
        String::from_utf8_lossy(&self.bytes(at, length)).into_owned()
    }

    /// Stores bytes at a multiple of 8.
    pub(super) fn put(&self, at: usize, bytes: &[u8]) {
        map::store(self.map.all(at, bytes.len().div_ceil(8)), bytes);
    }
}

/// Returns the present time, and what must be added to it for nanoseconds since 1970 (UTC).
pub(super) fn now_and_utc_offset() -> [u64; 2] {
    let now_ns = Monotonic.now().as_ns();
    let utc = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let utc_ns = u64::try_from(utc.as_nanos()).unwrap_or(u64::MAX);
    [now_ns, utc_ns.saturating_sub(now_ns)]
}

/// A watch over the file of a ring, for threads with time: its writer cannot see a truncation
/// without a system call.
#[derive(Debug)]
pub struct RingWatch {
    channel: Channel,
    file: File,
    bytes: u64,
}

impl RingWatch {
    pub(super) fn over(channel: &Channel, file: &File, bytes: usize) -> io::Result<Self> {
        Ok(Self { channel: channel.clone(), file: file.try_clone()?, bytes: bytes as u64 })
    }

    pub(super) const fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Checks that the file has all its memory.
    ///
    /// # Errors
    /// [`RingError::Truncated`].
    pub fn check(&self) -> Result<(), RingError> {
        self.check_with(false)
    }

    pub(super) fn check_with(&self, is_damaged: bool) -> Result<(), RingError> {
        check_file(&self.channel, &self.file, self.bytes, is_damaged)
    }
}

/// Checks that a file has the memory of its ring, and that nothing else was mapped in its place.
pub(super) fn check_file(
    channel: &Channel,
    file: &File,
    bytes: u64,
    is_damaged: bool,
) -> Result<(), RingError> {
    let held = memory_of(file).unwrap_or(bytes).min(bytes);
    if held == bytes && !is_damaged {
        return Ok(());
    }
    Err(RingError::Truncated { channel: channel.to_string(), bytes, held })
}
