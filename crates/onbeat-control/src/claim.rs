//! Roles that one process at a time holds: the owner of the outputs, the commander of the joints.

use std::sync::atomic::{AtomicU64, Ordering};

use super::error::ControlError;
use super::image::MappedImage;
use super::process::Process;

/// Words of a role that one process at a time holds: the holder, and the last one that left in
/// order.
#[derive(Clone, Copy)]
pub(super) struct ClaimWords<'s> {
    pub(super) holder: &'s AtomicU64,
    pub(super) left: &'s AtomicU64,
}

impl ClaimWords<'_> {
    /// Takes the role, unless a living process holds it, which is returned as the error.
    pub(super) fn take(self, me: Process) -> Result<(), Process> {
        // A new claim by this process must not look like its earlier orderly end.
        let _ = self.left.compare_exchange(me.word(), 0, Ordering::AcqRel, Ordering::Relaxed);
        let mut word = self.holder.load(Ordering::Acquire);
        loop {
            if let Some(holder) = Process::from_word(word)
                && holder.is_alive()
            {
                return Err(holder);
            }

            match self.holder.compare_exchange(word, me.word(), Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Ok(()),
                Err(now) => word = now,
            }
        }
    }

    pub(super) fn leave(self, me: Process) {
        self.left.store(me.word(), Ordering::Release);
        let _ = self.holder.compare_exchange(me.word(), 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Frees the role of a dead process.
    pub(super) fn free_of_dead(self) {
        let word = self.holder.load(Ordering::Acquire);
        if Process::from_word(word).is_some_and(|process| !process.is_alive()) {
            // If another process took it in between, that one keeps it.
            let _ = self.holder.compare_exchange(word, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

/// Returns the words of the owner role.
pub(super) fn owner(shared: &MappedImage) -> ClaimWords<'_> {
    let live = shared.live();
    ClaimWords { holder: &live.owner.0, left: &live.left.0 }
}

/// Returns the words of the commander role.
pub(super) fn commander(shared: &MappedImage) -> ClaimWords<'_> {
    let live = shared.live();
    ClaimWords { holder: &live.commander.0, left: &live.commander_left.0 }
}

/// Claims the outputs for this process.
pub(super) fn take_outputs(shared: &MappedImage) -> Result<(), ControlError> {
    let owned = |owner: Process| ControlError::Owned {
        name: shared.name.clone(),
        pid: owner.pid(),
        process: owner.name(),
    };
    owner(shared).take(shared.me).map_err(owned)
}
