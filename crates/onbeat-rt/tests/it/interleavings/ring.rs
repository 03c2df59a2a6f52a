//! Explores the interleavings of the ring. Run by `make loom` (`RUSTFLAGS="--cfg loom"`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, missing_docs, unsafe_code)]

use loom::thread;
use onbeat_rt::ring::{Ring, Slot, split};

/// loom's threads need owned values; the storage is leaked, once per explored interleaving.
fn ends() -> (onbeat_rt::Producer<'static, u64>, onbeat_rt::Consumer<'static, u64>) {
    let slots = Box::leak((0..2).map(|_| Slot::empty()).collect::<Box<[Slot<u64>]>>());
    split(Box::leak(Box::new(Ring::over(slots).unwrap())))
}

#[test]
fn no_interleaving_tears_reorders_or_miscounts() {
    loom::model(|| {
        let (mut hot, mut cold) = ends();
        let producer =
            thread::spawn(move || (1..=3).filter(|&value| hot.push(value)).count() as u64);
        let mut last = 0;
        let mut popped = 0;
        for _ in 0..2 {
            if let Some(value) = cold.pop() {
                assert!(value > last);
                (last, popped) = (value, popped + 1);
            }
        }

        let queued = producer.join().unwrap();
        while let Some(value) = cold.pop() {
            assert!(value > last);
            (last, popped) = (value, popped + 1);
        }

        assert_eq!(popped, queued);
        assert_eq!(popped + cold.lost(), 3);
    });
}

/// The same protocol with its one ordering weakened. loom must report it, or the test above proves
/// nothing.
#[test]
#[should_panic(expected = "Causality violation")]
fn the_broken_twin_is_caught() {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicUsize, Ordering};

    struct Twin {
        slot: UnsafeCell<u64>,
        head: AtomicUsize,
    }
    // SAFETY: unsound on purpose; loom must detect it.
    unsafe impl Sync for Twin {}

    loom::model(|| {
        let twin = Arc::new(Twin { slot: UnsafeCell::new(0), head: AtomicUsize::new(0) });
        let hot = Arc::clone(&twin);
        let producer = thread::spawn(move || {
            // SAFETY: see above.
            hot.slot.with_mut(|slot| unsafe { *slot = 7 });
            hot.head.store(1, Ordering::Relaxed);
        });

        if twin.head.load(Ordering::Relaxed) == 1 {
            // SAFETY: see above.
            assert_eq!(twin.slot.with(|slot| unsafe { *slot }), 7);
        }

        producer.join().unwrap();
    });
}
