//! Finds the cause when a loop sleeps unexpectedly: in its own work, for a page of memory, or
//! because it was frozen.

use onbeat_rt::Instant;

use super::counters::CounterReading;
use super::event::{KernelEvent, Thread};
use super::facts::ExpectedActivity;
use super::inside::takes_no_memory;
use super::judge::{
    Judge, Judgement, ORDINARY_STEP_NS, between_cycles, frozen, syscall_name, thread_culprit,
};
use super::kind::CauseKind;
use super::timeline::{LoopSpan, Slice};

/// A page fault precedes the sleep for its page by at most this time, in nanoseconds.
// From the fault's event to leaving the CPU the kernel looks up the page and issues the read.
const FAULTED_WITHIN_NS: u64 = 300_000;

impl Judge<'_> {
    /// Judges a sleep in the loop's own work: for a lock, or for whatever the system call waits
    /// for.
    pub(super) fn while_waiting(&self, span: &LoopSpan) -> Judgement {
        if let Some(fault) = self.fault_around(span) {
            return fault;
        }
        let call = self.own_leaving(span).and_then(|reading| reading.prev_syscall);
        if self.was_taken_from_user_code(span) {
            return self.taken_from_user_code();
        }

        match call {
            Some(number) => self.while_in_call(number, span),
            None => {
                let waker = self.waker(span);
                if waker.is_none() && self.may_be_between_cycles(None, None, span) {
                    return between_cycles("a call that is not known");
                }
                let by = waker.map_or_else(|| "an interrupt".to_owned(), |it| it.to_string());
                Judgement::new(CauseKind::OwnWait)
                    .because(format!("the loop slept in its own work until {by} woke it"))
            }
        }
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
        // As recorded, and not as configured: priority inheritance may have raised the loop too.
        let loops_prio = switches
            .clone()
            .find_map(|(_, prev, _)| (prev.tid == self.facts.tid).then_some(prev.prio))?;

        let mut lent = false;
        let mut own = None;
        for (at, prev, next) in switches {
            for thread in [prev, next].into_iter().filter(|thread| thread.tid == waker.tid) {
                // A lower thread that runs at the loop's priority has it lent by an rt_mutex: it
                // holds what the loop waits for.
                lent |= thread.prio <= loops_prio && in_span(at);
                own = own.or((thread.prio > loops_prio).then_some(thread));
            }
        }
        own.filter(|_| lent)
    }

    /// Returns the reading of the loop when it left its CPU at the start of this span.
    pub(super) fn own_leaving(&self, span: &LoopSpan) -> Option<&CounterReading> {
        let from = span.from.minus_ns(ORDINARY_STEP_NS);
        let to = span.from.plus_ns(ORDINARY_STEP_NS);
        self.counters.between(span.cpu, from, to).find(|reading| reading.prev == self.facts.tid)
    }

    /// Whether a page fault preceded the sleep. The kernel may sleep several times for one fault:
    /// for the page's lock, and again for the page.
    pub(super) fn had_faulted(&self, span: &LoopSpan) -> bool {
        let mut from = span.from;
        loop {
            let mut before = self.own_events(from.minus_ns(FAULTED_WITHIN_NS), from);
            if before.any(|event| matches!(event.what, KernelEvent::PageFault { .. })) {
                return true;
            }

            // One fault may sleep several times: for a page table, for the read, for a lock of the
            // file.
            let earlier = self.sleeps().rev().find(|sleep| sleep.to <= from && sleep.from < from);
            match earlier.filter(|sleep| from.ns_since(sleep.to) <= FAULTED_WITHIN_NS) {
                Some(sleep) if sleep.from >= self.facts.expiry => from = sleep.from,
                _ => return false,
            }
        }
    }

    /// Judges a loop that left its CPU in user code, where it had called nothing, and no freezer
    /// shows why.
    fn taken_from_user_code(&self) -> Judgement {
        let faults = self.counters.thread.and_then(|thread| thread.major_faults);
        match faults {
            Some(faults @ 1..) => Judgement::new(CauseKind::PageFault).because(format!(
                "the thread left its CPU in user code, and the kernel counted {faults} of its page faults that waited for a device (majflt)"
            )),
            _ => Judgement::new(CauseKind::Unexplained).because(
                "the thread left its CPU in user code; no freezer, no page fault and no call shows why",
            ),
        }
    }

    /// Judges an uninterruptible wait inside the kernel (state D): for a page, in a system call of
    /// the loop's work, or frozen.
    pub(super) fn while_blocked(
        &self,
        slice: &Slice,
        span: &LoopSpan,
        part: ExpectedActivity,
    ) -> Judgement {
        if let Some(fault) = self.fault_around(span) {
            return fault;
        }
        let call = self.own_leaving(span).and_then(|reading| reading.prev_syscall);
        if !call.is_some_and(takes_no_memory) && self.had_faulted(span) {
            return Judgement::new(CauseKind::PageFault)
                .because("the page had to be read from a device");
        }

        if let Some(evidence) = self.freezer(slice, span) {
            return frozen(&evidence);
        }
        if self.was_taken_from_user_code(span) {
            return self.taken_from_user_code();
        }

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
                let judged = self.while_in_call(number, span);
                let remark = judged.remark.clone().unwrap_or_default();
                judged.because(format!("{remark} (state D)"))
            }
            None => {
                let remark = "the loop waited inside the kernel (state D); neither a page fault nor a call shows why";
                Judgement::new(CauseKind::Unexplained).because(remark.to_owned())
            }
        }
    }
}
