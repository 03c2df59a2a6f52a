//! Finds the cause when a loop sleeps unexpectedly: in its own work, for a page of memory, or
//! because it was frozen.

use onbeat_rt::Instant;

use super::counters::CounterReading;
use super::event::{KernelEvent, Thread};
use super::facts::ExpectedActivity;
use super::judge::{
    Judge, Judgement, ORDINARY_STEP_NS, frozen, named, syscall_name, thread_culprit,
};
use super::kind::CauseKind;
use super::timeline::{LoopSpan, Slice};

/// A page fault precedes the sleep for its page by at most this time, in nanoseconds.
const FAULTED_WITHIN_NS: u64 = 300_000;
/// A wake-up follows its timer's function within this time, in nanoseconds, unless the CPU itself
/// was stolen.
const FROZEN_NS: u64 = 200_000;

impl Judge<'_> {
    /// Whether the loop kept sleeping although its timer's function ran: only a freezer suppresses
    /// a wake-up.
    pub(super) fn is_frozen(&self, slice: &Slice, span: &LoopSpan) -> bool {
        self.fired.is_some_and(|(fired, _)| {
            slice.from >= fired
                && span.to.ns_since(fired) > FROZEN_NS
                && !self.is_on_its_way(fired, span)
                && !self.expires_still(fired, span)
        })
    }

    /// Whether the timer's interrupt was still running when the span ended: the wake-up comes
    /// shortly after the begin of its function.
    fn is_on_its_way(&self, fired: Instant, span: &LoopSpan) -> bool {
        self.interrupt_at(fired)
            .is_some_and(|entered| self.interrupt_at(span.to.minus_ns(1)) == Some(entered))
    }

    /// Judges a sleep in the loop's own work: for a lock, or for whatever the system call waits
    /// for.
    pub(super) fn while_waiting(&self, span: &LoopSpan) -> Judgement {
        let call = self.own_leaving(span).and_then(|reading| reading.prev_syscall);
        if self.was_taken_from_user_code(span) {
            return frozen("it was put to sleep in user code, where it had called nothing");
        }

        let waker = self.waker(span);
        if call == Some(libc::SYS_futex) {
            let kept_off = waker.and_then(|holder| self.kept_off(holder.tid, span));
            let remark = kept_off.map_or_else(
                || "the loop slept in futex until the holder let go".to_owned(),
                |other| format!("the loop slept in futex, and {other} kept the holder off its CPU"),
            );
            let holder = waker.map(|holder| thread_culprit(&holder, None));
            return Judgement::new(CauseKind::LockWait).by(holder).because(remark);
        }

        let by = waker.map_or_else(|| "an interrupt".to_owned(), |waker| waker.to_string());
        let call = call.map(|number| named(&syscall_name(number)));
        Judgement::new(CauseKind::OwnWait)
            .by(call)
            .because(format!("the loop slept in its own work until {by} woke it"))
    }

    /// Returns the thread that woke the loop at the end of a span; `None` for an interrupt.
    fn waker(&self, span: &LoopSpan) -> Option<Thread> {
        let tid = self.events.iter().rev().find_map(|event| match event.what {
            KernelEvent::Waking { thread, .. }
                if thread.tid == self.facts.tid && event.at <= span.to =>
            {
                Some(event.tid)
            }
            _ => None,
        });

        tid.filter(|tid| *tid != 0).and_then(|tid| self.thread_named(tid))
    }

    /// Returns the thread that held a lock of the kernel for which the loop waited: it woke the
    /// loop, and ran meanwhile at the loop's priority, which is above its own. Only a wait for a
    /// lock lends a priority (PREEMPT_RT, `kernel/locking/rtmutex.c`).
    fn kernel_lock_holder(&self, span: &LoopSpan) -> Option<Thread> {
        let waker = self.waker(span)?;
        let switches = self.events.iter().filter_map(|event| match event.what {
            KernelEvent::Switch { prev, next, .. } => Some((event.at, prev, next)),
            _ => None,
        });
        let in_span = |at: Instant| at >= span.from && at <= span.to;
        let loops_prio = switches
            .clone()
            .find_map(|(_, prev, _)| (prev.tid == self.facts.tid).then_some(prev.prio))?;

        let mut lent = false;
        let mut own = None;
        for (at, prev, next) in switches {
            for thread in [prev, next].into_iter().filter(|thread| thread.tid == waker.tid) {
                lent |= thread.prio <= loops_prio && in_span(at);
                own = own.or((thread.prio > loops_prio).then_some(thread));
            }
        }
        own.filter(|_| lent)
    }

    /// Returns the reading of the loop when it left its CPU at the start of this span.
    fn own_leaving(&self, span: &LoopSpan) -> Option<&CounterReading> {
        let from = span.from.minus_ns(ORDINARY_STEP_NS);
        let to = span.from.plus_ns(ORDINARY_STEP_NS);
        self.counters.between(span.cpu, from, to).find(|reading| reading.prev == self.facts.tid)
    }

    /// Whether the loop was taken off its CPU in user code, without a system call or a page fault,
    /// as a freezer does.
    fn was_taken_from_user_code(&self, span: &LoopSpan) -> bool {
        let in_user = self.own_leaving(span).is_some_and(|reading| reading.prev_in_user);
        in_user && !self.had_faulted(span) && span.to.ns_since(span.from) > FROZEN_NS
    }

    fn had_faulted(&self, span: &LoopSpan) -> bool {
        let before = self.own_events(span.from.minus_ns(FAULTED_WITHIN_NS), span.from);
        before.filter(|event| matches!(event.what, KernelEvent::PageFault { .. })).count() > 0
    }

    /// Returns the thread that preempted thread `tid` in this span.
    fn kept_off(&self, tid: u32, span: &LoopSpan) -> Option<Thread> {
        self.events.iter().find_map(|event| match event.what {
            KernelEvent::Switch { prev, prev_state, next }
                if prev.tid == tid && event.at >= span.from && event.at < span.to =>
            {
                prev_state.is_runnable().then_some(next)
            }
            _ => None,
        })
    }

    /// Judges an uninterruptible wait inside the kernel (state D): for a page, in a system call of
    /// the loop's work, or frozen.
    pub(super) fn while_blocked(
        &self,
        slice: &Slice,
        span: &LoopSpan,
        part: ExpectedActivity,
    ) -> Judgement {
        if self.had_faulted(span) {
            return Judgement::new(CauseKind::PageFault)
                .because("the page had to be read from a device");
        }

        if part == ExpectedActivity::WakeUp && self.is_frozen(slice, span) {
            return frozen("its timer had fired, and nothing woke it");
        }
        if self.was_taken_from_user_code(span) {
            return frozen(
                "it was taken off its CPU in user code (state D), and no page fault shows why",
            );
        }

        let call = self.own_leaving(span).and_then(|reading| reading.prev_syscall);
        if let Some(holder) = self.kernel_lock_holder(span) {
            let call = call.map_or_else(|| "the kernel".to_owned(), syscall_name);
            let remark = format!(
                "the loop waited in {call} for a lock of the kernel, and {holder} ran at the loop's priority until it let go"
            );
            return Judgement::new(CauseKind::LockWait)
                .by(Some(thread_culprit(&holder, None)))
                .because(remark);
        }

        match call.filter(|_| part != ExpectedActivity::WakeUp) {
            Some(number) => {
                let remark = "the loop waited inside the kernel (state D)".to_owned();
                Judgement::new(CauseKind::OwnWait).by(named(&syscall_name(number))).because(remark)
            }
            None => {
                let remark = "the loop waited inside the kernel (state D); neither a page fault nor a call shows why";
                Judgement::new(CauseKind::Unexplained).because(remark.to_owned())
            }
        }
    }
}
