//! Why a bench fails.

use onbeat_tune::TuneError;

use super::background_load::BackgroundLoadError;
use super::cell::CellError;
use super::host_settings::SettingError;
use super::schedule::TooShort;
use crate::probe::resume::OtherRun;
use onbeat_record::WriteError;

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
    /// Every cell was refused: nothing can be measured.
    #[error("no cell is permitted to run; {0}")]
    NonePermitted(String),
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
    #[error(transparent)]
    Load(#[from] BackgroundLoadError),
    /// The shield could not be raised or lowered.
    #[error(transparent)]
    Tune(#[from] TuneError),
    /// A setting of the host could not be made or undone.
    #[error(transparent)]
    Setting(#[from] SettingError),
}
