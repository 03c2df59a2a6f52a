//! Mutex in shared memory for the two kinds of sharing with a lock: always robust, optionally with
//! priority inheritance.
//!
//! Robust means that the kernel passes the lock on when its holder dies. The plain kind is robust
//! too, so the two differ in priority inheritance only and can be compared.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

use super::map::SharedMemory;
use super::process::Process;

/// A mutex with its holder, and the processes that died while holding it.
#[repr(C, align(64))]
pub(super) struct ImageLock {
    mutex: UnsafeCell<MaybeUninit<libc::pthread_mutex_t>>,
    holder: AtomicU64,
    died: AtomicU64,
    last_dead: AtomicU64,
}

// SAFETY: a mutex made for sharing between processes, and atomics.
unsafe impl SharedMemory for ImageLock {}

/// Protocol of the mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockProtocol {
    Priority,
    Nothing,
}

/// Holds the lock until dropped.
pub(super) struct ImageGuard<'l>(&'l ImageLock);

impl ImageLock {
    /// Initialises the mutex, before any other process can access it.
    pub(super) fn make(&self, inherits: LockProtocol) -> io::Result<()> {
        let protocol = if inherits == LockProtocol::Priority {
            libc::PTHREAD_PRIO_INHERIT
        } else {
            libc::PTHREAD_PRIO_NONE
        };
        let mut kind = MaybeUninit::uninit();
        let kind = kind.as_mut_ptr();
        // SAFETY: `kind` is initialised by the first call and destroyed by the last; no other
        // process uses the mutex's memory yet.
        unsafe {
            answer(libc::pthread_mutexattr_init(kind))?;
            let made =
                answer(libc::pthread_mutexattr_setpshared(kind, libc::PTHREAD_PROCESS_SHARED))
                    .and_then(|()| {
                        answer(libc::pthread_mutexattr_setrobust(kind, libc::PTHREAD_MUTEX_ROBUST))
                    })
                    .and_then(|()| answer(libc::pthread_mutexattr_setprotocol(kind, protocol)))
                    .and_then(|()| answer(libc::pthread_mutex_init(self.mutex.get().cast(), kind)));
            libc::pthread_mutexattr_destroy(kind);

            made
        }
    }

    /// Acquires the lock. `None` if the memory is corrupt.
    pub(super) fn hold(&self, who: Process) -> Option<ImageGuard<'_>> {
        // SAFETY: initialised by `make` before any other process could access the memory;
        // `ImageGuard` releases it in the thread that acquired it.
        let answer = unsafe { libc::pthread_mutex_lock(self.mutex.get().cast()) };
        match answer {
            0 => {}
            libc::EOWNERDEAD => {
                // The protected data are consistent nevertheless: publications are, see
                // `onbeat_rt::latest`. SAFETY: this thread holds the mutex, whose state it now
                // vouches for.
                unsafe { libc::pthread_mutex_consistent(self.mutex.get().cast()) };
                self.last_dead.store(self.holder.load(Ordering::Relaxed), Ordering::Relaxed);
                self.died.fetch_add(1, Ordering::Release);
            }
            _ => return None,
        }

        self.holder.store(who.word(), Ordering::Relaxed);
        Some(ImageGuard(self))
    }

    /// Returns the number of processes that died while holding the lock.
    pub(super) fn died(&self) -> u64 {
        self.died.load(Ordering::Acquire)
    }

    /// Returns the last of them.
    pub(super) fn last_dead(&self) -> Option<Process> {
        Process::from_word(self.last_dead.load(Ordering::Relaxed))
    }
}

impl Drop for ImageGuard<'_> {
    fn drop(&mut self) {
        self.0.holder.store(0, Ordering::Relaxed);
        // SAFETY: acquired by this thread in `hold`; `ImageGuard` is not `Send`.
        unsafe { libc::pthread_mutex_unlock(self.0.mutex.get().cast()) };
    }
}

fn answer(number: libc::c_int) -> io::Result<()> {
    if number == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(number)) }
}
