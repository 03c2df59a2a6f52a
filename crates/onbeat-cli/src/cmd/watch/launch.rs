//! A program that is started to be watched.

use std::ffi::OsString;
use std::io::stderr;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use onbeat::load::ending_with_starter;
use onbeat_watch::WatchError;
use rustix::process::{Pid, Signal, kill_process};

use crate::cmd::Failure;
use crate::cmd::failure::watch::WatchFailure;

/// Between two looks at whether it has ended.
const STEP: Duration = Duration::from_millis(20);

/// A program that was started.
pub(super) struct Launched {
    child: Child,
    name: String,
}

/// Where goes what a program prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Printed {
    /// Where onbeat's own output goes.
    Here,
    /// To standard error: onbeat's own output is one JSON object.
    Errors,
    /// Nowhere: a bench starts the program for every block.
    Nowhere,
}

/// Starts `command`; `None` without words. It ends with onbeat, however that ends.
pub(super) fn start(command: &[OsString], printed: Printed) -> Result<Option<Launched>, Failure> {
    let Some((program, arguments)) = command.split_first() else { return Ok(None) };
    let name = program.to_string_lossy().into_owned();
    let cannot = |source| WatchFailure::Command { command: name.clone(), source };
    let mut starting = Command::new(program);
    starting.args(arguments).stdin(Stdio::null());
    match printed {
        Printed::Here => {}
        Printed::Errors => {
            starting.stdout(stderr().as_fd().try_clone_to_owned().map_err(cannot)?);
        }
        Printed::Nowhere => {
            starting.stdout(Stdio::null()).stderr(Stdio::null());
        }
    }
    let child = ending_with_starter(&mut starting).spawn().map_err(cannot)?;
    Ok(Some(Launched { child, name }))
}

/// Says how the program ended, where nothing more than its end is known.
pub(super) fn explained(why: Failure, launched: Option<&mut Launched>) -> Failure {
    let is_end =
        matches!(why.as_error(), Some(WatchError::Ended { .. } | WatchError::ThreadEnded { .. }));
    match launched.filter(|_| is_end).map(|of| (of.name.clone(), of.child.try_wait())) {
        Some((command, Ok(Some(status)))) => WatchFailure::CommandEnded { command, status }.into(),
        _ => why,
    }
}

impl Launched {
    pub(super) fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Ends it with SIGTERM, after `most` with SIGKILL. Returns a sentence if it had ended with an
    /// error of its own, or had to be killed.
    pub(super) fn end(mut self, most: Duration) -> Option<String> {
        let name = &self.name;
        if let Ok(Some(status)) = self.child.try_wait() {
            return (!status.success()).then(|| format!("{name} ended with {status}"));
        }

        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let since = Instant::now();
        while since.elapsed() < most {
            if let Ok(Some(_)) = self.child.try_wait() {
                return None;
            }
            thread::sleep(STEP);
        }

        let _ = self.child.kill();
        let _ = self.child.wait();
        Some(format!("{name} did not end {} s after SIGTERM and was killed", most.as_secs()))
    }
}
