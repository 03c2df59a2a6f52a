//! Explores the interleavings of a writer and a reader of `Broadcast`. Run by `make loom`
//! (`RUSTFLAGS="--cfg loom"`). The protocol of a slot has its own in `latest.rs`, with broken
//! twins.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;
use onbeat_rt::broadcast::{Broadcast, Cursor, Next};

/// Words of a slot: sequence, time, length, and one of payload.
const SLOT_WORDS: usize = 4;

struct Words {
    written: AtomicU64,
    words: Vec<AtomicU64>,
    slots: usize,
}

impl Words {
    fn new(slots: usize) -> Arc<Self> {
        let words = (0..slots * SLOT_WORDS).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self { written: AtomicU64::new(0), words, slots })
    }

    fn ring(&self) -> Broadcast<'_> {
        Broadcast::over(&self.written, &self.words, self.slots).unwrap()
    }
}

fn publish(ring: &Broadcast<'_>, number: u64) {
    assert_eq!(ring.publish(number * 10, &(number * 100).to_ne_bytes()), number);
}

/// One step of a reader; returns how many records it passed, and whether it received one.
fn step(ring: &Broadcast<'_>, reader: &mut Cursor) -> (u64, u64) {
    let before = reader.next_number();
    let mut bytes = [0; 8];
    match ring.next(reader, &mut bytes) {
        Next::Nothing => (0, 0),
        Next::Overtaken { lost } => {
            assert_eq!(reader.next_number(), before + lost);
            (lost, 0)
        }
        Next::Record { number, at_ns, length } => {
            assert_eq!((number, at_ns, length), (before, number * 10, 8), "in order, whole");
            assert_eq!(u64::from_ne_bytes(bytes), number * 100, "torn");
            (1, 1)
        }
    }
}

/// Two slots: the writer overwrites the record that the reader reads.
#[test]
fn no_interleaving_tears_a_record_or_miscounts_a_loss() {
    loom::model(|| {
        let shared = Words::new(2);
        publish(&shared.ring(), 1);
        let mut reader = Cursor::at_oldest(&shared.ring());
        let other = Arc::clone(&shared);
        let writer =
            thread::spawn(move || (2..=3).for_each(|number| publish(&other.ring(), number)));

        let ring = shared.ring();
        let (mut passed, mut received) = step(&ring, &mut reader);
        writer.join().unwrap();
        while reader.next_number() <= 3 {
            let (more, record) = step(&ring, &mut reader);
            (passed, received) = (passed + more, received + record);
        }

        assert_eq!((passed, received + reader.lost()), (3, 3));
        assert!(received > 0, "the newest record is available when the writer is idle");
    });
}

/// A reader that is behind by less than the slots but one loses nothing.
#[test]
fn no_interleaving_loses_a_record_within_the_ring() {
    loom::model(|| {
        let shared = Words::new(4);
        publish(&shared.ring(), 1);
        publish(&shared.ring(), 2);
        let mut reader = Cursor::at_oldest(&shared.ring());
        let other = Arc::clone(&shared);
        let writer = thread::spawn(move || publish(&other.ring(), 3));

        let ring = shared.ring();
        assert_eq!(step(&ring, &mut reader), (1, 1));
        writer.join().unwrap();
        assert_eq!([(); 2].map(|()| step(&ring, &mut reader)), [(1, 1); 2]);
        assert_eq!(reader.lost(), 0);
    });
}
