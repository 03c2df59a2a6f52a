//! Waits until the next release.
//!
//! The loop sleeps until an absolute instant and may poll the clock for the last part (Yoon, Song
//! and Lee, *Real-Time Performance Analysis in Linux-Based Robotic Systems*, Linux Symposium 2009,
//! section 3.2, "spinning nanosleep"). It always sleeps first when there is time for it: a loop
//! that only polls starves the kernel's threads and is stopped for 50 ms by RT throttling or by the
//! fair server.
//!
//! Relative sleeps drift. [`Wait::Relative`] has one purpose: to reproduce measurements that were
//! made with them. The loop that uses this module is [`crate::cycle`].

use crate::sample::Flags;
use crate::time::{Clock, Instant};

/// How the loop waits for the next release.
///
/// ```
/// use onbeat_rt::Wait;
///
/// let wait = Wait::SleepThenSpin { margin_ns: 50_000 };
/// assert_eq!(wait.longest_spin_ns(), 50_000);
/// assert!(!wait.is_relative());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Sleep until the release. Uses the least CPU time; each cycle is late by the time a wake-up
    /// takes.
    Sleep,
    /// Sleep until `margin_ns` before the release, then poll the clock.
    SleepThenSpin {
        /// Nanoseconds; 50 000 in the paper.
        margin_ns: u64,
    },
    /// As above, with a margin that adapts to the machine: just long enough for 99.5 % of the
    /// sleeps.
    Adaptive {
        /// Upper limit of the margin, in nanoseconds. Sleeps that return later than this do not
        /// change the margin.
        cap_ns: u64,
    },
    /// Sleep for the period after each cycle's end, as Yoon, Song and Lee and Mossige, Sampath and
    /// Rao did. This wait has no grid: each release is one period after the end of the previous
    /// cycle, so the observed period is longer by execution time and wake-up latency.
    Relative {
        /// End the sleep this much earlier, then poll the clock, in nanoseconds; 0 to sleep only.
        margin_ns: u64,
    },
}

impl Wait {
    /// Returns the longest time this wait polls before a release, in nanoseconds.
    #[must_use]
    pub const fn longest_spin_ns(self) -> u64 {
        match self {
            Self::Sleep => 0,
            Self::SleepThenSpin { margin_ns } | Self::Relative { margin_ns } => margin_ns,
            Self::Adaptive { cap_ns } => cap_ns,
        }
    }

    /// Returns whether releases follow the ends of cycles instead of a grid.
    #[must_use]
    pub const fn is_relative(self) -> bool {
        matches!(self, Self::Relative { .. })
    }
}

/// Initial adaptive margin, in nanoseconds: the paper's fixed value.
const ADAPTIVE_START_NS: u64 = 50_000;
/// Distance of the margin above the observed sleep latency, in nanoseconds.
const HEADROOM_NS: u64 = 1_000;
/// Increase after a sleep that the margin did not cover, in nanoseconds.
const STEP_UP_NS: u64 = 2_000;
/// Decrease after a sleep that it covered: `STEP_UP_NS · (1 − q) / q` with q = 0.995, so that the
/// margin settles where it covers the fraction q of the sleeps (stochastic quantile tracking;
/// Robbins and Monro, 1951).
const STEP_DOWN_NS: u64 = 10;

/// The wait of one run: its kind and its current margin.
///
/// ```
/// use onbeat_rt::{Instant, MockClock, Wait, Waiter};
///
/// let clock = MockClock::starting_at(Instant::from_ns(0), |_| 8_000);
/// let release = Instant::from_ns(1_000_000);
/// let woken = Waiter::new(Wait::Sleep).wait(&clock, release, Instant::from_ns(0));
/// assert_eq!(woken.start.ns_since(release), 8_000);
/// assert_eq!(woken.spun_ns, 0);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Waiter {
    wait: Wait,
    margin_ns: u64,
}

/// Result of one wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeUp {
    /// `s_k`: the first instant after the wait, never before the release.
    pub start: Instant,
    /// Time from the instant the sleep was set to until it returned, in nanoseconds; 0 without a
    /// sleep.
    pub sleep_latency_ns: u64,
    /// Nanoseconds spent polling.
    pub spun_ns: u64,
    /// [`Flags::NO_SLEEP`], [`Flags::INTERRUPTED`] and [`Flags::RELATIVE`] when they apply.
    pub flags: Flags,
}

impl Waiter {
    /// Creates a wait with its initial margin.
    #[must_use]
    pub fn new(wait: Wait) -> Self {
        let margin_ns = match wait {
            Wait::Sleep => 0,
            Wait::SleepThenSpin { margin_ns } | Wait::Relative { margin_ns } => margin_ns,
            Wait::Adaptive { cap_ns } => ADAPTIVE_START_NS.min(cap_ns),
        };
        Self { wait, margin_ns }
    }

    /// Returns the current margin, in nanoseconds.
    #[must_use]
    pub const fn margin_ns(&self) -> u64 {
        self.margin_ns
    }

    /// Blocks until `release`: sleeps, then polls. `now` is the most recent reading of the clock.
    ///
    /// Resumes a sleep that a signal ended: the release is still valid.
    #[inline]
    pub fn wait<C: Clock>(&mut self, clock: &C, release: Instant, now: Instant) -> WakeUp {
        let wake_up = release.minus_ns(self.margin_ns);
        let slept = now < wake_up;
        let mut flags = Flags::default()
            .with_if(Flags::NO_SLEEP, !slept)
            .with_if(Flags::RELATIVE, slept && self.wait.is_relative());
        if slept {
            let mut slept = match self.wait {
                Wait::Relative { .. } => clock.sleep_for(wake_up.ns_since(now)),
                _ => clock.sleep_until(wake_up),
            };
            // The rest of an interrupted sleep is absolute: another relative one would begin late.
            while slept.is_err() {
                flags = flags.with(Flags::INTERRUPTED);
                slept = clock.sleep_until(wake_up);
            }
        }

        let woke = clock.now();
        let mut start = woke;
        while start < release {
            core::hint::spin_loop();
            start = clock.now();
        }

        let sleep_latency_ns = if slept { woke.ns_since(wake_up) } else { 0 };
        if slept && let Wait::Adaptive { cap_ns } = self.wait {
            self.adapt(sleep_latency_ns, cap_ns);
        }

        WakeUp { start, sleep_latency_ns, spun_ns: start.ns_since(woke), flags }
    }

    /// Adapts the margin to one observation. Ignoring latencies above the cap is essential: a
    /// margin that adapts to a pause of milliseconds spins for the rest of the run.
    fn adapt(&mut self, sleep_latency_ns: u64, cap_ns: u64) {
        if sleep_latency_ns > cap_ns {
            return;
        }
        self.margin_ns = if sleep_latency_ns + HEADROOM_NS > self.margin_ns {
            (self.margin_ns + STEP_UP_NS).min(cap_ns)
        } else {
            self.margin_ns - STEP_DOWN_NS.min(self.margin_ns)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::MockClock;

    const MS: u64 = 1_000_000;

    fn at(ns: u64) -> Instant {
        Instant::from_ns(ns)
    }

    #[test]
    fn a_cycle_after_a_sleep_starts_late_by_the_sleep_latency() {
        let clock = MockClock::starting_at(at(0), |_| 23_000);
        let woken = Waiter::new(Wait::Sleep).wait(&clock, at(MS), at(0));
        assert_eq!(
            (woken.start, woken.sleep_latency_ns, woken.spun_ns),
            (at(MS + 23_000), 23_000, 0)
        );
    }

    #[test]
    fn a_spin_hides_a_latency_shorter_than_its_margin() {
        let clock = MockClock::starting_at(at(0), |_| 23_000).ns_per_reading(20);
        let woken =
            Waiter::new(Wait::SleepThenSpin { margin_ns: 50_000 }).wait(&clock, at(MS), at(0));
        assert!(
            woken.start >= at(MS) && woken.start.ns_since(at(MS)) < 20,
            "within one clock reading of the release"
        );
        assert_eq!(
            woken.sleep_latency_ns, 23_020,
            "the sleep latency is recorded: the margin must cover it"
        );
        assert_eq!(clock.sleeps(), 1, "it sleeps before it polls");
    }

    #[test]
    fn a_relative_sleep_counts_from_now_and_is_late_like_any_other() {
        let clock = MockClock::starting_at(at(0), |_| 17_600);
        let woken = Waiter::new(Wait::Relative { margin_ns: 0 }).wait(&clock, at(MS), at(0));
        assert_eq!(
            (woken.start, woken.sleep_latency_ns, woken.spun_ns),
            (at(MS + 17_600), 17_600, 0)
        );
        assert_eq!((clock.relative_sleeps(), clock.sleeps()), (1, 1));
    }

    #[test]
    fn a_relative_sleep_with_a_spin_is_shorter_by_the_margin() {
        let clock = MockClock::starting_at(at(0), |_| 17_600).ns_per_reading(20);
        let woken = Waiter::new(Wait::Relative { margin_ns: 50_000 }).wait(&clock, at(MS), at(0));
        assert!(
            woken.start >= at(MS) && woken.start.ns_since(at(MS)) < 20,
            "within one clock reading"
        );
        assert_eq!((woken.sleep_latency_ns, clock.relative_sleeps()), (17_620, 1));
    }

    #[test]
    fn a_release_that_has_passed_is_served_at_once_and_marked() {
        let clock = MockClock::starting_at(at(3 * MS), |_| 0);
        let woken = Waiter::new(Wait::Sleep).wait(&clock, at(MS), at(3 * MS));
        assert_eq!((woken.start, clock.sleeps()), (at(3 * MS), 0));
        assert!(woken.flags.has(Flags::NO_SLEEP));
    }

    #[test]
    fn an_adaptive_margin_settles_just_above_the_usual_latency() {
        let mut waiter = Waiter::new(Wait::Adaptive { cap_ns: 300_000 });
        let clock = MockClock::starting_at(at(0), |_| 20_000).ns_per_reading(20);
        for k in 1..20_000 {
            waiter.wait(&clock, at(k * MS), at((k - 1) * MS));
        }
        assert!((20_000..25_000).contains(&waiter.margin_ns()), "margin {} ns", waiter.margin_ns());
    }

    #[test]
    fn an_adaptive_margin_ignores_a_pause_beyond_its_cap() {
        let mut waiter = Waiter::new(Wait::Adaptive { cap_ns: 300_000 });
        let clock = MockClock::starting_at(at(0), |_| 3_700_000);
        for k in 1..100 {
            waiter.wait(&clock, at(k * 10 * MS), at(0));
        }
        assert_eq!(waiter.margin_ns(), 50_000);
    }

    #[test]
    fn an_adaptive_margin_never_exceeds_its_cap() {
        let mut waiter = Waiter::new(Wait::Adaptive { cap_ns: 60_000 });
        let clock = MockClock::starting_at(at(0), |_| 59_999).ns_per_reading(1);
        for k in 1..1000 {
            waiter.wait(&clock, at(k * MS), at((k - 1) * MS));
        }
        assert_eq!(waiter.margin_ns(), 60_000);
    }
}
