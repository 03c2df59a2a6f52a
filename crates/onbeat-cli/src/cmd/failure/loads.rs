//! Why loads cannot run, or take turns.

use onbeat::load::{Load, RunningError};

/// Why loads cannot run, or take turns.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadsFailure {
    #[error("load {load}: {source}")]
    Run { load: Load, source: RunningError },
    #[error("the load {load} did not run to its end: {parts}")]
    Died { load: Load, parts: String },
    #[error("the load {load} is listed twice; list each load once in --loads")]
    LoadTwice { load: Load },
    #[error(
        "--allowed-jitter judges a sweep of the CPUs' share (0..100/10); of other sweeps the table shows the jitter"
    )]
    JitterOfGroups,
}
