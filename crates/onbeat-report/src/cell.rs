//! One cell of a summary: what is known of it.
//!
//! `cell_figures` makes it of a run file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::analyses::Conclusions;
use super::cause_counts::Causes;
use super::chain_cycles::ChainCycles;
use super::events::{AlarmVerdict, BusEvents};
use super::probe_figures::BySecond;
use super::statistics::Statistics;
use super::units::under;
use super::verdict::Verdict;
use super::worst_cpu::CpuLoop;
use onbeat_cause::{CauseKind, Situation};
use onbeat_host::idle::PowerUse;
use onbeat_record::{
    BoardAccount, Cell, Import, MotionNote, NoiseAccount, PacketAccount, Series, SpikeNote, Stall,
};

#[allow(clippy::trivially_copy_pass_by_ref)] // The signature that serde calls.
pub(super) const fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// The result of one cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellSummary {
    /// `none`, or letters of P, M, C, S.
    pub tuning: String,
    /// The load as typed.
    pub load: String,
    /// The CPU that its figures are of: the worst, where each of several has a loop; `None` with one
    /// loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// The loops of all its CPUs; empty with one loop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<CpuLoop>,
    /// Name of its run file; `None` if it did not run.
    pub file: Option<String>,
    /// Whether the system permitted the tuning.
    pub permitted: bool,
    /// Reason of a refusal, and what would permit it; `None` if permitted.
    pub why_not: Option<String>,
    /// Whether the run file has its closing line.
    pub complete: bool,
    /// Whether the run was in progress.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub goes_on: bool,
    /// Number of uninterrupted stretches.
    pub blocks: u64,
    /// Slots: `cycles + skipped + lost`.
    pub slots: u64,
    /// Cycles served.
    pub cycles: u64,
    /// Skipped releases; `None` in imported runs.
    pub skipped: Option<u64>,
    /// Cycles that ended after the next release; `None` in imported runs.
    pub overruns: Option<u64>,
    /// Cycles that ended after their deadline; `None` in imported runs.
    pub deadline_misses: Option<u64>,
    /// Slots whose samples did not reach the recorder, because the ring between loop and recorder
    /// was full.
    pub lost: u64,
    /// Slots in no series because something around the loop changed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub excluded: u64,
    /// Samples beyond the spike limit; `None` in imported runs.
    pub spike_count: Option<u64>,
    /// Page faults of the loop's thread; `None` if the cell did not run or was cut off.
    pub page_faults: Option<u64>,
    /// Involuntary context switches of the loop's thread; `None` if the cell did not run or was cut
    /// off.
    pub involuntary_switches: Option<u64>,
    /// CPU time of the loop's thread over the time of its slots, 0 to 1; `None` if the cell did not
    /// run or was cut off.
    pub cpu_share: Option<f64>,
    /// Figures of each series with samples.
    pub series: BTreeMap<Series, Statistics>,
    /// Series of the run's subject, the main one first; wake-up latency if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub about: Vec<Series>,
    /// Figures second by second, of the probe `latency`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_second: Option<BySecond>,
    /// Conclusions from the figures of its probe, as sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub derived: Vec<String>,
    /// Account of packets: the note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<PacketAccount>,
    /// Account of two boards: the note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boards: Option<BoardAccount>,
    /// Account of a polling thread: the note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<NoiseAccount>,
    /// A chain through a bus, in cycles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<Box<ChainCycles>>,
    /// Sum of the notes of all blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub motion: Option<Box<MotionNote>>,
    /// Verdict on the limit; `None` without one.
    pub verdict: Option<Verdict>,
    /// Events of bus and robot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Box<BusEvents>>,
    /// Verdict on the limit on alarms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alarms: Option<AlarmVerdict>,
    /// The 100 worst spikes, worst first.
    pub spikes: Vec<SpikeNote>,
    /// Number of spikes by scheduler rule or signal that stopped the loop.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stalls: BTreeMap<Stall, u64>,
    /// Idle states and frequency of the loop's CPUs, all blocks together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerUse>,
    /// Spikes by main cause, summed over the intervals.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub causes: Causes,
    /// Facts that decide which advice applies.
    #[serde(default)]
    pub situation: Situation,
    /// Remedies, those of the most frequent cause first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<Remedy>,
    /// Number of spikes with a `window` note in the file.
    #[serde(default)]
    pub windows: u64,
    /// Packed size of these notes, in bytes.
    #[serde(default)]
    pub window_bytes: u64,
    /// CPU time of the cause analysis over the time of the slots, 0 to 1; absent without an
    /// analysis or if the run was cut off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causes_cpu_share: Option<f64>,
    /// Memory held for the analysis, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causes_bytes: Option<u64>,
    /// Origin of an imported run: the note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub import: Option<Import>,
    /// Conclusions beyond the figures, if requested (docs/guide/conclusions.md).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conclusions: Option<Box<Conclusions>>,
    /// Notes, as sentences.
    pub notes: Vec<String>,
}

/// The remedies for one kind of cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remedy {
    /// Kind of the cause.
    pub kind: CauseKind,
    /// Its most frequent culprit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub culprit: Option<String>,
    /// Ids of the advice that applies (docs/advice.md), the best first; empty if all of it is in
    /// effect already.
    pub advice: Vec<String>,
    /// The same in words.
    pub texts: Vec<String>,
    /// Ids of the tunings that put it into effect on this run's machine (docs/tunings.md).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tunings: Vec<String>,
}

impl CellSummary {
    /// Which cell it is.
    #[must_use]
    pub fn cell(&self) -> Cell {
        Cell { cpu: self.cpu, ..Cell::new(self.tuning.clone(), self.load.clone()) }
    }

    /// Of which CPU its figures are: `worst on CPU 2`; `None` with one loop.
    pub(super) fn on_cpu(&self) -> Option<String> {
        self.cpu.map(|cpu| format!("worst on CPU {cpu}"))
    }

    /// `under paper`, and of several CPUs `under paper, worst on CPU 2`.
    pub(super) fn place(&self) -> String {
        let under = under(&self.load);
        self.on_cpu().map_or_else(|| under.clone(), |on| format!("{under}, {on}"))
    }

    /// Releases that were skipped or whose cycle missed its deadline; 0 where they were not
    /// counted.
    pub(super) fn late_or_skipped(&self) -> u64 {
        self.deadline_misses.unwrap_or(0) + self.skipped.unwrap_or(0)
    }

    /// Releases that were too late, and all of them: by the limit it was judged by, or as
    /// [`Self::late_or_skipped`].
    pub(super) fn late_of_all(&self) -> (u64, u64) {
        match &self.verdict {
            Some(verdict) => (verdict.over + verdict.unsure, verdict.releases),
            None => (self.late_or_skipped(), self.slots),
        }
    }

    /// The largest value of what it is about; 0 without samples.
    pub(super) fn max_ns(&self) -> u64 {
        self.main().map_or(0, |(_, figures)| figures.max_ns)
    }

    /// What it is about and the figures of that: wake-up latency, unless its probe or another tool
    /// measured something else.
    #[must_use]
    pub fn main(&self) -> Option<(Series, &Statistics)> {
        if let Some((series, figures)) =
            self.about.first().and_then(|about| self.series.get_key_value(about))
        {
            return Some((*series, figures));
        }
        self.series.first_key_value().map(|(series, figures)| (*series, figures))
    }

    fn of_cell(cell: Cell) -> Self {
        Self { tuning: cell.tuning, load: cell.load, cpu: cell.cpu, ..Self::default() }
    }

    pub(super) fn not_permitted(cell: Cell, why_not: String) -> Self {
        Self { why_not: Some(why_not), ..Self::of_cell(cell) }
    }

    pub(super) fn missing(cell: Cell) -> Self {
        let notes = vec!["no run file: the bench ended before this cell was run".to_owned()];
        Self { permitted: true, notes, ..Self::of_cell(cell) }
    }
}
