//! The cycle: wait for a release, run the task, record the sample, choose the next release.
//!
//! The grid `r_k = r_0 + k·T` never moves, but where a task keeps it in step with another clock ([`Cycle::steer`]). A cycle that ends late passes releases over, and each of them is accounted
//! for: `slots = cycles + skipped`, at every instant, whatever stopped the loop and for how long.
//!
//! ```text
//!   r_k            s_k            e_k        r_(k+1)
//!    |--wake-up-----|--execution---|            |
//!    |        latency|         time |            |
//!    |------- response time --------|
//! ```
//!
//! With [`Wait::Relative`] there is no grid: r_(k+1) = e_k + T, so nothing is ever passed over, and `slots = cycles`. The loop is for as
//! long as the plan's releases would take on the grid, and runs fewer cycles than that.
//!
//! Absent on purpose: catching up without a limit, moving the phase to "now" after an overrun, and any way to start a
//! thread or ask for a priority: that is cold work, `onbeat::thread`.

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::ring::Producer;
use crate::sample::{Flags, Sample};
use crate::sys::Tick;
use crate::time::{Clock, Instant};
use crate::wait::{Wait, Waiter};

/// The body that runs once per period.
pub trait Task {
    /// One cycle of work. It may ask the kernel for nothing but what the crate's front page lists.
    fn cycle(&mut self, cycle: &Cycle) -> Flow;
}

impl<F: FnMut(&Cycle) -> Flow> Task for F {
    fn cycle(&mut self, cycle: &Cycle) -> Flow {
        self(cycle)
    }
}

/// What a task wants after a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Run on.
    Continue,
    /// End the loop after this cycle.
    Stop,
}

/// What a task may know of the cycle it runs in.
#[derive(Debug)]
pub struct Cycle {
    /// `k`: the number of the release being served, from 0.
    pub index: u64,
    /// `r_k`.
    pub release: Instant,
    /// `s_k`.
    pub start: Instant,
    /// Releases passed over since the cycle before.
    pub skipped: u64,
    /// T, in nanoseconds.
    pub period_ns: u64,
    note: Cell<u32>,
    note_too: Cell<u32>,
    steered_ns: Cell<i64>,
}

impl Cycle {
    pub(crate) const fn of(index: u64, release: Instant, start: Instant, (skipped, period_ns): (u64, u64)) -> Self {
        let (note, note_too, steered_ns) = (Cell::new(0), Cell::new(0), Cell::new(0));
        Self { index, release, start, skipped, period_ns, note, note_too, steered_ns }
    }

    /// Time since the release served before this one, in nanoseconds: always a whole number of periods.
    #[must_use]
    pub const fn dt_ns(&self) -> u64 {
        (self.skipped + 1) * self.period_ns
    }

    /// Moves all later releases by so much, later for positive values: a loop that keeps time with another clock, such as the
    /// reference clock of a bus, has that clock's grid. A hundredth of the period at most.
    pub fn steer(&self, ns: i64) {
        let most = (self.period_ns / STEERED_AT_MOST) as i64;
        self.steered_ns.set(ns.clamp(-most, most));
    }

    /// Stores a figure of the task's own in this cycle's sample.
    pub fn note(&self, figure: u32) {
        self.note.set(figure);
    }

    /// Stores a second one.
    pub fn note_too(&self, figure: u32) {
        self.note_too.set(figure);
    }
}

/// A task steers by a period over this at most in each cycle: a loop never seems to hurry or to wait.
const STEERED_AT_MOST: u64 = 100;

/// What to do when a cycle ends after the next release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnOverrun {
    /// Go on at the first release not yet passed; the ones between are skipped and counted.
    SkipKeepPhase,
    /// Serve the passed releases back to back, at most this many in a row, then as above.
    CatchUp {
        /// Longest burst, in cycles.
        at_most: u32,
    },
    /// End the loop.
    Stop,
}

/// Where on the grid of the kernel's tick the releases lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// As far behind the kernel's tick as helps: a tick's interrupt that meets a release makes it late.
    AvoidTick,
    /// `r_0 mod T`, in nanoseconds.
    At(u64),
}

/// How far behind a tick a release is placed at most, in nanoseconds. A quarter of a millisecond let the tick's own
/// work pass in every measured case (docs/guide/spin-and-phase.md).
const BEHIND_TICK_NS: u64 = 250_000;
/// Grids that share less than this with the tick meet it sooner or later, whatever the phase.
const SMALLEST_COMMON_NS: u64 = 100_000;

impl Phase {
    /// The first release at or after `earliest`.
    ///
    /// Releases T apart and ticks H apart meet the same distances again every gcd(T, H); a release a quarter of that
    /// behind a tick (at most 250 µs) keeps clear of it for good. When the two share less than 100 µs no phase
    /// does, and the grid starts at a multiple of T.
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

/// When the loop runs, and how.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// T, in nanoseconds; at least 1.
    pub period_ns: u64,
    /// `r_0`.
    pub first_release: Instant,
    /// D, in nanoseconds after the release.
    pub deadline_ns: u64,
    /// How many releases the grid has; `u64::MAX` for no end. Without a grid ([`Wait::Relative`]), the loop ends when that many
    /// periods have passed.
    pub releases: u64,
    /// How to get to a release.
    pub wait: Wait,
    /// What an overrun does.
    pub on_overrun: OnOverrun,
}

/// A plan that no loop should run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// The period is 0.
    NoPeriod,
    /// The longest spin does not fit into a period.
    SpinTooLong {
        /// Longest spin, in nanoseconds.
        spin_ns: u64,
        /// T, in nanoseconds.
        period_ns: u64,
    },
    /// Work and spin together take more than nine tenths of the period: the loop would starve the kernel's threads,
    /// and be stopped for 50 ms by RT throttling or the fair server.
    TooBusy {
        /// Work per cycle, in nanoseconds.
        work_ns: u64,
        /// Longest spin, in nanoseconds.
        spin_ns: u64,
        /// T, in nanoseconds.
        period_ns: u64,
    },
}

/// Checks what a loop must keep to: a period, a spin shorter than it, and at least a tenth of the CPU left over when
/// each cycle works for `work_ns`.
///
/// # Errors
/// The first rule that is broken, with its numbers.
pub const fn admit(period_ns: u64, wait: Wait, work_ns: u64) -> Result<(), PlanError> {
    let spin_ns = wait.longest_spin_ns();
    // A relative sleep comes on top of the work.
    let from_start_to_start_ns = period_ns as u128 + if wait.is_relative() { work_ns as u128 } else { 0 };
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
    /// The task said so.
    Task,
    /// A cycle overran, and the plan says [`OnOverrun::Stop`].
    Overrun,
}

/// The loop's own account: `slots = cycles + skipped` always holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Why the loop ended.
    pub end: End,
    /// Releases that have passed, from `r_0` on.
    pub slots: u64,
    /// Cycles run.
    pub cycles: u64,
    /// Releases passed over, with those after the last cycle, which no sample can carry.
    pub skipped: u64,
    /// Of these, how many came after the last cycle.
    pub skipped_at_end: u64,
    /// `e` of the last cycle; the start of the grid when there was none.
    pub last_end: Instant,
}

/// Runs `task` on the grid of `plan` until it ends, and queues one sample per cycle on `out`.
///
/// `stop` is looked at once per cycle. The caller has locked memory and asked for a priority before, or not: the loop
/// is the same.
pub fn run<C: Clock, T: Task>(
    clock: &C,
    plan: &Plan,
    task: &mut T,
    out: &mut Producer<'_, Sample>,
    stop: &AtomicBool,
) -> Outcome {
    let mut waiter = Waiter::new(plan.wait);
    let mut grid = Grid::new(plan);
    let mut now = clock.now();
    let end = loop {
        if grid.is_over() {
            break End::Complete;
        }
        if stop.load(Ordering::Relaxed) {
            break End::Asked;
        }

        let release = grid.next_release();
        let woken = waiter.wait(clock, release, now);
        let cycle = Cycle::of(grid.next, release, woken.start, (grid.skipped_before_next, plan.period_ns));
        let flow = task.cycle(&cycle);
        now = clock.now();
        let late = grid.close(now, cycle.steered_ns.get());
        out.push(sample(&cycle, &woken, now, late));

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
pub(crate) fn sample(cycle: &Cycle, woken: &crate::wait::Woken, end: Instant, late: Flags) -> Sample {
    Sample {
        index: cycle.index,
        release: cycle.release,
        wakeup_latency_ns: woken.start.ns_since(cycle.release),
        execution_time_ns: end.ns_since(woken.start),
        sleep_latency_ns: woken.sleep_latency_ns,
        skipped: cycle.skipped,
        flags: woken.flags.with(late),
        note: cycle.note.get(),
        note_too: cycle.note_too.get(),
        spun_ns: u32::try_from(woken.spun_ns).unwrap_or(u32::MAX),
    }
}

/// The release grid's bookkeeping.
struct Grid<'p> {
    plan: &'p Plan,
    next: u64,
    skipped_before_next: u64,
    cycles: u64,
    skipped: u64,
    burst: u32,
    /// What the task has steered by, in all.
    shift_ns: i64,
    /// Where the next release lies when there is no grid.
    relative: Option<Instant>,
}

impl<'p> Grid<'p> {
    const fn new(plan: &'p Plan) -> Self {
        let relative = if plan.wait.is_relative() { Some(plan.first_release) } else { None };
        Self { plan, next: 0, skipped_before_next: 0, cycles: 0, skipped: 0, burst: 0, shift_ns: 0, relative }
    }

    /// Whether the plan's releases, or the time that they take on the grid, are over.
    #[inline]
    fn is_over(&self) -> bool {
        let lasts_ns = self.plan.releases.saturating_mul(self.plan.period_ns);
        let is_late = |release: Instant| release.ns_since(self.plan.first_release) >= lasts_ns;
        self.relative.map_or(self.next >= self.plan.releases, is_late)
    }

    #[inline]
    const fn next_release(&self) -> Instant {
        if let Some(release) = self.relative {
            return release;
        }
        let release = self.plan.first_release.plus_ns(self.next * self.plan.period_ns);
        Instant::from_ns(release.as_ns().saturating_add_signed(self.shift_ns))
    }

    /// Accounts for the cycle of release `next`, which ended at `end`, and moves to the release to serve next.
    #[inline]
    fn close(&mut self, end: Instant, steered_ns: i64) -> Flags {
        let response_ns = end.ns_since(self.next_release());
        self.shift_ns += steered_ns;
        self.cycles += 1;
        self.next += 1;
        let overrun = self.relative.is_none() && response_ns > self.plan.period_ns;
        self.relative = self.relative.map(|_| end.plus_ns(self.plan.period_ns));
        self.skipped_before_next = if overrun { self.pass_over(end) } else { 0 };

        if !overrun {
            self.burst = 0;
        }

        self.next += self.skipped_before_next;
        self.skipped += self.skipped_before_next;
        Flags::default()
            .with_if(Flags::DEADLINE_MISS, response_ns > self.plan.deadline_ns)
            .with_if(Flags::OVERRUN, overrun)
    }

    /// How many releases before `end` are not served, from `next` on.
    fn pass_over(&mut self, end: Instant) -> u64 {
        if let OnOverrun::CatchUp { at_most } = self.plan.on_overrun
            && self.burst < at_most
        {
            self.burst += 1;
            return 0;
        }

        self.burst = 0;
        // The first release not before `end`: one that falls on `end` exactly can still be served.
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
