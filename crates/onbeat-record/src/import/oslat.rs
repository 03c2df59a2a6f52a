//! Text of oslat: a column per core, rows of a bucket in whole microseconds and its counts.
//!
//! oslat rounds each gap up: its bucket `001` holds gaps of up to 1 µs. The last bucket holds what
//! is longer as well.

use std::io::BufRead;

use super::error::Error;
use super::format::{Format, to_ns};
use super::lines::{Line, PassedOver, each_line};
use super::rt_tests::Overflow;
use super::rt_text;
use super::stream::{SourceFigures, Stream, StreamPart};
use crate::{Resolution, Series};

const FORMAT: Format = Format::Oslat;
const STEP_NS: u64 = 1_000;
const MOST_CORES: usize = 8192;

#[derive(Default)]
struct OslatText {
    cores: Vec<u32>,
    /// Bucket in microseconds and its counts.
    rows: Vec<(u64, Vec<u64>)>,
    minima: Vec<f64>,
    averages: Vec<f64>,
    maxima: Vec<f64>,
    durations: Vec<f64>,
    version: Option<String>,
    priority: Option<u64>,
    is_priority_known: bool,
    passed_over: PassedOver,
}

/// One stream per core.
///
/// # Errors
/// [`Error`].
pub fn read(file: &mut impl BufRead) -> Result<Vec<Stream>, Error> {
    let mut text = OslatText::default();
    let lines = each_line(file, |line| text.line(line))?;
    if text.rows.is_empty() || text.cores.is_empty() {
        let advice =
            "its buckets are missing: oslat prints them when it ends by itself or by Ctrl-C";
        return Err(Error::NoHistogram { format: FORMAT, lines, advice });
    }

    (0..text.cores.len()).map(|place| text.stream(place)).collect()
}

impl OslatText {
    fn line(&mut self, line: &Line<'_>) -> Result<(), Error> {
        let text = line.text.trim();
        let Some((name, rest)) = text.split_once(':') else {
            if let Some(version) = text.strip_prefix("oslat V ") {
                self.version = Some(format!("rt-tests {}", version.trim()));
            // Dots are for empty buckets (`-z`).
            } else if !["Pre-heat for", "Test starts", "Test completed", "Global bias set", "..."]
                .iter()
                .any(|known| text.starts_with(known))
            {
                self.passed_over.count(line);
            }
            return Ok(());
        };

        let figures = || -> Vec<f64> {
            rest.split_whitespace().map_while(|word| word.parse().ok()).collect()
        };
        match name.trim() {
            "Core" => {
                let cores = rest.split_whitespace().map_while(|word| word.parse().ok());
                self.cores = cores.take(MOST_CORES).collect();
            }
            "Minimum" => self.minima = figures(),
            "Average" => self.averages = figures(),
            "Maximum" => self.maxima = figures(),
            "Duration" => self.durations = figures(),
            "Thread priority" => {
                self.is_priority_known = true;
                self.priority =
                    rest.rsplit([' ', ':', '\t']).next().and_then(|word| word.parse().ok());
            }
            bucket if bucket.ends_with("(us)") => self.row(bucket, rest, line)?,
            "Counter Freq"
            | "Max-Min"
            | "Total runtime"
            | "CPU list"
            | "CPU for main thread"
            | "Workload"
            | "Workload mem"
            | "Preheat cores"
            | "WARNING" => {}
            _ => self.passed_over.count(line),
        }

        Ok(())
    }

    fn row(&mut self, bucket: &str, rest: &str, line: &Line<'_>) -> Result<(), Error> {
        let damaged = |reason: String| Error::line(FORMAT, line.number, reason);
        let upper = bucket.split_whitespace().next().and_then(|word| word.parse().ok());
        let upper: u64 = upper
            .filter(|upper| (1..=u64::from(u32::MAX)).contains(upper))
            .ok_or_else(|| damaged(format!("`{bucket}` is not a bucket of 1 us or more")))?;
        let stated = rest.split_once('(').map_or(rest, |(counts, _)| counts);
        let counts: Result<Vec<u64>, Error> = stated
            .split_whitespace()
            .map(|word| word.parse().map_err(|_| damaged(format!("`{word}` is not a count"))))
            .collect();
        let counts = counts?;
        if counts.len() != self.cores.len() {
            return Err(damaged(format!("{} counts for {} cores", counts.len(), self.cores.len())));
        }
        if self.rows.last().is_some_and(|(before, _)| *before >= upper) {
            return Err(damaged(format!("the bucket {upper} comes after a later one")));
        }

        self.rows.push((upper, counts));
        Ok(())
    }

    fn stream(&self, place: usize) -> Result<Stream, Error> {
        let at = |list: &[f64]| list.get(place).copied();
        let (last, in_last) = self.rows.last().map_or((1, 0), |(upper, n)| (*upper, n[place]));
        let max_us = at(&self.maxima).and_then(|us| to_ns(us, 1.0));
        let beyond = max_us
            .filter(|max| *max > last)
            .and_then(|max| Overflow { end: last - 1, max: max - 1, count: in_last }.at(STEP_NS));
        let resolution = Resolution { beyond, ..Resolution::even(STEP_NS) };
        let duration = at(&self.durations).unwrap_or(0.0).clamp(0.0, 1e9);
        let mut part = StreamPart::untimed(Series::Gap, duration);
        for (upper, counts) in &self.rows {
            part.count(&resolution, (upper - 1) * STEP_NS, counts[place]);
        }

        if let (Some(min), Some(avg), Some(max_us)) =
            (at(&self.minima), at(&self.averages).filter(|avg| avg.is_finite()), max_us)
        {
            let min_us = to_ns(min, 1.0).unwrap_or(0);
            let stated = SourceFigures {
                min_ns: min_us.saturating_sub(1).saturating_mul(STEP_NS),
                max_ns: max_us.saturating_mul(STEP_NS),
                // Half a microsecond too much, on average: each gap is counted rounded up.
                mean_ns: (avg - 0.5).max(0.0) * STEP_NS as f64,
            };
            part.moments = Some(part.moments_around(&resolution, stated));
        }

        if part.samples() == 0 {
            let reason = format!("core {} has no gap in any bucket", self.cores[place]);
            return Err(Error::Nothing { format: FORMAT, reason });
        }

        Ok(self.described(place, part, resolution))
    }

    fn described(&self, place: usize, part: StreamPart, resolution: Resolution) -> Stream {
        let last = self.rows.last().map_or(1, |(upper, _)| *upper);
        let several = self.cores.len() > 1;
        let mut stream = Stream {
            label: if several { format!("CPU {}", self.cores[place]) } else { String::new() },
            host: onbeat_host::machine::Host::from_facts([("measured with", self.version.clone())]),
            missing: vec![
                "order and times of the gaps: no figures over time and no intervals".to_owned(),
                "gaps to the nanosecond: oslat rounds each up to a microsecond; mean and standard deviation are estimates"
                    .to_owned(),
                "the machine, the start and the command: oslat's text does not hold them, its --json does".to_owned(),
            ],
            ..Stream::default()
        };
        if self.is_priority_known {
            let priority = Some(self.priority.unwrap_or(0));
            rt_text::describe_scheduling(&mut stream, None, priority);
        }
        if resolution.beyond.is_some() {
            stream.missing.push(format!(
                "gaps beyond {} us: oslat counts them in its last bucket; percentiles that fall \
                 there are given as the maximum",
                last - 1
            ));
        }

        stream.remarks.extend(self.passed_over.sentence("oslat"));
        stream.put(part, resolution);
        stream
    }
}
