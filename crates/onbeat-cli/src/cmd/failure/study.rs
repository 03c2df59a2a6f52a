//! Why a study could not run.

use std::path::PathBuf;

use onbeat_lab::study::{StudyError, StudyFileError};

/// Why a study could not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StudyFailure {
    #[error("{path}: {source}")]
    File { path: PathBuf, source: StudyFileError },
    #[error(transparent)]
    Study(#[from] StudyError),
}
