//! Why a robot cannot run.

/// Why a robot cannot run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RobotFailure {
    #[error(
        "--trajectory {trajectory} follows goals from outside, and the cells of a bench have none; use hold, sine, gait \
         or csv:FILE"
    )]
    NotInBench { trajectory: String },
    #[error(
        "--lockdown allows no socket to be opened, and each block of a cell opens {interface}; leave one of them out"
    )]
    LockedInterface { interface: String },
    #[error("{option} has no meaning with --with {with}; leave one of them out")]
    NotWith { option: &'static str, with: &'static str },
    #[error("a period of {period_s} s is too long to stop a robot in time; use at most 1s")]
    LongPeriod { period_s: f64 },
}
