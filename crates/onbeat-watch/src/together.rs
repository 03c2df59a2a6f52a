//! Several loops at once: a run file of each, one recorder of events for all of them.

use std::thread;

use onbeat::cause::PathStream;
use onbeat::probe::Interruptions;
use onbeat::record::Recorder;

use crate::collect::{Collector, PATH_KIB};
use crate::error::WatchError;
use crate::measure::{WatchPlan, Watched, measure};

/// Measures loops of several threads at the same time. `report` is called after each look at the
/// first of them. The loops that timers wake share the programs that record their events, so that
/// another thread costs each wake-up next to nothing.
///
/// Returns what became of each, in their order.
pub fn measure_together(
    collector: &mut Collector,
    plans: &[WatchPlan<'_>],
    interruptions: &Interruptions,
    report: &mut dyn FnMut(f64, &mut Recorder),
) -> Vec<Result<Watched, WatchError>> {
    let Some((first, others)) = plans.split_first() else { return Vec::new() };
    let tids: Vec<u32> = others
        .iter()
        // Who records causes records the loop as well.
        .filter(|plan| plan.watched.known_timer().is_some() && !plan.causes)
        .map(|plan| plan.watched.thread.tid())
        .collect();
    // Without BPF each has a recorder of its own, and its run says why.
    let path = if tids.is_empty() { None } else { PathStream::open(&tids, PATH_KIB).ok() };
    let path = path.as_ref();
    thread::scope(|scope| {
        let running: Vec<_> = others
            .iter()
            .map(|plan| scope.spawn(move || measure_one(plan, path, interruptions)))
            .collect();
        let first = measure(collector, first, interruptions, report);
        let mut all = vec![first];
        // A thread that panics has a bug, which is not hidden here.
        all.extend(running.into_iter().map(|one| match one.join() {
            Ok(watched) => watched,
            Err(panic) => std::panic::resume_unwind(panic),
        }));
        all
    })
}

fn measure_one(
    plan: &WatchPlan<'_>,
    path: Option<&PathStream>,
    interruptions: &Interruptions,
) -> Result<Watched, WatchError> {
    let shared = path.zip(plan.watched.known_timer()).filter(|_| !plan.causes);
    let mut collector = match shared {
        Some((path, timer)) => {
            Collector::of(path.for_thread(plan.watched.thread.tid()), Some(timer))
        }
        None => Collector::open()?,
    };
    measure(&mut collector, plan, interruptions, &mut |_, _| {})
}
