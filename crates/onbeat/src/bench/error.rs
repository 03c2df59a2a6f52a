//! Why a bench or a measurement fails.

use std::io;

use onbeat_record::WriteError;
use onbeat_record::run_dir::RunDirError;
use onbeat_tune::TuneError;

use super::background_load::BackgroundLoadError;
use super::cell::CellError;
use super::host_settings::SettingError;
use super::schedule::TooShort;
use crate::probe::RunError;
use crate::probe::resume::OtherRun;

/// A bench failed, or a measurement of one probe: under one load, under several in turns, or on
/// several CPUs at once.
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
    /// Every cell was refused: nothing can be measured.
    #[error("no cell is permitted to run; {0}")]
    NonePermitted(String),
    /// It would be resumed under other conditions than it began.
    #[error(transparent)]
    OtherRun(#[from] OtherRun),
    /// The run failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The run of a CPU failed; the others were ended.
    #[error("CPU {cpu}: {source}")]
    OfCpu {
        /// Which CPU.
        cpu: u32,
        /// Why.
        source: RunError,
    },
    /// A thread for the recorder of a CPU could not be started.
    #[error(
        "cannot start a thread for CPU {cpu}: {source}; the limit of threads (ulimit -u) may be reached"
    )]
    Thread {
        /// Which CPU.
        cpu: u32,
        /// Why.
        source: io::Error,
    },
    /// A file that cells or runs share could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The directory of a resumed run cannot be used.
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    /// A cell's process failed.
    #[error(transparent)]
    Cell(#[from] CellError),
    /// A load failed.
    #[error(transparent)]
    Load(#[from] BackgroundLoadError),
    /// The journal cannot be used, or the shield could not be raised or lowered.
    #[error(transparent)]
    Tune(#[from] TuneError),
    /// A part of a tuning is not permitted here.
    #[error("tuning {tuning}: {refusal}")]
    NotPermitted {
        /// The tuning.
        tuning: String,
        /// What, why, and how to permit it.
        refusal: String,
    },
    /// A setting of the host could not be made or undone.
    #[error(transparent)]
    Setting(#[from] SettingError),
}
