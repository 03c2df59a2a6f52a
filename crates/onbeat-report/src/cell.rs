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
use super::verdict::Verdict;
use onbeat_cause::{CauseKind, Situation};
use onbeat_host::idle::PowerUse;
use onbeat_record::{
    BoardAccount, Cell, Import, MotionNote, NoiseAccount, PacketAccount, Series, SpikeNote, Stall,
};

#[allow(clippy::trivially_copy_pass_by_ref)] // The signature that serde calls.
const fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// The result of one cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellSummary {
    /// `none`, or letters of P, M, C, S.
    pub tuning: String,
    /// The load as typed.
    pub load: String,
    /// The run file's name; `None` when there is none.
    pub file: Option<String>,
    /// Whether the system let it run.
    pub permitted: bool,
    pub why_not: Option<String>,
    /// Whether the run file has its closing line.
    pub complete: bool,
    /// Whether it was being measured when it was read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub goes_on: bool,
    /// Uninterrupted stretches.
    pub blocks: u64,
    /// Releases that passed.
    pub slots: u64,
    /// Cycles run.
    pub cycles: u64,
    /// Releases passed over; `None` in imported runs, as the three below.
    pub skipped: Option<u64>,
    /// Cycles that ended after the next release.
    pub overruns: Option<u64>,
    /// Cycles that ended after their deadline.
    pub deadline_misses: Option<u64>,
    /// Samples dropped because the ring between loop and recorder was full.
    pub lost: u64,
    /// Slots in no series because something around the loop changed while they were under way.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub excluded: u64,
    /// Samples beyond the spike limit.
    pub spike_count: Option<u64>,
    /// Page faults of the loop's thread; `None` when the run was cut off before its closing line.
    pub page_faults: Option<u64>,
    /// Times the loop's thread was made to leave the CPU; `None` as above.
    pub involuntary_switches: Option<u64>,
    /// CPU time of the loop's thread over the time of its slots, 0 to 1; `None` as above.
    pub cpu_share: Option<f64>,
    /// Figures of each series with samples.
    pub series: BTreeMap<Series, Statistics>,
    /// What the run is about, the main series first; empty for wake-up latency.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub about: Vec<Series>,
    /// Second by second, where that was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_second: Option<BySecond>,
    /// Conclusions from the figures of its probe, as sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub derived: Vec<String>,
    /// What became of packets; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<PacketAccount>,
    /// What became of the edges between two boards; absent without a second board.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boards: Option<BoardAccount>,
    /// What a polling thread saw of its CPU; absent in runs of other probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<NoiseAccount>,
    /// The chain through a bus in cycles, predicted and measured; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<Box<ChainCycles>>,
    /// What the robot did; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub motion: Option<Box<MotionNote>>,
    /// The verdict on the limit, when there is one.
    pub verdict: Option<Verdict>,
    /// Events of its bus and the robot on it; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Box<BusEvents>>,
    /// How the limit on alarms came out, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alarms: Option<AlarmVerdict>,
    /// The worst spikes, worst first.
    pub spikes: Vec<SpikeNote>,
    /// Spikes that are no latency of the machine, of all that the run file kept.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stalls: BTreeMap<Stall, u64>,
    /// How the CPUs of its loop rested and how fast they ran; absent in files that do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerUse>,
    /// Spikes by their main cause; empty without an analysis.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub causes: Causes,
    /// What decides which advice applies.
    #[serde(default)]
    pub situation: Situation,
    /// Remedies for the causes, the most frequent first; empty without an analysis.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<Remedy>,
    /// Spikes of which the file keeps what the CPUs did around them, and how many bytes that takes.
    #[serde(default)]
    pub windows: u64,
    /// See [`Self::windows`].
    #[serde(default)]
    pub window_bytes: u64,
    /// CPU time of the thread that looks for causes over the time of the slots, 0 to 1; `None`
    /// without an analysis, or the run was cut off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causes_cpu_share: Option<f64>,
    /// Memory held for it, in bytes: the kernel's buffers and what is kept of them; `None` as
    /// above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causes_bytes: Option<u64>,
    /// Where it comes from, when another tool recorded it; misses and skipped releases are not
    /// known then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub import: Option<Import>,
    /// Conclusions beyond the figures; absent unless requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conclusions: Option<Box<Conclusions>>,
    /// Notes, as sentences.
    pub notes: Vec<String>,
}

/// The remedies for one kind of cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remedy {
    pub kind: CauseKind,
    /// Its most frequent culprit, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub culprit: Option<String>,
    /// Ids of what applies, the best first; empty where nothing does that is not in effect already.
    pub advice: Vec<String>,
    /// The same in words.
    pub texts: Vec<String>,
    /// Ids of the catalogue of tunings that put the advice into effect on this run's machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tunings: Vec<String>,
}

impl CellSummary {
    /// Which cell it is.
    #[must_use]
    pub fn cell(&self) -> Cell {
        Cell { tuning: self.tuning.clone(), load: self.load.clone() }
    }

    /// Releases that were skipped or whose cycle missed its deadline; 0 where they were not
    /// counted.
    pub(super) fn late_or_skipped(&self) -> u64 {
        self.deadline_misses.unwrap_or(0) + self.skipped.unwrap_or(0)
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

    /// The figures of its first series.
    #[must_use]
    pub fn wakeup(&self) -> Option<&Statistics> {
        self.main().map(|(_, figures)| figures)
    }

    pub(super) fn not_permitted(cell: Cell, why_not: String) -> Self {
        Self { tuning: cell.tuning, load: cell.load, why_not: Some(why_not), ..Self::default() }
    }

    pub(super) fn missing(cell: Cell) -> Self {
        let notes = vec!["no run file: the bench ended before this cell was run".to_owned()];
        Self { tuning: cell.tuning, load: cell.load, permitted: true, notes, ..Self::default() }
    }
}
