//! The event-triggered loop: it waits for an edge of an input, sleeps for a set delay, runs the
//! task, and records the sample.
//!
//! ```text
//!   edge            picked up       r (= picked up + delay)  s              e
//!    |-- read latency --|-------- delay --------|--wake-up----|--execution---|
//!    |----------------------- edge to the end of the task -------------------|
//! ```
//!
//! The end of the delay is the release of the cycle, so a sample has the same meaning as on the
//! grid. The time from the edge to the loop is in the sample's `note`. Edges are numbered at their
//! source; edges that never reached the loop leave gaps in the numbers, and `slots = cycles +
//! skipped` holds as on the grid.
//!
//! Absent on purpose: a queue. An edge that arrives while another one is served waits in the
//! kernel's queue. When a cycle ends after the next edge was due, the overrun policy applies as on
//! the grid: the edges that arrived in between are skipped and counted, or served back to back up
//! to a limit, or the loop ends.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::cycle::{Cycle, End, Flow, OnOverrun, Outcome, Task};
use crate::ring::Producer;
use crate::sample::{Flags, Sample};
use crate::time::{Clock, Instant};
use crate::wait::{Wait, Waiter};

/// One edge of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Number of the edge, from 0, assigned at its source; numbers increase.
    pub index: u64,
    /// Instant at which the edge was made, or first seen by the kernel, on `CLOCK_MONOTONIC`.
    pub at: Instant,
}

/// Result of waiting for an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// An edge was picked up.
    Edge(Edge),
    /// No edge arrived within the source's time limit; the loop checks its stop flag and waits
    /// again.
    Nothing,
    /// The source has ended; no edge will follow.
    Over,
}

/// A source of edges.
pub trait EdgeSource {
    /// Waits for the next edge, for about 0.1 s at most.
    fn next(&mut self) -> Arrival;

    /// Returns an edge that has already arrived, without waiting.
    fn waiting(&mut self) -> Option<Edge>;
}

/// How edges are served.
#[derive(Clone, Copy, Debug)]
pub struct EdgePlan {
    /// Time from picking up an edge to the release of its cycle, in nanoseconds.
    pub delay_ns: u64,
    /// Expected distance between two edges, in nanoseconds; at least 1.
    pub period_ns: u64,
    /// D: a cycle must end within this time after its edge, in nanoseconds.
    pub deadline_ns: u64,
    /// Number of edges after which the loop ends, missed ones included; `u64::MAX` for no limit.
    pub edges: u64,
    /// How the loop waits for the end of the delay.
    pub wait: Wait,
    /// What a cycle that ends after the next edge was due does with the edges that have arrived in
    /// between.
    pub on_overrun: OnOverrun,
}

/// A loop that runs a task once per edge.
///
/// # Example
/// ```
/// use core::sync::atomic::AtomicBool;
/// use onbeat_rt::edge_loop::EdgeLoop;
/// use onbeat_rt::ring::Ring;
/// use onbeat_rt::{Arrival, Cycle, Edge, EdgePlan, EdgeSource, Flow, Instant, MockClock, OnOverrun, Slot, Wait, split};
///
/// /// Three edges, 1 ms apart.
/// struct ThreeEdges(u64);
/// impl EdgeSource for ThreeEdges {
///     fn next(&mut self) -> Arrival {
///         let index = self.0;
///         self.0 += 1;
///         if index < 3 { Arrival::Edge(Edge { index, at: Instant::from_ns(index * 1_000_000) }) } else { Arrival::Over }
///     }
///     fn waiting(&mut self) -> Option<Edge> {
///         None
///     }
/// }
///
/// let mut slots: [Slot<_>; 8] = core::array::from_fn(|_| Slot::empty());
/// let mut ring = Ring::over(&mut slots).unwrap();
/// let (mut samples, _) = split(&mut ring);
/// let plan = EdgePlan {
///     delay_ns: 200_000,
///     period_ns: 1_000_000,
///     deadline_ns: 1_000_000,
///     edges: u64::MAX,
///     wait: Wait::Sleep,
///     on_overrun: OnOverrun::SkipKeepPhase,
/// };
/// let clock = MockClock::starting_at(Instant::from_ns(0), |_| 20_000);
/// let mut task = |_: &Cycle| Flow::Continue;
/// let edge_loop = EdgeLoop { clock: &clock, plan: &plan, source: &mut ThreeEdges(0), task: &mut task };
/// let outcome = edge_loop.run(&mut samples, &AtomicBool::new(false));
/// assert_eq!((outcome.slots, outcome.cycles), (3, 3));
/// ```
#[derive(Debug)]
pub struct EdgeLoop<'l, C, E, T> {
    /// The clock that the loop reads and sleeps on.
    pub clock: &'l C,
    /// Delay, deadline and policies.
    pub plan: &'l EdgePlan,
    /// Where edges come from.
    pub source: &'l mut E,
    /// What runs once per edge.
    pub task: &'l mut T,
}

impl<C: Clock, E: EdgeSource, T: Task> EdgeLoop<'_, C, E, T> {
    /// Serves edges until the source ends, and pushes one sample per cycle to `out`. Checks `stop`
    /// once per edge, and whenever no edge arrives within the source's time limit.
    pub fn run(self, out: &mut Producer<'_, Sample>, stop: &AtomicBool) -> Outcome {
        let Self { clock, plan, source, task } = self;
        let mut waiter = Waiter::new(plan.wait);
        let mut account = EdgeAccount::default();
        let mut now = clock.now();
        let end = loop {
            if account.slots() >= plan.edges {
                break End::Complete;
            }
            if stop.load(Ordering::Relaxed) {
                break End::Asked;
            }

            let edge = match account.held.take().map_or_else(|| source.next(), Arrival::Edge) {
                Arrival::Edge(edge) if edge.index >= account.slots() => edge,
                // An edge whose number was already served is not part of this run.
                Arrival::Edge(_) | Arrival::Nothing => continue,
                Arrival::Over => break End::Complete,
            };

            let picked_up = clock.now();
            let release = picked_up.plus_ns(plan.delay_ns);
            let wake_up = waiter.wait(clock, release, picked_up);
            let skipped = account.begin(edge.index);
            let cycle = Cycle::new(edge.index, release, wake_up.start, skipped, plan.period_ns);
            cycle.note(u32::try_from(picked_up.ns_since(edge.at)).unwrap_or(u32::MAX));

            let flow = task.cycle(&cycle);
            now = clock.now();

            let since_edge_ns = now.ns_since(edge.at);
            let late = Flags::default()
                .with_if(Flags::DEADLINE_MISS, since_edge_ns > plan.deadline_ns)
                .with_if(Flags::OVERRUN, since_edge_ns > plan.period_ns);
            out.push(crate::cycle::sample(&cycle, &wake_up, now, late));

            if !account.close(late, plan.on_overrun, source, now) {
                break End::Overrun;
            }
            if flow == Flow::Stop {
                break End::Task;
            }
        };

        account.outcome(end, now)
    }
}

/// Which edges were served.
#[derive(Default)]
struct EdgeAccount {
    next: u64,
    cycles: u64,
    /// Edges from `next` to the one before this number were skipped.
    passed: u64,
    /// Consecutive cycles that caught up.
    burst: u32,
    /// An edge that arrived after the skipped ones.
    held: Option<Edge>,
}

impl EdgeAccount {
    /// Begins the cycle of an edge. Returns how many edges were missed before it.
    const fn begin(&mut self, index: u64) -> u64 {
        let skipped = index - self.next;
        self.next = index + 1;
        self.cycles += 1;
        skipped
    }

    /// Edges that have passed since the start.
    const fn slots(&self) -> u64 {
        if self.passed > self.next { self.passed } else { self.next }
    }

    /// Applies the overrun policy. Returns whether the loop continues.
    fn close(
        &mut self,
        late: Flags,
        on_overrun: OnOverrun,
        source: &mut impl EdgeSource,
        end: Instant,
    ) -> bool {
        match on_overrun {
            _ if !late.has(Flags::OVERRUN) => self.burst = 0,
            OnOverrun::Stop => return false,
            OnOverrun::CatchUp { at_most } if self.burst < at_most => self.burst += 1,
            _ => self.skip_until(source, end),
        }
        true
    }

    /// Skips the edges that arrived before `end`.
    fn skip_until(&mut self, source: &mut impl EdgeSource, end: Instant) {
        self.burst = 0;
        while let Some(edge) = source.waiting() {
            if edge.at > end {
                self.held = Some(edge);
                return;
            }
            self.passed = self.slots().max(edge.index + 1);
        }
    }

    const fn outcome(&self, end: End, last_end: Instant) -> Outcome {
        Outcome {
            end,
            slots: self.slots(),
            cycles: self.cycles,
            skipped: self.slots() - self.cycles,
            skipped_at_end: self.slots() - self.next,
            last_end,
        }
    }
}
