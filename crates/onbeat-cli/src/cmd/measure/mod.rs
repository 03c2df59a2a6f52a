//! `onbeat measure`: runs one probe.

mod cpus;
pub(crate) mod in_guest;
mod life;
mod loads;
pub(crate) mod options;
mod probe_plan;
mod resume;
mod seconds;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use onbeat::bench::Conditions;
use onbeat::bench::measurement::{self, MeasurementPlan};
use onbeat::campaign::CampaignEvent;
use onbeat::record::Past;
use onbeat::record::run_dir::{NewRunDir, RUN_FILE_ENDING};

use super::Common;
use super::carrier::carrier;
use super::looping::{check_cpu, most_alarms};
use super::net::log;
use super::repair::repair_first;
use super::run_tuning;
use super::run_tuning::TunedLoop;
use super::screen::Screen;
use super::so_far::{LooksAhead, SoFar, counts_so_far};
use super::view::{BesideView, check_port};
use super::{ExitVerdict, Failure, load, runs, show};
use crate::signals;
use crate::signals::{EndOf, OnUsr1};
use crate::term::{ProgressLine, Tone, columns, wrapped};
use life::Life;
use options::{Measure, MeasureOptions};
use probe_plan::probe_plan;
use resume::PlannedMeasurement;
use seconds::Lines;

pub(crate) fn run(measure: &Measure) -> Result<ExitVerdict, Failure> {
    let Measure { probe, options, .. } = measure;
    admit(measure)?;
    check_port(&options.beside_view)?;
    let mut life = options.beside.map(Life::open).transpose()?;
    repair_first()?;
    let interruptions = signals::watch(OnUsr1::Summary)?;
    let _end = EndOf::prompt("its load or its last cycle");
    if let Some(cpus) = &options.cpus {
        return cpus::run(measure, cpus, life, &interruptions);
    }
    if options.load_sweep.is_some() || !options.loads.is_empty() {
        return loads::run(measure, life, &interruptions);
    }

    // What cannot run leaves no directory behind.
    let (cpu, priority, period_ns) = (options.cpu, options.priority, options.looping.period);
    let tuning = options.tuning.as_ref();
    let tuning = run_tuning::resolved(&TunedLoop { tuning, cpu, priority, period_ns })?;
    let mut what = probe_plan(measure, options.duration);
    // The CPU that a tuning is given may be another one by now, which is refused with its reason.
    let planned = PlannedMeasurement::new(measure, &what);
    if let Some(tuning) = &tuning {
        what.setting = tuning.tuned(&what.setting);
    }
    let opened = what.open()?;
    let carrier = carrier(options.load_dir.as_deref())?;
    let mut lines = Lines::new(probe, &opened.setting, options.output.json);
    let (path, past, new) = run_to_write(measure, &planned)?;
    let shipment = log::RunShipment::start(options, &path)
        .inspect_err(|_| new.iter().for_each(NewRunDir::withdraw_unless_begun))?;
    let mut screen = Screen::begin(&path, options.screen.screen);
    let is_quiet = options.output.json || screen.is_on();
    let progress = ProgressLine::new(left_s(options, past.as_ref()), is_quiet);
    let resumed = past.as_ref().map(resume::words).unwrap_or_default();
    let mut summary = SoFar::new(path.clone(), &interruptions.summary);
    let mut looks = LooksAhead::new(options.until, options.duration, &path);
    let mut view = BesideView::new(&options.beside_view, options.cpu);
    let mut report = |event: CampaignEvent<'_>| match event {
        CampaignEvent::Resumed => screen.advise(Tone::Careful, &resumed),
        CampaignEvent::Warned(words) => {
            progress.above(|| screen.advise(Tone::Careful, &wrapped(words, columns())));
        }
        CampaignEvent::Running { elapsed_s, recorder: Some(recorder), .. } => {
            new.iter().for_each(runs::begin);
            view.begin(&path);
            let seconds = lines.since(recorder);
            if !screen.is_on() {
                progress.above_if(&seconds);
            }
            screen.look(recorder);
            if !summary.look(recorder) {
                progress.show(elapsed_s, &counts_so_far(recorder));
            }
            if looks.is_decided(elapsed_s, recorder) || life.as_mut().is_some_and(Life::is_over) {
                interruptions.stop.store(true, Ordering::Relaxed);
            }
        }
        _ => {}
    };

    let plan = MeasurementPlan {
        what: &what,
        load: &options.load,
        tuning: tuning.as_ref(),
        path: &path,
        out: &options.output.out,
    };
    let conditions =
        Conditions { carrier: &carrier, interruptions: &interruptions, report: &mut report };
    let measured = measurement::measure(&plan, opened, past, conditions).map_err(Failure::from);

    progress.finish();
    screen.end();
    summary.end();
    view.end();
    shipment.finish();
    match &new {
        Some(new) => runs::keep_if_begun(new, measured)?,
        None => measured?,
    };

    show::made(&path, &options.output)
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
    let has_bus = given.has("devices") && given.word("with") != Some("output");
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
