//! Injects faults into loops, and logs for each one its begin, its length and its evidence.
//!
//! This has two uses: to see what a robot does when its loop is stopped for 20 ms, and to check
//! that [`onbeat`](crate) names causes correctly, by comparing named causes with injected ones.
//!
//! | fault | made by | how |
//! |---|---|---|
//! | [`Fault::StopSignal`], [`Fault::PtraceStop`], [`Fault::ForcedMigration`] | two processes outside | signal, tracing, affinity |
//! | [`Fault::EqualPriorityHog`] and the other hogs | a thread on the loop's CPU | polls the clock |
//! | [`Fault::SoftirqFlood`], [`Fault::InterruptLoad`], [`Fault::KernelSection`], [`Fault::SpinLockSection`] | a thread on the loop's CPU | one long piece of kernel work |
//! | [`Fault::ThreadedInterrupt`] | a thread on the loop's CPU | a frame from one network card to another |
//! | [`Fault::InterruptsOff`], [`Fault::TimerInterrupt`], [`Fault::SlowSoftirq`], [`Fault::SlowIpi`] | a BPF program | polls the clock in the kernel |
//! | [`Fault::IpiStorm`] | a thread on another CPU | `membarrier(2)` |
//! | [`Fault::RtThrottling`], [`Fault::FairServer`] | a real-time thread below the loop | does not sleep |
//! | [`Fault::CpuQuota`], [`Fault::CgroupFreezer`] | a cgroup around the loop's thread | quota, freezer |
//! | [`Fault::DeepIdle`] | nobody | is watched for |
//! | what a cycle does itself ([`FaultOrigin::InLoop`]) | the loop, in [`InLoop`] | |
//!
//! An injection that came too late for its release, or that cannot be distinguished from something
//! else, is counted as missed and not logged: every entry of a log took place.
//!
//! Absent on purpose: unrecorded effects that outlive the process. Threads, affinities, policies,
//! BPF programs and descriptor limits end with it; changes to another process are undone by a guard
//! process (`outside.rs`); a cgroup is created under the journal of [`onbeat_tune`] (`cgroups.rs`).
//! Only the target's threads are affected.
//!
//! ```
//! use onbeat::inject::{Fault, InjectionPlan, InjectionTarget, ReleaseGrid};
//! use onbeat_rt::Instant;
//!
//! let plan = InjectionPlan {
//!     fault: Fault::StopSignal,
//!     every_ns: 500_000_000,
//!     for_ns: 20_000_000,
//!     count: 10,
//!     target: InjectionTarget { pid: 4711, tid: 4712, cpu: 1, priority: 80 },
//!     grid: ReleaseGrid { first_release: Instant::from_ns(0), period_ns: 1_000_000, spin_ns: 0 },
//! };
//! plan.check()?;
//! # Ok::<(), onbeat::inject::InjectionPlanError>(())
//! ```

mod actor;
mod cgroups;
mod descriptor_limit;
mod disturb_cycle;
mod error;
mod fault;
mod file_locks;
mod find;
mod hog;
mod idle;
mod in_kernel;
mod in_loop;
mod in_loop_files;
mod in_loop_waits;
mod injector_thread;
mod interrupts;
mod irq_thread;
mod kernel_lock;
mod log;
mod outside;
mod plan;
mod poll_section;
mod softirq;
mod starve;

use std::sync::Arc;

use actor::Disturb;
use injector_thread::InjectorThread;
use log::{Dose, LogBuffer};
use outside::Outside;

use onbeat_host::machine::{Foreign, foreign};

pub use error::{Error, InjectionPlanError};
pub use fault::{Fault, FaultOrigin, Loops, UnknownFault};
pub use in_loop::{InLoop, LoopLog};
pub use log::{Detail, Injected};
pub use plan::{InjectionPlan, InjectionTarget, ReleaseGrid};

/// The log of an injector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// The injections that took place, oldest first.
    pub injected: Vec<Injected>,
    /// Number of missed releases: too late, or possibly affected by something else.
    pub missed: u64,
}

/// A running injector of one fault into a loop.
///
/// ```no_run
/// # use onbeat::inject::InjectionPlan;
/// use onbeat::inject::Injector;
///
/// # fn inject(plan: InjectionPlan) -> Result<(), onbeat::inject::Error> {
/// let injector = Injector::start(plan)?;
/// while !injector.is_finished() {
///     std::thread::sleep(std::time::Duration::from_millis(100));
/// }
/// for injected in injector.stop().injected {
///     println!("release {}: {}", injected.release, injected.detail);
/// }
/// # Ok(())
/// # }
/// ```
pub struct Injector {
    log: Arc<LogBuffer>,
    worker: Worker,
}

enum Worker {
    Thread(InjectorThread),
    Outside(Outside),
}

impl Injector {
    /// Prepares and starts the injections. The first one comes after 30 ms at the earliest.
    ///
    /// The injector ends by itself after `plan.count` injections, or after more missed releases
    /// than that.
    ///
    /// # Errors
    /// [`Error`]; the loop was not disturbed then.
    pub fn start(plan: InjectionPlan) -> Result<Self, Error> {
        Self::with_dose(plan, Dose::Full)
    }

    fn with_dose(plan: InjectionPlan, dose: Dose) -> Result<Self, Error> {
        plan.check()?;
        check_owner(&plan)?;
        let log = Arc::new(LogBuffer::with_room_for(plan.count, plan.fault, dose));
        let disturber: Box<dyn Disturb> = match plan.fault {
            Fault::StopSignal | Fault::PtraceStop | Fault::ForcedMigration => {
                let worker = Worker::Outside(Outside::start(plan, log.clone(), dose)?);
                return Ok(Self { log, worker });
            }
            fault @ (Fault::EqualPriorityHog | Fault::HigherPriorityHog | Fault::OrdinaryHog) => {
                Box::new(hog::CpuHog(fault))
            }
            Fault::DeadlineHog => Box::new(hog::DeadlineHog),
            Fault::SpinLockSection => Box::new(file_locks::FileLocks::default()),
            fault @ (Fault::InterruptsOff
            | Fault::TimerInterrupt
            | Fault::SlowSoftirq
            | Fault::SlowIpi) => Box::new(in_kernel::InKernel::new(fault)),
            Fault::CpuQuota => Box::new(cgroups::QuotaDisturber::default()),
            Fault::CgroupFreezer => Box::new(cgroups::FreezerDisturber::default()),
            Fault::SoftirqFlood => Box::new(softirq::SoftirqFlood::default()),
            Fault::InterruptLoad => Box::new(interrupts::TimerBurst::new()),
            Fault::IpiStorm => Box::new(interrupts::IpiStorm::default()),
            Fault::RtThrottling => Box::new(starve::ThrottleDisturber::default()),
            Fault::FairServer => Box::new(starve::FairServerDisturber::default()),
            Fault::DeepIdle => Box::new(idle::DeepIdle::new(&plan)),
            Fault::KernelSection => Box::new(poll_section::PollSection::new()),
            Fault::ThreadedInterrupt => Box::new(irq_thread::InterruptThread::default()),
            fault => return Err(Error::Elsewhere { fault }),
        };

        let worker = Worker::Thread(actor::start(plan, log.clone(), dose, disturber)?);
        Ok(Self { log, worker })
    }

    /// Returns the injections so far.
    #[must_use]
    pub fn log(&self) -> Log {
        Log { injected: self.log.read(), missed: self.log.missed() }
    }

    /// Whether all injections are done.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        match &self.worker {
            Worker::Thread(actor) => actor.is_finished(),
            Worker::Outside(outside) => outside.is_finished(),
        }
    }

    /// Returns the process of the actor, for faults that are injected by a separate process.
    #[must_use]
    pub const fn actor_pid(&self) -> Option<i32> {
        match &self.worker {
            Worker::Thread(_) => None,
            Worker::Outside(outside) => Some(outside.actor().as_raw_nonzero().get()),
        }
    }

    /// Ends the injector after the current injection, undoes its changes and returns the log.
    #[must_use]
    pub fn stop(mut self) -> Log {
        match &mut self.worker {
            Worker::Thread(actor) => actor.end(),
            Worker::Outside(outside) => outside.end(),
        }
        self.log()
    }
}

/// Only its owner and root may disturb a loop. Privileges from a file capability of the program are
/// not those of its user.
fn check_owner(plan: &InjectionPlan) -> Result<(), Error> {
    let InjectionPlan { fault, target, .. } = *plan;
    match foreign(target.pid) {
        Some(Foreign { owner, user }) if fault.origin() == FaultOrigin::OutsideLoop => {
            Err(Error::NotPermitted { fault, pid: target.pid, owner, user })
        }
        _ => Ok(()),
    }
}

/// Starts an injector with the same timing that does not disturb the loop: a cause named at its log
/// entries was not injected.
///
/// # Errors
/// As [`Injector::start`].
pub fn placebo(plan: InjectionPlan) -> Result<Injector, Error> {
    Injector::with_dose(plan, Dose::Placebo)
}
