//! One probe on several CPUs at the same time: a loop and a run file per CPU, and the file of a
//! bench beside them.
//!
//! Every loop has a thread of its own on its CPU and another one that records it; all of them are
//! prepared before the first begins, and begin together. The CPUs are the cells of the run, named
//! `CPU 0`, `CPU 1`.
//!
//! Absent on purpose: the flight recorder. It follows one loop; its events would delay all others.
//! Where wake-ups are split, BPF records of each loop what that takes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use onbeat_cause::{Cost, SplitRecorder};
use onbeat_host::thread::Grant;
use onbeat_record::{Account, Bench, Cell, EndReason, Header, Note, RunOrder};

use super::background_load::BackgroundLoad;
use super::conditions::Conditions;
use super::error::BenchError;
use super::measurement::{OpenedProbe, ProbePlan};
use super::shared_file::SharedFile;
use crate::campaign::CampaignEvent;
use crate::load::Load;
use crate::probe::causes::OneOfSeveral;
use crate::probe::description::Parts;
use crate::probe::{
    BlockPlan, Destination, Interruptions, Origin, Run, RunError, Setting, SpikeExplainer,
};

/// How often the conductor looks at its loops.
const LOOK: Duration = Duration::from_millis(50);

/// What is measured, and on which CPUs.
#[derive(Clone, Copy, Debug)]
pub struct AtOncePlan<'p> {
    /// What is measured on each CPU; the CPU of its loop is that of its cell.
    pub what: &'p ProbePlan,
    /// The CPUs, each once.
    pub cpus: &'p [u32],
    /// The load that runs at the same time.
    pub load: &'p Load,
}

impl AtOncePlan<'_> {
    fn cell(&self, cpu: u32) -> Cell {
        Cell::new(format!("CPU {cpu}"), self.load.to_string())
    }

    fn note(&self, ladder: Vec<Grant>) -> Bench {
        let ProbePlan { releases, limit, .. } = self.what;
        Bench {
            tunings: self.cpus.iter().map(|cpu| self.cell(*cpu).tuning).collect(),
            loads: vec![self.load.to_string()],
            order: RunOrder::AtOnce,
            blocks: 1,
            block_s: if *releases == u64::MAX { 0.0 } else { self.what.seconds(*releases) },
            limit: *limit,
            ladder,
            ..Bench::default()
        }
    }
}

/// What the loops of all CPUs share.
struct Together<'t> {
    plan: &'t AtOncePlan<'t>,
    dir: &'t Path,
    origin: Origin,
    interruptions: &'t Interruptions,
    /// Whether the loops run, which they wait for: known once all runs are open.
    begin: OnceLock<bool>,
    /// What records the stamps of all loops, where wake-ups are split; why there is none.
    splits: Option<Result<SplitRecorder, String>>,
    seen: BTreeMap<u32, SeenSoFar>,
}

/// What a loop has measured so far.
#[derive(Debug, Default)]
struct SeenSoFar {
    cycles: AtomicU64,
    worst_ns: AtomicU64,
}

/// Measures all CPUs into the existing directory `dir`, until the releases of the plan are done, or
/// the interruptions ask to stop.
///
/// # Errors
/// [`BenchError`], of the first CPU that failed. The load has ended, and what was recorded
/// stays.
pub fn conduct(
    plan: &AtOncePlan<'_>,
    dir: &Path,
    mut conditions: Conditions<'_>,
) -> Result<(), BenchError> {
    let origin = Origin::now();
    let mut file = SharedFile::create(dir, origin, &plan.what.header(origin.unix_s))?;
    let mut load = BackgroundLoad::start(plan.load, conditions.carrier)?;
    let together = Together {
        plan,
        dir,
        origin,
        interruptions: conditions.interruptions,
        begin: OnceLock::new(),
        splits: plan.what.setting.split.then(SplitRecorder::open),
        seen: plan.cpus.iter().map(|cpu| (*cpu, SeenSoFar::default())).collect(),
    };

    let measured = measure_all(&together, &mut file, &mut load, &mut conditions);

    let ended = load.end(|| file.seconds());
    match ended {
        Ok(events) => file.note_load(events, conditions.report)?,
        Err(why) => (conditions.report)(CampaignEvent::Warned(&why.to_string())),
    }
    let accounts = measured?;
    let is_whole = accounts.iter().all(|account| account.reason == EndReason::Complete);
    Ok(file.close(is_whole, &Cost::default())?)
}

fn measure_all(
    together: &Together<'_>,
    file: &mut SharedFile,
    load: &mut BackgroundLoad,
    conditions: &mut Conditions<'_>,
) -> Result<Vec<Account>, BenchError> {
    thread::scope(|threads| {
        let mut loops = Vec::new();
        let mut refused = None;
        let (opened, all_opened) = channel();
        for cpu in together.plan.cpus.iter().copied() {
            let opened = opened.clone();
            let started = thread::Builder::new()
                .name(format!("onbeat-cpu{cpu}"))
                .spawn_scoped(threads, move || together.measure(cpu, opened));
            match started {
                Ok(started) => loops.push((cpu, started)),
                Err(source) => {
                    refused.get_or_insert(BenchError::Thread { cpu, source });
                }
            }
        }

        // Ends when every thread has opened its run, or failed to.
        drop(opened);
        let opened: Vec<Vec<Grant>> = all_opened.iter().collect();
        let noted = file.writer.note(&Note::Bench(Box::new(together.plan.note(distinct(&opened)))));
        let runs = noted.is_ok() && opened.len() == together.plan.cpus.len();
        let _ = together.begin.set(runs);
        let watched = if runs { watch(together, &loops, (file, load), conditions) } else { Ok(()) };

        let joined: Vec<Result<Account, BenchError>> = loops.into_iter().map(join).collect();
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

fn join((cpu, ended): Loop<'_>) -> Result<Account, BenchError> {
    ended
        .join()
        .unwrap_or(Err(RunError::Panicked))
        .map_err(|source| BenchError::OfCpu { cpu, source })
}

/// Reports until all loops have ended.
fn watch(
    together: &Together<'_>,
    loops: &[Loop<'_>],
    (file, load): (&mut SharedFile, &mut BackgroundLoad),
    conditions: &mut Conditions<'_>,
) -> Result<(), BenchError> {
    let began_s = file.elapsed_s();
    while loops.iter().any(|(_, running)| !running.is_finished()) {
        let events = load.events(file.seconds());
        if let Err(why) = file.note_load(events, conditions.report) {
            together.interruptions.stop.store(true, Ordering::Relaxed);
            return Err(why.into());
        }

        let all = &together.seen;
        let cycles = all.values().map(|of| of.cycles.load(Ordering::Relaxed)).sum();
        let latencies = all.iter().map(|(cpu, of)| (*cpu, of.worst_ns.load(Ordering::Relaxed)));
        let worst = latencies.max_by_key(|(_, ns)| *ns).unwrap_or_default();
        let elapsed_s = file.elapsed_s() - began_s;
        (conditions.report)(CampaignEvent::AtOnce { elapsed_s, cycles, worst });
        thread::sleep(LOOK);
    }
    Ok(())
}

impl Together<'_> {
    /// Opens the run of a CPU, waits for all others, and runs its loop. Called by a thread of its
    /// own, which records the loop.
    fn measure(&self, cpu: u32, opened: Sender<Vec<Grant>>) -> Result<Account, RunError> {
        let seen = &self.seen[&cpu];
        let prepared = self.open(cpu);
        if let Ok((run, _)) = &prepared {
            // The conductor receives until all senders are gone.
            let _ = opened.send(run.grants().to_vec());
        }
        drop(opened);

        let runs = *self.begin.wait();
        let (mut run, mut parts) = prepared?;
        if !runs {
            run.mark_ended_early();
            return run.close();
        }

        let load = self.plan.load.to_string();
        let block = BlockPlan { index: 0, load: &load, releases: self.plan.what.releases };
        let measured = run.single_block(&block, &mut parts, self.interruptions, &mut |recorder| {
            let progress = recorder.progress();
            seen.cycles.store(progress.cycles, Ordering::Relaxed);
            seen.worst_ns.store(progress.worst_ns, Ordering::Relaxed);
        });
        // One that cannot be recorded any more ends all: figures of the others alone would look
        // as if they were those of the machine.
        self.interruptions.stop.fetch_or(measured.is_err(), Ordering::Relaxed);
        measured?;
        run.close()
    }

    fn open(&self, cpu: u32) -> Result<(Run, Parts), RunError> {
        let mut what = self.plan.what.clone();
        what.setting.thread.cpu = Some(cpu);
        let OpenedProbe { setting, parts } = what.open()?;

        let cell = self.plan.cell(cpu);
        let path = self.dir.join(cell.file_name());
        let header = Header { cell: Some(cell), ..what.run_header(self.origin.unix_s) };
        let destination = Destination { path: &path, header, origin: self.origin.at };
        let split = |recorder| Box::new(OneOfSeveral::new(recorder)) as Box<dyn SpikeExplainer>;
        let setting = Setting { causes: false, ..setting };
        let run = Run::open_with(destination, setting, self.splits.as_ref().map(split))?;
        Ok((run, parts))
    }
}
