//! Adds switches that were not recorded.
//!
//! Trace points do not fire where the kernel's RCU is not watching. On some kernels the switch away
//! from an idle thread is such a place (observed on Linux 6.18 as a guest, for all switches of one
//! CPU). Each record names the running thread, so a missing switch shows in the next record.

use std::collections::BTreeMap;

use onbeat_rt::Instant;

use super::CpuWindow;
use crate::event::{KernelEvent, Thread, ThreadState, TraceEvent};

/// Returns all threads in the events of a window.
pub(super) fn threads_of<'e>(
    events: impl Iterator<Item = &'e TraceEvent>,
) -> BTreeMap<u32, Thread> {
    let mut threads = BTreeMap::new();
    for event in events {
        match event.what {
            KernelEvent::Switch { prev, next, .. } => {
                threads.insert(prev.tid, prev);
                threads.insert(next.tid, next);
            }
            KernelEvent::Waking { thread, .. }
            | KernelEvent::Wakeup { thread, .. }
            | KernelEvent::Migrate { thread, .. } => {
                // A switch has the priority with which the thread ran; a wake-up may have an older
                // one.
                threads.entry(thread.tid).or_insert(thread);
            }
            _ => {}
        }
    }

    // Every CPU has its own idle thread, all with number 0; the name is filled in per CPU.
    threads.remove(&0);
    threads
}

/// Returns the CPU's events, with the missing switches added.
pub(super) fn complete(
    cpu: &CpuWindow,
    threads: &BTreeMap<u32, Thread>,
    wakings: &[(u32, Instant)],
) -> CpuWindow {
    let idle = Thread { tid: 0, prio: 120, name: format!("swapper/{}", cpu.cpu).as_str().into() };
    let thread = |tid: u32| if tid == 0 { Some(idle) } else { threads.get(&tid).copied() };
    let mut running = cpu.running_at_first();
    let mut events: Vec<TraceEvent> = Vec::with_capacity(cpu.events.len());
    for event in &cpu.events {
        // Every event has the number of the thread that was running: another one than before means
        // a switch that nobody recorded.
        let now = match event.what {
            KernelEvent::Switch { prev, .. } => Some(prev),
            _ => thread(event.tid),
        };

        if let (Some(before), Some(now)) = (running, now)
            && before.tid != now.tid
        {
            // Right after the last event of the previous thread, but not before the new thread was
            // woken.
            let seen = events.last().map_or(event.at, |last| last.at);
            let woken = wakings.iter().rev().find(|(tid, at)| *tid == now.tid && *at <= event.at);
            let at = woken.map_or(seen, |(_, woken)| seen.max(*woken));
            let what =
                KernelEvent::Switch { prev: before, prev_state: ThreadState::NOT_SEEN, next: now };
            events.push(TraceEvent { at, cpu: cpu.cpu, tid: before.tid, what });
        }

        running = match event.what {
            KernelEvent::Switch { next, .. } => Some(next),
            _ => now.or(running),
        };

        events.push(*event);
    }

    CpuWindow { cpu: cpu.cpu, events }
}
