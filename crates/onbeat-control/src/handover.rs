//! What the thread that serves clients hands to the loop. The loop never waits, allocates or frees:
//! it compares a number per cycle, and exchanges the slots it holds for the new ones.

use std::mem::swap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use onbeat_ethercat::event::EventKind;

use super::area::Inward;

/// Maximum number of changes of roles between two cycles; the oldest are dropped.
const MOST_CHANGES: usize = 8;

/// Slots on their way to the loop, and those it no longer reads on their way back.
#[derive(Debug, Default)]
pub(super) struct Handover {
    generation: AtomicU32,
    place: Mutex<Option<Arc<Inward>>>,
}

/// Returns the guard without ever parking a thread, so that unlocking is never a system call.
fn hold<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    loop {
        match of.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(guard)) => return guard.into_inner(),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
}

impl Handover {
    /// Gives the loop new slots. What the loop gave back is freed here.
    pub(super) fn give(&self, slots: Arc<Inward>) {
        let mut slots = Some(slots);
        {
            let mut place = hold(&self.place);
            swap(&mut *place, &mut slots);
            self.generation.fetch_add(1, Ordering::Release);
        }
        drop(slots);
    }

    /// Returns whether there is something to take, for a loop that has seen generation `seen`.
    #[inline]
    pub(super) fn is_new(&self, seen: u32) -> bool {
        self.generation.load(Ordering::Acquire) != seen
    }

    /// Exchanges the loop's slots for the new ones. `false` if they are just being given: the next
    /// cycle takes them.
    pub(super) fn take(&self, seen: &mut u32, slots: &mut Option<Arc<Inward>>) -> bool {
        let Ok(mut place) = self.place.try_lock() else { return false };
        *seen = self.generation.load(Ordering::Acquire);
        swap(&mut *place, slots);
        true
    }
}

/// A role was taken, left, or lost by death.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoleChange {
    pub(super) kind: EventKind,
    pub(super) pid: u32,
}

/// Changes of roles on their way to the loop, which publishes them as events.
#[derive(Debug, Default)]
pub(super) struct RoleChanges {
    generation: AtomicU32,
    queue: Mutex<Queue>,
}

/// The last changes; `count` of `all` are valid.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queue {
    all: [Option<RoleChange>; MOST_CHANGES],
    count: usize,
}

impl RoleChanges {
    pub(super) fn push(&self, change: RoleChange) {
        let mut queue = hold(&self.queue);
        if queue.count == MOST_CHANGES {
            queue.all.rotate_left(1);
            queue.count -= 1;
        }
        let place = queue.count;
        queue.all[place] = Some(change);
        queue.count += 1;
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Returns whether there were changes since generation `seen`.
    pub(super) fn is_new(&self, seen: u32) -> bool {
        self.generation.load(Ordering::Acquire) != seen
    }

    /// Returns the changes since generation `seen`; `None` also if one is just being made.
    pub(super) fn take(&self, seen: &mut u32) -> Option<impl Iterator<Item = RoleChange> + use<>> {
        if !self.is_new(*seen) {
            return None;
        }
        let mut queue = self.queue.try_lock().ok()?;
        *seen = self.generation.load(Ordering::Acquire);
        let taken = std::mem::take(&mut *queue);
        Some(taken.all.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_gets_the_newest_slots_and_gives_back_the_old_ones() {
        let slots = || Arc::new(Inward::create(8, 0).unwrap().0);
        let (first, second) = (slots(), slots());
        let weak = Arc::downgrade(&first);
        let handover = Handover::default();
        let (mut seen, mut held) = (0, None);
        assert!(!handover.is_new(seen));
        handover.give(first);
        assert!(handover.is_new(seen) && handover.take(&mut seen, &mut held) && held.is_some());
        handover.give(Arc::clone(&second));
        assert!(handover.take(&mut seen, &mut held) && !handover.is_new(seen));

        assert!(held.is_some_and(|held| Arc::ptr_eq(&held, &second)));
        assert!(weak.upgrade().is_some(), "not freed by the loop");
        handover.give(slots());
        assert!(weak.upgrade().is_none(), "freed by the other side");
    }

    #[test]
    fn the_last_changes_of_roles_arrive_in_order() {
        let changes = RoleChanges::default();
        let mut seen = 0;
        assert!(changes.take(&mut seen).is_none());
        (0..20).for_each(|pid| changes.push(RoleChange { kind: EventKind::OwnerTaken, pid }));
        let taken: Vec<u32> = changes.take(&mut seen).unwrap().map(|change| change.pid).collect();
        assert_eq!(taken, (12..20).collect::<Vec<_>>());
        assert!(changes.take(&mut seen).is_none());
    }
}
