//! Determines where a thread was while the loop waited: in a system call, in user code, or in the
//! kernel as a kernel thread.

use super::{Judge, ORDINARY_STEP_NS};
use crate::event::{KernelEvent, Thread, TraceEvent};
use crate::timeline::{CpuActivity, LoopSpan};
use onbeat_rt::Instant;

/// Where a thread was executing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadMode {
    /// In a system call.
    Syscall(i64),
    /// In user code, which can disable neither interrupts nor preemption.
    User,
    /// In the kernel, as a kernel thread.
    Kernel,
    Unknown,
}

/// A CPU with interrupts enabled delivers a pending interrupt within this time, in nanoseconds.
// An open CPU takes a pending interrupt at the next instruction. Ten microseconds are many of them,
// also in a guest.
const DELIVERED_WITHIN_NS: u64 = 10_000;
/// No ordinary thread keeps the CPU from another one for longer, in nanoseconds; a time slice is
/// about 3 ms and ends at a tick.
// A tick lets the scheduler choose, but it lets a thread have its whole slice first; a wait beyond
// this had several ticks at any HZ.
const LONGEST_TURN_NS: u64 = 20_000_000;

impl Judge<'_> {
    /// Returns where a thread was at `at`. Sources, in this order: the last system call event
    /// before, the next one after, the reading at the loop's wake-up, the reading when the thread
    /// yielded to the loop, the way it yielded to the thread of the loop's timer.
    pub(super) fn mode(&self, thread: &Thread, cpu: Option<u32>, at: Instant) -> ThreadMode {
        let of_thread = |event: &&&&TraceEvent| event.tid == thread.tid;
        let mode_before = |event: &&TraceEvent| match event.what {
            KernelEvent::SyscallEnter { number } => Some(ThreadMode::Syscall(number)),
            KernelEvent::SyscallExit { .. } => Some(ThreadMode::User),
            _ => None,
        };

        let mode_after = |event: &&TraceEvent| match event.what {
            KernelEvent::SyscallEnter { .. } => Some(ThreadMode::User),
            KernelEvent::SyscallExit { number, .. } => Some(ThreadMode::Syscall(number)),
            _ => None,
        };

        // The nearest evidence before the instant decides; what comes later tells the same from the
        // other side: the exit of a call says that it was in it.
        let split = self.events.partition_point(|event| event.at < at);
        let (before, after) = self.events.split_at(split);
        let before = before.iter().rev().filter(|event| of_thread(&event)).find_map(mode_before);
        let after = || after.iter().filter(|event| of_thread(&event)).find_map(mode_after);
        let when_leaving = || self.call_when_leaving(thread, cpu, at).map(ThreadMode::Syscall);
        let mode = before
            .or_else(after)
            .or_else(|| self.mode_when_interrupted(thread))
            .or_else(when_leaving)
            .or_else(|| self.mode_before_timers(thread));
        mode.unwrap_or(ThreadMode::Unknown)
    }

    /// Returns where `thread` was when the loop's wake-up interrupted it; `None` if another thread
    /// was interrupted.
    pub(super) fn mode_when_interrupted(&self, thread: &Thread) -> Option<ThreadMode> {
        let reading =
            self.counters.interrupted(self.facts.tid, self.facts.expiry, self.facts.start)?;
        // The reading at the loop's wake-up knows the thread that was interrupted, and no other.
        if reading.prev != thread.tid {
            return None;
        }

        Some(match reading.prev_syscall {
            Some(number) => ThreadMode::Syscall(number),
            None if reading.prev_in_user => ThreadMode::User,
            // On architectures where user registers can be read, kernel threads have none.
            None if cfg!(target_arch = "x86_64") => ThreadMode::Kernel,
            None => ThreadMode::Unknown,
        })
    }

    /// Whether the loop's wake-up found this thread in user code.
    pub(super) fn was_in_user_code(&self, thread: &Thread) -> bool {
        self.mode_when_interrupted(thread) == Some(ThreadMode::User)
    }

    /// Returns the system call in which the thread yielded to the loop, or to the thread that wakes
    /// it. A thread in user code at
    /// that time may have been in a call before.
    fn call_when_leaving(&self, thread: &Thread, cpu: Option<u32>, at: Instant) -> Option<i64> {
        let (left, runnable, next) = self.events.iter().find_map(|event| match event.what {
            KernelEvent::Switch { prev, prev_state, next }
                if prev.tid == thread.tid && event.at >= at =>
            {
                Some((event.at, prev_state.is_runnable(), next.tid))
            }
            _ => None,
        })?;

        // Preempted for the loop, or for the thread in which its timer expires: only then is the
        // call of that moment the one that mattered.
        let is_wake_up = next == self.facts.tid
            || self.timer_thread.as_ref().is_some_and(|timers| next == timers.thread.tid);
        if !runnable || !is_wake_up {
            return None;
        }

        let from = left.minus_ns(ORDINARY_STEP_NS);
        let to = left.plus_ns(ORDINARY_STEP_NS);
        self.counters
            .between(cpu, from, to)
            .find(|reading| reading.prev == thread.tid)?
            .prev_syscall
    }

    /// Whether the CPU left an interrupt or switched threads after the timer was due and well
    /// before its interrupt. Then interrupts were enabled and the timer's was not pending.
    pub(super) fn was_open_after_expiry(&self, cpu: Option<u32>) -> bool {
        // Without the timer's interrupt there is no interval in which the CPU can be shown to have
        // been open.
        let Some(came) = self.timers_interrupt() else { return false };
        let slices = self.timeline.between(cpu, self.facts.expiry, came);
        let Some([before, last]) = slices.last_chunk() else { return false };
        // A slice after a hole proves nothing: what happened in the hole may have ended it.
        let was_seen = !matches!(before.doing, CpuActivity::Unknown | CpuActivity::Idle(_));
        let is_open = matches!(last.doing, CpuActivity::Thread(_) | CpuActivity::Idle(_));
        let is_after = last.from.ns_since(self.facts.expiry) > DELIVERED_WITHIN_NS;

        was_seen && is_open && is_after && last.to.ns_since(last.from) > DELIVERED_WITHIN_NS
    }

    /// Returns the system call that delayed an ordinary loop from its wake-up to its switch, as a
    /// kernel section does: one thread ran all the time, it was in the same call at both ends, and
    /// the scheduler had no tick at which it could switch. A thread that left its call would have
    /// been preempted on the way to user code.
    pub(super) fn held_in_one_call(&self, thread: &Thread, span: &LoopSpan) -> Option<i64> {
        if self.is_real_time() || thread.is_real_time() {
            return None;
        }

        let near = |at: Instant| (at.minus_ns(ORDINARY_STEP_NS), at.plus_ns(ORDINARY_STEP_NS));
        let (from, to) = near(span.from);
        // In the same call at both ends, and nothing in between at which the scheduler could have
        // chosen: then the thread was in the kernel all the time.
        let at_wakeup = self.counters.interrupted(self.facts.tid, from, to)?;
        let (from, to) = near(span.to);
        let left = |next: u32, prev: u32| next == self.facts.tid && prev == thread.tid;
        let when_leaving = self
            .counters
            .between(span.cpu, from, to)
            .find(|reading| left(reading.next, reading.prev))?
            .prev_syscall?;
        let is_same = at_wakeup.prev == thread.tid && at_wakeup.prev_syscall == Some(when_leaving);
        let within = |event: &&&TraceEvent| {
            Some(event.cpu) == span.cpu && event.at > span.from && event.at < span.to
        };
        let is_one_turn = span.to.ns_since(span.from) < LONGEST_TURN_NS;
        let chose = |event: &&TraceEvent| match event.what {
            KernelEvent::Switch { .. } => true,
            what => is_one_turn && what.begins_timer_interrupt(),
        };

        let could_choose = self.events.iter().filter(within).any(chose);
        (is_same && !could_choose).then_some(when_leaving)
    }
}
