//! jitterdebugger: its JSON, with a histogram per CPU, and its status lines.
//!
//! A thread sleeps for a time and counts how late it woke, in whole microseconds (nanoseconds with
//! `-N`); its next wake-up counts from this one, as stress-ng's does. Latencies beyond the
//! histogram, 1,000 buckets, are in `count` only.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::error::Error;
use super::format::Format;
use super::lines::{Line, PassedOver, each_line};
use super::rt_tests::Overflow;
use super::rt_text::StatusLine;
use super::stated::{self, Stated};
use super::stream::{Stream, StreamPart};
use crate::{Resolution, Series};
use onbeat_host::machine::Host;

const FORMAT: Format = Format::Jitterdebugger;
/// Buckets of its histograms.
const BUCKETS: u64 = 1_000;
const MOST_THREADS: u32 = 8192;

#[derive(Deserialize)]
struct Results {
    #[serde(default)]
    sysinfo: BTreeMap<String, serde_json::Value>,
    cpu: BTreeMap<u32, OfCpu>,
}

#[derive(Deserialize)]
struct OfCpu {
    histogram: BTreeMap<u64, u64>,
    count: u64,
    min: i64,
    max: i64,
    avg: f64,
}

/// Whether a line is one of its status lines: `T: 0 ( 4918) A: 0 C: 1994 Min: 13 Avg: 39.12 ...`.
#[must_use]
pub fn is_status_line(line: &str) -> bool {
    StatusLine::parse(line).is_some_and(|status| status.cpu.is_some())
}

/// One stream per CPU.
///
/// # Errors
/// [`Error`].
pub fn read(text: &str) -> Result<Vec<Stream>, Error> {
    let mut streams =
        if text.trim_start().starts_with('{') { of_json(text)? } else { of_status_lines(text)? };
    streams.retain(|stream| !stream.parts.is_empty());
    if streams.is_empty() {
        let reason = "it states no samples: it was stopped before its first one".to_owned();
        return Err(Error::Nothing { format: FORMAT, reason });
    }

    for stream in &mut streams {
        stream.missing.push(
            "missed periods: jitterdebugger sleeps for a time, not until an instant, so that a late start delays the next one".to_owned(),
        );
        stream.missing.push(
            "priority and interval: its command is not in the file (--period gives the interval)"
                .to_owned(),
        );
    }

    Ok(streams)
}

fn of_json(text: &str) -> Result<Vec<Stream>, Error> {
    let file: Results = serde_json::from_str(text)
        .map_err(|why| Error::line(FORMAT, why.line().max(1), why.to_string()))?;
    let fact =
        |key: &str| file.sysinfo.get(key).and_then(|value| value.as_str()).map(str::to_owned);
    let is_in_ns = file.sysinfo.get("resolution_in_ns").and_then(serde_json::Value::as_u64);
    let step_ns = if is_in_ns == Some(1) { 1 } else { 1_000 };
    let host = Host::from_facts([
        ("kernel", fact("release")),
        ("kernel build", fact("version")),
        ("architecture", fact("machine")),
    ]);
    let mut streams = Vec::new();
    for (cpu, of) in &file.cpu {
        let mut stream = Stream {
            label: if file.cpu.len() > 1 { format!("CPU {cpu}") } else { String::new() },
            host: host.clone(),
            ..Stream::default()
        };
        of.put_into(&mut stream, step_ns).map_err(|reason| {
            let name = format!("\"{cpu}\": {{");
            let line = text.lines().position(|line| line.contains(&name)).unwrap_or(0) + 1;
            Error::line(FORMAT, line, format!("CPU {cpu}: {reason}"))
        })?;
        streams.push(stream);
    }

    Ok(streams)
}

impl OfCpu {
    fn put_into(&self, stream: &mut Stream, step_ns: u64) -> Result<(), String> {
        let stated = Stated::in_units(
            Some(self.count),
            [self.min as f64, self.avg, self.max as f64],
            step_ns as f64,
        );
        let stated = stated.ok_or_else(|| {
            format!("minimum {} and maximum {} contradict each other", self.min, self.max)
        })?;
        let counted = self.histogram.values().try_fold(0_u64, |all, n| all.checked_add(*n));
        let counted = counted.filter(|n| *n <= self.count).ok_or_else(|| {
            format!("its histogram holds more samples than its count of {}", self.count)
        })?;
        if self.count == 0 {
            return Ok(());
        }

        let last = self.histogram.keys().last().copied().unwrap_or(0);
        let overflow = Overflow {
            end: BUCKETS.max(last.saturating_add(1)),
            max: u64::try_from(self.max).unwrap_or(0),
            count: self.count - counted,
        };
        let resolution = Resolution { beyond: overflow.at(step_ns), ..Resolution::even(step_ns) };
        let mut part = StreamPart::untimed(Series::SleepLatency, 0.0);
        for (&bucket, &n) in &self.histogram {
            part.count(&resolution, bucket.saturating_mul(step_ns), n);
        }
        if let Some(beyond) = resolution.beyond {
            part.count(&resolution, beyond.from_ns, beyond.count);
            stream.missing.push(format!(
                "the size of each of {} samples beyond the histogram: percentiles that fall there are given as the maximum",
                beyond.count
            ));
        }

        part.moments = Some(stated::moments(&part, &resolution, stated));
        stream.missing.push(
            "order and times of the samples: no figures over time and no intervals".to_owned(),
        );
        stream.missing.push("standard deviation: computed from the histogram's buckets".to_owned());
        stream.resolution.insert(part.series, resolution);
        stream.parts.push(part);
        Ok(())
    }
}

fn of_status_lines(text: &str) -> Result<Vec<Stream>, Error> {
    let mut all: BTreeMap<u32, StatusLine> = BTreeMap::new();
    let mut passed_over = PassedOver::default();
    each_line(&mut text.as_bytes(), |line: &Line<'_>| {
        match StatusLine::parse(line.text) {
            // The line's end is blanked: one that is cut off has no blank after its maximum.
            Some(status) if status.thread < MOST_THREADS && line.has_end => {
                all.insert(status.thread, status);
            }
            _ if line.text.starts_with("affinity: ") => {}
            _ => passed_over.count(line),
        }
        Ok(())
    })?;

    let several = all.len() > 1;
    let stream = |status: &StatusLine| {
        let n = Some(status.cycles).filter(|cycles| *cycles > 0)?;
        let stated = Stated::in_units(Some(n), status.figures, 1_000.0)?;
        let cpu = status.cpu.unwrap_or(status.thread);
        let label = if several { format!("CPU {cpu}") } else { String::new() };
        let mut stream = Stream { label, ..Stream::default() };
        stated.put_into(&mut stream, Series::SleepLatency, 1_000);
        stream.remarks.extend(passed_over.sentence("jitterdebugger"));
        Some(stream)
    };
    Ok(all.values().filter_map(stream).collect())
}
