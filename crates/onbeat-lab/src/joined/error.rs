//! Why host and guest could not be traced together.

use std::io;

use onbeat::cause::TraceError;
use onbeat::cause::ftrace::UnpackError;
use onbeat::record::RunFileError;
use onbeat_tune::TuneError;

use super::relation::NotRelated;
use crate::vm::{PlaceError, VmError};

/// A joined trace failed.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The guest failed.
    #[error(transparent)]
    Vm(#[from] VmError),
    /// The host's events cannot be recorded.
    #[error("the host's recorder: {0}")]
    Host(#[from] TraceError),
    /// The virtual CPU could not be bound.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] TuneError),
    /// The shared page cannot be used on the host.
    #[error("the page that is shared with the guest cannot be mapped: {0}")]
    Page(io::Error),
    /// The guest did not answer.
    #[error(
        "the guest's clock was not read ({reason}): the program in the guest needs root and the device ivshmem; its own message is in {console}"
    )]
    NoAnswer {
        /// What happened instead.
        reason: io::ErrorKind,
        /// The guest's console.
        console: String,
    },
    /// The clocks cannot be joined.
    #[error(transparent)]
    Clocks(#[from] NotRelated),
    /// The guest sent no run.
    #[error(
        "the guest sent {files} run files, and 1 is joined: trace one measurement, not a bench"
    )]
    Runs {
        /// Their number.
        files: usize,
    },
    /// The guest's run cannot be read.
    #[error(transparent)]
    Run(#[from] RunFileError),
    /// The events of a spike cannot be read.
    #[error("spike {number} of the guest: {source}")]
    Events {
        number: u64,
        /// What is wrong with them.
        source: UnpackError,
    },
    /// The guest's recorded events cannot be read.
    #[error("the guest's events: {0}")]
    Recorded(UnpackError),
    /// Ctrl-C.
    #[error("stopped before the guest had ended")]
    Stopped,
}
