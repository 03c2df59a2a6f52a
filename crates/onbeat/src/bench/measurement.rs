//! One probe under one load, in one run file: what `onbeat measure` does.
//!
//! ```no_run
//! use std::path::Path;
//! use std::process::Command;
//!
//! use onbeat::bench::Conditions;
//! use onbeat::bench::measurement::{MeasurementPlan, measure};
//! use onbeat::campaign::CampaignEvent;
//! use onbeat::load::Load;
//! use onbeat::probe::{self, Given, Interruptions, Origin, Setting, timer::TIMER};
//!
//! let mut setting = Setting::new(1_000_000);
//! let parts = (TIMER.open)(&mut setting, &Given::default())?;
//! let origin = Origin::now();
//! let plan = MeasurementPlan {
//!     setting,
//!     load: &Load::IDLE,
//!     tuning: None,
//!     releases: 10_000,
//!     keep_seconds: false,
//!     header: probe::header(&["my-program".into()], TIMER.name, TIMER.series, origin.unix_s),
//!     path: Path::new("timer.onbeat.hlog"),
//!     origin: origin.at,
//!     out: Path::new("."),
//! };
//! let mut report = |event: CampaignEvent<'_>| {
//!     if let CampaignEvent::Running { elapsed_s, recorder: Some(recorder), .. } = event {
//!         eprintln!("{elapsed_s:.1} s, worst so far {} ns", recorder.progress().worst_ns);
//!     }
//! };
//! let interruptions = Interruptions::default();
//! let carrier = |_: &Load| Command::new("a program that calls onbeat::load::serve");
//! let conditions =
//!     Conditions { carrier: &carrier, interruptions: &interruptions, report: &mut report };
//! let account = measure(plan, parts, None, conditions)?;
//! assert_eq!(account.slots, 10_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::path::Path;

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};

use super::background_load::BackgroundLoad;
use super::conditions::Conditions;
use super::error::BenchError;
use super::run_tuning::{RunTuning, TunedHost};
use crate::campaign::CampaignEvent;
use crate::load::Load;
use crate::probe::description::Parts;
use crate::probe::{BlockPlan, Destination, Run, Setting};
use onbeat_record::run_dir;
use onbeat_record::{Account, Cell, Header, Past};

/// What is measured, under which load, and where it is written.
#[derive(Clone, Debug)]
pub struct MeasurementPlan<'m> {
    /// How the loop runs.
    pub setting: Setting,
    /// The load that runs at the same time.
    pub load: &'m Load,
    /// What is made on the host for this run and undone at its end; the setting is tuned already.
    pub tuning: Option<&'m RunTuning>,
    /// Releases of the whole run, its resumed part included; `u64::MAX` for no end.
    pub releases: u64,
    /// Whether exact figures are kept second by second.
    pub keep_seconds: bool,
    /// The header of the run, with its limits.
    pub header: Header,
    /// The run file.
    pub path: &'m Path,
    /// The instant that is 0 in the file.
    pub origin: Instant,
    /// The directory of all runs, whose link `latest` points at a run that is resumed.
    pub out: &'m Path,
}

/// Measures until the releases of the plan are done, the probe ends, or the interruptions ask to
/// stop. With a past the run is resumed in its file, for the releases that are left.
///
/// # Errors
/// [`BenchError`]. The load has ended, the tuning is undone, and what was recorded stays.
pub fn measure(
    mut plan: MeasurementPlan<'_>,
    parts: Parts,
    past: Option<Past>,
    conditions: Conditions<'_>,
) -> Result<Account, BenchError> {
    let load = BackgroundLoad::start(plan.load, conditions.carrier)?;
    let tuned = plan.tuning.map(RunTuning::make).transpose()?;
    if let Some(tuned) = &tuned {
        plan.header.grants.extend_from_slice(&tuned.grants);
        for words in tuned.words() {
            (conditions.report)(CampaignEvent::Warned(words));
        }
    }

    let measured = measure_tuned(plan, parts, past, load, conditions);
    let undone = tuned.map_or(Ok(()), TunedHost::undo);
    let account = measured?;
    undone?;
    Ok(account)
}

fn measure_tuned(
    plan: MeasurementPlan<'_>,
    mut parts: Parts,
    past: Option<Past>,
    mut load: BackgroundLoad,
    conditions: Conditions<'_>,
) -> Result<Account, BenchError> {
    let Conditions { interruptions, report, .. } = conditions;
    let began = Monotonic.now();
    let cell = Cell::new(plan.header.probe.clone(), plan.load.to_string());
    let index = past.as_ref().map_or(0, |past| past.next_block);
    let releases =
        past.as_ref().map_or(plan.releases, |past| run_dir::releases_left(past, plan.releases));
    let mut run = match past {
        Some(past) => {
            let run = Run::resume(past, plan.header, plan.setting)?;
            report(CampaignEvent::Resumed);
            run_dir::take_up(plan.out, plan.path)?;
            run
        }
        None => {
            let destination =
                Destination { path: plan.path, header: plan.header, origin: plan.origin };
            Run::open(destination, plan.setting)?
        }
    };

    if plan.keep_seconds {
        run.recorder().keep_seconds();
    }

    let block = BlockPlan { index, load: &cell.load, releases };
    let ran = run.single_block(&block, &mut parts, interruptions, &mut |recorder| {
        load.note_events(recorder, &mut |words| report(CampaignEvent::Warned(&words)));
        let elapsed_s = Monotonic.now().ns_since(began) as f64 / 1e9;
        report(CampaignEvent::Running { cell: &cell, elapsed_s, recorder: Some(recorder) });
    });

    load.stop(run.recorder(), &mut |words| report(CampaignEvent::Warned(&words)));
    ran?;
    Ok(run.close()?)
}
