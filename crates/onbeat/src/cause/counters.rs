//! Readings of the kernel's own accounts: time that the hypervisor took, and rules of the scheduler at work.

use std::collections::VecDeque;

use onbeat_rt::Instant;
use serde::{Deserialize, Serialize};

/// Where readings come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CounterSource {
    /// A BPF program at each switch to and from the loop: nanoseconds.
    Bpf,
    /// `/proc/stat`: ticks of 10 ms.
    Procfs,
    /// None.
    #[default]
    None,
}

/// What happened to the loop's thread when a reading was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadingTrigger {
    /// Somebody begins to wake the loop, most often its timer's interrupt: [`CounterReading::prev`] is the thread that ran there, in
    /// an interrupt the one that was interrupted. The CPU is the waker's, and its steal is not read.
    Waking,
    /// The CPU switched to or from the loop.
    #[default]
    Switch,
}

/// One reading, taken when a CPU switched to or from the loop's thread, or when it was woken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterReading {
    /// When.
    pub at: Instant,
    /// What happened then.
    pub moment: ReadingTrigger,
    /// Of which CPU.
    pub cpu: u32,
    /// Time the hypervisor has taken from this CPU so far, in nanoseconds; `None` at [`ReadingTrigger::Waking`], and where the kernel
    /// does not count it.
    pub steal_ns: Option<u64>,
    /// The thread that left the CPU, or that the loop's wake-up interrupted.
    pub prev: u32,
    /// The thread that came or was woken.
    pub next: u32,
    /// The system call in which `prev` was.
    pub prev_syscall: Option<i64>,
    /// `prev` was brought into the kernel from user code by an interrupt or a fault. At [`ReadingTrigger::Waking`] that is the
    /// interrupt of the wake-up itself, or a fault that was still being handled. With no system call and `false` it is not
    /// known where `prev` was: a thread of the kernel has no user registers.
    pub prev_in_user: bool,
    /// Whether the CPU's real-time threads were held back then.
    pub rt_throttled: Option<bool>,
    /// Whether `next` was chosen by the fair server.
    pub by_fair_server: Option<bool>,
}

/// The readings around a spike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Where they come from.
    pub source: CounterSource,
    /// In order of time.
    pub readings: Vec<CounterReading>,
    /// The kernel runs as a guest.
    pub is_guest: bool,
    /// How long the CPU's deepest idle state takes to leave, as the kernel has it, in nanoseconds; `None` where it lists none.
    pub deepest_idle_ns: Option<u64>,
    /// System management interrupts meanwhile, where the CPU counts them.
    pub smi: Option<u64>,
    /// The kernel has a fair server.
    pub has_fair_server: bool,
    /// How long a CPU quota held the loop's cgroups back during the wait, in nanoseconds; `None` where the kernel does not
    /// tell.
    pub throttled_ns: Option<u64>,
}

/// Steal between two readings of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steal {
    /// Of which CPU.
    pub cpu: u32,
    /// The reading before.
    pub from: Instant,
    /// The reading after.
    pub to: Instant,
    /// What was taken between them.
    pub ns: u64,
}

impl Counters {
    /// What the hypervisor took, reading by reading, of the time between `from` and `to`.
    #[must_use]
    pub fn steal_between(&self, from: Instant, to: Instant) -> Vec<Steal> {
        let mut cpus: Vec<u32> = self.readings.iter().map(|reading| reading.cpu).collect();
        cpus.sort_unstable();
        cpus.dedup();
        let of_cpu = |cpu: u32| {
            let readings = self.readings.iter().filter(move |reading| reading.cpu == cpu);
            readings.filter_map(move |reading| Some((cpu, reading.at, reading.steal_ns?)))
        };

        let pairs = cpus.into_iter().flat_map(|cpu| of_cpu(cpu).zip(of_cpu(cpu).skip(1)));
        let steals = pairs.map(|((cpu, from, before), (_, to, after))| {
            let ns = after.saturating_sub(before);
            Steal { cpu, from, to, ns }
        });

        steals.filter(|steal| steal.ns > 0 && steal.from < to && steal.to > from).collect()
    }

    /// Readings at switches of `cpu` between `from` and `to`, both included.
    pub fn between(&self, cpu: Option<u32>, from: Instant, to: Instant) -> impl Iterator<Item = &CounterReading> {
        let is_meant = |reading: &CounterReading| reading.moment != ReadingTrigger::Waking;
        let inside = move |reading: &&CounterReading| is_meant(reading) && reading.at >= from && reading.at <= to;
        self.readings.iter().filter(inside).filter(move |reading| cpu.is_none_or(|cpu| cpu == reading.cpu))
    }

    /// The reading at the last waking of thread `tid` between `from` and `to`, both included: what its wake-up interrupted.
    #[must_use]
    pub fn interrupted(&self, tid: u32, from: Instant, to: Instant) -> Option<&CounterReading> {
        let is_meant = |reading: &&CounterReading| reading.moment == ReadingTrigger::Waking && reading.next == tid;
        self.readings.iter().rev().filter(is_meant).find(|reading| reading.at >= from && reading.at <= to)
    }
}

/// Ticks of `/proc/stat`, in nanoseconds: `USER_HZ` is 100 on every architecture Linux runs on today.
const TICK_NS: u64 = 10_000_000;
/// How far apart readings of `/proc/stat` may be to say anything about a spike between them, in nanoseconds.
const PROCFS_REACH_NS: u64 = 250_000_000;
/// How often `/proc/stat` is read, in nanoseconds.
const PROCFS_EVERY_NS: u64 = 100_000_000;

/// Readings of `/proc/stat`, where no finer ones are to be had.
#[derive(Clone, Debug, Default)]
pub(super) struct ProcfsSteal {
    readings: VecDeque<CounterReading>,
    read_at: Instant,
}

impl ProcfsSteal {
    /// Takes a reading when the last one is old enough.
    pub(super) fn keep_watch(&mut self, now: Instant) {
        if now.ns_since(self.read_at) < PROCFS_EVERY_NS {
            return;
        }

        self.read_at = now;
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let steal = |line: &str| -> Option<CounterReading> {
            let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
            let cpu = words.next()?.parse().ok()?;
            let ticks: u64 = words.nth(7)?.parse().ok()?;
            Some(CounterReading { at: now, cpu, steal_ns: Some(ticks * TICK_NS), ..CounterReading::default() })
        };

        self.readings.extend(text.lines().filter(|line| !line.starts_with("cpu ")).filter_map(steal));
        self.readings.retain(|reading| now.ns_since(reading.at) < 10 * PROCFS_REACH_NS);
    }

    /// Readings that are close enough to `from` and `to`.
    pub(super) fn around(&self, from: Instant, to: Instant) -> Vec<CounterReading> {
        let near = |reading: &&CounterReading| {
            reading.at >= from.minus_ns(PROCFS_REACH_NS) && reading.at <= to.plus_ns(PROCFS_REACH_NS)
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
    fn a_waking_names_the_interrupted_thread_and_takes_no_part_in_the_steal() {
        let readings = vec![
            reading(100, ReadingTrigger::Switch, Some(50)),
            reading(200, ReadingTrigger::Waking, None),
            reading(220, ReadingTrigger::Switch, Some(80)),
            reading(230, ReadingTrigger::Switch, Some(80)),
        ];
        let counters = Counters { readings, ..Counters::default() };
        let (from, to) = (Instant::from_ns(100), Instant::from_ns(230));
        let steal: Vec<_> =
            counters.steal_between(from, to).iter().map(|steal| (steal.from.as_ns(), steal.ns)).collect();

        assert_eq!(steal, [(100, 30)]);
        assert_eq!(counters.between(Some(1), from, to).count(), 3);
        let interrupted = counters.interrupted(9, from, to).unwrap();
        assert_eq!((interrupted.at.as_ns(), interrupted.prev), (200, 7));
        assert_eq!(counters.interrupted(9, Instant::from_ns(201), to), None);
        assert_eq!(counters.interrupted(7, from, to), None);
    }
}
