//! A hand-over between two threads that keeps only the newest item.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Locks what threads share: one that panicked left a state that is valid after each statement.
pub(super) fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Buffers of items, which go back to the thread that fills them.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffers(Arc<Mutex<Vec<Vec<u8>>>>);

impl Buffers {
    /// Takes one; a new one if there is none.
    pub(super) fn take(&self) -> Vec<u8> {
        locked(&self.0).pop().unwrap_or_default()
    }

    pub(super) fn put(&self, buffer: Vec<u8>) {
        locked(&self.0).push(buffer);
    }
}

#[derive(Debug)]
struct State<T, E> {
    newest: Option<T>,
    dropped: u64,
    end: Option<E>,
    is_left: bool,
    seen: String,
}

/// Both ends of the hand-over.
#[derive(Debug)]
pub(super) struct Mailbox<T, E>(Arc<(Mutex<State<T, E>>, Condvar)>);

impl<T, E> Clone for Mailbox<T, E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T, E> Mailbox<T, E> {
    pub(super) fn new() -> Self {
        let seen = "nothing was received".to_owned();
        let state = State { newest: None, dropped: 0, end: None, is_left: false, seen };
        Self(Arc::new((Mutex::new(state), Condvar::new())))
    }

    fn state(&self) -> MutexGuard<'_, State<T, E>> {
        locked(&self.0.0)
    }

    /// Puts an item in the place of one that nobody has taken, which is returned; `None` also if there
    /// was none.
    pub(super) fn put(&self, item: T) -> Option<T> {
        let mut state = self.state();
        let before = state.newest.replace(item);
        state.dropped += u64::from(before.is_some());
        self.0.1.notify_one();
        before
    }

    /// Waits until the item before was taken, as the reader of a file does; `false` if nobody takes
    /// any more.
    pub(super) fn wait_until_taken(&self) -> bool {
        let waits = |it: &mut State<T, E>| it.newest.is_some() && !it.is_left;
        let waited = self.0.1.wait_while(self.state(), waits);
        !waited.unwrap_or_else(PoisonError::into_inner).is_left
    }

    /// States what was received last, for the sentence about a silent source.
    pub(super) fn saw(&self, what: impl FnOnce() -> String) {
        let mut state = self.state();
        state.seen = what();
    }

    pub(super) fn seen(&self) -> String {
        self.state().seen.clone()
    }

    /// No more items come, and this is why. The first reason stays.
    pub(super) fn end(&self, why: E) {
        let mut state = self.state();
        state.end.get_or_insert(why);
        self.0.1.notify_one();
    }

    /// Nobody takes any more.
    pub(super) fn leave(&self) {
        self.state().is_left = true;
        self.0.1.notify_all();
    }

    pub(super) fn is_left(&self) -> bool {
        self.state().is_left
    }

    /// Takes the newest item, with the number of those dropped before it; `None` after `patience`. What
    /// was put before the end is taken before it is reported.
    pub(super) fn take(&self, patience: Duration) -> Result<Option<(T, u64)>, E> {
        let waits = |it: &mut State<T, E>| it.newest.is_none() && it.end.is_none();
        let waited = self.0.1.wait_timeout_while(self.state(), patience, waits);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        if let Some(item) = state.newest.take() {
            let dropped = std::mem::take(&mut state.dropped);
            self.0.1.notify_all();
            return Ok(Some((item, dropped)));
        }
        state.end.take().map_or(Ok(None), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_items_that_wait_the_newest_is_taken_and_the_others_are_counted() {
        let mailbox: Mailbox<u32, &str> = Mailbox::new();
        assert_eq!(mailbox.take(Duration::ZERO), Ok(None));
        for item in 1..=5 {
            assert_eq!(mailbox.put(item), (item > 1).then(|| item - 1));
        }
        mailbox.end("over");
        mailbox.end("over again");
        assert_eq!(mailbox.take(Duration::ZERO), Ok(Some((5, 4))));
        assert_eq!(mailbox.take(Duration::ZERO), Err("over"));
    }
}
