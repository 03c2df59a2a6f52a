//! The lock of a run file: one process writes it.

use std::fs::File;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Whether a process has a run file open for writing. The lock of a killed writer is released.
pub(crate) fn is_being_written(path: &Path) -> bool {
    onbeat_host::foreign::open(path).is_ok_and(|file| {
        flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
    })
}

/// Locks a run file for its writer. A reader shares the lock for a moment when it looks whether the
/// file is written: its end is awaited, however long it gets no CPU. Where files cannot be locked,
/// none is.
pub(super) fn lock_of(file: &File) -> Result<(), ()> {
    const EVERY: Duration = Duration::from_millis(5);
    /// Looks at a lock that another writer has, and at any lock.
    const OF_A_WRITER: u32 = 5;
    const MOST: u32 = 2_000;
    let is_refused = |operation| flock(file, operation) == Err(Errno::WOULDBLOCK);
    let mut of_a_writer = 0;
    for _ in 0..MOST {
        if !is_refused(FlockOperation::NonBlockingLockExclusive) {
            return Ok(());
        }
        if is_refused(FlockOperation::NonBlockingLockShared) {
            of_a_writer += 1;
            if of_a_writer == OF_A_WRITER {
                return Err(());
            }
        } else {
            // Shared with a reader, it must not keep another writer waiting.
            let _ = flock(file, FlockOperation::Unlock);
        }
        sleep(EVERY);
    }

    Err(())
}
