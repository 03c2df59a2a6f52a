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
        "{fault}: {count} injections of {} do nothing; ask for at least one of at least 1ns",
        typed(*.for_ns)
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
        "{fault}: {} from one injection to the next is too short; it takes at least {}",
        typed(*.every_ns),
        typed(*.least_ns)
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
    #[error("{fault}: {} is too long; one injection may last {}", typed(*.for_ns), typed(*.longest_ns))]
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

/// `300us`, as a time is typed.
fn typed(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let whole = units.into_iter().find(|(length, _)| ns >= *length && ns.is_multiple_of(*length));
    let (length, unit) = whole.unwrap_or((1, "ns"));
    format!("{}{unit}", ns / length)
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
        FaultOrigin::InLoop => {
            "by the loop itself (InLoop), not by threads outside it: a loop of onbeat's own does, without --pid"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_as_they_are_typed() {
        let (fault, longest_ns) = (Fault::EqualPriorityHog, 500_000_000);
        let long = InjectionPlanError::TooLong { fault, for_ns: 5_000_000_000, longest_ns };
        assert_eq!(
            long.to_string(),
            "equal_priority_hog: 5s is too long; one injection may last 500ms"
        );
        let ends = ["0ns", "999ns", "1us", "1500us", "2ms", "90s"];
        let of = [0, 999, 1_000, 1_500_000, 2_000_000, 90_000_000_000];
        assert_eq!(of.map(typed), ends);
    }
}
