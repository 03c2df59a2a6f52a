//! Results of a study on disk: a directory per measurement, complete or absent, found again by what
//! was measured.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use onbeat::campaign::{ResultStore, StoreError};
use onbeat::record::run_dir::RUN_FILE_ENDING;
use onbeat::record::{Distribution, Moments, RunFile};
use onbeat_figures::Statistics;
use serde::{Deserialize, Serialize};

use super::error::StudyError;
use super::setting::StageSetting;
use crate::vm::{main_series, merged};

const MEASURED: &str = "measured.json";
/// The file of the baseline, which is there from the first measurement on.
pub(super) const BASELINE: &str = "study.json";

/// Where a measurement was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StudySide {
    /// On this machine, without a guest.
    Outside,
    /// In the guest.
    Inside,
}

impl StudySide {
    const fn word(self) -> &'static str {
        match self {
            Self::Outside => "outside",
            Self::Inside => "inside",
        }
    }

    pub(super) const fn place(self) -> &'static str {
        match self {
            Self::Outside => "bare metal",
            Self::Inside => "guest",
        }
    }
}

/// Which measurement it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RowSlot {
    pub row: String,
    /// Where.
    pub side: StudySide,
    /// Name of the load.
    pub load: String,
    /// From 1.
    pub run: u32,
}

impl fmt::Display for RowSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { row, side, load, run } = self;
        write!(f, "{row}, {}, {load}, run {run}", side.place())
    }
}

impl RowSlot {
    fn directory(&self) -> PathBuf {
        let name = format!("{}-{}-{}", self.side.word(), self.load, self.run);
        Path::new("measured").join(self.row_in_names()).join(name)
    }

    /// The name of a run file, by which it is recognised among those of other rows.
    pub(super) fn run_file(&self, nth: usize) -> PathBuf {
        let more = if nth == 0 { String::new() } else { format!("-{nth}") };
        let row = self.row_in_names();
        let side = self.side.word();
        format!("{row}-{side}-{}-{}{more}{RUN_FILE_ENDING}", self.load, self.run).into()
    }

    fn row_in_names(&self) -> String {
        self.row.replace(" - ", "-without-")
    }
}

/// What the application test counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// Commands that were sent.
    pub sent: u32,
    /// From a command on the host to its answer there, in nanoseconds; empty as the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub round_trips_ns: Vec<u64>,
    /// From a command on the host to its edge at the servo, in nanoseconds; empty where the clocks are
    /// not related.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edges_ns: Vec<u64>,
    /// Error bound of these times, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_ns: Option<u64>,
    /// Pulses that the servo counted.
    #[serde(default)]
    pub pulses: u32,
    /// Commands that were answered.
    pub answered: u32,
    /// Why the test ended before its last command; absent where it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// A thread of QEMU while it was measured, as `/proc` showed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenThread {
    pub name: String,
    /// The virtual CPUs that it runs.
    pub vcpus: Vec<usize>,
    /// Host CPUs it may use.
    pub cpus: String,
    pub policy: String,
}

/// One measurement with its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Of everything that decides the result: the same key is not measured again.
    pub key: String,
    /// Which one.
    pub slot: RowSlot,
    /// `real`, `virtual` or `free`.
    pub clock: String,
    /// Run files, relative to the directory; none by the free clock.
    pub run_files: Vec<PathBuf>,
    /// Releases whose cycle ended after the next one; absent by the free clock.
    pub overruns: Option<u64>,
    /// Releases that were skipped.
    pub skipped: Option<u64>,
    /// The application test; absent where there was none.
    pub answers: Option<Answers>,
    /// Settings that the kernel refused, with the reason.
    pub refused: Vec<String>,
    /// Threads of QEMU; empty outside of a guest.
    pub threads: Vec<SeenThread>,
    /// Seconds it took, by this machine's clock.
    pub elapsed_s: f64,
}

/// What was found out before the first measurement, when nothing was tuned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StudyBaseline {
    /// Of what the study measures: another file needs another directory.
    pub key: String,
    /// The machine that is measured ([`onbeat_host::machine::lasting_id`]), where it has an id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// `real`, `virtual` or `free`.
    pub clock: String,
    /// Why it is not the real one; empty where it is.
    pub because: String,
    /// The guest's host CPUs, as a list.
    pub host_cpus: String,
    /// Stages with their settings.
    pub stages: Vec<super::row::Stage>,
    /// The firmware's options.
    pub firmware: Vec<StageSetting>,
}

/// The directory of a study's results.
#[derive(Clone, Debug)]
pub struct StudyStore {
    pub(super) results: ResultStore,
}

impl StudyStore {
    /// Opens a store, creating it if need be.
    ///
    /// # Errors
    /// When a directory cannot be created.
    pub fn open(path: &Path) -> Result<Self, StudyError> {
        Ok(Self { results: ResultStore::open(path, MEASURED)? })
    }

    /// Returns a stored measurement with this key; `None` where there is none, or one of another
    /// description.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn find(&self, slot: &RowSlot, key: &str) -> Result<Option<Measured>, StudyError> {
        let found: Option<Measured> = self.results.find(&slot.directory())?;
        Ok(found.filter(|found| found.key == key))
    }

    /// Stores a measurement with the contents of its run files.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(super) fn keep(&self, measured: &Measured, files: &[Vec<u8>]) -> Result<(), StudyError> {
        self.results.keep(&measured.slot.directory(), measured, |directory| {
            for (name, content) in measured.run_files.iter().zip(files) {
                let path = directory.join(name);
                fs::write(&path, content).map_err(StoreError::writing(&path))?;
            }
            Ok(())
        })
    }

    /// The samples of the main series of a measurement; none by the free clock.
    ///
    /// # Errors
    /// When a run file cannot be read.
    pub fn samples(&self, measured: &Measured) -> Result<(Distribution, Moments), StudyError> {
        let of_run = |run: RunFile| {
            let series = main_series(&run);
            (run.distribution(series), run.moments(series))
        };
        let runs = self.runs(measured).map(|run| run.map(of_run)).collect::<Result<Vec<_>, _>>()?;
        Ok(merged(&runs))
    }

    /// Samples that were lost between the loop and its recorder in several measurements.
    ///
    /// # Errors
    /// When a run file cannot be read.
    pub(super) fn lost(&self, all: &[&Measured]) -> Result<u64, StudyError> {
        let runs = all.iter().flat_map(|one| self.runs(one));
        runs.map(|run| run.map(|run| run.account().lost)).sum()
    }

    fn runs(&self, measured: &Measured) -> impl Iterator<Item = Result<RunFile, StudyError>> {
        self.run_files(measured)
            .map(|path| RunFile::read(&path).map_err(|error| StudyError::damaged(&path, &error)))
    }

    /// Paths of the run files of a measurement.
    pub fn run_files(&self, measured: &Measured) -> impl Iterator<Item = PathBuf> {
        let directory = self.results.path().join(measured.slot.directory());
        measured.run_files.iter().map(move |path| directory.join(path))
    }

    /// Statistics over several measurements of one row; `None` without a sample.
    ///
    /// # Errors
    /// As [`Self::samples`].
    pub fn statistics(&self, all: &[&Measured]) -> Result<Option<Statistics>, StudyError> {
        let samples = all.iter().map(|one| self.samples(one)).collect::<Result<Vec<_>, _>>()?;
        let (distribution, moments) = merged(&samples);
        Ok(Statistics::new(&distribution, &moments))
    }
}

/// Statistics of round trips; `None` without one.
#[must_use]
pub fn statistics_of(round_trips_ns: &[u64]) -> Option<Statistics> {
    let mut moments = Moments::default();
    round_trips_ns.iter().for_each(|ns| moments.add(*ns));
    Statistics::new(&Distribution::from_values(round_trips_ns.iter().copied()), &moments)
}
