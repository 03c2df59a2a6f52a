//! Starting a process that ends with its starter.
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use rustix::process::{Signal, getpid, getppid, nice, set_parent_process_death_signal};

/// Starts a program in a process group of its own, at this nice value above the starter's. It gets
/// SIGKILL when the calling thread ends.
pub(crate) fn spawn(command: &mut Command, niceness: i32) -> io::Result<Child> {
    let starter = getpid();
    command.process_group(0);
    let before_exec = move || {
        nice(niceness)?;
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The starter may have died before the line above; then no signal comes.
        if getppid() == Some(starter) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };

    // SAFETY: between fork and exec only getpriority(2), setpriority(2), prctl(2) and getppid(2)
    // are called, all as bare system calls: no lock, no heap.
    unsafe { command.pre_exec(before_exec) }.spawn()
}
