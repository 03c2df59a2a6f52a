//! The writing end of a ring of frames.

use std::sync::atomic::{Ordering, fence};

use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;
use rustix::fs::{FallocateFlags, fallocate};

use super::error::FrameError;
use super::file::{create, create_next, file_of, is_whole, no_room};
use super::format::{
    DESCRIPTION_AT, FrameFormat, FrameOffsets, MAGIC, MOST_DESCRIPTION, MOST_STATUS, STAMPS_AT,
    STATUS_AT, VERSION, word,
};
use super::memory::FrameMemory;
use super::stamp::{FrameTimes, word as of_stamp};
use crate::process::Process;
use crate::ring_file::{OwnRing, at};
use crate::ring_map::now_and_utc_offset;
use crate::ring_object::state;

/// The writing end, for one thread. Dropping it reports the end to readers and frees the name.
#[derive(Debug)]
pub struct FrameWriter {
    name: String,
    memory: FrameMemory,
    /// Locked as long as this lives.
    own: OwnRing,
    generation: u64,
    newest: u64,
    description: String,
}

impl FrameWriter {
    /// Creates the ring of a camera. `description` is JSON about its source, at most 3,072 bytes; more is
    /// cut.
    ///
    /// # Errors
    /// [`FrameError`]: [`Taken`](FrameError::Taken) if a living process has the name.
    pub fn create(
        name: &str,
        format: FrameFormat,
        slots: u64,
        description: &str,
    ) -> Result<Self, FrameError> {
        let offsets =
            FrameOffsets::new(format, slots).ok_or(FrameError::BadFormat { format, slots })?;
        let (own, generation) = create(name)?;
        let memory = mapped(&own, offsets).inspect_err(|_| own.remove())?;
        let (name, description) = (name.to_owned(), description.to_owned());
        let writer = Self { name, memory, own, generation, newest: 0, description };
        writer.fill();
        Ok(writer)
    }

    /// Continues with pictures of another format in a new file; the numbers of frames and the counters
    /// go on. Readers of the file before read what it has and learn that it was replaced.
    ///
    /// # Errors
    /// [`FrameError`]: the ring before goes on.
    pub fn change_format(&mut self, format: FrameFormat) -> Result<(), FrameError> {
        let slots = self.memory.offsets.slots as u64;
        let offsets =
            FrameOffsets::new(format, slots).ok_or(FrameError::BadFormat { format, slots })?;
        let mut own = create_next(&self.name)?;
        let memory = mapped(&own, offsets).inspect_err(|_| own.remove())?;

        for counter in [word::DROPPED, word::RECONNECTIONS] {
            memory.ring.store(counter, self.memory.ring.load(counter), Ordering::Relaxed);
        }
        let before = std::mem::replace(&mut self.memory, memory);
        // It may come from a file of the same name that was found here, with any number.
        let generation = self.generation;
        self.generation = generation.saturating_add(1);
        self.fill();
        if let Err(why) = own.take_name(file_of(&self.name)) {
            self.memory = before;
            self.generation = generation;
            own.remove();
            return Err(why.into());
        }
        self.own = own;
        before.ring.store(word::STATE, state::REPLACED, Ordering::Release);
        Ok(())
    }

    fn fill(&self) {
        let (memory, offsets) = (&self.memory, &self.memory.offsets);
        let length = self.description.len().min(MOST_DESCRIPTION);
        memory.ring.put(DESCRIPTION_AT, &self.description.as_bytes()[..length]);

        let [created_ns, utc_offset_ns] = now_and_utc_offset();
        for (place, value) in [
            (word::VERSION, VERSION),
            (word::TOTAL_BYTES, offsets.total as u64),
            (word::GENERATION, self.generation),
            (word::WRITER, Process::this().word()),
            (word::STATE, state::RUNNING),
            (word::SLOTS, offsets.slots as u64),
            (word::SLOT_BYTES, offsets.slot_bytes as u64),
            (word::PIXELS_AT, offsets.pixels_at as u64),
            (word::STAMPS_AT, STAMPS_AT as u64),
            (word::WIDTH, u64::from(offsets.format.width)),
            (word::HEIGHT, u64::from(offsets.format.height)),
            (word::CHANNELS, u64::from(offsets.format.channels)),
            (word::LAYOUT, offsets.format.layout as u64),
            (word::FRAME_BYTES, offsets.frame_bytes as u64),
            (word::CREATED_NS, created_ns),
            (word::UTC_OFFSET_NS, utc_offset_ns),
            (word::DESCRIPTION_BYTES, length as u64),
            (word::FIRST, self.newest),
            (word::NEWEST, self.newest),
        ] {
            memory.ring.store(place, value, Ordering::Relaxed);
        }
        // A process that sees the magic number sees all of the above.
        memory.ring.store(word::MAGIC, MAGIC, Ordering::Release);
    }

    /// Returns the name of the camera.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the format of the pictures.
    #[must_use]
    pub const fn format(&self) -> FrameFormat {
        self.memory.offsets.format
    }

    /// Returns the number of the newest frame, from 1; 0 for none.
    #[must_use]
    pub const fn newest(&self) -> u64 {
        self.newest
    }

    /// Returns the memory of the next picture, to be filled. From here on readers do not accept what this
    /// slot held before.
    pub fn pixels(&mut self) -> &mut [u8] {
        let next = self.newest + 1;
        if let Some(sequence) = self.memory.stamp(next).get(of_stamp::SEQUENCE) {
            sequence.store(2 * next - 1, Ordering::Relaxed);
        }
        fence(Ordering::Release);
        self.memory.pixels_mut(next)
    }

    /// Publishes what [`FrameWriter::pixels`] was filled with; returns its number and the time of
    /// publication. Without a preceding call, the picture is whatever the slot holds.
    pub fn publish(&mut self, times: &FrameTimes) -> (u64, u64) {
        let next = self.newest + 1;
        let published_ns = Monotonic.now().as_ns();
        let times = FrameTimes { published_ns, ..*times };
        let stamp = self.memory.stamp(next);
        if let (Some(sequence), Some(number)) =
            (stamp.get(of_stamp::SEQUENCE), stamp.get(of_stamp::NUMBER))
        {
            sequence.store(2 * next - 1, Ordering::Relaxed);
            fence(Ordering::Release);
            times.store(stamp);
            number.store(next, Ordering::Relaxed);
            sequence.store(2 * next, Ordering::Release);
        }
        self.newest = next;
        self.memory.ring.store(word::NEWEST, next, Ordering::Release);
        let dropped = self.memory.ring.load(word::DROPPED).saturating_add(times.dropped_before);
        self.memory.ring.store(word::DROPPED, dropped, Ordering::Relaxed);
        (next, published_ns)
    }

    /// Records that the source was opened again.
    pub fn count_reconnection(&mut self) {
        let so_far = self.memory.ring.load(word::RECONNECTIONS);
        self.memory.ring.store(word::RECONNECTIONS, so_far.saturating_add(1), Ordering::Relaxed);
    }

    /// States in one sentence why no pictures come; an empty one if they do. At most 496 bytes; more is
    /// cut.
    pub fn set_status(&mut self, sentence: &str) {
        let cut =
            (0..=sentence.len().min(MOST_STATUS)).rev().find(|at| sentence.is_char_boundary(*at));
        let text = &sentence[..cut.unwrap_or(0)];
        let sequence = self.memory.ring.load(word::STATUS_SEQUENCE).wrapping_add(1) | 1;
        self.memory.ring.store(word::STATUS_SEQUENCE, sequence, Ordering::Relaxed);
        fence(Ordering::Release);
        self.memory.ring.store(word::STATUS_BYTES, text.len() as u64, Ordering::Relaxed);
        self.memory.ring.put(STATUS_AT, text.as_bytes());
        self.memory.ring.store(word::STATUS_SEQUENCE, sequence.wrapping_add(1), Ordering::Release);
    }

    /// Checks that the file is complete and still has its name.
    ///
    /// # Errors
    /// [`FrameError::Truncated`].
    pub fn check(&self) -> Result<(), FrameError> {
        if self.memory.ring.is_damaged() || !is_whole(&self.own.file, self.memory.offsets.total) {
            return Err(FrameError::Truncated { name: self.name.clone() });
        }
        Ok(())
    }
}

impl Drop for FrameWriter {
    fn drop(&mut self) {
        self.memory.ring.store(word::STATE, state::ENDED, Ordering::Release);
        self.own.remove();
    }
}

fn mapped(own: &OwnRing, offsets: FrameOffsets) -> Result<FrameMemory, FrameError> {
    // Allocated completely: access to a sparse file without free memory ends the process with SIGBUS.
    fallocate(&own.file, FallocateFlags::empty(), 0, offsets.total as u64)
        .map_err(|why| no_room(&own.directory, offsets.total, why.into()))?;
    Ok(FrameMemory::writable(&own.file, offsets).map_err(at("map", &own.path()))?)
}
