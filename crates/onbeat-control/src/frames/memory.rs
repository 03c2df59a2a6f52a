//! The mapped memory of a ring of frames.
//!
//! Words are atomics, as everywhere in shared memory. Pixels are plain bytes: they are too many to be
//! stored one word at a time, and converted by vector instructions.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::fs::File;
use std::io;
use std::sync::atomic::AtomicU64;

use super::format::{FrameOffsets, STAMP_BYTES};
use crate::map::{Map, SharedMemory};
use crate::ring_map::RingMap;

/// A byte of a picture.
#[repr(transparent)]
struct Pixel(UnsafeCell<u8>);

// SAFETY: one byte behind `UnsafeCell`; every value is one.
unsafe impl SharedMemory for Pixel {}

#[derive(Debug)]
pub(super) struct FrameMemory {
    pub(super) ring: RingMap,
    pub(super) offsets: FrameOffsets,
}

impl FrameMemory {
    pub(super) fn writable(file: &File, offsets: FrameOffsets) -> io::Result<Self> {
        Ok(Self { ring: RingMap::new(Map::new(file, offsets.total)?), offsets })
    }

    pub(super) fn read_only(file: &File, offsets: FrameOffsets) -> io::Result<Self> {
        Ok(Self { ring: RingMap::new(Map::read_only(file, offsets.total)?), offsets })
    }

    pub(super) fn stamp(&self, number: u64) -> &[AtomicU64] {
        self.ring.map.all(self.offsets.stamp_at(number), STAMP_BYTES / 8)
    }

    fn pixels(&self, number: u64) -> &[Pixel] {
        self.ring.map.all(self.offsets.pixels_of(number), self.offsets.frame_bytes)
    }

    /// Returns the pixels of a frame's slot, for the only writer of this memory.
    pub(super) fn pixels_mut(&mut self, number: u64) -> &mut [u8] {
        let pixels = self.pixels(number);
        // SAFETY: within the mapping, which was mapped for writing (`writable`) wherever this is called
        // (`FrameWriter`), and borrowed mutably as long as the slice. Other processes only read it, and
        // accept nothing that they read meanwhile (`sequence`).
        unsafe { std::slice::from_raw_parts_mut(pixels.as_ptr().cast_mut().cast(), pixels.len()) }
    }

    /// Copies the pixels of a frame's slot. What was copied is a picture only if the sequence of the slot
    /// is the same before and after.
    pub(super) fn copy_pixels(&self, number: u64, to: &mut [u8]) {
        let pixels = self.pixels(number);
        let length = pixels.len().min(to.len());
        // SAFETY: both ranges have `length` bytes and do not overlap: one is shared memory, the other
        // memory of this process. Another process may write meanwhile; the bytes are then any, and the
        // caller drops them.
        unsafe {
            std::ptr::copy_nonoverlapping(pixels.as_ptr().cast::<u8>(), to.as_mut_ptr(), length);
        }
    }
}
