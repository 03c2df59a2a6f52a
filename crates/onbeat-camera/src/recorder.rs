//! The log of a camera: `onbeat message record`, a process of its own.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use onbeat_camera::compressed::TOPIC;
use rustix::process::{Pid, Signal, kill_process};

use crate::Failure;

/// How long the recorder may take to complete its log.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A log that is to be written.
#[derive(Debug)]
pub(crate) struct Log {
    program: PathBuf,
    file: PathBuf,
    channels: Vec<String>,
    recorder: Option<Child>,
    ended: Option<ExitStatus>,
}

impl Log {
    /// Checks what can be checked before the first picture.
    pub(crate) fn new(file: &Path, camera: &str, beside: &[String]) -> Result<Self, Failure> {
        if file.exists() {
            let words = format!("{} exists; name a log that does not", file.display());
            return Err(Failure::Words(words));
        }
        let program = onbeat()?;
        let mut channels = vec![format!("{camera}/{TOPIC}")];
        channels.extend_from_slice(beside);
        Ok(Self { program, file: file.to_owned(), channels, recorder: None, ended: None })
    }

    /// Starts the recorder once; the camera's channel exists by now.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        if self.recorder.is_some() {
            return Ok(());
        }
        let mut command = Command::new(&self.program);
        // From the oldest one: the first key frame is in the channel already.
        command.args(["message", "record", "--from", "oldest", "--out"]).arg(&self.file);
        // Ctrl-C at a terminal is for the camera, which ends its recorder.
        command.process_group(0);
        let started = command.args(&self.channels).stdin(Stdio::null()).spawn();
        self.recorder = Some(started?);
        Ok(())
    }

    /// Returns whether the recorder has ended by itself; once.
    pub(crate) fn has_failed(&mut self) -> bool {
        let Some(recorder) = &mut self.recorder else { return false };
        let is_new = self.ended.is_none();
        self.ended = self.ended.or_else(|| recorder.try_wait().ok().flatten());
        is_new && self.ended.is_some()
    }

    /// Ends the log. The recorder prints its account.
    pub(crate) fn end(mut self) -> Result<(), Failure> {
        let failed = |status: &str| {
            Failure::Words(format!("the log {} is not complete: {status}", self.file.display()))
        };
        let Some(mut recorder) = self.recorder.take() else {
            return Err(failed("no picture came"));
        };
        let began = Instant::now();
        if let (None, Some(pid)) =
            (self.ended, i32::try_from(recorder.id()).ok().and_then(Pid::from_raw))
        {
            let _ = kill_process(pid, Signal::TERM);
        }
        while began.elapsed() < PATIENCE {
            match recorder.try_wait() {
                Ok(None) => sleep(LOOK_EVERY),
                Ok(Some(status)) if status.success() && self.ended.is_none() => return Ok(()),
                Ok(Some(status)) => {
                    return Err(failed(&format!("its recorder ended with {status}")));
                }
                Err(why) => return Err(failed(&why.to_string())),
            }
        }
        let _ = recorder.kill();
        let _ = recorder.wait();
        Err(failed("its recorder did not end within 20 s"))
    }
}

/// The program `onbeat`: beside this one, or in `PATH`.
fn onbeat() -> Result<PathBuf, Failure> {
    let beside = std::env::current_exe().map(|own| own.with_file_name("onbeat"));
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&folders).map(|folder| folder.join("onbeat"));
    let found = beside.into_iter().chain(in_path).find(|program| program.is_file());
    found.ok_or_else(|| {
        Failure::Words(
            "logs are written by the program onbeat, which is neither in this program's directory nor in PATH"
                .to_owned(),
        )
    })
}
