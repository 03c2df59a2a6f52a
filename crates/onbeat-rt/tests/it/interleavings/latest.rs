//! Explores the interleavings of `Latest`. Run by `make loom` (`RUSTFLAGS="--cfg loom"`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, missing_docs)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;
use onbeat_rt::latest::Latest;

/// Two slots of a sequence and two words: the publisher reuses a slot after the fewest steps.
struct Words {
    newest: AtomicU64,
    words: Vec<AtomicU64>,
}

impl Words {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            newest: AtomicU64::new(0),
            words: (0..6).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    fn latest(&self) -> Latest<'_> {
        Latest::over(&self.newest, &self.words, 2).unwrap()
    }
}

fn publish(latest: &Latest<'_>, value: u64) {
    latest.publish(&[&value.to_ne_bytes(), &value.to_ne_bytes()]);
}

fn read(latest: &Latest<'_>, number: u64) -> Option<[u64; 2]> {
    let (mut first, mut second) = ([0; 8], [0; 8]);
    let whole = latest.read(number, &mut [&mut first, &mut second]);
    whole.then(|| [u64::from_ne_bytes(first), u64::from_ne_bytes(second)])
}

#[test]
fn no_interleaving_tears_a_value_or_returns_another_one() {
    loom::model(|| {
        let shared = Words::new();
        publish(&shared.latest(), 10);
        let other = Arc::clone(&shared);
        let publisher =
            thread::spawn(move || (2..=4).for_each(|number| publish(&other.latest(), number * 10)));
        let latest = shared.latest();
        let number = latest.newest();

        if let Some(value) = read(&latest, number) {
            assert_eq!(value, [number * 10; 2]);
        }

        publisher.join().unwrap();
        assert_eq!(read(&latest, 4), Some([40; 2]));
    });
}

/// `prepare` writes to a slot that a reader may be reading.
#[test]
fn no_interleaving_with_prepare_tears_a_value() {
    loom::model(|| {
        let shared = Words::new();
        publish(&shared.latest(), 10);
        let other = Arc::clone(&shared);
        let publisher = thread::spawn(move || {
            publish(&other.latest(), 20);
            other.latest().prepare();
            publish(&other.latest(), 30);
        });

        let latest = shared.latest();
        let number = latest.newest();
        if let Some(value) = read(&latest, number) {
            assert_eq!(value, [number * 10; 2]);
        }

        publisher.join().unwrap();
        assert_eq!(read(&latest, 3), Some([30; 2]));
    });
}

/// The newest value can be read as long as the publisher makes fewer publications in the meantime
/// than there are other slots.
#[test]
fn a_publisher_that_does_not_reuse_the_slot_fails_no_reader() {
    loom::model(|| {
        let shared = Words::new();
        publish(&shared.latest(), 10);
        let other = Arc::clone(&shared);
        let publisher = thread::spawn(move || publish(&other.latest(), 20));
        let latest = shared.latest();
        let number = latest.newest();

        assert_eq!(read(&latest, number), Some([number * 10; 2]));
        publisher.join().unwrap();
    });
}

/// The same protocol without one of its fences. loom must report it, or the tests above prove
/// nothing.
fn twin(publisher_fences: bool, reader_fences: bool) {
    loom::model(move || {
        let sequence = Arc::new(AtomicU64::new(2));
        let words = Arc::new([AtomicU64::new(1), AtomicU64::new(1)]);
        let its_sequence = Arc::clone(&sequence);
        let its_words = Arc::clone(&words);
        let publisher = thread::spawn(move || {
            its_sequence.store(3, Ordering::Relaxed);
            if publisher_fences {
                fence(Ordering::Release);
            }
            its_words.iter().for_each(|word| word.store(2, Ordering::Relaxed));
            its_sequence.store(4, Ordering::Release);
        });

        if sequence.load(Ordering::Acquire) == 2 {
            let value = [words[0].load(Ordering::Relaxed), words[1].load(Ordering::Relaxed)];
            if reader_fences {
                fence(Ordering::Acquire);
            }
            if sequence.load(Ordering::Relaxed) == 2 {
                assert_eq!(value, [1, 1], "torn");
            }
        }

        publisher.join().unwrap();
    });
}

#[test]
fn the_twin_with_both_fences_is_sound() {
    twin(true, true);
}

#[test]
#[should_panic(expected = "torn")]
fn the_twin_whose_publisher_has_no_fence_is_caught() {
    twin(false, true);
}

#[test]
#[should_panic(expected = "torn")]
fn the_twin_whose_reader_has_no_fence_is_caught() {
    twin(true, false);
}
