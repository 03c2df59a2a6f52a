//! With whose rights a change on record is undone.
//!
//! A journal is written by its user. Capabilities on the program's file would let its undo do what
//! that user may not: write to other users' tasks, and to files of root. So a change acts on tasks
//! of its user only, and everything else is undone without capabilities, with what the user could
//! do by hand. Root is no ordinary user: nothing is laid aside.

use std::io;

use rustix::io::Errno;

use super::change::Key;
use super::host_files::HostFiles;

/// The task that a setting belongs to, which must be the user's; the user's rights alone bound all
/// others. Each kind is listed, so that a new one cannot be forgotten.
const fn task_of(key: &Key) -> Option<i32> {
    match key {
        Key::Affinity { task, .. } | Key::Task { task, .. } => Some(task.tid),
        Key::File { .. }
        | Key::Irq { .. }
        | Key::Born { .. }
        | Key::CgroupDir { .. }
        | Key::CgroupTask { .. }
        | Key::Controller { .. }
        | Key::Session { .. }
        | Key::Unit { .. }
        | Key::Holder { .. }
        | Key::Interface(_)
        | Key::Register { .. } => None,
    }
}

/// Reads or changes a setting within the rights of its user.
///
/// # Errors
/// `EPERM` for another user's task, and those of the host when capabilities cannot be laid aside.
pub(super) fn within<T>(host: &dyn HostFiles, key: &Key, act: impl FnOnce() -> T) -> io::Result<T> {
    match task_of(key) {
        Some(tid) if host.is_foreign(tid) => Err(Errno::PERM.into()),
        Some(_) => Ok(act()),
        None => {
            let mut act = Some(act);
            let mut result = None;
            host.without_capabilities(&mut || result = act.take().map(|act| act()))?;
            result.ok_or_else(|| io::ErrorKind::Unsupported.into())
        }
    }
}
