//! The lock of the two kinds of sharing that have one: a mutex in shared memory, robust in both, with priority inheritance in one.
//!
//! Robust means that the kernel gives the lock to the next one when its holder dies. That is so in the plain kind too: what it lacks is
//! priority inheritance alone, else the two could not be compared.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

use super::map::Shared;
use super::process::Process;

/// A mutex where it lies in shared memory, with the process that holds it and those that died so.
#[repr(C, align(64))]
pub(super) struct ImageLock {
    mutex: UnsafeCell<MaybeUninit<libc::pthread_mutex_t>>,
    holder: AtomicU64,
    died: AtomicU64,
    last_dead: AtomicU64,
}

// SAFETY: a mutex made for sharing between processes, and atomics.
unsafe impl Shared for ImageLock {}

/// What the lock inherits from those who wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockProtocol {
    Priority,
    Nothing,
}

/// The lock is held as long as this lives.
pub(super) struct ImageGuard<'l>(&'l ImageLock);

impl ImageLock {
    /// Makes the mutex; nobody else may have seen it yet.
    pub(super) fn make(&self, inherits: LockProtocol) -> io::Result<()> {
        let protocol =
            if inherits == LockProtocol::Priority { libc::PTHREAD_PRIO_INHERIT } else { libc::PTHREAD_PRIO_NONE };
        let mut kind = MaybeUninit::uninit();
        let kind = kind.as_mut_ptr();
        // SAFETY: `kind` is initialised by the first call and destroyed by the last; the mutex lies in memory that nobody else uses yet.
        unsafe {
            answer(libc::pthread_mutexattr_init(kind))?;
            let made = answer(libc::pthread_mutexattr_setpshared(kind, libc::PTHREAD_PROCESS_SHARED))
                .and_then(|()| answer(libc::pthread_mutexattr_setrobust(kind, libc::PTHREAD_MUTEX_ROBUST)))
                .and_then(|()| answer(libc::pthread_mutexattr_setprotocol(kind, protocol)))
                .and_then(|()| answer(libc::pthread_mutex_init(self.mutex.get().cast(), kind)));
            libc::pthread_mutexattr_destroy(kind);

            made
        }
    }

    /// Waits for the lock. `None` when it cannot be had any more: the memory was spoilt.
    pub(super) fn hold(&self, who: Process) -> Option<ImageGuard<'_>> {
        // SAFETY: made by `make` before anybody else saw the memory; `ImageGuard` gives it back in the thread that took it.
        let answer = unsafe { libc::pthread_mutex_lock(self.mutex.get().cast()) };
        match answer {
            0 => {}
            libc::EOWNERDEAD => {
                // What the lock guards is whole all the same: publications are, see `onbeat_rt::latest`.
                // SAFETY: this thread holds the mutex, whose state it now vouches for.
                unsafe { libc::pthread_mutex_consistent(self.mutex.get().cast()) };
                self.last_dead.store(self.holder.load(Ordering::Relaxed), Ordering::Relaxed);
                self.died.fetch_add(1, Ordering::Release);
            }
            _ => return None,
        }

        self.holder.store(who.word(), Ordering::Relaxed);
        Some(ImageGuard(self))
    }

    /// How many died while they held it.
    pub(super) fn died(&self) -> u64 {
        self.died.load(Ordering::Acquire)
    }

    /// The last one of them.
    pub(super) fn last_dead(&self) -> Option<Process> {
        Process::from_word(self.last_dead.load(Ordering::Relaxed))
    }
}

impl Drop for ImageGuard<'_> {
    fn drop(&mut self) {
        self.0.holder.store(0, Ordering::Relaxed);
        // SAFETY: taken by this thread in `hold`; `ImageGuard` is not `Send`.
        unsafe { libc::pthread_mutex_unlock(self.0.mutex.get().cast()) };
    }
}

fn answer(number: libc::c_int) -> io::Result<()> {
    if number == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(number)) }
}
