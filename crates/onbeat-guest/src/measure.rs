//! A measurement by a plan.

use std::fs;
use std::path::Path;
use std::process::Command;

use onbeat::bench::measurement::{MeasurementPlan, measure as measured};
use onbeat::bench::{BenchError, Conditions};
use onbeat::load::Load;
use onbeat::probe::{self, Interruptions, Origin, RunError};
use onbeat::record::run_dir::RUN_FILE_ENDING;
use onbeat::record::{Header, PARTS_OF_WAKE_UP, RunFile};
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
    let run_error = |error: RunError| AgentError::from(BenchError::from(error));
    let mut setting = plan.setting.clone();
    setting.admit().map_err(run_error)?;
    let parts = (probe.open)(&mut setting, &plan.given_to(probe));
    let parts = parts.map_err(|error| run_error(error.into()))?;

    fs::create_dir_all(out).map_err(io_of(&out.display().to_string()))?;
    let path = out.join(format!("{}{RUN_FILE_ENDING}", probe.name));
    let (origin, mut series) = (Origin::now(), probe.series.to_vec());
    if setting.split {
        series.extend(PARTS_OF_WAKE_UP);
    }
    let header = Header {
        limit: plan.limit,
        ..probe::header(&plan.command, probe.name, &series, origin.unix_s)
    };
    let carrier = |load: &Load| {
        let mut carrier = Command::new("/proc/self/exe");
        carrier.args(["load", "--supervised", &load.to_string()]);
        carrier
    };
    let conditions = Conditions { carrier: &carrier, interruptions, report: &mut |_| {} };
    let planned = MeasurementPlan {
        setting,
        load: &plan.load,
        tuning: None,
        releases: plan.releases,
        keep_seconds: probe.line_a_second,
        header,
        path: &path,
        origin: origin.at,
        out,
    };
    measured(planned, parts, None, conditions)?;

    say(&serde_json::to_string(&PrintedRun::from_run_file(&RunFile::read(&path)?))?)
}
