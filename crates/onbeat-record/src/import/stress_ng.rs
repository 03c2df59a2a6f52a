//! The log of `stress-ng --cyclic --cyclic-dist N`: a relative sleep, and how late it returned.
//!
//! Each line carries the process it is of; several stressors are several streams. Without
//! `--cyclic-dist` there are nine percentiles and the number of samples: each is the sample of a rank,
//! so that they divide the samples. The YAML of `--metrics` holds work done, not latency, and cannot be imported.

use super::error::Error;
use super::format::Format;
use super::stated::{self, Stated};
use super::stream::{SourceFigures, Stream, StreamPart};
use crate::{Beyond, Resolution, Series};
use onbeat_host::machine::Host;

const FORMAT: Format = Format::StressNg;
const ADVICE: &str = "keep its log (--log-file) of a run with --cyclic 1 --cyclic-dist 1000; its YAML holds no latency";

#[derive(Default)]
struct Stressor {
    process: String,
    policy: String,
    delay_ns: Option<u64>,
    /// How many it kept: those that its table and its figures are of.
    samples: Option<u64>,
    step_ns: u64,
    /// First of how many buckets were printed.
    printed: Option<(u64, u64)>,
    rows: Vec<(u64, u64)>,
    /// Shares in percent, and the values up to which they are.
    percentiles: Vec<(f64, u64)>,
    mean_ns: f64,
    sd_ns: f64,
    extremes_ns: Option<(u64, u64)>,
    /// How many it measured, when it kept fewer.
    needed: Option<u64>,
}

/// One stream per stressor.
///
/// # Errors
/// [`Error`].
pub fn read(text: &str) -> Result<Vec<Stream>, Error> {
    let mut all: Vec<Stressor> = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let Some((before, text_after)) = line.split_once("] cyclic: ") else { continue };
        let process = before.rsplit_once('[').map_or("", |(_, process)| process);
        let place =
            all.iter().position(|stressor| stressor.process == process).unwrap_or_else(|| {
                all.push(Stressor { process: process.to_owned(), ..Stressor::default() });
                all.len() - 1
            });

        all[place].line(text_after.trim(), number)?;
    }

    all.retain(|stressor| !stressor.rows.is_empty() || stressor.extremes_ns.is_some());
    if all.is_empty() {
        return Err(Error::NoHistogram {
            format: FORMAT,
            lines: text.lines().count(),
            advice: ADVICE,
        });
    }

    let several = all.len() > 1;
    Ok(all.iter().zip(0..).map(|(stressor, n)| stressor.stream(several.then_some(n))).collect())
}

impl Stressor {
    fn line(&mut self, text_after: &str, number: usize) -> Result<(), Error> {
        let words: Vec<&str> =
            text_after.split([' ', ',', '(', ')']).filter(|word| !word.is_empty()).collect();
        match words.as_slice() {
            ["sched", policy, delay, "ns", "delay", rest @ ..] => {
                policy.trim_end_matches(':').clone_into(&mut self.policy);
                self.delay_ns = delay.parse().ok();
                self.samples = rest.first().and_then(|samples| samples.parse().ok());
            }
            ["mean:", mean, "ns", ..] => self.mean_ns = mean.parse().unwrap_or(0.0),
            ["min:", min, "ns", "max:", max, "ns", "std.dev.", sd, ..] => {
                self.extremes_ns = min.parse().ok().zip(max.parse().ok());
                self.sd_ns = sd.parse().unwrap_or(0.0);
            }
            ["latency", "distribution", step, "ns", "intervals", ..] => {
                self.step_ns = step.parse().unwrap_or(0);
            }
            ["for", "the", "first", first, "buckets", "of", all, ..] => {
                self.printed = first.parse().ok().zip(all.parse().ok());
            }
            ["Note:", "--cyclic-samples", "needed", "to", "be", needed, ..] => {
                self.needed = needed.parse().ok();
            }
            [share, value, "ns"] if share.ends_with("%:") => {
                let share = share.trim_end_matches("%:").parse().ok();
                self.percentiles.extend(share.zip(value.parse().ok()));
            }
            [latency, count] if latency.bytes().all(|byte| byte.is_ascii_digit()) => {
                let row = latency.parse().ok().zip(count.parse().ok());
                let (ns, n): (u64, u64) = row.ok_or_else(|| {
                    Error::line(FORMAT, number, format!("`{count}` is not a count"))
                })?;
                let rises = self.rows.last().is_none_or(|(before, _)| *before < ns);
                if self.step_ns == 0 || !ns.is_multiple_of(self.step_ns) || !rises {
                    let reason =
                        format!("the row {ns} does not follow in steps of {} ns", self.step_ns);
                    return Err(Error::line(FORMAT, number, reason));
                }

                self.rows.push((ns, n));
            }
            _ => {}
        }

        Ok(())
    }

    /// What lies beyond the last row that was printed, from `end_ns` on: all that was kept and is in
    /// no row. A log that does not say how many were kept has at least the maximum there.
    fn beyond(&self, end_ns: u64) -> Option<Beyond> {
        let (_, max_ns) = self.extremes_ns.filter(|(_, max)| *max >= end_ns)?;
        let kept = self.samples.unwrap_or(0);
        let count = kept.saturating_sub(self.in_rows()).max(1);
        Some(Beyond { from_ns: end_ns, to_ns: max_ns, count })
    }

    /// The same, parted by the percentiles that are there: upper ends, and how many are up to each.
    /// `None` where none is, or where table and percentiles contradict each other.
    fn tail(&self, end_ns: u64) -> Option<Vec<(u64, u64)>> {
        let (all, (_, max_ns)) = self.samples.zip(self.extremes_ns)?;
        let is_there = |(_, ns): &(f64, u64)| (end_ns..max_ns).contains(ns);
        self.percentiles.iter().any(is_there).then_some(())?;
        let mut counted = 0_u64;
        let mut tail = Vec::new();
        for (ns, n) in stated::parted(all, &self.percentiles, max_ns)? {
            let before = counted.max(self.in_rows());
            counted = counted.saturating_add(n);
            if ns >= end_ns {
                tail.push((ns, counted.checked_sub(before)?));
            }
        }
        let beyond: u64 = tail.iter().map(|(_, n)| n).sum();
        (beyond.checked_add(self.in_rows()) == Some(all)).then_some(tail)
    }

    fn in_rows(&self) -> u64 {
        self.rows.iter().fold(0, |all, (_, n)| all.saturating_add(*n))
    }

    /// What the log does not hold, as sentences.
    fn missing(&self, beyond: Option<Beyond>) -> Vec<String> {
        let mut missing = vec![
            "order and times of the samples: no figures over time and no intervals".to_owned(),
            "missed periods: stress-ng sleeps for a time, not until an instant, so that a late start delays the next one".to_owned(),
        ];
        if let Some(needed) = self.needed {
            let kept = self.samples.unwrap_or_else(|| self.in_rows());
            missing.push(format!(
                "later samples: stress-ng kept the first {kept} of {needed}; --cyclic-samples {needed} keeps all"
            ));
        }

        if let Some(Beyond { from_ns, count, .. }) = beyond {
            let at_least = if self.samples.is_some() { "" } else { "at least " };
            missing.push(format!(
                "samples beyond {from_ns} ns: {at_least}{count}, of unknown size up to the maximum; stress-ng printed the first {} buckets, a larger --cyclic-dist shows all",
                self.printed.map_or(self.rows.len() as u64, |(first, _)| first)
            ));
        }

        missing
    }

    /// What is known of a stressor beside its latencies.
    fn described(&self, number: Option<u32>) -> Stream {
        Stream {
            label: number.map_or(String::new(), |n| format!("stressor {n}")),
            host: Host::from_facts([(
                "scheduling",
                Some(self.policy.clone()).filter(|policy| !policy.is_empty()),
            )]),
            period_ns: self.delay_ns,
            ..Stream::default()
        }
    }

    /// Of a log without `--cyclic-dist`.
    fn figures(&self, (min_ns, max_ns): (u64, u64), number: Option<u32>) -> Option<Stream> {
        let figures = [min_ns as f64, self.mean_ns, max_ns as f64];
        let stated = Stated::in_units(self.samples, figures, 1.0)?;
        let mut stream = Stream { missing: self.missing(None), ..self.described(number) };
        stated.put_into(&mut stream, Series::SleepLatency, 1);
        stream.missing.push(format!(
            "the standard deviation of {} ns; --cyclic-dist 1000 prints a histogram",
            self.sd_ns
        ));
        Some(stream)
    }

    /// Of a log without `--cyclic-dist` that has its percentiles.
    fn of_percentiles(&self, (min_ns, max_ns): (u64, u64), number: Option<u32>) -> Option<Stream> {
        let all = self.samples.filter(|_| !self.percentiles.is_empty())?;
        let cells = stated::parted(all, &self.percentiles, max_ns)?;
        let (resolution, mut part) = stated::uneven(Series::SleepLatency, &cells);
        let source = SourceFigures { min_ns, max_ns, mean_ns: self.mean_ns };
        part.moments = Some(part.moments_with_sd(source, self.sd_ns));
        let mut stream = Stream { missing: self.missing(None), ..self.described(number) };
        stream.lacks(
            "values between two of its percentiles: percentiles there are given as the larger one; --cyclic-dist 1000 prints a histogram",
        );
        stream.put(part, resolution);
        Some(stream)
    }

    fn stream(&self, number: Option<u32>) -> Stream {
        if let (true, Some(extremes)) = (self.rows.is_empty(), self.extremes_ns)
            && let Some(stream) =
                self.of_percentiles(extremes, number).or_else(|| self.figures(extremes, number))
        {
            return stream;
        }
        let end_ns = self.rows.last().map_or(0, |(last, _)| last.saturating_add(self.step_ns));
        let beyond = self.beyond(end_ns);
        let (resolution, mut part, missing) = match self.tail(end_ns) {
            Some(tail) => {
                let end_of = |ns: u64| ns.saturating_add(self.step_ns - 1);
                let rows = self.rows.iter().map(|&(ns, n)| (end_of(ns), n));
                let cells: Vec<(u64, u64)> = rows.chain(tail).collect();
                let (resolution, part) = stated::uneven(Series::SleepLatency, &cells);
                let mut missing = self.missing(None);
                missing.push(format!(
                    "values beyond {end_ns} ns and between two of its percentiles: percentiles there are given as the larger one; a larger --cyclic-dist shows all"
                ));
                (resolution, part, missing)
            }
            None => {
                let resolution = Resolution { beyond, ..Resolution::even(self.step_ns) };
                let cells = self.rows.iter().copied();
                let part = StreamPart::of_cells(Series::SleepLatency, &resolution, cells);
                (resolution, part, self.missing(beyond))
            }
        };
        part.moments = self.extremes_ns.map(|(min_ns, max_ns)| {
            let source = SourceFigures { min_ns, max_ns, mean_ns: self.mean_ns };
            part.moments_with_sd(source, self.sd_ns)
        });
        Stream {
            resolution: [(part.series, resolution)].into(),
            parts: vec![part],
            missing,
            ..self.described(number)
        }
    }
}
