//! Offsets of the kernel's members that the programs of the loop's path read.

use super::btf::{Btf, BtfError};

/// Offsets in the kernel's structures, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offsets {
    pub(super) pid: i16,
    pub(super) prio: i16,
    /// `task_struct.__state`, before Linux 5.14 `state`.
    pub(super) state: i16,
    pub(super) exit_state: i16,
    pub(super) cpu: i16,
    pub(super) comm: i32,
    /// Kernel stack of the thread.
    pub(super) stack: i32,
    pub(super) timer_expires: i16,
    pub(super) timer_softexpires: i16,
    pub(super) timer_function: i16,
    /// Offsets that lead from a thread to the run queue of its CPU.
    pub(super) queue: [i32; 2],
    /// Steal time of a run queue's CPU: `rq.prev_steal_time_rq`, with
    /// CONFIG_PARAVIRT_TIME_ACCOUNTING.
    pub(super) steal: Option<i32>,
    pub(super) throttled: Option<Throttled>,
    /// The deadline server that chose the thread: `task_struct.dl_server`, from Linux 6.8 on.
    pub(super) server: Option<i32>,
    /// Requests to stop in the kernel, the cgroup freezer's among them: `task_struct.jobctl`.
    pub(super) stop_requests: Option<i32>,
}

/// Location of the scheduler's flag for throttled real-time threads (`rt_rq.rt_throttled`).
#[derive(Clone, Copy, Debug)]
pub(super) enum Throttled {
    /// With CONFIG_RT_GROUP_SCHED each group is throttled separately: offset of the group's queue
    /// in the thread, then of the flag.
    OfGroup(i32, i32),
    /// Offset in the CPU's run queue.
    OfCpu(i32),
}

impl Offsets {
    pub(super) fn from_btf(btf: &Btf) -> Result<Self, BtfError> {
        let near = |structure: &str, member: &str| -> Result<i16, BtfError> {
            let offset = btf.offset(structure, member)?;
            i16::try_from(offset)
                .map_err(|_| BtfError::NoMember(format!("{structure}.{member} within 32 KiB")))
        };

        let far =
            |structure: &str, member: &str| btf.offset(structure, member).map(u32::cast_signed);
        let task = |member: &str| near("task_struct", member);
        Ok(Self {
            pid: task("pid")?,
            prio: task("prio")?,
            state: task("__state").or_else(|_| task("state"))?,
            exit_state: task("exit_state")?,
            cpu: task("thread_info.cpu").or_else(|_| task("cpu"))?,
            comm: task("comm")?.into(),
            stack: far("task_struct", "stack")?,
            timer_expires: near("hrtimer", "node.expires")?,
            timer_softexpires: near("hrtimer", "_softexpires")?,
            timer_function: near("hrtimer", "function")?,
            queue: [far("task_struct", "se.cfs_rq")?, far("cfs_rq", "rq")?],
            steal: far("rq", "prev_steal_time_rq").ok(),
            throttled: throttled(far),
            server: far("task_struct", "dl_server").ok(),
            stop_requests: far("task_struct", "jobctl").ok(),
        })
    }
}

fn throttled(offset: impl Fn(&str, &str) -> Result<i32, BtfError>) -> Option<Throttled> {
    let flag = offset("rt_rq", "rt_throttled").ok()?;
    match offset("task_struct", "rt.rt_rq") {
        Ok(group) => Some(Throttled::OfGroup(group, flag)),
        Err(_) => offset("rq", "rt").ok().map(|queue| Throttled::OfCpu(queue + flag)),
    }
}
