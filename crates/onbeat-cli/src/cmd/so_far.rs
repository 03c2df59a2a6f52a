//! SIGUSR1: the summary so far, by this program in a process of its own, so that the measuring
//! process neither reads the run file nor grows.

use std::io::{self, stderr};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use onbeat::record::Recorder;
use onbeat::thread::Usage;
use onbeat_report::units::time_ns;
use onbeat_report::verdict::looks;

use super::watched::LooksLeft;
use crate::options::Until;
use crate::term::{Tone, advise, letters};

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
    /// meantime gets the next one. Without `recorder`, where those of other threads record, it is a
    /// summary of finished intervals.
    pub(crate) fn look(&mut self, recorder: Option<&mut Recorder>) -> bool {
        if let Some(child) = &mut self.showing {
            if matches!(child.try_wait(), Ok(None)) {
                return true;
            }
            self.showing = None;
        }

        if self.asked.swap(false, Ordering::Relaxed) {
            // A file that cannot be written any more ends the run by itself.
            let _ = recorder.map(Recorder::write_out);
            self.showing = self.start();
        }

        self.showing.is_some()
    }

    fn start(&self) -> Option<Child> {
        let error = stderr().as_fd().try_clone_to_owned();
        let started = error.and_then(|error| brief(&self.file, error.into(), Stdio::inherit()));
        started
            .inspect_err(|why| {
                let sentence = format!("cannot show the summary so far: {why}; the run continues");
                advise(Tone::Careful, &sentence);
            })
            .ok()
    }

    /// Waits for the end of a summary.
    pub(crate) fn end(self) {
        if let Some(mut child) = self.showing {
            let _ = child.wait();
        }
    }
}

/// Starts `onbeat report --brief` of a run file.
fn brief(file: &Path, stdout: Stdio, stderr: Stdio) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["report", "--brief"]).arg(file);
    command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).spawn()
}

/// The CPU time that this thread has used since: by it a reader of a run in progress waits.
pub(super) fn cpu_time_since(before: Usage) -> Duration {
    Duration::from_nanos(Usage::of_this_thread().since(before).cpu_ns)
}

/// A run without an end is looked at for a day.
pub(super) const NO_END_S: f64 = 86_400.0;

/// The looks at a run that ends when it is decided; none at any other.
pub(crate) fn looks_of(until: Option<Until>, duration_ns: u64) -> Vec<f64> {
    if until != Some(Until::Decided) {
        return Vec::new();
    }
    looks(if duration_ns == 0 { NO_END_S } else { duration_ns as f64 / 1e9 })
}

/// Looks at a run that ends when it is decided, by this program in a process of its own.
pub(crate) struct LooksAhead<'a> {
    file: &'a Path,
    left: LooksLeft,
    looking: Option<Child>,
}

impl<'a> LooksAhead<'a> {
    pub(crate) fn new(until: Option<Until>, duration_ns: u64, file: &'a Path) -> Self {
        Self { file, left: LooksLeft::new(looks_of(until, duration_ns)), looking: None }
    }

    /// Whether the last look that is over found PASS or FAIL; a look begins when its time has come.
    pub(crate) fn is_decided(&mut self, elapsed_s: f64, recorder: &mut Recorder) -> bool {
        if let Some(child) = &mut self.looking {
            let Ok(None) = child.try_wait() else {
                let status = self.looking.take().and_then(|mut child| child.wait().ok());
                return matches!(status.and_then(|status| status.code()), Some(0 | 1));
            };
            return false;
        }

        if self.left.is_due(elapsed_s) {
            // A file that cannot be written any more ends the run by itself.
            let _ = recorder.write_out();
            // A look that cannot be started is left out: the run goes on to the next one.
            self.looking = brief(self.file, Stdio::null(), Stdio::null()).ok();
        }
        false
    }
}

impl Drop for LooksAhead<'_> {
    fn drop(&mut self) {
        if let Some(child) = &mut self.looking {
            let _ = child.wait();
        }
    }
}

/// The worst latency and the counts so far, for a line of progress.
pub(crate) fn counts_so_far(recorder: &Recorder) -> String {
    let so_far = recorder.progress();
    format!(
        "worst {}  misses {}  skipped {}  spikes {}",
        time_ns(so_far.worst_ns, letters()),
        so_far.deadline_misses,
        so_far.skipped,
        so_far.spikes
    )
}
