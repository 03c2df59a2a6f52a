//! The view of a run that this process measures: this program once more, which follows its files.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use onbeat_robot::live_view;

use super::super::Failure;
use super::options::BesideOptions;
use crate::term::{Tone, advise};

/// Refuses a port that cannot be listened on, before anything is measured.
pub(crate) fn check_port(options: BesideOptions) -> Result<(), Failure> {
    Ok(options.view.map_or(Ok(()), live_view::check_port)?)
}

/// The view beside a run.
pub(crate) struct BesideView {
    options: BesideOptions,
    avoid_cpu: Option<u32>,
    child: Option<Child>,
    is_started: bool,
}

impl BesideView {
    pub(crate) const fn new(options: BesideOptions, avoid_cpu: Option<u32>) -> Self {
        Self { options, avoid_cpu, child: None, is_started: false }
    }

    /// Begins to show a run whose files exist; once, however often it is called.
    pub(crate) fn begin(&mut self, run: &Path) {
        let Some(port) = self.options.view.filter(|_| !self.is_started) else { return };
        self.is_started = true;
        let started = std::env::current_exe().and_then(|myself| {
            let mut command = Command::new(myself);
            command.arg("view").arg(run).args(["--port", &port.to_string()]);
            if let Some(cpu) = self.avoid_cpu {
                command.args(["--avoid-cpu", &cpu.to_string()]);
            }
            command.stdin(Stdio::null()).stdout(Stdio::null());
            // Ctrl-C ends the run; the view ends with it, when it has shown its last figures.
            command.process_group(0).spawn()
        });
        match started {
            Ok(child) => self.child = Some(child),
            Err(why) => {
                let words = format!("cannot show the run in a browser: {why}; the run continues");
                advise(Tone::Careful, &words);
            }
        }
    }

    /// Waits until the last figures are shown.
    pub(crate) fn end(mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
    }
}
