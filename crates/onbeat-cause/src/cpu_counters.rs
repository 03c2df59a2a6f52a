//! What a CPU counts of the time that no event shows: stolen time, non-maskable and system
//! management interrupts.

use std::fs::File;

use super::counters::stolen_ns;
use super::meter::{read_smi, smi_counter};
use onbeat_host::machine;

/// A reading of the counters; differences are what counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuCounts {
    /// Stolen time by `/proc/stat`, in nanoseconds, in steps of a tick of 10 ms; `None` if it cannot
    /// be read.
    pub steal_ns: Option<u64>,
    /// Non-maskable interrupts by `/proc/interrupts`; `None` on processors without that line.
    pub nmis: Option<u64>,
    /// System management interrupts by `MSR_SMI_COUNT`; `None` if the processor does not count them,
    /// or `/dev/cpu/N/msr` cannot be read.
    pub smis: Option<u64>,
}

/// Reads the counters of one CPU.
#[derive(Debug)]
pub struct CpuCounters {
    cpu: u32,
    smi: Option<File>,
}

impl CpuCounters {
    /// Returns the counters of `cpu`.
    #[must_use]
    pub fn of(cpu: u32) -> Self {
        Self { cpu, smi: smi_counter(Some(cpu)).map(|(file, _)| file) }
    }

    /// Reads all of them. Reading the register of system management interrupts interrupts the CPU.
    #[must_use]
    pub fn read(&self) -> CpuCounts {
        CpuCounts {
            steal_ns: self.steal_ns(),
            nmis: self.nmis(),
            smis: self.smi.as_ref().and_then(read_smi),
        }
    }

    /// Reads the stolen time, which interrupts nothing.
    #[must_use]
    pub fn steal_ns(&self) -> Option<u64> {
        steal_ns(&std::fs::read_to_string("/proc/stat").ok()?, self.cpu)
    }

    fn nmis(&self) -> Option<u64> {
        let online = machine::online_cpus();
        let column = online.iter().position(|cpu| *cpu == self.cpu)?;
        nmis(&std::fs::read_to_string("/proc/interrupts").ok()?, column)
    }
}

/// Returns the stolen time of `cpu` in the text of `/proc/stat`.
fn steal_ns(text: &str, cpu: u32) -> Option<u64> {
    stolen_ns(text).find(|(of, _)| *of == cpu).map(|(_, ns)| ns)
}

/// Returns the non-maskable interrupts of the CPU in `column` of the text of `/proc/interrupts`.
fn nmis(text: &str, column: usize) -> Option<u64> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix("NMI:"))?;
    line.split_ascii_whitespace().nth(column)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_those_of_the_cpu() {
        let stat =
            "cpu  9 0 9 9 0 0 0 99 0 0\ncpu0 1 0 1 1 0 0 0 12 0 0\ncpu1 1 0 1 1 0 0 0 3 0 0\n";
        assert_eq!(steal_ns(stat, 1), Some(30_000_000));
        assert_eq!(steal_ns(stat, 10), None);
        assert_eq!(steal_ns("cpu1 1 0 1", 1), None, "a kernel before steal was counted");

        let interrupts = "           CPU0       CPU1\n  0:  9 8 timer\nNMI:   41   42   Non-maskable interrupts\n";
        assert_eq!(nmis(interrupts, 1), Some(42));
        assert_eq!(nmis("  0:  9 8 timer\n", 1), None, "not x86");
    }
}
