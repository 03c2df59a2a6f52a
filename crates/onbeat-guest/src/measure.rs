//! A measurement by a plan.

use std::fs;
use std::path::Path;
use std::process::Command;

use onbeat::bench::measurement::{MeasurementPlan, ProbePlan, measure as measured};
use onbeat::bench::{BenchError, Conditions};
use onbeat::load::Load;
use onbeat::probe::{self, Interruptions};
use onbeat::record::RunFile;
use onbeat::record::run_dir::RUN_FILE_ENDING;
use onbeat_lab::vm::{GuestPlan, PrintedRun};

use super::{AgentError, io_of, say};

/// Measures into the directory `out`, which is created, and prints the summary.
pub(crate) fn measure(
    out: &Path,
    plan: &str,
    interruptions: &Interruptions,
) -> Result<(), AgentError> {
    let plan: GuestPlan = serde_json::from_str(plan)?;
    let no_probe = || AgentError::NoSuchProbe { probe: plan.probe.clone() };
    let probe =
        probe::ALL.into_iter().find(|probe| probe.name == plan.probe).ok_or_else(no_probe)?;
    let what = ProbePlan {
        given: plan.given_to(probe),
        limit: plan.limit,
        ..ProbePlan::new(probe, plan.setting.clone(), plan.releases, &plan.command)
    };
    let opened = what.open().map_err(BenchError::from)?;

    fs::create_dir_all(out).map_err(io_of(&out.display().to_string()))?;
    let path = out.join(format!("{}{RUN_FILE_ENDING}", probe.name));
    let carrier = |load: &Load| {
        let mut carrier = Command::new("/proc/self/exe");
        carrier.args(["load", "--supervised", &load.to_string()]);
        carrier
    };
    let conditions = Conditions { carrier: &carrier, interruptions, report: &mut |_| {} };
    let planned = MeasurementPlan { what: &what, load: &plan.load, tuning: None, path: &path, out };
    measured(&planned, opened, None, conditions)?;

    say(&serde_json::to_string(&PrintedRun::from_run_file(&RunFile::read(&path)?))?)
}
