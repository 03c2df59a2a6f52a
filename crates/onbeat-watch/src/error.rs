//! Why a program cannot be watched.

use std::io;

use onbeat::cause::TraceError;
use onbeat::record::WriteError;

/// A program cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// Tracing is not possible.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The run file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The process has ended.
    #[error("process {pid} has ended, or never existed")]
    Ended {
        /// Its number.
        pid: i32,
    },
    /// The thread has ended.
    #[error("thread {tid} ended before it could be measured; another one may serve the loop now")]
    ThreadEnded {
        /// Its number.
        tid: u32,
    },
    /// The kernel hides the addresses of its functions.
    #[error(
        "the kernel hides the addresses of its functions (/proc/kallsyms shows zeros), so timers of programs cannot be distinguished from the kernel's own; run onbeat as root, with kernel.kptr_restrict at 0 or 1"
    )]
    HiddenAddresses,
    /// More events than can be recorded.
    #[error(
        "thread {tid} causes {per_s} events per second, more than can be recorded beside it; recording was stopped, the run so far is kept"
    )]
    Flood {
        /// The thread.
        tid: u32,
        /// Events per second.
        per_s: u64,
    },
    /// The command cannot be started.
    #[error("cannot start {command}: {source}")]
    Command {
        /// Its first word.
        command: String,
        /// The system's error.
        source: io::Error,
    },
}
