//! Switches that left no record.
//!
//! Trace points are silent where the kernel's read-copy-update does not watch, and on some kernels the switch away from
//! an idle thread is such a place (seen on Linux 6.18 as a guest: all of one CPU's). Each record names the thread that
//! ran, though, so a switch that happened shows in the next record.

use std::collections::BTreeMap;

use onbeat_rt::Instant;

use super::event::{KernelEvent, Thread, ThreadState, TraceEvent};
use super::window::CpuWindow;

/// Names of all threads that the events of a window give.
pub(super) fn threads_of<'e>(events: impl Iterator<Item = &'e TraceEvent>) -> BTreeMap<u32, Thread> {
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
                threads.entry(thread.tid).or_insert(thread);
            }
            _ => {}
        }
    }

    // Every CPU has an idle thread of its own, all with number 0; the name is filled in per CPU.
    threads.remove(&0);
    threads
}

/// The CPU's events with the switches that must have been.
pub(super) fn complete(cpu: &CpuWindow, threads: &BTreeMap<u32, Thread>, wakings: &[(u32, Instant)]) -> CpuWindow {
    let idle = Thread { tid: 0, prio: 120, name: format!("swapper/{}", cpu.cpu).as_str().into() };
    let thread = |tid: u32| if tid == 0 { Some(idle) } else { threads.get(&tid).copied() };
    let mut running = cpu.running_at_first();
    let mut events: Vec<TraceEvent> = Vec::with_capacity(cpu.events.len());
    for event in &cpu.events {
        let now = match event.what {
            KernelEvent::Switch { prev, .. } => Some(prev),
            _ => thread(event.tid),
        };

        if let (Some(before), Some(now)) = (running, now)
            && before.tid != now.tid
        {
            // Right after the last thing that the thread before was seen with, but not before the new one was woken.
            let seen = events.last().map_or(event.at, |last| last.at);
            let woken = wakings.iter().rev().find(|(tid, at)| *tid == now.tid && *at <= event.at);
            let at = woken.map_or(seen, |(_, woken)| seen.max(*woken));
            let what = KernelEvent::Switch { prev: before, prev_state: ThreadState::NOT_SEEN, next: now };
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
