//! Metrics as text: OpenMetrics (openmetrics.io, version 1.0.0), values in seconds.
//!
//! The older text format of Prometheus (0.0.4) differs in the names of counters' families, has no
//! unit and no end.

use std::io::{self, Write};

use onbeat_record::RunFile;

use super::exposition::{Family, FamilyKind, PointValue, TimeHistogram, families};

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
    write_as(&families(runs, None), ExpositionFormat::OpenMetrics, to)
}

/// Writes metrics in one of the formats.
///
/// # Errors
/// The error of the writer.
pub fn write_as(
    families: &[Family],
    format: ExpositionFormat,
    to: &mut dyn Write,
) -> io::Result<()> {
    families.iter().try_for_each(|of| family(of, format, to))?;
    if format == ExpositionFormat::OpenMetrics {
        writeln!(to, "# EOF")?;
    }
    Ok(())
}

fn family(of: &Family, format: ExpositionFormat, to: &mut dyn Write) -> io::Result<()> {
    let name = of.prometheus_name();
    let (kind, suffix) = match of.kind {
        FamilyKind::Histogram => ("histogram", ""),
        FamilyKind::Gauge => ("gauge", ""),
        FamilyKind::Counter => ("counter", "_total"),
    };
    let title = match format {
        ExpositionFormat::Text => format!("{name}{suffix}"),
        ExpositionFormat::OpenMetrics => name.clone(),
    };
    writeln!(to, "# TYPE {title} {kind}")?;
    if of.kind == FamilyKind::Histogram && format == ExpositionFormat::OpenMetrics {
        writeln!(to, "# UNIT {title} seconds")?;
    }
    writeln!(to, "# HELP {title} {}", of.help)?;
    for point in &of.points {
        let labels = labels(&point.labels);
        let braced = if labels.is_empty() { labels.clone() } else { format!("{{{labels}}}") };
        match &point.value {
            PointValue::Count(count) => writeln!(to, "{name}{suffix}{braced} {count}")?,
            PointValue::Time(ns) => writeln!(to, "{name}{suffix}{braced} {}", seconds(*ns))?,
            PointValue::Histogram(of) => histogram(&name, &labels, of, to)?,
        }
    }
    Ok(())
}

fn histogram(name: &str, labels: &str, of: &TimeHistogram, to: &mut dyn Write) -> io::Result<()> {
    for (bound, below) in of.cumulative() {
        writeln!(to, "{name}_bucket{{{labels},le=\"{}\"}} {below}", seconds(bound))?;
    }
    let (count, sum) = (of.samples.count(), of.sum_s);
    writeln!(
        to,
        "{name}_bucket{{{labels},le=\"+Inf\"}} {count}\n{name}_count{{{labels}}} {count}\n{name}_sum{{{labels}}} {sum}"
    )
}

fn labels(of: &[(&'static str, String)]) -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let pairs = of.iter().map(|(name, value)| format!("{name}=\"{}\"", quoted(value)));
    pairs.collect::<Vec<_>>().join(",")
}

/// Whole nanoseconds as seconds without trailing zeros: `0.0001`, and `1.0`, as the format has
/// whole numbers.
fn seconds(ns: u64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    let short = text.trim_end_matches('0');
    if short.ends_with('.') { format!("{short}0") } else { short.to_owned() }
}
