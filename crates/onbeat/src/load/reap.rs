//! Child processes: started so that they end with their starter, and reaped with their CPU time.
#![allow(unsafe_code)]

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

use super::ordinary::restore_priority;
use onbeat_host::process::Stat;

/// An ended child process.
#[derive(Debug)]
pub(super) struct EndedChild {
    pub(super) pid: i32,
    pub(super) group: i32,
    pub(super) status: ExitStatus,
    /// CPU time of the process and of the children that it waited for.
    pub(super) cpu: Duration,
}

/// Starts a program in a process group of its own. It gets SIGKILL when the calling thread ends.
pub(super) fn spawn(command: &mut Command) -> Result<i32, std::io::Error> {
    let starter = getpid();
    command.process_group(0);
    let before_exec = move || {
        restore_priority();
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The starter may have ended before the call above; then no signal is sent.
        if getppid() == Some(starter) { Ok(()) } else { Err(std::io::ErrorKind::BrokenPipe.into()) }
    };

    // SAFETY: between fork and exec only setpriority(2), prctl(2) and getppid(2) are called, all as
    // raw system calls: no lock, no heap.
    let child = unsafe { command.pre_exec(before_exec) }.spawn()?;
    // Dropping a `Child` neither ends nor reaps it; `reap_next` does the latter, also for its
    // descendants.
    Ok(child.id().cast_signed())
}

/// Reaps one ended child, own or inherited, unless `foreign` says that it does not belong to the
/// load.
pub(super) fn reap_next(foreign: impl Fn(i32) -> bool) -> Option<EndedChild> {
    let pid = ended_child().filter(|pid| !foreign(*pid))?;
    // The group is read while the number still belongs to the ended process.
    let group = Stat::read(pid).map_or(pid, |dead| dead.group);
    let mut status = 0;
    // SAFETY: all-zero is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call; `pid` is a child of this process that has
    // ended.
    let answer = unsafe { libc::wait4(pid, &raw mut status, libc::WNOHANG, &raw mut usage) };
    let cpu = duration(usage.ru_utime) + duration(usage.ru_stime);

    (answer == pid).then(|| EndedChild { pid, group, status: ExitStatus::from_raw(status), cpu })
}

fn ended_child() -> Option<i32> {
    // SAFETY: all-zero is a valid siginfo_t, and says "none" (wait(2)).
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: `info` is valid for the call.
    let answer = unsafe { libc::waitid(libc::P_ALL, 0, &raw mut info, flags) };
    // SAFETY: waitid filled in the fields of an ended child, or left them 0.
    let pid = unsafe { info.si_pid() };

    (answer == 0 && pid > 0).then_some(pid)
}

// The kernel's times are never negative, and their width differs between targets.
#[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation, clippy::unnecessary_cast)]
const fn duration(time: libc::timeval) -> Duration {
    Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000)
}
