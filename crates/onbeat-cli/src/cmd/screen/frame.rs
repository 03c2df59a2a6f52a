//! One frame: the verdict so far, the cells, the distribution of the worst one, the latest causes.

use onbeat::record::{RunFile, Series, SpikeNote};
use onbeat_host::foreign::printable;
use onbeat_report::table::{Column, Row, Table};
use onbeat_report::units::{Letters, count, spoken, time_ns};
use onbeat_report::{CellSummary, JudgedRun, Statistics, Summary, closing};

use crate::cmd::show::tone_of;
use crate::term::Tone;

/// What a frame has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameSize {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

/// Latest spikes that are listed.
const MOST_SPIKES: usize = 5;
/// Lines beside the cells and the distribution: title, verdict, titles of tables, blanks, last line.
const OTHER_LINES: usize = 9;
/// Room for the number of samples and the bounds of a step.
const BESIDE_BAR: usize = 34;

/// Returns the lines of a frame, at most one fewer than the terminal has.
pub(super) fn frame(judged: &JudgedRun, size: FrameSize, letters: Letters) -> Vec<(Tone, String)> {
    let summary = &judged.summary;
    let mut lines = vec![(Tone::Head, title(summary)), verdict(summary)];
    lines.push((Tone::Plain, String::new()));
    lines.extend(cells(summary, size, letters).into_iter().map(|line| (Tone::Plain, line)));

    if let Some((cell, series)) = worst(summary)
        && let Some(run) = run_of(judged, cell)
    {
        let spikes = latest(&judged.runs);
        let left = size.rows.saturating_sub(lines.len() + spikes.len() + OTHER_LINES);
        if left >= 4 {
            let of = if summary.cells.len() > 1 {
                format!(" of {}/{}", cell.tuning, cell.load)
            } else {
                String::new()
            };
            lines.push((Tone::Plain, String::new()));
            lines.push((Tone::Head, format!("{}{of}, bars logarithmic", series.words())));
            let bars = bars(run, series, left, size.columns, letters);
            lines.extend(bars.into_iter().map(|line| (Tone::Plain, line)));
        }
        if !spikes.is_empty() {
            lines.push((Tone::Plain, String::new()));
            lines.push((Tone::Head, "latest spikes".to_owned()));
            lines.extend(spikes.iter().map(|spike| (Tone::Plain, spike_line(spike, letters))));
        }
    }
    lines.push((Tone::Faint, "Ctrl-C ends the run and keeps it".to_owned()));

    lines.truncate(size.rows.saturating_sub(1));
    lines.into_iter().map(|(tone, line)| (tone, cut(&line, size.columns))).collect()
}

fn title(summary: &Summary) -> String {
    let command = printable(&summary.command.join(" "));
    format!("{}   {command}", spoken(summary.elapsed_s))
}

/// The verdict so far, as at the end.
fn verdict(summary: &Summary) -> (Tone, String) {
    let Some(line) = closing::of(summary).into_iter().next() else {
        return (Tone::Plain, String::new());
    };
    (line.outcome.map_or(Tone::Plain, tone_of), format!("so far   {}", line.text))
}

fn main_series(cell: &CellSummary) -> Option<Series> {
    let named = cell.about.first().copied().filter(|series| cell.series.contains_key(series));
    named.or_else(|| cell.series.keys().next().copied())
}

fn percentile_ns(of: &Statistics, p: f64) -> Option<u64> {
    of.percentiles.iter().find(|one| (one.p - p).abs() < 1e-6).map(|one| one.value_ns)
}

/// The cell with the largest p99.9.
fn worst(summary: &Summary) -> Option<(&CellSummary, Series)> {
    let known = summary.cells.iter().filter_map(|cell| {
        let series = main_series(cell)?;
        Some((percentile_ns(cell.series.get(&series)?, 99.9)?, (cell, series)))
    });
    known.max_by_key(|(p999_ns, _)| *p999_ns).map(|(_, of)| of)
}

/// The file of a cell; a measurement has one, which names no cell.
fn run_of<'j>(judged: &'j JudgedRun, cell: &CellSummary) -> Option<&'j RunFile> {
    let is_it = |run: &&RunFile| {
        let named = run.header.cell.as_ref();
        named.is_none_or(|named| named.tuning == cell.tuning && named.load == cell.load)
    };
    judged.runs.iter().find(is_it)
}

/// A row for each cell, as far as there is room.
fn cells(summary: &Summary, size: FrameSize, letters: Letters) -> Vec<String> {
    let is_bench = summary.cells.len() > 1;
    let most = (size.rows / 3).max(1);
    let row = |cell: &CellSummary| {
        let series = main_series(cell)?;
        let of = cell.series.get(&series)?;
        let percentile =
            |p| percentile_ns(of, p).map_or_else(String::new, |ns| time_ns(ns, letters));
        let counted = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), count);
        let name = if is_bench { format!("{} {}", cell.tuning, cell.load) } else { String::new() };
        let entries = [
            name,
            count(of.count),
            percentile(50.0),
            percentile(99.0),
            percentile(99.9),
            time_ns(of.max_ns, letters),
            counted(cell.deadline_misses),
            counted(cell.skipped),
            counted(cell.spike_count),
        ];
        Some(Row::new(entries))
    };
    let heads = ["samples", "p50", "p99", "p99.9", "worst", "misses", "skipped", "spikes"];
    let left = summary.cells.len().saturating_sub(most);
    let legend = if left > 0 { vec![format!("and {left} more cells")] } else { Vec::new() };
    let table = Table {
        title: String::new(),
        columns: Column::all(&[""], &heads),
        rows: summary.cells.iter().filter_map(row).take(most).collect(),
        legend,
    };
    let text = table.to_text(size.columns);
    text.trim_start_matches('\n').lines().map(str::to_owned).collect()
}

/// The steps of a distribution: 1, 2, 5, 10, ... ns.
fn steps() -> impl Iterator<Item = u64> {
    (0..12).flat_map(|power| [1, 2, 5].map(|one| one * 10_u64.pow(power)))
}

/// Bars of the samples between steps; neighbours are joined where there are more than `most`.
fn bars(
    run: &RunFile,
    series: Series,
    most: usize,
    columns: usize,
    letters: Letters,
) -> Vec<String> {
    let distribution = run.distribution(series);
    let edges: Vec<u64> = steps().collect();
    let mut counts = vec![0_u64; edges.len()];
    for bucket in distribution.buckets() {
        let place = edges.partition_point(|edge| *edge <= bucket.low_ns).saturating_sub(1);
        counts[place] += bucket.count;
    }
    let Some(first) = counts.iter().position(|count| *count > 0) else { return Vec::new() };
    let last = counts.iter().rposition(|count| *count > 0).unwrap_or(first);
    let width = (last - first + 1).div_ceil(most.max(1));
    let joined: Vec<(u64, u64, u64)> = (first..=last)
        .step_by(width)
        .map(|at| {
            let end = (at + width).min(last + 1);
            let to = edges.get(end).copied().unwrap_or(u64::MAX);
            (edges[at], to, counts[at..end].iter().sum())
        })
        .collect();

    let room = columns.saturating_sub(BESIDE_BAR).max(8);
    let size = |count: u64| ((count + 1) as f64).log2();
    let largest = joined.iter().map(|(_, _, count)| size(*count)).fold(1.0, f64::max);
    let letter = if letters == Letters::Unicode { "█" } else { "#" };
    let line = |(from, to, samples): &(u64, u64, u64)| {
        let length = (size(*samples) / largest * room as f64).round() as usize;
        // One sample of a million is still seen.
        let length = if *samples > 0 { length.max(1) } else { 0 };
        let bounds = format!("{} to {}", time_ns(*from, letters), time_ns(*to, letters));
        format!("{bounds:>20} {:>11} {}", count(*samples), letter.repeat(length))
    };
    joined.iter().map(line).collect()
}

/// The latest spikes of all cells.
fn latest(runs: &[RunFile]) -> Vec<&SpikeNote> {
    let mut spikes: Vec<&SpikeNote> = runs.iter().flat_map(|run| &run.spikes).collect();
    spikes.sort_by(|a, b| b.t.total_cmp(&a.t));
    spikes.truncate(MOST_SPIKES);
    spikes
}

fn spike_line(spike: &SpikeNote, letters: Letters) -> String {
    let cause = spike.causes.iter().max_by_key(|cause| cause.ns);
    let words = cause.map_or_else(|| "no cause recorded".to_owned(), onbeat::cause::Cause::words);
    let words = printable(&words);
    format!(
        "{:>9.3} s  latency {:>9}  execution {:>9}  {words}",
        spike.t,
        time_ns(spike.wakeup_latency_ns, letters),
        time_ns(spike.execution_time_ns, letters)
    )
}

fn cut(line: &str, columns: usize) -> String {
    line.chars().take(columns).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::cmd::runs;

    fn golden(name: &str) -> JudgedRun {
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/runs");
        runs::judged(&Path::new(golden).join(name), None).unwrap()
    }

    #[test]
    fn a_frame_fits_into_every_terminal_and_has_the_worst_of_all_cells() {
        for name in ["after", "bench"] {
            let run = golden(name);
            for (columns, rows) in [(40, 2), (40, 10), (80, 24), (120, 30), (100, 200)] {
                let lines = frame(&run, FrameSize { columns, rows }, Letters::Unicode);
                assert!(lines.len() < rows, "{name}: {} lines of {rows}", lines.len());
                for (_, line) in &lines {
                    assert!(line.chars().count() <= columns, "{name}, {columns}: {line}");
                }
            }
            let lines = frame(&run, FrameSize { columns: 120, rows: 60 }, Letters::Ascii);
            let text: String = lines.into_iter().map(|(_, line)| line + "\n").collect();
            assert!(text.contains("so far ") && text.contains("bars logarithmic"), "{text}");
            let (cell, series) = worst(&run.summary).unwrap();
            let most = time_ns(cell.series[&series].max_ns, Letters::Ascii);
            assert!(text.contains(&most), "{most} is the worst: {text}");
        }
    }

    #[test]
    fn no_sample_is_left_out_of_the_bars_however_few_rows_there_are() {
        let run = golden("bench");
        let (cell, series) = worst(&run.summary).unwrap();
        let all = cell.series[&series].count;
        let file = run_of(&run, cell).unwrap();
        for most in [1, 2, 3, 7, 40] {
            let lines = bars(file, series, most, 80, Letters::Ascii);
            assert!(lines.len() <= most, "{most}: {lines:?}");
            let counted: u64 = lines
                .iter()
                .map(|line| {
                    let words = line.trim_end_matches('#').trim_end();
                    words.rsplit(' ').next().unwrap().replace(',', "").parse::<u64>().unwrap()
                })
                .sum();
            assert_eq!(counted, all, "{most}");
        }
    }
}
