//! The machine and the loop that a command is about.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use onbeat_tune::CpuList;
use onbeat_tune::capture::CaptureError;
use onbeat_tune::catalogue::survey::Survey;
use onbeat_tune::catalogue::{HostTree, LoopSetup};
use onbeat_tune::plan::cpus::{self, ChosenCpus};
use onbeat_tune::plan::{CpuChoice, PlanError};

use crate::cmd::Common;
use crate::cmd::failure::Failure;
use crate::cmd::failure::tune::TuneFailure;
use crate::cmd::tune::options::{CheckedLoopOptions, TaskWord};

/// Opens this machine, or a capture: an archive or a directory.
pub(crate) fn tree(from: Option<&Path>) -> Result<HostTree, Failure> {
    let Some(path) = from else { return Ok(HostTree::live()) };
    let cannot_read = Common::file("read", path);
    let file = File::open(path).map_err(cannot_read)?;
    if file.metadata().map_err(cannot_read)?.is_dir() {
        if !["proc", "sys"].iter().any(|name| path.join(name).is_dir()) {
            let source = CaptureError::NoMachine;
            return Err(TuneFailure::NoCapture { path: path.to_owned(), source }.into());
        }
        return Ok(HostTree::captured(path).map_err(cannot_read)?);
    }

    HostTree::from_capture(BufReader::new(file))
        .map_err(|source| TuneFailure::NoCapture { path: path.to_owned(), source }.into())
}

/// Returns the typed loop, else a usual one, without CPUs.
pub(crate) fn setup(typed: &CheckedLoopOptions) -> LoopSetup {
    let usual = LoopSetup::default();
    LoopSetup {
        cpus: CpuList::default(),
        task: typed.task.as_ref().and_then(TaskWord::tid),
        interfaces: typed.interfaces.clone(),
        period_us: typed.period.map_or(usual.period_us, whole_us),
        loop_priority: typed.priority.map_or(usual.loop_priority, i64::from),
        polls: typed.polls,
        runs_guests: typed.runs_guests,
        ..usual
    }
}

pub(crate) fn whole_us(ns: u64) -> i64 {
    i64::try_from(ns / 1000).unwrap_or(i64::MAX)
}

/// Returns the typed choice of the loop's CPUs.
pub(crate) fn choice(typed: &CheckedLoopOptions) -> CpuChoice {
    typed.cpus.clone().unwrap_or(CpuChoice::Auto)
}

/// Chooses the loop's CPUs as a plan does, or checks those that were typed.
pub(crate) fn chosen(
    tree: &HostTree,
    setup: &LoopSetup,
    choice: &CpuChoice,
) -> Result<ChosenCpus, PlanError> {
    cpus::choose(&Survey::new(tree, setup), choice)
}
