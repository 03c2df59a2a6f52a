//! Who owns the outputs, and writes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::ControlError;
use super::client::{CycleWaiter, Snapshot};
use super::image::MappedImage;
use super::process::Process;

/// The outputs of a bus are this process's until it is dropped. Outputs count for as many cycles as the bus was told
/// ([`ImageSettings::stale_after_cycles`](super::ImageSettings::stale_after_cycles)); an owner refreshes them in each.
#[derive(Debug)]
pub struct Owner {
    shared: Arc<MappedImage>,
    waiter: CycleWaiter,
    outputs: Vec<u8>,
}

/// A place that one process at a time has, and the one that left it in order last.
#[derive(Clone, Copy)]
pub(super) struct ClaimWords<'s> {
    pub(super) holder: &'s AtomicU64,
    pub(super) left: &'s AtomicU64,
}

impl ClaimWords<'_> {
    /// Takes it, unless a living process has it: then that one is the error.
    pub(super) fn take(self, me: Process) -> Result<(), Process> {
        // A claim after an orderly end must not look like that end.
        let _ = self.left.compare_exchange(me.word(), 0, Ordering::AcqRel, Ordering::Relaxed);
        let mut word = self.holder.load(Ordering::Acquire);
        loop {
            if let Some(holder) = Process::from_word(word)
                && holder.is_alive()
            {
                return Err(holder);
            }

            match self.holder.compare_exchange(word, me.word(), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(()),
                Err(now) => word = now,
            }
        }
    }

    pub(super) fn leave(self, me: Process) {
        self.left.store(me.word(), Ordering::Release);
        let _ = self.holder.compare_exchange(me.word(), 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Frees it of a dead process.
    pub(super) fn free_of_dead(self) {
        let word = self.holder.load(Ordering::Acquire);
        if Process::from_word(word).is_some_and(|process| !process.is_alive()) {
            // If another one took it meanwhile, it is that one's.
            let _ = self.holder.compare_exchange(word, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

/// The place of whoever owns the outputs.
pub(super) fn place(shared: &MappedImage) -> ClaimWords<'_> {
    let live = shared.live();
    ClaimWords { holder: &live.owner.0, left: &live.left.0 }
}

/// Takes the outputs for this process.
pub(super) fn claim(shared: &MappedImage) -> Result<(), ControlError> {
    let owned =
        |owner: Process| ControlError::Owned { name: shared.name.clone(), pid: owner.pid(), process: owner.name() };
    place(shared).take(shared.me).map_err(owned)
}

impl Owner {
    pub(super) fn new(shared: Arc<MappedImage>) -> Result<Self, ControlError> {
        shared.check_alive()?;
        claim(&shared)?;
        let outputs = vec![0; shared.size.outputs];
        Ok(Self { waiter: CycleWaiter::new(&shared), shared, outputs })
    }

    /// Sets all outputs; the bus takes them in its next cycle. Whole or not at all, also when this process dies meanwhile. Waits for
    /// nobody where the sharing is wait-free.
    ///
    /// # Errors
    /// [`ControlError::OutputLength`]; [`ControlError::BusEnded`] and [`ControlError::BusReplaced`] when the bus is gone.
    pub fn write(&mut self, outputs: &[u8]) -> Result<(), ControlError> {
        if outputs.len() != self.outputs.len() {
            return Err(ControlError::OutputLength { given: outputs.len(), wanted: self.outputs.len() });
        }
        self.outputs.copy_from_slice(outputs);
        self.publish()
    }

    /// Changes the outputs: `change` gets those that were written last (zeros at first).
    ///
    /// # Errors
    /// As [`Owner::write`].
    pub fn write_with(&mut self, change: impl FnOnce(&mut [u8])) -> Result<(), ControlError> {
        change(&mut self.outputs);
        self.publish()
    }

    /// Waits for the next cycle and reads it, at most so long. An owner's loop is: wait, compute, write. `false` when there was none
    /// in time.
    ///
    /// # Errors
    /// As [`Client::read`](super::Client::read).
    pub fn wait_cycle(&mut self, into: &mut Snapshot, timeout: Duration) -> Result<bool, ControlError> {
        if !self.waiter.wait_beyond(&self.shared, into.number, timeout)? {
            return Ok(false);
        }
        self.waiter.read(&self.shared, into)?;
        Ok(true)
    }

    /// What [`Owner::wait_cycle`] reads into.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::for_image(&self.shared)
    }

    fn publish(&self) -> Result<(), ControlError> {
        self.shared.check()?;
        let _held = self.shared.hold();
        self.shared.outputs().publish(&[&self.shared.me.word().to_ne_bytes(), &self.outputs]);
        Ok(())
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        {
            let _held = self.shared.hold();
            // Outputs of nobody: a later claim of this process begins without any.
            self.shared.outputs().publish(&[&[0; 8]]);
        }
        place(&self.shared).leave(self.shared.me);
    }
}
