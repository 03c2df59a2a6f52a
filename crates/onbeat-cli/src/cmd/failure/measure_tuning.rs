//! Why a tuning cannot be measured.

use onbeat::bench::Tuning;

/// Why a tuning cannot be measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MeasureTuningFailure {
    #[error("--tuning {tuning} has {what} already: choose letters without it")]
    NothingNew { tuning: Tuning, what: String },
    #[error("{what} cannot be measured here: {why}")]
    NotPermitted { what: String, why: String },
    #[error(
        "measuring {what} changes settings of this machine between blocks, which needs root. Run: sudo {command}"
    )]
    NeedsRoot { what: String, command: String },
}
