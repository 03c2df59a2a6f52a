//! A wait-free queue from one hot thread to one cold thread, in storage supplied by the caller.
//!
//! Guarantees: [`Producer::push`] and [`Consumer::pop`] return in a bounded number of steps,
//! whatever the other side does. When the queue is full, the value is dropped and the loss is
//! counted exactly: after the producer is gone, `pushed = popped + lost + still queued`.
//!
//! ```
//! use onbeat_rt::ring::{Ring, Slot, split};
//!
//! let mut slots: [Slot<u64>; 2] = core::array::from_fn(|_| Slot::empty());
//! let mut ring = Ring::over(&mut slots).unwrap();
//! let (mut producer, mut consumer) = split(&mut ring);
//! assert!(producer.push(1) && producer.push(2));
//! assert!(!producer.push(3), "full: dropped and counted");
//! assert_eq!((consumer.pop(), consumer.lost()), (Some(1), 1));
//! ```
//!
//! Absent on purpose: blocking, waking the other side (that is a system call), growing,
//! overwriting.
//!
//! The protocol is Lamport's single-producer, single-consumer ring (1983): only the producer moves
//! `head`, only the consumer moves `tail`. `tests/it/interleavings/ring.rs` explores its interleavings, with a
//! broken twin that must fail.
#![allow(unsafe_code)]

#[cfg(loom)]
use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use core::mem::MaybeUninit;

/// `core`'s cell with loom's interface, so that the same code runs under loom.
#[cfg(not(loom))]
#[derive(Debug)]
struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    const fn new(value: T) -> Self {
        Self(core::cell::UnsafeCell::new(value))
    }

    fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

/// Storage for one queued value.
pub struct Slot<T>(UnsafeCell<MaybeUninit<T>>);

impl<T> Slot<T> {
    /// Creates an empty slot.
    #[must_use]
    pub fn empty() -> Self {
        Self(UnsafeCell::new(MaybeUninit::uninit()))
    }
}

/// The number of slots is not a power of two, which masking of positions requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAPowerOfTwo {
    /// Number of slots.
    pub slots: usize,
}

/// A value on its own cache line, so that the two sides do not slow each other down (false
/// sharing).
#[repr(align(64))]
struct CacheAligned<T>(T);

/// A queue in borrowed slots. [`split`] returns its two ends.
pub struct Ring<'s, T> {
    slots: &'s mut [Slot<T>],
    head: CacheAligned<AtomicUsize>,
    tail: CacheAligned<AtomicUsize>,
    lost: CacheAligned<AtomicU64>,
}

// SAFETY: a slot is reached by one side at a time (see `push` and `pop`), and the values may change
// threads.
unsafe impl<T: Copy + Send> Sync for Ring<'_, T> {}

impl<'s, T: Copy + Send> Ring<'s, T> {
    /// Creates an empty queue whose capacity is the number of slots.
    ///
    /// # Errors
    /// [`NotAPowerOfTwo`] when the number of slots is not a power of two.
    ///
    /// ```
    /// use onbeat_rt::Slot;
    /// use onbeat_rt::ring::Ring;
    ///
    /// let mut slots: [Slot<u32>; 3] = core::array::from_fn(|_| Slot::empty());
    /// assert!(Ring::over(&mut slots).is_err(), "3 is not a power of two");
    /// ```
    pub fn over(slots: &'s mut [Slot<T>]) -> Result<Self, NotAPowerOfTwo> {
        if !slots.len().is_power_of_two() {
            return Err(NotAPowerOfTwo { slots: slots.len() });
        }
        Ok(Self {
            slots,
            head: CacheAligned(AtomicUsize::new(0)),
            tail: CacheAligned(AtomicUsize::new(0)),
            lost: CacheAligned(AtomicU64::new(0)),
        })
    }
}

/// Splits a queue into its two ends. The mutable borrow guarantees a single producer and a single
/// consumer.
///
/// ```
/// use onbeat_rt::ring::Ring;
/// use onbeat_rt::{Slot, split};
///
/// let mut slots: [Slot<u32>; 2] = core::array::from_fn(|_| Slot::empty());
/// let mut ring = Ring::over(&mut slots).unwrap();
/// let (mut hot, mut cold) = split(&mut ring);
///
/// let queued = [1, 2, 3].map(|value| hot.push(value));
/// assert_eq!(queued, [true, true, false], "a full ring drops the value and never waits");
/// assert_eq!((cold.pop(), cold.pop(), cold.pop()), (Some(1), Some(2), None));
/// assert_eq!(cold.lost(), 1);
/// ```
pub fn split<'r, T: Copy + Send>(ring: &'r mut Ring<'_, T>) -> (Producer<'r, T>, Consumer<'r, T>) {
    let ring: &'r Ring<'_, T> = ring;
    let slots: &'r [Slot<T>] = ring.slots;
    let shared = RingParts { slots, head: &ring.head.0, tail: &ring.tail.0, lost: &ring.lost.0 };
    (Producer { shared, head: 0, tail_seen: 0 }, Consumer { shared, tail: 0 })
}

struct RingParts<'r, T> {
    slots: &'r [Slot<T>],
    head: &'r AtomicUsize,
    tail: &'r AtomicUsize,
    lost: &'r AtomicU64,
}

impl<T> Clone for RingParts<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for RingParts<'_, T> {}

/// The sending end, for the hot thread.
pub struct Producer<'r, T> {
    shared: RingParts<'r, T>,
    head: usize,
    tail_seen: usize,
}

/// The receiving end, for the cold thread.
pub struct Consumer<'r, T> {
    shared: RingParts<'r, T>,
    tail: usize,
}

// SAFETY: the slots behind the references are reached under the protocol below from any thread.
unsafe impl<T: Copy + Send> Send for Producer<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Copy + Send> Send for Consumer<'_, T> {}

impl<T: Copy> Producer<'_, T> {
    /// Queues `value`, or counts it as lost when the queue is full. Returns whether it was queued.
    #[inline]
    pub fn push(&mut self, value: T) -> bool {
        let capacity = self.shared.slots.len();
        if self.head.wrapping_sub(self.tail_seen) == capacity {
            self.tail_seen = self.shared.tail.load(Ordering::Acquire);
            if self.head.wrapping_sub(self.tail_seen) == capacity {
                let lost = self.shared.lost.load(Ordering::Relaxed);
                self.shared.lost.store(lost + 1, Ordering::Relaxed);
                return false;
            }
        }

        // SAFETY: this slot is the producer's until `head` is stored with Release below; the
        // consumer reads `head` with Acquire before it touches the slot, and gave it back through
        // `tail`. Checked by tests/it/interleavings/ring.rs.
        self.shared.slots[self.head & (capacity - 1)].0.with_mut(|slot| unsafe {
            (*slot).write(value);
        });
        self.head = self.head.wrapping_add(1);
        self.shared.head.store(self.head, Ordering::Release);

        true
    }
}

impl<T: Copy> Consumer<'_, T> {
    /// Takes the oldest queued value.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.tail == self.shared.head.load(Ordering::Acquire) {
            return None;
        }

        let capacity = self.shared.slots.len();
        // SAFETY: `head` is beyond this slot (Acquire above), so the producer has written it and
        // will not touch it again before `tail` is stored with Release below. Checked by
        // tests/it/interleavings/ring.rs.
        let value = self.shared.slots[self.tail & (capacity - 1)]
            .0
            .with(|slot| unsafe { (*slot).assume_init_read() });
        self.tail = self.tail.wrapping_add(1);
        self.shared.tail.store(self.tail, Ordering::Release);
        Some(value)
    }

    /// Returns how many values were dropped since the start.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn slots(n: usize) -> Vec<Slot<u64>> {
        (0..n).map(|_| Slot::empty()).collect()
    }

    #[test]
    fn values_arrive_in_the_order_they_were_pushed() {
        let mut storage = slots(4);
        let mut ring = Ring::over(&mut storage).unwrap();
        let (mut hot, mut cold) = split(&mut ring);
        for round in 0..10 {
            assert!(hot.push(round * 2) && hot.push(round * 2 + 1));
            assert_eq!(
                [cold.pop(), cold.pop(), cold.pop()],
                [Some(round * 2), Some(round * 2 + 1), None]
            );
        }

        assert_eq!(cold.lost(), 0);
    }

    #[test]
    fn a_full_ring_counts_dropped_values_and_keeps_queued_ones() {
        let mut storage = slots(4);
        let mut ring = Ring::over(&mut storage).unwrap();
        let (mut hot, mut cold) = split(&mut ring);
        let queued = (0..7).filter(|&value| hot.push(value)).count();
        assert_eq!((queued, cold.lost()), (4, 3));
        assert_eq!(core::iter::from_fn(|| cold.pop()).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }

    #[test]
    fn a_number_of_slots_that_is_not_a_power_of_two_is_rejected() {
        let mut storage = slots(6);
        assert_eq!(Ring::over(&mut storage).err(), Some(NotAPowerOfTwo { slots: 6 }));
    }

    #[test]
    fn two_threads_lose_exactly_the_counted_values() {
        let mut storage = slots(64);
        let mut ring = Ring::over(&mut storage).unwrap();
        let (mut hot, mut cold) = split(&mut ring);
        // Miri takes a thousand times as long.
        const PUSHES: u64 = if cfg!(miri) { 300 } else { 200_000 };
        std::thread::scope(|threads| {
            let producer =
                threads.spawn(move || (0..PUSHES).filter(|&value| hot.push(value)).count() as u64);
            let mut popped = 0_u64;
            let mut last = None;
            loop {
                let finished = producer.is_finished();
                while let Some(value) = cold.pop() {
                    assert!(last < Some(value), "values arrive in order");
                    (popped, last) = (popped + 1, Some(value));
                }

                if finished {
                    break;
                }
            }

            assert_eq!(producer.join().unwrap(), popped);
            assert_eq!(popped + cold.lost(), PUSHES);
        });
    }
}
