//! Why a study could not run.

use std::io;
use std::path::PathBuf;

use onbeat_lab::study::{StudyError, StudyFileError};

/// Why a study could not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StudyFailure {
    #[error("{path}: {source}")]
    File { path: PathBuf, source: StudyFileError },
    #[error(transparent)]
    Study(#[from] StudyError),
    #[error("cannot answer on port {port}: {source}")]
    Answer { port: String, source: io::Error },
}
