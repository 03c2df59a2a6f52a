//! SIGUSR1: the summary so far, by this binary again in a process of its own, so that the measuring one neither reads the
//! run file nor grows.

use std::io::stderr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use onbeat::record::Recorder;

use crate::term::{Tone, advise};

/// Shows the summary so far whenever it is asked for.
pub(crate) struct SoFar<'a> {
    asked: &'a AtomicBool,
    file: PathBuf,
    showing: Option<Child>,
}

impl<'a> SoFar<'a> {
    pub(crate) const fn new(file: PathBuf, asked: &'a AtomicBool) -> Self {
        Self { asked, file, showing: None }
    }

    /// Called at each look; whether a summary is being shown. One at a time: who asks meanwhile gets the next one.
    pub(crate) fn look(&mut self, recorder: &mut Recorder) -> bool {
        if let Some(child) = &mut self.showing {
            if matches!(child.try_wait(), Ok(None)) {
                return true;
            }
            self.showing = None;
        }

        if self.asked.swap(false, Ordering::Relaxed) {
            // A file that cannot be written any more ends the run by itself.
            let _ = recorder.write_out();
            self.showing = self.start();
        }

        self.showing.is_some()
    }

    fn start(&self) -> Option<Child> {
        let started = std::env::current_exe().and_then(|myself| {
            let error = stderr().as_fd().try_clone_to_owned()?;
            let mut command = Command::new(myself);
            command.args(["report", "--brief"]).arg(&self.file);
            command.stdin(Stdio::null()).stdout(error).spawn()
        });
        match started {
            Ok(child) => Some(child),
            Err(why) => {
                advise(Tone::Careful, &format!("the summary so far cannot be shown: {why}; the run goes on"));
                None
            }
        }
    }

    /// Lets a summary that has begun come to its end.
    pub(crate) fn end(self) {
        if let Some(mut child) = self.showing {
            let _ = child.wait();
        }
    }
}
