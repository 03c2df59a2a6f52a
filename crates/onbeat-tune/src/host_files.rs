//! The only access to `/proc`, `/sys` and the system calls, so that tests run the rest of the crate
//! on a fake host.
//!
//! Absent on purpose: caching. A comparison before a restore needs the kernel's current value.

use std::io;

use super::cpu_list::CpuList;
use super::interfaces::MadeInterface;
use super::task_id::TaskId;
use super::task_setting::TaskSetting;

/// A host whose settings can be read and changed. Paths are absolute, as on the live host.
///
/// Every method returns the kernel's error as `io::Error` with its number.
///
/// ```
/// use onbeat_tune::{HostFiles, LiveHost};
///
/// /// How long real-time tasks may run per second, in microseconds; -1 for no limit.
/// fn rt_runtime_us(host: &dyn HostFiles) -> std::io::Result<i64> {
///     let text = host.read("/proc/sys/kernel/sched_rt_runtime_us")?;
///     text.trim().parse().map_err(std::io::Error::other)
/// }
///
/// # if std::path::Path::new("/proc/sys/kernel/sched_rt_runtime_us").exists() {
/// assert!(rt_runtime_us(&LiveHost::new())? <= 1_000_000);
/// # }
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait HostFiles {
    /// Reads the whole text of a file.
    ///
    /// # Errors
    /// The kernel's.
    fn read(&self, path: &str) -> io::Result<String>;

    /// Writes `text` to an existing file in a single system call.
    ///
    /// # Errors
    /// The kernel's.
    fn write(&self, path: &str, text: &str) -> io::Result<()>;

    /// Returns the names of the directories in `path`, unordered.
    ///
    /// # Errors
    /// The kernel's.
    fn directories(&self, path: &str) -> io::Result<Vec<String>>;

    /// Creates a directory (a cgroup).
    ///
    /// # Errors
    /// The kernel's.
    fn create_dir(&self, path: &str) -> io::Result<()>;

    /// Removes a directory (a cgroup).
    ///
    /// # Errors
    /// The kernel's; `EBUSY` while tasks are in it.
    fn remove_dir(&self, path: &str) -> io::Result<()>;

    /// Sets the affinity mask of a task.
    ///
    /// # Errors
    /// The kernel's; `EINVAL` when none of them is in the task's cpuset, `ESRCH` when it is gone.
    fn set_affinity(&self, tid: i32, cpus: &CpuList) -> io::Result<()>;

    /// Kills the remaining processes of the session `sid`, whose leader started at `start_ticks`
    /// (clock ticks since boot). Returns the number of killed processes.
    ///
    /// # Errors
    /// `Unsupported` on a host without a way to kill sessions; the kernel's where `/proc` cannot be
    /// listed.
    fn kill_session(&self, sid: i32, start_ticks: u64) -> io::Result<usize>;

    /// Returns the policy of a task, as [`onbeat_host::policy`] writes it.
    ///
    /// # Errors
    /// The kernel's; `Unsupported` on a host without policies.
    fn scheduling(&self, _tid: i32) -> io::Result<String> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Sets the policy of a task.
    ///
    /// # Errors
    /// The kernel's; `InvalidInput` for a text that is not a policy.
    fn set_scheduling(&self, _tid: i32, _text: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Sets soft and hard limit of a process.
    ///
    /// # Errors
    /// The kernel's; `InvalidInput` for what is not a limit, `PermissionDenied` for a lower hard
    /// limit that could not be raised again.
    fn set_limit(&self, _pid: i32, _limit: TaskSetting, _value: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns `active` or `inactive` for a unit of systemd.
    ///
    /// # Errors
    /// When systemd cannot be asked.
    fn unit_state(&self, _unit: &str) -> io::Result<String> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Starts or stops a unit of systemd.
    ///
    /// # Errors
    /// systemd's message.
    fn set_unit_state(&self, _unit: &str, _state: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Starts a process that opens `path`, writes `text` and keeps it open. Calls `record` with it
    /// before the file is opened.
    ///
    /// # Errors
    /// The kernel's, or that of `record`; then the process has ended.
    fn hold_open(
        &self,
        _path: &str,
        _text: &str,
        _record: &mut dyn FnMut(TaskId) -> io::Result<()>,
    ) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Ends a process, never a later one of the same number.
    ///
    /// # Errors
    /// `ESRCH` when it has ended.
    fn end_process(&self, _process: TaskId) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns a model-specific register of a CPU.
    ///
    /// # Errors
    /// The kernel's; `ENOENT` while the module msr is not loaded.
    fn read_register(&self, _cpu: u32, _register: u32) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Writes a model-specific register of a CPU.
    ///
    /// # Errors
    /// The kernel's; `EPERM` under lockdown.
    fn write_register(&self, _cpu: u32, _register: u32, _value: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Whether an interface exists that a run has made.
    ///
    /// # Errors
    /// When the interfaces cannot be listed.
    fn has_interface(&self, _interface: &MadeInterface) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Removes an interface that a run has made, and no other of its name.
    ///
    /// # Errors
    /// The kernel's; `ENOENT` when it does not exist any more.
    fn remove_interface(&self, _interface: &MadeInterface) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Whether a task belongs to another user and this user is not root: whatever capabilities this
    /// program has, the task is not the user's to change.
    fn is_foreign(&self, _tid: i32) -> bool {
        false
    }

    /// Does `act` without capabilities where the user is not root.
    ///
    /// # Errors
    /// The kernel's when they cannot be laid aside; then `act` was not called.
    fn without_capabilities(&self, act: &mut dyn FnMut()) -> io::Result<()> {
        act();
        Ok(())
    }

    /// Whether this is the machine that the process runs on.
    fn is_live(&self) -> bool {
        false
    }

    /// Whether a path is on a file system that this process may write.
    fn may_write(&self, _path: &str) -> bool {
        true
    }

    /// Whether this process may move other users' tasks (`CAP_SYS_NICE`): now, and in its bounding
    /// set.
    fn may_move_tasks(&self) -> (bool, bool) {
        (true, true)
    }

    /// Whether the effective user is root.
    fn is_root(&self) -> bool;

    /// The number of this process.
    fn own_pid(&self) -> i32;

    /// Wall clock, in seconds since 1970; only for names and sentences.
    fn unix_seconds(&self) -> u64;

    /// Waits about 2 ms, in which tasks can end.
    fn pause(&self);
}
