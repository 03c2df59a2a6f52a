//! Processes: one that ends with its starter, and one that is waited for.
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use onbeat::load::ending_with_starter;
use rustix::process::nice;

use super::VmError;
use super::error::last_line;

/// Starts a program in a process group of its own, at this nice value above the starter's. It gets
/// SIGKILL when the calling thread ends.
pub(crate) fn spawn(command: &mut Command, niceness: i32) -> io::Result<Child> {
    let before_exec = move || nice(niceness).map(drop).map_err(io::Error::from);
    // SAFETY: between fork and exec only getpriority(2) and setpriority(2) are called, both as bare
    // system calls: no lock, no heap.
    unsafe { command.process_group(0).pre_exec(before_exec) };
    ending_with_starter(command).spawn()
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
