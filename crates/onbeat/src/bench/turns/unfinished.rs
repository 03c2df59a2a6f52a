//! Loads that took turns and were killed or ended early: what each has measured, and what is left.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};

use super::TurnsPlan;
use crate::probe::RunError;
use crate::probe::resume::{OtherRun, differences};
use onbeat_record::run_dir::BENCH_FILE;
use onbeat_record::{EndReason, Past, RunFile, RunFileError};

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
        let Some(bench) = past(&dir.join(BENCH_FILE))? else { return Ok(None) };
        let Some(tuning) =
            RunFile::read(&bench.path)?.bench.and_then(|bench| bench.tunings.first().cloned())
        else {
            return Ok(None);
        };
        let runs = plan.file_names().into_iter().map(|name| past(&dir.join(name)));
        let pasts = runs.collect::<Result<Vec<_>, _>>()?;
        let unfinished = Self { bench, tuning, pasts };
        let is_whole =
            unfinished.left(plan).iter().all(|left| *left == 0) && unfinished.bench.ended.is_some();

        Ok((!is_whole).then_some(unfinished))
    }

    /// Returns the releases that each load has left.
    #[must_use]
    pub fn left(&self, plan: &TurnsPlan) -> Vec<u64> {
        let left = |past: &Option<Past>| match past {
            None => plan.releases,
            // A probe that is complete ends before its releases do.
            Some(past) if past.ended.is_some_and(|reason| reason != EndReason::Asked) => 0,
            Some(_) if plan.releases == u64::MAX => u64::MAX,
            Some(past) => plan.releases.saturating_sub(past.account.slots),
        };
        self.pasts.iter().map(left).collect()
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
    /// [`RunError::OtherRun`].
    pub fn check(&self, plan: &TurnsPlan) -> Result<(), RunError> {
        let differences =
            differences(&self.bench.header, &plan.header(&TurnsOrigin::of_past(&self.bench)));
        if differences.is_empty() {
            return Ok(());
        }
        Err(OtherRun { path: self.bench.path.display().to_string(), differences }.into())
    }
}

/// Opens a file that exists and has a header.
fn past(path: &Path) -> Result<Option<Past>, RunFileError> {
    if !path.exists() {
        return Ok(None);
    }
    match Past::open(path) {
        Ok(past) => Ok(Some(past)),
        // Cut off in its header: nothing was measured.
        Err(RunFileError::Foreign { .. }) => Ok(None),
        Err(why) => Err(why),
    }
}

/// The instant that is 0 in all files.
#[derive(Clone, Copy, Debug)]
pub(super) struct TurnsOrigin {
    /// By `CLOCK_MONOTONIC`, the clock of the releases.
    pub(super) at: Instant,
    /// By the wall clock, in seconds since 1970.
    pub(super) unix_s: f64,
    /// The start of this process.
    pub(super) began: Instant,
    /// The time of the file at `at`, in seconds.
    from_s: f64,
}

impl TurnsOrigin {
    pub(super) fn now() -> Self {
        let at = Monotonic.now();
        Self { at, unix_s: unix_now_s(), began: at, from_s: 0.0 }
    }

    /// Returns the origin of a bench that is resumed. After a restart of the machine
    /// `CLOCK_MONOTONIC` does not reach back to it; the origin is now then, for the files that are
    /// created from here on.
    pub(super) fn of_past(bench: &Past) -> Self {
        let now = Monotonic.now();
        let unix_s = unix_now_s();
        let since_s = unix_s - bench.header.started_unix_s;
        let since_ns = (since_s * 1e9) as u64;
        if since_s >= bench.last_t && since_ns <= now.as_ns() {
            let at = Instant::from_ns(now.as_ns() - since_ns);
            return Self { at, unix_s: bench.header.started_unix_s, began: now, from_s: 0.0 };
        }

        Self { at: now, unix_s, began: now, from_s: bench.last_t }
    }

    /// Returns the seconds since the start of the bench's file.
    pub(super) fn seconds(&self, instant: Instant) -> f64 {
        self.from_s + instant.ns_since(self.at) as f64 / 1e9
    }
}

fn unix_now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
