//! Finds the loop's thread in a running process.

use std::fs;

use super::error::Error;
use super::fault::Fault;
use super::plan::InjectionTarget;
use onbeat_host::machine::cpu_list;
use onbeat_host::process::{self, StatLine};

/// Name of the loop's thread in onbeat.
const LOOP_NAME: &str = "onbeat-loop";

/// State of a thread, from `/proc`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ThreadSnapshot {
    tid: i32,
    name: String,
    /// `SCHED_FIFO` or `SCHED_RR` priority; 0 for other policies.
    priority: u32,
    /// The CPU that it last ran on.
    cpu: u32,
    /// The CPUs that it may run on.
    allowed: Vec<u32>,
}

impl InjectionTarget {
    /// Finds the loop of a running process: the thread named `onbeat-loop`, or else the one with
    /// the highest real-time priority. Its CPU is `cpu` if given, or else the one that it is
    /// bound to or last ran on.
    ///
    /// # Errors
    /// [`Error::NotPossible`] if the process does not exist, or has no thread that could be its
    /// loop.
    pub fn find(fault: Fault, pid: i32, cpu: Option<u32>) -> Result<Self, Error> {
        let impossible = |reason: String| Error::NotPossible { fault, reason };
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).map_err(|why| {
            impossible(format!("process {pid} cannot be read ({why}); is it still running?"))
        })?;
        let threads: Vec<ThreadSnapshot> =
            tasks.flatten().filter_map(|task| read(pid, task.file_name().to_str()?)).collect();
        let chosen = chosen(&threads).ok_or_else(|| {
            impossible(format!(
                "process {pid} has no thread named {LOOP_NAME} and none with a real-time priority"
            ))
        })?;
        let bound = if let [only] = chosen.allowed[..] { only } else { chosen.cpu };

        Ok(Self { pid, tid: chosen.tid, cpu: cpu.unwrap_or(bound), priority: chosen.priority })
    }
}

fn chosen(threads: &[ThreadSnapshot]) -> Option<&ThreadSnapshot> {
    let named = threads.iter().find(|thread| thread.name == LOOP_NAME);
    named.or_else(|| {
        threads.iter().filter(|thread| thread.priority > 0).max_by_key(|thread| thread.priority)
    })
}

/// By its process: the number alone may be that of another one's thread by now.
fn read(pid: i32, tid: &str) -> Option<ThreadSnapshot> {
    let task = format!("{pid}/task/{tid}");
    let stat = process::text(&task, "stat").ok()?;
    let status = process::text(&task, "status").unwrap_or_default();
    parsed(&stat, &status)
}

/// Fields as in proc(5): processor is 39, rt_priority 40, policy 41.
fn parsed(stat: &str, status: &str) -> Option<ThreadSnapshot> {
    let stat = StatLine::parse(stat)?;
    let policies = [libc::SCHED_FIFO, libc::SCHED_RR].map(i32::unsigned_abs);
    let is_real_time = policies.contains(&stat.number(41)?);
    let allowed =
        status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or_default();
    Some(ThreadSnapshot {
        tid: stat.id,
        name: stat.name.to_owned(),
        priority: if is_real_time { stat.number(40)? } else { 0 },
        cpu: stat.number(39)?,
        allowed: cpu_list(allowed.trim()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(tid: i32, name: &str, priority: u32) -> ThreadSnapshot {
        ThreadSnapshot { tid, name: name.to_owned(), priority, cpu: 0, allowed: vec![0, 1] }
    }

    #[test]
    fn a_thread_is_read_whatever_its_name() {
        let zeros = "0 ".repeat(35);
        let stat = format!("77 (a) (b) S {zeros}1 80 1 0 0");
        let thread = parsed(&stat, "Name:\tx\nCpus_allowed_list:\t1\n");
        let expected = ThreadSnapshot { cpu: 1, allowed: vec![1], ..seen(77, "a) (b", 80) };
        assert_eq!(thread, Some(expected.clone()));
        let round_robin = parsed(&stat.replace(" 80 1 ", " 80 2 "), "Cpus_allowed_list:\t1\n");
        assert_eq!(round_robin, Some(expected.clone()), "SCHED_RR");
        let ordinary = parsed(&stat.replace(" 80 1 ", " 0 0 "), "Cpus_allowed_list:\t1\n");
        assert_eq!(ordinary, Some(ThreadSnapshot { priority: 0, ..expected }));
    }

    #[test]
    fn the_loop_is_the_one_with_the_name_or_the_highest_priority() {
        let threads = [seen(1, "robot", 0), seen(2, "control", 80), seen(3, "camera", 40)];
        assert_eq!(chosen(&threads).map(|thread| thread.tid), Some(2));
        let named = [seen(1, "robot", 90), seen(2, LOOP_NAME, 0)];
        assert_eq!(chosen(&named).map(|thread| thread.tid), Some(2));
        assert_eq!(chosen(&threads[..1]), None);
    }
}
