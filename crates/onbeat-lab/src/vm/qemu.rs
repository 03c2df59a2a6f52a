//! QEMU as a process: started with a record, connected to by its control socket, and ended in any
//! case.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::error::last_line;
use super::leftover::RunningRecord;
use super::qmp::{ControlSocket, VirtualCpu};
use super::{VmError, process};

const PROGRAM: &str = "qemu-system-x86_64";
/// The control socket in QEMU's working directory.
pub(super) const SOCKET: &str = "qmp";
/// QEMU's standard error.
const ERRORS: &str = "qemu.log";
/// The command, to run the same guest by hand.
pub(super) const COMMAND: &str = "command";

/// How often the end of QEMU is looked for.
pub(super) const POLL_EVERY: Duration = Duration::from_millis(10);
/// How long QEMU has from its start until it answers; on a busy host it needs seconds.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);
/// How long a QEMU that has closed its socket has until it ends.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// Returns the first line of `qemu-system-x86_64 --version`.
///
/// # Errors
/// When QEMU is not installed or does not run.
pub fn qemu_version() -> Result<String, VmError> {
    let output = Command::new(PROGRAM)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| not_started(&error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// QEMU as a process. Dropping it ends it.
#[derive(Debug)]
pub(super) struct QemuProcess {
    child: Child,
    directory: PathBuf,
    socket: Option<ControlSocket>,
    record: Option<RunningRecord>,
    started: Instant,
}

impl QemuProcess {
    /// Starts QEMU in a guest's directory and waits until its control socket answers.
    pub(super) fn start(
        directory: PathBuf,
        arguments: &[OsString],
        niceness: i32,
    ) -> Result<Self, VmError> {
        let command_path = directory.join(COMMAND);
        fs::write(&command_path, shell_line(arguments)).map_err(VmError::writing(&command_path))?;
        let errors_path = directory.join(ERRORS);
        let errors = File::create(&errors_path).map_err(VmError::writing(&errors_path))?;
        let mut command = Command::new(PROGRAM);
        command.args(arguments).current_dir(&directory);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);

        let record = RunningRecord::create(&directory)?;
        let started = Instant::now();
        let child = match process::spawn(&mut command, niceness) {
            Ok(child) => child,
            Err(error) => {
                record.close()?;
                return Err(not_started(&error));
            }
        };

        let mut this = Self { child, directory, socket: None, record: Some(record), started };
        this.connect()?;
        Ok(this)
    }

    /// Connects to the control socket as soon as QEMU has created it.
    fn connect(&mut self) -> Result<(), VmError> {
        while self.started.elapsed() < ANSWERS_WITHIN {
            let socket = ControlSocket::connect(&self.directory, SOCKET);
            // QEMU's own message says more than the connection that its end has cut off.
            let status = if socket.is_err() { self.ended_soon()? } else { self.ended()? };
            if let Some(status) = status {
                self.close()?;
                let message = last_line(&fs::read(self.directory.join(ERRORS)).unwrap_or_default());
                return Err(VmError::Qemu {
                    program: PROGRAM.to_owned(),
                    status: status.to_string(),
                    message,
                });
            }

            self.socket = socket?;
            if self.socket.is_some() {
                return Ok(());
            }
            std::thread::sleep(POLL_EVERY);
        }

        Err(VmError::Control { message: format!("QEMU did not answer within {ANSWERS_WITHIN:?}") })
    }

    /// Its process number.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The guest's directory, which is QEMU's working directory.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Time since its start.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// The virtual CPUs, in order.
    pub(super) fn cpus(&mut self) -> Result<Vec<VirtualCpu>, VmError> {
        let ended = || VmError::Control { message: "closed".to_owned() };
        self.socket.as_mut().ok_or_else(ended)?.cpus()
    }

    /// Its exit status, once it has ended.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>, VmError> {
        let pid = self.pid();
        self.child.try_wait().map_err(|source| VmError::Process { pid, source })
    }

    /// The status of a process that is about to end.
    fn ended_soon(&mut self) -> Result<Option<ExitStatus>, VmError> {
        let since = Instant::now();
        while since.elapsed() < ENDS_WITHIN {
            if let Some(status) = self.ended()? {
                return Ok(Some(status));
            }
            std::thread::sleep(POLL_EVERY);
        }

        Ok(None)
    }

    /// Kills QEMU and waits for its end.
    pub(super) fn end(&mut self) -> Result<(), VmError> {
        // It fails only when the process has been waited for already.
        let _ = self.child.kill();
        let pid = self.pid();
        self.child.wait().map_err(|source| VmError::Process { pid, source })?;
        self.close()
    }

    /// Removes the record after the process has ended.
    pub(super) fn close(&mut self) -> Result<(), VmError> {
        self.record.take().map_or(Ok(()), RunningRecord::close)
    }
}

impl Drop for QemuProcess {
    fn drop(&mut self) {
        if self.record.is_some() {
            // The record stays when this fails, and the next start tries again.
            let _ = self.end();
        }
    }
}

fn not_started(error: &io::Error) -> VmError {
    let program = PROGRAM.to_owned();
    match error.kind() {
        io::ErrorKind::NotFound => VmError::ProgramMissing { program, package: "qemu-system-x86" },
        _ => VmError::Qemu { program, status: "an error".to_owned(), message: error.to_string() },
    }
}

/// QEMU's command as a line for a shell, to run the same guest by hand from its directory.
pub(super) fn shell_line(arguments: &[OsString]) -> String {
    let quoted = arguments.iter().map(|argument| {
        let text = argument.to_string_lossy();
        let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "-_=,./:+".contains(c));
        if is_plain { text.into_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
    });
    format!("{PROGRAM} {}\n", quoted.collect::<Vec<_>>().join(" "))
}
