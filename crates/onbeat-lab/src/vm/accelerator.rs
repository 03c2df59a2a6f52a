//! Chooses KVM or software emulation by running a guest.
//!
//! The device node is not enough: a virtual machine may offer `/dev/kvm` and emulate every
//! instruction of its guests.

use std::fs::File;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::clock::Real;
use super::{BootImage, Guest, Job, VmError, WorkDirectory};

/// How guests run on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accelerator {
    /// KVM: guests have the [`Real`] clock.
    Kvm(Real),
    /// Software emulation, with the [`Virtual`](super::Virtual) or the [`Free`](super::Free) clock.
    Emulation {
        /// Why KVM cannot be used, as a sentence without its full stop.
        reason: String,
    },
}

/// Time for the canary guest that suits most hosts: under KVM it takes about a second.
pub const CANARY_LIMIT: Duration = Duration::from_secs(10);

/// Boots a canary guest under KVM and returns the accelerator that works. Blocks until the guest
/// ends, at most for `limit`.
///
/// # Errors
/// When the guest cannot be started for a reason that has nothing to do with KVM, or when it is
/// stopped.
pub fn choose_accelerator(
    work: &WorkDirectory,
    boot: &BootImage,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<Accelerator, VmError> {
    if let Err(error) = File::options().read(true).write(true).open("/dev/kvm") {
        return Ok(Accelerator::Emulation {
            reason: format!("/dev/kvm cannot be opened: {error}"),
        });
    }

    let mut canary = Guest::new(boot.clone(), Real::assume());
    canary.limit = limit;
    let mut job = Job::new();
    job.command(["true"]);
    match canary.run(work, &job, stop) {
        Ok(result) => result.succeeded().map(|()| Accelerator::Kvm(Real::assume())),
        Err(
            error @ (VmError::Timeout { .. } | VmError::Incomplete { .. } | VmError::Qemu { .. }),
        ) => Ok(Accelerator::Emulation { reason: format!("a guest under KVM failed: {error}") }),
        Err(error) => Err(error),
    }
}
