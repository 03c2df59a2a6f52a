//! From a thread that must not wait to one that may: two buffers that are swapped.
//!
//! Both sides only try the lock, so that neither waits for the other; what cannot be passed now is
//! passed by a later call, in order. Beyond its room the sender gives back what it was given, and
//! its owner counts it.

use std::mem::swap;
use std::sync::{Arc, Mutex};

/// The side that never waits.
#[derive(Debug)]
pub struct HandOverSender<T> {
    between: Arc<Mutex<Vec<T>>>,
    waiting: Vec<T>,
    room: usize,
}

/// The other side.
#[derive(Debug)]
pub struct HandOverReceiver<T> {
    between: Arc<Mutex<Vec<T>>>,
    taken: Vec<T>,
}

/// Makes both sides, with room for `room` items in each of three buffers: one on either side, and
/// one between them. No memory is allocated later.
#[must_use]
pub fn hand_over<T>(room: usize) -> (HandOverSender<T>, HandOverReceiver<T>) {
    let between = Arc::new(Mutex::new(Vec::with_capacity(room)));
    let waiting = Vec::with_capacity(room);
    (
        HandOverSender { between: Arc::clone(&between), waiting, room },
        HandOverReceiver { between, taken: Vec::with_capacity(room) },
    )
}

impl<T> HandOverSender<T> {
    /// Takes an item to pass on.
    ///
    /// # Errors
    /// The item, when its buffer is full.
    pub fn put(&mut self, item: T) -> Result<(), T> {
        if self.waiting.len() == self.room {
            return Err(item);
        }
        self.waiting.push(item);
        Ok(())
    }

    /// Passes on what is waiting. Returns whether nothing waits any more.
    pub fn flush(&mut self) -> bool {
        if self.waiting.is_empty() {
            return true;
        }
        let Ok(mut between) = self.between.try_lock() else { return false };
        if between.is_empty() {
            swap(&mut *between, &mut self.waiting);
        }
        self.waiting.is_empty()
    }

    /// Returns what nobody has taken in time, for its owner to count; it does not wait any more.
    pub fn give_up(&mut self) -> std::vec::Drain<'_, T> {
        self.waiting.drain(..)
    }
}

impl<T> HandOverReceiver<T> {
    /// Returns what has been passed on since the last call.
    pub fn take(&mut self) -> &[T] {
        self.taken.clear();
        if let Ok(mut between) = self.between.try_lock() {
            swap(&mut *between, &mut self.taken);
        }
        &self.taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_pass_in_order_even_if_the_lock_is_held() {
        let (mut sender, mut receiver) = hand_over(8);
        assert_eq!(sender.put(1), Ok(()));
        {
            let between = Arc::clone(&sender.between);
            let _held = between.lock().unwrap();
            assert!(!sender.flush(), "the sender does not wait");
        }

        assert!(sender.flush());
        assert_eq!(sender.put(2), Ok(()));
        assert!(!sender.flush(), "what has not been taken is not overtaken");
        assert_eq!(receiver.take(), [1]);
        assert!(sender.flush());
        assert_eq!(receiver.take(), [2]);
        assert_eq!(receiver.take(), [0; 0]);
    }

    #[test]
    fn an_item_beyond_the_room_comes_back() {
        let (mut sender, mut receiver) = hand_over(2);
        assert_eq!([1, 2, 3].map(|item| sender.put(item)), [Ok(()), Ok(()), Err(3)]);
        assert!(sender.flush());
        assert_eq!(receiver.take(), [1, 2]);
        assert_eq!(sender.put(4), Ok(()));
    }

    #[test]
    fn what_is_given_up_is_not_passed_on() {
        let (mut sender, mut receiver) = hand_over(2);
        assert_eq!(sender.put(1), Ok(()));
        assert!(sender.flush());
        assert_eq!(sender.put(2), Ok(()));
        assert!(!sender.flush());
        assert!(sender.give_up().eq([2]));
        assert!(sender.flush());
        assert_eq!(receiver.take(), [1]);
        assert_eq!(receiver.take(), [0; 0]);
    }
}
