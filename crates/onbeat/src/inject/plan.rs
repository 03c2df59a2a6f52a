//! The plan of an injection, and the instants that follow from it.

use onbeat_rt::Instant;

use super::error::{Error, InjectionPlanError};
use super::fault::Fault;

/// The release grid of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseGrid {
    /// `r_0`.
    pub first_release: Instant,
    /// T, in nanoseconds; at least 1.
    pub period_ns: u64,
    /// Spin margin: time from the end of the loop's sleep to the release, in nanoseconds; 0 without
    /// spinning.
    pub spin_ns: u64,
}

impl ReleaseGrid {
    /// `r_k`.
    #[must_use]
    pub const fn release(&self, k: u64) -> Instant {
        self.first_release.plus_ns(k * self.period_ns)
    }

    /// Returns the number of the first release at or after `earliest`.
    #[must_use]
    pub const fn next(&self, earliest: Instant) -> u64 {
        earliest.ns_since(self.first_release).div_ceil(self.period_ns)
    }
}

/// The loop to disturb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InjectionTarget {
    /// Process number.
    pub pid: i32,
    /// Thread number.
    pub tid: i32,
    /// The CPU it is bound to.
    pub cpu: u32,
    /// `SCHED_FIFO` or `SCHED_RR` priority; 0 for an ordinary thread.
    pub priority: u32,
}

/// A plan: which fault, how often, for how long, into which loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InjectionPlan {
    /// The fault.
    pub fault: Fault,
    /// Time from one injection to the next, in nanoseconds; at least [`Fault::least_every_ns`].
    pub every_ns: u64,
    /// Time for which the loop is delayed after the end of its sleep, in nanoseconds; at most
    /// [`Fault::longest_ns`]. The two rules of the scheduler determine their own length
    /// (docs/guide/inject.md).
    pub for_ns: u64,
    /// Number of injections.
    pub count: usize,
    /// The loop.
    pub target: InjectionTarget,
    /// Its releases.
    pub grid: ReleaseGrid,
}

/// Maximum number of injections of a plan: the capacity of a log, at 56 bytes each.
const MOST: usize = 100_000;
/// Minimum time between two injections in which the loop recovers, in nanoseconds.
const REST_NS: u64 = 15_000_000;

/// The release that an injection is timed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AimedRelease {
    /// Number of the release.
    pub(super) release: u64,
    /// End of the loop's sleep before this release.
    pub(super) wake_up: Instant,
    /// End of the injection.
    pub(super) until: Instant,
}

impl InjectionPlan {
    /// Checks the plan's numbers.
    ///
    /// # Errors
    /// The first broken rule.
    pub fn check(&self) -> Result<(), InjectionPlanError> {
        let Self { fault, every_ns, for_ns, count, .. } = *self;
        let longest_ns = fault.longest_ns();
        let least_ns = fault.least_every_ns().max(for_ns.saturating_add(REST_NS));
        if self.grid.period_ns == 0 {
            Err(InjectionPlanError::NoPeriod)
        } else if count == 0 || for_ns == 0 {
            Err(InjectionPlanError::Nothing { fault, count, for_ns })
        } else if for_ns > longest_ns {
            Err(InjectionPlanError::TooLong { fault, for_ns, longest_ns })
        } else if every_ns < least_ns {
            Err(InjectionPlanError::TooClose { fault, every_ns, least_ns })
        } else if count > MOST {
            Err(InjectionPlanError::TooMany { count, most: MOST })
        } else {
            Ok(())
        }
    }

    /// Returns the aim at the first release at or after `earliest`.
    pub(super) const fn aim(&self, earliest: Instant) -> AimedRelease {
        let release = self.grid.next(earliest);
        let wake_up = self.grid.release(release).minus_ns(self.grid.spin_ns);
        AimedRelease { release, wake_up, until: wake_up.plus_ns(self.for_ns) }
    }

    /// Returns how long before the loop's wake-up a disturbance begins, in nanoseconds: long enough
    /// for the disturber's own wake-up, at most half of the period.
    pub(super) const fn lead_ns(&self) -> u64 {
        let half = self.grid.period_ns / 2;
        if half < LEAD_NS { half } else { LEAD_NS }
    }

    /// Returns the error for a fault that is not possible here.
    pub(super) fn impossible(&self, reason: impl Into<String>) -> Error {
        Error::NotPossible { fault: self.fault, reason: reason.into() }
    }
}

/// Twenty times the usual wake-up latency of a machine without tuning.
const LEAD_NS: u64 = 400_000;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn plan(fault: Fault) -> InjectionPlan {
        InjectionPlan {
            fault,
            every_ns: 40 * MS,
            for_ns: MS,
            count: 10,
            target: InjectionTarget { pid: 1, tid: 1, cpu: 0, priority: 80 },
            grid: ReleaseGrid {
                first_release: Instant::from_ns(7 * MS),
                period_ns: 2 * MS,
                spin_ns: 50_000,
            },
        }
    }

    #[test]
    fn an_aim_is_the_end_of_the_sleep_before_the_next_release() {
        let aim = plan(Fault::KernelSection).aim(Instant::from_ns(12 * MS));
        let wake_up = Instant::from_ns(13 * MS - 50_000);
        assert_eq!(aim, AimedRelease { release: 3, wake_up, until: wake_up.plus_ns(MS) });
        assert_eq!(
            plan(Fault::KernelSection).aim(Instant::from_ns(0)).release,
            0,
            "no aim before the grid begins"
        );
    }

    #[test]
    fn injections_that_would_run_into_each_other_are_refused_with_their_numbers() {
        let close = InjectionPlan { every_ns: 19 * MS, ..plan(Fault::SoftirqFlood) };
        assert_eq!(
            close.check(),
            Err(InjectionPlanError::TooClose {
                fault: Fault::SoftirqFlood,
                every_ns: 19 * MS,
                least_ns: 20 * MS
            })
        );
        let long =
            InjectionPlan { for_ns: 100 * MS, every_ns: 110 * MS, ..plan(Fault::StopSignal) };

        assert_eq!(
            long.check(),
            Err(InjectionPlanError::TooClose {
                fault: Fault::StopSignal,
                every_ns: 110 * MS,
                least_ns: 115 * MS
            })
        );
    }

    #[test]
    fn an_unlimited_plan_is_refused() {
        let forever =
            InjectionPlan { for_ns: u64::MAX, every_ns: u64::MAX, ..plan(Fault::EqualPriorityHog) };
        assert!(matches!(forever.check(), Err(InjectionPlanError::TooLong { .. })));
        assert!(matches!(
            InjectionPlan { count: 0, ..plan(Fault::StopSignal) }.check(),
            Err(InjectionPlanError::Nothing { .. })
        ));
        assert!(matches!(
            InjectionPlan { count: 1 << 40, ..plan(Fault::StopSignal) }.check(),
            Err(InjectionPlanError::TooMany { .. })
        ));
    }

    #[test]
    fn every_fault_has_a_plan_that_it_accepts() {
        for fault in Fault::ALL {
            let fitting = InjectionPlan { every_ns: fault.least_every_ns(), ..plan(fault) };
            assert_eq!(fitting.check(), Ok(()), "{fault}");
        }
    }
}
