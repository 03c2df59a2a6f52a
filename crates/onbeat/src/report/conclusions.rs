//! What a run's figures allow to conclude, beyond them: what comes back at its time, what mean and SD leave out, how late
//! it may get, how long to measure.

use serde::{Deserialize, Serialize};

use super::enough::{Enough, enough};
use super::extremes::{self, Extremes};
use super::modes::{self, Modes};
use super::normal::{self, Normal};
use super::summary::Summary;
use crate::record::{RunFile, Series};

/// The share that "how long to measure" is told for when no limit says another, in percent.
const SHARE: f64 = 99.999;
/// The heading that the table of [`normal::table`] goes with.
pub const NOT_NORMAL: &str = "Not normal";
/// Without a mission it is this many times the run.
const TIMES_THE_RUN: f64 = 10.0;

/// What can be concluded from one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conclusions {
    /// What comes back at its time.
    pub modes: Modes,
    /// The wake-up latency beside a normal distribution; `None` without a spread.
    pub normal: Option<Normal>,
    /// How late it may get.
    pub extremes: Extremes,
    /// How long to measure; `None` where no number of releases is enough.
    pub enough: Option<Enough>,
}

/// What can be concluded from a run; `mission_s` is the time that the worst is wanted for, or else ten times the run.
#[must_use]
pub fn of_run(run: &RunFile, at: Option<f64>, mission_s: Option<f64>) -> Conclusions {
    let distribution = run.distribution(Series::WakeupLatency);
    let statistics = super::Statistics::of(&distribution, &run.moments(Series::WakeupLatency));
    let period_ns = run.header.timing.as_ref().map_or(0, |timing| timing.period_ns);
    let measured_s: f64 = run.intervals.iter().map(|interval| interval.length).sum();
    Conclusions {
        modes: modes::of_run(run),
        normal: statistics.and_then(|statistics| normal::of(&statistics, &distribution, Series::WakeupLatency)),
        extremes: extremes::of_run(run, mission_s.unwrap_or(TIMES_THE_RUN * measured_s)),
        enough: enough(at.unwrap_or(SHARE), period_ns, 0),
    }
}

impl Summary {
    /// Adds conclusions to the cells that these files are of.
    pub fn conclude(&mut self, runs: &[RunFile], mission_s: Option<f64>) {
        let at = self.limit.map(|limit| limit.at);
        for cell in &mut self.cells {
            let is_its = |run: &&RunFile| {
                let name = run.path.file_name().map(|name| name.to_string_lossy());
                name.is_some() && name.as_deref() == cell.file.as_deref()
            };
            cell.conclusions = runs.iter().find(is_its).map(|run| Box::new(of_run(run, at, mission_s)));
        }
    }
}

/// A heading and the sentences below it.
pub type Section = (&'static str, Vec<String>);

/// Conclusions in sections of few sentences. The table of [`normal::table`] goes with [`NOT_NORMAL`].
#[must_use]
pub fn sections(summary: &Summary) -> Vec<Section> {
    let many = summary.cells.len() > 1;
    let named = |sentence: String, cell: &super::CellSummary| {
        if many { format!("{} under {}: {sentence}", cell.tuning, cell.load) } else { sentence }
    };
    let cells: Vec<_> = summary.cells.iter().filter_map(|cell| Some((cell, cell.conclusions.as_deref()?))).collect();
    let best = summary.verdict.best.as_ref();
    let is_best =
        |cell: &super::CellSummary| best.is_some_and(|best| best.tuning == cell.tuning && best.load == cell.load);
    // Of many cells those that found something, or else the best one.
    let told = |has: &dyn Fn(&Conclusions) -> bool, words: &dyn Fn(&Conclusions) -> Vec<String>| -> Vec<String> {
        let some: Vec<_> = cells.iter().filter(|(_, conclusions)| has(conclusions)).collect();
        let chosen =
            if some.is_empty() { cells.iter().filter(|(cell, _)| !many || is_best(cell)).collect() } else { some };
        chosen
            .into_iter()
            .flat_map(|(cell, all)| words(all).into_iter().map(|w| named(w, cell)).collect::<Vec<_>>())
            .collect()
    };
    let modes = told(&|all| !all.modes.found.is_empty(), &|all| match all.modes.found.as_slice() {
        [] => vec![all.modes.sentence.clone()],
        found => found.iter().map(|mode| mode.sentence.clone()).collect(),
    });
    let normal =
        told(&|all| !many && all.normal.is_some(), &|all| all.normal.iter().map(|n| n.sentence.clone()).collect());
    let extremes = told(&|all| all.extremes.estimate.is_some(), &|all| vec![all.extremes.sentence.clone()]);
    let enough: Vec<String> =
        cells.iter().filter_map(|(_, all)| Some(all.enough.as_ref()?.sentence.clone())).take(1).collect();
    let all =
        [("Modes", modes), (NOT_NORMAL, normal), ("How late it may get", extremes), ("How long to measure", enough)];
    all.into_iter().filter(|(_, sentences)| !sentences.is_empty()).collect()
}
