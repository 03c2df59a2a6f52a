//! Instants on one clock, and a clock that tests can script.
//!
//! Absent on purpose: a wall clock (it jumps).

use core::cell::Cell;
use core::time::Duration;

/// An instant on `CLOCK_MONOTONIC`, in whole nanoseconds since an arbitrary start (at boot, on Linux).
///
/// 64 bits hold 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The instant `ns` nanoseconds after the clock's start.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the clock's start.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Nanoseconds from `earlier` to `self`; 0 when `earlier` is not earlier.
    #[must_use]
    pub const fn ns_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The instant `ns` nanoseconds later.
    #[must_use]
    pub const fn plus_ns(self, ns: u64) -> Self {
        Self(self.0 + ns)
    }

    /// The instant `ns` nanoseconds earlier; the clock's start when that would be before it.
    #[must_use]
    pub const fn minus_ns(self, ns: u64) -> Self {
        Self(self.0.saturating_sub(ns))
    }
}

/// Whole nanoseconds of a duration, saturating at 584 years.
#[must_use]
pub const fn ns(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(duration.subsec_nanos() as u64)
}

/// A signal ended the sleep early; the release it was for is still valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

/// Where the loop takes its time from: [`crate::sys::Monotonic`] on a robot, [`MockClock`] in a test.
pub trait Clock {
    /// The present instant. Never goes backwards.
    fn now(&self) -> Instant;

    /// Sleeps until `wake_up` has passed; returns at once when it has already.
    ///
    /// # Errors
    /// [`Interrupted`] when a signal arrived first.
    fn sleep_until(&self, wake_up: Instant) -> Result<(), Interrupted>;

    /// Sleeps for `ns` nanoseconds from the call on. Repeated, it drifts: only [`Wait::Relative`](crate::Wait) uses it.
    ///
    /// # Errors
    /// [`Interrupted`] when a signal arrived first.
    fn sleep_for(&self, ns: u64) -> Result<(), Interrupted>;
}

impl<C: Clock> Clock for &C {
    fn now(&self) -> Instant {
        (**self).now()
    }

    fn sleep_until(&self, wake_up: Instant) -> Result<(), Interrupted> {
        (**self).sleep_until(wake_up)
    }

    fn sleep_for(&self, ns: u64) -> Result<(), Interrupted> {
        (**self).sleep_for(ns)
    }
}

/// A clock without a kernel: it moves only when the loop sleeps, when the clock is read, or when a task spends time.
///
/// `lateness` is asked once per sleep and answers how many nanoseconds late that sleep returns, so that a test
/// can replay any schedule exactly.
pub struct MockClock<L> {
    now_ns: Cell<u64>,
    ns_per_reading: u64,
    sleeps: Cell<u64>,
    relative_sleeps: Cell<u64>,
    lateness_ns: L,
}

impl<L: Fn(Instant) -> u64> MockClock<L> {
    /// A clock that stands at `start`, whose sleeps return `lateness_ns(wake_up)` after the instant asked for, and
    /// whose readings cost nothing.
    #[must_use]
    pub const fn starting_at(start: Instant, lateness_ns: L) -> Self {
        Self {
            now_ns: Cell::new(start.as_ns()),
            ns_per_reading: 0,
            sleeps: Cell::new(0),
            relative_sleeps: Cell::new(0),
            lateness_ns,
        }
    }

    /// The same clock, moving by `ns` at each reading, so that a polling wait comes to its end.
    #[must_use]
    pub const fn ns_per_reading(mut self, ns: u64) -> Self {
        self.ns_per_reading = ns;
        self
    }

    /// Lets `ns` nanoseconds pass, as work would.
    pub fn spend(&self, ns: u64) {
        self.now_ns.set(self.now_ns.get() + ns);
    }

    /// How many times the clock was slept on.
    #[must_use]
    pub fn sleeps(&self) -> u64 {
        self.sleeps.get()
    }

    /// How many of these sleeps were for a length of time, not until an instant.
    #[must_use]
    pub fn relative_sleeps(&self) -> u64 {
        self.relative_sleeps.get()
    }
}

impl<L: Fn(Instant) -> u64> Clock for MockClock<L> {
    fn now(&self) -> Instant {
        self.spend(self.ns_per_reading);
        Instant::from_ns(self.now_ns.get())
    }

    fn sleep_until(&self, wake_up: Instant) -> Result<(), Interrupted> {
        self.sleeps.set(self.sleeps.get() + 1);
        if wake_up.as_ns() > self.now_ns.get() {
            self.now_ns.set(wake_up.as_ns() + (self.lateness_ns)(wake_up));
        }
        Ok(())
    }

    fn sleep_for(&self, ns: u64) -> Result<(), Interrupted> {
        self.relative_sleeps.set(self.relative_sleeps.get() + 1);
        self.sleep_until(Instant::from_ns(self.now_ns.get() + ns))
    }
}
