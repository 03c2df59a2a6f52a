//! What is measured of one probe, in whatever experiment; and one probe under one load, in one run
//! file, which is what `onbeat measure` does.
//!
//! ```no_run
//! use std::path::Path;
//! use std::process::Command;
//!
//! use onbeat::bench::Conditions;
//! use onbeat::bench::measurement::{MeasurementPlan, ProbePlan, measure};
//! use onbeat::campaign::CampaignEvent;
//! use onbeat::load::Load;
//! use onbeat::probe::{Interruptions, Setting, WAKE_UP};
//!
//! let what = ProbePlan::new(WAKE_UP, Setting::new(1_000_000), 10_000, &["my-program".into()]);
//! let opened = what.open()?;
//! let plan = MeasurementPlan {
//!     what: &what,
//!     load: &Load::IDLE,
//!     tuning: None,
//!     path: Path::new("timer.onbeat.hlog"),
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
//! let account = measure(&plan, opened, None, conditions)?;
//! assert_eq!(account.slots, 10_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::path::Path;

use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;

use super::background_load::BackgroundLoad;
use super::conditions::Conditions;
use super::error::BenchError;
use super::run_tuning::{RunTuning, TunedHost};
use crate::campaign::CampaignEvent;
use crate::load::Load;
use crate::probe::description::Parts;
use crate::probe::{
    self, BlockPlan, Description, Destination, Given, Origin, Run, RunError, Setting,
};
use onbeat_record::run_dir;
use onbeat_record::{Account, Cell, FindingNote, Header, LimitNote, PARTS_OF_WAKE_UP, Past};

/// What is measured of a probe: all that its run files have in common, whatever runs beside it and
/// however many there are.
#[derive(Clone, Debug)]
pub struct ProbePlan {
    /// The probe.
    pub probe: &'static Description,
    /// The options of the probe.
    pub given: Given,
    /// How the loop is asked to run; the probe may change it when it is opened.
    pub setting: Setting,
    /// Releases of each run, its resumed part included; `u64::MAX` for no end.
    pub releases: u64,
    /// The limit to judge by.
    pub limit: Option<LimitNote>,
    /// Looks that share the level of the verdict, where a run ends as soon as that is decided.
    pub looks: usize,
    /// Alarms of bus and robot that are allowed in each run.
    pub most_alarms: Option<u64>,
    /// Tunings of this machine that are not as wanted.
    pub findings: Vec<FindingNote>,
    /// The command as typed.
    pub command: Vec<String>,
}

/// A probe, opened for its first block.
pub struct OpenedProbe {
    /// How its loop runs.
    pub setting: Setting,
    /// Loop, figures, companion.
    pub parts: Parts,
}

impl ProbePlan {
    /// Returns the plan of a probe without options of its own, limits and findings.
    #[must_use]
    pub fn new(
        probe: &'static Description,
        setting: Setting,
        releases: u64,
        command: &[String],
    ) -> Self {
        Self {
            probe,
            given: Given::default(),
            setting,
            releases,
            limit: None,
            looks: 0,
            most_alarms: None,
            findings: Vec::new(),
            command: command.to_vec(),
        }
    }

    /// Opens the probe.
    ///
    /// # Errors
    /// [`RunError`], when the loop or the probe cannot run as asked.
    pub fn open(&self) -> Result<OpenedProbe, RunError> {
        self.setting.admit()?;
        let mut setting = self.setting.clone();
        let parts = (self.probe.open)(&mut setting, &self.given)?;
        Ok(OpenedProbe { setting, parts })
    }

    /// Returns the time of a number of releases, in seconds.
    #[must_use]
    pub fn seconds(&self, releases: u64) -> f64 {
        releases as f64 * self.setting.period_ns as f64 / 1e9
    }

    /// Returns the header of a file that several runs share, which notes by itself what they are
    /// judged by.
    pub(super) fn header(&self, started_unix_s: f64) -> Header {
        let mut series = self.probe.series.to_vec();
        if self.setting.split {
            series.extend(PARTS_OF_WAKE_UP);
        }
        Header {
            findings: self.findings.clone(),
            ..probe::header(&self.command, self.probe.name, &series, started_unix_s)
        }
    }

    /// Returns the header of a run.
    pub(super) fn run_header(&self, started_unix_s: f64) -> Header {
        Header {
            limit: self.limit,
            looks: self.looks,
            most_alarms: self.most_alarms,
            ..self.header(started_unix_s)
        }
    }
}

/// What is measured, under which load, and where it is written.
#[derive(Clone, Copy, Debug)]
pub struct MeasurementPlan<'m> {
    /// What is measured; its setting is tuned already.
    pub what: &'m ProbePlan,
    /// The load that runs at the same time.
    pub load: &'m Load,
    /// What is made on the host for this run and undone at its end.
    pub tuning: Option<&'m RunTuning>,
    /// The run file.
    pub path: &'m Path,
    /// The directory of all runs, whose link `latest` points at a run that is resumed.
    pub out: &'m Path,
}

/// Measures until the releases of the plan are done, the probe ends, or the interruptions ask to
/// stop. With a past the run is resumed in its file, for the releases that are left.
///
/// # Errors
/// [`BenchError`]. The load has ended, the tuning is undone, and what was recorded stays.
pub fn measure(
    plan: &MeasurementPlan<'_>,
    OpenedProbe { setting, parts }: OpenedProbe,
    past: Option<Past>,
    conditions: Conditions<'_>,
) -> Result<Account, BenchError> {
    let Conditions { carrier, interruptions, report } = conditions;
    let ProbePlan { probe, releases, .. } = plan.what;
    let origin = Origin::now();
    let mut header = plan.what.run_header(origin.unix_s);
    let load = BackgroundLoad::start(plan.load, carrier)?;
    let tuned = plan.tuning.map(RunTuning::make).transpose()?;
    // Declared behind the tuning: where something fails, the load ends and the probe is closed
    // before that is undone.
    let (mut parts, mut load) = (parts, load);
    if let Some(tuned) = &tuned {
        header.grants.extend_from_slice(&tuned.grants);
        for words in tuned.words() {
            report(CampaignEvent::Warned(words));
        }
    }

    let began = Monotonic.now();
    let cell = Cell::new(probe.name, plan.load.to_string());
    let index = past.as_ref().map_or(0, |past| past.next_block);
    let releases = past.as_ref().map_or(*releases, |past| run_dir::releases_left(past, *releases));
    let mut run = match past {
        Some(past) => {
            let run = Run::resume(past, header, setting)?;
            report(CampaignEvent::Resumed);
            run_dir::take_up(plan.out, plan.path)?;
            run
        }
        None => Run::open(Destination { path: plan.path, header, origin: origin.at }, setting)?,
    };

    if probe.line_a_second {
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
    let account = run.close()?;
    drop(parts);
    tuned.map_or(Ok(()), TunedHost::undo)?;
    Ok(account)
}
