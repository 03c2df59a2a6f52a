//! Children: started so that they die with their starter, and buried with their CPU time.
#![allow(unsafe_code)]

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

use super::ordinary::be_patient;
use super::process::Stat;

/// A child that has ended.
#[derive(Debug)]
pub(super) struct EndedChild {
    pub(super) pid: i32,
    pub(super) group: i32,
    pub(super) status: ExitStatus,
    /// Of it and of those children of it that it waited for.
    pub(super) cpu: Duration,
}

/// Starts a program in a process group of its own that gets SIGKILL when the calling thread ends.
pub(super) fn spawn(command: &mut Command) -> Result<i32, std::io::Error> {
    let starter = getpid();
    command.process_group(0);
    let before_exec = move || {
        be_patient();
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The starter may have died before the line above; then no signal comes.
        if getppid() == Some(starter) { Ok(()) } else { Err(std::io::ErrorKind::BrokenPipe.into()) }
    };

    // SAFETY: between fork and exec only setpriority(2), prctl(2) and getppid(2) are called, all as bare system calls: no lock, no heap.
    let child = unsafe { command.pre_exec(before_exec) }.spawn()?;
    // Dropping a `Child` neither ends nor buries it; `next_dead` does the latter, for its descendants too.
    Ok(child.id().cast_signed())
}

/// Buries one child that has ended, own or inherited, unless it is one of `foreign`.
pub(super) fn next_dead(foreign: impl Fn(i32) -> bool) -> Option<EndedChild> {
    let pid = ended_child().filter(|pid| !foreign(*pid))?;
    // The group is asked for while the number still belongs to the dead.
    let group = Stat::read(pid).map_or(pid, |dead| dead.group);
    let mut status = 0;
    // SAFETY: all-zero is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call; `pid` is a child of this process that has ended.
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
    // SAFETY: waitid filled the fields of a child's end, or left them 0.
    let pid = unsafe { info.si_pid() };

    (answer == 0 && pid > 0).then_some(pid)
}

// The kernel's times are never negative, and their width differs between targets.
#[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation, clippy::unnecessary_cast)]
const fn duration(time: libc::timeval) -> Duration {
    Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000)
}
