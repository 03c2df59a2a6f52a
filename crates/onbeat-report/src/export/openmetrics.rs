//! Histograms in the OpenMetrics text format (openmetrics.io, version 1.0.0), values in seconds.
//!
//! A metric per series, labelled with tuning and load. Bounds are at 1, 2 and 5 times powers of
//! ten, the same in every export, so that runs can be added up. A bucket that reaches over a bound
//! is counted above it: `le` is never too low.

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

/// Writes all runs' histograms and counters, up to `# EOF`.
///
/// # Errors
/// The error of the writer.
pub fn write(runs: &[RunFile], to: &mut dyn Write) -> io::Result<()> {
    let cells: Vec<(Cell, &RunFile)> = runs.iter().map(|run| (super::cell(run), run)).collect();
    for series in Series::ALL {
        let of_series: Vec<(&Cell, Distribution, f64)> = cells
            .iter()
            .map(|(cell, run)| (cell, run.distribution(series), sum_s(run, series)))
            .filter(|(_, distribution, _)| distribution.count() > 0)
            .collect();
        if of_series.is_empty() {
            continue;
        }

        let name = format!("onbeat_{}_seconds", series.tag());
        writeln!(
            to,
            "# TYPE {name} histogram\n# UNIT {name} seconds\n# HELP {name} {}",
            capital(series.words())
        )?;
        for (cell, distribution, sum) in of_series {
            histogram(&name, &labels(cell), (&distribution, sum), to)?;
        }
    }

    counters(&cells, to)?;
    writeln!(to, "# EOF")
}

fn histogram(
    name: &str,
    labels: &str,
    (of, sum): (&Distribution, f64),
    to: &mut dyn Write,
) -> io::Result<()> {
    let mut buckets = of.buckets().iter().peekable();
    let mut below = 0;
    for bound in BOUNDS_NS {
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

/// What the loop counted, of runs that onbeat measured itself.
fn counters(cells: &[(Cell, &RunFile)], to: &mut dyn Write) -> io::Result<()> {
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

        writeln!(to, "# TYPE {name} counter\n# HELP {name} {help}")?;
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
