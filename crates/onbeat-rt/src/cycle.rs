//! The cycle: wait for a release, run the task, record the sample, choose the next release.
//!
//! The grid `r_k = r_0 + k·T` never moves, except where a task synchronises it with another clock
//! ([`Cycle::steer`]). A cycle that ends late skips releases, and each of them is counted: `slots =
//! cycles + skipped` holds at every instant, whatever stopped the loop and for how long.
//!
//! ```text
//!   r_k            s_k            e_k        r_(k+1)
//!    |--wake-up-----|--execution---|            |
//!    |        latency|         time |            |
//!    |------- response time --------|
//! ```
//!
//! [`Wait::Relative`] has no grid: r_(k+1) = e_k + T, so no release is ever skipped, and `slots =
//! cycles`. The loop runs for as long as the plan's releases would take on the grid, and runs fewer
//! cycles than that.
//!
//! Absent on purpose: catching up without a limit, moving the phase to "now" after an overrun, and
//! any way to start a thread or request a priority (see `onbeat::thread`).

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::ring::Producer;
use crate::sample::{Flags, Sample};
use crate::sys::Tick;
use crate::time::{Clock, Instant};
use crate::wait::{Wait, Waiter};

/// The work of one cycle.
///
/// ```
/// use onbeat_rt::{Cycle, Flow, Task};
///
/// /// Stops after a number of cycles.
/// struct Countdown(u32);
///
/// impl Task for Countdown {
///     fn cycle(&mut self, cycle: &Cycle) -> Flow {
///         cycle.note(self.0);
///         self.0 -= 1;
///         if self.0 == 0 { Flow::Stop } else { Flow::Continue }
///     }
/// }
/// ```
pub trait Task {
    /// Runs one cycle of work. Only the system calls listed on the crate's front page are allowed.
    fn cycle(&mut self, cycle: &Cycle) -> Flow;
}

impl<F: FnMut(&Cycle) -> Flow> Task for F {
    fn cycle(&mut self, cycle: &Cycle) -> Flow {
        self(cycle)
    }
}

/// Whether the loop continues after a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Continue with the next release.
    Continue,
    /// End the loop after this cycle.
    Stop,
}

/// The current cycle, as its task sees it.
#[derive(Debug)]
pub struct Cycle {
    /// `k`: number of the release being served, from 0.
    pub index: u64,
    /// `r_k`.
    pub release: Instant,
    /// `s_k`.
    pub start: Instant,
    /// Releases skipped since the previous cycle.
    pub skipped: u64,
    /// T, in nanoseconds.
    pub period_ns: u64,
    note: Cell<u32>,
    note_too: Cell<u32>,
    steered_ns: Cell<i64>,
}

impl Cycle {
    pub(crate) const fn new(
        index: u64,
        release: Instant,
        start: Instant,
        skipped: u64,
        period_ns: u64,
    ) -> Self {
        Self {
            index,
            release,
            start,
            skipped,
            period_ns,
            note: Cell::new(0),
            note_too: Cell::new(0),
            steered_ns: Cell::new(0),
        }
    }

    /// Returns the time since the previously served release, in nanoseconds: always a whole number
    /// of periods.
    #[must_use]
    pub const fn dt_ns(&self) -> u64 {
        (self.skipped + 1) * self.period_ns
    }

    /// Shifts all later releases by `ns` nanoseconds, later for positive values, so that a loop can
    /// follow another clock such as the reference clock of a bus. Limited to a hundredth of the
    /// period per cycle.
    pub fn steer(&self, ns: i64) {
        let limit_ns = (self.period_ns / STEER_DIVISOR) as i64;
        self.steered_ns.set(ns.clamp(-limit_ns, limit_ns));
    }

    /// Stores a value of the task in this cycle's sample ([`Sample::note`]).
    pub fn note(&self, figure: u32) {
        self.note.set(figure);
    }

    /// Returns the first stored value; before a task of the event-triggered loop stores its own, the
    /// time from the edge to its taking up, in nanoseconds.
    #[must_use]
    pub const fn noted(&self) -> u32 {
        self.note.get()
    }

    /// Stores a second value of the task in this cycle's sample ([`Sample::note_too`]).
    pub fn note_too(&self, figure: u32) {
        self.note_too.set(figure);
    }
}

/// A task may shift the grid by at most the period divided by this in each cycle, so that no cycle
/// is visibly shorter or longer.
const STEER_DIVISOR: u64 = 100;

/// What to do when a cycle ends after the next release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnOverrun {
    /// Continue at the first release that has not passed; skip and count the ones in between.
    SkipKeepPhase,
    /// Serve the passed releases back to back, at most `at_most` in a row, then skip as above.
    CatchUp {
        /// Longest burst, in cycles.
        at_most: u32,
    },
    /// End the loop.
    Stop,
}

/// Release phase relative to the kernel's tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Far enough behind the kernel's tick that the tick's interrupt does not delay a release.
    AvoidTick,
    /// `r_0 mod T`, in nanoseconds.
    At(u64),
}

/// Largest distance of a release behind a tick, in nanoseconds. In every measured case the work of
/// the tick was done after a quarter of a millisecond (docs/guide/spin-and-phase.md).
const BEHIND_TICK_NS: u64 = 250_000;
/// When the greatest common divisor of period and tick is below this, no phase avoids the tick.
const SMALLEST_COMMON_NS: u64 = 100_000;

impl Phase {
    /// Returns the first release at or after `earliest`.
    ///
    /// With period T and tick period H, the distances between releases and ticks repeat modulo
    /// gcd(T, H). A release a quarter of that behind a tick (at most 250 µs) never meets a tick.
    /// When gcd(T, H) is below 100 µs, no phase avoids the tick, and the grid starts at a multiple
    /// of T.
    ///
    /// ```
    /// use onbeat_rt::Instant;
    /// use onbeat_rt::cycle::Phase;
    /// use onbeat_rt::sys::Tick;
    ///
    /// let tick = Tick { every_ns: 4_000_000, offset_ns: 700_000 };
    /// let first = Phase::AvoidTick.first_release(Instant::from_ns(123_000_000), 1_000_000, tick);
    /// assert_eq!(first.as_ns() % 1_000_000, 950_000, "250 µs behind the tick");
    /// ```
    #[must_use]
    pub const fn first_release(self, earliest: Instant, period_ns: u64, tick: Tick) -> Instant {
        let common = gcd(period_ns, tick.every_ns);
        let (modulus, phase) = match self {
            Self::At(phase_ns) => (period_ns, phase_ns % period_ns),
            Self::AvoidTick if common < SMALLEST_COMMON_NS => (period_ns, 0),
            Self::AvoidTick => {
                let behind = if common / 4 < BEHIND_TICK_NS { common / 4 } else { BEHIND_TICK_NS };
                (common, (tick.offset_ns + behind) % common)
            }
        };

        let into = earliest.as_ns() % modulus;
        earliest.plus_ns((phase + modulus - into) % modulus)
    }
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// When and how the loop runs.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// T, in nanoseconds; at least 1.
    pub period_ns: u64,
    /// `r_0`.
    pub first_release: Instant,
    /// D, in nanoseconds after the release.
    pub deadline_ns: u64,
    /// Number of releases; `u64::MAX` for no limit. Without a grid ([`Wait::Relative`]), the loop
    /// ends when this many periods have passed.
    pub releases: u64,
    /// How the loop waits for a release.
    pub wait: Wait,
    /// What happens after an overrun.
    pub on_overrun: OnOverrun,
}

/// Why a plan is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// The period is 0.
    NoPeriod,
    /// The longest spin is not shorter than the period.
    SpinTooLong {
        /// Longest spin, in nanoseconds.
        spin_ns: u64,
        /// T, in nanoseconds.
        period_ns: u64,
    },
    /// Work and spin together take more than 90 % of the period: the loop would starve the kernel's
    /// threads and be stopped for 50 ms by RT throttling or the fair server.
    TooBusy {
        /// Work per cycle, in nanoseconds.
        work_ns: u64,
        /// Longest spin, in nanoseconds.
        spin_ns: u64,
        /// T, in nanoseconds.
        period_ns: u64,
    },
}

/// Checks a loop's parameters: the period is not 0, the spin is shorter than the period, and at
/// least 10 % of the CPU are left when each cycle works for `work_ns`.
///
/// # Errors
/// The first violated rule, with its numbers.
///
/// ```
/// use onbeat_rt::cycle::{PlanError, admit};
/// use onbeat_rt::Wait;
///
/// let wait = Wait::SleepThenSpin { margin_ns: 50_000 };
/// assert_eq!(admit(1_000_000, wait, 300_000), Ok(()));
/// assert!(matches!(admit(1_000_000, wait, 900_000), Err(PlanError::TooBusy { .. })));
/// ```
pub const fn admit(period_ns: u64, wait: Wait, work_ns: u64) -> Result<(), PlanError> {
    let spin_ns = wait.longest_spin_ns();
    // A relative sleep begins after the work.
    let from_start_to_start_ns =
        period_ns as u128 + if wait.is_relative() { work_ns as u128 } else { 0 };
    if period_ns == 0 {
        Err(PlanError::NoPeriod)
    } else if spin_ns >= period_ns {
        Err(PlanError::SpinTooLong { spin_ns, period_ns })
    } else if (spin_ns as u128 + work_ns as u128) * 10 > from_start_to_start_ns * 9 {
        Err(PlanError::TooBusy { work_ns, spin_ns, period_ns })
    } else {
        Ok(())
    }
}

/// Why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All releases of the plan have passed.
    Complete,
    /// The stop flag was set.
    Asked,
    /// The task returned [`Flow::Stop`].
    Task,
    /// A cycle overran, and the plan's policy is [`OnOverrun::Stop`].
    Overrun,
}

/// What the loop did: `slots = cycles + skipped` always holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Why the loop ended.
    pub end: End,
    /// Releases that have passed since `r_0`, inclusive.
    pub slots: u64,
    /// Cycles run.
    pub cycles: u64,
    /// Skipped releases, including those after the last cycle, which are in no sample.
    pub skipped: u64,
    /// Releases skipped after the last cycle.
    pub skipped_at_end: u64,
    /// `e` of the last cycle; the instant at which the loop began when no cycle ran.
    pub last_end: Instant,
}

/// Runs `task` on the grid of `plan` until it ends, and pushes one sample per cycle to `out`.
///
/// Checks `stop` once per cycle. Locked memory and a real-time priority are the caller's business;
/// the loop works without them.
///
/// ```
/// use core::sync::atomic::AtomicBool;
/// use onbeat_rt::ring::Ring;
/// use onbeat_rt::{Cycle, Flow, Instant, MockClock, OnOverrun, Plan, Slot, Wait, split};
///
/// let plan = Plan {
///     period_ns: 1_000_000,
///     first_release: Instant::from_ns(1_000_000),
///     deadline_ns: 1_000_000,
///     releases: 5,
///     wait: Wait::Sleep,
///     on_overrun: OnOverrun::SkipKeepPhase,
/// };
/// let mut slots: [Slot<_>; 8] = core::array::from_fn(|_| Slot::empty());
/// let mut ring = Ring::over(&mut slots).unwrap();
/// let (mut hot, mut cold) = split(&mut ring);
///
/// // The first cycle works for 2.5 periods: two releases pass and are counted; the phase stays.
/// let clock = MockClock::starting_at(Instant::from_ns(0), |_| 0);
/// let mut task = |cycle: &Cycle| {
///     clock.spend(if cycle.index == 0 { 2_500_000 } else { 0 });
///     Flow::Continue
/// };
/// let stop = AtomicBool::new(false);
/// let outcome = onbeat_rt::cycle::run(&clock, &plan, &mut task, &mut hot, &stop);
///
/// assert_eq!((outcome.slots, outcome.cycles, outcome.skipped), (5, 3, 2));
/// let samples = std::iter::from_fn(|| cold.pop());
/// let releases: Vec<u64> = samples.map(|sample| sample.release.as_ns() / 1_000_000).collect();
/// assert_eq!(releases, [1, 4, 5]);
/// ```
pub fn run<C: Clock, T: Task>(
    clock: &C,
    plan: &Plan,
    task: &mut T,
    out: &mut Producer<'_, Sample>,
    stop: &AtomicBool,
) -> Outcome {
    let mut waiter = Waiter::new(plan.wait);
    let mut grid = ReleaseGrid::new(plan);
    let mut now = clock.now();
    let end = loop {
        if grid.is_over() {
            break End::Complete;
        }
        if stop.load(Ordering::Relaxed) {
            break End::Asked;
        }

        let release = grid.next_release();
        let wake_up = waiter.wait(clock, release, now);
        let cycle =
            Cycle::new(grid.next, release, wake_up.start, grid.skipped_before_next, plan.period_ns);

        let flow = task.cycle(&cycle);
        now = clock.now();

        let late = grid.close(now, cycle.steered_ns.get());
        out.push(sample(&cycle, &wake_up, now, late));

        if late.has(Flags::OVERRUN) && plan.on_overrun == OnOverrun::Stop {
            break End::Overrun;
        }
        if flow == Flow::Stop {
            break End::Task;
        }
    };

    grid.outcome(end, now)
}

#[inline]
pub(crate) fn sample(
    cycle: &Cycle,
    wake_up: &crate::wait::WakeUp,
    end: Instant,
    late: Flags,
) -> Sample {
    Sample {
        index: cycle.index,
        release: cycle.release,
        wakeup_latency_ns: wake_up.start.ns_since(cycle.release),
        execution_time_ns: end.ns_since(wake_up.start),
        sleep_latency_ns: wake_up.sleep_latency_ns,
        skipped: cycle.skipped,
        flags: wake_up.flags.with(late),
        note: cycle.note.get(),
        note_too: cycle.note_too.get(),
        spun_ns: u32::try_from(wake_up.spun_ns).unwrap_or(u32::MAX),
    }
}

/// Counters of the release grid.
struct ReleaseGrid<'p> {
    plan: &'p Plan,
    next: u64,
    skipped_before_next: u64,
    cycles: u64,
    skipped: u64,
    burst: u32,
    /// Total shift by [`Cycle::steer`].
    shift_ns: i64,
    /// The next release of a loop without a grid.
    relative: Option<Instant>,
}

impl<'p> ReleaseGrid<'p> {
    const fn new(plan: &'p Plan) -> Self {
        let relative = if plan.wait.is_relative() { Some(plan.first_release) } else { None };
        Self {
            plan,
            next: 0,
            skipped_before_next: 0,
            cycles: 0,
            skipped: 0,
            burst: 0,
            shift_ns: 0,
            relative,
        }
    }

    /// Whether all releases of the plan, or the time that they take on the grid, have passed.
    #[inline]
    fn is_over(&self) -> bool {
        let duration_ns = self.plan.releases.saturating_mul(self.plan.period_ns);
        let has_ended = |release: Instant| release.ns_since(self.plan.first_release) >= duration_ns;
        self.relative.map_or(self.next >= self.plan.releases, has_ended)
    }

    #[inline]
    const fn next_release(&self) -> Instant {
        if let Some(release) = self.relative {
            return release;
        }
        let release = self.plan.first_release.plus_ns(self.next * self.plan.period_ns);
        Instant::from_ns(release.as_ns().saturating_add_signed(self.shift_ns))
    }

    /// Counts the cycle of release `next`, which ended at `end`, and advances to the next release
    /// to serve.
    #[inline]
    fn close(&mut self, end: Instant, steered_ns: i64) -> Flags {
        let response_ns = end.ns_since(self.next_release());
        self.shift_ns += steered_ns;
        self.cycles += 1;
        self.next += 1;

        let overrun = self.relative.is_none() && response_ns > self.plan.period_ns;
        self.relative = self.relative.map(|_| end.plus_ns(self.plan.period_ns));
        self.skipped_before_next = if overrun { self.releases_to_skip(end) } else { 0 };
        if !overrun {
            self.burst = 0;
        }

        self.next += self.skipped_before_next;
        self.skipped += self.skipped_before_next;
        Flags::default()
            .with_if(Flags::DEADLINE_MISS, response_ns > self.plan.deadline_ns)
            .with_if(Flags::OVERRUN, overrun)
    }

    /// Returns how many releases from `next` on, before `end`, are skipped.
    fn releases_to_skip(&mut self, end: Instant) -> u64 {
        if let OnOverrun::CatchUp { at_most } = self.plan.on_overrun
            && self.burst < at_most
        {
            self.burst += 1;
            return 0;
        }

        self.burst = 0;
        // A release that falls exactly on `end` can still be served.
        let passed = end.ns_since(self.next_release()).div_ceil(self.plan.period_ns);
        passed.min(self.plan.releases - self.next)
    }

    const fn outcome(&self, end: End, last_end: Instant) -> Outcome {
        Outcome {
            end,
            slots: self.next,
            cycles: self.cycles,
            skipped: self.skipped,
            skipped_at_end: self.skipped_before_next,
            last_end,
        }
    }
}
