//! One cell of a summary: the figures of one run file, and its notes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::causes::{self, Causes};
use super::conclusions::Conclusions;
use super::events::{AlarmVerdict, BusEvents};
use super::exclusions;
use super::probes::{self, BySecond};
use super::remedies::{self, Remedy};
use super::statistics::Statistics;
use super::units::{count, spoken};
use super::verdict::{self, Limit, Verdict};
use crate::cause::Situation;
use crate::record::{
    Cell, Import, LoadEvent, LoadEventKind, Resume, RunFile, Series, SpikeNote, Stall,
};

/// Spikes that a summary lists of a cell: the worst. All that were kept stand in the run file.
const SPIKES_LISTED: usize = 100;

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
    /// Why not.
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

/// The summary of a cell's run file.
pub(super) fn of_file(cell: Cell, run: &RunFile, limit: Option<Limit>) -> CellSummary {
    let per_interval =
        |figure: fn(&crate::record::Interval) -> u64| run.intervals.iter().map(figure).sum::<u64>();
    let account = SlotCounts::of(run);
    let mut series: BTreeMap<Series, Statistics> = Series::ALL
        .into_iter()
        .filter_map(|series| {
            Some((series, Statistics::new(&run.distribution(series), &run.moments(series))?))
        })
        .collect();
    if let Some(import) = &run.import {
        super::imported::mark_beyond(&mut series, import);
    }

    let notes = notes(run, &series);
    let counted = |number: u64| run.import.is_none().then_some(number);
    let mut summary = CellSummary {
        tuning: cell.tuning,
        load: cell.load,
        file: run.path.file_name().map(|name| name.to_string_lossy().into_owned()),
        permitted: true,
        why_not: None,
        complete: run.is_complete(),
        goes_on: run.goes_on,
        blocks: run.blocks.len() as u64,
        slots: account.slots,
        cycles: account.cycles,
        skipped: counted(account.skipped),
        overruns: counted(per_interval(|interval| interval.overruns)),
        deadline_misses: counted(per_interval(|interval| interval.deadline_misses)),
        lost: account.lost,
        excluded: account.excluded,
        spike_count: counted(per_interval(|interval| interval.spikes)),
        page_faults: run.end.as_ref().map(|end| end.page_faults),
        involuntary_switches: run.end.as_ref().map(|end| end.involuntary_switches),
        cpu_share: share_of_slots(run, |end| end.cpu_ns),
        verdict: limit.map(|limit| verdict::judge(run, limit)),
        events: BusEvents::of(run),
        alarms: None,
        spikes: worst_spikes(run),
        stalls: verdict::stalls(run),
        causes: causes::of_run(run),
        situation: remedies::situation(&run.header),
        remedies: Vec::new(),
        windows: run.windows.len() as u64,
        window_bytes: run.windows.iter().map(|window| window.packed.len() as u64).sum(),
        causes_cpu_share: share_of_slots(run, |end| end.causes_cpu_ns).filter(|_| looked(run)),
        causes_bytes: run.end.as_ref().map(|end| end.causes_bytes).filter(|_| looked(run)),
        import: run.import.clone(),
        about: run.header.series.clone(),
        by_second: BySecond::from_seconds(&run.seconds),
        derived: probes::derived(run, &series),
        series,
        conclusions: None,
        notes,
    };

    summary.remedies = remedies::of_cell(&summary);
    summary
}

/// What happened to a load's parts, as sentences.
pub(super) fn load_notes<'e>(
    events: &'e [LoadEvent],
    load: &'e str,
) -> impl Iterator<Item = String> + 'e {
    events.iter().filter(move |event| event.load == load).filter_map(move |event| {
        let detail = &event.detail;
        match event.event {
            LoadEventKind::PartDied => {
                Some(format!("a part of the load {load} died after {:.1} s: {detail}", event.t))
            }
            LoadEventKind::PartSubstituted => {
                Some(format!("a part of the load {load} was substituted: {detail}"))
            }
            _ => None,
        }
    })
}

/// Slots, as the closing line tells them, or as far as the intervals go.
struct SlotCounts {
    slots: u64,
    cycles: u64,
    skipped: u64,
    lost: u64,
    excluded: u64,
}

impl SlotCounts {
    fn of(run: &RunFile) -> Self {
        if run.import.is_some() {
            let count = |series: Series| -> u64 {
                let entries = run.entries.iter().filter(|entry| entry.series == series);
                entries.map(|entry| entry.counts.count()).sum()
            };
            let samples = Series::ALL.into_iter().map(count).find(|n| *n > 0).unwrap_or(0);
            return Self { slots: samples, cycles: samples, skipped: 0, lost: 0, excluded: 0 };
        }

        let crate::record::Account { slots, cycles, skipped, lost, excluded, .. } = run.account();
        Self { slots, cycles, skipped, lost, excluded }
    }
}

fn share_of_slots(run: &RunFile, cpu_ns: fn(&crate::record::Account) -> u64) -> Option<f64> {
    let end = run.end.as_ref()?;
    let timing = run.header.timing.as_ref()?;
    let slots_ns = end.slots.saturating_sub(end.untold) as f64 * timing.period_ns as f64;
    (slots_ns > 0.0).then(|| cpu_ns(end) as f64 / slots_ns)
}

/// Whether a flight recorder ran beside the loop.
fn looked(run: &RunFile) -> bool {
    run.end.as_ref().is_some_and(|end| end.causes_bytes > 0)
}

/// The worst by lateness: wake-up latency plus execution time beyond the planned work.
fn worst_spikes(run: &RunFile) -> Vec<SpikeNote> {
    let work_ns = run.header.timing.as_ref().map_or(0, |timing| timing.work_ns);
    let lateness_ns = |spike: &SpikeNote| {
        spike.wakeup_latency_ns + spike.execution_time_ns.saturating_sub(work_ns)
    };
    let mut spikes = run.spikes.clone();
    spikes.sort_by_key(|spike| std::cmp::Reverse(lateness_ns(spike)));
    spikes.truncate(SPIKES_LISTED);
    spikes
}

fn notes(run: &RunFile, series: &BTreeMap<Series, Statistics>) -> Vec<String> {
    let mut notes = run.import.as_ref().map(super::imported::notes).unwrap_or_default();
    notes.extend(run.resumes.iter().map(resumed));
    if run.goes_on {
        notes.push(format!(
            "run in progress: figures from its first {}",
            spoken(super::summary::last_second(run))
        ));
    } else if !run.is_complete() {
        let line = if run.cut_line { ", in the middle of a line" } else { "" };
        notes.push(format!(
            "truncated{line}: figures from the recorded part; warm-up cycles are not counted"
        ));
    }

    let from_buckets: Vec<String> = series
        .iter()
        .filter(|(_, figures)| figures.from_buckets)
        .map(|(series, _)| series.words().to_owned())
        .collect();
    if !from_buckets.is_empty() {
        let which = super::units::listed(&from_buckets);
        notes.push(format!(
            "mean, SD and maximum of {which} are computed from histogram buckets and have their precision"
        ));
    }

    for grant in run.header.grants.iter().filter(|grant| !grant.granted) {
        let why = grant.why_not.as_deref().unwrap_or("no reason given");
        notes.push(format!("{} ({}) was not granted: {why}", grant.what, grant.wanted));
    }

    if let SlotCounts { lost: 1.., .. } = SlotCounts::of(run) {
        let lost = count(SlotCounts::of(run).lost);
        notes.push(format!(
            "{lost} samples were dropped (ring between loop and recorder full) and are in no figure"
        ));
    }

    notes.extend(warm_up(run, series));
    notes.extend(verdict::stalls_in_words(&verdict::stalls(run)));
    notes.extend(exclusions::in_words(&run.exclusions));
    notes.extend(BusEvents::of(run).map_or(Vec::new(), |events| events.incidents));
    notes.extend(run.remarks.iter().cloned());
    for load in loads_of(run) {
        notes.extend(load_notes(&run.loads, load));
    }

    notes
}

/// What the warm-up left out, where that is worse than everything it kept.
fn warm_up(run: &RunFile, series: &BTreeMap<Series, Statistics>) -> Option<String> {
    let crate::record::Account { warmup, warmup_worst_ns, .. } = run.account();
    let kept_ns = series.get(&Series::ReleaseLatency).map_or(0, |figures| figures.max_ns);
    let time = |ns: u64| super::units::time_ns(ns, super::units::Letters::Ascii);
    (warmup_worst_ns > kept_ns).then(|| {
        let worst = time(warmup_worst_ns);
        let cycles = count(warmup);
        format!(
            "{cycles} warm-up cycles are excluded; the worst wake-up latency among them is {worst}"
        )
    })
}

fn resumed(resume: &Resume) -> String {
    let how = if resume.after.is_some() { "ended early" } else { "was interrupted" };
    let unmeasured = spoken(resume.unmeasured_s);
    let t = spoken(resume.t);
    format!("the run {how} and was resumed at {t}; the {unmeasured} before that were not measured")
}

fn loads_of(run: &RunFile) -> Vec<&str> {
    let mut loads: Vec<&str> = run.loads.iter().map(|event| event.load.as_str()).collect();
    loads.sort_unstable();
    loads.dedup();
    loads
}
