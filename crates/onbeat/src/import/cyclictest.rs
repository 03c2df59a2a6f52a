//! Histogram text of cyclictest: `-h`, `-H` and `--histfile`.
//!
//! Rows of a latency and its count per thread; with `-H` a last column adds the threads up. Lines
//! with `#` follow: totals, extremes, and how many samples lie beyond the last row. The text does
//! not state its unit.

use super::error::Error;
use super::format::{Format, SourceOptions, to_ns};
use super::rt_tests::{Overflow, missing};
use super::stream::{SourceFigures, Stream, StreamPart};
use crate::record::{Resolution, Series};

const FORMAT: Format = Format::Cyclictest;

/// The parsed text.
#[derive(Default)]
struct HistogramText {
    /// Latency in units and counts per column, with the line.
    rows: Vec<(usize, u64, Vec<u64>)>,
    totals: Vec<u64>,
    minima: Vec<u64>,
    averages: Vec<u64>,
    maxima: Vec<u64>,
    overflows: Vec<u64>,
    /// Threads that the list of overflows names.
    threads: usize,
    /// `I:` of the status lines.
    interval_us: Option<u64>,
}

/// One stream per thread.
///
/// # Errors
/// [`Error`].
pub fn read(text: &str, asked: &SourceOptions) -> Result<Vec<Stream>, Error> {
    let parsed = HistogramText::parse(text)?;
    let Some((_, _, first)) = parsed.rows.first() else {
        let advice = "run cyclictest with -h, such as -h 1000, or with --json";
        return Err(Error::NoHistogram { format: FORMAT, lines: text.lines().count(), advice });
    };
    let threads = parsed.threads_of(first.len());
    let step_ns = match asked.unit_ns.map_or(Some(1_000), |unit_ns| to_ns(1.0, unit_ns)) {
        Some(step_ns) if step_ns > 0 => step_ns,
        _ => return Err(Error::line(FORMAT, parsed.rows[0].0, "a unit below a nanosecond")),
    };

    let streams = (0..threads).map(|thread| parsed.stream(thread, threads, step_ns, asked));
    streams.collect()
}

impl HistogramText {
    fn parse(text: &str) -> Result<Self, Error> {
        let mut all = Self::default();
        for (line, number) in text.lines().zip(1..) {
            let line = line.trim();
            if let Some(stated) = line.strip_prefix("# ") {
                all.summary(stated, number)?;
            } else if line.starts_with("T:") {
                let words: Vec<&str> = line.split_whitespace().collect();
                let interval = words
                    .iter()
                    .find_map(|word| word.strip_prefix("I:"))
                    .and_then(|text| text.parse().ok());
                all.interval_us = all.interval_us.or(interval);
            } else if line.starts_with(|c: char| c.is_ascii_digit()) {
                all.row(line, number)?;
            }
        }

        Ok(all)
    }

    fn summary(&mut self, stated: &str, number: usize) -> Result<(), Error> {
        let Some((name, rest)) = stated.split_once(':') else { return Ok(()) };
        if name.starts_with("Thread ") {
            self.threads += 1;
        }

        let list = match name {
            "Total" => &mut self.totals,
            "Min Latencies" => &mut self.minima,
            "Avg Latencies" => &mut self.averages,
            "Max Latencies" => &mut self.maxima,
            "Histogram Overflows" => &mut self.overflows,
            _ => return Ok(()),
        };

        *list = numbers(rest.split_whitespace(), number)?;
        Ok(())
    }

    fn row(&mut self, line: &str, number: usize) -> Result<(), Error> {
        let numbers = numbers(line.split_whitespace(), number)?;
        let [latency, counts @ ..] = numbers.as_slice() else { return Ok(()) };
        let before = self.rows.last();
        if let Some((_, previous, columns)) = before {
            if previous >= latency {
                return Err(Error::line(
                    FORMAT,
                    number,
                    format!("the row {latency} comes after the row {previous}"),
                ));
            }
            if columns.len() != counts.len() {
                let reason = format!(
                    "{} columns of counts where the row before has {}",
                    counts.len(),
                    columns.len()
                );
                return Err(Error::line(FORMAT, number, reason));
            }
        }

        if counts.is_empty() {
            return Err(Error::line(FORMAT, number, "a row without a count"));
        }

        self.rows.push((number, *latency, counts.to_vec()));
        Ok(())
    }

    /// How many of the columns are threads: with `-H` the last one is their sum.
    fn threads_of(&self, columns: usize) -> usize {
        if self.threads > 0 {
            return self.threads.min(columns);
        }

        let is_sum = |counts: &[u64]| {
            let (last, others) = counts.split_last().unwrap_or((&0, &[]));
            others.iter().try_fold(0_u64, |all, n| all.checked_add(*n)) == Some(*last)
        };

        if columns > 1 && self.rows.iter().all(|(_, _, counts)| is_sum(counts)) {
            columns - 1
        } else {
            columns
        }
    }

    fn stream(
        &self,
        thread: usize,
        threads: usize,
        step_ns: u64,
        asked: &SourceOptions,
    ) -> Result<Stream, Error> {
        let column = || self.rows.iter().map(|(_, latency, counts)| (*latency, counts[thread]));
        let counted = column().try_fold(0_u64, |all, (_, n)| all.checked_add(n));
        let (last_line, last, _) =
            self.rows.last().map_or((1, 0, &[][..]), |(line, last, counts)| (*line, *last, counts));
        if let Some(&total) = self.totals.get(thread).filter(|total| counted != Some(**total)) {
            let counted = counted.map_or("more than can be counted".to_owned(), |n| n.to_string());
            let reason = format!(
                "thread {thread}: its rows add up to {counted}, `# Total` says {total}: lines are lost or changed"
            );
            return Err(Error::line(FORMAT, last_line, reason));
        }

        let figure = |list: &[u64]| list.get(thread).copied();
        let max = figure(&self.maxima);
        let overflow = Overflow {
            end: last.saturating_add(1),
            max: max.unwrap_or(last),
            count: figure(&self.overflows).unwrap_or(0),
        };

        let resolution = Resolution { beyond: overflow.at(step_ns), ..Resolution::even(step_ns) };
        let mut part = StreamPart::untimed(Series::WakeupLatency, 0.0);
        for (latency, n) in column() {
            part.count(&resolution, latency.saturating_mul(step_ns), n);
        }

        if let Some(beyond) = resolution.beyond {
            part.count(&resolution, beyond.from_ns, beyond.count);
        }

        if let (Some(min), Some(mean), Some(max)) =
            (figure(&self.minima), figure(&self.averages), max)
        {
            let at = |units: u64| units.saturating_mul(step_ns);
            let stated =
                SourceFigures { min_ns: at(min), max_ns: at(max), mean_ns: at(mean) as f64 };
            part.moments = Some(part.moments_around(&resolution, stated));
        }

        let mut missing = missing(&resolution, max.is_some());
        missing.push(
            "the machine, the start and the command: cyclictest's text does not hold them, its --json does".to_owned(),
        );
        if asked.unit_ns.is_none() {
            missing.push(
                "the unit: microseconds assumed; cyclictest -N counts nanoseconds (--unit ns)"
                    .to_owned(),
            );
        }

        Ok(Stream {
            label: if threads > 1 { format!("thread {thread}") } else { String::new() },
            period_ns: self
                .interval_us
                .filter(|_| thread == 0)
                .and_then(|us| us.checked_mul(1_000)),
            resolution: [(part.series, resolution)].into(),
            parts: vec![part],
            missing,
            ..Stream::default()
        })
    }
}

fn numbers<'w>(words: impl Iterator<Item = &'w str>, line: usize) -> Result<Vec<u64>, Error> {
    let number = |word: &str| {
        word.parse().map_err(|_| Error::line(FORMAT, line, format!("`{word}` is not a count")))
    };
    words.map(number).collect()
}
