//! One tuning under several loads: a row per load, with its verdict.

use super::cell::CellSummary;
use super::statistics::Share;
use super::summary::Summary;
use super::table::{Column, Entry, NO_FIGURE, Row, Table};
use super::tables::{IN_PROGRESS, TRUNCATED, mark_of};
use super::units::{Letters, count, in_letters, three_digits};
use super::verdict::limit_in_words;
use onbeat_record::Series;

/// Whether loads are what a summary distinguishes: one tuning, several of them.
#[must_use]
pub fn is_by_load(summary: &Summary) -> bool {
    summary.sweep.is_none()
        && summary.tunings.len() == 1
        && summary.loads.len() > 1
        && summary.cells.iter().all(|cell| cell.import.is_none())
}

/// A series under each load, with the verdict where the limit is on that series.
#[must_use]
pub fn table(summary: &Summary, series: Series, letters: Letters) -> Table {
    let main = summary.cells.iter().find_map(|cell| cell.main()).map(|(main, _)| main);
    let limit = summary.limit.filter(|_| main == Some(series));
    let mut columns = vec![Column::words("load")];
    let heads = ["samples", "min", "avg", "p99", "p99.9", "max", "jitter", "skipped"];
    columns.extend(heads.map(Column::figures));
    if limit.is_some() {
        columns.extend([Column::figures("over"), Column::words("verdict")]);
    }

    let row = |cell: &CellSummary| {
        let mut entries = vec![Entry::from(name(cell))];
        entries.extend(figures(cell, series, heads.len()));
        if limit.is_some() {
            entries.extend(verdict(cell));
        }
        Row { entries, begins_group: false }
    };

    let mut table = Table {
        title: format!("{} by load, {}", series.words(), letters.microseconds()),
        columns,
        rows: summary.cells.iter().map(row).collect(),
        legend: vec!["jitter is max - min".to_owned()],
    };

    if let Some(limit) = limit {
        let words = in_letters(&limit_in_words(limit), letters);
        table.legend.push(format!("limit: {words}; over is the number of releases beyond it"));
    }

    table.explain_unsupported();
    if summary.cells.iter().any(|cell| cell.goes_on) {
        table.legend.push(IN_PROGRESS.to_owned());
    }

    if summary.cells.iter().any(|cell| cell.file.is_some() && !cell.complete && !cell.goes_on) {
        table.legend.push(TRUNCATED.to_owned());
    }

    table
}

fn name(cell: &CellSummary) -> String {
    let mark = match (cell.file.is_some() && !cell.complete, cell.goes_on) {
        (true, true) => "+",
        (true, false) => "*",
        _ => "",
    };
    format!("{}{mark}", cell.load)
}

fn figures(cell: &CellSummary, series: Series, columns: usize) -> Vec<Entry> {
    let Some(of) = cell.series.get(&series) else { return vec![Entry::from(NO_FIGURE); columns] };
    let us = |ns: f64| three_digits(ns / 1e3);
    let percentile = |share: Share| match of.percentile(share) {
        Some(at) => Entry::estimate(us(at.value_ns as f64), at.supported),
        None => Entry::from(NO_FIGURE),
    };

    vec![
        count(of.count).into(),
        us(of.min_ns as f64).into(),
        us(of.mean_ns).into(),
        percentile(Share::P99),
        percentile(Share::P99_9),
        us(of.max_ns as f64).into(),
        us(of.jitter_ns as f64).into(),
        cell.skipped.map_or_else(|| NO_FIGURE.to_owned(), count).into(),
    ]
}

fn verdict(cell: &CellSummary) -> [Entry; 2] {
    let Some(verdict) = &cell.verdict else { return [NO_FIGURE.into(), NO_FIGURE.into()] };
    let outcome = verdict.outcome;
    [count(verdict.over).into(), Entry::marked(outcome.words(), mark_of(outcome))]
}
