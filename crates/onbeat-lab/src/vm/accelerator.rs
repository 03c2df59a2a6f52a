//! Chooses KVM or software emulation by running a guest.
//!
//! The device node alone proves nothing: a virtual machine may offer `/dev/kvm` and emulate every
//! instruction of its guests.

use std::fs::File;
use std::io;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::clock::Real;
use super::{BootImage, Guest, Job, VmError, WorkDirectory};

/// Why guests cannot run under KVM.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KvmRefusal {
    /// The device does not exist.
    #[error(
        "this machine has no /dev/kvm: its processor or hypervisor does not offer virtualization, or the module kvm_intel or kvm_amd is not loaded"
    )]
    NoDevice,
    /// The user may not open the device.
    #[error(
        "this user may not open /dev/kvm: `sudo usermod -aG kvm USER` permits it from the next login"
    )]
    NoRights,
    /// The device cannot be opened for another reason.
    #[error("/dev/kvm cannot be opened: {message}")]
    NotOpened {
        /// The kernel's answer.
        message: String,
    },
    /// The canary guest did not end in time.
    #[error("a canary guest under KVM did not end within {limit:?}")]
    Hung {
        /// The limit, in real time.
        limit: Duration,
    },
    /// The canary guest failed.
    #[error("a canary guest under KVM failed: {message}")]
    Failed {
        /// How it ended.
        message: String,
    },
}

impl KvmRefusal {
    fn of_device(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::NoDevice,
            io::ErrorKind::PermissionDenied => Self::NoRights,
            _ => Self::NotOpened { message: error.to_string() },
        }
    }
}

/// Time for the canary guest that suits most hosts: under KVM it takes about a second.
pub const CANARY_LIMIT: Duration = Duration::from_secs(10);

/// Opens the device of KVM and closes it again. A guest may still not run.
///
/// # Errors
/// Why the device cannot be opened.
pub fn open_kvm() -> Result<(), KvmRefusal> {
    let opened = File::options().read(true).write(true).open("/dev/kvm");
    opened.map(drop).map_err(|error| KvmRefusal::of_device(&error))
}

/// Boots a canary guest under KVM and returns the clock of guests that run so, or why they cannot:
/// those of the other clocks run by software emulation. Blocks until the guest ends, at most for
/// `limit`.
///
/// # Errors
/// When the guest cannot be started for a reason that has nothing to do with KVM, or when it is
/// stopped.
pub fn choose_accelerator(
    work: &WorkDirectory,
    boot: &BootImage,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<Result<Real, KvmRefusal>, VmError> {
    if let Err(reason) = open_kvm() {
        return Ok(Err(reason));
    }

    let mut canary = Guest::new(boot.clone(), Real::assume());
    canary.limit = limit;
    let mut job = Job::new();
    job.command(["true"]);
    let reason = match canary.run(work, &job, stop) {
        Ok(result) => {
            result.remove_directory()?;
            return result.succeeded().map(|()| Ok(Real::assume()));
        }
        Err(VmError::Timeout { limit, .. }) => KvmRefusal::Hung { limit },
        Err(
            error @ (VmError::Incomplete { .. } | VmError::Qemu { .. } | VmError::Killed { .. }),
        ) => KvmRefusal::Failed { message: error.to_string() },
        Err(error) => return Err(error),
    };
    Ok(Err(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_way_on() {
        let denied = KvmRefusal::of_device(&io::ErrorKind::PermissionDenied.into()).to_string();
        assert!(denied.contains("usermod -aG kvm"), "{denied}");
        let absent = KvmRefusal::of_device(&io::ErrorKind::NotFound.into()).to_string();
        assert!(absent.starts_with("this machine has no /dev/kvm"), "{absent}");

        let reason = KvmRefusal::Hung { limit: Duration::from_secs(10) };
        assert_eq!(
            VmError::NoKvm { reason }.to_string(),
            "the real clock needs KVM: a canary guest under KVM did not end within 10s; use the virtual clock to rank kernels and settings"
        );
    }
}
