//! The kernel's code that ran instead of the loop: work items, and what a late interrupt found.

use onbeat_rt::Instant;

use super::Judge;
use crate::event::{KernelEvent, TraceEvent};
use crate::kind::Culprit;

impl Judge<'_> {
    /// Adds the work item that a worker thread of the kernel executed before `at`.
    pub(super) fn with_work(&self, culprit: Culprit, at: Instant) -> Culprit {
        let is_worker = culprit.name.starts_with("kworker/") && culprit.work.is_none();
        let Some(tid) = culprit.tid.filter(|_| is_worker) else { return culprit };

        let split = self.events.partition_point(|event| event.at < at);
        let (before, after) = self.events.split_at(split);
        let of_worker = |event: &&&TraceEvent| event.tid == tid;
        let last = before.iter().rev().filter(of_worker).find_map(|event| match event.what {
            KernelEvent::WorkStart { function, .. } => Some(Some(function)),
            // Its last item had ended: the worker looked for the next one, which is nobody's
            // function.
            KernelEvent::WorkEnd { .. } => Some(None),
            _ => None,
        });
        // A work item that began before the oldest event shows when it ends.
        let next = || {
            after.iter().filter(of_worker).find_map(|event| match event.what {
                KernelEvent::WorkStart { .. } => Some(None),
                KernelEvent::WorkEnd { function, .. } => Some(Some(function)),
                _ => None,
            })
        };
        let function = last.or_else(next).flatten();
        let work = function.and_then(|function| self.window.function(function));
        Culprit { work: work.map(str::to_owned), ..culprit }
    }

    /// Returns the functions of the kernel that the late interrupt of the loop's timer found; `None`
    /// if its stack was not copied.
    pub(super) fn code_found(&self) -> Option<String> {
        // Stacks are taken at the timer's interrupt. The one that came late has interrupted what
        // held it back.
        let is_late_one = |at: Instant| at > self.facts.expiry && at <= self.facts.start;
        let stack = self.window.stacks.iter().find(|stack| is_late_one(stack.at))?;
        stack.interrupted(|frame| self.window.function(frame))
    }
}
