//! A stretch of time as the flight recorder saw it.

use std::collections::BTreeMap;

use onbeat_rt::Instant;

use super::counters::CounterReading;
use super::event::{KernelEvent, LostEvents, Thread, TraceEvent};
use super::missing_switches;

/// What one CPU did in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuWindow {
    /// Which CPU.
    pub cpu: u32,
    /// Its events, in order.
    pub events: Vec<TraceEvent>,
}

impl CpuWindow {
    /// The thread that ran when the window began, from the first switch in it.
    #[must_use]
    pub fn running_at_first(&self) -> Option<Thread> {
        self.events.iter().find_map(|event| match event.what {
            KernelEvent::Switch { prev, .. } => Some(prev),
            _ => None,
        })
    }
}

/// All CPUs' events from `from` to `to`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Its beginning.
    pub from: Instant,
    /// Its end.
    pub to: Instant,
    /// Per CPU, by number.
    pub cpus: Vec<CpuWindow>,
    /// Stretches from which events are missing.
    pub lost: Vec<LostEvents>,
    /// What BPF read at switches and wake-ups of the loop, in order of time; not kept in run files.
    pub readings: Vec<CounterReading>,
    /// Names of the kernel functions that events give by address, as far as known.
    pub functions: BTreeMap<u64, String>,
}

impl Window {
    /// What `cpu` did.
    #[must_use]
    pub fn cpu(&self, cpu: u32) -> Option<&CpuWindow> {
        self.cpus.iter().find(|window| window.cpu == cpu)
    }

    /// Events of all CPUs in order of time.
    #[must_use]
    pub fn in_order(&self) -> Vec<&TraceEvent> {
        let mut events: Vec<&TraceEvent> = self.cpus.iter().flat_map(|cpu| &cpu.events).collect();
        events.sort_by_key(|event| event.at);
        events
    }

    /// Whether events are missing between `from` and `to` on any CPU.
    #[must_use]
    pub fn lost_between(&self, from: Instant, to: Instant) -> Option<&LostEvents> {
        self.lost.iter().find(|lost| lost.from < to && lost.to > from)
    }

    /// The name of the kernel function at `address`.
    #[must_use]
    pub fn function(&self, address: u64) -> Option<&str> {
        self.functions.get(&address).map(String::as_str)
    }

    /// The same with switches added that left no record of their own but show in the next one. What is complete stays
    /// as it is.
    #[must_use]
    pub fn completed(&self) -> Self {
        let threads = missing_switches::threads_of(self.cpus.iter().flat_map(|cpu| &cpu.events));
        let woken = self.in_order().into_iter().filter_map(|event| match event.what {
            KernelEvent::Waking { thread, .. } => Some((thread.tid, event.at)),
            _ => None,
        });

        let wakings: Vec<_> = woken.collect();
        let cpus = self.cpus.iter().map(|cpu| missing_switches::complete(cpu, &threads, &wakings)).collect();
        Self { cpus, ..self.clone() }
    }

    /// The part between `from` and `to`, for keeping.
    #[must_use]
    pub fn between(&self, from: Instant, to: Instant) -> Self {
        let (from, to) = (from.max(self.from), to.min(self.to));
        let inside = |event: &&TraceEvent| event.at >= from && event.at <= to;
        let cut = |window: &CpuWindow| CpuWindow {
            cpu: window.cpu,
            events: window.events.iter().filter(inside).copied().collect(),
        };

        let cpus: Vec<CpuWindow> = self.cpus.iter().map(cut).collect();
        let lost = self.lost.iter().filter(|lost| lost.from < to && lost.to > from).copied().collect();
        let is_inside = |reading: &&CounterReading| reading.at >= from && reading.at <= to;
        let readings = self.readings.iter().filter(is_inside).copied().collect();
        Self { from, to, cpus, lost, readings, functions: self.functions.clone() }
    }
}
