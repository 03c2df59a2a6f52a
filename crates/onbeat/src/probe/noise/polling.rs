//! The thread that polls the clock.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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
    /// The totals when the polling has ended: the ring may have no room for the last ones.
    pub(super) ended: Arc<Mutex<Totals>>,
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
        let outcome = onbeat_rt::cycle::run(&Monotonic, plan, &mut polling, hot, stop);
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = self.totals;
        outcome
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

#[cfg(test)]
mod tests {
    use std::thread;

    use onbeat_rt::ring::{Ring, Slot, split};
    use onbeat_rt::{OnOverrun, Wait};

    use super::*;

    #[test]
    fn windows_and_gaps_that_the_ring_has_no_room_for_are_in_the_totals_of_the_end() {
        let slots = Box::leak(Box::new([Slot::empty(), Slot::empty()]));
        let ring = Ring::over(slots).unwrap();
        let (records, mut taken) = split(Box::leak(Box::new(ring)));
        let mut samples = [Slot::empty(), Slot::empty()];
        let mut samples = Ring::over(&mut samples).unwrap();
        let (mut hot, _) = split(&mut samples);
        let ended = Arc::default();
        let mut body = PollingBody {
            records,
            threshold_ns: 0,
            window_ns: u64::from(u32::MAX),
            tid: Arc::default(),
            totals: Totals::default(),
            ended: Arc::clone(&ended),
        };
        let plan = Plan {
            period_ns: 2 * body.window_ns,
            first_release: Monotonic.now(),
            deadline_ns: 2 * body.window_ns,
            releases: 1,
            wait: Wait::Sleep,
            on_overrun: OnOverrun::SkipKeepPhase,
        };
        let stop = AtomicBool::new(false);
        thread::scope(|threads| {
            threads.spawn(|| body.run(&plan, &mut hot, &stop));
            while taken.lost() < 10 {
                thread::yield_now();
            }
            stop.store(true, Ordering::Relaxed);
        });

        let queued: Vec<PollRecord> = std::iter::from_fn(|| taken.pop()).collect();
        let gaps_alone = queued.iter().all(|record| matches!(record, PollRecord::Gap { .. }));
        assert!(queued.len() == 2 && gaps_alone, "the window found no room: {queued:?}");
        let totals = *ended.lock().unwrap();
        assert_eq!(totals.windows, 1);
        assert!(totals.gaps >= 12, "{totals:?}");
        assert_eq!(totals.gaps_ns, totals.ns, "each step is a gap");
    }
}
