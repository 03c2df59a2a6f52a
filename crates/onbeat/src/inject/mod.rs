//! Causes of lateness, made on purpose and written down: when each began, how long it lasted, what shows it.
//!
//! Two things come of it: one learns what a robot does when its loop is stopped for 20 ms, and one learns whether
//! [`onbeat`](crate) finds the causes that it names, by comparing what it found with what was planted.
//!
//! | fault | made by | how |
//! |---|---|---|
//! | [`Fault::StopSignal`], [`Fault::PtraceStop`], [`Fault::ForcedMigration`] | two processes outside | signal, tracing, affinity |
//! | [`Fault::EqualPriorityHog`] and the other hogs | a thread on the loop's CPU | polls the clock |
//! | [`Fault::SoftirqFlood`], [`Fault::InterruptLoad`], [`Fault::KernelSection`], [`Fault::SpinLockSection`] | a thread on the loop's CPU | one long piece of kernel work |
//! | [`Fault::InterruptsOff`], [`Fault::TimerInterrupt`], [`Fault::SlowSoftirq`], [`Fault::SlowIpi`] | a BPF program | polls the clock in the kernel |
//! | [`Fault::IpiStorm`] | a thread on another CPU | `membarrier(2)` |
//! | [`Fault::RtThrottling`], [`Fault::FairServer`] | a real-time thread below the loop | does not sleep |
//! | [`Fault::CpuQuota`], [`Fault::CgroupFreezer`] | a cgroup around the loop's thread | quota, freezer |
//! | [`Fault::DeepIdle`] | nobody | is watched for |
//! | what a cycle does itself ([`FaultOrigin::InLoop`]) | the loop, in [`InLoop`] | |
//!
//! An injection that came too late for its release, or that cannot be told from something else, is counted as missed
//! and not logged: every entry of a log is true.
//!
//! Absent on purpose: anything that outlives the process unrecorded. Threads, affinities, policies, programs in the kernel and
//! descriptor limits go with it; what is done to another process is taken back by a guard that survives (`outside.rs`); a cgroup
//! is made under the journal of [`onbeat_tune`] (`cgroups.rs`). No other program's thread is touched but the target's.

mod actor;
mod cgroups;
mod descriptor_limit;
mod fault;
mod file_locks;
mod find;
mod hog;
mod idle;
mod in_kernel;
mod in_loop;
mod in_loop_files;
mod in_loop_waits;
mod interrupts;
mod log;
mod outside;
mod plan;
mod poll_section;
mod softirq;
mod starve;

use std::sync::Arc;

use actor::{Actor, Disturb};
use log::{Dose, LogBuffer};
use outside::Outside;

use crate::host::{Foreign, foreign, user_name};

pub use fault::{Fault, FaultOrigin, Loops, UnknownFault};
pub use in_loop::{InLoop, LoopLog};
pub use log::{Detail, Injected};
pub use plan::{InjectionPlan, InjectionPlanError, InjectionTarget, ReleaseGrid};

/// A fault could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The plan's numbers.
    #[error(transparent)]
    Plan(#[from] InjectionPlanError),
    /// Not on this machine, or not for this loop.
    #[error("{fault} is not possible here: {reason}")]
    NotPossible {
        /// The fault.
        fault: Fault,
        /// Why not, with the numbers and what would change it.
        reason: String,
    },
    /// The loop's process is somebody else's, or the kernel refuses to act on it.
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
        /// Whose it is.
        owner: u32,
        /// The real user of this process.
        user: u32,
    },
    /// The fault is made in the loop and was asked for beside it, or the other way round.
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
    /// A thread panicked: a bug.
    #[error("a thread of the injector panicked; this is a bug in onbeat, please report it with the command you typed")]
    Panicked,
}

const fn origin_words(place: FaultOrigin) -> &'static str {
    match place {
        FaultOrigin::OutsideLoop => "by threads beside the loop (Injector), not by the loop itself",
        FaultOrigin::InLoop => "by the loop itself (InLoop), not by threads beside it",
    }
}

/// What an injector did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// The disturbances that took place, oldest first.
    pub injected: Vec<Injected>,
    /// Releases that were aimed at and not hit, or hit by what may have been something else.
    pub missed: u64,
}

/// A fault at work beside a loop.
pub struct Injector {
    board: Arc<LogBuffer>,
    work: Worker,
}

enum Worker {
    Thread(Actor),
    Outside(Outside),
}

impl Injector {
    /// Gets everything ready, then begins: the first injection comes 30 ms later at the earliest.
    ///
    /// The injector ends by itself after `plan.count` injections, or when it missed more releases than that.
    ///
    /// # Errors
    /// [`Error`], before anything was done to the loop.
    pub fn start(plan: InjectionPlan) -> Result<Self, Error> {
        Self::dosed(plan, Dose::Full)
    }

    fn dosed(plan: InjectionPlan, dose: Dose) -> Result<Self, Error> {
        plan.check()?;
        check_owner(&plan)?;
        let board = Arc::new(LogBuffer::with_room_for(plan.count, plan.fault, dose));
        let disturber: Box<dyn Disturb> = match plan.fault {
            Fault::StopSignal | Fault::PtraceStop | Fault::ForcedMigration => {
                let work = Worker::Outside(Outside::start(plan, board.clone(), dose)?);
                return Ok(Self { board, work });
            }
            fault @ (Fault::EqualPriorityHog | Fault::HigherPriorityHog | Fault::OrdinaryHog) => {
                Box::new(hog::CpuHog(fault))
            }
            Fault::DeadlineHog => Box::new(hog::DeadlineHog),
            Fault::SpinLockSection => Box::new(file_locks::FileLocks::default()),
            fault @ (Fault::InterruptsOff | Fault::TimerInterrupt | Fault::SlowSoftirq | Fault::SlowIpi) => {
                Box::new(in_kernel::InKernel::new(fault))
            }
            Fault::CpuQuota => Box::new(cgroups::QuotaDisturber::default()),
            Fault::CgroupFreezer => Box::new(cgroups::FreezerDisturber::default()),
            Fault::SoftirqFlood => Box::new(softirq::SoftirqFlood::default()),
            Fault::InterruptLoad => Box::new(interrupts::TimerBurst::new()),
            Fault::IpiStorm => Box::new(interrupts::IpiStorm::default()),
            Fault::RtThrottling => Box::new(starve::ThrottleDisturber::default()),
            Fault::FairServer => Box::new(starve::FairServerDisturber::default()),
            Fault::DeepIdle => Box::new(idle::DeepIdle::new(&plan)),
            Fault::KernelSection => Box::new(poll_section::PollSection::new()),
            fault => return Err(Error::Elsewhere { fault }),
        };

        let work = Worker::Thread(Actor::start(plan, board.clone(), dose, disturber)?);
        Ok(Self { board, work })
    }

    /// What was done so far.
    #[must_use]
    pub fn log(&self) -> Log {
        Log { injected: self.board.read(), missed: self.board.missed() }
    }

    /// Whether nothing more will come.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        match &self.work {
            Worker::Thread(actor) => actor.is_finished(),
            Worker::Outside(outside) => outside.is_finished(),
        }
    }

    /// The process that does the work, for faults that are made outside.
    #[must_use]
    pub const fn actor_pid(&self) -> Option<i32> {
        match &self.work {
            Worker::Thread(_) => None,
            Worker::Outside(outside) => Some(outside.actor().as_raw_nonzero().get()),
        }
    }

    /// Ends it, after the disturbance under way, and takes back what is to be taken back.
    #[must_use]
    pub fn stop(mut self) -> Log {
        match &mut self.work {
            Worker::Thread(actor) => actor.end(),
            Worker::Outside(outside) => outside.end(),
        }
        self.log()
    }
}

/// A loop is disturbed by its owner and by root alone. Rights that a file capability gives to the program are not its user's.
fn check_owner(plan: &InjectionPlan) -> Result<(), Error> {
    let InjectionPlan { fault, target, .. } = *plan;
    match foreign(target.pid) {
        Some(Foreign { owner, user }) if fault.origin() == FaultOrigin::OutsideLoop => {
            Err(Error::NotPermitted { fault, pid: target.pid, owner, user })
        }
        _ => Ok(()),
    }
}

/// The same machinery with the same timing that does nothing: what it finds named as a cause was not planted.
///
/// # Errors
/// As [`Injector::start`].
pub fn placebo(plan: InjectionPlan) -> Result<Injector, Error> {
    Injector::dosed(plan, Dose::Placebo)
}
