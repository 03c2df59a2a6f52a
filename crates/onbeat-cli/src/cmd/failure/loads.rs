//! Why loads cannot run, or take turns.

use onbeat::load::Load;

/// Why loads cannot run, or take turns.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadsFailure {
    #[error("the load {load} did not run to its end: {parts}")]
    Died { load: Load, parts: String },
    #[error(
        "--allowed-jitter judges a sweep of the CPUs' share (0..100/10); of other sweeps the table shows the jitter"
    )]
    JitterOfGroups,
}
