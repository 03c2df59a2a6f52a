//! Runs beside each other: figures, ratios with their intervals, and what differed between the
//! machines.
//!
//! A run is first made small ([`Digest`]): its summary, and percentiles of its resampled stretches.
//! Any number of long runs can be compared while only one of them is in memory. The first run is
//! what the others are held against.

use std::collections::BTreeSet;

use serde::Serialize;

use super::bootstrap::{LEAST_RUNS, LEAST_STRETCHES};
use super::cell::CellSummary;
use super::comparable::{self, are_across_loads, are_single};
use super::digest::WANDERS;
use super::facts;
use super::once::once;
use super::order_statistics::ASSUMPTION;
use super::statistics::LEAST_ABOVE;
use super::units::{cell_name, count, listed, percent};
use onbeat_record::Series;

pub use super::digest::{Compared, Digest, Ratio, RunFigures, SHARES};

/// The schema of a comparison.
pub const COMPARE_SCHEMA: &str = "onbeat.compare/1";

/// A fact that differs between the runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Name of the fact.
    pub fact: String,
    /// Its value in each run; `None` where the run does not record it.
    pub values: Vec<Option<String>>,
}

/// The result of `onbeat compare --json`. The `runs` of a single run are its loads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// `onbeat.compare/1`.
    pub schema: String,
    /// Version of onbeat that compares.
    pub version: String,
    /// Names of the runs; the first is the baseline.
    pub runs: Vec<String>,
    /// Figures, cell by cell and series by series.
    pub cells: Vec<Compared>,
    /// Differences between hosts and settings.
    pub differences: Vec<Difference>,
    /// Reasons why the runs may not be comparable, as sentences.
    pub warnings: Vec<String>,
    /// Results, as sentences.
    pub sentences: Vec<String>,
}

impl Comparison {
    /// Of several runs.
    #[must_use]
    pub fn new(runs: &[Digest]) -> Self {
        let mut cells = Vec::new();
        for key in keys(runs) {
            for series in series_of(runs, &key) {
                let compared = compared(runs, &key, series);
                cells.extend(Some(compared).filter(|compared| compared.runs.len() > 1));
            }
        }

        let differences = differences(runs);
        let mut comparison = Self {
            schema: COMPARE_SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            runs: runs.iter().map(|run| run.name.clone()).collect(),
            warnings: comparable::warnings(runs, &cells),
            sentences: Vec::new(),
            cells,
            differences,
        };

        comparison.sentences = comparison.in_words();
        comparison
    }

    /// Whether no percentile of what the runs are about has an interval that says anything.
    #[must_use]
    pub fn is_undecided(&self) -> bool {
        let main = self.main().into_iter();
        let figures = main.flat_map(|compared| compared.runs.iter().skip(1));
        let mut ratios = figures.flat_map(|figures| &figures.ratios);
        !ratios.any(|ratio| ratio.low.is_some() && !ratio.is_undecided())
    }

    /// The first series of each cell: what is shown by default.
    #[must_use]
    pub fn main(&self) -> Vec<&Compared> {
        let mut seen = BTreeSet::new();
        self.cells.iter().filter(|compared| seen.insert(&compared.cell)).collect()
    }

    /// A series that counts what was served only has beside it the one of every release that was
    /// due: what was never served is in no interval between two writes.
    fn with_all_releases<'c>(&'c self, main: &'c Compared) -> Vec<&'c Compared> {
        let is_of_releases = |compared: &&Compared| {
            compared.cell == main.cell
                && compared.series == Series::ReleaseLatency
                && compared.runs.len() == main.runs.len()
        };
        let all = self.cells.iter().find(is_of_releases);
        let all = all.filter(|_| main.series != Series::ReleaseLatency);
        all.into_iter().chain([main]).collect()
    }

    fn in_words(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        for compared in self.main().into_iter().flat_map(|main| self.with_all_releases(main)) {
            let [base, others @ ..] = compared.runs.as_slice() else { continue };
            let of = if compared.cell.is_empty() {
                String::new()
            } else {
                format!("{}: ", compared.cell)
            };
            let first = sentences.len();
            let mut undecided: Vec<(String, Vec<String>)> = Vec::new();
            for other in others {
                let runs = (self.runs[other.run].as_str(), self.runs[base.run].as_str());
                match difference(compared.series, runs, &other.ratios) {
                    Ok(words) => sentences.push(format!("{of}{words}")),
                    Err(why) => match undecided.iter_mut().find(|(known, _)| *known == why) {
                        Some((_, names)) => names.push(runs.0.to_owned()),
                        None => undecided.push((why, vec![runs.0.to_owned()])),
                    },
                }
                if compared.series == Series::ReleaseLatency {
                    let skipped = skipped(runs, (other, base));
                    sentences.extend(skipped.map(|words| format!("{of}{words}")));
                }
            }
            let base = &self.runs[base.run];
            let in_words = |(why, names): (String, Vec<String>)| match names.as_slice() {
                [mine] => format!("{of}INCONCLUSIVE whether {mine} and {base} differ: {why}"),
                all => {
                    format!("{of}INCONCLUSIVE whether {} differ from {base}: {why}", listed(all))
                }
            };
            sentences.splice(first..first, undecided.into_iter().map(in_words));
        }

        sentences
    }
}

/// Names what differs between two runs, with its size; or says of which percentiles nothing does.
/// `Err` is why neither is known.
fn difference(
    series: Series,
    (mine, base): (&str, &str),
    ratios: &[Ratio],
) -> Result<String, String> {
    let words = series.words();
    let sized = |ratio: &Ratio| format!("{} {}", ratio.metric, ratio.words());
    let (undecided, decided): (Vec<&Ratio>, Vec<&Ratio>) =
        ratios.iter().filter(|ratio| ratio.low.is_some()).partition(|ratio| ratio.is_undecided());
    let (differing, alike): (Vec<&Ratio>, Vec<&Ratio>) =
        decided.into_iter().partition(|ratio| ratio.is_visible());
    let too_wide: Vec<String> = undecided.iter().map(|ratio| ratio.metric.clone()).collect();
    if differing.is_empty() && alike.is_empty() {
        return Err(match too_wide.as_slice() {
            [] if ratios.iter().any(|ratio| ratio.wanders) => WANDERS.to_owned(),
            [] => without_interval(ratios),
            which => format!("the interval of {} {TOO_WIDE}", listed(which)),
        });
    }

    let assumed = match ratios.iter().any(|ratio| ratio.independently) {
        true => format!(" ({ASSUMPTION})"),
        false => String::new(),
    };
    let assumed = match too_wide.as_slice() {
        [] => assumed,
        which => format!("; undecided: {}, whose interval {TOO_WIDE}{assumed}", listed(which)),
    };
    let same: Vec<String> = alike.iter().map(|ratio| sized(ratio)).collect();
    if differing.is_empty() {
        return Ok(format!(
            "No visible difference of {words} between {mine} and {base}: {}{assumed}",
            same.join(", ")
        ));
    }

    let named: Vec<String> = differing.iter().map(|ratio| sized(ratio)).collect();
    let rest = if same.is_empty() {
        String::new()
    } else {
        format!("; no visible difference: {}", same.join(", "))
    };
    Ok(format!(
        "The {words} of {mine} differs from that of {base}: {}{rest}{assumed}",
        named.join(", ")
    ))
}

/// Why a ratio with an interval decides nothing.
const TOO_WIDE: &str = "is wider than a factor of 100";

/// Why there is no interval at all: the reason that holds.
pub(super) fn without_interval(ratios: &[Ratio]) -> String {
    if ratios.is_empty() {
        "they have no percentile in common".to_owned()
    } else if ratios.iter().all(|ratio| !ratio.supported) {
        format!("fewer than {LEAST_ABOVE} samples beyond each percentile")
    } else {
        format!("a side has neither {LEAST_STRETCHES} blocks or intervals nor {LEAST_RUNS} runs")
    }
}

/// Shares of skipped releases that are further apart than this are said, whatever the percentiles.
const SKIPPED_APART: f64 = 0.01;

/// Releases that were never served, where one run has clearly more of them.
fn skipped((mine, base): (&str, &str), of: (&RunFigures, &RunFigures)) -> Option<String> {
    let share = |run: &RunFigures| Some(run.skipped? as f64 / run.count.max(1) as f64);
    let (own, other) = (share(of.0)?, share(of.1)?);
    let words = |run: &RunFigures, share: f64| {
        let skipped = count(run.skipped.unwrap_or(0));
        format!("{skipped} of {} releases ({})", count(run.count), percent(share))
    };
    ((own - other).abs() > SKIPPED_APART)
        .then(|| format!("{mine} skipped {}, {base} {}", words(of.0, own), words(of.1, other)))
}

/// How a cell is known across runs.
type Key = (String, String);

fn key(run: &Digest, cell: &CellSummary, (alone, across_loads): (bool, bool)) -> Key {
    // Loads are what is compared: each is a run of its own here.
    let load = if across_loads || run.is_of_load { String::new() } else { cell.load.clone() };
    match &cell.import {
        _ if alone => (String::new(), String::new()),
        // The name of an imported cell begins with its file's.
        Some(import) => (import.stream.clone(), load),
        None if run.summary.cells.is_empty() => Key::default(),
        None => (cell.tuning.clone(), load),
    }
}

/// What the names of cells are not needed for.
fn needless(runs: &[Digest]) -> (bool, bool) {
    (are_single(runs), are_across_loads(runs))
}

fn keys(runs: &[Digest]) -> Vec<Key> {
    let needless = needless(runs);
    let cells = runs.iter().flat_map(|run| run.summary.cells.iter().map(move |cell| (run, cell)));
    once(cells.map(|(run, cell)| key(run, cell, needless)))
}

/// All series, the one first that a cell's run is about.
fn series_of(runs: &[Digest], wanted: &Key) -> Vec<Series> {
    let needless = needless(runs);
    let cells = runs.iter().flat_map(|run| run.summary.cells.iter().map(move |cell| (run, cell)));
    let main = cells
        .filter(|(run, cell)| key(run, cell, needless) == *wanted)
        .find_map(|(_, cell)| cell.main());
    let main: Vec<Series> = main.map(|(series, _)| series).into_iter().collect();
    let others =
        Series::ALL.into_iter().filter(|series| !main.contains(series)).collect::<Vec<_>>();
    main.into_iter().chain(others).collect()
}

fn compared(runs: &[Digest], wanted: &Key, series: Series) -> Compared {
    let needless = needless(runs);
    let found: Vec<(usize, &CellSummary)> = runs
        .iter()
        .enumerate()
        .filter_map(|(place, run)| {
            let of_key = run.summary.cells.iter().find(|cell| key(run, cell, needless) == *wanted);
            of_key.filter(|cell| cell.series.contains_key(&series)).map(|cell| (place, cell))
        })
        .collect();
    let base = found.first().copied();
    let figures = found.iter().filter_map(|&(place, cell)| {
        let mut figures = RunFigures::new(place, cell, series)?;
        let (of, base_cell) = base.filter(|(of, _)| *of != place).unzip();
        if let (Some(of), Some(base_cell)) = (of, base_cell) {
            figures.ratios = runs[place].ratios_to(&runs[of], (cell, base_cell), series);
        }
        Some(figures)
    });

    let cell = match (wanted.0.as_str(), wanted.1.as_str()) {
        (tuning, "" | super::imported::UNKNOWN) => tuning.to_owned(),
        (tuning, load) => cell_name(tuning, load),
    };

    Compared { cell, series, runs: figures.collect() }
}

/// Facts of hosts, settings and grants that are not the same everywhere.
fn differences(runs: &[Digest]) -> Vec<Difference> {
    let of_run =
        |run: &Digest| facts::of(&run.summary, &run.probe, run.settings.clone(), run.is_of_load);
    let facts: Vec<_> = runs.iter().map(of_run).collect();
    let values = |name: &String| facts.iter().map(|of_run| of_run.get(name).cloned()).collect();
    let differing = facts::differing(&facts).into_iter();
    differing.map(|name| Difference { fact: name.clone(), values: values(name) }).collect()
}
