//! The loop that answers edges, on a clock without a kernel: every figure is exact.
#![allow(clippy::unwrap_used, missing_docs)]

use std::cell::Cell;
use std::sync::atomic::AtomicBool;

use onbeat_rt::answer::{self, Answers, Arrival, Edge, Edges};
use onbeat_rt::ring::Ring;
use onbeat_rt::{Clock, Cycle, End, Flags, Flow, Instant, MockClock, Outcome, Sample, Slot, Wait, split};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const TWO_MS: Answers =
    Answers { delay_ns: 200 * US, period_ns: 2 * MS, deadline_ns: 2 * MS, edges: u64::MAX, wait: Wait::Sleep };

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
