//! `equal_priority_hog`, `higher_priority_hog`, `ordinary_hog`, `deadline_hog`: threads that are
//! already running when the loop wakes.
//!
//! - `equal_priority_hog`: threads of equal `SCHED_FIFO` priority do not preempt each other
//!   (sched(7)), so the loop waits until the hog sleeps. `higher_priority_hog` has a priority one
//!   above the loop's.
//! - `ordinary_hog`: the scheduler lets an ordinary thread finish a part of its slice before
//!   another one gets the CPU (`kernel/sched/fair.c`, `protect_slice`). If the hog was preempted,
//!   nothing is logged.
//! - `deadline_hog`: `SCHED_DEADLINE` precedes every priority. Its affinity must span the root
//!   domain, so the thread moves to the loop's CPU first and is allowed all CPUs afterwards; it
//!   stays there unless the scheduler pushes it away.

use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

use super::actor::{Disturb, apply_request, below_the_loop, busy_until};
use super::error::Error;
use super::fault::Fault;
use super::log::DisturbanceRecord;
use super::plan::{AimedRelease, InjectionPlan};
use onbeat_host::machine::online_cpus;
use onbeat_host::thread::{ThreadRequest, Usage, run_by_deadline, thread_cpu_ns};

/// The disturber of the first three faults.
pub(super) struct CpuHog(pub(super) Fault);

impl Disturb for CpuHog {
    fn request(&self, plan: &InjectionPlan) -> ThreadRequest {
        let fifo = match self.0 {
            Fault::OrdinaryHog => None,
            Fault::HigherPriorityHog => Some(plan.target.priority + 1),
            _ => Some(plan.target.priority.max(1)),
        };
        ThreadRequest { fifo, cpu: Some(plan.target.cpu), ..ThreadRequest::default() }
    }

    fn prepare(&mut self, plan: &InjectionPlan) -> Result<(), Error> {
        match (self.0, plan.target.priority) {
            (Fault::EqualPriorityHog, 0) => Err(plan.impossible(
                "the loop has no real-time priority; ordinary_hog disturbs an ordinary loop",
            )),
            (Fault::HigherPriorityHog, 99) => Err(plan.impossible(
                "the loop has the highest priority, 99; equal_priority_hog disturbs it as well",
            )),
            (Fault::OrdinaryHog, priority @ 1..) => Err(plan.impossible(format!(
                "the loop has the real-time priority {priority}, and ordinary threads never \
                 keep it waiting"
            ))),
            _ => Ok(()),
        }
    }

    fn disturb(&mut self, _: &InjectionPlan, aim: &AimedRelease) -> Option<DisturbanceRecord> {
        let before = Usage::of_this_thread();
        let done = busy_for(aim)?;
        let left = Usage::of_this_thread().since(before).involuntary_switches;
        (self.0 != Fault::OrdinaryHog || left == 0).then_some(done)
    }
}

/// Polls the clock until the injection ends; `None` if it was too late.
fn busy_for(aim: &AimedRelease) -> Option<DisturbanceRecord> {
    let cpu_ns = thread_cpu_ns();
    let at = Monotonic.now();
    if at >= aim.wake_up {
        return None;
    }

    let end = busy_until(aim.until);
    Some(DisturbanceRecord { at, ns: end.ns_since(at), figures: [thread_cpu_ns() - cpu_ns, 0] })
}

/// Runtime of a deadline thread beyond the length of the injection, in nanoseconds.
const SPARE_NS: u64 = 2_000_000;

/// The disturber of `deadline_hog`.
#[derive(Default)]
pub(super) struct DeadlineHog;

impl Disturb for DeadlineHog {
    fn request(&self, plan: &InjectionPlan) -> ThreadRequest {
        ThreadRequest { fifo: None, ..below_the_loop(plan) }
    }

    fn prepare_in_place(&mut self, plan: &InjectionPlan) -> Result<(), Error> {
        let mut all = CpuSet::new();
        online_cpus().iter().for_each(|&cpu| all.set(cpu as usize));
        let runtime_ns = plan.for_ns + plan.lead_ns() + SPARE_NS;
        let made = sched_setaffinity(None, &all).map_err(std::io::Error::from);
        let made = made.and_then(|()| run_by_deadline(runtime_ns, plan.every_ns));
        made.map_err(|why| {
            plan.impossible(format!(
                "SCHED_DEADLINE with {runtime_ns} ns of every {} ns: {why}; it takes root (or CAP_SYS_NICE), all CPUs of the \
                 root domain and room for it (sched_rt_runtime_us)",
                plan.every_ns
            ))
        })
    }

    fn disturb(&mut self, plan: &InjectionPlan, aim: &AimedRelease) -> Option<DisturbanceRecord> {
        let is_here = || u32::try_from(sched_getcpu()) == Ok(plan.target.cpu);
        let done = if is_here() { busy_for(aim) } else { None };
        if !is_here() {
            apply_request(self.request(plan));
            // It was granted before. If it is refused now, the next disturbance is late and counted
            // as missed.
            let _ = self.prepare_in_place(plan);
            return None;
        }

        done
    }
}
