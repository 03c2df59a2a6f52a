//! Running the experiments of a laboratory: several guests at a time, results kept as they come.

use std::marker::PhantomData;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use onbeat::campaign::{Campaign, CampaignEvent, ResultStore};
use onbeat::record::Series;

use super::results::LabResults;
use super::store::RECORD;
use super::{Experiment, Matrix, StoredExperiment};
use crate::vm::clock::{Virtual, VmClock};
use crate::vm::replay::{Replay, ReplayTarget, replay};
use crate::vm::work_directory::key_of;
use crate::vm::{BootImage, Guest, GuestResult, Job, VmError, WorkDirectory, qemu_version};

/// A part of a laboratory that one machine of several runs: every `of`-th experiment from the
/// `number`-th on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 1 to `of`.
    number: u32,
    of: u32,
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = || {
            let (number, of) = text.split_once('/')?;
            let (number, of): (u32, u32) = (number.parse().ok()?, of.parse().ok()?);
            (1..=of).contains(&number).then_some(Self { number, of })
        };
        parsed()
            .ok_or_else(|| format!("\"{text}\" is not a shard; write 3/200 for the third of 200"))
    }
}

impl Shard {
    /// All of it.
    pub const WHOLE: Self = Self { number: 1, of: 1 };

    /// Whether the experiment at `index`, counted from 0, is one of this shard. Neighbours are in different
    /// shards, so that all have some of each kernel.
    pub(super) const fn has(self, index: usize) -> bool {
        index as u64 % self.of as u64 == self.number as u64 - 1
    }
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
    /// How many times more every experiment is run, to compare the bytes with those of the first;
    /// with 0 one that is stored is not run again.
    pub again: u16,
    /// Which of the experiments are run.
    pub shard: Shard,
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
        report: &mut dyn FnMut(CampaignEvent<'_>),
    ) -> Result<LabResults<C>, VmError> {
        let store = ResultStore::open(self.out, RECORD)?;
        let prepared = self.prepare(matrix, clock, &store)?;
        let queue = queue(&prepared, self.again);
        let mut results: Vec<Option<StoredExperiment>> =
            prepared.iter().map(|one| one.stored.clone()).collect();
        let stored = results.iter().flatten().count();
        report(CampaignEvent::Begun { due: queue.len(), stored, waiting: 0 });

        let (mut differing, mut compared) = (Vec::new(), 0);
        let keep = |campaign: &mut Campaign<'_>, &index: &usize, ran: Result<GuestResult<C>, _>| {
            let Prepared { experiment, key, .. } = &prepared[index];
            let cell = &*experiment.to_string();
            let ended = ran.and_then(|result| result.succeeded().map(|()| result));
            let Some(result) = campaign.outcome(cell, ended)? else { return Ok(()) };
            if let Some(before) = &results[index] {
                let same = before.digest == result.digest();
                compared += 1;
                differing.extend((!same).then(|| experiment.clone()));
                campaign.report(CampaignEvent::Compared { cell, same });
            } else {
                let kept = StoredExperiment::keep(&store, experiment, key, &result)?;
                campaign.report(CampaignEvent::Stored { cell, elapsed_s: kept.elapsed_s });
                results[index] = Some(kept);
            }
            result.remove_directory()
        };

        let mut campaign = Campaign::new(stop, report);
        let run = |&index: &usize| prepared[index].guest.run(self.work, &prepared[index].job, stop);
        campaign.side_by_side(&queue, self.jobs, run, keep)?;

        let failed = campaign.into_failed();
        let has_failed =
            |one: &Prepared<C>| failed.iter().any(|(of, _)| *of == one.experiment.to_string());
        let of_all = prepared.iter().zip(&results);
        let missing = of_all.filter(|(one, result)| result.is_none() && !has_failed(one)).count();
        let stored = results.into_iter().flatten().collect();
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
        let store = ResultStore::open(self.out, RECORD)?;
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
        store: &ResultStore,
    ) -> Result<Vec<Prepared<C>>, VmError> {
        let qemu = qemu_version()?;
        let mut all = Vec::new();
        let of_shard = matrix.experiments().into_iter().enumerate();
        for (_, experiment) in of_shard.filter(|(index, _)| self.shard.has(*index)) {
            let boot = self.boots[experiment.indexes[0]].clone();
            let mut guest = Guest::new(boot, clock(experiment.seed));
            guest.memory_mib = matrix.memory_mib;
            guest.limit = matrix.limit;
            guest.niceness = self.niceness;
            guest.kernel_arguments = matrix.kernel_arguments(&experiment);

            let job = matrix.job(&experiment);
            let identity = format!("{qemu}\n{}", guest.identity(&job)?);
            let key = key_of(identity.as_bytes());
            let stored = StoredExperiment::find(store, &experiment, &key)?;
            all.push(Prepared { experiment, guest, job, key, stored });
        }

        Ok(all)
    }
}

/// Indexes of the experiments to run, in order; one that is to be compared stands there as often as
/// it is run.
fn queue<C: VmClock>(prepared: &[Prepared<C>], again: u16) -> Vec<usize> {
    let runs = |one: &Prepared<C>| usize::from(one.stored.is_none()) + usize::from(again);
    let indexes =
        prepared.iter().enumerate().flat_map(|(index, one)| std::iter::repeat_n(index, runs(one)));
    indexes.collect()
}
