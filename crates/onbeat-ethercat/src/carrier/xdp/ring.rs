//! A ring of entries between this process and the kernel: one side produces, the other consumes.
#![allow(unsafe_code)]

use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// `XDP_RING_NEED_WAKEUP`: the kernel waits for a system call.
const NEED_WAKEUP: u32 = 1;

/// A mapped ring; its length is a power of two. Unmapped when dropped.
#[derive(Debug)]
pub(super) struct XdpRing<T> {
    memory: NonNull<u8>,
    bytes: usize,
    places: libc::xdp_ring_offset,
    entries: u32,
    /// Position of this process.
    own: u32,
    contents: PhantomData<T>,
}

// SAFETY: this value owns the mapping exclusively, and the kernel's side does not depend on threads.
unsafe impl<T: Send> Send for XdpRing<T> {}

impl<T: Copy> XdpRing<T> {
    /// Maps the ring of a socket that lies at `at` of its memory.
    ///
    /// # Safety
    /// The socket must have a ring of `entries` entries of type `T` there, with these offsets.
    pub(super) unsafe fn map(
        socket: BorrowedFd<'_>,
        at: u64,
        entries: u32,
        places: libc::xdp_ring_offset,
    ) -> io::Result<Self> {
        let bytes = places.desc as usize + entries as usize * size_of::<T>();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address chosen by the kernel, inside the socket's ring.
        let memory = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes,
                access,
                MapFlags::SHARED | MapFlags::POPULATE,
                socket,
                at,
            )
        }?;
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { memory, bytes, places, entries, own: 0, contents: PhantomData })
    }

    fn word(&self, at: u64) -> &AtomicU32 {
        // SAFETY: the kernel's offsets are inside the mapping and aligned, and both sides use these
        // words as atomics.
        unsafe { AtomicU32::from_ptr(self.memory.as_ptr().add(at as usize).cast()) }
    }

    fn entry(&self, number: u32) -> *mut T {
        let at = self.places.desc as usize + (number % self.entries) as usize * size_of::<T>();
        // SAFETY: the mapping holds `entries` entries from `desc` on.
        unsafe { self.memory.as_ptr().add(at).cast() }
    }

    /// Produces an entry. Returns whether there was room.
    pub(super) fn put(&mut self, entry: T) -> bool {
        if self.own.wrapping_sub(self.word(self.places.consumer).load(Ordering::Acquire))
            >= self.entries
        {
            return false;
        }

        // SAFETY: the kernel has consumed what was in this place.
        unsafe { self.entry(self.own).write(entry) };
        self.own = self.own.wrapping_add(1);
        self.word(self.places.producer).store(self.own, Ordering::Release);
        true
    }

    /// Takes back the entry produced last, unless the kernel has consumed it. Returns whether it
    /// did.
    ///
    /// Only for rings that the kernel reads in system calls of this thread.
    pub(super) fn take_back(&mut self) -> bool {
        if self.word(self.places.consumer).load(Ordering::Acquire) == self.own {
            return false;
        }

        self.own = self.own.wrapping_sub(1);
        self.word(self.places.producer).store(self.own, Ordering::Release);
        true
    }

    /// Returns whether the kernel has consumed all that was produced.
    pub(super) fn is_consumed(&self) -> bool {
        self.word(self.places.consumer).load(Ordering::Acquire) == self.own
    }

    /// Consumes the next entry.
    pub(super) fn take(&mut self) -> Option<T> {
        if self.word(self.places.producer).load(Ordering::Acquire) == self.own {
            return None;
        }

        // SAFETY: the kernel has produced this entry.
        let entry = unsafe { self.entry(self.own).read() };
        self.own = self.own.wrapping_add(1);
        self.word(self.places.consumer).store(self.own, Ordering::Release);
        Some(entry)
    }

    /// Returns whether the kernel waits for a system call.
    pub(super) fn needs_wakeup(&self) -> bool {
        self.word(self.places.flags).load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }
}

impl<T> Drop for XdpRing<T> {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length; nothing borrows from it.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), self.bytes) };
    }
}
