//! The thread that polls the clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Cycle, Flow, Instant, Outcome, Plan, Producer, Sample, Task};

use super::super::description::Body;

/// What the polling thread reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PollRecord {
    /// The clock stepped from one instant to the other.
    Gap { from: Instant, to: Instant },
    /// A window has ended.
    Window(Totals),
}

/// All windows so far, with all of their gaps, also those that did not fit into the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) windows: u64,
    pub(super) ns: u64,
    pub(super) gaps: u64,
    pub(super) gaps_ns: u64,
}

/// The loop of the probe.
pub(super) struct PollingBody {
    pub(super) records: Producer<'static, PollRecord>,
    pub(super) threshold_ns: u64,
    /// From each release on.
    pub(super) window_ns: u64,
    /// The number of the polling thread, for the recorder.
    pub(super) tid: Arc<AtomicU32>,
    pub(super) totals: Totals,
}

impl Body for PollingBody {
    fn run(&mut self, plan: &Plan, hot: &mut Producer<'_, Sample>, stop: &AtomicBool) -> Outcome {
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        self.tid.store(own.unsigned_abs(), Ordering::Release);
        let mut polling = Polling {
            clock: &Monotonic,
            records: &mut self.records,
            threshold_ns: self.threshold_ns,
            window_ns: self.window_ns,
            totals: &mut self.totals,
            stop,
        };
        onbeat_rt::cycle::run(&Monotonic, plan, &mut polling, hot, stop)
    }
}

/// A cycle that polls until its window ends, or until it is to stop.
struct Polling<'p, 'r, C> {
    clock: &'p C,
    records: &'p mut Producer<'r, PollRecord>,
    threshold_ns: u64,
    window_ns: u64,
    totals: &'p mut Totals,
    stop: &'p AtomicBool,
}

impl<C: Clock> Task for Polling<'_, '_, C> {
    fn cycle(&mut self, cycle: &Cycle) -> Flow {
        let until = cycle.release.plus_ns(self.window_ns);
        let begun = self.clock.now();
        let (mut last, mut longest_ns) = (begun, 0);
        while last < until && !self.stop.load(Ordering::Relaxed) {
            let now = self.clock.now();
            let step_ns = now.ns_since(last);
            longest_ns = longest_ns.max(step_ns);
            if step_ns >= self.threshold_ns {
                self.totals.gaps += 1;
                self.totals.gaps_ns += step_ns;
                self.records.push(PollRecord::Gap { from: last, to: now });
            }
            last = now;
        }

        self.totals.windows += 1;
        self.totals.ns += last.ns_since(begun);
        self.records.push(PollRecord::Window(*self.totals));
        cycle.note(u32::try_from(longest_ns).unwrap_or(u32::MAX));
        Flow::Continue
    }
}

/// Returns the median time between two readings of the clock, in nanoseconds.
pub(super) fn median_step_ns() -> u64 {
    const READINGS: usize = 20_001;
    let mut last = Monotonic.now();
    let step = |_| {
        let now = Monotonic.now();
        now.ns_since(std::mem::replace(&mut last, now))
    };
    let mut steps: Vec<u64> = (0..READINGS).map(step).collect();
    *steps.select_nth_unstable(READINGS / 2).1
}
