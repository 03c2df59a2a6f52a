//! Spikes as a list: by which number each is called, when, how late, why, and whether the events
//! around it are kept.

use std::cmp::Reverse;

use super::cell::CellSummary;
use super::summary::Summary;
use super::table::{Column, Entry, Row, Table};
use super::units::{Letters, count, counted, three_digits, time_ns};
use onbeat_cause::Explanation;
use onbeat_host::thread::shell_word;
use onbeat_record::{Cell, RunFile, SpikeNote, WindowFate};

/// Spikes that a summary's table shows.
const SHOWN: usize = 5;

/// A spike, and the name of its cell in a bench.
#[derive(Clone, Debug)]
pub struct ListedSpike<'s> {
    /// `PMC/paper`; `None` outside a bench.
    pub cell: Option<String>,
    pub spike: &'s SpikeNote,
}

impl ListedSpike<'_> {
    /// How it is called: `spike 3`, `spike 3 of PMC/paper`.
    #[must_use]
    pub fn words(&self) -> String {
        let of = self.cell.as_ref().map(|cell| format!(" of {cell}")).unwrap_or_default();
        format!("spike {}{of}", self.spike.number)
    }

    /// What it is called on a command line, as a shell takes it: `--spike 3`, `--cell PMC/paper
    /// --spike 3`.
    #[must_use]
    pub fn options(&self) -> String {
        let cell = self
            .cell
            .as_ref()
            .map(|cell| format!("--cell {} ", shell_word(cell)))
            .unwrap_or_default();
        format!("{cell}--spike {}", self.spike.number)
    }
}

/// All spikes of run files, worst first: by wake-up latency plus execution time.
#[must_use]
pub fn listed(runs: &[RunFile]) -> Vec<ListedSpike<'_>> {
    let of_run = |run: &'_ RunFile| run.header.cell.as_ref().map(Cell::to_string);
    let all = runs.iter().flat_map(|run| {
        run.spikes.iter().map(move |spike| ListedSpike { cell: of_run(run), spike })
    });
    worst_first(all.collect())
}

fn worst_first(mut spikes: Vec<ListedSpike<'_>>) -> Vec<ListedSpike<'_>> {
    spikes.sort_by_key(|listed| {
        Reverse(listed.spike.wakeup_latency_ns + listed.spike.execution_time_ns)
    });
    spikes
}

/// The worst spikes of a summary as a table; `None` without any.
#[must_use]
pub fn worst(summary: &Summary, letters: Letters) -> Option<Table> {
    let is_bench = summary.order != onbeat_record::RunOrder::Single;
    let name = |cell: &CellSummary| is_bench.then(|| cell.cell().to_string());
    let all = summary.cells.iter().flat_map(|cell| {
        cell.spikes.iter().map(move |spike| ListedSpike { cell: name(cell), spike })
    });
    let all = worst_first(all.collect());
    let total: u64 = summary.cells.iter().filter_map(|cell| cell.spike_count).sum();
    let title = match total {
        0 => return None,
        total if total > SHOWN as u64 => format!("the worst {SHOWN} of {} spikes", count(total)),
        _ => "spikes".to_owned(),
    };

    (!all.is_empty()).then(|| table(title, &all[..all.len().min(SHOWN)], letters))
}

/// Spikes as a table, in the order given. Execution times stand in it where one of them is worth a
/// look: a tenth of the wake-up latency beside it.
#[must_use]
pub fn table(title: impl Into<String>, spikes: &[ListedSpike<'_>], letters: Letters) -> Table {
    let in_cells = spikes.iter().any(|listed| listed.cell.is_some());
    let worked = |listed: &ListedSpike<'_>| {
        listed.spike.execution_time_ns > listed.spike.wakeup_latency_ns / 10
    };
    let with_work = spikes.iter().any(worked);
    let mut columns =
        vec![Column::figures("spike"), Column::figures("at, s"), Column::figures("wake-up")];
    columns.extend(with_work.then(|| Column::figures("execution")));
    columns.extend([Column::words("events"), Column::words("cause")]);

    if in_cells {
        columns.insert(0, Column::words("cell"));
    }

    let row = |listed: &ListedSpike<'_>| {
        let spike = listed.spike;
        let mut entries: Vec<Entry> =
            in_cells.then(|| listed.cell.clone().unwrap_or_default().into()).into_iter().collect();
        entries.push(spike.number.to_string().into());
        entries.push(format!("{:.3}", spike.t).into());
        entries.push(time_ns(spike.wakeup_latency_ns, letters).into());
        entries.extend(with_work.then(|| time_ns(spike.execution_time_ns, letters).into()));
        entries.push(if spike.window == Some(WindowFate::Kept) { "kept" } else { "-" }.into());
        entries.push(cause(spike).into());

        Row { entries, ..Row::default() }
    };

    Table {
        title: title.into(),
        columns,
        rows: spikes.iter().map(row).collect(),
        legend: Vec::new(),
    }
}

/// The main cause in words; a dash without an analysis.
fn cause(spike: &SpikeNote) -> String {
    let explanation = Explanation::from_causes(spike.causes.clone());
    explanation.main().map_or_else(|| "-".to_owned(), onbeat_cause::Cause::words)
}

/// Why a spike has no window, as the end of a sentence.
#[must_use]
pub const fn why_no_window(spike: &SpikeNote) -> &'static str {
    match spike.window {
        Some(fate) => fate.words(),
        None => "not analysed: no flight recorder, or more than 20 late cycles within 5 ms",
    }
}

/// `The events around 12 of 57 spikes are kept (31.2 KiB)`, and what shows them; `None` without an
/// analysis.
#[must_use]
pub fn windows_in_words(summary: &Summary) -> Option<String> {
    let sum = |of: fn(&CellSummary) -> u64| summary.cells.iter().map(of).sum::<u64>();
    let kept = sum(|cell| cell.windows);
    let bytes = sum(|cell| cell.window_bytes);
    let all = sum(|cell| cell.spike_count.unwrap_or(0));

    let looked_at: u64 =
        summary.cells.iter().flat_map(|cell| cell.causes.values()).map(|count| count.spikes).sum();
    let kib = three_digits(bytes as f64 / 1024.0);
    let all = all.max(looked_at);
    (looked_at > 0).then(|| {
        format!(
            "The events around {} of {} are kept ({kib} KiB): onbeat export --list",
            count(kept),
            counted(all, "spike")
        )
    })
}
