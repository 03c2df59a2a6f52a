//! The loop that answers: an edge arrives, the loop takes it up, sleeps a set delay, runs the task, records the sample.
//!
//! ```text
//!   edge           taken up        r (= taken up + delay)   s              e
//!    |-- read latency --|-------- delay --------|--wake-up----|--execution---|
//!    |----------------------- edge to the end of the task -------------------|
//! ```
//!
//! The delay's end is the cycle's release, so that a sample says of it what it says of every other release. The way from
//! the edge to the loop stands in the sample's `note`. Edges are numbered where they are made; those that never reached
//! the loop leave gaps, and `slots = cycles + skipped` holds as on the grid.
//!
//! Absent on purpose: a queue. An edge that comes while another one is being answered waits in the kernel's. When an answer ends after
//! the next edge was due, the overrun policy says what becomes of those that have come meanwhile, as it does on the grid: they are
//! passed over and counted, or answered back to back within a bound, or the loop ends.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::cycle::{Cycle, End, Flow, OnOverrun, Outcome, Task};
use crate::ring::Producer;
use crate::sample::{Flags, Sample};
use crate::time::{Clock, Instant};
use crate::wait::{Wait, Waiter};

/// One edge of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Its number, from 0, counted where it was made or first seen; later ones have larger numbers.
    pub index: u64,
    /// When it was made, or first seen by the kernel, on `CLOCK_MONOTONIC`.
    pub at: Instant,
}

/// What a look for an edge came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// An edge was taken up.
    Edge(Edge),
    /// None came for a while; whoever waits may look whether it shall stop.
    Nothing,
    /// None will come any more.
    Over,
}

/// Where edges come from.
pub trait Edges {
    /// Waits for the next edge, a tenth of a second or so at most.
    fn next(&mut self) -> Arrival;

    /// Takes an edge that has come already, without waiting for one.
    fn waiting(&mut self) -> Option<Edge>;
}

/// How edges are answered.
#[derive(Clone, Copy, Debug)]
pub struct Answers {
    /// From taking an edge up to the release of its answer, in nanoseconds.
    pub delay_ns: u64,
    /// The distance at which edges are expected, in nanoseconds; at least 1.
    pub period_ns: u64,
    /// D: the answer's end is due so long after the edge, in nanoseconds.
    pub deadline_ns: u64,
    /// How many edges there are to be, with those that are missed; `u64::MAX` for no end.
    pub edges: u64,
    /// How to get through the delay.
    pub wait: Wait,
    /// What an answer that ends after the next edge was due does with the edges that have come meanwhile.
    pub on_overrun: OnOverrun,
}

/// Answers edges until they end, and queues one sample per answer on `out`. `stop` is looked at once per edge, and
/// whenever none comes for a while.
pub fn run<C: Clock, E: Edges, T: Task>(
    clock: &C,
    answers: &Answers,
    (edges, task): (&mut E, &mut T),
    out: &mut Producer<'_, Sample>,
    stop: &AtomicBool,
) -> Outcome {
    let mut waiter = Waiter::new(answers.wait);
    let mut account = Account::default();
    let mut now = clock.now();
    let end = loop {
        if account.slots() >= answers.edges {
            break End::Complete;
        }
        if stop.load(Ordering::Relaxed) {
            break End::Asked;
        }

        let edge = match account.held.take().map_or_else(|| edges.next(), Arrival::Edge) {
            Arrival::Edge(edge) if edge.index >= account.slots() => edge,
            // A number that has been served already is no edge of this run.
            Arrival::Edge(_) | Arrival::Nothing => continue,
            Arrival::Over => break End::Complete,
        };

        let taken_up = clock.now();
        let release = taken_up.plus_ns(answers.delay_ns);
        let woken = waiter.wait(clock, release, taken_up);
        let skipped = account.take(edge.index);
        let cycle = Cycle::of(edge.index, release, woken.start, (skipped, answers.period_ns));
        cycle.note(u32::try_from(taken_up.ns_since(edge.at)).unwrap_or(u32::MAX));
        let flow = task.cycle(&cycle);
        now = clock.now();
        let taken_ns = now.ns_since(edge.at);
        let late = Flags::default()
            .with_if(Flags::DEADLINE_MISS, taken_ns > answers.deadline_ns)
            .with_if(Flags::OVERRUN, taken_ns > answers.period_ns);
        out.push(crate::cycle::sample(&cycle, &woken, now, late));

        if !account.close(late, answers.on_overrun, edges, now) {
            break End::Overrun;
        }
        if flow == Flow::Stop {
            break End::Task;
        }
    };

    account.outcome(end, now)
}

/// Which edges were answered.
#[derive(Default)]
struct Account {
    next: u64,
    cycles: u64,
    /// Edges before this one were passed over, from `next` on.
    passed: u64,
    /// Answers in a row that caught up.
    burst: u32,
    /// An edge that came after the ones that were passed over.
    held: Option<Edge>,
}

impl Account {
    /// Takes an edge up and tells how many were missed before it.
    const fn take(&mut self, index: u64) -> u64 {
        let skipped = index - self.next;
        self.next = index + 1;
        self.cycles += 1;
        skipped
    }

    /// Edges that have passed, from the first on.
    const fn slots(&self) -> u64 {
        if self.passed > self.next { self.passed } else { self.next }
    }

    /// Does what an overrun asks for; whether the loop goes on.
    fn close(&mut self, late: Flags, on_overrun: OnOverrun, edges: &mut impl Edges, end: Instant) -> bool {
        match on_overrun {
            _ if !late.has(Flags::OVERRUN) => self.burst = 0,
            OnOverrun::Stop => return false,
            OnOverrun::CatchUp { at_most } if self.burst < at_most => self.burst += 1,
            _ => self.pass_over(edges, end),
        }
        true
    }

    /// Takes the edges that came before `end`, and answers none of them.
    fn pass_over(&mut self, edges: &mut impl Edges, end: Instant) {
        self.burst = 0;
        while let Some(edge) = edges.waiting() {
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
