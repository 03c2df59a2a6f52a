//! Executes the schedule of a bench: loads, shield, blocks. All changes to the host are undone at
//! the end.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;

use super::CellTuning;
use super::cell::{CellError, CellProcess, CellReply};
use super::cell_slot::{CellSlot, is_part_of_tuning};
use super::cell_start::CellStart;
use super::host_settings::SettingError;
use super::load_notes;
use super::plan::real_loads;
pub use super::plan::{BenchPlan, scheduled};
use super::schedule::{LoadTurn, Pace, RAMP, Schedule, TooShort};
use super::shielding::Shielding;
use super::unfinished::ResumedBench;
pub use super::unfinished::UnfinishedBench;
use crate::cause::{Cost, Explainer, LoopThread};
use crate::load::{Load, RunningError, RunningLoad};
use crate::probe::resume::OtherRun;
use crate::probe::{self, Interruptions, Origin};
use crate::record::{
    Account, Bench, Cell, CellNotPermitted, EndReason, Note, Progress, Remark, RunWriter,
    WriteError,
};
use crate::thread::{AheadOfLoad, Grant, ThreadRequest};
use onbeat_tune::TuneError;

/// Interval between two looks of the bench while a block runs.
const LOOK_EVERY: Duration = Duration::from_millis(50);
pub use crate::record::run_dir::BENCH_FILE;

/// Stands for the loop before the first block: no thread has number 0.
const NO_LOOP_YET: LoopThread = LoopThread { tid: 0, cpu: None, fifo: None };

/// How to start the processes of a bench: only the binary knows its own command line.
pub trait Processes {
    /// Returns a command whose process reads a [`CellStart`] from standard input and serves that
    /// cell ([`super::cell::CellServer`]).
    fn cell(&self) -> Command;
    /// Returns a command whose process carries a load ([`crate::load::serve`]).
    fn load(&self, load: &Load) -> Command;
}

/// What happens while a bench runs.
#[derive(Clone, Debug, PartialEq)]
pub enum BenchEvent {
    /// The plan, before the first block; a bench that is resumed has none.
    Planned {
        /// Estimate of the whole time, in seconds.
        estimate_s: f64,
        /// Blocks of each cell.
        blocks_per_cell: u32,
        /// Length of a block, in seconds.
        block_s: f64,
    },
    /// The cells are prepared.
    Prepared {
        /// Number of cells that run.
        running: usize,
        /// Cells that are not permitted, and why.
        not_permitted: Vec<CellNotPermitted>,
    },
    /// A sentence about a load or the shield.
    Said(String),
    /// A cell runs; reported about every 50 ms.
    Running {
        /// Seconds since this process began or resumed the bench.
        elapsed_s: f64,
        /// The cell.
        cell: Cell,
    },
    /// A block is complete.
    Block {
        /// The cell.
        cell: Cell,
        /// The results of the cell so far.
        progress: Progress,
    },
}

/// A bench failed.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The time is too short.
    #[error(transparent)]
    TooShort(#[from] TooShort),
    /// A tuning or load is listed twice, and two cells would share one run file.
    #[error(
        "{what} {name} is listed twice; list it once, since each of its cells has one run file"
    )]
    Twice {
        /// `tuning` or `load`.
        what: &'static str,
        /// Which.
        name: String,
    },
    /// The bench would be resumed under other conditions than it began.
    #[error(transparent)]
    OtherRun(#[from] OtherRun),
    /// A file could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A cell's process failed.
    #[error(transparent)]
    Cell(#[from] CellError),
    /// A load failed.
    #[error("load {load}: {source}")]
    Load {
        /// Which load.
        load: String,
        /// Why.
        source: RunningError,
    },
    /// The shield could not be raised or lowered.
    #[error(transparent)]
    Tune(#[from] TuneError),
    /// A setting of the host could not be made or undone.
    #[error(transparent)]
    Setting(#[from] SettingError),
}

/// The directory, processes and signals of a bench.
pub struct BenchConditions<'c> {
    /// The existing directory of its files.
    pub dir: &'c Path,
    /// Starts its processes.
    pub processes: &'c dyn Processes,
    /// Signals.
    pub interruptions: &'c Interruptions,
    /// Receives what happens.
    pub report: &'c mut dyn FnMut(BenchEvent),
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

    let mut conductor = BenchConductor::open(plan, unfinished, conditions)?;
    let ran = conductor.prepare(schedule).and_then(|schedule| conductor.run_turns(&schedule));
    let closed = conductor.close(ran.is_ok());
    ran.and(closed)
}

/// A bench in progress.
struct BenchConductor<'c> {
    plan: &'c BenchPlan,
    conditions: BenchConditions<'c>,
    file: RunWriter,
    origin: Origin,
    resumed: Option<ResumedBench>,
    slots: Vec<CellSlot>,
    ladder: Vec<Grant>,
    shielding: Shielding,
    explainer: Option<Explainer>,
}

impl<'c> BenchConductor<'c> {
    fn open(
        plan: &'c BenchPlan,
        unfinished: Option<UnfinishedBench>,
        conditions: BenchConditions<'c>,
    ) -> Result<Self, BenchError> {
        let origin = Origin::now();
        let (file, resumed) = match unfinished {
            None => {
                let header = probe::header(&plan.command, "bench", &[], origin.unix_s);
                (RunWriter::create(&conditions.dir.join(BENCH_FILE), &header)?, None)
            }
            Some(unfinished) => {
                let (file, resumed) = unfinished.take_up(origin)?;
                (file, Some(resumed))
            }
        };

        let (explainer, ladder) =
            if plan.causes { Explainer::open_with_grants(NO_LOOP_YET) } else { (None, Vec::new()) };
        Ok(Self {
            plan,
            conditions,
            file,
            origin,
            resumed,
            slots: Vec::new(),
            ladder,
            shielding: Shielding::begin(&plan.journal, &plan.command)?,
            explainer,
        })
    }

    fn is_stopped(&self) -> bool {
        self.conditions.interruptions.stop.load(Ordering::Relaxed)
    }

    /// Returns the seconds since this process began or resumed the bench.
    fn elapsed_s(&self) -> f64 {
        Monotonic.now().ns_since(self.origin.at) as f64 / 1e9
    }

    /// Returns the time of the bench's file.
    fn file_s(&self) -> f64 {
        let from_ns = self.resumed.as_ref().map_or(0, |resumed| resumed.point.time.from_ns);
        from_ns as f64 / 1e9 + self.elapsed_s()
    }

    /// Starts the processes of the cells, checks what is permitted, prepares the shield, and
    /// records all of it.
    fn prepare(&mut self, schedule: Schedule) -> Result<Schedule, BenchError> {
        let has_blocks = |load: usize, tuning: usize| {
            schedule.turns.iter().any(|turn| turn.load == load && turn.blocks.contains(&tuning))
        };
        for load in 0..self.plan.loads.len() {
            for (at, tuning) in self.plan.tunings.iter().enumerate() {
                let slot = self.slot(self.plan.cell(load, tuning), tuning, has_blocks(load, at))?;
                self.slots.push(slot);
            }
        }

        self.prepare_shield()?;
        self.refuse_settings_without_root()?;
        let not_permitted: Vec<CellNotPermitted> =
            self.slots.iter().filter_map(CellSlot::not_permitted).collect();
        let running = self.slots.iter().filter(|slot| slot.process.is_some()).count();
        let schedule = match &self.resumed {
            None => self.begun(schedule, &not_permitted)?,
            Some(resumed) => {
                let ResumedBench { point, after, .. } = resumed;
                self.file.note(&Note::Resume(point.time.note(*after)))?;
                if let Some(doubt) = &point.time.doubt {
                    self.file.note(&Note::Remark(Remark { sentence: doubt.clone() }))?;
                }
                schedule
            }
        };

        // What the cells record from here on is of no use without the plan.
        self.file.sync()?;
        (self.conditions.report)(BenchEvent::Prepared { running, not_permitted });
        Ok(schedule)
    }

    /// Notes the plan of a bench that begins, and returns its schedule.
    fn begun(
        &mut self,
        schedule: Schedule,
        not_permitted: &[CellNotPermitted],
    ) -> Result<Schedule, BenchError> {
        let schedule = self.rescheduled(schedule);
        self.file.note(&Note::Bench(Box::new(Bench {
            tunings: self.plan.tunings.iter().map(CellTuning::to_string).collect(),
            loads: self.plan.loads.iter().map(Load::to_string).collect(),
            order: self.plan.order.note(),
            blocks: schedule.blocks_per_cell,
            block_s: schedule.block_s,
            limit: self.plan.limit,
            most_alarms: self.plan.most_alarms,
            not_permitted: not_permitted.to_vec(),
            ladder: self.ladder.clone(),
            shield: self.shielding.words().to_vec(),
            sweep: None,
        })))?;
        let Schedule { estimate_s, blocks_per_cell, block_s, .. } = schedule;
        (self.conditions.report)(BenchEvent::Planned { estimate_s, blocks_per_cell, block_s });
        Ok(schedule)
    }

    /// Returns the schedule of the cells that are permitted, in the time that is left.
    fn rescheduled(&self, schedule: Schedule) -> Schedule {
        let tunings = self.plan.tunings.len();
        let runs =
            |load: usize, tuning: usize| self.slots[load * tunings + tuning].why_not.is_none();
        let schedule = schedule.retain_cells(runs);
        if schedule.turns.is_empty() {
            return schedule;
        }

        let left_s = self.plan.duration.as_secs_f64() - self.elapsed_s();
        let block_s = Pace::new(&real_loads(self.plan)).block_s(&schedule.turns, left_s);
        Schedule { block_s, ..schedule }
    }

    /// Returns the slot of a cell, with its process unless the cell is not permitted or complete.
    fn slot(
        &mut self,
        cell: Cell,
        tuning: &CellTuning,
        has_blocks: bool,
    ) -> Result<CellSlot, BenchError> {
        let tuning = tuning.clone();
        let empty = CellSlot { cell, tuning, process: None, why_not: None, blocks: 0 };
        let Some(ResumedBench { measured, .. }) = &self.resumed else {
            return self.start_cell(empty);
        };
        let blocks = measured.blocks_of(&empty.cell);
        let why_not = measured.why_not_permitted(&empty.cell);
        let is_left = why_not.is_none() && (has_blocks || measured.needs_closing_line(&empty.cell));
        let slot = CellSlot { blocks, why_not, ..empty };

        if is_left { self.start_cell(slot) } else { Ok(slot) }
    }

    fn start_cell(&mut self, mut slot: CellSlot) -> Result<CellSlot, BenchError> {
        let CellSlot { cell, tuning, .. } = &slot;
        let resumed = self.resumed.as_ref().filter(|resumed| resumed.measured.has_file(cell));
        let start = CellStart {
            onbeat: CellStart::version(),
            command: self.plan.command.clone(),
            file: self.conditions.dir.join(cell.file_name()),
            cell: cell.clone(),
            started_unix_s: self.origin.unix_s,
            origin_ns: self.origin.at.as_ns(),
            task: self.plan.task,
            setting: self.plan.tuned(tuning),
            timer_slack_ns: self.plan.options(tuning).timer_slack_ns,
            explain: self.explainer.is_some(),
            resume: resumed.map(|resumed| resumed.point.clone()),
        };

        let process = CellProcess::start(self.conditions.processes.cell(), &start)?;
        let refusal = process
            .grants()
            .iter()
            .find(|grant| !grant.granted && is_part_of_tuning(grant))
            .map(Grant::refusal);
        for grant in process.grants() {
            self.list_grant(grant.clone());
        }

        slot.process = Some(process);
        if let Some(why) = refusal {
            self.refuse(&mut slot, why)?;
        }

        Ok(slot)
    }

    /// Lists a grant once, however many cells requested it.
    fn list_grant(&mut self, grant: Grant) {
        if !self.ladder.iter().any(|rung| rung.what == grant.what && rung.wanted == grant.wanted) {
            self.ladder.push(grant);
        }
    }

    fn prepare_shield(&mut self) -> Result<(), BenchError> {
        let plan = self.plan;
        let is_shielded = |tuning: &CellTuning| plan.options(tuning).letters.shield;
        let shielded = self.slots.iter().filter(|slot| is_shielded(&slot.tuning));
        let pids: Vec<u32> =
            shielded.filter_map(|slot| Some(slot.process.as_ref()?.pid())).collect();
        let is_resumed = self.resumed.is_some();
        if !plan.tunings.iter().any(is_shielded) || is_resumed && pids.is_empty() {
            return Ok(());
        }

        let grant = self.shielding.prepare(self.plan.cpu, &pids)?;
        if !grant.granted {
            let why = grant.refusal();
            let mut slots = std::mem::take(&mut self.slots);
            let shielded =
                slots.iter_mut().filter(|slot| is_shielded(&slot.tuning) && slot.why_not.is_none());
            let refused =
                shielded.map(|slot| self.refuse(slot, why.clone())).collect::<Result<Vec<()>, _>>();
            self.slots = slots;
            refused?;
        }

        for line in self.shielding.words() {
            (self.conditions.report)(BenchEvent::Said(line.clone()));
        }

        self.list_grant(grant);
        Ok(())
    }

    /// Marks the cells that change the host as not permitted where that is refused.
    fn refuse_settings_without_root(&mut self) -> Result<(), BenchError> {
        if self.shielding.can_change() {
            return Ok(());
        }

        let plan = self.plan;
        let changes = |slot: &CellSlot| {
            plan.settings_of(&slot.tuning).any(|setting| !setting.plan.steps.is_empty())
        };
        let mut slots = std::mem::take(&mut self.slots);
        let refused = slots
            .iter_mut()
            .filter(|slot| changes(slot) && slot.why_not.is_none())
            .map(|slot| self.refuse(slot, "changing settings of the host needs root".to_owned()))
            .collect::<Result<Vec<()>, _>>();
        self.slots = slots;
        refused.map(|_| ())
    }

    /// Marks a cell as not permitted: its process ends, and its run file, without samples, is
    /// removed. A cell of a bench that is resumed has been permitted before; that is another bench.
    fn refuse(&self, slot: &mut CellSlot, why: String) -> Result<(), BenchError> {
        if let Some(resumed) = &self.resumed {
            let CellSlot { cell: Cell { tuning, load }, .. } = slot;
            let difference = format!("cell {tuning} under {load} was permitted and is not ({why})");
            return Err(resumed.measured.other_run(vec![difference]).into());
        }

        slot.refuse(why, &self.conditions.dir.join(slot.cell.file_name()))
    }

    fn run_turns(&mut self, schedule: &Schedule) -> Result<(), BenchError> {
        let mut pace = Pace::new(&real_loads(self.plan));
        let ends_s = match self.resumed {
            None => self.plan.duration.as_secs_f64(),
            // Only what is measured counts as the time of a bench that is resumed.
            Some(_) => self.elapsed_s() + pace.estimate_s(&schedule.turns, schedule.block_s),
        };

        for (at, turn) in schedule.turns.iter().enumerate() {
            if self.is_stopped() {
                break;
            }

            let begun_s = self.elapsed_s();
            let block_s = pace.block_s(&schedule.turns[at..], ends_s - begun_s);
            let releases =
                (block_s * 1e9 / self.plan.setting.period_ns as f64).round().max(1.0) as u64;
            self.turn(turn, releases)?;
            pace.learn(turn, block_s, self.elapsed_s() - begun_s);
        }

        Ok(())
    }

    fn turn(&mut self, turn: &LoadTurn, releases: u64) -> Result<(), BenchError> {
        let load = &self.plan.loads[turn.load];
        let mut running = if load.is_idle() { None } else { Some(self.start_load(load)?) };
        let mut ran = Ok(());
        for &tuning in &turn.blocks {
            let slot = turn.load * self.plan.tunings.len() + tuning;
            if self.is_stopped() || self.slots[slot].process.is_none() {
                continue;
            }

            ran = self.tuned_block(slot, releases);
            if ran.is_err() {
                break;
            }

            if let Some(running) = &mut running {
                let events = running.events();
                self.note_load_events(&events)?;
            }
        }

        if let Some(running) = running {
            self.stop_load(load, running)?;
        }

        ran
    }

    fn start_load(&mut self, load: &Load) -> Result<RunningLoad, BenchError> {
        let failed = |source| BenchError::Load { load: load.to_string(), source };
        let mut running =
            RunningLoad::start(self.conditions.processes.load(load)).map_err(failed)?;
        if let Some((session, start_ticks)) = running.identity() {
            self.shielding.remember_session(session, start_ticks)?;
        }

        let events = running.events();
        self.note_load_events(&events)?;
        std::thread::sleep(RAMP);
        Ok(running)
    }

    fn stop_load(&mut self, load: &Load, running: RunningLoad) -> Result<(), BenchError> {
        let (done, events) =
            running.stop().map_err(|source| BenchError::Load { load: load.to_string(), source })?;
        self.shielding.forget_session()?;
        self.note_load_events(&events)?;
        let t = self.file_s();
        self.file.note(&load_notes::of_report(load, &done, t))?;

        Ok(())
    }

    fn note_load_events(&mut self, events: &[crate::load::LoadNotice]) -> Result<(), BenchError> {
        for event in events {
            let note = load_notes::of_event(event, self.file_s());
            if event.matters() {
                (self.conditions.report)(BenchEvent::Said(note.detail.clone()));
            }

            self.file.note(&Note::Load(note))?;
        }
        Ok(())
    }

    /// Runs a block between the changes of its tuning and their undo.
    fn tuned_block(&mut self, slot: usize, releases: u64) -> Result<(), BenchError> {
        let plan = self.plan;
        let tuning = self.slots[slot].tuning.clone();
        self.shielding.set(plan.options(&tuning).letters.shield)?;

        let made = self.shielding.make(plan.settings_of(&tuning));
        let ran = made.map_err(Into::into).and_then(|()| self.block(slot, releases));
        let undone = self.shielding.undo_settings();
        ran.and(undone.map_err(Into::into))
    }

    fn block(&mut self, slot: usize, releases: u64) -> Result<(), BenchError> {
        // The loop may run on any CPU: the explainer may go ahead of the load beside a real-time
        // loop only.
        let options = self.plan.options(&self.slots[slot].tuning);
        let fifo = options.letters.priority.then_some(self.plan.priority);
        let of_loop = ThreadRequest { fifo, ..ThreadRequest::default() };
        let _ahead = self.explainer.as_ref().map(|_| AheadOfLoad::take(&of_loop).0);
        let CellSlot { cell, process, blocks, .. } = &mut self.slots[slot];
        let Some(process) = process else { return Ok(()) };
        process.request_block(*blocks, releases)?;
        *blocks += 1;

        loop {
            if let Some(explainer) = &mut self.explainer {
                explainer.keep_watch();
            }

            match (process.reply(Some(LOOK_EVERY))?, &mut self.explainer) {
                (Some(CellReply::Done(progress)), _) => {
                    (self.conditions.report)(BenchEvent::Block { cell: cell.clone(), progress });
                    return Ok(());
                }
                // A filter that the kernel refuses leaves wake-ups unrecorded, and the explanations
                // say so.
                (Some(CellReply::Loop(thread)), Some(explainer)) => drop(explainer.follow(thread)),
                (Some(CellReply::Late(facts)), Some(explainer)) => {
                    process.explained(explainer.explain_facts(&facts))?;
                }
                (Some(CellReply::Around), Some(explainer)) => process.around(explainer.keep())?,
                _ => {}
            }

            let elapsed_s = Monotonic.now().ns_since(self.origin.at) as f64 / 1e9;
            (self.conditions.report)(BenchEvent::Running { elapsed_s, cell: cell.clone() });
            if self.conditions.interruptions.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    }

    /// Ends loads, cells and shield, whatever failed before; returns the first error of its own.
    fn close(self, has_succeeded: bool) -> Result<(), BenchError> {
        let t = self.file_s();
        // A bench that failed is not complete: it can be resumed.
        let reason = if self.is_stopped() || !has_succeeded {
            EndReason::Asked
        } else {
            EndReason::Complete
        };
        let Self { mut file, slots, shielding, explainer, resumed, .. } = self;
        let earlier = resumed.map(|resumed| resumed.account).unwrap_or_default();
        let cost = explainer.as_ref().map_or_else(Cost::default, Explainer::cost);
        drop(explainer);
        let dismantled = shielding.dismantle();
        let closed: Vec<Result<(), CellError>> =
            slots.into_iter().filter_map(|slot| Some(slot.process?.close())).collect();
        file.note(&Note::End(earlier.and(&Account {
            t,
            reason,
            causes_cpu_ns: cost.cpu_ns,
            causes_explained: cost.explained,
            causes_incomplete: cost.incomplete,
            causes_slowest_ns: cost.slowest_ns,
            causes_bytes: cost.bytes_held,
            ..Account::default()
        })))?;
        file.sync()?;
        dismantled?;
        closed.into_iter().collect::<Result<Vec<()>, _>>()?;

        Ok(())
    }
}
