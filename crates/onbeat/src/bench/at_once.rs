//! One probe on several CPUs at the same time: a loop and a run file per CPU, and the file of a
//! bench beside them.
//!
//! Every loop has a thread of its own on its CPU and another one that records it; all of them are
//! prepared before the first begins, and begin together. The CPUs are the cells of the run, named
//! `CPU 0`, `CPU 1`.
//!
//! Absent on purpose: the flight recorder. It follows one loop; its events would delay all others.
//! Where wake-ups are split, BPF records of each loop what that takes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use onbeat_cause::{Cost, SplitRecorder};
use onbeat_host::thread::Grant;
use onbeat_record::{
    Account, Bench, Cell, EndReason, FindingNote, Header, LimitNote, Note, PARTS_OF_WAKE_UP,
    RunOrder, WriteError,
};

use super::background_load::{BackgroundLoad, BackgroundLoadError};
use super::shared_file::SharedFile;
use crate::campaign::{CampaignEvent, CampaignReport};
use crate::load::Load;
use crate::probe::causes::OneOfSeveral;
use crate::probe::{
    self, BlockPlan, Description, Destination, Given, Interruptions, Origin, Run, RunError,
    Setting, SpikeExplainer,
};

/// How often the conductor looks at its loops.
const LOOK: Duration = Duration::from_millis(50);

/// What is measured, and on which CPUs.
#[derive(Clone, Debug)]
pub struct AtOncePlan<'p> {
    /// The probe.
    pub probe: &'static Description,
    /// The options of the probe.
    pub given: Given,
    /// How each loop runs; its CPU is that of its cell.
    pub setting: Setting,
    /// Whether a probe that has causes of its own records them.
    pub causes: bool,
    /// The CPUs, each once.
    pub cpus: &'p [u32],
    /// The load that runs at the same time.
    pub load: &'p Load,
    /// Releases of each loop; `u64::MAX` for no end.
    pub releases: u64,
    /// The limit that every CPU has to hold.
    pub limit: Option<LimitNote>,
    /// Tunings of this machine that are not as wanted.
    pub findings: Vec<FindingNote>,
    /// The command as typed.
    pub command: Vec<String>,
}

impl AtOncePlan<'_> {
    /// Returns the name of the cell of a CPU.
    #[must_use]
    pub fn cell_name(cpu: u32) -> String {
        format!("CPU {cpu}")
    }

    fn cell(&self, cpu: u32) -> Cell {
        Cell::new(Self::cell_name(cpu), self.load.to_string())
    }

    fn header(&self, origin: Origin) -> Header {
        let mut series = self.probe.series.to_vec();
        if self.setting.split {
            series.extend(PARTS_OF_WAKE_UP);
        }
        Header {
            findings: self.findings.clone(),
            ..probe::header(&self.command, self.probe.name, &series, origin.unix_s)
        }
    }

    fn note(&self, ladder: Vec<Grant>) -> Bench {
        Bench {
            tunings: self.cpus.iter().map(|cpu| Self::cell_name(*cpu)).collect(),
            loads: vec![self.load.to_string()],
            order: RunOrder::AtOnce,
            blocks: 1,
            block_s: if self.releases == u64::MAX {
                0.0
            } else {
                self.releases as f64 * self.setting.period_ns as f64 / 1e9
            },
            limit: self.limit,
            ladder,
            ..Bench::default()
        }
    }
}

/// The directory, processes and signals of a measurement on several CPUs.
pub struct AtOnceConditions<'c> {
    /// The existing directory of its files.
    pub dir: &'c Path,
    /// A command whose process carries the load ([`crate::load::serve`]).
    pub carrier: Option<Command>,
    /// Signals.
    pub interruptions: &'c Interruptions,
    /// Receives what happens.
    pub report: CampaignReport<'c>,
}

/// A measurement on several CPUs failed.
#[derive(Debug, thiserror::Error)]
pub enum AtOnceError {
    /// The run of a CPU failed; the others were ended.
    #[error("CPU {cpu}: {source}")]
    Run {
        /// Which CPU.
        cpu: u32,
        /// Why.
        source: RunError,
    },
    /// The file of the bench could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The load could not be started.
    #[error(transparent)]
    Load(#[from] BackgroundLoadError),
    /// A thread for the recorder of a CPU could not be started.
    #[error(
        "cannot start a thread for CPU {cpu}: {source}; the limit of threads (ulimit -u) may be reached"
    )]
    Thread {
        /// Which CPU.
        cpu: u32,
        /// Why.
        source: std::io::Error,
    },
}

/// What the loops of all CPUs share.
struct Together<'t> {
    plan: &'t AtOncePlan<'t>,
    dir: &'t Path,
    origin: Origin,
    interruptions: &'t Interruptions,
    /// Where the loops wait until all runs are open.
    begin: Gate,
    /// What records the stamps of all loops, where wake-ups are split; why there is none.
    splits: Option<Result<SplitRecorder, String>>,
}

/// Holds threads until it is decided whether they go on.
#[derive(Default)]
struct Gate {
    /// Whether the loops run; `None` as long as runs are being opened.
    decided: Mutex<Option<bool>>,
    changed: Condvar,
}

impl Gate {
    fn decide(&self, runs: bool) {
        *self.decided.lock().unwrap_or_else(PoisonError::into_inner) = Some(runs);
        self.changed.notify_all();
    }

    fn wait(&self) -> bool {
        let mut decided = self.decided.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match *decided {
                Some(runs) => return runs,
                None => {
                    decided = self.changed.wait(decided).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

/// What a loop has measured so far.
#[derive(Debug, Default)]
struct SeenSoFar {
    cycles: AtomicU64,
    worst_ns: AtomicU64,
}

/// Measures all CPUs until the releases of the plan are done, or the interruptions ask to stop.
///
/// # Errors
/// [`AtOnceError`], of the first CPU that failed. The load has ended, and what was recorded stays.
pub fn conduct(
    plan: &AtOncePlan<'_>,
    mut conditions: AtOnceConditions<'_>,
) -> Result<(), AtOnceError> {
    let origin = Origin::now();
    let mut file = SharedFile::create(conditions.dir, origin, &plan.header(origin))?;
    let mut load = BackgroundLoad::start(plan.load, conditions.carrier.take())?;
    let together = Together {
        plan,
        dir: conditions.dir,
        origin,
        interruptions: conditions.interruptions,
        begin: Gate::default(),
        splits: plan.setting.split.then(SplitRecorder::open),
    };

    let seen: Vec<SeenSoFar> = plan.cpus.iter().map(|_| SeenSoFar::default()).collect();
    let measured = measure_all(&together, &seen, &mut file, &mut load, &mut conditions);

    let ended = load.end(|| file.seconds());
    match ended {
        Ok(events) => {
            for event in events {
                file.note(&Note::Load(event))?;
            }
        }
        Err(why) => (conditions.report)(CampaignEvent::Warned(&why.to_string())),
    }
    let accounts = measured?;
    let is_whole = accounts.iter().all(|account| account.reason == EndReason::Complete);
    let reason = if is_whole { EndReason::Complete } else { EndReason::Asked };
    Ok(file.close(reason, &Cost::default())?)
}

fn measure_all(
    together: &Together<'_>,
    seen: &[SeenSoFar],
    file: &mut SharedFile,
    load: &mut BackgroundLoad,
    conditions: &mut AtOnceConditions<'_>,
) -> Result<Vec<Account>, AtOnceError> {
    thread::scope(|threads| {
        let mut loops = Vec::new();
        let mut refused = None;
        let (opened, all_opened) = channel();
        for (cpu, seen) in together.plan.cpus.iter().copied().zip(seen) {
            let opened = opened.clone();
            let started = thread::Builder::new()
                .name(format!("onbeat-cpu{cpu}"))
                .spawn_scoped(threads, move || together.measure(cpu, seen, opened));
            match started {
                Ok(started) => loops.push((cpu, started)),
                Err(source) => {
                    refused.get_or_insert(AtOnceError::Thread { cpu, source });
                }
            }
        }

        // Ends when every thread has opened its run, or failed to.
        drop(opened);
        let opened: Vec<Vec<Grant>> = all_opened.iter().collect();
        let noted = file.note(&Note::Bench(Box::new(together.plan.note(distinct(&opened)))));
        let runs = noted.is_ok() && opened.len() == together.plan.cpus.len();
        together.begin.decide(runs);
        let watched =
            if runs { watch(together, &loops, seen, (file, load), conditions) } else { Ok(()) };

        let joined: Vec<Result<Account, AtOnceError>> = loops.into_iter().map(join).collect();
        noted?;
        watched?;
        match refused {
            Some(refused) => Err(refused),
            None => joined.into_iter().collect(),
        }
    })
}

/// What the loops were granted, each once.
fn distinct(opened: &[Vec<Grant>]) -> Vec<Grant> {
    let mut all: Vec<Grant> = Vec::new();
    for grant in opened.iter().flatten() {
        if !all.contains(grant) {
            all.push(grant.clone());
        }
    }
    all
}

type Loop<'s> = (u32, ScopedJoinHandle<'s, Result<Account, RunError>>);

fn join((cpu, ended): Loop<'_>) -> Result<Account, AtOnceError> {
    ended
        .join()
        .unwrap_or(Err(RunError::Panicked))
        .map_err(|source| AtOnceError::Run { cpu, source })
}

/// Reports until all loops have ended.
fn watch(
    together: &Together<'_>,
    loops: &[Loop<'_>],
    seen: &[SeenSoFar],
    (file, load): (&mut SharedFile, &mut BackgroundLoad),
    conditions: &mut AtOnceConditions<'_>,
) -> Result<(), AtOnceError> {
    let began_s = file.elapsed_s();
    while loops.iter().any(|(_, running)| !running.is_finished()) {
        for event in load.events(file.seconds()) {
            if event.event.matters() {
                (conditions.report)(CampaignEvent::Warned(&event.detail));
            }
            if let Err(why) = file.note(&Note::Load(event)) {
                together.interruptions.stop.store(true, Ordering::Relaxed);
                return Err(why.into());
            }
        }

        let cycles = seen.iter().map(|of| of.cycles.load(Ordering::Relaxed)).sum();
        let worst = |of: &SeenSoFar| of.worst_ns.load(Ordering::Relaxed);
        let all = together.plan.cpus.iter().copied().zip(seen.iter().map(worst));
        let worst = all.max_by_key(|(_, ns)| *ns).unwrap_or_default();
        let elapsed_s = file.elapsed_s() - began_s;
        (conditions.report)(CampaignEvent::AtOnce { elapsed_s, cycles, worst });
        thread::sleep(LOOK);
    }
    Ok(())
}

impl Together<'_> {
    /// Opens the run of a CPU, waits for all others, and runs its loop. Called by a thread of its
    /// own, which records the loop.
    fn measure(
        &self,
        cpu: u32,
        seen: &SeenSoFar,
        opened: Sender<Vec<Grant>>,
    ) -> Result<Account, RunError> {
        let run = self.open(cpu);
        if let Ok(run) = &run {
            // The conductor receives until all senders are gone.
            let _ = opened.send(run.grants().to_vec());
        }
        drop(opened);

        let runs = self.begin.wait();
        let mut run = run?;
        if !runs {
            run.mark_ended_early();
            return run.close();
        }

        let measured = self.block(&mut run, cpu, seen);
        // One that cannot be recorded any more ends all: figures of the others alone would look
        // as if they were those of the machine.
        self.interruptions.stop.fetch_or(measured.is_err(), Ordering::Relaxed);
        measured?;
        run.close()
    }

    fn setting(&self, cpu: u32) -> Setting {
        let mut setting = Setting { causes: false, ..self.plan.setting.clone() };
        setting.thread.cpu = Some(cpu);
        setting
    }

    fn path(&self, cpu: u32) -> PathBuf {
        self.dir.join(self.plan.cell(cpu).file_name())
    }

    fn open(&self, cpu: u32) -> Result<Run, RunError> {
        let header = Header {
            cell: Some(self.plan.cell(cpu)),
            limit: self.plan.limit,
            ..self.plan.header(self.origin)
        };
        let destination = Destination { path: &self.path(cpu), header, origin: self.origin.at };
        let split = |recorder| Box::new(OneOfSeveral::new(recorder)) as Box<dyn SpikeExplainer>;
        Run::open_with(destination, self.setting(cpu), self.splits.as_ref().map(split))
    }

    fn block(&self, run: &mut Run, cpu: u32, seen: &SeenSoFar) -> Result<(), RunError> {
        let mut setting = Setting { causes: self.plan.causes, ..self.setting(cpu) };
        let mut parts = (self.plan.probe.open)(&mut setting, &self.plan.given)?;
        let load = self.plan.load.to_string();
        let block = BlockPlan { index: 0, load: &load, releases: self.plan.releases };
        run.single_block(&block, &mut parts, self.interruptions, &mut |recorder| {
            let progress = recorder.progress();
            seen.cycles.store(progress.cycles, Ordering::Relaxed);
            seen.worst_ns.store(progress.worst_ns, Ordering::Relaxed);
        })?;
        Ok(())
    }
}
