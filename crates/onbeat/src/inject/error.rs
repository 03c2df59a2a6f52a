//! Why a fault is not injected.

use super::fault::{Fault, FaultOrigin};
use onbeat_host::machine::user_name;

/// The plan is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InjectionPlanError {
    /// The period is 0.
    #[error("the loop's period is 0; give the period it runs with, such as 1ms")]
    NoPeriod,
    /// The plan would not inject anything.
    #[error(
        "{fault}: {count} injections of {for_ns} ns do nothing; ask for at least one of at least 1 ns"
    )]
    Nothing {
        /// The fault.
        fault: Fault,
        /// Requested number of injections.
        count: usize,
        /// Requested length, in nanoseconds.
        for_ns: u64,
    },
    /// The injections are too close: spikes would overlap, or the kernel's rule has no time to act.
    #[error(
        "{fault}: {every_ns} ns from one injection to the next is too short; it takes at least {least_ns} ns"
    )]
    TooClose {
        /// The fault.
        fault: Fault,
        /// Requested distance, in nanoseconds.
        every_ns: u64,
        /// Minimum distance, in nanoseconds.
        least_ns: u64,
    },
    /// An injection is longer than the limit of its fault.
    #[error("{fault}: {for_ns} ns is too long; one injection may last {longest_ns} ns")]
    TooLong {
        /// The fault.
        fault: Fault,
        /// Requested length, in nanoseconds.
        for_ns: u64,
        /// Maximum length, in nanoseconds.
        longest_ns: u64,
    },
    /// More injections than a log holds.
    #[error(
        "{count} injections are too many; a plan holds {most}: run several one after the other"
    )]
    TooMany {
        /// Requested number of injections.
        count: usize,
        /// Maximum number.
        most: usize,
    },
}

/// A fault could not be injected.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The plan is not valid.
    #[error(transparent)]
    Plan(#[from] InjectionPlanError),
    /// The fault is not possible on this machine, or for this loop.
    #[error("{fault} is not possible here: {reason}")]
    NotPossible {
        /// The fault.
        fault: Fault,
        /// The reason, with the numbers and what would change it.
        reason: String,
    },
    /// The loop's process belongs to another user, or the kernel refuses access to it.
    #[error(
        "{fault} to process {pid} is not permitted: it belongs to {}, and this is {}; run as that user, or with sudo",
        user_name(*.owner),
        user_name(*.user)
    )]
    NotPermitted {
        /// The fault.
        fault: Fault,
        /// The process.
        pid: i32,
        /// Owner of the process.
        owner: u32,
        /// Real user of this process.
        user: u32,
    },
    /// The fault belongs into the loop but was requested outside it, or the other way round.
    #[error("{fault} is made {}", origin_words(.fault.origin()))]
    Elsewhere {
        /// The fault.
        fault: Fault,
    },
    /// A thread could not be started.
    #[error("cannot start a thread: {0}; the limit of threads (ulimit -u) may be reached")]
    Thread(std::io::Error),
    /// A process could not be started.
    #[error("cannot start a process: {0}; the limit of processes (ulimit -u) may be reached")]
    Process(std::io::Error),
    /// A thread panicked, which is a bug.
    #[error(
        "a thread of the injector panicked; this is a bug in onbeat, please report it with the command you typed"
    )]
    Panicked,
}

const fn origin_words(place: FaultOrigin) -> &'static str {
    match place {
        FaultOrigin::OutsideLoop => {
            "by threads outside the loop (Injector), not by the loop itself"
        }
        FaultOrigin::InLoop => "by the loop itself (InLoop), not by threads outside it",
    }
}
