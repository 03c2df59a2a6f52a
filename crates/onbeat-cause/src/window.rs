//! A time range of the flight recorder.

mod missing_switches;

use std::collections::BTreeMap;

use onbeat_rt::Instant;

use super::counters::CounterReading;
use super::event::{KernelEvent, LostEvents, Thread, TraceEvent};
use super::inside::InsideEvent;
use super::path_stack::KernelStack;

/// Events of one CPU in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuWindow {
    pub cpu: u32,
    /// Events, in order.
    pub events: Vec<TraceEvent>,
}

impl CpuWindow {
    /// Returns the thread that ran when the window began, according to its first switch.
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
    /// Start.
    pub from: Instant,
    /// End.
    pub to: Instant,
    /// Events per CPU, ordered by CPU number.
    pub cpus: Vec<CpuWindow>,
    /// Gaps: time ranges with missing events.
    pub lost: Vec<LostEvents>,
    /// Readings by BPF at switches and wake-ups of the loop, in order of time. Run files do not
    /// contain them.
    pub readings: Vec<CounterReading>,
    /// What the loop met inside its cycles, in order of time. Run files do not contain it.
    pub inside: Vec<InsideEvent>,
    /// Kernel stacks at late wake-ups of the loop, in order of time, if they are copied. Run files
    /// do not contain them.
    pub stacks: Vec<KernelStack>,
    /// Names of kernel functions by address, of their first or of another
    /// instruction, as far as known.
    pub functions: BTreeMap<u64, String>,
}

impl Window {
    /// Returns the events of `cpu`.
    #[must_use]
    pub fn cpu(&self, cpu: u32) -> Option<&CpuWindow> {
        self.cpus.iter().find(|window| window.cpu == cpu)
    }

    /// Returns the events of all CPUs in order of time.
    #[must_use]
    pub fn in_order(&self) -> Vec<&TraceEvent> {
        let mut events: Vec<&TraceEvent> = self.cpus.iter().flat_map(|cpu| &cpu.events).collect();
        // Stable: within one instant the order of each CPU's own ring stands.
        events.sort_by_key(|event| event.at);
        events
    }

    /// Returns the first gap between `from` and `to` on any CPU.
    #[must_use]
    pub fn lost_between(&self, from: Instant, to: Instant) -> Option<&LostEvents> {
        self.lost.iter().find(|lost| lost.from < to && lost.to > from)
    }

    /// Returns the name of the kernel function at `address`.
    #[must_use]
    pub fn function(&self, address: u64) -> Option<&str> {
        self.functions.get(&address).map(String::as_str)
    }

    /// Returns the window with missing switches added, which are inferred from the next record of
    /// the CPU.
    #[must_use]
    pub fn completed(&self) -> Self {
        let threads = missing_switches::threads_of(self.cpus.iter().flat_map(|cpu| &cpu.events));
        let woken = self.in_order().into_iter().filter_map(|event| match event.what {
            KernelEvent::Waking { thread, .. } => Some((thread.tid, event.at)),
            _ => None,
        });

        let wakings: Vec<_> = woken.collect();
        let cpus = self
            .cpus
            .iter()
            .map(|cpu| missing_switches::complete(cpu, &threads, &wakings))
            .collect();
        Self { cpus, ..self.clone() }
    }

    /// Returns the part between `from` and `to`.
    #[must_use]
    pub fn between(&self, from: Instant, to: Instant) -> Self {
        let from = from.max(self.from);
        let to = to.min(self.to);
        let inside = |event: &&TraceEvent| event.at >= from && event.at <= to;
        let cut = |window: &CpuWindow| CpuWindow {
            cpu: window.cpu,
            events: window.events.iter().filter(inside).copied().collect(),
        };

        let cpus: Vec<CpuWindow> = self.cpus.iter().map(cut).collect();
        let lost =
            self.lost.iter().filter(|lost| lost.from < to && lost.to > from).copied().collect();
        let is_inside = |reading: &&CounterReading| reading.at >= from && reading.at <= to;
        let readings = self.readings.iter().filter(is_inside).copied().collect();
        let inside_of_part = self.inside.iter().filter(|met| met.at >= from && met.at <= to);
        let stacks = self.stacks.iter().filter(|stack| stack.at >= from && stack.at <= to);
        Self {
            from,
            to,
            cpus,
            lost,
            readings,
            inside: inside_of_part.copied().collect(),
            stacks: stacks.cloned().collect(),
            functions: self.functions.clone(),
        }
    }
}
