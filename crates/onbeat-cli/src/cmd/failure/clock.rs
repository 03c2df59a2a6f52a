//! Why runs have no figures in one table.

use std::path::PathBuf;

/// Why runs have no figures in one table.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClockFailure {
    #[error(
        "{path} was recorded in a guest by the free clock, which has no latencies: every kernel has the emulator's; \
         run the guest with --clock virtual"
    )]
    Free { path: PathBuf },
    #[error(
        "{path} was measured by the {clock} clock, {other_path} by the {other} clock; only runs of one clock are comparable"
    )]
    Mixed { path: PathBuf, clock: String, other_path: PathBuf, other: String },
}
