//! `interrupt_load` and `ipi_storm`: interrupts that take time on the loop's CPU.
//!
//! A timer interrupt processes all expired timers before it returns (`kernel/time/hrtimer.c`,
//! `hrtimer_interrupt`), at about 0.25 µs each: 4000 timers set to one instant make one interrupt
//! of about 1 ms.
//!
//! A storm is many short interrupts: `membarrier(2)` interrupts every CPU on which the process
//! runs. Each takes a few microseconds of that CPU, so a loop becomes slower rather than late.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};
use rustix::thread::{MembarrierCommand, membarrier};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::actor::{
    Disturb, DisturbanceTimer, below_the_loop, busy_until, other_cpu, sleep_until, timespec,
};
use super::descriptor_limit::RaisedDescriptorLimit;
use super::error::Error;
use super::injector_thread::InjectorThread;
use super::log::DisturbanceRecord;
use super::plan::{AimedRelease, InjectionPlan};
use onbeat_host::thread::ThreadRequest;

/// Time from the timers' expiry to the loop's wake-up, in nanoseconds.
const AHEAD_NS: u64 = 30_000;
/// Lower bound for the time of one timer in the interrupt, in nanoseconds.
const LEAST_EACH_NS: u64 = 100;
/// Number of timers in the calibration burst.
const TRIAL: usize = 500;
/// Upper bound for the time to set one timer, in nanoseconds.
const SETTING_NS: u64 = 4_000;
const LEAST: usize = 100;
/// Number of descriptors left for other uses.
const SPARE: usize = 256;

/// The disturber of `interrupt_load`.
pub(super) struct TimerBurst {
    descriptors: RaisedDescriptorLimit,
    timers: Vec<OwnedFd>,
    each_ns: u64,
}

impl TimerBurst {
    pub(super) fn new() -> Self {
        Self { descriptors: RaisedDescriptorLimit::raise(), timers: Vec::new(), each_ns: 1 }
    }

    fn grow_to(&mut self, timers: usize) {
        let most = timers.min(self.descriptors.most().saturating_sub(SPARE));
        while self.timers.len() < most {
            let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
            let Ok(timer) = timerfd_create(TimerfdClockId::Monotonic, flags) else { return };
            self.timers.push(timer);
        }
    }

    /// Sets all timers to `instant`, on the calling thread's CPU.
    fn set(&self, instant: Instant) {
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let setting = Itimerspec { it_interval: none, it_value: timespec(instant) };
        for timer in &self.timers {
            // The descriptor is a timer and the time is valid, so the kernel accepts it.
            let _ = timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &setting);
        }
    }

    /// Returns begin and length in nanoseconds of the time that the interrupt at `instant` takes
    /// from the calling thread.
    fn taken_ns(&self, instant: Instant, least_ns: u64) -> (Instant, u64) {
        busy_until(instant.minus_ns(AHEAD_NS));
        let end = instant.plus_ns(10_000_000);
        let mut longest = (instant, 0);
        let mut last = Monotonic.now();
        let mut timer = DisturbanceTimer::begin();
        while last < end {
            let now = Monotonic.now();
            if now.ns_since(last) > longest.1 {
                longest = (last, now.ns_since(last));
            }

            // First reading after the burst: by then all timers have expired.
            if now > instant.plus_ns(5_000) && longest.1 > least_ns / 4 {
                let (_, without_others_ns) = timer.end(least_ns);
                return (longest.0, longest.1.min(without_others_ns));
            }

            last = now;
            if now < instant.minus_ns(5_000) {
                timer = DisturbanceTimer::begin();
                last = Monotonic.now();
            }
        }

        longest
    }
}

impl Disturb for TimerBurst {
    fn prepare(&mut self, plan: &InjectionPlan) -> Result<(), Error> {
        self.grow_to(TRIAL);
        let had = self.timers.len();
        let trials = (0..5).map(|_| {
            let instant = Monotonic.now().plus_ns(had as u64 * SETTING_NS + 100_000);
            self.set(instant);
            self.taken_ns(instant, had as u64 * LEAST_EACH_NS).1
        });

        // The median: in one trial the burst may be missed, in another the hypervisor may steal the
        // CPU.
        let mut taken_ns: Vec<u64> = trials.collect();
        taken_ns.sort_unstable();
        self.each_ns = (taken_ns[2] / had.max(1) as u64).max(LEAST_EACH_NS);
        let wanted = (plan.for_ns + AHEAD_NS) / self.each_ns;
        self.grow_to(usize::try_from(wanted).unwrap_or(usize::MAX).max(LEAST));
        if self.timers.len() < LEAST {
            let most = self.descriptors.most();
            return Err(plan.impossible(format!(
                "a process may have only {most} descriptors here (ulimit -Hn) and it takes {LEAST} timers; raise the hard \
                 limit"
            )));
        }

        Ok(())
    }

    fn lead_ns(&self, plan: &InjectionPlan) -> u64 {
        plan.lead_ns() + self.timers.len() as u64 * SETTING_NS
    }

    fn disturb(&mut self, _: &InjectionPlan, aim: &AimedRelease) -> Option<DisturbanceRecord> {
        let instant = aim.wake_up.minus_ns(AHEAD_NS);
        self.set(instant);
        if Monotonic.now() >= instant.minus_ns(5_000) {
            return None;
        }

        let (at, ns) = self.taken_ns(instant, self.timers.len() as u64 * self.each_ns);
        Some(DisturbanceRecord { at, ns, figures: [self.timers.len() as u64, 0] })
    }
}

/// A thread that is busy on the loop's CPU on request, so that interrupts are sent there.
#[derive(Default)]
pub(super) struct Receiver {
    thread: Option<InjectorThread>,
    /// End of its busy time.
    busy_until_ns: Arc<AtomicU64>,
}

impl Receiver {
    /// Starts the thread and registers for sending interrupts to it.
    pub(super) fn prepare(&mut self, plan: &InjectionPlan) -> Result<(), Error> {
        if other_cpu(plan.target.cpu).is_none() {
            return Err(plan
                .impossible("it takes a second CPU that this process may use (taskset, cpuset)"));
        }

        membarrier(MembarrierCommand::RegisterPrivateExpedited).map_err(|why| {
            plan.impossible(format!(
                "membarrier: {why}; it takes Linux 4.14 with CONFIG_MEMBARRIER"
            ))
        })?;
        let busy_until_ns = self.busy_until_ns.clone();
        let body = move |over: &AtomicBool| {
            while !over.load(Ordering::Relaxed) {
                busy_until(Instant::from_ns(busy_until_ns.load(Ordering::Relaxed)));
                thread::park_timeout(Duration::from_secs(1));
            }
        };

        self.thread = Some(InjectorThread::start(below_the_loop(plan), body)?);
        Ok(())
    }

    /// Keeps the thread busy until `instant`.
    pub(super) fn be_busy_until(&self, instant: Instant) {
        self.busy_until_ns.store(instant.as_ns(), Ordering::Relaxed);
        self.thread.iter().for_each(InjectorThread::wake);
    }

    /// Sends one interrupt to the thread, and waits until it was handled.
    pub(super) fn interrupt() {
        // The process is registered, so the kernel accepts it.
        let _ = membarrier(MembarrierCommand::PrivateExpedited);
    }
}

/// The disturber of `ipi_storm`: sends interrupts from another CPU to a thread on the loop's CPU.
#[derive(Default)]
pub(super) struct IpiStorm(Receiver);

impl Disturb for IpiStorm {
    fn request(&self, plan: &InjectionPlan) -> ThreadRequest {
        ThreadRequest { cpu: other_cpu(plan.target.cpu), ..ThreadRequest::default() }
    }

    fn prepare(&mut self, plan: &InjectionPlan) -> Result<(), Error> {
        self.0.prepare(plan)
    }

    fn disturb(&mut self, plan: &InjectionPlan, aim: &AimedRelease) -> Option<DisturbanceRecord> {
        self.0.be_busy_until(aim.until);
        sleep_until(aim.wake_up.minus_ns(plan.lead_ns() / 2));
        let at = Monotonic.now();
        if at >= aim.wake_up {
            return None;
        }

        let mut sent = 0;
        let mut now = at;
        while now < aim.until {
            Receiver::interrupt();
            sent += 1;
            now = Monotonic.now();
        }

        Some(DisturbanceRecord { at, ns: now.ns_since(at), figures: [sent, 0] })
    }
}
