//! Why files cannot be imported.

use std::path::PathBuf;

/// Why files cannot be imported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImportFailure {
    #[error("{path} exists and is not empty; choose another place with -o")]
    Taken { path: PathBuf },
    #[error("cannot import {path}: {source}")]
    Import { path: PathBuf, source: onbeat::import::Error },
}
