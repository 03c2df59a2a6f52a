//! Waits until the next release.
//!
//! The loop sleeps to an absolute instant and may poll the clock for the last part (Yoon, Song and Lee, *Real-Time
//! Performance Analysis in Linux-Based Robotic Systems*, Linux Symposium 2009, section 3.2, "spinning nanosleep").
//! It always sleeps first when there is time for it: a loop that only polls starves the kernel's own threads, and is
//! stopped for 50 ms by RT throttling or by the fair server.
//!
//! Relative sleeps drift, and [`Wait::Relative`] is for one purpose: to repeat measurements that were made with them. The loop
//! that uses this is [`crate::cycle`].

use crate::sample::Flags;
use crate::time::{Clock, Instant};

/// How the loop gets from the end of one cycle to the next release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Sleep until the release. Costs the least; late by the time a wake-up takes.
    Sleep,
    /// Sleep until `margin_ns` before the release, then poll the clock.
    SleepThenSpin {
        /// Nanoseconds; 50 000 in the paper.
        margin_ns: u64,
    },
    /// As above with a margin that follows the machine: just long enough for 99.5 % of the sleeps.
    Adaptive {
        /// The longest margin, in nanoseconds. Later sleeps than this are no wake-up cost and are not learnt from.
        cap_ns: u64,
    },
    /// Sleep for the period after each cycle's end, as Yoon, Song and Lee and Mossige, Sampath and Rao did. There is no grid then: each
    /// release lies one period behind the end of the cycle before, and the loop is as much slower than its period as cycles
    /// and wake-ups take.
    Relative {
        /// Sleep for this much less, then poll the clock, in nanoseconds; 0 for a sleep alone.
        margin_ns: u64,
    },
}

impl Wait {
    /// The longest time this wait polls before a release, in nanoseconds.
    #[must_use]
    pub const fn longest_spin_ns(self) -> u64 {
        match self {
            Self::Sleep => 0,
            Self::SleepThenSpin { margin_ns } | Self::Relative { margin_ns } => margin_ns,
            Self::Adaptive { cap_ns } => cap_ns,
        }
    }

    /// Whether releases follow the ends of cycles instead of a grid.
    #[must_use]
    pub const fn is_relative(self) -> bool {
        matches!(self, Self::Relative { .. })
    }
}

/// Where an adaptive margin starts, in nanoseconds: the paper's fixed value.
const ADAPTIVE_START_NS: u64 = 50_000;
/// How far above the observed sleep latency the margin is held, in nanoseconds.
const HEADROOM_NS: u64 = 1_000;
/// The step up after a sleep that the margin did not cover, in nanoseconds.
const STEP_UP_NS: u64 = 2_000;
/// The step down after one that it did: `STEP_UP_NS · (1 − q) / q` with q = 0.995, so that the margin comes to rest
/// where it covers the fraction q of the sleeps (stochastic quantile tracking; Robbins and Monro, 1951).
const STEP_DOWN_NS: u64 = 10;

/// A wait in progress through a run: the choice, and the margin it has come to.
#[derive(Clone, Copy, Debug)]
pub struct Waiter {
    wait: Wait,
    margin_ns: u64,
}

/// The end of one wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Woken {
    /// `s_k`: the first instant after the wait, never before the release.
    pub start: Instant,
    /// How late the sleep returned, in nanoseconds after the instant it was set to; 0 when there was no sleep.
    pub sleep_latency_ns: u64,
    /// Nanoseconds spent polling.
    pub spun_ns: u64,
    /// [`Flags::NO_SLEEP`], [`Flags::INTERRUPTED`] and [`Flags::RELATIVE`] when they apply.
    pub flags: Flags,
}

impl Waiter {
    /// A wait that has seen nothing yet.
    #[must_use]
    pub fn new(wait: Wait) -> Self {
        let margin_ns = match wait {
            Wait::Sleep => 0,
            Wait::SleepThenSpin { margin_ns } | Wait::Relative { margin_ns } => margin_ns,
            Wait::Adaptive { cap_ns } => ADAPTIVE_START_NS.min(cap_ns),
        };
        Self { wait, margin_ns }
    }

    /// The present margin, in nanoseconds.
    #[must_use]
    pub const fn margin_ns(&self) -> u64 {
        self.margin_ns
    }

    /// Sleeps, then polls, until `release`; `now` is the instant seen last.
    ///
    /// A sleep that a signal ended is taken up again: the release is still valid.
    #[inline]
    pub fn wait<C: Clock>(&mut self, clock: &C, release: Instant, now: Instant) -> Woken {
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
            // What is left of an interrupted sleep ends at its instant: another relative one would begin late.
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
            self.learn(sleep_latency_ns, cap_ns);
        }

        Woken { start, sleep_latency_ns, spun_ns: start.ns_since(woke), flags }
    }

    /// Moves the margin by one observation. Clipping at the cap is the essential part: a margin that learns from a
    /// host's pause of milliseconds spins for the rest of the run.
    fn learn(&mut self, sleep_latency_ns: u64, cap_ns: u64) {
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
    fn a_sleep_starts_late_by_the_sleeps_own_latency() {
        let clock = MockClock::starting_at(at(0), |_| 23_000);
        let woken = Waiter::new(Wait::Sleep).wait(&clock, at(MS), at(0));
        assert_eq!((woken.start, woken.sleep_latency_ns, woken.spun_ns), (at(MS + 23_000), 23_000, 0));
    }

    #[test]
    fn a_spin_hides_a_latency_shorter_than_its_margin() {
        let clock = MockClock::starting_at(at(0), |_| 23_000).ns_per_reading(20);
        let woken = Waiter::new(Wait::SleepThenSpin { margin_ns: 50_000 }).wait(&clock, at(MS), at(0));
        assert!(woken.start >= at(MS) && woken.start.ns_since(at(MS)) < 20, "within one clock reading of the release");
        assert_eq!(woken.sleep_latency_ns, 23_020, "the sleep's own latency is kept: it is what the margin must cover");
        assert_eq!(clock.sleeps(), 1, "it really sleeps before it polls");
    }

    #[test]
    fn a_relative_sleep_lasts_from_now_and_is_late_like_any_other() {
        let clock = MockClock::starting_at(at(0), |_| 17_600);
        let woken = Waiter::new(Wait::Relative { margin_ns: 0 }).wait(&clock, at(MS), at(0));
        assert_eq!((woken.start, woken.sleep_latency_ns, woken.spun_ns), (at(MS + 17_600), 17_600, 0));
        assert_eq!((clock.relative_sleeps(), clock.sleeps()), (1, 1));
    }

    #[test]
    fn a_relative_sleep_that_spins_is_shorter_by_the_margin() {
        let clock = MockClock::starting_at(at(0), |_| 17_600).ns_per_reading(20);
        let woken = Waiter::new(Wait::Relative { margin_ns: 50_000 }).wait(&clock, at(MS), at(0));
        assert!(woken.start >= at(MS) && woken.start.ns_since(at(MS)) < 20, "within one clock reading");
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
    fn an_adaptive_margin_comes_to_rest_just_above_the_usual_latency() {
        let mut waiter = Waiter::new(Wait::Adaptive { cap_ns: 300_000 });
        let clock = MockClock::starting_at(at(0), |_| 20_000).ns_per_reading(20);
        for k in 1..20_000 {
            waiter.wait(&clock, at(k * MS), at((k - 1) * MS));
        }
        assert!((20_000..25_000).contains(&waiter.margin_ns()), "margin {} ns", waiter.margin_ns());
    }

    #[test]
    fn an_adaptive_margin_learns_nothing_from_a_pause_beyond_its_cap() {
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
