//! Why runs cannot be compared.

use std::path::PathBuf;

/// Why runs cannot be compared.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CompareFailure {
    #[error(
        "{path} was measured under one load; `compare` takes two runs, or one with several loads (`measure PROBE --loads idle,paper`)"
    )]
    OneLoad { path: PathBuf },
    #[error("none of the runs has the series {series}; they have {has}")]
    NoSeries { series: &'static str, has: String },
}
