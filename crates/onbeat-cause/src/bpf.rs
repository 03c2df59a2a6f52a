//! Arrays in shared memory, by the one door to bpf(2) ([`onbeat_host::bpf`]).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use onbeat_host::bpf::{self, BpfAttributes};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

const MAP_UPDATE: libc::c_int = 2;

/// Writes the value at `key` of an array whose values have `value_size` bytes.
fn update(array: &OwnedFd, key: u32, value: &[u8], value_size: usize) -> io::Result<()> {
    if value.len() != value_size {
        return Err(io::ErrorKind::InvalidInput.into());
    }

    let attributes = BpfAttributes::new()
        .word(0, array.as_raw_fd() as u32)
        .double(8, std::ptr::from_ref(&key) as u64)
        .double(16, value.as_ptr() as u64);
    // SAFETY: the key has the array's 4 bytes, and the value was checked to have its size; both
    // live across the call.
    unsafe { bpf::command(MAP_UPDATE, attributes) }.map(|_| ())
}

/// A BPF array mapped into this process, so that reading it needs no system call.
#[derive(Debug)]
pub(super) struct SharedArray {
    descriptor: OwnedFd,
    memory: NonNull<AtomicU64>,
    words: usize,
    value_words: usize,
}

// SAFETY: the memory belongs to this value until it is dropped, and all reads are atomic.
unsafe impl Send for SharedArray {}

// SAFETY: reads are atomic, and writes go through the kernel, which orders them.
unsafe impl Sync for SharedArray {}

impl SharedArray {
    /// Maps an array of `entries` values of `value_words` 64-bit words each.
    pub(super) fn map(descriptor: OwnedFd, value_words: u32, entries: u32) -> io::Result<Self> {
        let words = value_words as usize * entries as usize;
        // SAFETY: a mapping of its own, at an address that the kernel chooses.
        let memory = unsafe {
            mmap(std::ptr::null_mut(), words * 8, ProtFlags::READ, MapFlags::SHARED, &descriptor, 0)
        }?;
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;

        Ok(Self { descriptor, memory, words, value_words: value_words as usize })
    }

    pub(super) const fn bytes_held(&self) -> u64 {
        self.words as u64 * 8
    }

    /// Writes the value at `key`; `value` must have the array's word count.
    pub(super) fn write(&self, key: u32, value: &[u64]) -> io::Result<()> {
        let bytes: Vec<u8> = value.iter().flat_map(|word| word.to_ne_bytes()).collect();
        update(&self.descriptor, key, &bytes, self.value_words * 8)
    }

    /// Returns all values, concatenated.
    pub(super) const fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is `words` words long, aligned to a page, and lives as long as
        // `self`.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.words) }
    }
}

impl Drop for SharedArray {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `map`; no reference to it outlives `self`.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), self.words * 8) };
    }
}
