//! The view of a run that this process measures: this program once more, which follows its files.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use onbeat_robot::live_view;

use super::super::{Failure, metrics};
use super::options::BesideOptions;
use crate::cmd::metrics::options::MetricsTo;
use crate::term::{Tone, advise};

/// Refuses ports that cannot be listened on, before anything is measured.
pub(crate) fn check_port(options: &BesideOptions) -> Result<(), Failure> {
    options.view.map_or(Ok(()), live_view::check_port)?;
    Ok(options.metrics.as_ref().map_or(Ok(()), metrics::check)?)
}

/// The view beside a run.
pub(crate) struct BesideView {
    options: BesideOptions,
    avoid_cpu: Option<u32>,
    children: Vec<Child>,
    is_started: bool,
}

impl BesideView {
    pub(crate) fn new(options: &BesideOptions, avoid_cpu: Option<u32>) -> Self {
        Self { options: options.clone(), avoid_cpu, children: Vec::new(), is_started: false }
    }

    /// Begins to show a run whose files exist; once, however often it is called.
    pub(crate) fn begin(&mut self, run: &Path) {
        if std::mem::replace(&mut self.is_started, true) {
            return;
        }
        if let Some(port) = self.options.view {
            let started = self.start(run, ["view", "--port", &port.to_string()]);
            match started {
                Ok(child) => self.children.push(child),
                Err(why) => not_started("show the run in a browser", &why),
            }
        }
        // Nobody waits for a last scrape, or for a collector: this ends by itself some seconds after the run.
        let started = match &self.options.metrics {
            Some(MetricsTo::Scraper(at)) => {
                self.start(run, ["metrics", "--listen", &at.to_string()])
            }
            Some(MetricsTo::Collector(to)) => {
                self.start(run, ["metrics", "--push", &to.to_string()])
            }
            None => return,
        };
        if let Err(why) = started {
            not_started("serve the metrics", &why);
        }
    }

    fn start(&self, run: &Path, [command, option, value]: [&str; 3]) -> io::Result<Child> {
        let mut started = Command::new(std::env::current_exe()?);
        started.arg(command).arg(run).args([option, value]);
        if let Some(cpu) = self.avoid_cpu {
            started.args(["--avoid-cpu", &cpu.to_string()]);
        }
        started.stdin(Stdio::null()).stdout(Stdio::null());
        // Ctrl-C ends the run; what is beside it ends then, when it has shown the last figures.
        started.process_group(0).spawn()
    }

    /// Waits until the last figures are shown.
    pub(crate) fn end(mut self) {
        for child in &mut self.children {
            let _ = child.wait();
        }
    }
}

fn not_started(what: &str, why: &io::Error) {
    advise(Tone::Careful, &format!("cannot {what}: {why}; the run continues"));
}
