//! A comparison as tables: figures run by run, ratios, causes of spikes, and what differed.

use std::collections::BTreeSet;

use super::compare::{Compared, Comparison, RunFigures, SHARES};
use super::table::{Column, Entry, Mark, NO_FIGURE, Row, Table};
use super::units::{Letters, count, three_digits};
use onbeat_cause::CauseKind;

/// Figures of one series in one cell: a row per run.
#[must_use]
pub fn figures(comparison: &Comparison, compared: &Compared, letters: Letters) -> Table {
    let mut columns =
        vec![Column::words("run"), Column::figures("samples"), Column::figures("min")];
    columns.extend(SHARES.map(|share| Column::figures(share.label())));
    columns.extend(["max", "misses", "spikes"].map(Column::figures));
    let row = |of: &RunFigures| {
        let us = |ns: u64| Entry::from(three_digits(ns as f64 / 1e3));
        let mut entries =
            vec![Entry::from(comparison.runs[of.run].as_str()), of.samples().into(), us(of.min_ns)];
        entries.extend(SHARES.map(|share| {
            let known = of.percentiles.iter().find(|percentile| share.is(percentile.p));
            let Some(percentile) = known else { return Entry::from(NO_FIGURE) };
            Entry::estimate(three_digits(percentile.value_ns as f64 / 1e3), percentile.supported)
        }));
        entries.push(us(of.max_ns));
        let counted = |n: Option<u64>| Entry::from(n.map_or_else(|| NO_FIGURE.to_owned(), count));
        entries.extend([counted(of.deadline_misses), counted(of.spikes)]);

        Row { entries, begins_group: false }
    };

    let mut table = Table {
        title: format!(
            "{}{}, {}",
            compared.series.words(),
            of_cell(compared),
            letters.microseconds()
        ),
        columns,
        rows: compared.runs.iter().map(row).collect(),
        legend: Vec::new(),
    };

    table.explain_unsupported();
    table
}

/// Ratios to the first run, with 95 % intervals where there are any: a row per other run.
#[must_use]
pub fn ratios(comparison: &Comparison, compared: &Compared, letters: Letters) -> Option<Table> {
    let [base, others @ ..] = compared.runs.as_slice() else { return None };
    let mut columns = vec![Column::words("run")];
    columns.extend(SHARES.map(|share| Column::figures(share.label())));
    let row = |of: &RunFigures| {
        let mut entries = vec![Entry::from(comparison.runs[of.run].as_str())];
        entries.extend(of.ratios.iter().map(|ratio| {
            let mark = match ratio {
                ratio if ratio.high.is_some_and(|high| high < 1.0) => Mark::Good,
                ratio if ratio.low.is_some_and(|low| low > 1.0) => Mark::Bad,
                ratio if ratio.low.is_none() => Mark::Unsupported,
                _ => Mark::Plain,
            };

            let words = ratio.words();
            Entry::marked(
                if letters == Letters::Unicode { words.replace("x ", "× ") } else { words },
                mark,
            )
        }));
        // A source without a distribution has no percentiles, and so no ratios of them.
        while entries.len() <= SHARES.len() {
            entries.push(Entry::from(NO_FIGURE));
        }

        Row { entries, begins_group: false }
    };

    let has_intervals = others.iter().flat_map(|of| &of.ratios).any(|ratio| ratio.low.is_some());
    Some(Table {
        title: format!(
            "{}{}, divided by that of {}{}",
            compared.series.words(),
            of_cell(compared),
            comparison.runs[base.run],
            if has_intervals { ", with 95 % confidence intervals" } else { "" }
        ),
        columns,
        rows: others.iter().map(row).collect(),
        legend: Vec::new(),
    })
}

/// Spikes by their main cause: a row per cause. `None` without an analysis.
#[must_use]
pub fn causes(comparison: &Comparison, compared: &Compared) -> Option<Table> {
    let kinds: BTreeSet<CauseKind> =
        compared.runs.iter().flat_map(|of| of.causes.keys().copied()).collect();
    // Another tool does not look for spikes, and those of --no-causes are not analysed.
    let is_unknown = |of: &RunFigures| of.causes.is_empty() && of.spikes != Some(0);
    let is_missing = compared.runs.iter().any(is_unknown);
    let mut columns = vec![Column::words("main cause")];
    columns
        .extend(compared.runs.iter().map(|of| Column::figures(comparison.runs[of.run].as_str())));
    let row = |words: &str, spikes: &dyn Fn(&RunFigures) -> u64| {
        let number =
            |of: &RunFigures| if is_unknown(of) { NO_FIGURE.to_owned() } else { count(spikes(of)) };
        let mut entries = vec![Entry::from(words)];
        entries.extend(compared.runs.iter().map(|of| Entry::from(number(of))));
        let is_any = compared.runs.iter().any(|of| spikes(of) > 0);

        is_any.then_some(Row { entries, begins_group: false })
    };
    let of_kind = |kind: CauseKind| row(kind.words(), &|of: &RunFigures| of.spikes_by(kind));
    let not_analysed = || row("not analysed", &|of: &RunFigures| of.not_analysed);

    (!kinds.is_empty()).then(|| Table {
        title: format!("spikes by main cause{}", of_cell(compared)),
        columns,
        rows: kinds.into_iter().filter_map(of_kind).chain(not_analysed()).collect(),
        legend: if is_missing { vec!["- causes were not recorded".to_owned()] } else { Vec::new() },
    })
}

/// Differences between hosts and settings: a row per fact. `None` when nothing did.
#[must_use]
pub fn differences(comparison: &Comparison) -> Option<Table> {
    let mut columns = vec![Column::words("what differed")];
    columns.extend(comparison.runs.iter().map(|name| Column::words(name.as_str())));
    let rows = comparison.differences.iter().map(|difference| {
        let mut entries = vec![Entry::from(difference.fact.as_str())];
        entries.extend(
            difference
                .values
                .iter()
                .map(|value| Entry::from(value.as_deref().unwrap_or("not recorded"))),
        );
        Row { entries, begins_group: false }
    });

    let rows: Vec<Row> = rows.collect();
    (!rows.is_empty()).then(|| Table {
        title: "hosts and settings".to_owned(),
        columns,
        rows,
        legend: Vec::new(),
    })
}

fn of_cell(compared: &Compared) -> String {
    if compared.cell.is_empty() { String::new() } else { format!(", {}", compared.cell) }
}
