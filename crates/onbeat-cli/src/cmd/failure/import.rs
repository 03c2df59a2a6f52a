//! Why files cannot be imported.

use std::path::PathBuf;

/// Why files cannot be imported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImportFailure {
    #[error("{path} exists and is not empty; choose another place with -o")]
    Taken { path: PathBuf },
    #[error(
        "{path} is a file of another tool ({format}), not a run; make one of it with `onbeat import {path}`"
    )]
    NoRun { path: PathBuf, format: &'static str },
    #[error("cannot import {path}: {source}")]
    Import { path: PathBuf, source: onbeat::import::Error },
}
