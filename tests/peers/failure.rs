//! What ends the benchmark: it could not be carried out, or an account does not come out even.

use std::io;
use std::path::PathBuf;

use onbeat::record::{RunFileError, WriteError};
use onbeat_rt::ring::NotAPowerOfTwo;

/// One sentence, status 1.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("unknown part `{name}`; parts are {known}")]
    NoSuchPart { name: String, known: String },
    #[error("cannot start {program}: {source}")]
    Start { program: String, source: io::Error },
    #[error("{program} ended with {status}; it said: {said}")]
    Ended { program: String, status: std::process::ExitStatus, said: String },
    #[error("cannot {what}: {source}")]
    System { what: &'static str, source: io::Error },
    #[error("{path} is not what {program} should have written: {why}")]
    Unreadable { path: PathBuf, program: &'static str, why: String },
    #[error(
        "the account is not even: {what} should be {expected} and is {found}; this is a bug in onbeat"
    )]
    Account { what: String, expected: u64, found: u64 },
    #[error(transparent)]
    RunFile(#[from] RunFileError),
    #[error(transparent)]
    Control(#[from] onbeat_control::ControlError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("a ring of {} slots cannot be masked", .0.slots)]
    Ring(NotAPowerOfTwo),
}

impl Failure {
    /// For `map_err` of what the system answers.
    pub(crate) const fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

/// Holds an account to the slot.
pub(crate) fn even(what: impl Into<String>, expected: u64, found: u64) -> Result<(), Failure> {
    within(what, expected, found, 0)
}

/// Holds an account, give or take some.
pub(crate) fn within(
    what: impl Into<String>,
    expected: u64,
    found: u64,
    away: u64,
) -> Result<(), Failure> {
    if expected.abs_diff(found) <= away {
        Ok(())
    } else {
        Err(Failure::Account { what: what.into(), expected, found })
    }
}
