//! The tasks that run, with their policies, as `/proc/PID/task/TID/stat` shows them.

use std::fmt;

use super::{Fact, Survey};
use crate::catalogue::host_tree::is_absent;
use crate::catalogue::no_value::NoValue;
use crate::cpu_list::CpuList;
use crate::tasks;

/// Set for kernel threads (`PF_KTHREAD`, include/linux/sched.h).
const KERNEL_FLAG: u64 = 0x0020_0000;
/// Set for kernel threads that are bound to their CPUs for good (`PF_NO_SETAFFINITY`).
const BOUND_FLAG: u64 = 0x0400_0000;
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskStat {
    /// Its number.
    pub tid: i32,
    /// The process it belongs to.
    pub pid: i32,
    /// Its name, at most 15 bytes.
    pub comm: String,
    pub policy: SchedulingPolicy,
    /// 0 for an ordinary task, 1 to 99 for `SCHED_FIFO` and `SCHED_RR`, 100 for `SCHED_DEADLINE`.
    pub priority: i64,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
    flags: u64,
}

impl TaskStat {
    /// Whether it is a kernel thread.
    #[must_use]
    pub const fn is_kernel(&self) -> bool {
        self.flags & KERNEL_FLAG != 0
    }

    /// Whether it is a kernel thread that may run on any CPU and can be moved.
    #[must_use]
    pub fn is_unbound_kernel(&self) -> bool {
        // Threads of interrupts run where their interrupt is sent.
        self.is_kernel() && self.flags & BOUND_FLAG == 0 && !self.comm.starts_with("irq/")
    }

    fn parse(pid: i32, stat: &str) -> Option<Self> {
        // The name may hold blanks and brackets: fields are counted behind the last bracket, from
        // field 3 on.
        let (head, tail) = stat.rsplit_once(')')?;
        let (tid, comm) = head.split_once('(')?;
        let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).copied();
        if matches!(field(3)?, "Z" | "X" | "x") {
            return None;
        }

        let policy = match field(41)?.parse::<u32>().ok()? {
            1 => SchedulingPolicy::Fifo,
            2 => SchedulingPolicy::RoundRobin,
            6 => SchedulingPolicy::Deadline,
            _ => SchedulingPolicy::Ordinary,
        };
        let priority = if policy == SchedulingPolicy::Deadline {
            DEADLINE_PRIORITY
        } else {
            field(40)?.parse().ok()?
        };
        Some(Self {
            tid: tid.trim().parse().ok()?,
            pid,
            comm: comm.to_owned(),
            policy,
            priority,
            start_ticks: field(22)?.parse().ok()?,
            flags: field(9)?.parse().ok()?,
        })
    }
}

/// The tasks of the whole machine.
#[derive(Clone, Debug)]
pub struct TaskTable {
    /// All of them, by process and number.
    pub tasks: Vec<TaskStat>,
}

impl Survey<'_> {
    /// Returns the tasks of the machine.
    ///
    /// # Errors
    /// [`NoValue::Unknown`] where only a part of them is visible: in a container, or with `/proc`
    /// mounted as `hidepid`.
    pub fn tasks(&self) -> Fact<&TaskTable> {
        self.tasks.get_or_init(|| self.read_tasks()).as_ref().map_err(Clone::clone)
    }

    fn read_tasks(&self) -> Fact<TaskTable> {
        // Process 2 is kthreadd where all processes are visible, and nowhere else.
        let sees_all =
            self.host.read("/proc/2/stat").is_ok_and(|stat| stat.starts_with("2 (kthreadd)"));
        if !sees_all {
            let reason = "only a part of the machine's tasks is visible here (a container, hidepid, or an incomplete capture)";
            return Err(NoValue::Unknown(reason.to_owned()));
        }

        let mut all = Vec::new();
        for pid in self.names("/proc")?.iter().filter_map(|name| name.parse::<i32>().ok()) {
            all.extend(self.threads(pid)?);
        }

        Ok(TaskTable { tasks: all })
    }

    /// The threads of a process; none when it has ended since it was listed.
    fn threads(&self, pid: i32) -> Fact<Vec<TaskStat>> {
        let directory = format!("/proc/{pid}/task");
        let tids = match self.host.names(&directory) {
            Ok(tids) => tids,
            Err(error) if is_absent(&error) || tasks::is_gone(&error) => return Ok(Vec::new()),
            Err(error) => return Err(NoValue::from_error(&directory, &error)),
        };

        let mut threads = Vec::new();
        for tid in tids {
            let path = format!("{directory}/{tid}/stat");
            match self.host.read(&path) {
                Ok(stat) => threads.extend(TaskStat::parse(pid, &stat)),
                Err(error) if is_absent(&error) || tasks::is_gone(&error) => {}
                Err(error) => return Err(NoValue::from_error(&path, &error)),
            }
        }

        Ok(threads)
    }

    /// Returns one task, whether or not all of them are visible.
    ///
    /// # Errors
    /// [`NoValue::Unknown`] where it does not exist or cannot be read.
    pub fn task(&self, tid: i32) -> Fact<TaskStat> {
        let stat = self.text(&format!("/proc/{tid}/stat"))?;
        TaskStat::parse(tid, &stat).ok_or_else(|| NoValue::Unknown(format!("task {tid} has ended")))
    }

    /// Returns the CPUs that a task may use; `None` when it has ended.
    ///
    /// # Errors
    /// [`NoValue::Unknown`] where they cannot be read.
    pub fn affinity(&self, tid: i32) -> Fact<Option<CpuList>> {
        if let Some(cpus) = self.host.live_affinity(tid) {
            return Ok(Some(cpus));
        }

        let path = format!("/proc/{tid}/status");
        let status = match self.host.read(&path) {
            Ok(status) => status,
            Err(error) if is_absent(&error) || tasks::is_gone(&error) => return Ok(None),
            Err(error) => return Err(NoValue::from_error(&path, &error)),
        };

        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let cpus = list.and_then(|list| CpuList::parse_list(list).ok());
        cpus.map(Some).ok_or_else(|| NoValue::Unknown(format!("{path} does not list CPUs")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_and_priority_stand_in_fields_40_and_41() {
        let stat = "7 (a) b) S 2 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 -51 0 1 0 9 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 1 50 1 0 0 0";
        let task = TaskStat::parse(7, stat).unwrap();
        assert_eq!(
            (task.comm.as_str(), task.policy, task.priority),
            ("a) b", SchedulingPolicy::Fifo, 50)
        );
        assert!(task.is_unbound_kernel());

        let deadline = TaskStat::parse(7, &stat.replace(" 50 1 0", " 0 6 0")).unwrap();
        assert_eq!((deadline.policy, deadline.priority), (SchedulingPolicy::Deadline, 100));
    }
}
