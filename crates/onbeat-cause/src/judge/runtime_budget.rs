//! Who used the runtime that all real-time threads of a CPU share (`sched_rt_runtime_us` of each
//! `sched_rt_period_us`).

use onbeat_rt::Instant;

use super::scheduler_rules::SchedulerHold;
use super::{Judge, thread_culprit};
use crate::event::Thread;
use crate::timeline::CpuActivity;

/// Kernel priorities of threads that the budget is for: neither deadline nor ordinary ones.
const REAL_TIME: std::ops::Range<i32> = 0..100;
/// The budget is counted over this time at most, in nanoseconds: the kernel's default period.
// sched_rt_period_us of the kernel by default; the fair server's has the same length.
const PERIOD_NS: u64 = 1_000_000_000;
/// Threads named in the evidence.
const NAMED: usize = 3;

/// The runtime of one real-time thread.
struct RuntimeUse {
    thread: Thread,
    ns: u64,
}

impl Judge<'_> {
    /// Adds to a hold by a rule of the scheduler which threads used the CPU before it, and names
    /// the one that used most of it unless that is the loop.
    pub(super) fn with_the_budget(&self, hold: SchedulerHold, cpu: Option<u32>) -> SchedulerHold {
        let from = hold.from.minus_ns(PERIOD_NS);
        let (seen_ns, uses) = self.runtime_uses(cpu, from, hold.from);
        let Some(most) = uses.first() else { return hold };
        let ms = |ns: u64| ns as f64 / 1e6;
        let word = |used: &RuntimeUse| {
            let of_loop = used.thread.tid == self.facts.tid;
            let who = if of_loop { "the loop".to_owned() } else { used.thread.to_string() };
            format!("{who} {:.1} ms", ms(used.ns))
        };
        let words: Vec<String> = uses.iter().take(NAMED).map(word).collect();
        let evidence = format!(
            "{}; of the {:.1} ms before it that were recorded, real-time threads used: {}",
            hold.evidence,
            ms(seen_ns),
            words.join(", ")
        );

        // The rule took the CPU from the loop because somebody used the runtime up. If that was the
        // loop itself, nobody else is named.
        let is_another = hold.kind.is_of_the_runtime() && most.thread.tid != self.facts.tid;
        let culprit = is_another.then(|| thread_culprit(&most.thread, None));
        SchedulerHold { evidence, culprit, ..hold }
    }

    /// Returns the time of which the activity of `cpu` is known, and the real-time threads that ran
    /// in it, longest first.
    fn runtime_uses(&self, cpu: Option<u32>, from: Instant, to: Instant) -> (u64, Vec<RuntimeUse>) {
        let mut seen_ns = 0;
        let mut uses: Vec<RuntimeUse> = Vec::new();
        for slice in self.timeline.between(cpu, from.max(self.window.from), to) {
            let ns = slice.to.ns_since(slice.from);
            // Shares are of what was recorded. A second of which half was overwritten must not look
            // half idle.
            seen_ns += if slice.doing == CpuActivity::Unknown { 0 } else { ns };
            let CpuActivity::Thread(thread) = slice.doing else { continue };
            if !REAL_TIME.contains(&thread.prio) {
                continue;
            }
            match uses.iter_mut().find(|used| used.thread.tid == thread.tid) {
                Some(used) => used.ns += ns,
                None => uses.push(RuntimeUse { thread, ns }),
            }
        }

        uses.sort_by_key(|used| std::cmp::Reverse(used.ns));
        (seen_ns, uses)
    }
}
