//! The event-triggered loop on a scripted clock: every value is exact.
#![allow(clippy::unwrap_used, missing_docs)]

use std::cell::Cell;
use std::sync::atomic::AtomicBool;

use onbeat_rt::edge_loop::{Arrival, Edge, EdgeLoop, EdgePlan, EdgeSource};
use onbeat_rt::ring::Ring;
use onbeat_rt::{
    Clock, Cycle, End, Flags, Flow, Instant, MockClock, OnOverrun, Outcome, Sample, Slot, Wait,
    split,
};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const TWO_MS: EdgePlan = EdgePlan {
    delay_ns: 200 * US,
    period_ns: 2 * MS,
    deadline_ns: 2 * MS,
    edges: u64::MAX,
    wait: Wait::Sleep,
    on_overrun: OnOverrun::SkipKeepPhase,
};

/// Edges at fixed instants, each picked up `read_ns` later, or at once when the clock is past that.
struct Script<'c, L: Fn(Instant) -> u64> {
    clock: &'c MockClock<L>,
    edges: Vec<Edge>,
    read_ns: u64,
    given: Cell<usize>,
    nothings: u64,
}

impl<L: Fn(Instant) -> u64> EdgeSource for Script<'_, L> {
    fn next(&mut self) -> Arrival {
        if self.nothings > 0 {
            self.nothings -= 1;
            return Arrival::Nothing;
        }

        let Some(edge) = self.edges.get(self.given.replace(self.given.get() + 1)) else {
            return Arrival::Over;
        };
        let due = edge.at.plus_ns(self.read_ns);
        let now = self.clock.now();
        self.clock.spend(due.ns_since(now));
        Arrival::Edge(*edge)
    }

    fn waiting(&mut self) -> Option<Edge> {
        let edge = *self.edges.get(self.given.get())?;
        let has_arrived = edge.at <= self.clock.now();
        has_arrived.then(|| {
            self.given.set(self.given.get() + 1);
            edge
        })
    }
}

const fn edge(index: u64, at_us: u64) -> Edge {
    Edge { index, at: Instant::from_ns(at_us * US) }
}

fn served(plan: EdgePlan, edges: Vec<Edge>, late_ns: u64, write_ns: u64) -> (Outcome, Vec<Sample>) {
    let clock = MockClock::starting_at(Instant::from_ns(0), move |_| late_ns);
    let mut script =
        Script { clock: &clock, edges, read_ns: 30 * US, given: Cell::new(0), nothings: 3 };
    let mut write = |_: &Cycle| {
        clock.spend(write_ns);
        Flow::Continue
    };

    let mut slots: Vec<Slot<Sample>> = (0..64).map(|_| Slot::empty()).collect();
    let mut ring = Ring::over(&mut slots).unwrap();
    let (mut hot, mut cold) = split(&mut ring);
    let edge_loop = EdgeLoop { clock: &clock, plan: &plan, source: &mut script, task: &mut write };
    let outcome = edge_loop.run(&mut hot, &AtomicBool::new(false));
    (outcome, std::iter::from_fn(|| cold.pop()).collect())
}

#[test]
fn a_sample_separates_read_latency_wake_up_and_write() {
    let (outcome, samples) = served(TWO_MS, vec![edge(0, 1_000), edge(1, 3_000)], 7 * US, 5 * US);
    assert_eq!(
        (outcome.slots, outcome.cycles, outcome.skipped, outcome.end),
        (2, 2, 0, End::Complete)
    );
    for (sample, at_us) in samples.iter().zip([1_000, 3_000]) {
        assert_eq!(u64::from(sample.note), 30 * US, "edge to pick-up");
        assert_eq!(
            sample.release,
            Instant::from_ns((at_us + 30 + 200) * US),
            "pick-up plus the delay"
        );
        assert_eq!((sample.wakeup_latency_ns, sample.execution_time_ns), (7 * US, 5 * US));
    }
}

#[test]
fn missing_edges_are_counted_before_the_next_one_that_arrives() {
    let (outcome, samples) =
        served(TWO_MS, vec![edge(0, 1_000), edge(3, 7_000), edge(4, 9_000)], 0, 0);
    assert_eq!((outcome.slots, outcome.cycles, outcome.skipped), (5, 3, 2));
    assert_eq!(
        samples.iter().map(|sample| (sample.index, sample.skipped)).collect::<Vec<_>>(),
        [(0, 0), (3, 2), (4, 0)]
    );
}

#[test]
fn an_edge_that_waited_for_the_previous_one_is_late_by_that() {
    // The second edge comes 100 us after the first, during the delay of 200 us.
    let (_, samples) = served(TWO_MS, vec![edge(0, 1_000), edge(1, 1_100)], 0, 10 * US);
    let picked_up_us = 1_000 + 30 + 200 + 10;
    assert_eq!(u64::from(samples[1].note), (picked_up_us - 1_100) * US);
}

#[test]
fn deadline_and_period_count_from_the_edge() {
    let tight = EdgePlan { deadline_ns: 230 * US, period_ns: 240 * US, ..TWO_MS };
    for (late_us, missed, overran) in [(0, false, false), (5, true, false), (11, true, true)] {
        let (_, samples) = served(tight, vec![edge(0, 1_000)], late_us * US, 0);
        let flags = samples[0].flags;
        assert_eq!(
            (flags.has(Flags::DEADLINE_MISS), flags.has(Flags::OVERRUN)),
            (missed, overran),
            "{late_us} us"
        );
    }
}

#[test]
fn an_edge_number_that_was_already_served_is_ignored() {
    let (outcome, samples) =
        served(TWO_MS, vec![edge(0, 1_000), edge(0, 3_000), edge(1, 5_000)], 0, 0);
    assert_eq!((outcome.slots, outcome.cycles, samples.len()), (2, 2, 2));
}

#[test]
fn the_loop_ends_after_the_planned_number_of_edges_including_missed_ones() {
    let three = EdgePlan { edges: 3, ..TWO_MS };
    let (outcome, _) = served(three, vec![edge(0, 1_000), edge(2, 5_000), edge(3, 7_000)], 0, 0);
    assert_eq!(
        (outcome.slots, outcome.cycles, outcome.skipped, outcome.end),
        (3, 2, 1, End::Complete)
    );
}

/// Edges every two milliseconds; serving number `slow` takes 7 ms.
fn overrun_at(slow: u64, on_overrun: OnOverrun, edges: u64) -> (Outcome, Vec<Sample>) {
    let clock = MockClock::starting_at(Instant::from_ns(0), |_| 0);
    let all = (0..edges).map(|index| edge(index, (index + 1) * 2_000)).collect();
    let mut script =
        Script { clock: &clock, edges: all, read_ns: 30 * US, given: Cell::new(0), nothings: 0 };
    let mut write = |cycle: &Cycle| {
        clock.spend(if cycle.index == slow { 7 * MS } else { 10 * US });
        Flow::Continue
    };

    let mut slots: Vec<Slot<Sample>> = (0..64).map(|_| Slot::empty()).collect();
    let mut ring = Ring::over(&mut slots).unwrap();
    let (mut hot, mut cold) = split(&mut ring);
    let plan = EdgePlan { on_overrun, ..TWO_MS };
    let edge_loop = EdgeLoop { clock: &clock, plan: &plan, source: &mut script, task: &mut write };
    let outcome = edge_loop.run(&mut hot, &AtomicBool::new(false));
    (outcome, std::iter::from_fn(|| cold.pop()).collect())
}

fn indices(samples: &[Sample]) -> Vec<u64> {
    samples.iter().map(|sample| sample.index).collect()
}

#[test]
fn an_overrun_skips_and_counts_the_edges_that_arrived_in_between() {
    // Edge 1 arrives at 4 ms and is done at 11.23 ms: 2, 3 and 4 (6, 8 and 10 ms) have arrived by
    // then.
    let (outcome, samples) = overrun_at(1, OnOverrun::SkipKeepPhase, 8);
    assert_eq!(indices(&samples), [0, 1, 5, 6, 7]);
    assert_eq!(
        (samples[2].skipped, u64::from(samples[2].note)),
        (3, 30 * US),
        "edge 5 is not late by edge 1"
    );
    assert_eq!(
        (outcome.slots, outcome.cycles, outcome.skipped, outcome.skipped_at_end),
        (8, 5, 3, 0)
    );
}

#[test]
fn catching_up_serves_edges_back_to_back_up_to_the_limit() {
    // 2 is served at once and ends after 3 was due, which uses up the limit of one: 3 and 4 are
    // skipped.
    let (outcome, samples) = overrun_at(1, OnOverrun::CatchUp { at_most: 1 }, 8);
    assert_eq!(indices(&samples), [0, 1, 2, 5, 6, 7]);
    let (all, caught_up) = overrun_at(1, OnOverrun::CatchUp { at_most: 9 }, 8);
    assert_eq!((indices(&caught_up), all.skipped), ((0..8).collect(), 0));
    assert_eq!((outcome.slots, outcome.cycles, outcome.skipped), (8, 6, 2));
}

#[test]
fn a_loop_with_policy_stop_serves_nothing_after_an_overrun() {
    let (outcome, samples) = overrun_at(1, OnOverrun::Stop, 8);
    assert_eq!((indices(&samples), outcome.end, outcome.slots), (vec![0, 1], End::Overrun, 2));
}

#[test]
fn edges_skipped_after_the_last_cycle_are_counted_too() {
    let (outcome, samples) = overrun_at(1, OnOverrun::SkipKeepPhase, 4);
    assert_eq!(indices(&samples), [0, 1]);
    assert_eq!(
        (outcome.slots, outcome.cycles, outcome.skipped, outcome.skipped_at_end),
        (4, 2, 2, 2)
    );
}

#[test]
fn an_edge_that_arrives_while_others_are_skipped_is_served() {
    /// Returns an edge of the future from `waiting`.
    struct Eager(Vec<Edge>);
    impl EdgeSource for Eager {
        fn next(&mut self) -> Arrival {
            if self.0.is_empty() { Arrival::Over } else { Arrival::Edge(self.0.remove(0)) }
        }

        fn waiting(&mut self) -> Option<Edge> {
            (!self.0.is_empty()).then(|| self.0.remove(0))
        }
    }
    let clock = MockClock::starting_at(Instant::from_ns(0), |_| 0);
    let mut write = |_: &Cycle| {
        clock.spend(5 * MS);
        Flow::Continue
    };

    let mut slots: Vec<Slot<Sample>> = (0..64).map(|_| Slot::empty()).collect();
    let mut ring = Ring::over(&mut slots).unwrap();
    let (mut hot, mut cold) = split(&mut ring);
    // The cycle of 0 ends at 5.2 ms: 1 has arrived, 2 arrives just after.
    let mut edges = Eager(vec![edge(0, 0), edge(1, 2_000), edge(2, 5_201)]);
    let edge_loop = EdgeLoop { clock: &clock, plan: &TWO_MS, source: &mut edges, task: &mut write };
    let outcome = edge_loop.run(&mut hot, &AtomicBool::new(false));
    let samples: Vec<Sample> = std::iter::from_fn(|| cold.pop()).collect();

    assert_eq!((indices(&samples), outcome.skipped, outcome.slots), (vec![0, 2], 1, 3));
}
