//! Lock of an image for the two kinds of sharing with one: a word in memory shared by processes of
//! one user, with or without priority inheritance by the kernel (`FUTEX_LOCK_PI`).
//!
//! The memory holds numbers only, and other processes can write any of them at any time: every wait
//! ends with its deadline, and every error with a refusal. What the lock protects is consistent
//! without it, so a bus that does not get it publishes nevertheless.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::{futex, gettid};
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::area;
use super::map::{Map, SharedMemory};
use super::sharing::Sharing;

/// Flag of the word: a thread waits in the kernel.
const WAITERS: u32 = 1 << 31;
/// Bits of the word with the thread that holds the lock.
const HOLDER: u32 = (1 << 30) - 1;
const BYTES: usize = 64;
/// Interval in which a waiting thread looks whether the holder has died.
const LOOK_EVERY: Duration = Duration::from_millis(5);

#[repr(C, align(64))]
struct LockWords {
    word: AtomicU32,
    /// Process that holds the lock; stays when it dies.
    holder: AtomicU32,
}

// SAFETY: `repr(C)`, atomics only.
unsafe impl SharedMemory for LockWords {}

/// A lock of processes of one user.
#[derive(Debug)]
pub(super) struct ImageLock {
    map: Map,
    /// With [`Sharing::Pi`], the kernel passes a waiter's priority to the holder.
    sharing: Sharing,
    process: u32,
    /// For clients, in the bus process.
    pub(super) file: Option<File>,
}

/// Holds the lock until dropped, in the thread that took it.
#[derive(Debug)]
pub(super) struct ImageGuard<'l> {
    lock: &'l ImageLock,
    me: u32,
    /// Process that died while it held the lock.
    pub(super) dead: Option<u32>,
    /// A guard stays in its thread.
    _thread: std::marker::PhantomData<*const ()>,
}

/// Returns the id of this thread. The kernel writes it into a word of ours: loops may make no
/// system calls but those for locks and time.
fn this_thread() -> u32 {
    thread_local!(static ID: u32 = asked_id());
    ID.with(|id| *id)
}

fn asked_id() -> u32 {
    let word = AtomicU32::new(0);
    if futex::trylock_pi(&word, futex::Flags::PRIVATE) != Ok(true) {
        return gettid().as_raw_nonzero().get().cast_unsigned();
    }
    let id = word.load(Ordering::Relaxed) & HOLDER;
    let _ = futex::unlock_pi(&word, futex::Flags::PRIVATE);
    id
}

/// Returns whether a thread is gone: no word of ours can be locked behind it.
fn is_dead(thread: u32) -> bool {
    let word = AtomicU32::new(thread);
    thread == 0 || futex::trylock_pi(&word, futex::Flags::PRIVATE) == Err(Errno::SRCH)
}

impl ImageLock {
    /// Creates the lock, for the bus process.
    pub(super) fn create(sharing: Sharing, purpose: &str) -> io::Result<Self> {
        let file = area::create(BYTES, purpose)?;
        area::seal_length(&file)?;
        let map = Map::new(&file, BYTES)?;
        Ok(Self { map, sharing, process: std::process::id(), file: Some(file) })
    }

    /// Maps the lock of a bus.
    pub(super) fn open(memory: OwnedFd, sharing: Sharing) -> io::Result<Self> {
        if area::fixed_length(&memory)? < BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the lock is too short"));
        }
        let map = Map::new(&File::from(memory), BYTES)?;
        Ok(Self { map, sharing, process: std::process::id(), file: None })
    }

    #[allow(clippy::expect_used)] // The map has this length.
    fn words(&self) -> &LockWords {
        self.map.one(0).expect("words within the map")
    }

    /// Takes the lock within `wait`; with none, if it is free or its holder is dead. `None` when the
    /// time is over, or the words make no sense.
    pub(super) fn hold(&self, wait: Duration) -> Option<ImageGuard<'_>> {
        let me = this_thread();
        let word = &self.words().word;
        let is_free = word.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok();
        let is_held = is_free
            || match self.sharing {
                _ if wait.is_zero() => inherit(word, word.load(Ordering::Relaxed), me),
                Sharing::Pi => wait_in_kernel(word, me, wait),
                _ => wait_for_word(word, me, wait),
            };
        is_held.then(|| {
            let before = self.words().holder.swap(self.process, Ordering::Relaxed);
            let dead = (before != 0).then_some(before);
            ImageGuard { lock: self, me, dead, _thread: std::marker::PhantomData }
        })
    }
}

impl Drop for ImageGuard<'_> {
    fn drop(&mut self) {
        let LockWords { word, holder } = self.lock.words();
        holder.store(0, Ordering::Relaxed);
        if self.lock.sharing == Sharing::Pi {
            if word.compare_exchange(self.me, 0, Ordering::Release, Ordering::Relaxed).is_err() {
                // Refused if another process has written the word.
                let _ = futex::unlock_pi(word, futex::Flags::empty());
            }
        } else if word.swap(0, Ordering::Release) & WAITERS != 0 {
            let _ = futex::wake(word, futex::Flags::empty(), 1);
        }
    }
}

/// Takes the lock of a dead thread: the kernel does not know it, as nobody waited for it.
fn inherit(word: &AtomicU32, was: u32, me: u32) -> bool {
    // Who waits is still to be woken.
    let me = me | was & WAITERS;
    is_dead(was & HOLDER)
        && word.compare_exchange(was, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

/// Waits with priority inheritance. The kernel fails at once for words that make no sense.
fn wait_in_kernel(word: &AtomicU32, me: u32, wait: Duration) -> bool {
    let until = Instant::now() + wait;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        let was = word.load(Ordering::Relaxed);
        match lock_pi(word, left) {
            Ok(()) => return true,
            Err(Errno::SRCH) if inherit(word, was, me) => return true,
            Err(Errno::AGAIN | Errno::INTR | Errno::SRCH) => {}
            Err(_) => return false,
        }
    }
    false
}

fn lock_pi(word: &AtomicU32, left: Duration) -> Result<(), Errno> {
    let flags = futex::Flags::empty();
    let deadline = |clock| {
        let now = clock_gettime(clock);
        let ns = now.tv_nsec + i64::from(left.subsec_nanos());
        let seconds = i64::try_from(left.as_secs()).unwrap_or(i64::MAX / 2);
        Timespec {
            tv_sec: now.tv_sec.saturating_add(seconds + ns / 1_000_000_000),
            tv_nsec: ns % 1_000_000_000,
        }
    };
    match futex::lock_pi2(word, flags, Some(&deadline(ClockId::Monotonic))) {
        // Linux before 5.14 knows only the wall clock.
        Err(Errno::NOSYS) => futex::lock_pi(word, flags, Some(&deadline(ClockId::Realtime))),
        answer => answer,
    }
}

/// Waits without priority inheritance.
fn wait_for_word(word: &AtomicU32, me: u32, wait: Duration) -> bool {
    let until = Instant::now() + wait;
    let exchange =
        |was, new| word.compare_exchange(was, new, Ordering::Acquire, Ordering::Relaxed).is_ok();
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        let was = word.load(Ordering::Relaxed);
        // Others may wait too, so the kernel is asked when it is released.
        if was == 0 {
            if exchange(0, me | WAITERS) {
                return true;
            }
            continue;
        }
        if was & WAITERS == 0 && !exchange(was, was | WAITERS) {
            continue;
        }

        let most = left.min(LOOK_EVERY);
        let most = Timespec { tv_sec: 0, tv_nsec: most.subsec_nanos().into() };
        // Woken, changed before, interrupted, timed out: look again in any case.
        let waited = futex::wait(word, futex::Flags::empty(), was | WAITERS, Some(&most));
        if waited == Err(Errno::TIMEDOUT) && inherit(word, was | WAITERS, me) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Sharing; 2] = [Sharing::Pi, Sharing::Plain];
    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn the_kernel_knows_this_thread_and_which_ones_are_gone() {
        let id = || gettid().as_raw_nonzero().get().cast_unsigned();
        assert_eq!(this_thread(), id());
        let other = std::thread::spawn(move || (this_thread(), id())).join().unwrap();
        assert_eq!(other.0, other.1);
        let began = Instant::now();
        while !is_dead(other.0) {
            assert!(began.elapsed() < PATIENCE, "it has ended");
        }
        assert!(is_dead(0));
        assert!(!is_dead(this_thread()));
        std::thread::scope(|threads| {
            let (tell, told) = std::sync::mpsc::channel();
            let (end, ended) = std::sync::mpsc::channel::<()>();
            threads.spawn(move || {
                tell.send(this_thread()).unwrap();
                let _ = ended.recv();
            });
            assert!(!is_dead(told.recv().unwrap()));
            drop(end);
        });
    }

    #[test]
    fn one_thread_at_a_time_holds_the_lock() {
        for sharing in BOTH {
            let lock = ImageLock::create(sharing, "test").unwrap();
            let inside = AtomicU32::new(0);
            let rounds = AtomicU32::new(0);
            std::thread::scope(|threads| {
                for _ in 0..4 {
                    threads.spawn(|| {
                        for _ in 0..2_000 {
                            let _held = lock.hold(PATIENCE).expect("it is released");
                            assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                            rounds.fetch_add(1, Ordering::Relaxed);
                            inside.fetch_sub(1, Ordering::Relaxed);
                        }
                    });
                }
            });
            assert_eq!(rounds.into_inner(), 8_000, "{sharing:?}");
        }
    }

    #[test]
    fn a_held_lock_is_refused_after_the_wait_and_granted_when_it_is_released() {
        for sharing in BOTH {
            let lock = ImageLock::create(sharing, "test").unwrap();
            std::thread::scope(|threads| {
                let held = lock.hold(PATIENCE).unwrap();
                assert!(threads.spawn(|| lock.hold(Duration::ZERO).is_none()).join().unwrap());
                let late = || lock.hold(Duration::from_millis(20)).is_none();
                assert!(threads.spawn(late).join().unwrap(), "{sharing:?}");
                let waits = threads.spawn(|| lock.hold(PATIENCE).is_some());
                drop(held);
                assert!(waits.join().unwrap(), "{sharing:?}");
            });
        }
    }

    #[test]
    fn a_lock_whose_holder_has_died_is_inherited_and_its_process_known() {
        for sharing in BOTH {
            let lock = ImageLock::create(sharing, "test").unwrap();
            let holds = || std::mem::forget(lock.hold(PATIENCE).unwrap());
            std::thread::scope(|threads| threads.spawn(holds).join().unwrap());
            let held = lock.hold(PATIENCE).unwrap();
            assert_eq!(held.dead, Some(std::process::id()), "{sharing:?}");
            drop(held);
            assert_eq!(lock.hold(PATIENCE).unwrap().dead, None);
        }
    }

    #[test]
    fn no_word_makes_the_bus_wait_longer_than_allowed() {
        for sharing in BOTH {
            let lock = ImageLock::create(sharing, "test").unwrap();
            let me = this_thread();
            for word in [1, me, me | WAITERS, 0xffff_ffff, HOLDER, WAITERS, 1 << 30, 12_345_678] {
                lock.words().word.store(word, Ordering::Relaxed);
                lock.words().holder.store(word.rotate_left(7), Ordering::Relaxed);
                drop(lock.hold(Duration::from_millis(1)));
            }
            lock.words().word.store(0, Ordering::Relaxed);
            assert!(lock.hold(PATIENCE).is_some(), "and it serves again, {sharing:?}");
        }
    }
}
