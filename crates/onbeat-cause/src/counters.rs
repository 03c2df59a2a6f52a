//! Readings of kernel counters: stolen time, RT throttling, fair server.

use std::collections::VecDeque;

use onbeat_rt::Instant;
use serde::{Deserialize, Serialize};

pub use super::freezer::FreezerReading;
use super::process_view::ProcessView;
pub use super::thread_stat::ThreadReading;

/// The source of readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CounterSource {
    /// A BPF program at each switch to and from the loop: nanoseconds.
    Bpf,
    /// `/proc/stat`: ticks of 10 ms.
    Procfs,
    /// No source.
    #[default]
    None,
}

/// The event at which a reading was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadingTrigger {
    /// The loop's thread is being woken, most often by its timer's interrupt.
    /// [`CounterReading::prev`] is the current thread, which in an interrupt is the interrupted
    /// one. The CPU is that of the waker; its steal is not read.
    Waking,
    /// The CPU switched to or from the loop.
    #[default]
    Switch,
}

/// One reading, taken when a CPU switched to or from the loop's thread, or when that thread was
/// woken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterReading {
    /// When.
    pub at: Instant,
    /// The event that triggered it.
    pub moment: ReadingTrigger,
    /// The CPU that was read.
    pub cpu: u32,
    /// Accumulated steal time of this CPU, in nanoseconds; `None` at [`ReadingTrigger::Waking`] and
    /// if the kernel does not count it.
    pub steal_ns: Option<u64>,
    /// The thread that left the CPU, or that was interrupted by the loop's wake-up.
    pub prev: u32,
    /// The thread that was switched to or woken.
    pub next: u32,
    /// The system call that `prev` was in.
    pub prev_syscall: Option<i64>,
    /// `prev` entered the kernel from user code by an interrupt or a fault. At
    /// [`ReadingTrigger::Waking`] this is the interrupt of the wake-up, or a fault that was still
    /// being handled. With `false` and without a system call, the state of `prev` is unknown: a
    /// kernel thread has no user registers.
    pub prev_in_user: bool,
    /// Whether real-time threads of the CPU were throttled.
    pub rt_throttled: Option<bool>,
    /// Whether the fair server chose `next`.
    pub by_fair_server: Option<bool>,
    /// Whether the cgroup freezer had the loop's thread: its state when it was woken (`TASK_FROZEN`),
    /// or its state or trap when it left the CPU (`JOBCTL_TRAP_FREEZE`).
    pub frozen: Option<bool>,
}

/// The readings around a spike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Their source.
    pub source: CounterSource,
    /// In order of time.
    pub readings: Vec<CounterReading>,
    /// The kernel runs as a guest.
    pub is_guest: bool,
    /// Exit latency of the CPU's deepest idle state as the kernel lists it, in nanoseconds; `None`
    /// if it lists no idle states.
    pub deepest_idle_ns: Option<u64>,
    /// System management interrupts since the previous spike; `None` if the CPU does not count
    /// them.
    pub smi: Option<u64>,
    /// How long that was, in nanoseconds.
    pub smi_ns: u64,
    /// The kernel has a fair server.
    pub has_fair_server: bool,
    /// Time for which a CPU quota throttled the loop's cgroups during the wait, in nanoseconds;
    /// `None` if the kernel does not report it.
    pub throttled_ns: Option<u64>,
    /// What the kernel's files said about the freezer of the loop's cgroups.
    pub freezer: FreezerReading,
    /// The loop's thread when the spike was judged; `None` if it could not be read.
    pub thread: Option<ThreadReading>,
    /// What `/proc` says of the loop's process, where a spike needs it.
    pub process: Option<ProcessView>,
}

/// Steal time between two readings of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steal {
    /// The CPU that was read.
    pub cpu: u32,
    /// Time of the earlier reading.
    pub from: Instant,
    /// Time of the later reading.
    pub to: Instant,
    /// Steal time between them, in nanoseconds.
    pub ns: u64,
}

impl Counters {
    /// Returns the steal time between `from` and `to`, one entry for each pair of consecutive
    /// readings.
    #[must_use]
    pub fn steal_between(&self, from: Instant, to: Instant) -> Vec<Steal> {
        let mut cpus: Vec<u32> = self.readings.iter().map(|reading| reading.cpu).collect();
        cpus.sort_unstable();
        cpus.dedup();
        let of_cpu = |cpu: u32| {
            let readings = self.readings.iter().filter(move |reading| reading.cpu == cpu);
            readings.filter_map(move |reading| Some((cpu, reading.at, reading.steal_ns?)))
        };

        // The counter is a sum. Between two readings it tells how much was stolen, and not when.
        let pairs = cpus.into_iter().flat_map(|cpu| of_cpu(cpu).zip(of_cpu(cpu).skip(1)));
        let steals = pairs.map(|((cpu, from, before), (_, to, after))| {
            let ns = after.saturating_sub(before);
            Steal { cpu, from, to, ns }
        });

        steals.filter(|steal| steal.ns > 0 && steal.from < to && steal.to > from).collect()
    }

    /// Returns the readings at switches of `cpu` between `from` and `to`, both inclusive.
    pub fn between(
        &self,
        cpu: Option<u32>,
        from: Instant,
        to: Instant,
    ) -> impl Iterator<Item = &CounterReading> {
        // Readings at a wake-up are of the thread that was interrupted, those at a switch of the
        // one that leaves.
        let is_meant = |reading: &CounterReading| reading.moment != ReadingTrigger::Waking;
        let inside = move |reading: &&CounterReading| {
            is_meant(reading) && reading.at >= from && reading.at <= to
        };
        self.readings
            .iter()
            .filter(inside)
            .filter(move |reading| cpu.is_none_or(|cpu| cpu == reading.cpu))
    }

    /// Returns the reading at the last waking of thread `tid` between `from` and `to`, both
    /// inclusive. It shows what the wake-up interrupted.
    #[must_use]
    pub fn interrupted(&self, tid: u32, from: Instant, to: Instant) -> Option<&CounterReading> {
        let is_meant = |reading: &&CounterReading| {
            reading.moment == ReadingTrigger::Waking && reading.next == tid
        };
        self.readings
            .iter()
            // The last wake-up before the start is the one that led to it.
            .rev()
            .filter(is_meant)
            .find(|reading| reading.at >= from && reading.at <= to)
    }
}

/// Ticks of `/proc/stat`, in nanoseconds: `USER_HZ` is 100 on every architecture Linux runs on
/// today.
const TICK_NS: u64 = 10_000_000;
/// Maximum distance of a `/proc/stat` reading from the spike that it describes, in nanoseconds.
const PROCFS_REACH_NS: u64 = 250_000_000;
/// How often `/proc/stat` is read, in nanoseconds.
const PROCFS_EVERY_NS: u64 = 100_000_000;

/// Returns the stolen time of each CPU in the text of `/proc/stat`, in nanoseconds.
pub(super) fn stolen_ns(text: &str) -> impl Iterator<Item = (u32, u64)> {
    text.lines().filter_map(|line| {
        // The line of all CPUs together has no number.
        let (cpu, ticks) = line.strip_prefix("cpu")?.split_once(' ')?;
        let stolen: u64 = ticks.split_ascii_whitespace().nth(7)?.parse().ok()?;
        Some((cpu.parse().ok()?, stolen * TICK_NS))
    })
}

/// Readings of `/proc/stat`, used when no finer source is available.
#[derive(Clone, Debug, Default)]
pub(super) struct ProcfsSteal {
    readings: VecDeque<CounterReading>,
    read_at: Instant,
}

impl ProcfsSteal {
    /// Takes a reading if the last one is old enough.
    pub(super) fn keep_watch(&mut self, now: Instant) {
        // The file has a line per CPU and is made anew at each read.
        if now.ns_since(self.read_at) < PROCFS_EVERY_NS {
            return;
        }

        self.read_at = now;
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        self.readings.extend(stolen_ns(&text).map(|(cpu, ns)| CounterReading {
            at: now,
            cpu,
            steal_ns: Some(ns),
            ..CounterReading::default()
        }));
        self.readings.retain(|reading| now.ns_since(reading.at) < 10 * PROCFS_REACH_NS);
    }

    /// Returns the readings close enough to `from` and `to`.
    pub(super) fn around(&self, from: Instant, to: Instant) -> Vec<CounterReading> {
        let near = |reading: &&CounterReading| {
            reading.at >= from.minus_ns(PROCFS_REACH_NS)
                && reading.at <= to.plus_ns(PROCFS_REACH_NS)
        };
        self.readings.iter().filter(near).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at: u64, moment: ReadingTrigger, steal_ns: Option<u64>) -> CounterReading {
        CounterReading {
            at: Instant::from_ns(at),
            moment,
            cpu: 1,
            steal_ns,
            prev: 7,
            next: 9,
            ..CounterReading::default()
        }
    }

    #[test]
    fn a_waking_has_the_interrupted_thread_and_no_steal_time() {
        let readings = vec![
            reading(100, ReadingTrigger::Switch, Some(50)),
            reading(200, ReadingTrigger::Waking, None),
            reading(220, ReadingTrigger::Switch, Some(80)),
            reading(230, ReadingTrigger::Switch, Some(80)),
        ];
        let counters = Counters { readings, ..Counters::default() };
        let from = Instant::from_ns(100);
        let to = Instant::from_ns(230);
        let steal: Vec<_> = counters
            .steal_between(from, to)
            .iter()
            .map(|steal| (steal.from.as_ns(), steal.ns))
            .collect();

        assert_eq!(steal, [(100, 30)]);
        assert_eq!(counters.between(Some(1), from, to).count(), 3);
        let interrupted = counters.interrupted(9, from, to).unwrap();
        assert_eq!((interrupted.at.as_ns(), interrupted.prev), (200, 7));
        assert_eq!(counters.interrupted(9, Instant::from_ns(201), to), None);
        assert_eq!(counters.interrupted(7, from, to), None);
    }
}
