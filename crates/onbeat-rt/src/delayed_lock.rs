//! A lock between a loop and ordinary threads that gives way to releases: an ordinary thread takes
//! it only when it can leave it before the loop's next release.
//!
//! The loop publishes its next release. An ordinary thread names how long it will stay; where that
//! reaches beyond the release it is refused, with the instant from which it may ask again. The loop
//! never waits: [`DelayedLock::enter_loop`] is one compare-exchange, and fails where an ordinary
//! thread has stayed longer than it said. After Lee and Park, "Delayed locking technique for
//! improving real-time performance of embedded Linux by prediction of timer interrupt" (RTAS 2005),
//! which keeps a thread of the kernel from being interrupted inside; in user space a thread can
//! still lose its CPU there. The loop then goes without the section for a cycle, and that is counted
//! by who calls it: neither side is ever blocked by the other.
//!
//! One loop, any number of ordinary threads. `tests/it/interleavings/delayed_lock.rs` explores the
//! interleavings, with broken twins that must fail.
//!
//! Absent on purpose: waiting (a system call; who is refused sleeps until
//! [`Refusal::TooNear`]'s instant, or does something else) and priority inheritance (nobody waits).
//!
//! ```
//! use onbeat_rt::delayed_lock::{DelayedLock, Refusal};
//! use onbeat_rt::{Instant, MockClock};
//!
//! let lock = DelayedLock::new();
//! let release = Instant::from_ns(1_000_000);
//! lock.publish(release);
//!
//! let clock = MockClock::starting_at(Instant::from_ns(900_000), |_| 0);
//! assert!(lock.enter(&clock, 50_000).is_ok(), "it leaves at 950 µs");
//! assert_eq!(lock.enter(&clock, 200_000).err(), Some(Refusal::TooNear { release }));
//! assert!(lock.enter_loop().is_some(), "nobody is inside");
//! ```

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::time::{Clock, Instant};

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// No release was published: nobody has to give way.
const NO_RELEASE: u64 = u64::MAX;

/// The lock; 16 bytes, the same in C (`struct onbeat_delayed_lock`).
#[derive(Debug)]
#[repr(C)]
pub struct DelayedLock {
    next_release_ns: AtomicU64,
    holder: AtomicU32,
    _reserved: u32,
}

/// Why an ordinary thread did not get the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The loop or another thread is inside.
    Held,
    /// It would still be inside at the next release, or that has passed and the loop is in its
    /// cycle.
    TooNear {
        /// The release to wait for: behind it the loop publishes the next one.
        release: Instant,
    },
}

impl Default for DelayedLock {
    fn default() -> Self {
        Self::new()
    }
}

macro_rules! maybe_const {
    ($(#[$doc:meta])* fn new() -> Self $body:block) => {
        #[cfg(not(loom))]
        $(#[$doc])*
        pub const fn new() -> Self $body

        #[cfg(loom)]
        $(#[$doc])*
        pub fn new() -> Self $body
    };
}

impl DelayedLock {
    maybe_const! {
        /// Creates a free lock without a release.
        #[must_use]
        fn new() -> Self {
            Self {
                next_release_ns: AtomicU64::new(NO_RELEASE),
                holder: AtomicU32::new(FREE),
                _reserved: 0,
            }
        }
    }

    /// Publishes the loop's next release: at the end of each cycle, one store. A loop that ends calls
    /// [`Self::withdraw`], or ordinary threads are refused for good.
    #[inline]
    pub fn publish(&self, release: Instant) {
        self.next_release_ns.store(release.as_ns(), Ordering::Release);
    }

    /// Withdraws the release: the loop has ended or pauses, and nobody has to give way.
    pub fn withdraw(&self) {
        self.next_release_ns.store(NO_RELEASE, Ordering::Release);
    }

    /// Enters from the loop, without waiting: one compare-exchange. `None` where an ordinary thread
    /// is inside, which has stayed longer than it said.
    #[inline]
    #[must_use]
    pub fn enter_loop(&self) -> Option<DelayedGuard<'_>> {
        // Not `then_some`: a guard that is made and dropped frees the lock.
        self.take().then(|| DelayedGuard { lock: self })
    }

    /// Enters from an ordinary thread that stays for at most `section_ns`.
    ///
    /// The time is read again behind the lock: a thread that lost its CPU in between leaves at once.
    ///
    /// # Errors
    /// [`Refusal`]; nothing was waited for.
    pub fn enter(&self, clock: &impl Clock, section_ns: u64) -> Result<DelayedGuard<'_>, Refusal> {
        self.admit(clock.now(), section_ns)?;
        if !self.take() {
            return Err(Refusal::Held);
        }
        let guard = DelayedGuard { lock: self };
        self.admit(clock.now(), section_ns)?;
        Ok(guard)
    }

    /// Whether a thread that enters now may stay for `section_ns`.
    ///
    /// # Errors
    /// [`Refusal::TooNear`].
    pub fn admit(&self, now: Instant, section_ns: u64) -> Result<(), Refusal> {
        let release_ns = self.next_release_ns.load(Ordering::Acquire);
        if release_ns == NO_RELEASE || now.as_ns().saturating_add(section_ns) <= release_ns {
            Ok(())
        } else {
            Err(Refusal::TooNear { release: Instant::from_ns(release_ns) })
        }
    }

    /// Leaves without a guard, for C. The caller is inside.
    pub fn leave(&self) {
        self.holder.store(FREE, Ordering::Release);
    }

    #[inline]
    fn take(&self) -> bool {
        let taken = self.holder.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok()
    }
}

/// Is inside until dropped.
#[derive(Debug)]
#[must_use]
pub struct DelayedGuard<'l> {
    lock: &'l DelayedLock,
}

impl Drop for DelayedGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.lock.leave();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use core::cell::Cell;

    use super::*;
    use crate::time::Interrupted;

    /// A clock whose readings are listed; the last one stays.
    struct Readings<'r> {
        ns: &'r [u64],
        at: Cell<usize>,
    }

    impl<'r> Readings<'r> {
        const fn new(ns: &'r [u64]) -> Self {
            Self { ns, at: Cell::new(0) }
        }
    }

    impl Clock for Readings<'_> {
        fn now(&self) -> Instant {
            let at = self.at.get();
            self.at.set((at + 1).min(self.ns.len() - 1));
            Instant::from_ns(self.ns[at])
        }

        fn sleep_until(&self, _: Instant) -> Result<(), Interrupted> {
            Ok(())
        }

        fn sleep_for(&self, _: u64) -> Result<(), Interrupted> {
            Ok(())
        }
    }

    fn near(ns: u64) -> Option<Refusal> {
        Some(Refusal::TooNear { release: Instant::from_ns(ns) })
    }

    #[test]
    fn a_section_that_ends_at_the_release_is_admitted_and_one_nanosecond_more_is_not() {
        let lock = DelayedLock::new();
        let clock = Readings::new(&[600]);
        lock.publish(Instant::from_ns(1000));
        assert!(lock.enter(&clock, 400).is_ok());
        assert_eq!(lock.enter(&clock, 401).err(), near(1000));
        assert_eq!(lock.enter(&clock, u64::MAX).err(), near(1000), "no sum overflows");
    }

    #[test]
    fn from_the_release_until_the_loop_publishes_the_next_one_everybody_is_refused() {
        let lock = DelayedLock::new();
        let clock = Readings::new(&[1001]);
        lock.publish(Instant::from_ns(1000));
        assert_eq!(lock.enter(&clock, 0).err(), near(1000));
        lock.publish(Instant::from_ns(2000));
        assert!(lock.enter(&clock, 999).is_ok());
    }

    #[test]
    fn without_a_release_nobody_gives_way() {
        let lock = DelayedLock::new();
        let clock = Readings::new(&[u64::MAX - 1]);
        assert!(lock.enter(&clock, u64::MAX).is_ok());
        lock.publish(Instant::from_ns(5));
        assert!(lock.enter(&clock, 1).is_err());
        lock.withdraw();
        assert!(lock.enter(&clock, 1).is_ok());
    }

    #[test]
    fn a_thread_that_lost_its_cpu_on_the_way_in_leaves_at_once() {
        let lock = DelayedLock::new();
        lock.publish(Instant::from_ns(1000));
        assert_eq!(lock.enter(&Readings::new(&[100, 950]), 100).err(), near(1000));
        assert!(lock.enter_loop().is_some(), "it is not inside any more");
    }

    #[test]
    fn one_at_a_time_is_inside_and_nobody_waits() {
        let lock = DelayedLock::new();
        let clock = Readings::new(&[0]);
        let ordinary = lock.enter(&clock, 1).unwrap();
        for _ in 0..2 {
            assert!(lock.enter_loop().is_none(), "a refusal frees nothing");
            assert_eq!(lock.enter(&clock, 1).err(), Some(Refusal::Held));
        }
        drop(ordinary);
        let of_loop = lock.enter_loop().unwrap();
        assert_eq!(lock.enter(&clock, 1).err(), Some(Refusal::Held));
        drop(of_loop);
        assert!(lock.enter(&clock, 1).is_ok());
    }

    #[test]
    fn it_has_the_size_that_c_reserves() {
        assert_eq!((size_of::<DelayedLock>(), align_of::<DelayedLock>()), (16, 8));
    }
}
