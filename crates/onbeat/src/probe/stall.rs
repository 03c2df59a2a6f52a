//! Distinguishes stops by rules of the scheduler from latency of the machine.
//!
//! A real-time thread that uses nearly all of its CPU is stopped for some 50 ms, once a second, by
//! one of two rules of the kernel: RT throttling (`kernel/sched/rt.c`, `sched_rt_runtime_us` of
//! each `sched_rt_period_us`) or the fair server of Linux 6.12 and later
//! (`kernel/sched/deadline.c`: 50 ms of each second for ordinary threads that wait). Both leave the
//! same trace in the samples: a stop of at most the period's remainder, after a stretch in which
//! the loop itself was busy. That is the evidence used here; it needs no tracing and no rights.

use onbeat_rt::Sample;

use onbeat_host::machine;
use onbeat_record::Stall;

/// Length of one bin of busy time, in nanoseconds.
const BIN_NS: u64 = 10_000_000;
/// Number of bins: a little less than a second, the period of both rules.
const BINS: usize = 95;
/// Share of the time before a stop that the loop must have been busy: both rules act at 95 %, and
/// the loop is not the only real-time thread on its CPU.
const BUSY_SHARE: f64 = 0.85;
/// Shorter stops are ordinary latency, in nanoseconds.
const LEAST_STOP_NS: u64 = 1_000_000;

/// The rules of the scheduler that this machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// RT throttling is on.
    pub rt_throttling: bool,
    /// The kernel has a fair server.
    pub fair_server: bool,
}

impl Rules {
    /// Reads the rules of this machine. Since Linux 6.12 only kernels built with
    /// `CONFIG_RT_GROUP_SCHED` throttle; where its control files cannot be seen, throttling counts
    /// as on.
    #[must_use]
    pub fn of_this_machine() -> Self {
        Self {
            rt_throttling: machine::throttles_real_time(),
            fair_server: machine::has_fair_server(),
        }
    }

    const fn verdict(self) -> Option<Stall> {
        match (self.rt_throttling, self.fair_server) {
            (true, true) => Some(Stall::RtThrottlingOrFairServer),
            (true, false) => Some(Stall::RtThrottling),
            (false, true) => Some(Stall::FairServer),
            (false, false) => None,
        }
    }
}

/// Watches the samples of one loop for stops by these rules.
#[derive(Debug)]
pub struct StallWatch {
    rules: Rules,
    work_ns: u64,
    busy_ns: [u64; BINS],
    bin: u64,
    stops: u64,
}

impl StallWatch {
    /// Returns a watch over a loop whose cycles plan to work for `work_ns`. The rules apply to
    /// loops with a real-time policy only (`real_time`).
    #[must_use]
    pub fn new(rules: Rules, real_time: bool, work_ns: u64) -> Self {
        let none = Rules { rt_throttling: false, fair_server: false };
        let rules = if real_time { rules } else { none };
        Self { rules, work_ns, busy_ns: [0; BINS], bin: 0, stops: 0 }
    }

    /// Takes the next sample; `stops_seen` counts how often the process was stopped and continued
    /// by signals so far. Names the rule that stopped the loop in this sample, when one did.
    pub fn judge(&mut self, sample: &Sample, stops_seen: u64) -> Option<Stall> {
        self.move_to(sample.start().as_ns() / BIN_NS);
        let stopped = std::mem::replace(&mut self.stops, stops_seen) != stops_seen;
        let unplanned_ns = sample.execution_time_ns.saturating_sub(self.work_ns);
        let stop_ns = sample.wakeup_latency_ns.max(unplanned_ns);
        let busy_before_ns: u64 = self.busy_ns.iter().sum();
        let planned_ns = sample.execution_time_ns.min(self.work_ns.max(BIN_NS));
        self.busy_ns[self.place()] += planned_ns + u64::from(sample.spun_ns);

        if stop_ns < LEAST_STOP_NS {
            None
        } else if stopped {
            Some(Stall::Stopped)
        } else if busy_before_ns as f64 >= BUSY_SHARE * (BINS as u64 * BIN_NS) as f64 {
            self.rules.verdict()
        } else {
            None
        }
    }

    fn place(&self) -> usize {
        (self.bin % BINS as u64) as usize
    }

    /// Empties the bins between the last sample and this one. The stop itself lies there: it is not
    /// busy time, and the busy time before it must not be forgotten, so at most the bins of a plain
    /// cycle are passed.
    fn move_to(&mut self, bin: u64) {
        let passed = bin.saturating_sub(self.bin);
        for _ in 0..passed.min(BINS as u64 / 10) {
            self.bin += 1;
            let place = self.place();
            self.busy_ns[place] = 0;
        }

        self.bin = bin;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_rt::Instant;

    const MS: u64 = 1_000_000;
    const BOTH: Rules = Rules { rt_throttling: true, fair_server: true };

    fn sample(index: u64, wakeup_latency_ns: u64, execution_time_ns: u64) -> Sample {
        let release = Instant::from_ns(index * MS);
        Sample { index, release, wakeup_latency_ns, execution_time_ns, ..Sample::default() }
    }

    fn after_cycles_of(
        execution_time_ns: u64,
        rules: Rules,
        real_time: bool,
        last: &Sample,
    ) -> Option<Stall> {
        let mut watch = StallWatch::new(rules, real_time, execution_time_ns);
        for index in 0..2000 {
            assert_eq!(watch.judge(&sample(index, 20_000, execution_time_ns), 0), None);
        }
        watch.judge(last, 0)
    }

    #[test]
    fn a_stop_of_a_loop_that_used_its_whole_cpu_is_a_rule_of_the_scheduler() {
        let stop = sample(2050, 50 * MS, 970_000);
        assert_eq!(
            after_cycles_of(970_000, BOTH, true, &stop),
            Some(Stall::RtThrottlingOrFairServer)
        );
        let fair = Rules { rt_throttling: false, fair_server: true };
        assert_eq!(after_cycles_of(970_000, fair, true, &stop), Some(Stall::FairServer));
    }

    #[test]
    fn a_stop_inside_the_work_is_recognised_too() {
        let stop = sample(2000, 20_000, 970_000 + 50 * MS);
        assert_eq!(
            after_cycles_of(970_000, BOTH, true, &stop),
            Some(Stall::RtThrottlingOrFairServer)
        );
    }

    #[test]
    fn the_same_stop_of_a_loop_that_mostly_sleeps_is_the_machines() {
        assert_eq!(after_cycles_of(200_000, BOTH, true, &sample(2050, 50 * MS, 200_000)), None);
    }

    #[test]
    fn an_ordinary_thread_is_never_throttled() {
        assert_eq!(after_cycles_of(970_000, BOTH, false, &sample(2050, 50 * MS, 970_000)), None);
    }

    #[test]
    fn a_process_that_was_stopped_and_continued_says_so() {
        let mut watch = StallWatch::new(BOTH, true, 0);
        assert_eq!(watch.judge(&sample(1, 20_000, 1000), 0), None);
        assert_eq!(watch.judge(&sample(101, 100 * MS, 1000), 1), Some(Stall::Stopped));
        assert_eq!(watch.judge(&sample(301, 100 * MS, 1000), 1), None);
    }
}
