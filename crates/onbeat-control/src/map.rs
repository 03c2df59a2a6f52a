//! Shared memory: one object in `/dev/shm`, mapped completely.
//!
//! All accesses are atomic words. Other processes can write at any time, and write anything; an
//! offset computed from a value read is checked against the bounds here.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use onbeat_host::foreign::printable;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A type that may be placed in shared memory.
///
/// # Safety
/// `repr(C)`, aligned to at most 64 bytes, made of nothing but atomics or of bytes behind
/// `UnsafeCell`: every pattern of bits is a value, and others may write it at any time.
pub(super) unsafe trait SharedMemory {}

/// A mapped object; unmapped on drop.
#[derive(Debug)]
pub(super) struct Map {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory is accessed as atomics only, see `SharedMemory`.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// Maps the first `bytes` of `file`, which must be at least that long, and populates them.
    pub(super) fn new(file: &File, bytes: usize) -> io::Result<Self> {
        Self::with_access(file, bytes, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// As [`Map::new`], for memory that this process only loads from: a store is a SIGSEGV.
    pub(super) fn read_only(file: &File, bytes: usize) -> io::Result<Self> {
        Self::with_access(file, bytes, ProtFlags::READ)
    }

    fn with_access(file: &File, bytes: usize, access: ProtFlags) -> io::Result<Self> {
        // SAFETY: a new mapping at an address chosen by the kernel overlaps nothing. If another
        // program truncates the object, SIGBUS ends this process; onbeat never truncates one.
        let base = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes,
                access,
                MapFlags::SHARED | MapFlags::POPULATE,
                file,
                0,
            )
        }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;

        Ok(Self { base, bytes })
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the address of the first byte.
    pub(super) fn address(&self) -> usize {
        self.base.as_ptr() as usize
    }

    /// Returns whether `count` values of `T` fit at this offset.
    pub(super) fn holds<T: SharedMemory>(&self, at: usize, count: usize) -> bool {
        let end = size_of::<T>().checked_mul(count).and_then(|bytes| bytes.checked_add(at));
        at.is_multiple_of(align_of::<T>()) && end.is_some_and(|end| end <= self.bytes)
    }

    /// Returns `count` values of `T` at this offset; an empty slice if they do not fit.
    pub(super) fn all<T: SharedMemory>(&self, at: usize, count: usize) -> &[T] {
        if !self.holds::<T>(at, count) {
            return &[];
        }
        // SAFETY: within the mapping and aligned (a mapping begins at a page); `T` is valid for any
        // bits, and lives as long as the map.
        unsafe { std::slice::from_raw_parts(self.base.add(at).cast::<T>().as_ptr(), count) }
    }

    /// Returns the value of `T` at this offset; `None` if it does not fit.
    pub(super) fn one<T: SharedMemory>(&self, at: usize) -> Option<&T> {
        self.all(at, 1).first()
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: nothing borrowed from the mapping outlives it.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

// SAFETY: one atomic.
unsafe impl SharedMemory for AtomicU64 {}

/// Copies bytes into shared words, eight per word, in native byte order.
pub(super) fn store(words: &[AtomicU64], bytes: &[u8]) {
    for (word, bytes) in words.iter().zip(bytes.chunks(8)) {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_ne_bytes(whole), Ordering::Relaxed);
    }
}

/// Copies shared words into bytes.
pub(super) fn load(words: &[AtomicU64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect()
}

/// Returns the text before the zeros that pad it; what is not UTF-8 or not printable is replaced.
pub(super) fn padded_text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    printable(&String::from_utf8_lossy(&bytes[..end]))
}
