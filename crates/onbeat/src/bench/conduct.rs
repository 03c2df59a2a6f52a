//! Executes the schedule of a bench: loads, shield, blocks. All changes to the host are undone at
//! the end.
//!
//! A block is of one loop, or of a loop on each of several CPUs at the same time: each has a cell, a
//! process and a file of its own. The flight recorder follows one loop; with several there is none.

mod preparation;

use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::background_load::BackgroundLoad;
use super::cell::{CellError, CellProcess, CellReply, CellRequest};
use super::cell_tuning::CellTuning;
use super::conditions::Conditions;
use super::error::BenchError;
use super::plan::pace;
pub use super::plan::{BenchPlan, check_names, scheduled};
use super::schedule::{LoadTurn, RAMP, Schedule};
use super::shared_file::SharedFile;
use super::shielding::Shielding;
use super::unfinished::MeasuredBench;
pub use super::unfinished::UnfinishedBench;
use crate::campaign::CampaignEvent;
use crate::load::Load;
use crate::probe::{self, Origin};
use onbeat_cause::{Cost, Explainer, FlightSetting, LoopThread};
use onbeat_host::thread::{AheadOfLoad, Grant, Privilege, ThreadRequest};
pub use onbeat_record::run_dir::BENCH_FILE;
use onbeat_record::{Cell, CellNotPermitted, Header};

/// Interval between two looks of the bench while a block runs.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Stands for the loop before the first block: no thread has number 0.
const NO_LOOP_YET: LoopThread = LoopThread { tid: 0, cpu: None, fifo: None };

/// The directory, processes and signals of a bench.
pub struct BenchConditions<'c> {
    /// The existing directory of its files.
    pub dir: &'c Path,
    /// Returns a command whose process reads a [`CellStart`](super::cell_start::CellStart) from
    /// standard input and serves that cell ([`super::cell::CellServer`]).
    pub cell: &'c dyn Fn() -> Command,
    /// Loads, signals, and who is told.
    pub common: Conditions<'c>,
    /// What a look at the bench showed; asked between two loads, with the seconds since it began. Of
    /// a bench that is resumed they go on where its files end.
    pub look: &'c mut dyn FnMut(f64) -> Look,
}

/// What a look at a bench in progress showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// It is decided.
    Decided,
    /// It goes on without these tunings: they failed, and the time is for the others.
    GoOn {
        /// Names of tunings.
        without: Vec<String>,
    },
}

/// Runs a bench from the beginning, or resumes `unfinished`. When the interruptions ask to stop,
/// the bench ends in good order: files closed, loads ended, changes to the host undone.
///
/// # Errors
/// [`BenchError`]. What was recorded before stays in the directory; changes to the host are undone.
pub fn conduct<'c>(
    plan: &'c BenchPlan,
    unfinished: Option<UnfinishedBench>,
    conditions: BenchConditions<'c>,
) -> Result<(), BenchError> {
    let schedule = match &unfinished {
        None => scheduled(plan)?,
        Some(unfinished) => {
            unfinished.check(plan)?;
            unfinished.rest(plan)?
        }
    };

    let BenchConditions { dir, cell, common: conditions, look } = conditions;
    let origin = Origin::now();
    let (file, resumed) = match unfinished {
        None => {
            let header = Header {
                findings: plan.findings.clone(),
                ..probe::header(&plan.command, "bench", &[], origin.unix_s)
            };
            (SharedFile::create(dir, origin, &header)?, None)
        }
        Some(unfinished) => {
            let (file, measured) = unfinished.take_up(origin)?;
            (file, Some(measured))
        }
    };

    let (explainer, ladder) = if plan.causes && plan.cpus.is_empty() {
        Explainer::open_with_grants(NO_LOOP_YET, &FlightSetting::default())
    } else {
        (None, Vec::new())
    };
    let mut conductor = BenchConductor {
        plan,
        dir,
        cell,
        conditions,
        look,
        file,
        resumed,
        slots: Vec::new(),
        ladder,
        shielding: Shielding::begin(&plan.journal, &plan.command)?,
        explainer,
    };
    let ran = conductor.prepare(schedule).and_then(|schedule| conductor.run_turns(schedule));
    let closed = conductor.close(ran.is_ok());
    ran.and(closed)
}

/// A bench in progress.
struct BenchConductor<'c> {
    plan: &'c BenchPlan,
    dir: &'c Path,
    cell: &'c dyn Fn() -> Command,
    conditions: Conditions<'c>,
    look: &'c mut dyn FnMut(f64) -> Look,
    file: SharedFile,
    resumed: Option<MeasuredBench>,
    slots: Vec<CellSlot>,
    ladder: Vec<Grant>,
    shielding: Shielding,
    explainer: Option<Explainer>,
}

/// A cell of the bench, with its process while it may run.
struct CellSlot {
    cell: Cell,
    tuning: CellTuning,
    process: Option<CellProcess>,
    why_not: Option<String>,
    blocks: u32,
}

impl CellSlot {
    fn not_permitted(&self) -> Option<CellNotPermitted> {
        Some(CellNotPermitted { cell: self.cell.clone(), why_not: self.why_not.clone()? })
    }

    /// Asks the cell for its next block, where it runs.
    fn request_block(&mut self, releases: u64) -> Result<(), BenchError> {
        let Some(process) = &mut self.process else { return Ok(()) };
        process.request(&CellRequest::Block { index: self.blocks, releases })?;
        self.blocks += 1;
        Ok(())
    }
}

/// Returns whether a grant is part of a tuning. A cell runs without the others: evidence, idle
/// states.
fn is_part_of_tuning(grant: &Grant) -> bool {
    use Privilege::{CpuAffinity, LockedMemory, RealTimePriority};
    matches!(grant.privilege(), Some(RealTimePriority | LockedMemory | CpuAffinity))
}

impl BenchConductor<'_> {
    fn run_turns(&mut self, mut rest: Schedule) -> Result<(), BenchError> {
        let mut pace = pace(self.plan);
        let ends_s = match self.resumed {
            None => self.plan.duration.as_secs_f64(),
            // Only what is measured counts as the time of a bench that is resumed.
            Some(_) => self.file.elapsed_s() + pace.estimate_s(&rest.turns, rest.block_s),
        };

        while !rest.turns.is_empty() && !self.conditions.is_stopped() {
            let begun_s = self.file.elapsed_s();
            let block_s = pace.block_s(&rest.turns, ends_s - begun_s);
            let turn = rest.turns.remove(0);
            let releases =
                (block_s * 1e9 / self.plan.setting.period_ns as f64).round().max(1.0) as u64;
            self.turn(&turn, releases)?;
            pace.learn(&turn, block_s, self.file.elapsed_s() - begun_s);
            let of_bench_s = self.file.seconds();
            match (self.look)(of_bench_s) {
                Look::Decided => break,
                Look::GoOn { without } => rest = self.without(rest, &without),
            }
        }

        Ok(())
    }

    /// Returns the schedule that is left without the blocks of these tunings: the time that is left
    /// is shared by the others ([`Pace::block_s`](super::schedule::Pace::block_s)).
    fn without(&mut self, rest: Schedule, tunings: &[String]) -> Schedule {
        let name = |tuning: usize| self.plan.tunings[tuning].to_string();
        let is_left_out = |tuning: usize| tunings.contains(&name(tuning));
        for tuning in (0..self.plan.tunings.len()).filter(|tuning| is_left_out(*tuning)) {
            if rest.turns.iter().any(|turn| turn.blocks.contains(&tuning)) {
                let words = format!("{} failed; its time is for the others", name(tuning));
                (self.conditions.report)(CampaignEvent::Said(&words));
            }
        }

        rest.retain_cells(|_, tuning| !is_left_out(tuning))
    }

    fn turn(&mut self, turn: &LoadTurn, releases: u64) -> Result<(), BenchError> {
        let mut load = self.start_load(&self.plan.loads[turn.load])?;
        let mut ran = Ok(());
        for &tuning in &turn.blocks {
            let slots = self.plan.places(turn.load, tuning);
            let runs = self.slots[slots.clone()].iter().any(|slot| slot.process.is_some());
            if self.conditions.is_stopped() || !runs {
                continue;
            }

            ran = self.tuned_block(slots, releases);
            if ran.is_err() {
                break;
            }
            let events = load.events(self.file.seconds());
            self.file.note_load(events, self.conditions.report)?;
        }

        let ended = load.end(|| self.file.seconds())?;
        self.shielding.forget_session()?;
        self.file.note_load(ended, self.conditions.report)?;
        ran
    }

    fn start_load(&mut self, load: &Load) -> Result<BackgroundLoad, BenchError> {
        let mut running = BackgroundLoad::start(load, self.conditions.carrier)?;
        if let Some((session, start_ticks)) = running.identity() {
            self.shielding.remember_session(session, start_ticks)?;
        }

        let events = running.events(self.file.seconds());
        self.file.note_load(events, self.conditions.report)?;
        running.settle(RAMP);
        Ok(running)
    }

    /// Runs a block between the changes of its tuning and their undo.
    fn tuned_block(&mut self, slots: Range<usize>, releases: u64) -> Result<(), BenchError> {
        let plan = self.plan;
        let tuning = self.slots[slots.start].tuning.clone();
        self.shielding.set(plan.options(&tuning).letters.shield)?;

        let made = self.shielding.make(plan.settings_of(&tuning));
        let ran = made.map_err(Into::into).and_then(|()| self.block(slots, releases));
        let undone = self.shielding.undo_settings();
        ran.and(undone.map_err(Into::into))
    }

    /// Runs a block of these cells at the same time.
    fn block(&mut self, slots: Range<usize>, releases: u64) -> Result<(), BenchError> {
        // The loop may run on any CPU: the explainer may go ahead of the load beside a real-time
        // loop only.
        let options = self.plan.options(&self.slots[slots.start].tuning);
        let fifo = options.letters.priority.then_some(self.plan.priority);
        let of_loop = ThreadRequest { fifo, ..ThreadRequest::default() };
        let _ahead = self.explainer.as_ref().map(|_| AheadOfLoad::take(&of_loop).0);
        for slot in &mut self.slots[slots.clone()] {
            slot.request_block(releases)?;
        }

        for slot in slots {
            self.end_block(slot)?;
        }
        Ok(())
    }

    /// Waits until the block of a cell is complete, and explains its spikes meanwhile.
    fn end_block(&mut self, slot: usize) -> Result<(), BenchError> {
        let CellSlot { cell, process, .. } = &mut self.slots[slot];
        let Some(process) = process else { return Ok(()) };
        loop {
            if let Some(explainer) = &mut self.explainer {
                explainer.keep_watch();
            }

            match (process.reply(Some(LOOK_EVERY))?, &mut self.explainer) {
                (Some(CellReply::Done(progress)), _) => {
                    (self.conditions.report)(CampaignEvent::Block { cell, progress });
                    return Ok(());
                }
                // A filter that the kernel refuses leaves wake-ups unrecorded, and the explanations
                // say so.
                (Some(CellReply::Loop(thread)), Some(explainer)) => drop(explainer.follow(thread)),
                (Some(CellReply::Late(facts)), Some(explainer)) => {
                    let explanation = explainer.explain_facts(&facts);
                    process.request(&CellRequest::Explained(explanation))?;
                }
                (Some(CellReply::Around), Some(explainer)) => {
                    process.request(&CellRequest::Window(explainer.keep()))?;
                }
                _ => {}
            }

            let elapsed_s = self.file.elapsed_s();
            (self.conditions.report)(CampaignEvent::Running { cell, elapsed_s, recorder: None });
            if self.conditions.is_stopped() {
                return Ok(());
            }
        }
    }

    /// Ends loads, cells and shield, whatever failed before; returns the first error of its own.
    fn close(self, has_succeeded: bool) -> Result<(), BenchError> {
        // A bench that failed is not complete either.
        let is_whole = has_succeeded && !self.conditions.is_stopped();
        let Self { file, slots, shielding, explainer, .. } = self;
        let cost = explainer.as_ref().map_or_else(Cost::default, Explainer::cost);
        drop(explainer);
        let dismantled = shielding.dismantle();
        let closed: Vec<Result<(), CellError>> =
            slots.into_iter().filter_map(|slot| Some(slot.process?.close())).collect();
        file.close(is_whole, &cost)?;
        dismantled?;
        closed.into_iter().collect::<Result<Vec<()>, _>>()?;

        Ok(())
    }
}
