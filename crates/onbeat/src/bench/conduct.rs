//! Executes the schedule of a bench: loads, shield, blocks. All changes to the host are undone at the end.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant, Wait};

use super::Tuning;
use super::cell::{CellError, CellProcess, CellReply};
use super::cell_start::{CellStart, CellTask};
use super::load_notes;
use super::schedule::{self, CellOrder, LoadTurn, Pace, RAMP, Schedule, TooShort};
use super::shielding::Shielding;
use crate::cause::{Cost, Explainer, LoopThread};
use crate::load::{Load, RunningError, RunningLoad};
use crate::probe::{self, Interruptions, Setting};
use crate::record::{
    Account, Bench, Cell, CellNotPermitted, EndReason, LimitNote, Note, Progress, RunWriter, WriteError,
};
use crate::thread::{AheadOfLoad, Grant, Privilege, ThreadRequest};
use onbeat_tune::TuneError;

/// Interval between two looks of the bench while a block runs.
const LOOK_EVERY: Duration = Duration::from_millis(50);
pub use crate::record::run_dir::BENCH_FILE;

/// What a bench measures, under what, and for how long.
#[derive(Clone, Debug)]
pub struct BenchPlan {
    /// Tunings in the order of the command line.
    pub tunings: Vec<Tuning>,
    /// Loads in the order of the command line.
    pub loads: Vec<Load>,
    /// Total time.
    pub duration: Duration,
    /// Order of the cells.
    pub order: CellOrder,
    /// Seed for the order of the turns.
    pub seed: u64,
    /// The limit to judge by.
    pub limit: Option<LimitNote>,
    /// Alarms of bus and robot that a cell may have.
    pub most_alarms: Option<u64>,
    /// What the loop does in each cycle.
    pub task: CellTask,
    /// How the loop runs without tuning; a tuning sets its wait, priority, CPU and memory.
    pub setting: Setting,
    /// The CPU that C shields.
    pub cpu: u32,
    /// The priority that P gives.
    pub priority: u32,
    /// How S waits.
    pub spin: Wait,
    /// The command as typed.
    pub command: Vec<String>,
    /// Directory of the journal of changes to the host.
    pub journal: PathBuf,
    /// Whether spikes are explained, with one flight recorder for all cells.
    pub causes: bool,
}

impl BenchPlan {
    /// Returns the setting of a cell with this tuning.
    #[must_use]
    pub fn tuned(&self, tuning: Tuning) -> Setting {
        let thread = ThreadRequest {
            fifo: tuning.priority.then_some(self.priority).filter(|priority| *priority > 0),
            cpu: tuning.shield.then_some(self.cpu),
            lock_memory: tuning.memory,
            ..self.setting.thread
        };
        let wait = if tuning.spin { self.spin } else { Wait::Sleep };
        // The bench has the flight recorder.
        Setting { wait, thread, causes: false, ..self.setting.clone() }
    }
}

/// Stands for the loop before the first block: no thread has number 0.
const NO_LOOP_YET: LoopThread = LoopThread { tid: 0, cpu: None, fifo: None };

/// How to start the processes of a bench: only the binary knows its own command line.
pub trait Processes {
    /// Returns a command whose process reads a [`CellStart`] from standard input and serves that cell
    /// ([`super::cell::CellServer`]).
    fn cell(&self) -> Command;
    /// Returns a command whose process carries a load ([`crate::load::serve`]).
    fn load(&self, load: &Load) -> Command;
}

/// What happens while a bench runs.
#[derive(Clone, Debug, PartialEq)]
pub enum BenchEvent {
    /// The plan, before the first block.
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
        /// Seconds since the bench began.
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
    #[error("{what} {name} is listed twice; list it once, since each of its cells has one run file")]
    Twice {
        /// `tuning` or `load`.
        what: &'static str,
        /// Which.
        name: String,
    },
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
}

/// Runs a bench into the existing directory `dir`. When `interruptions` ask to stop, the bench ends in good order: files closed, loads
/// ended, changes to the host undone.
///
/// # Errors
/// [`BenchError`]. What was recorded before stays in `dir`; changes to the host are undone.
pub fn conduct(
    plan: &BenchPlan,
    dir: &Path,
    processes: &dyn Processes,
    interruptions: &Interruptions,
    report: &mut dyn FnMut(BenchEvent),
) -> Result<(), BenchError> {
    let schedule = scheduled(plan)?;
    let mut conductor = BenchConductor::open(plan, dir, processes, interruptions, report)?;
    let ran = conductor.prepare(schedule).and_then(|schedule| conductor.run_turns(&schedule));
    let closed = conductor.close();
    ran.and(closed)
}

/// Returns the schedule of a plan, and starts nothing.
///
/// # Errors
/// [`BenchError::Twice`] when a name is listed twice, [`BenchError::TooShort`] when the time does not hold all cells.
pub fn scheduled(plan: &BenchPlan) -> Result<Schedule, BenchError> {
    check_names("tuning", plan.tunings.iter().map(Tuning::to_string))?;
    check_names("load", plan.loads.iter().map(Load::to_string))?;
    Ok(schedule::plan(plan.tunings.len(), &real_loads(plan), plan.duration, plan.order, plan.seed)?)
}

fn check_names(what: &'static str, names: impl Iterator<Item = String>) -> Result<(), BenchError> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name.clone()) {
            return Err(BenchError::Twice { what, name });
        }
    }

    Ok(())
}

/// Returns which loads are not `idle`: they need time to start and to end.
fn real_loads(plan: &BenchPlan) -> Vec<bool> {
    plan.loads.iter().map(|load| !load.is_idle()).collect()
}

/// A cell of the bench, with its process while it may run.
struct CellSlot {
    cell: Cell,
    tuning: Tuning,
    process: Option<CellProcess>,
    why_not: Option<String>,
    blocks: u32,
}

/// A bench in progress.
struct BenchConductor<'c> {
    plan: &'c BenchPlan,
    dir: &'c Path,
    processes: &'c dyn Processes,
    interruptions: &'c Interruptions,
    report: &'c mut dyn FnMut(BenchEvent),
    file: RunWriter,
    started_unix_s: f64,
    origin: Instant,
    slots: Vec<CellSlot>,
    ladder: Vec<Grant>,
    shielding: Shielding,
    explainer: Option<Explainer>,
}

impl<'c> BenchConductor<'c> {
    fn open(
        plan: &'c BenchPlan,
        dir: &'c Path,
        processes: &'c dyn Processes,
        interruptions: &'c Interruptions,
        report: &'c mut dyn FnMut(BenchEvent),
    ) -> Result<Self, BenchError> {
        let started_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let origin = Monotonic.now();
        let header = probe::header(&plan.command, "bench", &[], started_unix_s);
        let file = RunWriter::create(&dir.join(BENCH_FILE), &header)?;
        let (explainer, ladder) =
            if plan.causes { Explainer::open_with_grants(NO_LOOP_YET) } else { (None, Vec::new()) };
        Ok(Self {
            plan,
            dir,
            processes,
            interruptions,
            report,
            file,
            started_unix_s,
            origin,
            slots: Vec::new(),
            ladder,
            shielding: Shielding::begin(&plan.journal, &plan.command)?,
            explainer,
        })
    }

    fn is_stopped(&self) -> bool {
        self.interruptions.stop.load(Ordering::Relaxed)
    }

    fn elapsed_s(&self) -> f64 {
        Monotonic.now().ns_since(self.origin) as f64 / 1e9
    }

    /// Starts the processes of the cells, checks what is permitted, prepares the shield, and records all of it.
    fn prepare(&mut self, schedule: Schedule) -> Result<Schedule, BenchError> {
        for load in &self.plan.loads {
            for &tuning in &self.plan.tunings {
                let slot = self.start_cell(tuning, load)?;
                self.slots.push(slot);
            }
        }

        self.prepare_shield()?;
        let not_permitted: Vec<CellNotPermitted> = self.slots.iter().filter_map(CellSlot::not_permitted).collect();
        let running = self.slots.len() - not_permitted.len();
        let schedule = self.rescheduled(schedule);
        self.file.note(&Note::Bench(Box::new(Bench {
            tunings: self.plan.tunings.iter().map(Tuning::to_string).collect(),
            loads: self.plan.loads.iter().map(Load::to_string).collect(),
            order: self.plan.order.note(),
            blocks: schedule.blocks_per_cell,
            block_s: schedule.block_s,
            limit: self.plan.limit,
            most_alarms: self.plan.most_alarms,
            not_permitted: not_permitted.clone(),
            ladder: self.ladder.clone(),
            shield: self.shielding.words().to_vec(),
            sweep: None,
        })))?;
        let Schedule { estimate_s, blocks_per_cell, block_s, .. } = schedule;
        (self.report)(BenchEvent::Planned { estimate_s, blocks_per_cell, block_s });
        (self.report)(BenchEvent::Prepared { running, not_permitted });

        Ok(schedule)
    }

    /// Returns the schedule of the cells that are permitted, in the time that is left.
    fn rescheduled(&self, schedule: Schedule) -> Schedule {
        let tunings = self.plan.tunings.len();
        let runs = |load: usize, tuning: usize| self.slots[load * tunings + tuning].why_not.is_none();
        let schedule = schedule.retain_cells(runs);
        if schedule.turns.is_empty() {
            return schedule;
        }

        let left_s = self.plan.duration.as_secs_f64() - self.elapsed_s();
        let block_s = Pace::new(&real_loads(self.plan)).block_s(&schedule.turns, left_s);
        Schedule { block_s, ..schedule }
    }

    fn start_cell(&mut self, tuning: Tuning, load: &Load) -> Result<CellSlot, BenchError> {
        let cell = Cell { tuning: tuning.to_string(), load: load.to_string() };
        let start = CellStart {
            onbeat: CellStart::version(),
            command: self.plan.command.clone(),
            file: self.dir.join(cell.file_name()),
            cell: cell.clone(),
            started_unix_s: self.started_unix_s,
            origin_ns: self.origin.as_ns(),
            task: self.plan.task,
            setting: self.plan.tuned(tuning),
            explain: self.explainer.is_some(),
        };

        let process = CellProcess::start(self.processes.cell(), &start)?;
        let refusal =
            process.grants().iter().find(|grant| !grant.granted && is_part_of_tuning(grant)).map(Grant::refusal);
        for grant in process.grants() {
            self.list_grant(grant.clone());
        }

        let mut slot = CellSlot { cell, tuning, process: Some(process), why_not: None, blocks: 0 };
        if let Some(why) = refusal {
            slot.refuse(why, &start.file)?;
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
        if !self.plan.tunings.iter().any(|tuning| tuning.shield) {
            return Ok(());
        }

        let shielded = self.slots.iter().filter(|slot| slot.tuning.shield);
        let pids: Vec<u32> = shielded.filter_map(|slot| Some(slot.process.as_ref()?.pid())).collect();
        let grant = self.shielding.prepare(self.plan.cpu, &pids)?;
        if !grant.granted {
            let why = grant.refusal();
            for slot in self.slots.iter_mut().filter(|slot| slot.tuning.shield && slot.why_not.is_none()) {
                let file = self.dir.join(slot.cell.file_name());
                slot.refuse(why.clone(), &file)?;
            }
        }

        for line in self.shielding.words() {
            (self.report)(BenchEvent::Said(line.clone()));
        }

        self.list_grant(grant);
        Ok(())
    }

    fn run_turns(&mut self, schedule: &Schedule) -> Result<(), BenchError> {
        let mut pace = Pace::new(&real_loads(self.plan));
        for (at, turn) in schedule.turns.iter().enumerate() {
            if self.is_stopped() {
                break;
            }

            let begun_s = self.elapsed_s();
            let block_s = pace.block_s(&schedule.turns[at..], self.plan.duration.as_secs_f64() - begun_s);
            let releases = (block_s * 1e9 / self.plan.setting.period_ns as f64).round().max(1.0) as u64;
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

            ran = self.block(slot, releases);
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
        let mut running = RunningLoad::start(self.processes.load(load)).map_err(failed)?;
        if let Some((session, start_ticks)) = running.identity() {
            self.shielding.remember_session(session, start_ticks)?;
        }

        let events = running.events();
        self.note_load_events(&events)?;
        std::thread::sleep(RAMP);
        Ok(running)
    }

    fn stop_load(&mut self, load: &Load, running: RunningLoad) -> Result<(), BenchError> {
        let (done, events) = running.stop().map_err(|source| BenchError::Load { load: load.to_string(), source })?;
        self.shielding.forget_session()?;
        self.note_load_events(&events)?;
        let t = self.elapsed_s();
        self.file.note(&load_notes::of_report(load, &done, t))?;

        Ok(())
    }

    fn note_load_events(&mut self, events: &[crate::load::LoadNotice]) -> Result<(), BenchError> {
        for event in events {
            let note = load_notes::of_event(event, self.elapsed_s());
            if event.matters() {
                (self.report)(BenchEvent::Said(note.detail.clone()));
            }

            self.file.note(&Note::Load(note))?;
        }
        Ok(())
    }

    fn block(&mut self, slot: usize, releases: u64) -> Result<(), BenchError> {
        self.shielding.set(self.slots[slot].tuning.shield)?;
        // The loop may run on any CPU: the explainer may go ahead of the load beside a real-time loop only.
        let fifo = self.slots[slot].tuning.priority.then_some(self.plan.priority);
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
                    (self.report)(BenchEvent::Block { cell: cell.clone(), progress });
                    return Ok(());
                }
                // A filter that the kernel refuses leaves wake-ups unrecorded, and the explanations say so.
                (Some(CellReply::Loop(thread)), Some(explainer)) => drop(explainer.follow(thread)),
                (Some(CellReply::Late(facts)), Some(explainer)) => {
                    process.explained(explainer.explain_facts(&facts))?;
                }
                (Some(CellReply::Around), Some(explainer)) => process.around(explainer.keep())?,
                _ => {}
            }

            let elapsed_s = Monotonic.now().ns_since(self.origin) as f64 / 1e9;
            (self.report)(BenchEvent::Running { elapsed_s, cell: cell.clone() });
            if self.interruptions.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    }

    /// Ends loads, cells and shield, whatever failed before; returns the first error of its own.
    fn close(self) -> Result<(), BenchError> {
        let elapsed_s = self.elapsed_s();
        let reason = if self.is_stopped() { EndReason::Asked } else { EndReason::Complete };
        let Self { mut file, slots, shielding, explainer, .. } = self;
        let cost = explainer.as_ref().map_or_else(Cost::default, Explainer::cost);
        drop(explainer);
        let dismantled = shielding.dismantle();
        let closed: Vec<Result<(), CellError>> =
            slots.into_iter().filter_map(|slot| Some(slot.process?.close())).collect();
        file.note(&Note::End(Account {
            t: elapsed_s,
            reason,
            causes_cpu_ns: cost.cpu_ns,
            causes_explained: cost.explained,
            causes_incomplete: cost.incomplete,
            causes_slowest_ns: cost.slowest_ns,
            causes_bytes: cost.bytes_held,
            ..Account::default()
        }))?;
        file.sync()?;
        dismantled?;
        closed.into_iter().collect::<Result<Vec<()>, _>>()?;

        Ok(())
    }
}

impl CellSlot {
    fn not_permitted(&self) -> Option<CellNotPermitted> {
        Some(CellNotPermitted { cell: self.cell.clone(), why_not: self.why_not.clone()? })
    }

    /// Marks the cell as not permitted: its process ends, and its run file, without samples, is removed.
    fn refuse(&mut self, why: String, file: &Path) -> Result<(), BenchError> {
        self.why_not = Some(why);
        if let Some(process) = self.process.take() {
            process.close()?;
        }

        // A file without samples is read as a cell that never ran, so a failure here loses nothing.
        let _ = std::fs::remove_file(file);
        Ok(())
    }
}

/// Returns whether a grant is part of a tuning. A cell runs without the others: evidence, idle states.
fn is_part_of_tuning(grant: &Grant) -> bool {
    use Privilege::{CpuAffinity, LockedMemory, RealTimePriority};
    matches!(grant.privilege(), Some(RealTimePriority | LockedMemory | CpuAffinity))
}
