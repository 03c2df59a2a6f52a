//! Instants on one clock, the trait of clocks, and a clock that tests script.
//!
//! Absent on purpose: a wall clock (it jumps).

use core::cell::Cell;
use core::time::Duration;

/// A second, in nanoseconds.
pub const SECOND_NS: u64 = 1_000_000_000;

/// An instant on `CLOCK_MONOTONIC`, in whole nanoseconds since an arbitrary start (at boot, on
/// Linux).
///
/// 64 bits hold 584 years.
///
/// ```
/// use onbeat_rt::Instant;
///
/// let release = Instant::from_ns(1_000_000);
/// let start = release.plus_ns(20_000);
/// assert_eq!(start.ns_since(release), 20_000);
/// assert_eq!(release.ns_since(start), 0, "never negative");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// Creates the instant `ns` nanoseconds after the clock's start.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Returns the nanoseconds since the clock's start.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Returns the nanoseconds from `earlier` to `self`; 0 when `earlier` is not earlier.
    #[must_use]
    pub const fn ns_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns the instant `ns` nanoseconds later.
    #[must_use]
    pub const fn plus_ns(self, ns: u64) -> Self {
        Self(self.0 + ns)
    }

    /// Returns the instant `ns` nanoseconds earlier, but not before the clock's start.
    #[must_use]
    pub const fn minus_ns(self, ns: u64) -> Self {
        Self(self.0.saturating_sub(ns))
    }
}

/// Converts a duration to whole nanoseconds, saturating at 584 years.
///
/// ```
/// use core::time::Duration;
///
/// assert_eq!(onbeat_rt::time::ns(Duration::from_micros(250)), 250_000);
/// ```
#[must_use]
pub const fn ns(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(duration.subsec_nanos() as u64)
}

/// A signal ended the sleep early; the instant it was set to is still valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

/// The clock of a loop: [`crate::sys::Monotonic`] on a robot, [`MockClock`] in a test.
///
/// ```
/// use onbeat_rt::{Clock, Instant, MockClock};
///
/// /// How late a sleep of 1 ms returns, in nanoseconds.
/// fn lateness_ns(clock: &impl Clock) -> u64 {
///     let wake_up = clock.now().plus_ns(1_000_000);
///     while clock.sleep_until(wake_up).is_err() {}
///     clock.now().ns_since(wake_up)
/// }
///
/// assert_eq!(lateness_ns(&MockClock::starting_at(Instant::from_ns(0), |_| 7_000)), 7_000);
/// ```
pub trait Clock {
    /// Returns the current instant. Never goes backwards.
    fn now(&self) -> Instant;

    /// Blocks until `wake_up` has passed; returns at once when it already has.
    ///
    /// # Errors
    /// [`Interrupted`] when a signal arrived first.
    fn sleep_until(&self, wake_up: Instant) -> Result<(), Interrupted>;

    /// Blocks for `ns` nanoseconds from the call on. Repeated relative sleeps drift: only
    /// [`Wait::Relative`](crate::Wait) uses this.
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

/// A clock for tests: it advances only when the loop sleeps, when the clock is read, or when a task
/// spends time.
///
/// `lateness_ns` is called once per sleep and returns how many nanoseconds late that sleep returns,
/// so that a test replays any schedule exactly.
///
/// ```
/// use onbeat_rt::{Clock, Instant, MockClock};
///
/// let clock = MockClock::starting_at(Instant::from_ns(0), |_| 30);
/// clock.sleep_until(Instant::from_ns(1_000)).unwrap();
/// assert_eq!(clock.now().as_ns(), 1_030);
/// ```
pub struct MockClock<L> {
    now_ns: Cell<u64>,
    ns_per_reading: u64,
    sleeps: Cell<u64>,
    relative_sleeps: Cell<u64>,
    lateness_ns: L,
}

impl<L: Fn(Instant) -> u64> MockClock<L> {
    /// Creates a clock at `start` whose sleeps return `lateness_ns(wake_up)` nanoseconds late and
    /// whose readings take no time.
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

    /// Advances the clock by `ns` at each reading, so that a polling wait ends.
    #[must_use]
    pub const fn ns_per_reading(mut self, ns: u64) -> Self {
        self.ns_per_reading = ns;
        self
    }

    /// Advances the clock by `ns` nanoseconds, as work does.
    ///
    /// ```
    /// use onbeat_rt::{Clock, Instant, MockClock};
    ///
    /// let clock = MockClock::starting_at(Instant::from_ns(0), |_| 0);
    /// clock.spend(400_000);
    /// assert_eq!(clock.now().as_ns(), 400_000);
    /// ```
    pub fn spend(&self, ns: u64) {
        self.now_ns.set(self.now_ns.get() + ns);
    }

    /// Returns the number of sleeps.
    #[must_use]
    pub fn sleeps(&self) -> u64 {
        self.sleeps.get()
    }

    /// Returns the number of relative sleeps.
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
