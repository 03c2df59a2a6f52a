//! The tasks that run, with their policies, as `/proc/PID/task/TID/stat` shows them.

use std::io;

use super::{Fact, Survey, if_there};
use crate::catalogue::no_value::NoValue;
use crate::cpu_list::CpuList;
use crate::tasks::{self, Task};

impl Survey<'_> {
    /// Returns the tasks of the machine, by process and number.
    ///
    /// # Errors
    /// [`NoValue::Unknown`] where only a part of them is visible: in a container, or with `/proc`
    /// mounted as `hidepid`.
    pub fn tasks(&self) -> Fact<&[Task]> {
        let read = || self.read_tasks();
        self.tasks.get_or_init(read).as_ref().map(Vec::as_slice).map_err(Clone::clone)
    }

    fn read_tasks(&self) -> Fact<Vec<Task>> {
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

        Ok(all)
    }

    /// The threads of a process; none when it has ended since it was listed.
    fn threads(&self, pid: i32) -> Fact<Vec<Task>> {
        let directory = format!("/proc/{pid}/task");
        let mut threads = Vec::new();
        for tid in unless_ended(self.host.names(&directory), &directory)?.unwrap_or_default() {
            let path = format!("{directory}/{tid}/stat");
            let stat = unless_ended(self.host.read(&path), &path)?;
            threads.extend(stat.and_then(|stat| Task::parse(pid, &stat)));
        }

        Ok(threads)
    }

    /// Returns one task, whether or not all of them are visible.
    ///
    /// # Errors
    /// [`NoValue::Unknown`] where it does not exist or cannot be read.
    pub fn task(&self, tid: i32) -> Fact<Task> {
        let stat = self.text(&format!("/proc/{tid}/stat"))?;
        Task::parse(tid, &stat).ok_or_else(|| NoValue::Unknown(format!("task {tid} has ended")))
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
        let Some(status) = unless_ended(self.host.read(&path), &path)? else { return Ok(None) };
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let cpus = list.and_then(|list| CpuList::parse_list(list).ok());
        cpus.map(Some).ok_or_else(|| NoValue::Unknown(format!("{path} does not list CPUs")))
    }
}

/// What was read of a task; `None` when it has ended.
fn unless_ended<T>(read: io::Result<T>, path: &str) -> Fact<Option<T>> {
    match read {
        Err(error) if tasks::is_gone(&error) => Ok(None),
        read => if_there(read, path),
    }
}
