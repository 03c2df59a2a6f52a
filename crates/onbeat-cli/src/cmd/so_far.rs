//! SIGUSR1: the summary so far, by this program in a process of its own, so that the measuring
//! process neither reads the run file nor grows.

use std::io::stderr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use onbeat::record::Recorder;
use onbeat::report::units::{Letters, time_ns};

use crate::term::{Tone, advise};

/// Shows the summary so far on request.
pub(crate) struct SoFar<'a> {
    asked: &'a AtomicBool,
    file: PathBuf,
    showing: Option<Child>,
}

impl<'a> SoFar<'a> {
    pub(crate) const fn new(file: PathBuf, asked: &'a AtomicBool) -> Self {
        Self { asked, file, showing: None }
    }

    /// Starts a summary on request, and returns whether one is being shown. A request in the
    /// meantime gets the next one.
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
                advise(
                    Tone::Careful,
                    &format!("cannot show the summary so far: {why}; the run continues"),
                );
                None
            }
        }
    }

    /// Waits for the end of a summary.
    pub(crate) fn end(self) {
        if let Some(mut child) = self.showing {
            let _ = child.wait();
        }
    }
}

/// The worst latency and the counts so far, for a line of progress.
pub(crate) fn counts_so_far(recorder: &Recorder) -> String {
    let letters = if crate::term::unicode() { Letters::Unicode } else { Letters::Ascii };
    let so_far = recorder.progress();
    format!(
        "worst {}  misses {}  skipped {}  spikes {}",
        time_ns(so_far.worst_ns, letters),
        so_far.deadline_misses,
        so_far.skipped,
        so_far.spikes
    )
}
