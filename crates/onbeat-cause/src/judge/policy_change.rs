//! A loop that no longer has the policy or priority that it was started with.

use onbeat_rt::Instant;

use super::{Judge, Judgement, ORDINARY_STEP_NS, named};
use crate::event::{KernelEvent, Thread};
use crate::kind::CauseKind;
use crate::timeline::{CpuActivity, LoopSpan, Slice};

/// Kernel priorities from here on belong to ordinary threads.
// MAX_RT_PRIO of the kernel: 0 to 99 are real-time, 100 to 139 ordinary, −1 a deadline.
pub(super) const ORDINARY_PRIO: i32 = 100;
/// The system calls that change the policy or the priority of another thread.
const CHANGING_CALLS: [i64; 4] = [
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_setpriority,
];

/// The loop's priority in a span, lower than the one it was started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PolicyChange {
    prio: i32,
    /// Policy and priority in words.
    words: String,
    evidence: String,
}

impl PolicyChange {
    pub(super) const fn is_ordinary(&self) -> bool {
        self.prio >= ORDINARY_PRIO
    }
}

impl Judge<'_> {
    /// Returns the changed policy of the loop in a span in which it was runnable. The events of its
    /// wake-up and its switches have its priority; where they do not, it is the one read when the
    /// spike was judged. A lent priority is never lower than a thread's own.
    pub(super) fn policy_change(&self, span: &LoopSpan) -> Option<PolicyChange> {
        // An ordinary loop has no policy to lose, and the nice value that it was started with is not known.
        if !self.is_real_time() {
            return None;
        }
        let now = self.counters.thread;
        let seen = self.prio_in(span);
        // The event has the priority at that instant. /proc is read after the spike, when it may
        // have been put back.
        let (prio, source) = match seen {
            Some(prio) => (prio, "the event of its wake-up"),
            None => (now?.prio, "/proc/TID/stat"),
        };
        // Raised, or lent by priority inheritance: neither makes a loop late.
        if prio <= self.facts.prio {
            return None;
        }

        // The policy's name only where it is surely of the same moment.
        let words = match now.filter(|now| now.prio == prio) {
            Some(now) => now.policy_words(),
            None if prio < ORDINARY_PRIO => format!("real-time priority {}", 99 - prio),
            None => "an ordinary policy".to_owned(),
        };
        let by = self.changer(span).map(|by| format!(", changed by {by}")).unwrap_or_default();
        let started = match self.facts.prio {
            ..0 => "SCHED_DEADLINE".to_owned(),
            prio => format!("real-time priority {}", 99 - prio),
        };
        let evidence =
            format!("the loop began with {started}; {source} shows kernel priority {prio}{by}");
        Some(PolicyChange { prio, words, evidence })
    }

    /// Returns the loop's priority in the last event of a span that has it. A switch that no
    /// record shows has none of its own.
    fn prio_in(&self, span: &LoopSpan) -> Option<i32> {
        // The events at both ends of the span are a step of the wake-up away from it.
        let from = span.from.minus_ns(ORDINARY_STEP_NS);
        let to = span.to.plus_ns(ORDINARY_STEP_NS);
        let own = |thread: Thread| (thread.tid == self.facts.tid).then_some(thread.prio);
        let inside = self.events.iter().filter(|event| event.at >= from && event.at <= to);
        let mut prios = inside.filter_map(|event| match event.what {
            KernelEvent::Waking { thread, .. } => own(thread),
            // A switch that was filled in for a lost one has a priority that nobody recorded.
            KernelEvent::Switch { prev, prev_state, next } if prev_state.was_seen() => {
                own(prev).or(own(next))
            }
            _ => None,
        });
        prios.next_back()
    }

    /// Returns the thread that was seen in a system call that changes policies, before the end of
    /// the span.
    fn changer(&self, span: &LoopSpan) -> Option<Thread> {
        let until: Instant = span.to;
        let mut before = self.events.iter().rev().filter(|event| event.at <= until);
        // The last call of its kind before the span ended. Who made an earlier one had his change
        // overwritten.
        let caller = before.find_map(|event| match event.what {
            KernelEvent::SyscallEnter { number } if CHANGING_CALLS.contains(&number) => {
                Some(event.tid)
            }
            _ => None,
        })?;
        self.thread_named(caller)
    }

    /// Judges a slice in which the loop was runnable with a changed policy: a thread ran that the
    /// loop's own priority would have preceded.
    pub(super) fn since_the_change(
        &self,
        slice: &Slice,
        change: &PolicyChange,
    ) -> Option<Judgement> {
        let CpuActivity::Thread(thread) = slice.doing else { return None };
        // Only what the loop would have preceded with its old priority is the change's doing.
        let is_another = thread.tid != self.facts.tid && thread.prio > self.facts.prio;
        is_another.then(|| {
            let remark = format!("{}; {thread} ran meanwhile", change.evidence);
            Judgement::new(CauseKind::PolicyChange).by(named(&change.words)).because(remark)
        })
    }
}
