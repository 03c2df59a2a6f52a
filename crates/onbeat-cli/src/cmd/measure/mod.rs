//! `onbeat measure`: runs one probe.

mod cpus;
pub(crate) mod in_guest;
mod life;
mod loads;
pub(crate) mod options;
mod probe_plan;
mod resume;
mod seconds;
mod shown;

use std::path::{Path, PathBuf};

use onbeat::bench::measurement::{self, MeasurementPlan};
use onbeat::probe::Interruptions;
use onbeat::record::Past;
use onbeat::record::run_dir::{NewRunDir, RUN_FILE_ENDING};

use super::Common;
use super::looping::{check_cpu, most_alarms};
use super::repair::repair_first;
use super::run_tuning;
use super::run_tuning::TunedLoop;
use super::view::check_port;
use super::{ExitVerdict, Failure, load};
use crate::probes::is_without_bus;
use crate::signals;
use crate::signals::{EndOf, OnUsr1};
use life::Life;
use options::{Measure, MeasureOptions};
use probe_plan::probe_plan;
use resume::PlannedMeasurement;
use shown::ShownMeasurement;

pub(crate) fn run(measure: &Measure) -> Result<ExitVerdict, Failure> {
    let options = &measure.options;
    admit(measure)?;
    check_port(&options.beside_view)?;
    let life = options.beside.map(Life::open).transpose()?;
    repair_first()?;
    let interruptions = signals::watch(OnUsr1::Summary)?;
    let _end = EndOf::prompt("its load or its last cycle");
    if let Some(cpus) = &options.cpus {
        return cpus::run(measure, cpus, life, &interruptions);
    }
    if options.load_sweep.is_some() || !options.loads.is_empty() {
        return loads::run(measure, life, &interruptions);
    }
    of_one_run(measure, life, &interruptions)
}

/// Measures one loop under one load.
fn of_one_run(
    measure: &Measure,
    life: Option<Life>,
    interruptions: &Interruptions,
) -> Result<ExitVerdict, Failure> {
    let options = &measure.options;
    let (cpu, priority, period_ns) = (options.cpu, options.priority, options.looping.period);
    let tuning = options.tuning.as_ref();
    let tuning = run_tuning::resolved(&TunedLoop { tuning, cpu, priority, period_ns })?;
    let mut what = probe_plan(measure, options.duration);
    // The CPU that a tuning is given may be another one by now, which is refused with its reason.
    let planned = PlannedMeasurement::new(measure, &what);
    if let Some(tuning) = &tuning {
        what.setting = tuning.tuned(&what.setting);
    }

    // What cannot run leaves no directory behind.
    let opened = what.open()?;
    let (path, past, new) = run_to_write(measure, &planned)?;
    let shown = ShownMeasurement {
        measure,
        setting: opened.setting.clone(),
        path,
        new,
        resumed: past.as_ref().map(resume::words).unwrap_or_default(),
        left_s: left_s(options, past.as_ref()),
    };
    let plan = MeasurementPlan {
        what: &what,
        load: &options.load,
        tuning: tuning.as_ref(),
        path: &shown.path,
        out: &options.output.out,
    };
    shown.conduct(life, interruptions, |conditions| {
        measurement::measure(&plan, opened, past, conditions)
    })
}

/// Refuses options that cannot be met, before anything is opened or created.
fn admit(measure: &Measure) -> Result<(), Failure> {
    let Measure { probe, options, given } = measure;
    check_cpu(options.cpu)?;
    for loads in [std::slice::from_ref(&options.load), &options.loads] {
        load::check_load_directory(loads, options.load_dir.as_deref(), "--load-dir")?;
    }

    resume::admit(measure)?;
    // Only probes with devices have a bus, and `chain` only on request.
    let has_bus =
        !is_without_bus(probe.name) && given.has("devices") && given.word("with") != Some("output");
    if most_alarms(&options.limit).is_some() && !has_bus {
        let what = format!("measure {}", probe.name);
        return Err(Common::NoEvents { what, instead: "measure the probe `bus`" }.into());
    }

    Ok(())
}

/// Returns the run file, and the run to resume or else the directory of a new one.
fn run_to_write(
    Measure { probe, options, .. }: &Measure,
    planned: &PlannedMeasurement,
) -> Result<(PathBuf, Option<Past>, Option<NewRunDir>), Failure> {
    let out = &options.output.out;
    if options.resume
        && let Some(past) = resume::find(out, planned)?
    {
        return Ok((past.path.clone(), Some(past), None));
    }
    let new = new_run(out, planned)?;
    Ok((new.path().join(format!("{}{RUN_FILE_ENDING}", probe.name)), None, Some(new)))
}

/// The seconds that are left to measure.
fn left_s(options: &MeasureOptions, past: Option<&Past>) -> f64 {
    let measured_ns = past.map_or(0, |past| past.account.slots * options.looping.period);
    options.duration.saturating_sub(measured_ns) as f64 / 1e9
}

/// Creates the directory of a new run, with its plan.
fn new_run(out: &Path, planned: &PlannedMeasurement) -> Result<NewRunDir, Failure> {
    let new = NewRunDir::create(out)?;
    planned.write(new.path()).inspect_err(|_| new.withdraw_unless_begun())?;
    Ok(new)
}
