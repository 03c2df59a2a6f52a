//! The thread in which the timers of ordinary threads expire on PREEMPT_RT.
//!
//! There the interrupt of a timer that belongs to an ordinary thread only wakes `ktimers/N`
//! (`SCHED_FIFO` 1), which calls the timer's function (`kernel/time/hrtimer.c`, `HRTIMER_SOFTIRQ`;
//! `kernel/softirq.c`, `run_ktimerd`). Whatever keeps that thread off its CPU delays the loop. Timers of
//! real-time threads expire in the interrupt.
//!
//! Tried with Debian's 6.12. Kernels without that thread use `ksoftirqd/N`, an ordinary thread; what
//! delays it is not looked for here.

use onbeat_rt::Instant;

use super::thread_mode::ThreadMode;
use super::{Judge, Judgement, ORDINARY_STEP_NS, thread_culprit};
use crate::event::{KernelEvent, Softirq, Thread};
use crate::kind::CauseKind;
use crate::timeline::{CpuActivity, LoopSpan, LoopState, Slice, loop_spans};

/// The softirq in which such timers expire.
// HRTIMER_SOFTIRQ, enum of include/linux/interrupt.h. With PREEMPT_RT timers of ordinary threads
// expire in it, in the thread ktimers/N.
const HRTIMER: Softirq = Softirq(8);

/// The thread in which the loop's timer expired, from the interrupt of that timer on.
pub(crate) struct TimerThread {
    pub(super) thread: Thread,
    /// Entry of the interrupt that woke it.
    pub(super) interrupt: Instant,
    /// Its states.
    spans: Vec<LoopSpan>,
}

impl TimerThread {
    fn state_at(&self, at: Instant) -> LoopState {
        let at_or_after = self.spans.iter().find(|span| span.to > at);
        at_or_after.map_or(LoopState::Unknown, |span| span.state)
    }
}

impl Judge<'_> {
    /// Finds the thread in which the loop's timer expired; `None` where it expired in an interrupt.
    pub(super) fn find_timer_thread(&self) -> Option<TimerThread> {
        // A timer that expired inside the timer's interrupt has no thread to wait for.
        let (fired, cpu) = self.fired.filter(|(fired, _)| self.interrupt_at(*fired).is_none())?;
        let expired_in = self.events.iter().find(|event| {
            let is_expiry = matches!(event.what, KernelEvent::TimerExpireEntry { .. });
            is_expiry && event.at == fired && event.cpu == cpu
        })?;
        let thread = self.thread_named(expired_in.tid).filter(Thread::is_real_time)?;

        // Another timer that expires first may have woken the thread before the loop's was due; no
        // interrupt comes for the loop's then (`softirq_activated`).
        let from = match self.was_woken_for_another(fired, cpu, thread.tid) {
            true => self.last_left(fired, &thread).unwrap_or(self.window.from),
            false => self.facts.expiry,
        };
        let interrupt = self.events.iter().find_map(|event| {
            // The interrupt that raised the softirq: from here on the timer had come, and its
            // thread waited for the CPU.
            let is_timers = event.what.begins_timer_interrupt();
            let is_due = event.at >= from && event.at < fired;
            (is_timers && is_due && event.cpu == cpu).then_some(event.at)
        })?;
        let spans = loop_spans(self.window, thread.tid, Some(cpu));
        Some(TimerThread { thread, interrupt, spans })
    }

    /// Whether the timer of another thread expired before the loop's in the same turn of the timers'
    /// thread.
    fn was_woken_for_another(&self, fired: Instant, cpu: u32, tid: u32) -> bool {
        let split = self.events.partition_point(|event| event.at < fired);
        let before = self.events[..split].iter().rev().filter(|event| event.cpu == cpu);
        before
            .take_while(|event| match event.what {
                KernelEvent::SoftirqEntry(softirq) => softirq != HRTIMER,
                KernelEvent::Switch { next, .. } => next.tid != tid,
                _ => true,
            })
            .any(|event| {
                event.tid == tid && matches!(event.what, KernelEvent::TimerExpireEntry { .. })
            })
    }

    /// Returns when the timers' thread had last left its CPU before `fired`, asleep.
    fn last_left(&self, fired: Instant, timers: &Thread) -> Option<Instant> {
        let split = self.events.partition_point(|event| event.at < fired);
        self.events[..split].iter().rev().find_map(|event| match event.what {
            KernelEvent::Switch { prev, prev_state, .. }
                if prev.tid == timers.tid && !prev_state.is_runnable() =>
            {
                Some(event.at)
            }
            _ => None,
        })
    }

    /// Returns where `thread` was when the interrupt of the loop's timer came, if it yielded to the
    /// timers' thread next: one that is preempted on the way back to user code is switched by
    /// another function than one in the kernel, and the event of the switch says by which.
    pub(super) fn mode_before_timers(&self, thread: &Thread) -> Option<ThreadMode> {
        let timers = self.timer_thread.as_ref()?;
        let (_, cpu) = self.fired?;
        let first = self.events.iter().find_map(|event| match event.what {
            KernelEvent::Switch { prev, prev_state, next }
                if event.at >= timers.interrupt && event.cpu == cpu =>
            {
                Some((prev, prev_state, next))
            }
            _ => None,
        });

        let (prev, state, next) = first?;
        let is_it = prev.tid == thread.tid && next.tid == timers.thread.tid && state.is_runnable();
        // The kernel marks a thread that it took off in kernel mode; one in user code goes with a
        // plain state R.
        let mode = if state.was_preempted() { ThreadMode::Kernel } else { ThreadMode::User };
        is_it.then_some(mode)
    }

    /// Whether the timer's function has not woken the loop yet, because its thread was kept off the
    /// CPU: the thread does so itself in the end, in the same softirq.
    pub(crate) fn expires_still(&self, fired: Instant, span: &LoopSpan) -> bool {
        let Some(timers) = &self.timer_thread else { return false };
        let until_woken = self.events.iter().filter(|event| {
            event.tid == timers.thread.tid && event.at >= fired && event.at <= span.to
        });
        let mut woke = false;
        for event in until_woken {
            match event.what {
                // The softirq ended without having woken the loop: the wake-up is not on its way
                // any more.
                KernelEvent::SoftirqExit(_) if !woke => return false,
                KernelEvent::Waking { thread, .. } => woke |= thread.tid == self.facts.tid,
                _ => {}
            }
        }
        woke
    }

    /// Judges a slice between the timer's interrupt and the loop's wake-up; `None` outside it, and
    /// where no thread was needed. It is the timer's thread that waits.
    pub(super) fn while_timer_thread_waits(&self, slice: &Slice) -> Option<Judgement> {
        let timers = self.timer_thread.as_ref().filter(|timers| slice.from >= timers.interrupt)?;
        match slice.doing {
            // Expiring timers is the path of the wake-up on these kernels, as the interrupt handler
            // is on others.
            CpuActivity::Softirq(HRTIMER) => return Some(Judgement::new(CauseKind::WakeUpPath)),
            CpuActivity::TimerFunction { timer, function }
                if slice.interrupt.is_none() && !self.is_the_loops(timer) =>
            {
                let others = self.timer_culprit(function);
                return Some(Judgement::new(CauseKind::Softirq).by(others));
            }
            _ => {}
        }
        if let Some(interrupted) = self.interrupted(slice) {
            return Some(interrupted);
        }

        let waits = format!(
            "the timers of ordinary threads expire in {} on this kernel, which waited for the CPU",
            timers.thread
        );
        Some(match slice.doing {
            CpuActivity::Thread(thread) if thread.tid == timers.thread.tid => {
                Judgement::new(CauseKind::WakeUpPath)
            }
            // The softirq's own lock, which a preempted thread holds: with PREEMPT_RT
            // local_bh_disable() is a lock that may sleep.
            CpuActivity::Thread(thread) if timers.state_at(slice.from) == LoopState::Blocked => {
                let remark = format!("{} waited for a lock of the kernel", timers.thread);
                Judgement::new(CauseKind::LockWait)
                    .by(thread_culprit(&thread, None))
                    .because(remark)
            }
            CpuActivity::Thread(thread) if thread.prio <= timers.thread.prio => {
                Judgement::new(CauseKind::Preempted)
                    .by(thread_culprit(&thread, None))
                    .because(waits)
            }
            CpuActivity::Thread(thread) => {
                self.not_let_go(slice, &thread, self.fired.map(|(_, cpu)| cpu))
            }
            _ => Judgement::new(CauseKind::WakeUpPath),
        })
    }

    /// Whether the timer's thread, which has woken the loop, is on its way off the CPU. It is above
    /// an ordinary loop, but what it does after a wake-up is a step of every wake-up.
    pub(super) fn is_timer_threads_last_step(&self, slice: &Slice, span: &LoopSpan) -> bool {
        let Some(timers) = &self.timer_thread else { return false };
        let is_its_own = match slice.doing {
            CpuActivity::Thread(thread) => thread.tid == timers.thread.tid,
            CpuActivity::Softirq(softirq) => softirq == HRTIMER,
            _ => false,
        };
        is_its_own && slice.to.ns_since(span.from) <= ORDINARY_STEP_NS
    }
}
