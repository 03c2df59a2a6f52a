//! Why a study could not run.

use std::path::PathBuf;

use onbeat_lab::study::StudyFileError;

/// Why a study could not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StudyFailure {
    #[error("{path}: {source}")]
    File { path: PathBuf, source: StudyFileError },
}
