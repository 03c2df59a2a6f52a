//! Processes: one that ends with its starter, and one that is waited for.
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Signal, getpid, getppid, nice, set_parent_process_death_signal};

use super::VmError;
use super::error::last_line;

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

/// Runs a program of a Debian package to its end. Where it fails, `failed` gets the line of its
/// standard error that states an error, or the last one.
pub(super) fn run(
    command: &mut Command,
    package: &'static str,
    failed: impl Fn(String) -> VmError,
) -> Result<(), VmError> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            let program = command.get_program().to_string_lossy().into_owned();
            VmError::ProgramMissing { program, package }
        }
        _ => failed(error.to_string()),
    })?;

    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let stated = errors.lines().find(|line| line.contains("error:"));
    Err(failed(stated.map_or_else(|| last_line(&output.stderr), str::to_owned)))
}
