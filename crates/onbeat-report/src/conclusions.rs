//! Conclusions from the figures of a run: periodic interference, the tail versus a normal
//! distribution, the worst case, how long to measure. All of it for what the run is about, and for
//! what else it has.

use std::collections::BTreeSet;

use super::cell::CellSummary;
use super::modes;
use super::normal::exceeded_once_in;
use super::summary::Summary;
use super::table::{Column, Entry, Row, Table};
use super::units::{Letters, cell_name, count, three_digits, time};
use onbeat_record::{RunFile, Series};

pub use super::analyses::{Conclusions, OfSeries, of_run};
pub use super::file_facts::about;

/// The heading that the table of [`normal_table`] goes with.
pub const NOT_NORMAL: &str = "Tail versus normal distribution";

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

/// Conclusions in sections of few sentences. The table of [`normal_table`] goes with
/// [`NOT_NORMAL`].
#[must_use]
pub fn sections(summary: &Summary) -> Vec<Section> {
    let many = summary.cells.len() > 1;
    let named = |sentence: String, cell: &CellSummary| {
        if many { format!("{}: {sentence}", cell_name(&cell.tuning, &cell.load)) } else { sentence }
    };
    let cells: Vec<_> = summary
        .cells
        .iter()
        .filter_map(|cell| Some((cell, cell.conclusions.as_deref()?)))
        .collect();
    let best = summary.verdict.best.as_ref().or(summary.verdict.worst.as_ref());
    let is_best = |cell: &CellSummary| {
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
                // A run without samples has nothing to conclude from.
                let words = words(all).into_iter().filter(|words| !words.is_empty());
                words.map(|words| named(words, cell)).collect::<Vec<_>>()
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

/// Mean, SD, maximum and tail ratio side by side, with what a normal distribution would have had:
/// of what each cell's conclusions are about, or of `otherwise` where it has none. `None` when
/// there is nothing to show.
#[must_use]
pub fn normal_table(summary: &Summary, otherwise: Series, letters: Letters) -> Option<Table> {
    let series_of =
        |cell: &CellSummary| cell.conclusions.as_ref().map_or(otherwise, |all| all.series);
    let shown: BTreeSet<Series> = summary.cells.iter().map(series_of).collect();
    let row = |cell: &CellSummary| {
        let series = series_of(cell);
        let figures = cell.series.get(&series)?;
        let tail_ratio = figures.tail_ratio?;
        let normal = exceeded_once_in(figures.count as f64);
        let mut name = if summary.loads.len() > 1 {
            format!("{}, {}", cell.tuning, cell.load)
        } else {
            cell.tuning.clone()
        };
        if shown.len() > 1 {
            name = format!("{name}, {}", series.words());
        }

        let mut entries = vec![Entry::from(name), Entry::from(count(figures.count))];
        let times = [figures.mean_ns, figures.sd_ns, figures.max_ns as f64];
        entries.extend(times.map(|ns| Entry::from(time(ns, letters))));
        entries.push(Entry::from(three_digits(tail_ratio)));
        entries.push(Entry::from(three_digits(normal)));
        Some(Row { entries, begins_group: false })
    };

    let rows: Vec<Row> = summary.cells.iter().filter_map(row).collect();
    let heads = ["samples", "mean", "SD", "max", "(max - mean) / SD", "normal"];
    let columns = Column::all(&[""], &heads);
    (!rows.is_empty()).then(|| Table {
        title: match shown.iter().next() {
            Some(series) if shown.len() == 1 => {
                format!("largest {} in standard deviations above the mean", series.words())
            }
            _ => "largest values in standard deviations above the mean".to_owned(),
        },
        columns,
        rows,
        legend: vec![
            "normal: the (max - mean) / SD expected of a normal distribution with the same number of samples"
                .to_owned(),
        ],
    })
}
