//! The table of a run second by second.

use super::cell::CellSummary;
use super::table::{Column, Row, Table};
use super::units::{Letters, count, fixed};
use onbeat_record::Series;

pub use super::probe_figures::BySecond;

/// Minima, all samples, maxima: how many, their mean and standard deviation. `None` where no
/// seconds were kept.
#[must_use]
pub fn by_second(cell: &CellSummary, letters: Letters) -> Option<Table> {
    let of = cell.by_second?;
    let all = cell.series.get(&Series::ReleaseLatency)?;
    let us = |ns: f64| fixed(ns / 1e3, 3);
    let row = |what: &str, n: u64, mean: f64, sd: f64| Row {
        entries: vec![what.into(), count(n).into(), us(mean).into(), us(sd).into()],
        begins_group: false,
    };

    let overruns = count(of.overruns);
    Some(Table {
        title: format!(
            "release latency second by second, {}; {overruns} overruns",
            letters.microseconds()
        ),
        columns: vec![
            Column::words("of each second"),
            Column::figures("samples"),
            Column::figures("avg"),
            Column::figures("SD"),
        ],
        rows: vec![
            row("min", of.seconds, of.min_mean_ns, of.min_sd_ns),
            row("avg", of.seconds, of.mean_mean_ns, of.mean_sd_ns),
            row("max", of.seconds, of.max_mean_ns, of.max_sd_ns),
            row("all samples", all.count, all.mean_ns, all.sd_ns),
        ],
        legend: Vec::new(),
    })
}
