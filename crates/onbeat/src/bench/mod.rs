//! Tunings × loads, in turns, each cell in a process of its own; and single measurements.
//!
//! [`CellTuning`] and [`schedule`] say what runs when; [`host_settings`] are made before a block and
//! undone after it; [`cell_start`] is the message that starts the
//! process of a cell, [`cell`] that process at both ends of its pipes; [`conduct`] executes the
//! schedule: loads, shield, blocks. [`turns`] does the same for one probe under several loads, in
//! one process. [`measurement`] is one probe under one load.
//!
//! ```
//! use std::time::Duration;
//!
//! use onbeat::bench::schedule::{CellOrder, plan};
//!
//! // Nine tunings, without load and with one, in two minutes.
//! let schedule = plan(9, &[false, true], Duration::from_secs(120), CellOrder::Interleaved, 1)?;
//! assert!(schedule.estimate_s <= 120.0 && schedule.blocks_per_cell >= 4);
//! # Ok::<(), onbeat::bench::schedule::TooShort>(())
//! ```
//!
//! Absent on purpose: figures. They come from the run files, in [`crate::report`].

pub mod background_load;
pub mod cell;
mod cell_slot;
pub mod cell_start;
pub mod cell_tuning;
pub mod conduct;
mod error;
pub mod fresh_memory;
pub mod host_settings;
mod load_notes;
pub mod measurement;
mod plan;
pub mod run_tuning;
pub mod schedule;
mod shielding;
pub mod sweep;
pub mod turns;
mod unfinished;

pub use crate::record::{Tuning, TuningError};
pub use cell_tuning::{CellTuning, CellTuningError, LoopOptions};

/// Returns the CPU with the fewest device interrupts since boot, by `/proc/interrupts`: some
/// interrupts cannot be moved, and its shield leaves the fewest behind. The highest number among
/// equals, since CPU 0 keeps the kernel's time.
#[must_use]
pub fn quietest_cpu() -> u32 {
    let online = crate::host::online_cpus();
    let table = std::fs::read_to_string("/proc/interrupts").unwrap_or_default();
    let counts = device_interrupts(&table);
    let count = |cpu: &u32| counts.get(cpu).copied().unwrap_or(0);
    online.into_iter().min_by_key(|cpu| (count(cpu), std::cmp::Reverse(*cpu))).unwrap_or(0)
}

/// Counts numbered interrupts per CPU. The lines with letters (local timer, rescheduling) belong to
/// each CPU and do not move.
fn device_interrupts(table: &str) -> std::collections::BTreeMap<u32, u64> {
    let mut lines = table.lines();
    let header = lines.next().unwrap_or_default();
    let cpus: Vec<u32> = header
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("CPU")?.parse().ok())
        .collect();
    let mut counts = std::collections::BTreeMap::new();
    for line in lines {
        let Some((name, rest)) = line.split_once(':') else { continue };
        if !name.trim().bytes().all(|digit| digit.is_ascii_digit()) {
            continue;
        }

        for (&cpu, count) in cpus.iter().zip(rest.split_whitespace()) {
            *counts.entry(cpu).or_default() += count.parse::<u64>().unwrap_or(0);
        }
    }

    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_interrupts_are_counted_per_cpu_and_local_ones_are_not() {
        let table = "           CPU0       CPU2\n 24:   5    7  IO-APIC  virtio0\n 36:  1 30709  MSI disk\nLOC:  900 900 Local\n";
        assert_eq!(device_interrupts(table), [(0, 6), (2, 30_716)].into());
    }
}
