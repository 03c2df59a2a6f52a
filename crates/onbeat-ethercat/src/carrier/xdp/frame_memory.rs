//! Memory of the frames, which this process and the kernel share.
#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::program::STAMP_BYTES;

/// Size of the place of a frame in bytes: 256 for headers of the driver, then the frame.
pub(super) const CHUNK: usize = 2_048;

/// The places of the frames. Unmapped when dropped, after the socket that uses it was closed.
#[derive(Debug)]
pub(super) struct FrameMemory {
    memory: NonNull<u8>,
    bytes: usize,
}

// SAFETY: this value owns the memory exclusively; places that the kernel writes are not accessed.
unsafe impl Send for FrameMemory {}

impl FrameMemory {
    pub(super) fn new(chunks: usize) -> io::Result<Self> {
        let bytes = chunks * CHUNK;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address chosen by the kernel.
        let memory = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, flags) }?;
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { memory, bytes })
    }

    pub(super) fn address(&self) -> u64 {
        self.memory.as_ptr() as u64
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies a frame to a place that belongs to this process. Returns the number of bytes copied.
    pub(super) fn write(&mut self, at: u64, frame: &[u8]) -> u32 {
        let at = (at as usize).min(self.bytes - CHUNK);
        let length = frame.len().min(CHUNK);
        // SAFETY: `at + CHUNK` stays inside the mapping, and this process owns the place.
        unsafe {
            self.memory.as_ptr().add(at).copy_from_nonoverlapping(frame.as_ptr(), length);
        }
        length as u32
    }

    /// Copies a received frame into `buffer`, truncated to its length. Returns the number of bytes
    /// copied.
    pub(super) fn read(&self, at: u64, length: u32, buffer: &mut [u8]) -> usize {
        let at = (at as usize).min(self.bytes);
        let length = (length as usize).min(self.bytes - at).min(buffer.len());
        // SAFETY: `at + length` stays inside the mapping, and this process owns the frame.
        let frame = unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(at), length) };
        buffer[..length].copy_from_slice(frame);
        length
    }

    /// Takes the stamp before a received frame, in ns; `None` when it has none.
    pub(super) fn take_stamp(&mut self, at: u64) -> Option<u64> {
        let at = (at as usize).min(self.bytes).checked_sub(STAMP_BYTES)?;
        // SAFETY: the stamp lies inside the mapping, in the place of a frame of this process.
        let stamp = unsafe { self.memory.as_ptr().add(at).cast::<[u64; 2]>() };
        // SAFETY: as above; any bytes are numbers, at any alignment.
        let [ns, complement] = unsafe { stamp.read_unaligned() };
        // SAFETY: as above. What is taken is not read again before another frame without a stamp.
        unsafe { stamp.write_unaligned([0, 0]) };
        (complement == !ns).then_some(ns)
    }
}

impl Drop for FrameMemory {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; nothing borrows from it.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), self.bytes) };
    }
}
