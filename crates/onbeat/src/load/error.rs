//! Why a load cannot start.

/// The load cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This process carries a load already.
    #[error("this process carries a load already; start the next load in another process")]
    AlreadySupervising,
    /// The process cannot lead a session of its own, which is needed to find all processes of the
    /// load.
    #[error(
        "cannot lead a session of its own: {0}; start the load as a child that does not lead a process group"
    )]
    Session(std::io::Error),
    /// `/proc` does not show this process.
    #[error(
        "/proc does not show this process; mount /proc, because a load must find its processes"
    )]
    NoProc,
    /// The kernel refused a setting that is needed to leave no process behind.
    #[error("cannot {what}: {why}")]
    Setting {
        /// The refused operation.
        what: &'static str,
        /// The kernel's error.
        why: std::io::Error,
    },
    /// A requested program is not installed.
    #[error("{program} is not installed; install the package {package}, or choose another load")]
    Missing {
        /// The program.
        program: String,
        /// The Debian package that contains it.
        package: String,
    },
    /// A requested part cannot start.
    #[error("load part {part} cannot start: {why}")]
    Part {
        /// The part.
        part: String,
        /// The reason, and what to do.
        why: String,
    },
}
