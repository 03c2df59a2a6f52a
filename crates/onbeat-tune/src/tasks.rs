//! Running tasks, identified by number and start time.
//!
//! A task is what the scheduler runs: a thread, or a process of one thread. Numbers are reused;
//! number and start time together are not.

use std::collections::BTreeMap;
use std::io;

use rustix::io::Errno;

use super::cpu_list::CpuList;
use super::host_files::HostFiles;

pub use super::task_id::TaskId;

/// Set for kernel threads that are bound to their CPUs permanently (`PF_NO_SETAFFINITY`,
/// include/linux/sched.h).
const BOUND_FLAG: u64 = 0x0400_0000;
/// Set for kernel threads (`PF_KTHREAD`).
const KERNEL_FLAG: u64 = 0x0020_0000;

/// A task as `/proc/PID/stat` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its identity.
    pub id: TaskId,
    /// The process it belongs to.
    pub pid: i32,
    /// Its name, at most 15 bytes.
    pub comm: String,
    parent: i32,
    flags: u64,
    ended: bool,
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

    fn parse(pid: i32, stat: &str) -> Option<Self> {
        // The name may contain blanks and brackets, so fields are counted after the last bracket.
        let (head, tail) = stat.rsplit_once(')')?;
        let (tid, comm) = head.split_once('(')?;
        let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
        Some(Self {
            id: TaskId {
                tid: tid.trim().parse().ok()?,
                start_ticks: fields.get(19)?.parse().ok()?,
            },
            pid,
            comm: comm.to_owned(),
            parent: fields.get(1)?.parse().ok()?,
            flags: fields.get(6)?.parse().ok()?,
            ended: matches!(*fields.first()?, "Z" | "X" | "x"),
        })
    }
}

/// The task with this number; `None` when it does not exist or has ended.
pub fn task(host: &dyn HostFiles, tid: i32) -> Option<Task> {
    let status = host.read(&format!("/proc/{tid}/status")).ok()?;
    let pid = field(&status, "Tgid:")?.parse().ok()?;
    Task::parse(pid, &host.read(&format!("/proc/{tid}/stat")).ok()?).filter(|task| !task.ended)
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
    stats.filter_map(|stat| Task::parse(pid, &stat)).filter(|task| !task.ended).collect()
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
