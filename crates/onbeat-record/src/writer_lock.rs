//! The lock of a run file: one process writes it.

use std::fs::File;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

/// Whether a process has a run file open for writing. The lock of a killed writer is released.
pub(crate) fn is_being_written(path: &Path) -> bool {
    onbeat_host::foreign::open(path).is_ok_and(|file| {
        flock(&file, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK)
    })
}

/// Locks a run file for its writer. A reader has it for a moment when it looks whether it is
/// written; where files cannot be locked, none is.
pub(super) fn lock_of(file: &File) -> Result<(), ()> {
    const TRIES: u32 = 5;
    for _ in 0..TRIES {
        if flock(file, FlockOperation::NonBlockingLockExclusive)
            != Err(rustix::io::Errno::WOULDBLOCK)
        {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }

    Err(())
}
