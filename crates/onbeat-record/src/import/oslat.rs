//! Text of oslat: a column per core, rows of a bucket in whole microseconds and its counts.
//!
//! oslat rounds each gap up: its bucket `001` holds gaps of up to 1 µs. The last bucket holds what
//! is longer as well.

use std::io::BufRead;

use super::error::Error;
use super::format::{Format, to_ns};
use super::lines::{Line, PassedOver, begins_with, each_line};
use super::rt_tests::{NO_SUMMARY, Overflow};
use super::rt_text;
use super::stream::{SourceFigures, Stream, StreamPart};
use crate::{Resolution, Series};

const FORMAT: Format = Format::Oslat;
const STEP_NS: u64 = 1_000;
const MOST_CORES: usize = 8192;
/// How other lines begin; dots are for empty buckets (`-z`).
const OTHERS: [&str; 5] =
    ["Pre-heat for", "Test starts", "Test completed", "Global bias set", "..."];

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
    /// 0 for an ordinary thread.
    priority: Option<u64>,
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
            } else if !begins_with(text, &OTHERS) {
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
                let word = rest.rsplit([' ', ':', '\t']).next();
                self.priority = Some(word.and_then(|word| word.parse().ok()).unwrap_or(0));
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
        let buckets: Vec<(u64, u64)> =
            self.rows.iter().map(|(upper, counts)| (*upper, counts[place])).collect();
        let min_us = at(&self.minima).map(|us| to_ns(us, 1.0).unwrap_or(0));
        let mean_us = at(&self.averages).filter(|avg| avg.is_finite());
        let max_us = at(&self.maxima).and_then(|us| to_ns(us, 1.0));
        let duration_s = at(&self.durations).unwrap_or(0.0);
        let (resolution, part) = gaps(&buckets, (min_us, mean_us, max_us), duration_s);
        if part.samples() == 0 {
            let reason = format!("core {} has no gap in any bucket", self.cores[place]);
            return Err(Error::nothing(FORMAT, reason));
        }

        let several = self.cores.len() > 1;
        let machine = "the machine, the start and the command: oslat's text does not hold them, its --json does";
        let mut stream = Stream {
            label: if several { format!("CPU {}", self.cores[place]) } else { String::new() },
            host: onbeat_host::machine::Host::from_facts([("measured with", self.version.clone())]),
            missing: MISSING.into_iter().chain([machine]).map(str::to_owned).collect(),
            lost: u64::from(max_us.is_none()),
            ..Stream::default()
        };
        stream.missing.extend(max_us.is_none().then(|| NO_SUMMARY.to_owned()));
        rt_text::describe_scheduling(&mut stream, None, self.priority);
        stream.missing.extend(beyond_in_words(&resolution, &buckets));
        stream.remarks.extend(self.passed_over.sentence("oslat"));
        stream.put(part, resolution);
        Ok(stream)
    }
}

/// What oslat does not record.
pub(super) const MISSING: [&str; 2] = [
    "order and times of the gaps: no figures over time and no intervals",
    "gaps to the nanosecond: oslat rounds each up to a microsecond; mean and standard deviation are estimates",
];

/// What it does not record of gaps beyond its last bucket, where there are some.
pub(super) fn beyond_in_words(resolution: &Resolution, buckets: &[(u64, u64)]) -> Option<String> {
    let (last, _) = buckets.last().filter(|_| resolution.beyond.is_some())?;
    Some(format!(
        "gaps beyond {} us: oslat counts them in its last bucket; percentiles that fall there are given as the maximum",
        last - 1
    ))
}

/// The gaps of a core: its buckets in microseconds, rising from 1 on, with their counts; smallest,
/// mean and largest gap as oslat states them, in microseconds.
pub(super) fn gaps(
    buckets: &[(u64, u64)],
    (min_us, mean_us, max_us): (Option<u64>, Option<f64>, Option<u64>),
    duration_s: f64,
) -> (Resolution, StreamPart) {
    let (last, in_last) = buckets.last().copied().unwrap_or((1, 0));
    let beyond = max_us
        .filter(|max| *max > last)
        .and_then(|max| Overflow { end: last - 1, max: max - 1, count: in_last }.at(STEP_NS));
    let resolution = Resolution { beyond, ..Resolution::even(STEP_NS) };
    let mut part = StreamPart::untimed(Series::Gap, duration_s.clamp(0.0, 1e9));
    for (upper, n) in buckets {
        part.count(&resolution, (upper - 1) * STEP_NS, *n);
    }

    if let (Some(min_us), Some(mean_us), Some(max_us)) = (min_us, mean_us, max_us) {
        let stated = SourceFigures {
            min_ns: min_us.saturating_sub(1).saturating_mul(STEP_NS),
            max_ns: max_us.saturating_mul(STEP_NS),
            // Each gap is counted rounded up to its microsecond, and so is the mean: half of one
            // too much, on average.
            mean_ns: (mean_us - 0.5).max(0.0) * STEP_NS as f64,
        };
        part.moments = Some(part.moments_around(&resolution, stated));
    }

    (resolution, part)
}
