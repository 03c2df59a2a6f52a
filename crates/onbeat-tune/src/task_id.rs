//! The identity of a task.

use serde::{Deserialize, Serialize};

/// One task, never mistaken for a later one of the same number.
///
/// ```
/// use onbeat_tune::tasks::{is_alive, task};
/// use onbeat_tune::{HostFiles, LiveHost};
///
/// let host = LiveHost::new();
/// let own = task(&host, host.own_pid()).expect("this process runs");
/// assert!(is_alive(&host, own.id));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskId {
    /// The task's number.
    pub tid: i32,
    /// When it started, in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub start_ticks: u64,
}
