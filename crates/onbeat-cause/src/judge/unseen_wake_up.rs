//! A wake-up of the loop of which nothing was recorded.
//!
//! A kernel may run no program at its trace points while a certain thread has the CPU. Timer, wake-up
//! and switch to the loop are then missing, and the loop's next own event shows that they took place:
//!
//! ```text
//! loop   sleeps ──────────────────────────────────────────┬─ sets its timer
//! CPU    dd ──┬─ agent ─ ? timer ? wake-up ? switch ? ────┤
//!             last event                                  next event
//! ```
//!
//! The switch counts from the last event on (`window/missing_switches.rs`), but when the loop got its
//! CPU is not known, so the time between the two events is not its own. Observed on Linux 6.18 as a
//! guest, for the threads of its first process, in the kernel's own trace too.

use onbeat_rt::Instant;

use super::{Judgement, ORDINARY_STEP_NS};
use crate::event::{KernelEvent, Thread, TraceEvent};
use crate::facts::SpikeFacts;
use crate::kind::CauseKind;
use crate::timeline::Slice;

pub(super) struct UnseenWakeUp {
    from: Instant,
    to: Instant,
    /// The thread that was last seen on the CPU.
    before: Thread,
}

impl UnseenWakeUp {
    /// Returns the one that ends the wait before a spike, if it took longer than a wake-up does.
    pub(super) fn find(events: &[&TraceEvent], facts: &SpikeFacts) -> Option<Self> {
        let mut found = None;
        let mut is_woken = false;
        for event in events.iter().take_while(|event| event.at <= facts.end) {
            match event.what {
                KernelEvent::Switch { prev, .. } if prev.tid == facts.tid => is_woken = false,
                KernelEvent::Waking { thread, .. } if thread.tid == facts.tid => is_woken = true,
                KernelEvent::Switch { prev, prev_state, next } if next.tid == facts.tid => {
                    let is_unseen = !prev_state.was_seen() && !is_woken;
                    found = is_unseen.then_some((event.at, prev));
                }
                _ => {}
            }
        }

        let (from, before) = found?;
        let own = |event: &&&TraceEvent| event.tid == facts.tid && event.at > from;
        let to = events.iter().find(own).map_or(facts.start, |event| event.at.min(facts.start));
        (to > from && to.ns_since(from) > ORDINARY_STEP_NS).then_some(Self { from, to, before })
    }

    pub(super) fn judge(&self, slice: &Slice) -> Option<Judgement> {
        let is_inside = slice.from >= self.from && slice.to <= self.to;
        is_inside.then(|| {
            let Self { before, .. } = self;
            Judgement::new(CauseKind::Unexplained).because(format!(
                "no event shows who woke the loop and when it got its CPU; {before} was the last one seen there"
            ))
        })
    }
}
