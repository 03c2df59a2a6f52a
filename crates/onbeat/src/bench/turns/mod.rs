//! One probe under several loads in turns: a run file per load, and the file of a bench beside
//! them.
//!
//! The loads share one process and one tuning, so no cell needs a process of its own: the run of a
//! load is opened before its first block, waits during the turns of others, and is closed when it
//! is complete. One loop runs at a time. When the process is killed, nothing that is written is
//! lost, and [`UnfinishedTurns`] resumes it.

mod plan;
mod unfinished;

use std::path::{Path, PathBuf};

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, End, Outcome};

use super::background_load::BackgroundLoad;
use super::conditions::Conditions;
use super::error::BenchError;
use super::measurement::OpenedProbe;
use super::schedule::Shares;
use super::shared_file::SharedFile;
use super::sweep::Busy;
use crate::campaign::CampaignEvent;
use crate::load::Load;
use crate::probe::causes;
use crate::probe::description::Parts;
use crate::probe::resume::OtherRun;
use crate::probe::{BlockPlan, Destination, Origin, Run, Setting, SpikeExplainer};
use onbeat_cause::Cost;
use onbeat_host::thread::Grant;
use onbeat_record::{Bench, Cell, Header, Note, Past, StepNote};
pub use plan::TurnsPlan;
pub use unfinished::UnfinishedTurns;

/// Seed for the order of the turns: the default of a bench.
const SEED: u64 = 1;

/// Measures from the beginning into the existing directory `dir`, or resumes `unfinished`, which is
/// there. `opened` is the probe, for the first block.
///
/// When the interruptions ask to stop, it ends in good order: files closed, load ended.
///
/// # Errors
/// [`BenchError`]. What was recorded before stays, and the load has ended.
pub fn conduct<'p>(
    plan: &'p TurnsPlan,
    OpenedProbe { setting, parts }: OpenedProbe,
    unfinished: Option<UnfinishedTurns>,
    dir: &Path,
    conditions: Conditions<'_>,
) -> Result<(), BenchError> {
    let origin = Origin::now();
    let (file, tuning, pasts) = match unfinished {
        None => {
            let file = SharedFile::create(dir, origin, &plan.what.header(origin.unix_s))?;
            (file, None, plan.loads.iter().map(|_| None).collect())
        }
        Some(unfinished) => {
            unfinished.check(plan)?;
            let UnfinishedTurns { bench, tuning, pasts } = unfinished;
            let last_t = pasts.iter().flatten().map(|past| past.last_t).fold(0.0, f64::max);
            let mut file = SharedFile::resume(bench, last_t, origin)?;
            file.note_resume()?;
            (file, Some(tuning), pasts)
        }
    };

    let left = plan.left(&pasts);
    let slot = |(load, past): (&'p Load, Option<Past>)| LoadSlot {
        load,
        path: dir.join(plan.file_name(load)),
        run: None,
        blocks: past.as_ref().map_or(0, |past| past.next_block),
        past,
    };
    let slots = plan.loads.iter().zip(pasts).map(slot).collect();
    let (explainer, evidence) = causes::open(&setting);
    let mut conductor = TurnsConductor {
        shares: Shares::new(left, plan.block_releases(), plan.order, SEED),
        plan,
        setting: Setting { causes: false, ..setting },
        conditions,
        file,
        slots,
        ready: Some(parts),
        tuning,
        explainer: explainer.map(|explainer| Box::new(explainer) as Box<dyn SpikeExplainer>),
        evidence,
    };
    let ran = conductor.run_blocks();
    let closed = conductor.close(ran.is_ok());
    ran.and(closed)
}

/// A load with its run.
struct LoadSlot<'p> {
    load: &'p Load,
    path: PathBuf,
    run: Option<Run>,
    past: Option<Past>,
    /// Blocks so far, those before a resume included.
    blocks: u32,
}

struct TurnsConductor<'p, 'c> {
    plan: &'p TurnsPlan,
    /// How the loop runs. The flight recorder is the conductor's, and lent to each block.
    setting: Setting,
    conditions: Conditions<'c>,
    file: SharedFile,
    slots: Vec<LoadSlot<'p>>,
    shares: Shares,
    /// The probe, opened for the next block.
    ready: Option<Parts>,
    /// The tuning by the grants of the runs, once one is open.
    tuning: Option<String>,
    /// The one flight recorder of all loads, between blocks: one of them at a time has a loop.
    explainer: Option<Box<dyn SpikeExplainer>>,
    evidence: Vec<Grant>,
}

impl TurnsConductor<'_, '_> {
    fn run_blocks(&mut self) -> Result<(), BenchError> {
        while !self.conditions.is_stopped()
            && let Some((at, releases)) = self.shares.next_block()
        {
            let outcome = self.turn(at, releases)?;
            // A probe that is complete, and a loop that ended itself, have no releases left.
            let is_over = outcome.end != End::Complete && !self.conditions.is_stopped();
            self.shares.take(at, if is_over { u64::MAX } else { outcome.slots });
            if self.shares.is_done(at)
                && let Some(run) = self.slots[at].run.take()
            {
                run.close()?;
            }
        }

        Ok(())
    }

    /// Opens the probe again, for the loop's CPU, which it may have chosen itself.
    fn reopened(&self) -> Result<Parts, BenchError> {
        let mut what = self.plan.what.clone();
        what.setting.thread.cpu = self.setting.thread.cpu;
        Ok(what.open()?.parts)
    }

    /// Runs one block of a load: opens its run and its probe, then starts the load.
    fn turn(&mut self, at: usize, releases: u64) -> Result<Outcome, BenchError> {
        let mut run = match self.slots[at].run.take() {
            Some(run) => run,
            None => self.open_run(at)?,
        };

        let mut parts = match self.ready.take() {
            Some(parts) => parts,
            None => self.reopened()?,
        };

        if self.slots[at].blocks == 0 {
            self.note_step(at, None, 0.0)?;
        }
        let slot = &mut self.slots[at];
        let Conditions { carrier, interruptions, .. } = self.conditions;
        let report = &mut *self.conditions.report;
        let mut running = BackgroundLoad::start(slot.load, carrier)?;
        running.settle(self.plan.settling);
        let cell = Cell::new(self.plan.what.probe.name, slot.load.to_string());
        let block = BlockPlan { index: slot.blocks, load: &cell.load, releases };
        slot.blocks += 1;
        let began = self.file.origin.at;
        let looked_from = Monotonic.now();
        let mut before = None;
        run.explain_by(self.explainer.take());
        let ran = run.single_block(&block, &mut parts, interruptions, &mut |recorder| {
            before = before.or_else(|| Busy::read().ok());
            running.note_events(recorder, &mut |words| report(CampaignEvent::Warned(&words)));
            let elapsed_s = Monotonic.now().ns_since(began) as f64 / 1e9;
            report(CampaignEvent::Running { cell: &cell, elapsed_s, recorder: Some(recorder) });
        });

        // What it has cost is in the file of the bench, of all loads together.
        self.explainer = run.explain_by(None);
        let (after, took_ns) = (Busy::read().ok(), Monotonic.now().ns_since(looked_from));
        running.stop(run.recorder(), &mut |words| report(CampaignEvent::Warned(&words)));
        slot.run = Some(run);
        let outcome = ran?;
        let reached = after.zip(before).and_then(|(after, before)| after.percent_since(before));
        self.note_step(at, reached, took_ns as f64 / 1e9)?;
        Ok(outcome)
    }

    /// Opens the run of a load, a new one or a resumed one; the first one decides the tuning in the
    /// file of the bench.
    fn open_run(&mut self, at: usize) -> Result<Run, BenchError> {
        let LoadSlot { path, past, .. } = &mut self.slots[at];
        let origin = self.file.origin;
        let mut header = self.plan.what.run_header(origin.unix_s);
        header.grants.clone_from(&self.evidence);
        let setting = self.setting.clone();
        let of = header.clone();
        let mut run = match past.take().zip(self.file.point().cloned()) {
            Some((past, point)) => Run::resume_at(past, header, setting, point)?,
            None => Run::open(Destination { path, header, origin: origin.at }, setting)?,
        };

        let timing = self.setting.timing(0);
        let tuning = Header { grants: run.grants().to_vec(), timing: Some(timing), ..of }.tuning();
        let path = path.display().to_string();
        match &self.tuning {
            None => {
                self.file.writer.note(&Note::Bench(Box::new(self.note(&tuning, run.grants()))))?;
                self.tuning = Some(tuning);
            }
            Some(then) if *then != tuning => {
                let differences = vec![format!("the tuning was {then} and is {tuning}")];
                return Err(OtherRun { path, differences }.into());
            }
            Some(_) => {}
        }

        if self.plan.what.probe.line_a_second {
            run.recorder().keep_seconds();
        }

        Ok(run)
    }

    fn note(&self, tuning: &str, grants: &[Grant]) -> Bench {
        let releases = self.plan.block_releases();
        let blocks = self.plan.blocks().unwrap_or(0);
        Bench {
            tunings: vec![tuning.to_owned()],
            loads: self.plan.loads.iter().map(Load::to_string).collect(),
            order: self.plan.order.note(),
            blocks: u32::try_from(blocks).unwrap_or(u32::MAX),
            block_s: self.plan.what.seconds(releases),
            limit: self.plan.what.limit,
            most_alarms: self.plan.what.most_alarms,
            ladder: grants.to_vec(),
            sweep: self.plan.sweep.as_ref().map(|(note, _)| *note),
            ..Bench::default()
        }
    }

    /// Notes a step of a sweep, when it begins and when it is over: the first note stays even if the
    /// step fails.
    fn note_step(
        &mut self,
        at: usize,
        reached_percent: Option<f64>,
        seconds: f64,
    ) -> Result<(), BenchError> {
        let Some((_, asked)) = &self.plan.sweep else { return Ok(()) };
        let asked_percent = asked.get(at).copied().unwrap_or_default();
        let load = self.slots[at].load.to_string();
        let step = StepNote { load, asked_percent, reached_percent, seconds };
        Ok(self.file.writer.note(&Note::Step(step))?)
    }

    /// Closes all runs, whatever failed before, and returns the first error.
    fn close(mut self, is_whole: bool) -> Result<(), BenchError> {
        let mut closed = Ok(());
        for at in 0..self.slots.len() {
            let is_done = self.shares.is_done(at);
            let has_closing_line =
                self.slots[at].past.as_ref().is_some_and(|past| past.ended.is_some());
            // A run that was killed between its last block and its closing line needs that line
            // alone.
            if is_whole && is_done && self.slots[at].past.is_some() && !has_closing_line {
                let opened = self.open_run(at);
                closed = closed.and(opened.map(|run| self.slots[at].run = Some(run)));
            }

            let Some(mut run) = self.slots[at].run.take() else { continue };
            if !is_done {
                run.mark_ended_early();
            }

            closed = closed.and(run.close().map(drop).map_err(BenchError::from));
        }

        let cost = self.explainer.as_ref().map_or_else(Cost::default, |explainer| explainer.cost());
        let is_done = (0..self.slots.len()).all(|at| self.shares.is_done(at));
        self.file.close(is_done, &cost)?;
        closed
    }
}
