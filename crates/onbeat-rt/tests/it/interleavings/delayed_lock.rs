//! Explores the interleavings of `DelayedLock`. Run by `make loom` (`RUSTFLAGS="--cfg loom"`).
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread;
use onbeat_rt::delayed_lock::DelayedLock;
use onbeat_rt::{Clock, Instant, MockClock};

/// A count that only the lock protects: relaxed loads and stores, of which loom loses some where two
/// are inside, or where one does not see what the one before it wrote.
struct Shared {
    lock: DelayedLock,
    value: AtomicU64,
}

impl Shared {
    fn new() -> Arc<Self> {
        let shared = Self { lock: DelayedLock::new(), value: AtomicU64::new(0) };
        shared.lock.publish(Instant::from_ns(1000));
        Arc::new(shared)
    }

    /// Adds one from an ordinary thread; returns the number of additions.
    fn add_as_ordinary(&self, clock: &impl Clock) -> u64 {
        self.lock.enter(clock, 10).map_or(0, |_inside| add(&self.value))
    }

    fn add_from_loop(&self) -> u64 {
        self.lock.enter_loop().map_or(0, |_inside| add(&self.value))
    }
}

fn add(value: &AtomicU64) -> u64 {
    value.store(value.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    1
}

fn at(ns: u64) -> impl Clock {
    MockClock::starting_at(Instant::from_ns(ns), |_| 0)
}

#[test]
fn no_interleaving_lets_two_inside_or_loses_what_was_done_there() {
    loom::model(|| {
        let shared = Shared::new();
        let others = [(); 2].map(|()| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.add_as_ordinary(&at(0)))
        });
        let mut added = shared.add_from_loop();
        shared.lock.publish(Instant::from_ns(2000));
        added += others.into_iter().map(|other| other.join().unwrap()).sum::<u64>();

        let _inside = shared.lock.enter_loop().expect("all have left");
        assert_eq!(shared.value.load(Ordering::Relaxed), added);
    });
}

/// Whoever is admitted by the release that a cycle published sees what the cycle did before.
#[test]
fn a_thread_that_is_admitted_by_the_next_release_sees_the_cycle_before_it() {
    loom::model(|| {
        let shared = Shared::new();
        let other = Arc::clone(&shared);
        let ordinary = thread::spawn(move || {
            // Behind the first release: only the second one admits.
            if let Ok(_inside) = other.lock.enter(&at(1500), 10) {
                assert_eq!(other.value.load(Ordering::Relaxed), 1);
            }
        });

        assert_eq!(shared.add_from_loop(), 1, "nobody is admitted yet");
        shared.lock.publish(Instant::from_ns(2000));
        ordinary.join().unwrap();
    });
}

/// The same lock with other orders of memory. loom must report it, or the tests above prove nothing.
fn twin(enters: Ordering, leaves: Ordering) {
    loom::model(move || {
        let shared = Arc::new((AtomicU32::new(0), AtomicU64::new(0)));
        let try_add = move |(word, value): &(AtomicU32, AtomicU64)| {
            if word.compare_exchange(0, 1, enters, Ordering::Relaxed).is_err() {
                return 0;
            }
            let added = add(value);
            word.store(0, leaves);
            added
        };
        let its = Arc::clone(&shared);
        let other = thread::spawn(move || try_add(&its));
        let added = try_add(&shared) + other.join().unwrap();
        assert_eq!(shared.1.load(Ordering::Relaxed), added, "lost");
    });
}

#[test]
fn the_twin_with_both_orders_is_sound() {
    twin(Ordering::Acquire, Ordering::Release);
}

#[test]
#[should_panic(expected = "lost")]
fn the_twin_that_enters_relaxed_is_caught() {
    twin(Ordering::Relaxed, Ordering::Release);
}

#[test]
#[should_panic(expected = "lost")]
fn the_twin_that_leaves_relaxed_is_caught() {
    twin(Ordering::Acquire, Ordering::Relaxed);
}
