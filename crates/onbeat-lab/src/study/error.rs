//! Why a study could not go on.

use std::path::{Path, PathBuf};

use onbeat::bench::background_load::BackgroundLoadError;
use onbeat::bench::host_settings::SettingError;
use onbeat::campaign::{CellFailure, FailureScope, StoreError};
use onbeat_tune::TuneError;
use onbeat_tune::apply::OtherOwner;
use onbeat_tune::plan::PlanError;

use crate::vm::{PlaceError, VmError};

#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// A guest could not be built or run.
    #[error(transparent)]
    Vm(#[from] VmError),
    /// The threads of QEMU could not be placed.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// No CPU can be given to the guest, or the settings cannot be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A setting could not be made, and what was made of the row is undone; or it could not be undone.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Another program would overwrite a setting silently.
    #[error("{0}")]
    Owned(OtherOwner),
    /// The journal failed.
    #[error(transparent)]
    Tune(#[from] TuneError),
    /// Settings of this machine need root.
    #[error("a study changes settings of this machine, which needs root. Run: sudo {command}")]
    NeedsRoot {
        /// The command as typed.
        command: String,
    },
    /// The directory holds results of another study, or of another machine, which must not complete
    /// those of this one.
    #[error("{} holds results of another {what}; name another directory by --out", path.display())]
    Other {
        /// The directory.
        path: PathBuf,
        /// `study file` or `machine`.
        what: &'static str,
    },
    /// A measurement outside of a guest failed.
    #[error("{program} {what} ended with {status}: {message}")]
    Outside {
        program: String,
        /// Its first arguments.
        what: &'static str,
        /// How it ended.
        status: String,
        /// The line of its standard error that says why.
        message: String,
    },
    /// The load of this machine could not be started.
    #[error(transparent)]
    Load(#[from] BackgroundLoadError),
    /// The user stopped the study.
    #[error("the study was stopped")]
    Stopped,
}

impl From<StoreError> for StudyError {
    fn from(why: StoreError) -> Self {
        Self::Vm(why.into())
    }
}

impl CellFailure for StudyError {
    fn scope(&self) -> FailureScope {
        match self {
            Self::Stopped => FailureScope::Stopped,
            // A guest that dies while its threads are placed has none of them any more.
            Self::Outside { .. }
            | Self::Load(_)
            | Self::Place(PlaceError::NoThread { .. })
            | Self::Vm(VmError::Qemu { .. }) => FailureScope::Cell,
            Self::Vm(why) => why.scope(),
            _ => FailureScope::Campaign,
        }
    }
}

impl StudyError {
    /// A stored run file cannot be read.
    pub(super) fn damaged(path: &Path, why: &impl ToString) -> Self {
        StoreError::Damaged { path: path.to_owned(), reason: why.to_string() }.into()
    }
}
