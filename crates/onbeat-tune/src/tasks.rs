//! Running tasks, identified by number and start time.
//!
//! A task is what the scheduler runs: a thread, or a process of one thread. Numbers are reused;
//! number and start time together are not.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use onbeat_host::foreign::printable;
use onbeat_host::process::StatLine;
use rustix::io::Errno;

use super::cpu_list::CpuList;
use super::host_files::HostFiles;

pub use super::task_id::TaskId;

/// Set for kernel threads that are bound to their CPUs permanently (`PF_NO_SETAFFINITY`,
/// include/linux/sched.h).
const BOUND_FLAG: u64 = 0x0400_0000;
/// Set for kernel threads (`PF_KTHREAD`), in field 9 of a `stat`.
pub(super) const KERNEL_FLAG: u64 = 0x0020_0000;
/// Above all priorities of `SCHED_FIFO`: a deadline thread precedes them.
const DEADLINE_PRIORITY: i64 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedulingPolicy {
    /// `SCHED_OTHER`, `SCHED_BATCH`, `SCHED_IDLE` or `SCHED_EXT`.
    Ordinary,
    /// `SCHED_FIFO`.
    Fifo,
    /// `SCHED_RR`.
    RoundRobin,
    /// `SCHED_DEADLINE`.
    Deadline,
}

impl fmt::Display for SchedulingPolicy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Ordinary => "other",
            Self::Fifo => "fifo",
            Self::RoundRobin => "rr",
            Self::Deadline => "deadline",
        })
    }
}

/// A task as `/proc/PID/stat` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its identity.
    pub id: TaskId,
    /// The process it belongs to.
    pub pid: i32,
    /// Its name, at most 15 bytes, printable.
    pub comm: String,
    pub policy: SchedulingPolicy,
    /// 0 for an ordinary task, 1 to 99 for `SCHED_FIFO` and `SCHED_RR`, 100 for `SCHED_DEADLINE`.
    pub priority: i64,
    parent: i32,
    flags: u64,
}

impl Task {
    /// The process that started its process; 0 for the first ones.
    #[must_use]
    pub const fn parent(&self) -> i32 {
        self.parent
    }

    /// Whether it is a kernel thread.
    #[must_use]
    pub const fn is_kernel(&self) -> bool {
        self.flags & KERNEL_FLAG != 0
    }

    /// Whether it is a kernel thread bound to its CPUs: neither affinity nor cpuset can move it.
    #[must_use]
    pub const fn is_bound(&self) -> bool {
        self.flags & BOUND_FLAG != 0
    }

    /// Whether it serves an interrupt, and so runs where the interrupt is sent.
    #[must_use]
    pub fn follows_interrupt(&self) -> bool {
        self.is_kernel() && self.comm.starts_with("irq/")
    }

    /// Whether it is a kernel thread that may run on any CPU and can be moved.
    #[must_use]
    pub fn is_unbound_kernel(&self) -> bool {
        self.is_kernel() && !self.is_bound() && !self.follows_interrupt()
    }

    /// Whether it is the thread of a virtual CPU.
    #[must_use]
    pub fn is_vcpu(&self) -> bool {
        is_vcpu(&self.comm)
    }

    /// Whether it is another thread of a process with virtual CPUs.
    pub(super) fn is_beside_vcpu<'t>(&self, all: impl IntoIterator<Item = &'t Self>) -> bool {
        !self.is_vcpu() && all.into_iter().any(|other| other.pid == self.pid && other.is_vcpu())
    }

    /// `None` also for a task that has ended.
    pub(super) fn parse(pid: i32, stat: &str) -> Option<Self> {
        let stat = StatLine::parse(stat)?;
        if matches!(stat.field(3)?, "Z" | "X" | "x") {
            return None;
        }

        let policy = match stat.field(41) {
            Some("1") => SchedulingPolicy::Fifo,
            Some("2") => SchedulingPolicy::RoundRobin,
            Some("6") => SchedulingPolicy::Deadline,
            _ => SchedulingPolicy::Ordinary,
        };
        let priority = match policy {
            SchedulingPolicy::Deadline => DEADLINE_PRIORITY,
            _ => stat.field(40).map_or(Some(0), |priority| priority.parse().ok())?,
        };
        Some(Self {
            id: TaskId { tid: stat.id, start_ticks: stat.number(22)? },
            pid,
            comm: printable(stat.name),
            policy,
            priority,
            parent: stat.number(4)?,
            flags: stat.number(9)?,
        })
    }
}

/// Whether a thread of this name runs a virtual CPU.
pub(super) fn is_vcpu(comm: &str) -> bool {
    comm.starts_with("CPU ") && comm.ends_with("/KVM")
}

/// The task with this number; `None` when it does not exist or has ended.
pub fn task(host: &dyn HostFiles, tid: i32) -> Option<Task> {
    let status = host.read(&format!("/proc/{tid}/status")).ok()?;
    let pid = field(&status, "Tgid:")?.parse().ok()?;
    Task::parse(pid, &host.read(&format!("/proc/{tid}/stat")).ok()?)
}

/// Whether this task is still running.
pub fn is_alive(host: &dyn HostFiles, id: TaskId) -> bool {
    task(host, id.tid).is_some_and(|now| now.id == id)
}

/// Whether this task is still running and its CPUs can be set: the kernel makes a worker before it
/// binds it, and one that was found in between has the CPUs it was made for since.
pub(super) fn is_movable(host: &dyn HostFiles, id: TaskId) -> bool {
    task(host, id.tid).is_some_and(|now| now.id == id && !now.is_bound())
}

/// All tasks by number, without those that end during the call.
///
/// # Errors
/// When `/proc` itself cannot be listed.
pub fn all(host: &dyn HostFiles) -> io::Result<BTreeMap<i32, Task>> {
    let mut found = BTreeMap::new();
    for pid in numbers(host, "/proc")? {
        found.extend(threads(host, pid).into_iter().map(|task| (task.id.tid, task)));
    }
    Ok(found)
}

/// The tasks of a process; none when it is gone.
pub fn threads(host: &dyn HostFiles, pid: i32) -> Vec<Task> {
    let tids = numbers(host, &format!("/proc/{pid}/task")).unwrap_or_default();
    let stats =
        tids.into_iter().filter_map(|tid| host.read(&format!("/proc/{pid}/task/{tid}/stat")).ok());
    stats.filter_map(|stat| Task::parse(pid, &stat)).collect()
}

/// The affinity mask of a task, offline CPUs included.
///
/// # Errors
/// `ESRCH` when the task is gone.
pub fn affinity(host: &dyn HostFiles, tid: i32) -> io::Result<CpuList> {
    let status = host.read(&format!("/proc/{tid}/status")).map_err(gone)?;
    let list = field(&status, "Cpus_allowed_list:").ok_or(Errno::SRCH)?;
    CpuList::parse_list(list).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

/// Whether an error only means that the task has ended.
#[must_use]
pub fn is_gone(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::SRCH | Errno::NOENT))
}

/// The tasks of a process and of its descendants by number.
///
/// # Errors
/// When `/proc` itself cannot be listed.
pub fn descendants(host: &dyn HostFiles, ancestor: i32) -> io::Result<BTreeMap<i32, Task>> {
    let all = all(host)?;
    let family: BTreeMap<i32, Task> = all
        .iter()
        .filter(|(_, task)| descends(&all, task.pid, ancestor))
        .map(|(tid, task)| (*tid, task.clone()))
        .collect();
    Ok(family)
}

/// The cgroup of a task below the mount of `hierarchy` (a v1 controller's name, or nothing for v2).
pub fn cgroup_of(host: &dyn HostFiles, tid: i32, hierarchy: &str) -> Option<String> {
    let lines = host.read(&format!("/proc/{tid}/cgroup")).ok()?;
    lines.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let controllers = parts.next()?;
        let path = parts.next()?;
        controllers.split(',').any(|name| name == hierarchy).then(|| path.to_owned())
    })
}

/// Whether `pid` is `ancestor` or one of its descendants in `tasks`.
pub(super) fn descends(tasks: &BTreeMap<i32, Task>, pid: i32, ancestor: i32) -> bool {
    // A table read while processes end can contain a cycle; no line of descent is longer than the
    // table.
    let mut at = pid;
    for _ in 0..=tasks.len() {
        if at == ancestor {
            return true;
        }
        match tasks.get(&at) {
            Some(task) => at = task.parent,
            None => return false,
        }
    }

    false
}

fn gone(error: io::Error) -> io::Error {
    if is_gone(&error) { Errno::SRCH.into() } else { error }
}

fn field<'s>(status: &'s str, name: &str) -> Option<&'s str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

pub(super) fn numbers(host: &dyn HostFiles, path: &str) -> io::Result<Vec<i32>> {
    let mut numbers: Vec<i32> =
        host.directories(path)?.iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Clock ticks since boot; there are 100 a second for every program (`USER_HZ`), whatever the
/// kernel's own rate is.
pub(super) fn now_ticks(host: &dyn HostFiles) -> u64 {
    const TICKS_PER_HUNDREDTH: u64 = 1;
    let uptime = host.read("/proc/uptime").unwrap_or_default();
    let (seconds, hundredths) =
        uptime.split_whitespace().next().and_then(|up| up.split_once('.')).unwrap_or(("0", "0"));
    let number = |text: &str| text.parse::<u64>().unwrap_or(0);
    number(seconds) * 100 + number(hundredths) * TICKS_PER_HUNDREDTH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_shift_the_fields() {
        let stat = "12 (a) b) (c)) S 3 4 5 0 -1 69238880 1 2 3 4 5 6 7 8 20 0 1 0 9876 1000 200";
        let task = Task::parse(11, stat).unwrap();
        assert_eq!(
            (task.id, task.comm.as_str(), task.parent),
            (TaskId { tid: 12, start_ticks: 9876 }, "a) b) (c)", 3)
        );
        assert!(task.is_bound() && task.is_kernel());
        assert_eq!(Task::parse(12, "12 (cut of"), None);
    }

    #[test]
    fn policy_and_priority_stand_in_fields_40_and_41() {
        let stat = "7 (a) b) S 2 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 -51 0 1 0 9 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 1 50 1 0 0 0";
        let task = Task::parse(7, stat).unwrap();
        assert_eq!((task.policy, task.priority), (SchedulingPolicy::Fifo, 50));
        assert!(task.is_unbound_kernel());

        let deadline = Task::parse(7, &stat.replace(" 50 1 0", " 0 6 0")).unwrap();
        assert_eq!((deadline.policy, deadline.priority), (SchedulingPolicy::Deadline, 100));
    }

    #[test]
    fn this_thread_is_found_with_its_process_and_its_cpus() {
        let host = crate::live_host::LiveHost::new();
        let own = host.own_pid();
        let found = task(&host, own).unwrap();
        assert_eq!((found.pid, found.is_kernel(), is_alive(&host, found.id)), (own, false, true));
        assert!(!is_alive(&host, TaskId { start_ticks: found.id.start_ticks + 1, ..found.id }));
        assert!(!affinity(&host, own).unwrap().is_empty());
        assert_eq!(
            affinity(&host, i32::MAX).unwrap_err().raw_os_error(),
            Some(Errno::SRCH.raw_os_error())
        );
    }
}
