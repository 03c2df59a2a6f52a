//! A bench with a loop on each of several CPUs: a tuning under a load is as good as its worst CPU.
//!
//! The figures of such a cell are those of the loop on its worst CPU; the others stand beside them in
//! short. Whatever reads one cell of a tuning and a load reads the worst one.

use serde::{Deserialize, Serialize};

use super::cell::CellSummary;
use super::file_facts::cell_of;
use super::once::grouped;
use super::statistics::Statistics;
use super::units::{count, listed};
use super::verdict::{Outcome, Verdict};
use onbeat_host::idle::PowerUse;
use onbeat_record::RunFile;

/// The loop of a cell on one of its CPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuLoop {
    /// Its CPU.
    pub cpu: u32,
    /// The run file's name; `None` when there is none.
    pub file: Option<String>,
    /// Why there is no loop on this CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
    /// Figures of the cell's main series, without those of its lowest samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<Statistics>,
    /// Cycles that ended after their deadline.
    pub deadline_misses: Option<u64>,
    /// Releases passed over.
    pub skipped: Option<u64>,
    /// How the limit came out, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// How its CPU rested and how fast it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerUse>,
}

impl CpuLoop {
    fn new(cpu: u32, of: &CellSummary) -> Self {
        let figures = of.main().map(|(_, figures)| figures.clone());
        Self {
            cpu,
            file: of.file.clone(),
            why_not: of.why_not.clone(),
            figures: figures.map(|figures| Statistics { low: Vec::new(), ..figures }),
            deadline_misses: of.deadline_misses,
            skipped: of.skipped,
            outcome: of.verdict.as_ref().map(|verdict| verdict.outcome),
            power: of.power.clone(),
        }
    }
}

/// The cell of the worst of loops that ran at the same time, with all of them in short: the worst
/// outcome; of equal ones the most late releases, then the largest value. `None` of no loop.
pub(super) fn worst_of(loops: Vec<CellSummary>) -> Option<CellSummary> {
    let cpus: Vec<CpuLoop> =
        loops.iter().filter_map(|of| Some(CpuLoop::new(of.cpu?, of))).collect();
    if cpus.is_empty() {
        return loops.into_iter().next();
    }

    // What is missing was not cut off; it is named.
    let complete = loops.iter().all(|of| of.complete || of.file.is_none());
    let goes_on = loops.iter().any(|of| of.goes_on);
    let open: Vec<String> = loops
        .iter()
        .filter(|of| of.permitted && of.main().is_none())
        .filter_map(|of| Some(format!("CPU {}", of.cpu?)))
        .collect();
    // Of loops without samples the last: the first CPU is the one that a shield leaves out.
    let worst = loops.into_iter().max_by(|a, b| {
        let has = |of: &CellSummary| of.main().is_some();
        let late = late_rate(a).total_cmp(&late_rate(b));
        let outcome = outcome(a).cmp(&outcome(b));
        has(a).cmp(&has(b)).then(outcome).then(late).then(a.max_ns().cmp(&b.max_ns()))
    })?;
    let verdict = worst.verdict.clone().map(|verdict| left_open(verdict, &open));
    Some(CellSummary { verdict, complete, goes_on, cpus, ..worst })
}

fn outcome(of: &CellSummary) -> Option<Outcome> {
    of.verdict.as_ref().map(|verdict| verdict.outcome)
}

fn late_rate(of: &CellSummary) -> f64 {
    let (late, all) = of.late_of_all();
    late as f64 / all.max(1) as f64
}

/// A CPU without samples has not shown that it meets the limit.
fn left_open(verdict: Verdict, open: &[String]) -> Verdict {
    if open.is_empty() || verdict.outcome != Outcome::Pass {
        return verdict;
    }
    let sentence = format!("{}; without samples: {}", verdict.sentence, listed(open));
    Verdict { outcome: Outcome::Inconclusive, sentence, ..verdict }
}

/// The files that the cells of a summary are of, and those of the other CPUs.
pub(super) fn split(cells: &[CellSummary], files: Vec<RunFile>) -> (Vec<RunFile>, Vec<RunFile>) {
    files.into_iter().partition(|file| is_of_worst(cells, file))
}

/// Whether a file is that of a cell: with one loop each is.
pub(super) fn is_of_worst(cells: &[CellSummary], file: &RunFile) -> bool {
    let cell = cell_of(file);
    cell.cpu.is_none() || cells.iter().any(|known| known.cell() == cell)
}

/// Which CPUs have no loop or no file in which tunings, a sentence for each reason.
pub(super) fn without_loop(cells: &[CellSummary]) -> Vec<String> {
    let measured = cells.iter().filter(|cell| cell.file.is_some());
    let loops = measured.flat_map(|cell| cell.cpus.iter().map(move |of| (cell, of)));
    let reasons = loops.filter(|(_, of)| of.file.is_none()).map(|(cell, of)| {
        let why = of.why_not.as_deref().unwrap_or("its run file is missing");
        ((of.cpu, why), cell.tuning.as_str())
    });
    let words = |((cpu, why), tunings): ((u32, &str), Vec<&str>)| {
        format!("No loop on CPU {cpu} with tuning {}: {why}", tunings.join(", "))
    };
    grouped(reasons).into_iter().map(words).collect()
}

/// Why there are no causes, and the command that records those of a CPU.
pub(super) fn without_causes(cells: &[CellSummary], worst: u32) -> Option<String> {
    let spikes: u64 = cells.iter().filter_map(|cell| cell.spike_count).sum();
    (spikes > 0).then(|| {
        format!(
            "Causes of the {} spikes were not recorded, because the flight recorder follows one loop; \
             those of CPU {worst}: `onbeat bench --cpu {worst}`",
            count(spikes)
        )
    })
}
