//! Loads that took turns and were killed or ended early: what each has measured, and what is left.

use std::path::Path;

use super::TurnsPlan;
use crate::bench::shared_file::past_of;
use crate::load::Load;
use crate::probe::resume::OtherRun;
use onbeat_record::run_dir::BENCH_FILE;
use onbeat_record::{Past, RunFile, RunFileError};

/// An unfinished measurement under several loads. Its files are locked: no other process writes
/// them.
#[derive(Debug)]
pub struct UnfinishedTurns {
    /// The file of the bench.
    pub(super) bench: Past,
    /// The tuning of the loads.
    pub(super) tuning: String,
    /// The run of each load, in the order of the plan; `None` before its first block.
    pub(super) pasts: Vec<Option<Past>>,
}

impl UnfinishedTurns {
    /// Opens what `plan` has measured in `dir`; `None` when it is complete, or when it was cut off
    /// before its first sample.
    ///
    /// # Errors
    /// [`RunFileError`]; [`RunFileError::BeingWritten`] while its writer is alive.
    pub fn open(dir: &Path, plan: &TurnsPlan) -> Result<Option<Self>, RunFileError> {
        let Some(bench) = past_of(&dir.join(BENCH_FILE), Past::open)? else { return Ok(None) };
        let Some(tuning) =
            RunFile::read(&bench.path)?.bench.and_then(|bench| bench.tunings.first().cloned())
        else {
            return Ok(None);
        };
        let past = |load: &Load| past_of(&dir.join(plan.file_name(load)), Past::open);
        let pasts = plan.loads.iter().map(past).collect::<Result<Vec<_>, _>>()?;
        let unfinished = Self { bench, tuning, pasts };
        let is_whole =
            unfinished.left(plan).iter().all(|left| *left == 0) && unfinished.bench.ended.is_some();

        Ok((!is_whole).then_some(unfinished))
    }

    /// Returns the releases that each load has left.
    #[must_use]
    pub fn left(&self, plan: &TurnsPlan) -> Vec<u64> {
        plan.left(&self.pasts)
    }

    /// Returns whether it was cut off rather than ended.
    #[must_use]
    pub const fn is_cut_off(&self) -> bool {
        self.bench.ended.is_none()
    }

    /// Refuses to resume on another machine or with another timing, also where the loads that are
    /// left have no file yet.
    ///
    /// # Errors
    /// [`OtherRun`].
    pub fn check(&self, plan: &TurnsPlan) -> Result<(), OtherRun> {
        OtherRun::check(&self.bench, &plan.what.header(self.bench.header.started_unix_s))
    }
}
