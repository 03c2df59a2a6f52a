//! Gives a load the scheduling of ordinary programs, regardless of the privileges of its starter.
//!
//! The starter may be SCHED_FIFO 98 and pinned to a shielded CPU, and its children inherit both.
#![allow(unsafe_code)]

use std::fs;
use std::num::NonZeroU64;

use onbeat_host::machine::cpu_list;
use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_current_timer_slack};

/// OOM score adjustment of a load: half of the scale above a normal process, so that it is killed
/// first when memory runs out.
const OOM_SCORE: i32 = 500;
/// The kernel's default timer slack, in nanoseconds (prctl(2)); a thread inherits that of its
/// starter.
const TIMER_SLACK_NS: Option<NonZeroU64> = NonZeroU64::new(50_000);

/// Nice value of the supervising thread.
const SUPERVISOR_NICE: i32 = -10;

/// Makes the calling thread and its future children ordinary: SCHED_OTHER, nice 0, default timer
/// slack, killed first when memory runs out, and on all CPUs of its cpuset except those isolated at
/// boot.
///
/// Returns the refused settings, in sentences.
pub(super) fn become_ordinary() -> Vec<String> {
    let mut refused = Vec::new();
    let mut note = |what: &str, answer: Result<(), std::io::Error>| {
        if let Err(error) = answer {
            refused.push(format!("{what}: {error}"));
        }
    };

    note("the policy is not SCHED_OTHER", scheduler_other());
    if !matches!(getpriority_process(None), Ok(0)) {
        note("the nice value is not 0", setpriority_process(None, 0).map_err(Into::into));
    }

    note(
        "the timer slack is not the default",
        set_current_timer_slack(TIMER_SLACK_NS).map_err(Into::into),
    );
    note("the CPUs are not all", spread());
    note("the load is not the first to go when memory runs out", be_first_to_go());
    refused
}

/// Raises the priority of the calling thread above that of the load's threads, of which there may
/// be hundreds: a supervisor that waits for seconds neither notices the death of a part nor ends
/// the load in time. Has no effect if it is not permitted.
pub(super) fn raise_priority() {
    let _ = setpriority_process(None, SUPERVISOR_NICE);
}

/// Undoes [`raise_priority`] for a thread or program that the supervisor starts. Makes one raw
/// system call.
pub(super) fn restore_priority() {
    let _ = setpriority_process(None, 0);
}

fn be_first_to_go() -> Result<(), std::io::Error> {
    let path = "/proc/self/oom_score_adj";
    // Lowering it again needs a privilege.
    match fs::read_to_string(path)?.trim().parse() {
        Ok(OOM_SCORE..) => Ok(()),
        _ => fs::write(path, OOM_SCORE.to_string()),
    }
}

fn scheduler_other() -> Result<(), std::io::Error> {
    // SAFETY: all-zero is a valid sched_param; SCHED_OTHER requires priority 0 (sched(7)).
    let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: `parameters` lives across the call; 0 means the calling thread.
    let answer = unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const parameters) };
    if answer == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

fn spread() -> Result<(), std::io::Error> {
    // The kernel restricts it to the CPUs of the cpuset (cpuset(7)).
    sched_setaffinity(None, &set_of(0..CpuSet::MAX_CPU))?;
    let isolated = fs::read_to_string("/sys/devices/system/cpu/isolated").unwrap_or_default();
    let isolated: Vec<usize> = cpu_list(&isolated).into_iter().map(|cpu| cpu as usize).collect();
    let rest: Vec<usize> =
        allowed_cpus().into_iter().filter(|cpu| !isolated.contains(cpu)).collect();
    if isolated.is_empty() || rest.is_empty() {
        return Ok(());
    }

    Ok(sched_setaffinity(None, &set_of(rest.into_iter()))?)
}

fn set_of(cpus: impl Iterator<Item = usize>) -> CpuSet {
    let mut set = CpuSet::new();
    for cpu in cpus.filter(|cpu| *cpu < CpuSet::MAX_CPU) {
        set.set(cpu);
    }
    set
}

/// Returns the CPUs that the calling thread may run on.
pub(super) fn allowed_cpus() -> Vec<usize> {
    sched_getaffinity(None).map_or_else(
        |_| Vec::new(),
        |set| (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect(),
    )
}

/// Moves the calling thread to one CPU.
pub(super) fn pin(cpu: usize) -> Result<(), std::io::Error> {
    Ok(sched_setaffinity(None, &set_of(std::iter::once(cpu)))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_becomes_ordinary_again() {
        let (pinned, spread, policy) = std::thread::spawn(|| {
            let first = allowed_cpus()[0];
            pin(first).unwrap();
            let pinned = allowed_cpus();
            become_ordinary();
            // SAFETY: no pointer is involved; 0 means the calling thread.
            (pinned, allowed_cpus(), unsafe { libc::sched_getscheduler(0) })
        })
        .join()
        .unwrap();

        assert_eq!(pinned.len(), 1);
        assert!(spread.len() >= pinned.len() && policy == libc::SCHED_OTHER);
    }
}
