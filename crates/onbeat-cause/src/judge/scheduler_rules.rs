//! Rules of the scheduler that hold a loop back: RT throttling, the fair server of Linux 6.12 and
//! later, CPU quotas.

use onbeat_rt::Instant;

use super::policy_change::{ORDINARY_PRIO, PolicyChange};
use super::{IDLE_HOLD_NS, Judge, ORDINARY_STEP_NS};
use crate::event::{KernelEvent, Thread};
use crate::kind::{CauseKind, Culprit};
use crate::timeline::{CpuActivity, LoopSpan};

/// A timer function that ends a hold runs at most this time before the loop does, in nanoseconds.
// The period's timer unthrottles the run queues one after the other, and the loop is chosen at the
// next switch.
const RESUMED_WITHIN_NS: u64 = 300_000;
/// Shorter waits without any switch are no hold, in nanoseconds.
// By default the rules take 50 ms of a second. A hold of a millisecond is something else.
const LEAST_HOLD_NS: u64 = 2_000_000;

/// A hold: the scheduler let others run although the loop was runnable. Has its start, the rule and
/// the evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SchedulerHold {
    pub(super) from: Instant,
    pub(super) kind: CauseKind,
    pub(super) evidence: String,
    /// The real-time thread that used up the time of all.
    pub(super) culprit: Option<Culprit>,
}

impl Judge<'_> {
    /// Whether the throttling flag was set when the loop was woken or switched.
    fn was_throttled(&self, span: &LoopSpan) -> bool {
        let from = span.from.minus_ns(ORDINARY_STEP_NS);
        let to = span.to;
        let at_waking = self.counters.interrupted(self.facts.tid, from, to).into_iter();
        // The flag may be set while the loop waits, and cleared before it runs: each reading in
        // between is asked.
        let at_switches = self.counters.between(span.cpu, span.from, span.to);
        at_waking.chain(at_switches).any(|reading| reading.rt_throttled == Some(true))
    }

    /// Returns the hold in a span in which the loop was runnable, if there is one.
    pub(super) fn scheduler_hold(
        &self,
        span: &LoopSpan,
        changed: Option<&PolicyChange>,
    ) -> Option<SchedulerHold> {
        if !self.is_real_time() || changed.is_some_and(PolicyChange::is_ordinary) {
            return self.quota(span);
        }

        if self.facts.prio < 0 {
            return self.used_up(span);
        }

        let throttled = self.was_throttled(span);
        // Since Linux 6.12 the run queue says which server chose the thread that runs.
        let served = self
            .counters
            .between(span.cpu, span.from, span.to)
            .find(|reading| reading.by_fair_server == Some(true));
        let long = span.to.ns_since(span.from) >= LEAST_HOLD_NS;
        // A waker on another CPU leaves the loop to a CPU that is about to idle, which an interrupt
        // has to wake first.
        let other_chosen = self.other_chosen(span).filter(|(_, idles)| !idles || long);
        let let_on = self.timer_ran(
            "sched_rt_period_timer",
            span.to.minus_ns(RESUMED_WITHIN_NS),
            span.to,
            None,
        );
        // The hold may have begun before the loop was woken: another real-time thread was waiting
        // already, and was not chosen.
        let set_aside = self.set_aside_before(span);
        let from = match other_chosen {
            _ if set_aside.is_some() => span.from,
            Some((at, _)) => at,
            None if throttled || let_on && long => span.from,
            None => return None,
        };

        // From the surest evidence to the weakest: a flag of the kernel, the server's own mark, a
        // CPU that idled, the timers of the two rules, and last what only one of the rules of this
        // kernel can do.
        let (kind, evidence) = if throttled {
            (CauseKind::RtThrottling, "the run queue's rt_throttled flag was set")
        } else if served.is_some() {
            (CauseKind::FairServer, "the thread that ran was chosen by the fair server")
        } else if let Some((kind, evidence)) = set_aside {
            (kind, evidence)
        } else if other_chosen.is_some_and(|(_, idle)| idle) {
            (CauseKind::RtThrottling, "the CPU idled while the loop wanted to run")
        } else if let_on {
            (CauseKind::RtThrottling, "the throttling period's timer let it on again")
        } else if self.timer_ran("dl_task_timer", from.minus_ns(RESUMED_WITHIN_NS), from, span.cpu)
        {
            (CauseKind::FairServer, "the fair server's timer fired just before")
        } else if self.counters.has_fair_server {
            (
                CauseKind::FairServer,
                "an ordinary thread was chosen while the loop wanted to run; this kernel has a fair server",
            )
        } else {
            (
                CauseKind::RtThrottling,
                "an ordinary thread was chosen while the loop wanted to run; this kernel has no fair server",
            )
        };

        Some(self.with_the_budget(
            SchedulerHold { from, kind, evidence: evidence.to_owned(), culprit: None },
            span.cpu,
        ))
    }

    /// Returns the hold of a `SCHED_DEADLINE` loop. The rules are for other threads: it is passed
    /// over when its own runtime is used up, which no event shows.
    fn used_up(&self, span: &LoopSpan) -> Option<SchedulerHold> {
        let (from, _) = self.other_chosen(span)?;
        let evidence = "another thread was chosen while the loop wanted to run: its runtime of SCHED_DEADLINE may have been used up";
        let evidence = evidence.to_owned();
        Some(SchedulerHold { from, kind: CauseKind::Unexplained, evidence, culprit: None })
    }

    /// Returns the hold of an ordinary loop by a CPU quota: the kernel counted at least half of the
    /// wait. If the kernel does not count, the CPU must have gone idle while the loop was runnable;
    /// a CPU that was idle already may just be slow to wake.
    fn quota(&self, span: &LoopSpan) -> Option<SchedulerHold> {
        let waited_ns = span.to.ns_since(span.from);
        let hold = |from, evidence| {
            Some(SchedulerHold { from, kind: CauseKind::CpuQuota, evidence, culprit: None })
        };
        match self.counters.throttled_ns {
            // The account is of the whole cgroup, and grows for its other threads as well: it must
            // cover at least half of this wait.
            Some(ns) if ns > 0 && ns >= waited_ns / 2 && waited_ns >= LEAST_HOLD_NS => {
                let ms = ns as f64 / 1e6;
                hold(
                    span.from,
                    format!("the loop's cgroup was throttled for {ms:.1} ms meanwhile (cpu.stat)"),
                )
            }
            Some(_) => None,
            // The CPU may have been about to idle, as in `scheduler_hold`.
            None if waited_ns < LEAST_HOLD_NS => None,
            None => {
                let (from, _) = self.other_chosen(span).filter(|(_, idles)| *idles)?;
                hold(from, "the CPU went idle while the loop wanted to run".to_owned())
            }
        }
    }

    /// Returns the rule that was in force already when the loop woke: an ordinary thread had the
    /// CPU, or it was idle, although another real-time thread was runnable there.
    fn set_aside_before(&self, span: &LoopSpan) -> Option<(CauseKind, &'static str)> {
        let split = self.events.partition_point(|event| event.at <= span.from);
        let mut runs: Option<Thread> = None;
        // Read backwards: a thread that was seen running or moved later than this event does not
        // wait at the span's beginning.
        let mut gone: Vec<u32> = vec![self.facts.tid];
        let waited = self.events[..split].iter().rev().any(|event| match event.what {
            KernelEvent::Switch { prev, prev_state, next } if Some(event.cpu) == span.cpu => {
                runs.get_or_insert(next);
                gone.push(next.tid);
                let is_real_time = prev.prio < ORDINARY_PRIO && !prev.is_idle();
                // It left the CPU although it could have gone on, and nobody of real time took its
                // place.
                let waits = is_real_time && prev_state.is_runnable() && prev_state.was_seen();
                let waits = waits && !gone.contains(&prev.tid);
                gone.push(prev.tid);

                waits
            }
            // A thread that another CPU runs or has run since is not waiting here.
            KernelEvent::Switch { prev, next, .. } => {
                gone.extend([prev.tid, next.tid]);
                false
            }
            KernelEvent::Migrate { thread, .. } => {
                gone.push(thread.tid);
                false
            }
            _ => false,
        });

        let runs = runs.filter(|_| waited)?;
        if runs.is_idle() {
            Some((
                CauseKind::RtThrottling,
                "the CPU idled though another real-time thread wanted to run",
            ))
        } else if runs.prio < ORDINARY_PRIO {
            None
        } else if self.counters.has_fair_server {
            Some((
                CauseKind::FairServer,
                "an ordinary thread ran though another real-time one wanted to",
            ))
        } else {
            Some((
                CauseKind::RtThrottling,
                "an ordinary thread ran though another real-time one wanted to",
            ))
        }
    }

    /// Returns the first switch to a thread of lower priority although the loop is runnable, and
    /// whether the CPU idles in the span.
    fn other_chosen(&self, span: &LoopSpan) -> Option<(Instant, bool)> {
        let lower = |thread: Thread| {
            thread.tid != self.facts.tid && (thread.is_idle() || thread.prio > self.facts.prio)
        };
        let chosen = self.events.iter().find_map(|event| match event.what {
            KernelEvent::Switch { next, .. }
                if Some(event.cpu) == span.cpu && event.at >= span.from && event.at < span.to =>
            {
                lower(next).then_some(event.at)
            }
            _ => None,
        })?;

        let slices = self.timeline.between(span.cpu, chosen, span.to);
        let idle = slices.iter().filter(|slice| matches!(slice.doing, CpuActivity::Idle(_)));
        let idle_ns: u64 = idle.map(|slice| slice.to.ns_since(slice.from)).sum();
        Some((chosen, idle_ns > IDLE_HOLD_NS))
    }

    fn timer_ran(&self, name: &str, from: Instant, to: Instant, cpu: Option<u32>) -> bool {
        self.events.iter().any(|event| match event.what {
            KernelEvent::TimerExpireEntry { function, .. } => {
                event.at >= from
                    && event.at <= to
                    && cpu.is_none_or(|cpu| cpu == event.cpu)
                    && self.window.function(function) == Some(name)
            }
            _ => false,
        })
    }
}
