//! The loop that answers edges, on a clock without a kernel: every figure is exact.
#![allow(clippy::unwrap_used, missing_docs)]

use std::cell::Cell;
use std::sync::atomic::AtomicBool;

use onbeat_rt::answer::{self, Answers, Arrival, Edge, Edges};
use onbeat_rt::ring::Ring;
use onbeat_rt::{Clock, Cycle, End, Flags, Flow, Instant, MockClock, OnOverrun, Outcome, Sample, Slot, Wait, split};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const TWO_MS: Answers = Answers {
    delay_ns: 200 * US,
    period_ns: 2 * MS,
    deadline_ns: 2 * MS,
    edges: u64::MAX,
    wait: Wait::Sleep,
    on_overrun: OnOverrun::SkipKeepPhase,
};

/// Edges at set instants, each taken up `read_ns` later, or as soon as the clock is past that.
struct Script<'c, L: Fn(Instant) -> u64> {
    clock: &'c MockClock<L>,
    edges: Vec<Edge>,
    read_ns: u64,
    given: Cell<usize>,
    nothings: u64,
}

impl<L: Fn(Instant) -> u64> Edges for Script<'_, L> {
    fn next(&mut self) -> Arrival {
        if self.nothings > 0 {
            self.nothings -= 1;
            return Arrival::Nothing;
        }

        let Some(edge) = self.edges.get(self.given.replace(self.given.get() + 1)) else { return Arrival::Over };
        let due = edge.at.plus_ns(self.read_ns);
        let now = self.clock.now();
        self.clock.spend(due.ns_since(now));
        Arrival::Edge(*edge)
    }

    fn waiting(&mut self) -> Option<Edge> {
        let edge = *self.edges.get(self.given.get())?;
        let is_there = edge.at <= self.clock.now();
        is_there.then(|| {
            self.given.set(self.given.get() + 1);
            edge
        })
    }
}

const fn edge(index: u64, at_us: u64) -> Edge {
    Edge { index, at: Instant::from_ns(at_us * US) }
}

fn answered(answers: Answers, edges: Vec<Edge>, late_ns: u64, write_ns: u64) -> (Outcome, Vec<Sample>) {
    let clock = MockClock::starting_at(Instant::from_ns(0), move |_| late_ns);
    let mut script = Script { clock: &clock, edges, read_ns: 30 * US, given: Cell::new(0), nothings: 3 };
    let mut write = |_: &Cycle| {
        clock.spend(write_ns);
        Flow::Continue
    };

    let mut slots: Vec<Slot<Sample>> = (0..64).map(|_| Slot::empty()).collect();
    let mut ring = Ring::over(&mut slots).unwrap();
    let (mut hot, mut cold) = split(&mut ring);
    let outcome = answer::run(&clock, &answers, (&mut script, &mut write), &mut hot, &AtomicBool::new(false));
    (outcome, std::iter::from_fn(|| cold.pop()).collect())
}

#[test]
fn a_sample_tells_read_latency_wake_up_and_write_apart() {
    let (outcome, samples) = answered(TWO_MS, vec![edge(0, 1_000), edge(1, 3_000)], 7 * US, 5 * US);
    assert_eq!((outcome.slots, outcome.cycles, outcome.skipped, outcome.end), (2, 2, 0, End::Complete));
    for (sample, at_us) in samples.iter().zip([1_000, 3_000]) {
        assert_eq!(u64::from(sample.note), 30 * US, "edge to taken up");
        assert_eq!(sample.release, Instant::from_ns((at_us + 30 + 200) * US), "taken up plus the delay");
        assert_eq!((sample.wakeup_latency_ns, sample.execution_time_ns), (7 * US, 5 * US));
    }
}

#[test]
fn edges_that_never_came_are_counted_before_the_next_that_did() {
    let (outcome, samples) = answered(TWO_MS, vec![edge(0, 1_000), edge(3, 7_000), edge(4, 9_000)], 0, 0);
    assert_eq!((outcome.slots, outcome.cycles, outcome.skipped), (5, 3, 2));
    assert_eq!(
        samples.iter().map(|sample| (sample.index, sample.skipped)).collect::<Vec<_>>(),
        [(0, 0), (3, 2), (4, 0)]
    );
}

#[test]
fn an_edge_that_waited_for_the_one_before_is_late_by_that() {
    // The second edge comes 100 us after the first, while that one's delay of 200 us still runs.
    let (_, samples) = answered(TWO_MS, vec![edge(0, 1_000), edge(1, 1_100)], 0, 10 * US);
    let taken_up_us = 1_000 + 30 + 200 + 10;
    assert_eq!(u64::from(samples[1].note), (taken_up_us - 1_100) * US);
}

#[test]
fn deadline_and_period_count_from_the_edge() {
    let tight = Answers { deadline_ns: 230 * US, period_ns: 240 * US, ..TWO_MS };
    for (late_us, missed, overran) in [(0, false, false), (5, true, false), (11, true, true)] {
        let (_, samples) = answered(tight, vec![edge(0, 1_000)], late_us * US, 0);
        let flags = samples[0].flags;
        assert_eq!((flags.has(Flags::DEADLINE_MISS), flags.has(Flags::OVERRUN)), (missed, overran), "{late_us} us");
    }
}

#[test]
fn a_number_that_was_served_is_no_edge() {
    let (outcome, samples) = answered(TWO_MS, vec![edge(0, 1_000), edge(0, 3_000), edge(1, 5_000)], 0, 0);
    assert_eq!((outcome.slots, outcome.cycles, samples.len()), (2, 2, 2));
}

#[test]
fn it_ends_after_as_many_edges_as_asked_missed_ones_among_them() {
    let three = Answers { edges: 3, ..TWO_MS };
    let (outcome, _) = answered(three, vec![edge(0, 1_000), edge(2, 5_000), edge(3, 7_000)], 0, 0);
    assert_eq!((outcome.slots, outcome.cycles, outcome.skipped, outcome.end), (3, 2, 1, End::Complete));
}

/// Edges every two milliseconds, of which number `slow` is answered 7 ms late.
fn overrun_at(slow: u64, on_overrun: OnOverrun, edges: u64) -> (Outcome, Vec<Sample>) {
    let clock = MockClock::starting_at(Instant::from_ns(0), |_| 0);
    let all = (0..edges).map(|index| edge(index, (index + 1) * 2_000)).collect();
    let mut script = Script { clock: &clock, edges: all, read_ns: 30 * US, given: Cell::new(0), nothings: 0 };
    let mut write = |cycle: &Cycle| {
        clock.spend(if cycle.index == slow { 7 * MS } else { 10 * US });
        Flow::Continue
    };

    let mut slots: Vec<Slot<Sample>> = (0..64).map(|_| Slot::empty()).collect();
    let mut ring = Ring::over(&mut slots).unwrap();
    let (mut hot, mut cold) = split(&mut ring);
    let answers = Answers { on_overrun, ..TWO_MS };
    let outcome = answer::run(&clock, &answers, (&mut script, &mut write), &mut hot, &AtomicBool::new(false));
    (outcome, std::iter::from_fn(|| cold.pop()).collect())
}

fn indices(samples: &[Sample]) -> Vec<u64> {
    samples.iter().map(|sample| sample.index).collect()
}

#[test]
fn an_overrun_passes_over_the_edges_that_came_meanwhile_and_counts_them() {
    // Edge 1 comes at 4 ms and is answered at 11.23 ms: 2, 3 and 4 (6, 8 and 10 ms) have come meanwhile.
    let (outcome, samples) = overrun_at(1, OnOverrun::SkipKeepPhase, 8);
    assert_eq!(indices(&samples), [0, 1, 5, 6, 7]);
    assert_eq!((samples[2].skipped, u64::from(samples[2].note)), (3, 30 * US), "edge 5 is not late by edge 1");
    assert_eq!((outcome.slots, outcome.cycles, outcome.skipped, outcome.skipped_at_end), (8, 5, 3, 0));
}

#[test]
fn catching_up_answers_edges_back_to_back_and_no_more_than_allowed() {
    // 2 is answered at once; it ends after 3 was due, which uses up the one that may be caught up: 3 and 4 are passed over.
    let (outcome, samples) = overrun_at(1, OnOverrun::CatchUp { at_most: 1 }, 8);
    assert_eq!(indices(&samples), [0, 1, 2, 5, 6, 7]);
    let (all, answered) = overrun_at(1, OnOverrun::CatchUp { at_most: 9 }, 8);
    assert_eq!((indices(&answered), all.skipped), ((0..8).collect(), 0));
    assert_eq!((outcome.slots, outcome.cycles, outcome.skipped), (8, 6, 2));
}

#[test]
fn a_loop_told_to_stop_on_an_overrun_answers_nothing_more() {
    let (outcome, samples) = overrun_at(1, OnOverrun::Stop, 8);
    assert_eq!((indices(&samples), outcome.end, outcome.slots), (vec![0, 1], End::Overrun, 2));
}

#[test]
fn edges_passed_over_after_the_last_answer_are_accounted_for_too() {
    let (outcome, samples) = overrun_at(1, OnOverrun::SkipKeepPhase, 4);
    assert_eq!(indices(&samples), [0, 1]);
    assert_eq!((outcome.slots, outcome.cycles, outcome.skipped, outcome.skipped_at_end), (4, 2, 2, 2));
}

#[test]
fn an_edge_that_comes_while_others_are_passed_over_is_answered() {
    /// Gives an edge of the future to whoever asks without waiting.
    struct Eager(Vec<Edge>);
    impl Edges for Eager {
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
    // The answer to 0 ends at 5.2 ms: 1 was there, 2 comes just after.
    let mut edges = Eager(vec![edge(0, 0), edge(1, 2_000), edge(2, 5_201)]);
    let outcome = answer::run(&clock, &TWO_MS, (&mut edges, &mut write), &mut hot, &AtomicBool::new(false));
    let samples: Vec<Sample> = std::iter::from_fn(|| cold.pop()).collect();

    assert_eq!((indices(&samples), outcome.skipped, outcome.slots), (vec![0, 2], 1, 3));
}
