//! The injector's thread: it waits for an aimed release, disturbs the loop once and logs it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};
use rustix::thread::sched_getaffinity;
use rustix::time::Timespec;

use super::error::Error;
use super::fault::Fault;
use super::injector_thread::{InjectorThread, off_the_loops_cpu};
use super::log::{DisturbanceRecord, Dose, LogBuffer};
use super::plan::{AimedRelease, InjectionPlan};
use onbeat_host::thread::{Grant, ThreadRequest, thread_cpu_ns};

/// A way to disturb a loop. All methods are called in the injector's thread.
pub(super) trait Disturb: Send {
    /// Returns CPU and priority for the thread.
    fn request(&self, plan: &InjectionPlan) -> ThreadRequest {
        below_the_loop(plan)
    }

    /// Prepares, without disturbing the loop's CPU.
    fn prepare(&mut self, _: &InjectionPlan) -> Result<(), Error> {
        Ok(())
    }

    /// Prepares what must be done with the requested CPU and priority.
    fn prepare_in_place(&mut self, _: &InjectionPlan) -> Result<(), Error> {
        Ok(())
    }

    /// Returns how long before the loop's wake-up [`Disturb::disturb`] is called, in nanoseconds.
    fn lead_ns(&self, plan: &InjectionPlan) -> u64 {
        plan.lead_ns()
    }

    /// Disturbs the wake-up of `aim`; `None` if it was too late.
    fn disturb(&mut self, plan: &InjectionPlan, aim: &AimedRelease) -> Option<DisturbanceRecord>;
}

/// Time from set-up to the first injection, in nanoseconds.
const START_NS: u64 = 30_000_000;
/// The last part of a wait, in nanoseconds, is an uninterruptible sleep on the clock; before that
/// the thread can be ended.
const LAST_SLEEP_NS: u64 = 2_000_000;

/// Starts the injector's thread and waits until it is ready. It ends after the current injection.
pub(super) fn start(
    plan: InjectionPlan,
    log: Arc<LogBuffer>,
    dose: Dose,
    mut disturber: Box<dyn Disturb>,
) -> Result<InjectorThread, Error> {
    let off_the_loop = off_the_loops_cpu(&plan);
    let (ready_sender, ready_receiver) = channel();
    let actor_loop = ActorLoop { plan, log, dose };
    let body = move |over: &AtomicBool| {
        if actor_loop.prepare(disturber.as_mut(), &ready_sender) {
            actor_loop.run(disturber.as_mut(), over);
        }

        // Releasing thousands of file locks takes a kernel section as long as an injection, and
        // the last release aimed at may not have come yet.
        apply_request(off_the_loop);
    };

    // Slow preparation comes before the thread moves to its CPU.
    let thread = InjectorThread::start(off_the_loop, body)?;
    // A thread that panics closes the channel without a word.
    ready_receiver.recv().map_err(|_| Error::Panicked)?.map(|()| thread)
}

struct ActorLoop {
    plan: InjectionPlan,
    log: Arc<LogBuffer>,
    dose: Dose,
}

impl ActorLoop {
    fn prepare(
        &self,
        disturber: &mut dyn Disturb,
        ready_sender: &Sender<Result<(), Error>>,
    ) -> bool {
        let ready = disturber
            .prepare(&self.plan)
            .and_then(|()| apply_needed_request(&self.plan, disturber.request(&self.plan)));
        let ready = ready.and_then(|()| disturber.prepare_in_place(&self.plan));
        let is_ready = ready.is_ok();
        // The starting thread waits for this message.
        let _ = ready_sender.send(ready);

        is_ready
    }

    fn run(&self, disturber: &mut dyn Disturb, over: &AtomicBool) {
        let lead_ns = disturber.lead_ns(&self.plan);
        let mut earliest = Monotonic.now().plus_ns(START_NS.max(lead_ns));
        while !self.log.is_over() {
            let aim = self.plan.aim(earliest);
            earliest = aim.wake_up.plus_ns(self.plan.every_ns);
            if !sleep_unless_over(aim.wake_up.minus_ns(lead_ns), over) {
                return;
            }

            let done = match self.dose {
                Dose::Full => disturber.disturb(&self.plan, &aim),
                Dose::Placebo => {
                    Some(DisturbanceRecord { at: Monotonic.now(), ns: 0, figures: [0; 2] })
                }
            };

            match done {
                // The scheduler's two rules act at a time of their own and affect another release.
                Some(done) if done.at > aim.wake_up => {
                    self.log.add(self.plan.grid.next(done.at), done);
                }
                Some(done) => self.log.add(aim.release, done),
                None => self.log.miss(),
            }

            // A disturbance may take longer than planned; the next one still needs its lead time.
            earliest = earliest.max(Monotonic.now().plus_ns(lead_ns + LAST_SLEEP_NS));
        }
    }
}

/// Sleeps until `wake_up`; `false` if the injector ended before.
fn sleep_unless_over(wake_up: Instant, over: &AtomicBool) -> bool {
    loop {
        if over.load(Ordering::Relaxed) {
            return false;
        }

        let left_ns = wake_up.ns_since(Monotonic.now());
        if left_ns <= LAST_SLEEP_NS {
            break;
        }

        thread::park_timeout(Duration::from_nanos(left_ns - LAST_SLEEP_NS / 2));
    }

    sleep_until(wake_up);
    true
}

/// Applies `request` to the calling thread as far as permitted. A refusal only makes the thread
/// less punctual.
pub(super) fn apply_request(request: ThreadRequest) {
    let _ = request.prepare_thread();
}

fn apply_needed_request(plan: &InjectionPlan, request: ThreadRequest) -> Result<(), Error> {
    let grants = request.prepare_thread();
    match grants.into_iter().find(|grant| !grant.granted && is_needed(plan.fault, grant)) {
        None => Ok(()),
        Some(grant) => {
            let Grant { wanted, why_not, remedy, .. } = grant;
            let why = why_not.unwrap_or_default();
            let remedy = remedy.unwrap_or_default();
            Err(plan.impossible(format!("its thread needs {wanted}: {why}; try: {remedy}")))
        }
    }
}

/// Whether a fault needs this grant: every fault needs its CPU; only those that must keep the CPU
/// from others need a real-time priority.
fn is_needed(fault: Fault, grant: &Grant) -> bool {
    let keeps_the_cpu = matches!(
        fault,
        Fault::EqualPriorityHog
            | Fault::HigherPriorityHog
            | Fault::RtThrottling
            | Fault::FairServer
    );
    grant.privilege() != Some(onbeat_host::thread::Privilege::RealTimePriority) || keeps_the_cpu
}

/// Returns the request for a thread on the loop's CPU: below the loop's priority, above ordinary
/// threads if possible.
pub(super) fn below_the_loop(plan: &InjectionPlan) -> ThreadRequest {
    let fifo = (plan.target.priority > 1).then_some(1);
    ThreadRequest { fifo, cpu: Some(plan.target.cpu), ..ThreadRequest::default() }
}

/// Returns another CPU that this process may use.
pub(super) fn other_cpu(cpu: u32) -> Option<u32> {
    let cpus = sched_getaffinity(None).ok()?;
    let mut all = 0..u32::try_from(rustix::thread::CpuSet::MAX_CPU).unwrap_or(0);
    all.rfind(|&other| other != cpu && cpus.is_set(other as usize))
}

#[allow(clippy::cast_possible_wrap)]
pub(super) const fn timespec(instant: Instant) -> Timespec {
    let ns = instant.as_ns();
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}

pub(super) fn sleep_until(instant: Instant) {
    // Signals are blocked in these threads. If one ended the sleep, the polling would take longer.
    let _ = Monotonic.sleep_until(instant);
    busy_until(instant);
}

/// Polls the clock until `instant` and returns the last reading.
pub(super) fn busy_until(instant: Instant) -> Instant {
    loop {
        let now = Monotonic.now();
        if now >= instant {
            return now;
        }
        std::hint::spin_loop();
    }
}

/// Measures the length of a disturbance. The loop may preempt the thread at the end; its cycle is
/// not part of the disturbance.
pub(super) struct DisturbanceTimer {
    from: Instant,
    cpu_ns: u64,
}

impl DisturbanceTimer {
    pub(super) fn begin() -> Self {
        let cpu_ns = thread_cpu_ns();
        Self { from: Monotonic.now(), cpu_ns }
    }

    /// Returns the start and the length, without the time of other threads at the end. `least_ns`
    /// is the calibrated minimum: on some kernels the CPU clock excludes interrupts
    /// (`CONFIG_IRQ_TIME_ACCOUNTING`) and steal time.
    pub(super) fn end(self, least_ns: u64) -> (Instant, u64) {
        let wall_ns = Monotonic.now().ns_since(self.from);
        let cpu_ns = thread_cpu_ns() - self.cpu_ns;
        (self.from, wall_ns.min(cpu_ns.max(least_ns)))
    }
}

/// Returns the shortest of `runs` runs of `work`, in nanoseconds.
pub(super) fn shortest_ns(runs: u32, mut work: impl FnMut()) -> u64 {
    let one = |_| {
        let from = Monotonic.now();
        work();
        Monotonic.now().ns_since(from)
    };
    (0..runs).map(one).min().unwrap_or(0)
}
