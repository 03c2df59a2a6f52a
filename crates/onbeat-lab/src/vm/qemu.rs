//! QEMU as a process: started in a locked directory, connected to by its control socket, and ended
//! in any case.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use onbeat_host::thread::shell_word;
use serde_json::Value;

use super::error::last_line;
use super::guest::CONSOLE;
use super::leftover::GuestDirectory;
use super::qmp::MonitorSocket;
use super::{VmError, process};

pub(super) const QEMU: &str = "qemu-system-x86_64";
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
    let output = Command::new(QEMU)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| not_started(&error))?;
    if !output.status.success() {
        let (status, message) = (output.status.to_string(), last_line(&output.stderr));
        return Err(VmError::Qemu { status, message });
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// QEMU as a process. Dropping it ends it.
#[derive(Debug)]
pub(super) struct QemuProcess {
    child: Child,
    directory: Arc<GuestDirectory>,
    socket: Option<MonitorSocket>,
    started: Instant,
}

impl QemuProcess {
    /// Starts QEMU in a guest's directory and waits until its control socket answers.
    pub(super) fn start(
        directory: GuestDirectory,
        arguments: &[OsString],
        niceness: i32,
    ) -> Result<Self, VmError> {
        let path = &directory.path;
        let command_path = path.join(COMMAND);
        fs::write(&command_path, shell_line(arguments)).map_err(VmError::writing(&command_path))?;
        let errors_path = path.join(ERRORS);
        let errors = File::create(&errors_path).map_err(VmError::writing(&errors_path))?;
        let mut command = Command::new(QEMU);
        command.args(arguments).current_dir(path);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);

        let started = Instant::now();
        let child = process::spawn(&mut command, niceness).map_err(|error| not_started(&error))?;
        let directory = Arc::new(directory);
        let mut this = Self { child, directory, socket: None, started };
        this.connect()?;
        Ok(this)
    }

    /// Connects to the control socket as soon as QEMU has created it.
    fn connect(&mut self) -> Result<(), VmError> {
        while self.started.elapsed() < ANSWERS_WITHIN {
            let socket = MonitorSocket::connect(self.directory(), SOCKET);
            // QEMU's own message says more than the connection that its end has cut off.
            let status = if socket.is_err() { self.ended_soon()? } else { self.ended()? };
            if let Some(status) = status {
                let (status, message) = (status.to_string(), self.last_error());
                return Err(VmError::Qemu { status, message });
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
        &self.directory.path
    }

    pub(super) fn directory_lock(&self) -> Arc<GuestDirectory> {
        Arc::clone(&self.directory)
    }

    /// The last line of QEMU's standard error.
    fn last_error(&self) -> String {
        last_line(&fs::read(self.directory().join(ERRORS)).unwrap_or_default())
    }

    /// Time since its start.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub(super) fn control(&mut self) -> Result<&mut MonitorSocket, VmError> {
        let ended = || VmError::Control { message: "closed".to_owned() };
        self.socket.as_mut().ok_or_else(ended)
    }

    /// Executes a command on the control socket, and returns its answer.
    pub(super) fn execute(&mut self, command: &str, arguments: &Value) -> Result<Value, VmError> {
        let answer = self.control()?.execute_with(command, arguments);
        self.unless_ended(answer)
    }

    /// Host threads of the virtual CPUs, in order.
    pub(super) fn cpu_threads(&mut self) -> Result<Vec<i32>, VmError> {
        let threads = self.control()?.cpu_threads();
        self.unless_ended(threads)
    }

    /// The end of QEMU says more than the connection that it has cut off.
    fn unless_ended<T>(&mut self, answer: Result<T, VmError>) -> Result<T, VmError> {
        match answer {
            Ok(answer) => Ok(answer),
            Err(why) => Err(self.ended_soon()?.map_or(why, |status| self.killed(status))),
        }
    }

    /// The error for an end of QEMU before that of its guest.
    pub(super) fn killed(&self, status: ExitStatus) -> VmError {
        let message = self.last_error();
        VmError::Killed { status: status.to_string(), message }
    }

    /// The guest's console, and its last line.
    pub(super) fn console(&self) -> (PathBuf, String) {
        let console = self.directory().join(CONSOLE);
        let last_line = last_line(&fs::read(&console).unwrap_or_default());
        (console, last_line)
    }

    /// Fails once the caller stops the guest, or it has existed for longer than `limit`.
    pub(super) fn check(&self, limit: Duration, stop: &AtomicBool) -> Result<(), VmError> {
        if stop.load(Ordering::Relaxed) {
            return Err(VmError::Stopped);
        }
        if self.elapsed() > limit {
            let (console, last_line) = self.console();
            return Err(VmError::Timeout { limit, last_line, console });
        }
        Ok(())
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
        self.child.wait().map(drop).map_err(|source| VmError::Process { pid, source })
    }
}

impl Drop for QemuProcess {
    fn drop(&mut self) {
        // When this fails, the next start tries again.
        let _ = self.end();
    }
}

fn not_started(error: &io::Error) -> VmError {
    match error.kind() {
        io::ErrorKind::NotFound => {
            VmError::ProgramMissing { program: QEMU.to_owned(), package: "qemu-system-x86" }
        }
        _ => VmError::Qemu { status: "an error".to_owned(), message: error.to_string() },
    }
}

/// The words of a line that has no blanks within words.
pub(super) fn split(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// A path as the value of an option of QEMU: a comma is doubled.
pub(super) fn in_option(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// QEMU's command as a line for a shell, to run the same guest by hand from its directory.
pub(super) fn shell_line(arguments: &[OsString]) -> String {
    let words = arguments.iter().map(|argument| shell_word(&argument.to_string_lossy()));
    format!("{QEMU} {}\n", words.collect::<Vec<_>>().join(" "))
}
