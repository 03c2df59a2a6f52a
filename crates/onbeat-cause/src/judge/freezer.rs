//! Evidence of a cgroup freezer. A wake-up that does not come is none: a page of memory, a debugger
//! and others make a thread wait as well.

use onbeat_rt::Instant;

use super::{Judge, ORDINARY_STEP_NS};
use crate::counters::ReadingTrigger;
use crate::timeline::{LoopSpan, LoopState, Slice};

/// A wake-up follows its timer's function within this time, in nanoseconds, unless the CPU itself
/// was stolen.
// Freezing and thawing go over a work item and a wake-up. A shorter wait is an ordinary delay,
// whatever a counter says.
const FROZEN_NS: u64 = 200_000;

impl Judge<'_> {
    /// Returns what shows that a freezer kept the loop in this span: the state of its thread, the
    /// time that the kernel counted, or the state of its cgroup together with a wake-up that did
    /// not come.
    pub(crate) fn freezer(&self, slice: &Slice, span: &LoopSpan) -> Option<String> {
        if self.was_in_the_freezer(span) {
            return Some("the kernel had the loop's thread in the freezer".to_owned());
        }

        let waited_ns = span.to.ns_since(span.from.max(self.facts.expiry));
        let counted = self.counters.freezer.frozen_ns;
        // The account is of the cgroup and not of the thread: other members may have been frozen
        // for longer. Half to twice the wait is taken for this one, a different length is
        // another's.
        let is_this_wait =
            |ns: &u64| waited_ns > FROZEN_NS && *ns >= waited_ns / 2 && *ns <= 2 * waited_ns;
        if let Some(ns) = counted.filter(is_this_wait) {
            let ms = ns as f64 / 1e6;
            return Some(format!(
                "the loop's cgroup was frozen for {ms:.1} ms (cgroup.stat.local)"
            ));
        }

        // A state that is read afterwards only says "now". It counts together with an event that
        // needs it: a timer that fired and woke nobody.
        let file = self.counters.freezer.frozen_now.as_ref()?;
        let is_held = self.is_not_woken(slice, span) || self.was_taken_from_user_code(span);
        is_held.then(|| format!("{file} said that the loop's cgroup is frozen"))
    }

    /// Whether the kernel had the thread in the freezer when it left its CPU at the start of this
    /// span, or when it was woken at its end.
    fn was_in_the_freezer(&self, span: &LoopSpan) -> bool {
        let near = |at: Instant, of: Instant| {
            at >= of.minus_ns(ORDINARY_STEP_NS) && at <= of.plus_ns(ORDINARY_STEP_NS)
        };
        let tid = self.facts.tid;
        self.counters.readings.iter().filter(|reading| reading.frozen == Some(true)).any(
            |reading| match reading.moment {
                // TASK_FROZEN is in the thread's state when it leaves its CPU, and still there when
                // it is woken out of it.
                ReadingTrigger::Switch => reading.prev == tid && near(reading.at, span.from),
                ReadingTrigger::Waking => reading.next == tid && near(reading.at, span.to),
            },
        )
    }

    /// Whether the loop kept sleeping although its timer's function ran. A freezer suppresses a
    /// wake-up; so does a debugger.
    pub(crate) fn is_not_woken(&self, slice: &Slice, span: &LoopSpan) -> bool {
        // A thread that is ready is held by the scheduler, not by the freezer.
        let sleeps = matches!(span.state, LoopState::Asleep | LoopState::Blocked);
        sleeps
            && self.fired.is_some_and(|(fired, _)| {
                slice.from >= fired
                    && span.to.ns_since(fired) > FROZEN_NS
                    // The timer's function may still be running: on a slow machine the wake-up it
                    // makes comes hundreds of microseconds after its entry.
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

    /// Whether the loop was taken off its CPU in user code, without a system call or a page fault,
    /// as a freezer does.
    pub(crate) fn was_taken_from_user_code(&self, span: &LoopSpan) -> bool {
        let in_user = self.own_leaving(span).is_some_and(|reading| reading.prev_in_user);
        // A thread leaves user code without a call for a fault, a preemption or a signal; the
        // freezer comes as one.
        in_user && !self.had_faulted(span) && span.to.ns_since(span.from) > FROZEN_NS
    }
}
