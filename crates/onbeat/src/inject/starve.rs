//! `rt_throttling` and `fair_server`: a real-time thread below the loop that does not sleep.
//!
//! Both rules give ordinary threads 50 ms of a second, and both take the CPU from the loop as well
//! as from the thread that caused it. An injection is logged only if it shows what distinguishes
//! them:
//!
//! - Throttling (`kernel/sched/rt.c`) stops real-time threads even if no other thread is runnable:
//!   the CPU was idle for at least half of the stop, or the stop ended at the end of a period known
//!   from an earlier stop. Short pauses keep ordinary threads from starving.
//! - The fair server (`kernel/sched/deadline.c`) stops as soon as no ordinary thread is runnable:
//!   the injector's ordinary thread ran, slept, and the real-time thread was back at once.
//!
//! A stop that shows neither is counted as missed, because the other rule may have caused it.

use std::collections::VecDeque;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};

use super::actor::{Disturb, other_cpu};
use super::error::Error;
use super::fault::Fault;
use super::injector_thread::InjectorThread;
use super::log::DisturbanceRecord;
use super::plan::{AimedRelease, InjectionPlan};
use onbeat_host::machine;
use onbeat_host::thread::{ThreadRequest, thread_cpu_ns};

const MS: u64 = 1_000_000;
/// Default period of both rules, in nanoseconds.
const RULE_NS: u64 = 1_000 * MS;
/// Shorter stops are not caused by throttling, in nanoseconds.
const LEAST_STOP_NS: u64 = 12 * MS;
/// Time between two pauses in nanoseconds, and their length: slightly more than 1 % for ordinary
/// threads.
const PAUSE_EVERY_NS: u64 = 150 * MS;
const PAUSE: Duration = Duration::from_millis(2);
/// Time for which the ordinary thread has the CPU before it is starved: more than the server's 50
/// ms, so that the server starts a new period.
const UNSTARVED: Duration = Duration::from_millis(60);
/// Maximum time from the ordinary thread's sleep to the return of the real-time thread, in
/// nanoseconds.
const BACK_NS: u64 = MS;

fn check_priority(plan: &InjectionPlan) -> Result<(), Error> {
    if plan.target.priority > 1 {
        return Ok(());
    }
    Err(plan.impossible(format!(
        "the loop has the real-time priority {}; it takes at least 2, or the thread below it would starve it",
        plan.target.priority
    )))
}

/// The disturber of `rt_throttling`.
#[derive(Default)]
pub(super) struct ThrottleDisturber {
    period_ns: u64,
    watch: Option<IdleWatch>,
    /// End of the kernel's periods modulo their length, in nanoseconds; known after the first stop.
    phase_ns: Option<u64>,
}

impl Disturb for ThrottleDisturber {
    fn prepare(&mut self, plan: &InjectionPlan) -> Result<(), Error> {
        check_priority(plan)?;
        if !machine::throttles_real_time() {
            let limit = machine::real_time_limit_us()
                .map_or("unknown".to_owned(), |(runtime, period)| {
                    format!("sched_rt_runtime_us is {runtime} of {period}")
                });
            return Err(plan.impossible(format!(
                "this kernel does not throttle ({limit}; since Linux 6.12 it takes CONFIG_RT_GROUP_SCHED too)"
            )));
        }

        let Some(cpu) = other_cpu(plan.target.cpu) else {
            return Err(plan.impossible(
                "it takes a second CPU to distinguish it from the fair server (taskset, cpuset)",
            ));
        };
        self.period_ns =
            machine::real_time_limit_us().map_or(RULE_NS, |(_, period_us)| period_us * 1000);
        self.watch = Some(IdleWatch::start(plan.target.cpu, cpu)?);
        Ok(())
    }

    fn disturb(&mut self, _: &InjectionPlan, _: &AimedRelease) -> Option<DisturbanceRecord> {
        self.watch.as_ref()?.record(true);
        if let Some(phase_ns) = self.phase_ns {
            // Starting at the begin of a period takes the least time.
            let into_ns = (Monotonic.now().as_ns() + self.period_ns - phase_ns) % self.period_ns;
            thread::sleep(Duration::from_nanos(self.period_ns - into_ns));
        }

        let done = self.burn();
        self.watch.as_ref()?.record(false);
        let done = done?;
        self.phase_ns = Some(done.at.plus_ns(done.ns).as_ns() % self.period_ns);
        Some(done)
    }
}

impl ThrottleDisturber {
    /// Returns the idle time of the CPU in a stop, in nanoseconds; `None` if throttling did not
    /// cause it.
    fn idle_ns(&self, at: Instant, ns: u64) -> Option<u64> {
        let end = at.plus_ns(ns);
        let idle_ns = self.watch.as_ref()?.idle_ns(at, end);
        let at_a_period = self.phase_ns.is_some_and(|phase_ns| {
            let into_ns = (end.as_ns() + self.period_ns - phase_ns) % self.period_ns;
            into_ns.min(self.period_ns - into_ns) <= SAME_PHASE_NS
        });

        (idle_ns * 2 >= ns || at_a_period).then_some(idle_ns)
    }

    /// Keeps the CPU busy until real-time threads are stopped on it, for at most two periods, which
    /// contain a whole one.
    fn burn(&self) -> Option<DisturbanceRecord> {
        let start = Monotonic.now();
        let mut last = start;
        let mut pause = start.plus_ns(PAUSE_EVERY_NS);
        let mut stop: Option<(Instant, u64)> = None;
        while last < start.plus_ns(2 * self.period_ns + 100 * MS) {
            let now = Monotonic.now();
            let gap_ns = now.ns_since(last);
            if gap_ns >= LEAST_STOP_NS {
                stop = Some((last, gap_ns));
            }

            last = now;
            if let Some((at, ns)) = stop {
                // The watch must have one more reading after the stop.
                if now >= at.plus_ns(ns + 2 * WATCH_NS) {
                    if let Some(idle_ns) = self.idle_ns(at, ns) {
                        return Some(DisturbanceRecord {
                            at,
                            ns,
                            figures: [at.ns_since(start), idle_ns],
                        });
                    }
                    stop = None;
                }
            } else if now >= pause {
                thread::sleep(PAUSE);
                last = Monotonic.now();
                pause = last.plus_ns(PAUSE_EVERY_NS);
            }
        }

        None
    }
}

/// Tolerance of the end of a period, in nanoseconds.
const SAME_PHASE_NS: u64 = 1_000_000;
/// Interval between two readings of the watch, in nanoseconds.
const WATCH_NS: u64 = 4 * MS;
/// Number of kept readings: 1.6 s.
const READINGS: usize = 400;

/// A thread that reads the idle time of a CPU, from another CPU.
struct IdleWatch {
    on: Arc<AtomicBool>,
    readings: Arc<Mutex<VecDeque<(Instant, u64)>>>,
    _thread: InjectorThread,
}

impl IdleWatch {
    fn start(of: u32, from: u32) -> Result<Self, Error> {
        let on = Arc::new(AtomicBool::new(false));
        let readings = Arc::new(Mutex::new(VecDeque::with_capacity(READINGS)));
        let is_on = on.clone();
        let into = readings.clone();
        let body = move |over: &AtomicBool| {
            while !over.load(Ordering::Relaxed) {
                if is_on.load(Ordering::Relaxed)
                    && let Some(idle_ns) = idle_ns(of)
                {
                    let mut readings = into.lock().unwrap_or_else(PoisonError::into_inner);
                    if readings.len() == READINGS {
                        readings.pop_front();
                    }
                    readings.push_back((Monotonic.now(), idle_ns));
                }

                thread::sleep(Duration::from_nanos(WATCH_NS));
            }
        };

        let wanted = ThreadRequest { cpu: Some(from), ..ThreadRequest::default() };
        Ok(Self { on, readings, _thread: InjectorThread::start(wanted, body)? })
    }

    fn record(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    /// Returns the idle time between two instants, from the readings around them, in nanoseconds.
    fn idle_ns(&self, from: Instant, to: Instant) -> u64 {
        let readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
        let before = readings.iter().rev().find(|(at, _)| *at <= from);
        let after = readings.iter().find(|(at, _)| *at >= to);
        before.zip(after).map_or(0, |(before, after)| after.1.saturating_sub(before.1))
    }
}

/// Returns the idle time of a CPU since boot, in nanoseconds, with the resolution of `/proc/stat`
/// (10 ms).
fn idle_ns(cpu: u32) -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    idle_ticks(&stat, cpu)
        .map(|ticks| ticks * 1_000_000_000 / rustix::param::clock_ticks_per_second())
}

fn idle_ticks(stat: &str, cpu: u32) -> Option<u64> {
    let name = format!("cpu{cpu} ");
    let fields = stat.lines().find_map(|line| line.strip_prefix(&name))?;
    let mut fields = fields.split_ascii_whitespace().skip(3).map(str::parse::<u64>);
    Some(fields.next()?.ok()? + fields.next()?.ok()?)
}

#[derive(Default)]
pub(super) struct FairServerDisturber {
    waiter: Option<StarvedThread>,
}

impl Disturb for FairServerDisturber {
    fn prepare(&mut self, plan: &InjectionPlan) -> Result<(), Error> {
        debug_assert_eq!(plan.fault, Fault::FairServer);
        check_priority(plan)?;
        if !machine::has_fair_server() {
            return Err(plan.impossible("this kernel has no fair server; it came with Linux 6.12"));
        }

        self.waiter = Some(StarvedThread::start(plan.target.cpu, plan.for_ns)?);
        Ok(())
    }

    fn disturb(&mut self, _: &InjectionPlan, _: &AimedRelease) -> Option<DisturbanceRecord> {
        let waiter = self.waiter.as_ref()?;
        waiter.release();
        thread::sleep(UNSTARVED);
        let done = burn_until_served(waiter);
        waiter.is_starving.store(false, Ordering::Release);
        done
    }
}

/// Keeps the CPU busy until the ordinary thread gets it nevertheless.
fn burn_until_served(waiter: &StarvedThread) -> Option<DisturbanceRecord> {
    let start = Monotonic.now();
    let mut last = start;
    while last < start.plus_ns(RULE_NS + 30 * MS) {
        let now = Monotonic.now();
        if waiter.ran_ns.load(Ordering::Acquire) > 0 {
            let ran_ns = waiter.ran_ns.load(Ordering::Relaxed);
            let slept = Instant::from_ns(waiter.slept_ns.load(Ordering::Relaxed));
            // The stop is between two clock readings, or between the later one and the check of the
            // thread.
            let at = if now < slept { now } else { last };
            let back = Monotonic.now();
            let stopped_here = at < slept && back.ns_since(slept) <= BACK_NS;
            let ns = back.ns_since(at);
            let after_ns = at.ns_since(start);
            return stopped_here.then_some(DisturbanceRecord {
                at,
                ns,
                figures: [after_ns, ran_ns],
            });
        }

        last = now;
    }

    None
}

/// The ordinary thread that is starved: it is runnable until it has got its time.
struct StarvedThread {
    is_starving: Arc<AtomicBool>,
    /// CPU time granted by the server, in nanoseconds; 0 until then.
    ran_ns: Arc<AtomicU64>,
    slept_ns: Arc<AtomicU64>,
    thread: InjectorThread,
}

impl StarvedThread {
    fn start(cpu: u32, for_ns: u64) -> Result<Self, Error> {
        let is_starving = Arc::new(AtomicBool::new(false));
        let ran_ns = Arc::new(AtomicU64::new(0));
        let slept_ns = Arc::new(AtomicU64::new(0));
        let (starving, ran, slept) = (is_starving.clone(), ran_ns.clone(), slept_ns.clone());
        let body = move |over: &AtomicBool| {
            while !over.load(Ordering::Relaxed) {
                if wait_to_be_served(&starving) {
                    let ran_ns = run_for(for_ns);
                    slept.store(Monotonic.now().as_ns(), Ordering::Relaxed);
                    starving.store(false, Ordering::Relaxed);
                    ran.store(ran_ns, Ordering::Release);
                }
                thread::park_timeout(Duration::from_millis(500));
            }
        };

        let wanted = ThreadRequest { cpu: Some(cpu), ..ThreadRequest::default() };
        Ok(Self { is_starving, ran_ns, slept_ns, thread: InjectorThread::start(wanted, body)? })
    }

    fn release(&self) {
        self.ran_ns.store(0, Ordering::Relaxed);
        self.is_starving.store(true, Ordering::Release);
        self.thread.wake();
    }
}

/// Stays runnable; `true` if it was kept off the CPU for half a period and then got it.
fn wait_to_be_served(is_starving: &AtomicBool) -> bool {
    let mut last = Monotonic.now();
    while is_starving.load(Ordering::Acquire) {
        let now = Monotonic.now();
        if now.ns_since(last) > RULE_NS / 2 {
            return true;
        }
        last = now;
    }

    false
}

fn run_for(for_ns: u64) -> u64 {
    let before = thread_cpu_ns();
    loop {
        let ran_ns = thread_cpu_ns() - before;
        if ran_ns >= for_ns {
            return ran_ns.max(1);
        }
    }
}

impl Drop for StarvedThread {
    /// The thread, which ends after this, must not go on waiting to be served.
    fn drop(&mut self) {
        self.is_starving.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_idle_time_of_a_cpu_is_that_of_its_own_line() {
        let stat = "cpu  1 2 3 400 50 6 7 8 9 10\ncpu0 1 2 3 100 20 0 0 0 0 0\ncpu1 1 2 3 300 30 0 0 0 0 0\ncpu10 0 0 0 7 0\n";
        assert_eq!(idle_ticks(stat, 1), Some(330));
        assert_eq!(idle_ticks(stat, 10), Some(7));
        assert_eq!(idle_ticks(stat, 2), None);
    }
}
