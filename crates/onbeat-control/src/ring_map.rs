//! A mapped ring, and a watch over its file.

use std::fs::File;
use std::io;

use super::map::Map;
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
