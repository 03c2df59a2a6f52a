//! Running the experiments of a laboratory: several guests at a time, results kept as they come.

use std::marker::PhantomData;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use onbeat::record::Series;

use super::results::LabResults;
use super::store::LabStore;
use super::{Experiment, Matrix, StoredExperiment};
use crate::vm::clock::{Virtual, VmClock};
use crate::vm::replay::{Replay, ReplayTarget, replay};
use crate::vm::work_directory::hex_digest;
use crate::vm::{BootImage, Guest, GuestResult, Job, VmError, WorkDirectory, qemu_version};

/// Letters of a key; with 16 hexadecimal digits two experiments do not meet by chance.
const KEY_LETTERS: usize = 16;

/// How stored experiments are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repetition {
    /// They are not run again.
    Reuse,
    /// Every experiment is run this many times more, and the bytes are compared with those of the
    /// first.
    Compare {
        /// Number of repetitions of each experiment.
        times: u16,
    },
}

/// Runs the experiments of a [`Matrix`].
#[derive(Clone, Debug)]
pub struct Laboratory<'l> {
    /// Where kernels are kept and guests run.
    pub work: &'l WorkDirectory,
    /// Directory of the results, created if need be.
    pub out: &'l Path,
    /// What the guests boot: one per kernel of the matrix, in order.
    pub boots: Vec<BootImage>,
    /// Number of guests at a time; in virtual time each keeps a CPU of the host busy.
    pub jobs: usize,
    /// Added to the nice value of the guests, 0 to 19.
    pub niceness: i32,
    /// How stored experiments are treated.
    pub repetition: Repetition,
}

/// What happens while experiments run.
#[derive(Debug)]
pub enum LabEvent<'e> {
    /// Before the first guest: number of guests to run, and of experiments that are stored already.
    Begun {
        /// Guests to run.
        guests: usize,
        /// Experiments that are stored already.
        stored: usize,
    },
    /// An experiment has been run and stored.
    Stored(&'e StoredExperiment),
    /// An experiment has been run again: whether it sent the same bytes.
    Compared {
        experiment: &'e Experiment,
        /// Whether its bytes are those that are stored.
        same: bool,
    },
    /// An experiment has failed; the others go on.
    Failed {
        experiment: &'e Experiment,
        /// Why.
        error: &'e VmError,
    },
}

/// An experiment that is ready to run.
#[derive(Debug)]
struct Prepared<C: VmClock> {
    experiment: Experiment,
    guest: Guest<C>,
    job: Job,
    key: String,
    stored: Option<StoredExperiment>,
}

impl Laboratory<'_> {
    /// Runs all experiments that are not stored yet, by the clock that `clock` returns for a seed.
    /// Blocks until the last has ended. After `stop` no guest runs, and what has been stored until
    /// then is not run again by the next call.
    ///
    /// # Errors
    /// When QEMU is missing, a guest's description is contradictory, or results cannot be stored.
    /// An experiment that fails is not an error: see [`LabResults::failed`].
    pub fn conduct<C: VmClock>(
        &self,
        matrix: &Matrix,
        clock: impl Fn(u32) -> C,
        stop: &AtomicBool,
        report: &mut dyn FnMut(LabEvent<'_>),
    ) -> Result<LabResults<C>, VmError> {
        let store = LabStore::open(self.out)?;
        let mut prepared = self.prepare(matrix, clock, &store)?;
        let queue = queue(&prepared, self.repetition);
        let stored = prepared.iter().filter(|one| one.stored.is_some()).count();
        report(LabEvent::Begun { guests: queue.len(), stored });

        let task = |&index: &usize| {
            let Prepared { guest, job, .. } = &prepared[index];
            (index, guest.clone(), job.clone())
        };
        let tasks: Vec<(usize, Guest<C>, Job)> = queue.iter().map(task).collect();

        let mut failed: Vec<(Experiment, String)> = Vec::new();
        let mut differing = Vec::new();
        let mut compared = 0;
        let mut keep = |index: usize, ran: Result<GuestResult<C>, VmError>| {
            let one = &mut prepared[index];
            let result = match ran.and_then(|result| result.succeeded().map(|()| result)) {
                Ok(result) => result,
                Err(VmError::Stopped) => return Ok(()),
                Err(error) if belongs_to_experiment(&error) => {
                    report(LabEvent::Failed { experiment: &one.experiment, error: &error });
                    // In a comparison it may fail several times.
                    failed.retain(|(before, _)| *before != one.experiment);
                    failed.push((one.experiment.clone(), error.to_string()));
                    return Ok(());
                }
                Err(error) => return Err(error),
            };

            if let Some(before) = &one.stored {
                let same = before.digest == result.digest();
                compared += 1;
                differing.extend((!same).then(|| one.experiment.clone()));
                report(LabEvent::Compared { experiment: &one.experiment, same });
            } else {
                let kept = store.keep(&one.experiment, &one.key, &result)?;
                report(LabEvent::Stored(one.stored.insert(kept)));
            }
            result.remove_directory()
        };

        self.run_all(&tasks, stop, &mut keep)?;

        let has_failed = |one: &Prepared<C>| failed.iter().any(|(of, _)| *of == one.experiment);
        let is_missing = |one: &&Prepared<C>| one.stored.is_none() && !has_failed(one);
        let missing = prepared.iter().filter(is_missing).count();
        let stored = prepared.into_iter().filter_map(|one| one.stored).collect();
        Ok(LabResults { stored, failed, differing, compared, missing, clock: PhantomData })
    }

    /// Runs the stored experiment with the largest wake-up latency again, traced from outside;
    /// `kernel` leaves those of other kernels out.
    ///
    /// # Errors
    /// When no experiment is stored, its guest fails, or the plugin of QEMU cannot be built.
    pub fn replay(
        &self,
        matrix: &Matrix,
        clock: impl Fn(u32) -> Virtual,
        kernel: Option<&str>,
        stop: &AtomicBool,
    ) -> Result<(StoredExperiment, Replay), VmError> {
        let store = LabStore::open(self.out)?;
        let mut worst = None;
        for one in self.prepare(matrix, clock, &store)? {
            let Some(stored) = &one.stored else { continue };
            let is_wanted = kernel.is_none_or(|kernel| stored.cell.kernel == kernel);
            let latency_ns = stored.samples(Series::WakeupLatency)?.1.max_ns;
            if is_wanted && worst.as_ref().is_none_or(|(largest, _)| latency_ns > *largest) {
                worst = Some((latency_ns, one));
            }
        }

        let nothing = || VmError::NoExperiment { out: self.out.to_owned() };
        let (latency_ns, worst) = worst.ok_or_else(nothing)?;
        let stored = worst.stored.ok_or_else(nothing)?;
        let directory = stored.directory.join("replay");
        let recorded = ReplayTarget {
            guest: &worst.guest,
            job: &worst.job,
            latency_ns,
            digest: &stored.digest,
        };
        let replayed = replay(self.work, &directory, &recorded, stop)?;
        Ok((stored, replayed))
    }

    /// Describes every experiment's guest and looks for stored results.
    fn prepare<C: VmClock>(
        &self,
        matrix: &Matrix,
        clock: impl Fn(u32) -> C,
        store: &LabStore,
    ) -> Result<Vec<Prepared<C>>, VmError> {
        let qemu = qemu_version()?;
        let mut all = Vec::new();
        for experiment in matrix.experiments() {
            let boot = self.boots[experiment.indexes[0]].clone();
            let mut guest = Guest::new(boot, clock(experiment.seed));
            guest.memory_mib = matrix.memory_mib;
            guest.limit = matrix.limit;
            guest.niceness = self.niceness;
            guest.kernel_arguments = matrix.kernel_arguments(&experiment);

            let job = matrix.job(&experiment);
            let identity = format!("{qemu}\n{}", guest.identity(&job)?);
            let key = hex_digest(identity.as_bytes())[..KEY_LETTERS].to_owned();
            let stored = store.find(&experiment, &key)?;
            all.push(Prepared { experiment, guest, job, key, stored });
        }

        Ok(all)
    }

    /// Runs guests in threads of their own and hands over their results, in the order in which
    /// they end, until one cannot be handed over.
    fn run_all<C: VmClock>(
        &self,
        tasks: &[(usize, Guest<C>, Job)],
        stop: &AtomicBool,
        hand_over: &mut dyn FnMut(usize, Result<GuestResult<C>, VmError>) -> Result<(), VmError>,
    ) -> Result<(), VmError> {
        let next = AtomicUsize::new(0);
        let over = AtomicBool::new(false);
        let (send, receive) = mpsc::channel();
        let work = |send: mpsc::Sender<_>| {
            while !stop.load(Ordering::Relaxed) && !over.load(Ordering::Relaxed) {
                let Some((index, guest, job)) = tasks.get(next.fetch_add(1, Ordering::Relaxed))
                else {
                    break;
                };
                if send.send((*index, guest.run(self.work, job, stop))).is_err() {
                    break;
                }
            }
        };

        thread::scope(|scope| {
            for _ in 0..self.jobs.clamp(1, tasks.len().max(1)) {
                let work = &work;
                let send = send.clone();
                scope.spawn(move || work(send));
            }
            drop(send);

            let mut outcome = Ok(());
            for (index, ran) in receive {
                if outcome.is_ok() {
                    outcome = hand_over(index, ran);
                    over.store(outcome.is_err(), Ordering::Relaxed);
                }
            }
            outcome
        })
    }
}

/// Indexes of the experiments to run, in order; one that is to be compared stands there as often as
/// it is run.
fn queue<C: VmClock>(prepared: &[Prepared<C>], repetition: Repetition) -> Vec<usize> {
    let again = match repetition {
        Repetition::Reuse => 0,
        Repetition::Compare { times } => usize::from(times),
    };
    let runs = |one: &Prepared<C>| usize::from(one.stored.is_none()) + again;
    let indexes =
        prepared.iter().enumerate().flat_map(|(index, one)| std::iter::repeat_n(index, runs(one)));
    indexes.collect()
}

/// Whether the next experiment may succeed all the same.
const fn belongs_to_experiment(error: &VmError) -> bool {
    matches!(
        error,
        VmError::Timeout { .. }
            | VmError::Incomplete { .. }
            | VmError::Killed { .. }
            | VmError::NotPaused { .. }
            | VmError::JobFailed { .. }
    )
}
