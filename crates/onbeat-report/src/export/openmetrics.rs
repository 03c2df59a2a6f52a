//! Histograms in the OpenMetrics text format (openmetrics.io, version 1.0.0), values in seconds.
//!
//! A metric per series, labelled with tuning and load. Bounds are at 1, 2 and 5 times powers of
//! ten, the same in every export, so that runs can be added up; a run with a limit has a bound there
//! as well. A bucket that reaches over a bound is counted above it: `le` is never too low.
//!
//! The older text format of Prometheus (0.0.4) differs in the names of counters' families, has no
//! unit and no end.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::units::capital;
use onbeat_record::{Cell, Distribution, RunFile, Series};

/// Bounds from 100 ns to 100 s.
const BOUNDS_NS: [u64; 28] = {
    let mut bounds = [0; 28];
    let mut power = 100;
    let mut i = 0;
    while i < 28 {
        bounds[i] = power;
        if i + 1 < 28 {
            bounds[i + 1] = 2 * power;
        }
        if i + 2 < 28 {
            bounds[i + 2] = 5 * power;
        }

        power *= 10;
        i += 3;
    }

    bounds
};

/// A text format that Prometheus reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpositionFormat {
    /// OpenMetrics 1.0.0.
    OpenMetrics,
    /// Version 0.0.4 of Prometheus' own.
    Text,
}

/// Writes all runs' histograms and counters as OpenMetrics, up to `# EOF`.
///
/// # Errors
/// The error of the writer.
pub fn write(runs: &[RunFile], to: &mut dyn Write) -> io::Result<()> {
    families(runs, ExpositionFormat::OpenMetrics, to)?;
    writeln!(to, "# EOF")
}

/// Writes the same for a scrape, with whether the run is in progress.
///
/// # Errors
/// The error of the writer.
pub fn write_as(
    runs: &[RunFile],
    format: ExpositionFormat,
    goes_on: bool,
    to: &mut dyn Write,
) -> io::Result<()> {
    families(runs, format, to)?;
    let state = u8::from(goes_on);
    writeln!(
        to,
        "# TYPE onbeat_run_in_progress gauge\n# HELP onbeat_run_in_progress Whether the run is being measured\nonbeat_run_in_progress {state}"
    )?;
    if format == ExpositionFormat::OpenMetrics {
        writeln!(to, "# EOF")?;
    }
    Ok(())
}

fn families(runs: &[RunFile], format: ExpositionFormat, to: &mut dyn Write) -> io::Result<()> {
    let cells: Vec<(Cell, &RunFile)> = runs.iter().map(|run| (super::cell(run), run)).collect();
    for series in Series::ALL {
        let of_series: Vec<(&Cell, &RunFile, Distribution, f64)> = cells
            .iter()
            .map(|(cell, run)| (cell, *run, run.distribution(series), sum_s(run, series)))
            .filter(|(_, _, distribution, _)| distribution.count() > 0)
            .collect();
        if of_series.is_empty() {
            continue;
        }

        let name = format!("onbeat_{}_seconds", series.tag());
        writeln!(to, "# TYPE {name} histogram")?;
        if format == ExpositionFormat::OpenMetrics {
            writeln!(to, "# UNIT {name} seconds")?;
        }
        writeln!(to, "# HELP {name} {}", capital(series.words()))?;
        for (cell, run, distribution, sum) in of_series {
            let limit = run.header.limit.filter(|limit| limit.on == series);
            let bounds = bounds(limit.map(|limit| limit.limit_ns));
            histogram(&name, &labels(cell), (&distribution, sum), &bounds, to)?;
        }
    }

    limits(&cells, to)?;
    counters(&cells, format, to)?;
    causes(&cells, format, to)
}

/// The bounds of all exports, and the limit.
fn bounds(limit_ns: Option<u64>) -> Vec<u64> {
    let mut bounds = BOUNDS_NS.to_vec();
    if let Some(limit_ns) = limit_ns
        && let Err(place) = bounds.binary_search(&limit_ns)
    {
        bounds.insert(place, limit_ns);
    }
    bounds
}

fn histogram(
    name: &str,
    labels: &str,
    (of, sum): (&Distribution, f64),
    bounds: &[u64],
    to: &mut dyn Write,
) -> io::Result<()> {
    let mut buckets = of.buckets().iter().peekable();
    let mut below = 0;
    for &bound in bounds {
        while let Some(bucket) = buckets.next_if(|bucket| bucket.high_ns() <= bound) {
            below += bucket.count;
        }
        writeln!(to, "{name}_bucket{{{labels},le=\"{}\"}} {below}", seconds(bound))?;
    }

    let count = of.count();
    writeln!(
        to,
        "{name}_bucket{{{labels},le=\"+Inf\"}} {count}\n{name}_count{{{labels}}} {count}\n{name}_sum{{{labels}}} {sum}"
    )
}

/// The limit that each run is judged by.
fn limits(cells: &[(Cell, &RunFile)], to: &mut dyn Write) -> io::Result<()> {
    let limits = cells.iter().filter_map(|(cell, run)| Some((cell, run.header.limit?)));
    let mut limits = limits.peekable();
    if limits.peek().is_none() {
        return Ok(());
    }
    let name = "onbeat_limit_seconds";
    writeln!(to, "# TYPE {name} gauge\n# HELP {name} Latency limit that the run is judged by")?;
    for (cell, limit) in limits {
        let labels = labels(cell);
        let (series, at) = (limit.on.tag(), limit.at);
        let limit = seconds(limit.limit_ns);
        writeln!(to, "{name}{{{labels},series=\"{series}\",at=\"{at}\"}} {limit}")?;
    }
    Ok(())
}

/// Spikes by the cause that accounts for most of each. The labels are words of the vocabulary, so that their
/// number is bounded.
fn causes(
    cells: &[(Cell, &RunFile)],
    format: ExpositionFormat,
    to: &mut dyn Write,
) -> io::Result<()> {
    let mut lines = Vec::new();
    for (cell, run) in cells {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for cause in run.spikes.iter().filter_map(|spike| spike.causes.first()) {
            *counts.entry(cause.kind.words()).or_default() += 1;
        }
        let labels = labels(cell);
        lines.extend(counts.into_iter().map(|(cause, count)| {
            format!("onbeat_explained_spikes_total{{{labels},cause=\"{cause}\"}} {count}")
        }));
    }
    if !lines.is_empty() {
        let help = "Spikes whose record was kept, by the cause that accounts for most of each";
        family("onbeat_explained_spikes", help, format, to)?;
    }
    lines.iter().try_for_each(|line| writeln!(to, "{line}"))
}

/// The first lines of a counter's family.
fn family(name: &str, help: &str, format: ExpositionFormat, to: &mut dyn Write) -> io::Result<()> {
    let suffix = if format == ExpositionFormat::Text { "_total" } else { "" };
    writeln!(to, "# TYPE {name}{suffix} counter\n# HELP {name}{suffix} {help}")
}

/// What the loop counted, of runs that onbeat measured itself.
fn counters(
    cells: &[(Cell, &RunFile)],
    format: ExpositionFormat,
    to: &mut dyn Write,
) -> io::Result<()> {
    let own: Vec<&(Cell, &RunFile)> =
        cells.iter().filter(|(_, run)| run.import.is_none() && run.bench.is_none()).collect();
    type Count = fn(&RunFile) -> u64;
    let sums: [(&str, &str, Count); 4] = [
        ("onbeat_deadline_misses", "Cycles that ended after their deadline", |run| {
            run.intervals.iter().map(|i| i.deadline_misses).sum()
        }),
        ("onbeat_skipped_releases", "Releases passed over after an overrun", |run| {
            run.intervals.iter().map(|i| i.skipped).sum()
        }),
        (
            "onbeat_lost_samples",
            "Samples dropped because the ring between loop and recorder was full",
            |run| run.intervals.iter().map(|i| i.lost).sum(),
        ),
        ("onbeat_spikes", "Samples beyond the spike limit", |run| {
            run.intervals.iter().map(|i| i.spikes).sum()
        }),
    ];

    for (name, help, count) in sums {
        if own.is_empty() {
            continue;
        }

        family(name, help, format, to)?;
        for (cell, run) in &own {
            writeln!(to, "{name}_total{{{}}} {}", labels(cell), count(run))?;
        }
    }

    Ok(())
}

/// All values together, in seconds: exact where the run has exact means, of the buckets' middles
/// otherwise.
fn sum_s(run: &RunFile, series: Series) -> f64 {
    let moments = run.moments(series);
    let all = run.distribution(series);
    if moments.n == all.count() {
        return moments.mean_ns * moments.n as f64 / 1e9;
    }
    all.buckets().iter().map(|bucket| bucket.middle_ns() * bucket.count as f64).sum::<f64>() / 1e9
}

fn labels(cell: &Cell) -> String {
    let pairs = BTreeMap::from([("tuning", &cell.tuning), ("load", &cell.load)]);
    let label = |(name, value): (&&str, &&String)| {
        format!(
            "{name}=\"{}\"",
            value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
        )
    };
    pairs.iter().map(label).collect::<Vec<_>>().join(",")
}

/// Whole nanoseconds as seconds without trailing zeros: `0.0001`, and `1.0`, as the format has
/// whole numbers.
fn seconds(ns: u64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    let short = text.trim_end_matches('0');
    if short.ends_with('.') { format!("{short}0") } else { short.to_owned() }
}
