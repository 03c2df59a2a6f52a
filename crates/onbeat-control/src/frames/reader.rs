//! The reading end of a ring of frames.

use std::fs::File;
use std::sync::atomic::{Ordering, fence};

use super::error::FrameError;
use super::file::{is_whole, offsets_of, open};
use super::format::{DESCRIPTION_AT, FrameFormat, MOST_DESCRIPTION, MOST_STATUS, STATUS_AT, word};
use super::memory::FrameMemory;
use super::stamp::{FrameTimes, word as of_stamp};
use crate::process::Process;
use crate::ring_file::{OpenedRing, at, open_when_made};
use crate::ring_object::state;

/// Attempts to copy a picture that the writer overtakes.
const MOST_TRIES: u32 = 3;

/// Which frame a reader takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// The newest one, if it is new to this reader; those between are counted as skipped.
    Newest,
    /// The next one in order; those that were overwritten before are counted as lost.
    Each,
}

/// A picture, copied.
#[derive(Debug)]
pub struct Frame<'r> {
    /// Its number, from 1.
    pub number: u64,
    /// Frames between the one that this reader took before and this one: skipped with
    /// [`Want::Newest`], lost with [`Want::Each`].
    pub passed_over: u64,
    /// Its times.
    pub times: FrameTimes,
    /// Its pixels.
    pub pixels: &'r [u8],
}

/// A picture that was seen and not copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenFrame {
    /// Its number, from 1.
    pub number: u64,
    /// As [`Frame::passed_over`].
    pub passed_over: u64,
    /// Its times.
    pub times: FrameTimes,
}

/// The reading end. The writer does not know of it.
#[derive(Debug)]
pub struct FrameReader {
    name: String,
    memory: FrameMemory,
    file: File,
    last: u64,
    received: u64,
    passed_over: u64,
    pixels: Vec<u8>,
}

impl FrameReader {
    /// Opens a camera; the first frame taken is the newest one there is. A ring whose writer has died or
    /// ended can be read until another one replaces it.
    ///
    /// # Errors
    /// [`FrameError`].
    pub fn open(name: &str) -> Result<Self, FrameError> {
        let unfinished = || FrameError::Unfinished { name: name.to_owned() };
        Self::over(name, open_when_made(|| open(name))?.ok_or_else(unfinished)?)
    }

    fn over(name: &str, opened: OpenedRing) -> Result<Self, FrameError> {
        let offsets = offsets_of(&opened, name)?;
        // All of it has memory, so mapping it allocates none.
        let memory =
            FrameMemory::read_only(&opened.file, offsets).map_err(at("map", &opened.path))?;
        let (newest, first) = (memory.ring.load(word::NEWEST), memory.ring.load(word::FIRST));
        let last = newest.saturating_sub(1).max(first);
        let pixels = vec![0; offsets.frame_bytes];
        let name = name.to_owned();
        Ok(Self { name, memory, file: opened.file, last, received: 0, passed_over: 0, pixels })
    }

    /// Returns what the pictures look like.
    #[must_use]
    pub const fn format(&self) -> FrameFormat {
        self.memory.offsets.format
    }

    /// Returns the number of the newest frame, 0 for none.
    #[must_use]
    pub fn newest(&self) -> u64 {
        let newest = self.memory.ring.load(word::NEWEST);
        if self.memory.ring.is_damaged() { 0 } else { newest }
    }

    /// Returns whether there is a frame that this reader has not taken.
    #[must_use]
    pub fn has_new(&self) -> bool {
        self.newest() > self.last
    }

    /// Copies a frame; `None` if there is no new one. Makes no system call.
    pub fn take(&mut self, want: Want) -> Option<Frame<'_>> {
        let seen = self.take_by(want, Self::copy)?;
        let SeenFrame { number, passed_over, times } = seen;
        Some(Frame { number, passed_over, times, pixels: &self.pixels })
    }

    /// Takes a frame without copying its pixels, for those who want its times; `None` if there is no new one. Makes no
    /// system call.
    pub fn see(&mut self, want: Want) -> Option<SeenFrame> {
        self.take_by(want, |reader, number| Self::whole(&reader.memory, number, |_| ()))
    }

    /// Passes over all frames so far, without counting them; returns the times of the newest one.
    pub fn skip_to_newest(&mut self) -> Option<FrameTimes> {
        self.last = self.newest().max(self.last);
        Self::whole(&self.memory, self.last, |_| ())
    }

    fn take_by(
        &mut self,
        want: Want,
        copy: impl Fn(&mut Self, u64) -> Option<FrameTimes>,
    ) -> Option<SeenFrame> {
        for _ in 0..MOST_TRIES {
            let newest = self.newest();
            if newest <= self.last {
                return None;
            }
            // One slot may be under the writer's hands, and the one behind it will be next.
            let kept = self.memory.offsets.slots as u64 - 2;
            // Another process may have written any number.
            let first = self.memory.ring.load(word::FIRST).saturating_add(1);
            let oldest = newest.saturating_add(1).saturating_sub(kept).max(first);
            let number = match want {
                Want::Newest => newest,
                Want::Each => (self.last + 1).max(oldest),
            };
            if let Some(times) = copy(self, number) {
                let passed_over = number - self.last - 1;
                self.last = number;
                self.received += 1;
                self.passed_over += passed_over;
                return Some(SeenFrame { number, passed_over, times });
            }
        }
        None
    }

    fn copy(&mut self, number: u64) -> Option<FrameTimes> {
        let Self { memory, pixels, .. } = self;
        Self::whole(memory, number, |memory| memory.copy_pixels(number, pixels))
    }

    /// Returns the times of frame `number` after `look`; `None` if its slot held another frame before, after or meanwhile.
    fn whole(
        memory: &FrameMemory,
        number: u64,
        look: impl FnOnce(&FrameMemory),
    ) -> Option<FrameTimes> {
        let stamp = memory.stamp(number);
        let sequence = stamp.get(of_stamp::SEQUENCE)?;
        // The sequence of a slot without a frame is 0.
        let written = number.checked_mul(2).filter(|written| *written > 0)?;
        if sequence.load(Ordering::Acquire) != written {
            return None;
        }
        let times = FrameTimes::load(stamp);
        look(memory);
        fence(Ordering::Acquire);
        let is_same = sequence.load(Ordering::Relaxed) == written;
        (is_same && !memory.ring.is_damaged()).then_some(times)
    }

    /// Returns the number of frames taken.
    #[must_use]
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// Returns the number of frames passed over: skipped or lost.
    #[must_use]
    pub const fn passed_over(&self) -> u64 {
        self.passed_over
    }

    /// Returns how many frames were dropped before they were published: by source, network or decoder.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.memory.ring.load(word::DROPPED)
    }

    /// Returns how often the source was opened again.
    #[must_use]
    pub fn reconnections(&self) -> u64 {
        self.memory.ring.load(word::RECONNECTIONS)
    }

    /// Returns the number of successive rings of this camera.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.memory.ring.load(word::GENERATION)
    }

    /// Returns the writer's text about its source, JSON.
    #[must_use]
    pub fn description(&self) -> String {
        let length = usize::try_from(self.memory.ring.load(word::DESCRIPTION_BYTES)).unwrap_or(0);
        self.memory.ring.text(DESCRIPTION_AT, length.min(MOST_DESCRIPTION))
    }

    /// Returns why no pictures come, in one sentence; empty if they do.
    #[must_use]
    pub fn status(&self) -> String {
        for _ in 0..MOST_TRIES {
            let before = self.memory.ring.load(word::STATUS_SEQUENCE);
            let length = usize::try_from(self.memory.ring.load(word::STATUS_BYTES)).unwrap_or(0);
            let text = self.memory.ring.text(STATUS_AT, length.min(MOST_STATUS));
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.memory.ring.load(word::STATUS_SEQUENCE) == before {
                return text;
            }
        }
        String::new()
    }

    /// Checks that the file is complete and the writer alive; reads `/proc`. Frames published before can
    /// be read afterwards.
    ///
    /// # Errors
    /// [`FrameError::Truncated`], [`FrameError::Ended`], [`FrameError::Replaced`],
    /// [`FrameError::WriterDied`].
    pub fn check_alive(&self) -> Result<(), FrameError> {
        let name = || self.name.clone();
        if self.memory.ring.is_damaged() || !is_whole(&self.file, self.memory.offsets.total) {
            return Err(FrameError::Truncated { name: name() });
        }
        let reported = || match self.memory.ring.load(word::STATE) {
            state::RUNNING => Ok(()),
            state::ENDED => Err(FrameError::Ended { name: name() }),
            _ => Err(FrameError::Replaced { name: name() }),
        };
        reported()?;
        match Process::from_word(self.memory.ring.load(word::WRITER)) {
            Some(writer) if writer.is_alive() => Ok(()),
            // It may have ended in order in between.
            writer => {
                let pid = writer.map_or(0, Process::pid);
                reported().and(Err(FrameError::WriterDied { name: name(), pid }))
            }
        }
    }
}
