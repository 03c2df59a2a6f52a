//! Conclusions from the figures of a run: periodic interference, the tail versus a normal
//! distribution, the worst case, how long to measure. All of it for what the run is about, and for
//! what else it has.

use serde::{Deserialize, Serialize};

use super::enough::{Enough, enough};
use super::extremes::{self, Extremes};
use super::modes::{self, Modes};
use super::normal::{self, Normal};
use super::summary::Summary;
use crate::record::{RunFile, Series};

/// The share that "how long to measure" is given for without a limit, in percent.
const SHARE: f64 = 99.999;
/// The heading that the table of [`normal::table`] goes with.
pub const NOT_NORMAL: &str = "Tail versus normal distribution";
/// Series that are analysed besides the main one, where it has them.
const BESIDE: [Series; 3] = [Series::ResponseTime, Series::Hiccup, Series::RoundTrip];
/// Without a mission it is this many times the run.
const TIMES_THE_RUN: f64 = 10.0;

/// The conclusions from one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conclusions {
    /// What the run is about, which the fields below are of.
    #[serde(default)]
    pub series: Series,
    /// Periodic interference.
    pub modes: Modes,
    /// The series beside a normal distribution; `None` without a spread.
    pub normal: Option<Normal>,
    /// The extrapolated worst case (EVT).
    pub extremes: Extremes,
    /// How long to measure; `None` where no number of releases is enough.
    pub enough: Option<Enough>,
    /// The same of its other series.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OfSeries>,
}

/// The conclusions about one series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OfSeries {
    /// Which series.
    pub series: Series,
    /// Periodic interference.
    pub modes: Modes,
    /// Beside a normal distribution; `None` without a spread.
    pub normal: Option<Normal>,
    /// The extrapolated worst case (EVT).
    pub extremes: Extremes,
}

/// The series of a run that conclusions are drawn of, the main one first: what it says that it is
/// about, and a few others; of a run that another tool recorded, all that it has.
#[must_use]
pub fn about(run: &RunFile) -> Vec<Series> {
    let has = |series: &Series| {
        run.entries.iter().any(|entry| entry.series == *series && entry.counts.count() > 0)
    };
    let mut about: Vec<Series> = match (&run.import, run.header.series.as_slice()) {
        (Some(_), _) => Series::ALL.into_iter().filter(has).collect(),
        (None, []) => vec![Series::ReleaseLatency],
        (None, series) => series.iter().copied().filter(has).collect(),
    };

    for series in BESIDE.into_iter().filter(has) {
        if run.import.is_none() && !about.contains(&series) {
            about.push(series);
        }
    }

    about
}

/// Returns the conclusions from a run; `mission_s` is the time that the worst is wanted for, or
/// else ten times the run.
#[must_use]
pub fn of_run(run: &RunFile, at: Option<f64>, mission_s: Option<f64>) -> Conclusions {
    let period_ns = run.header.timing.as_ref().map(|timing| timing.period_ns);
    let period_ns = period_ns.or_else(|| run.import.as_ref()?.period_ns).unwrap_or(0);
    let mut of_each = about(run).into_iter().map(|series| of_series(run, series, mission_s));
    let OfSeries { series, modes, normal, extremes } = of_each.next().unwrap_or_default();
    let enough = enough(at.unwrap_or(SHARE), period_ns, 0);
    Conclusions { series, modes, normal, extremes, enough, others: of_each.collect() }
}

fn of_series(run: &RunFile, series: Series, mission_s: Option<f64>) -> OfSeries {
    let distribution = run.distribution(series);
    let statistics = super::Statistics::new(&distribution, &run.moments(series));
    OfSeries {
        series,
        modes: modes::of_series(run, series),
        normal: statistics.and_then(|statistics| normal::of(&statistics, &distribution, series)),
        extremes: extremes::of_series(
            run,
            series,
            mission_s.unwrap_or(TIMES_THE_RUN * measured_s(run, series)),
        ),
    }
}

/// How long a series was measured, in seconds; 0 where it is not known.
fn measured_s(run: &RunFile, series: Series) -> f64 {
    let of_series = run.entries.iter().filter(|entry| entry.series == series);
    of_series.fold(0.0, |all, entry| all + entry.length)
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
            cell.conclusions =
                runs.iter().find(is_its).map(|run| Box::new(of_run(run, at, mission_s)));
        }
    }
}

/// A heading and the sentences below it.
pub type Section = (&'static str, Vec<String>);

/// Conclusions in sections of few sentences. The table of [`normal::table`] goes with
/// [`NOT_NORMAL`].
#[must_use]
pub fn sections(summary: &Summary) -> Vec<Section> {
    let many = summary.cells.len() > 1;
    let named = |sentence: String, cell: &super::CellSummary| {
        if many { format!("{} under {}: {sentence}", cell.tuning, cell.load) } else { sentence }
    };
    let cells: Vec<_> = summary
        .cells
        .iter()
        .filter_map(|cell| Some((cell, cell.conclusions.as_deref()?)))
        .collect();
    let best = summary.verdict.best.as_ref();
    let is_best = |cell: &super::CellSummary| {
        best.is_some_and(|best| best.tuning == cell.tuning && best.load == cell.load)
    };
    // Of many cells those that found something, or else the best one.
    let sentences_of = |has: &dyn Fn(&Conclusions) -> bool,
                        words: &dyn Fn(&Conclusions) -> Vec<String>|
     -> Vec<String> {
        let some: Vec<_> = cells.iter().filter(|(_, conclusions)| has(conclusions)).collect();
        let chosen = if some.is_empty() {
            cells.iter().filter(|(cell, _)| !many || is_best(cell)).collect()
        } else {
            some
        };
        chosen
            .into_iter()
            .flat_map(|(cell, all)| {
                words(all).into_iter().map(|w| named(w, cell)).collect::<Vec<_>>()
            })
            .collect()
    };

    let finds = |all: &Conclusions| {
        !all.modes.found.is_empty() || all.others.iter().any(|other| !other.modes.found.is_empty())
    };
    let modes = sentences_of(&finds, &modes_of);
    let normal = sentences_of(&|all| !many && all.normal.is_some(), &|all| {
        all.normal.iter().map(|n| n.sentence.clone()).collect()
    });
    let extremes = sentences_of(&|all| all.extremes.estimate.is_some(), &extremes_of);
    let enough: Vec<String> = cells
        .iter()
        .filter_map(|(_, all)| Some(all.enough.as_ref()?.sentence.clone()))
        .take(1)
        .collect();
    let all = [
        ("Periodic interference", modes),
        (NOT_NORMAL, normal),
        ("Extrapolated worst case (EVT)", extremes),
        ("How long to measure", enough),
    ];

    all.into_iter().filter(|(_, sentences)| !sentences.is_empty()).collect()
}

/// Sentences about modes: those of the main series, or that there is none, and what was found in
/// others.
fn modes_of(all: &Conclusions) -> Vec<String> {
    let mut sentences: Vec<String> = match all.modes.found.as_slice() {
        [] => vec![all.modes.sentence.clone()],
        found => found.iter().map(|mode| mode.sentence.clone()).collect(),
    };

    for other in &all.others {
        // What the main series has is in those that contain it, too.
        let is_new = |mode: &&modes::Mode| {
            !all.modes.found.iter().any(|main| modes::is_same_period(main, mode))
        };
        let new = other.modes.found.iter().filter(is_new);
        sentences.extend(new.map(|mode| format!("{}: {}", other.series.words(), mode.sentence)));
    }

    sentences
}

/// Sentences about the worst case: that of the main series, and estimates of others.
fn extremes_of(all: &Conclusions) -> Vec<String> {
    let others = all.others.iter().filter(|other| other.extremes.estimate.is_some());
    let others = others.map(|other| other.extremes.sentence.clone());
    std::iter::once(all.extremes.sentence.clone()).chain(others).collect()
}
