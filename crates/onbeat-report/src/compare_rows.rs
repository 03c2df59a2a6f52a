//! Runs one under the other: a row per run and cell, for any series, whatever tool recorded the
//! run.
//!
//! The columns are those of the tables that this tool is held against: smallest, mean and largest
//! latency with overruns (the comparison of a virtual machine before and after tuning), samples,
//! mean, SD, maximum and `(max - mean) / SD` ("latency is not Gaussian"), smallest, largest, mean
//! and jitter with and without load (Mossige, Sampath and Rao, 2007).

use std::collections::BTreeSet;

use serde::Serialize;

use super::cell::CellSummary;
use super::digest::{Digest, RunFigures};
use super::table::{Column, Entry, NO_FIGURE, Row, Table};
use super::units::{Letters, count, listed, three_digits};
use onbeat_record::Series;

/// One series of all runs: a row per run and cell that has it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SeriesRows {
    /// Which series.
    pub series: Series,
    /// Runs in order, cells of a run in its own order. Without ratios, which are between cells of
    /// the same name only.
    pub rows: Vec<RunFigures>,
}

/// Which series are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesChoice {
    /// Of each cell the one that its run is about.
    Main,
    /// This one, of all cells that have it.
    One(Series),
    /// All that any cell has.
    All,
}

/// A row per run and cell, series by series.
#[must_use]
pub fn rows(runs: &[Digest], wanted: SeriesChoice) -> Vec<SeriesRows> {
    let cells = || {
        runs.iter()
            .enumerate()
            .flat_map(|(run, of)| of.summary.cells.iter().map(move |cell| (run, cell)))
    };
    let is_wanted = |series: Series, main: Option<Series>| match wanted {
        SeriesChoice::Main => main == Some(series),
        SeriesChoice::One(one) => one == series,
        SeriesChoice::All => true,
    };

    // Another tool's run knows served releases only: beside one, all runs stand by what they have
    // in common.
    let mains: BTreeSet<Series> = cells().filter_map(|(_, cell)| Some(cell.main()?.0)).collect();
    let are_mixed =
        mains.contains(&Series::ReleaseLatency) && mains.contains(&Series::WakeupLatency);
    let in_common = |main: Series| {
        if are_mixed && main == Series::ReleaseLatency { Series::WakeupLatency } else { main }
    };
    let of_series = |series: Series| {
        let of = |(run, cell): (usize, &CellSummary)| {
            let main = cell.main().map(|(main, _)| in_common(main));
            is_wanted(series, main).then(|| RunFigures::new(run, cell, series)).flatten()
        };
        SeriesRows { series, rows: cells().filter_map(of).collect() }
    };

    Series::ALL.into_iter().map(of_series).filter(|of| !of.rows.is_empty()).collect()
}

/// Series that any cell of the runs has.
#[must_use]
pub fn series_of(runs: &[Digest]) -> BTreeSet<Series> {
    runs.iter()
        .flat_map(|run| &run.summary.cells)
        .flat_map(|cell| cell.series.keys().copied())
        .collect()
}

impl Digest {
    /// The run as one run per load, called as the load: the loads of one run are what is compared.
    #[must_use]
    pub fn by_load(self) -> Vec<Self> {
        let mut left = self.drawn;
        let mut parts = Vec::new();
        for load in &self.summary.loads {
            let mut summary = self.summary.clone();
            summary.cells.retain(|cell| cell.load == *load && !cell.series.is_empty());
            summary.loads = vec![load.clone()];
            let (drawn, others) = left.into_iter().partition(|((cell, _), _)| cell.load == *load);
            left = others;
            parts.push(Self {
                name: load.clone(),
                probe: self.probe.clone(),
                settings: self.settings.clone(),
                drawn,
                ranked: self.ranked.clone(),
                summary,
                taken_together: self.taken_together.clone(),
                apart: self.apart.clone(),
                unlike: self.unlike.clone(),
                is_of_load: true,
            });
        }

        parts.retain(|part| !part.summary.cells.is_empty());
        parts
    }
}

#[must_use]
pub fn table(runs: &[Digest], of: &SeriesRows, letters: Letters) -> Table {
    let labels = RowLabels::new(runs, &of.rows);
    let mut columns: Vec<Column> = labels.heads().into_iter().map(Column::words).collect();
    let figures = ["samples", "min", "avg", "SD", "max", "jitter", "overruns", "skipped", "tail"];
    columns.extend(figures.map(Column::figures));
    let row = |row: &RunFigures| {
        let us = |ns: f64| Entry::from(three_digits(ns / 1e3));
        let counted = |n: Option<u64>| Entry::from(n.map_or_else(|| NO_FIGURE.to_owned(), count));
        let tail = row.tail_ratio.map_or_else(|| NO_FIGURE.to_owned(), three_digits);
        let mut entries: Vec<Entry> =
            labels.words(runs, row).into_iter().map(Entry::from).collect();
        entries.push(row.samples().into());
        let sd = row.sd_ns.map_or_else(|| NO_FIGURE.into(), us);
        entries.extend([us(row.min_ns as f64), us(row.mean_ns), sd]);
        entries.extend([row.max_ns as f64, row.jitter_ns as f64].map(us));
        entries.extend([counted(row.overruns), counted(row.skipped), tail.into()]);

        Row { entries, begins_group: false }
    };

    Table {
        title: format!(
            "{} by {}, {}",
            of.series.words(),
            labels.heads()[0],
            letters.microseconds()
        ),
        columns,
        rows: of.rows.iter().map(row).collect(),
        legend: legend(runs, of),
    }
}

fn legend(runs: &[Digest], of: &SeriesRows) -> Vec<String> {
    let rows = &of.rows;
    let names = |is: fn(&RunFigures) -> bool| -> Vec<String> {
        let runs_of: BTreeSet<usize> =
            rows.iter().filter(|row| is(row)).map(|row| row.run).collect();
        runs_of.into_iter().map(|run| runs[run].name.clone()).collect()
    };

    let mut legend =
        vec!["jitter is max - min, tail is (max - avg) / SD, both over all samples".to_owned()];
    let uncounted = names(|row| row.overruns.is_none());
    if !uncounted.is_empty() {
        legend.push(format!(
            "- not known: the tool that recorded {} does not count it",
            listed(&uncounted)
        ));
    }
    let unspread = names(|row| row.sd_ns.is_none());
    if !unspread.is_empty() {
        let which = listed(&unspread);
        legend.push(format!(
            "- no SD and no tail: min, avg and max are all that is stated of {which}"
        ));
    }
    if rows.iter().any(|row| row.tail_ratio.is_none() && row.sd_ns.is_some()) {
        legend.push("- no tail: all samples are equal".to_owned());
    }

    if of.series == Series::WakeupLatency
        && rows.iter().any(|row| row.skipped.is_some_and(|skipped| skipped > 0))
    {
        legend.push(
            "served releases only; skipped releases are in their own column and in release latency"
                .to_owned(),
        );
    }

    let coarse = names(|row| row.from_buckets);
    if !coarse.is_empty() {
        legend.push(format!(
            "min, avg, SD and max of {} are computed from histogram buckets",
            listed(&coarse)
        ));
    }

    legend
}

/// The labels that distinguish the rows.
#[derive(Clone, Copy, Debug)]
struct RowLabels {
    /// `load`, where the loads of one run are compared.
    first: &'static str,
    has_tuning: bool,
    has_load: bool,
}

impl RowLabels {
    fn new(runs: &[Digest], rows: &[RunFigures]) -> Self {
        let are_loads = runs.iter().all(|run| run.is_of_load);
        let loads: BTreeSet<&str> = rows.iter().map(|row| row.load.as_str()).collect();
        let apart: BTreeSet<(usize, &str)> =
            rows.iter().map(|row| (row.run, row.load.as_str())).collect();
        Self {
            first: if are_loads { "load" } else { "run" },
            // Only where run and load leave two rows with the same name.
            has_tuning: apart.len() < rows.len(),
            has_load: !are_loads && loads.len() > 1,
        }
    }

    fn heads(self) -> Vec<&'static str> {
        let mut heads = vec![self.first];
        heads.extend(self.has_tuning.then_some("tuning"));
        heads.extend(self.has_load.then_some("load"));
        heads
    }

    fn words<'r>(self, runs: &'r [Digest], row: &'r RunFigures) -> Vec<&'r str> {
        let mut words = vec![runs[row.run].name.as_str()];
        words.extend(self.has_tuning.then_some(row.tuning.as_str()));
        words.extend(self.has_load.then_some(row.load.as_str()));
        words
    }
}
