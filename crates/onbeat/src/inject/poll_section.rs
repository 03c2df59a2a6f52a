//! `kernel_section`: a system call that keeps the loop's CPU inside the kernel.
//!
//! `poll(2)` checks all its descriptors in one pass without a scheduling point (`fs/select.c`,
//! `do_poll`), at about 45 ns each: 20,000 of them take about 0.9 ms. On kernels that preempt only
//! at scheduling points (`preempt=none`, `voluntary`) nothing else runs on the CPU during this
//! time. Unsuitable, because they have a scheduling point every few pages: reading /dev/zero and
//! /dev/urandom, unmapping and forking large mappings.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::actor::{Disturb, DisturbanceTimer, busy_until, shortest_ns};
use super::descriptor_limit::RaisedDescriptorLimit;
use super::error::Error;
use super::log::DisturbanceRecord;
use super::plan::{AimedRelease, InjectionPlan};
use onbeat_host::thread::ThreadRequest;

/// Time from the start of the call to the loop's wake-up, in nanoseconds.
const AHEAD_NS: u64 = 50_000;
/// Number of descriptors in the calibration calls.
const TRIAL: usize = 1000;
/// Minimum number of descriptors.
const LEAST: usize = 2000;
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// The disturber.
pub(super) struct PollSection {
    limit: RaisedDescriptorLimit,
    event: Option<OwnedFd>,
    descriptors: usize,
    calibrated_ns: u64,
}

impl PollSection {
    pub(super) fn new() -> Self {
        Self {
            limit: RaisedDescriptorLimit::raise(),
            event: None,
            descriptors: 0,
            calibrated_ns: 0,
        }
    }
}

impl Disturb for PollSection {
    fn prepare(&mut self, plan: &InjectionPlan) -> Result<(), Error> {
        let event = eventfd(0, EventfdFlags::CLOEXEC)
            .map_err(|why| plan.impossible(format!("no eventfd: {why}")))?;
        let trial_ns = shortest_ns(20, || poll_all(&event, TRIAL)).max(1);
        let wanted_ns = plan.for_ns + AHEAD_NS;
        let wanted = wanted_ns.saturating_mul(TRIAL as u64) / trial_ns;
        self.descriptors =
            usize::try_from(wanted).unwrap_or(usize::MAX).max(LEAST).min(self.limit.most());
        if self.descriptors < LEAST {
            let most = self.limit.most();
            return Err(plan.impossible(format!(
                "a process may have only {most} descriptors here (ulimit -Hn) and it takes {LEAST}; raise the hard limit"
            )));
        }

        self.calibrated_ns = shortest_ns(3, || poll_all(&event, self.descriptors));
        if !holds_the_cpu(&event, self.descriptors, plan.target.cpu) {
            return Err(plan.impossible(
                "this kernel preempts system calls (preempt=full or PREEMPT_RT), so none of them holds its CPU",
            ));
        }

        self.event = Some(event);
        Ok(())
    }

    fn disturb(&mut self, _: &InjectionPlan, aim: &AimedRelease) -> Option<DisturbanceRecord> {
        let event = self.event.as_ref()?;
        let mut list = list(event, self.descriptors);
        if busy_until(aim.wake_up.minus_ns(AHEAD_NS)) >= aim.wake_up {
            return None;
        }

        let timer = DisturbanceTimer::begin();
        // The result is known: nothing is ready.
        let _ = poll(&mut list, Some(&AT_ONCE));
        let (at, ns) = timer.end(self.calibrated_ns);
        Some(DisturbanceRecord { at, ns, figures: [self.descriptors as u64, 0] })
    }
}

fn list(event: &OwnedFd, descriptors: usize) -> Vec<PollFd<'_>> {
    (0..descriptors).map(|_| PollFd::new(event, PollFlags::IN)).collect()
}

fn poll_all(event: &OwnedFd, descriptors: usize) {
    let _ = poll(&mut list(event, descriptors), Some(&AT_ONCE));
}

/// Whether the call keeps a real-time thread on its CPU from running. Tested on another CPU than
/// the loop's; assumed if that is not possible, or without the privilege for real-time priorities.
fn holds_the_cpu(event: &OwnedFd, descriptors: usize, loop_cpu: u32) -> bool {
    let cpu = u32::try_from(rustix::thread::sched_getcpu()).unwrap_or(0);
    if cpu == loop_cpu {
        return true;
    }

    let witness = PreemptionWitness::default();
    thread::scope(|threads| {
        let stands = thread::Builder::new()
            .name("onbeat-witness".to_owned())
            .spawn_scoped(threads, || witness.stand(cpu));
        let Ok(thread) = stands else { return true };
        let mut list = list(event, descriptors);
        let mut shortest_ns = u64::MAX;
        // A busy machine may take long to start the witness.
        let end = Monotonic.now().plus_ns(500_000_000);

        while witness.woken.load(Ordering::Relaxed) < LOOKS
            && !thread.is_finished()
            && Monotonic.now() < end
        {
            let from = Monotonic.now();
            let _ = poll(&mut list, Some(&AT_ONCE));
            shortest_ns = shortest_ns.min(Monotonic.now().ns_since(from));
        }

        witness.over.store(true, Ordering::Relaxed);
        // Without its priority, the witness proves nothing.
        thread.join().ok().flatten().is_none_or(|late_ns| late_ns >= shortest_ns / 4)
    })
}

/// Number of sleeps of the witness.
const LOOKS: u64 = 40;

/// A real-time thread with short sleeps, which are late if a call holds its CPU.
#[derive(Default)]
struct PreemptionWitness {
    woken: AtomicU64,
    over: AtomicBool,
}

impl PreemptionWitness {
    /// Sleeps repeatedly and returns the longest lateness in nanoseconds; `None` without real-time
    /// priority or with fewer sleeps than needed.
    fn stand(&self, cpu: u32) -> Option<u64> {
        let grants = ThreadRequest { fifo: Some(2), cpu: Some(cpu), ..ThreadRequest::default() }
            .prepare_thread();
        if grants.iter().any(|grant| !grant.granted) {
            return None;
        }

        let mut longest_ns = 0;
        while !self.over.load(Ordering::Relaxed) {
            let wake_up = Monotonic.now().plus_ns(150_000);
            let _ = Monotonic.sleep_until(wake_up);
            longest_ns = longest_ns.max(Monotonic.now().ns_since(wake_up));
            self.woken.fetch_add(1, Ordering::Relaxed);
        }

        (self.woken.load(Ordering::Relaxed) >= LOOKS).then_some(longest_ns)
    }
}
