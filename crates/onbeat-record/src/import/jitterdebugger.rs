//! jitterdebugger: its JSON, with a histogram per thread, its status lines, and every sample as
//! `jittersamples` prints them.
//!
//! A thread sleeps until an instant and counts how late it woke, in whole microseconds (nanoseconds
//! with `-N`); a release that it missed is counted as well, when its turn comes. Older versions slept
//! for a time, and the next wake-up counted from the last one. Latencies beyond the histogram, which
//! ends at 1 ms, are in `count` only.

use std::collections::BTreeMap;
use std::io::{BufRead, Seek};

use serde::Deserialize;

use super::cyclictest::label;
use super::error::Error;
use super::format::{Format, SourceOptions};
use super::lines::{Damage, Line, PassedOver, each_line};
use super::rt_tests::{BEYOND, counted};
use super::rt_text::{MOST_THREADS, StatusLine};
use super::samples::{Extent, Sample, SampleCounter, count_each};
use super::stated::Stated;
use super::stream::Stream;
use crate::{Resolution, Series};
use onbeat_host::machine::Host;

const FORMAT: Format = Format::Jitterdebugger;
/// Where its histograms end, in nanoseconds.
const END_NS: u64 = 1_000_000;
/// No latency is longer, in its units.
const LONGEST: i64 = 9_000_000_000_000;
/// The first version of its JSON that sleeps until an instant.
const FIRST_ABSOLUTE: u64 = 3;

#[derive(Deserialize)]
struct Results {
    #[serde(default)]
    version: u64,
    #[serde(default)]
    file_version: u64,
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

/// Whether a line is a sample of `jittersamples`: `0;1114.936950838;9`.
#[must_use]
pub fn is_sample_line(line: &str) -> bool {
    sample(line).is_some()
}

/// Whether a text has the JSON of its results, which a terminal shows below other lines.
#[must_use]
pub fn has_results(text: &str) -> bool {
    let has = |key: &str| text.contains(key);
    // cyclictest's JSON has a CPU in each thread.
    has("\"cpu\"") && has("\"histogram\"") && !has("\"thread\"")
}

fn is_like_sample(line: &str) -> bool {
    line.contains(';') && line.trim().starts_with(|c: char| c.is_ascii_digit())
}

/// Thread and sample of a line: the thread's number, the time in seconds, the latency.
fn sample(line: &str) -> Option<(u32, f64, i64)> {
    let mut fields = line.trim().split(';');
    let (thread, stamp, latency) = (fields.next()?, fields.next()?, fields.next()?);
    let is_stamp = stamp.split_once('.').is_some_and(|(_, below)| below.len() == 9);
    let thread = thread.parse().ok().filter(|of: &u32| *of < MOST_THREADS)?;
    let t_s = stamp.parse().ok().filter(|t: &f64| is_stamp && (0.0..1e11).contains(t))?;
    let latency = latency.parse().ok().filter(|of: &i64| (0..=LONGEST).contains(of))?;
    if fields.next().is_some() {
        return None;
    }
    Some((thread, t_s, latency))
}

/// One stream per thread, of status lines or samples.
///
/// # Errors
/// [`Error`].
pub fn read(file: &mut (impl BufRead + Seek), asked: &SourceOptions) -> Result<Vec<Stream>, Error> {
    let mut text = JitterText { damage: Damage::new(asked), ..JitterText::default() };
    each_line(file, |line| text.line(line))?;
    let unit_ns = asked.whole_unit_ns(1_000.0, (FORMAT, 1))?;
    let mut streams = if text.samples.is_empty() {
        text.of_status_lines(unit_ns)
    } else {
        text.of_samples(file, unit_ns)?
    };
    for stream in &mut streams {
        if asked.unit_ns.is_none() {
            stream.lacks(
                "the unit: microseconds assumed; jitterdebugger -N counts nanoseconds (--unit ns)",
            );
        }
        stream.lost_lines(&text.damage);
        stream.remarks.extend(text.passed_over.sentence("jitterdebugger"));
    }
    described(streams)
}

/// One stream per thread, of the JSON that `text` holds.
///
/// # Errors
/// [`Error`].
pub fn results(text: &str) -> Result<Vec<Stream>, Error> {
    // Of a thread without a sample the average is 0 / 0.
    let text = &text.replace(": -nan", ": 0").replace(": nan", ": 0");
    let begins = text.find('{').unwrap_or(0);
    let lines_before = text[..begins].matches('\n').count();
    of_json(&text[begins..], lines_before).and_then(described)
}

fn described(mut streams: Vec<Stream>) -> Result<Vec<Stream>, Error> {
    streams.retain(|stream| !stream.parts.is_empty());
    if streams.is_empty() {
        let reason = "it states no samples: it was stopped before its first one";
        return Err(Error::nothing(FORMAT, reason));
    }

    for stream in &mut streams {
        stream.lacks(
            "priority and interval: its command is not in the file (--period gives the interval)",
        );
    }

    Ok(streams)
}

fn of_json(text: &str, lines_before: usize) -> Result<Vec<Stream>, Error> {
    // A prompt may follow.
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let file = Results::deserialize(&mut deserializer)
        .map_err(|why| Error::line(FORMAT, lines_before + why.line().max(1), why.to_string()))?;
    let (own, rest) = text.split_at(deserializer.into_iter::<Results>().byte_offset());
    if let Some(place) = rest.lines().position(|line| line.trim_start().starts_with('{')) {
        let line = lines_before + own.matches('\n').count() + place + 1;
        return Err(Error::second_run(FORMAT, line));
    }

    let is_relative = file.version < FIRST_ABSOLUTE && file.file_version == 0;
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
    for (thread, of) in &file.cpu {
        let label = label(*thread, file.cpu.len() > 1);
        let mut stream = Stream { label, host: host.clone(), ..Stream::default() };
        of.put_into(&mut stream, step_ns).map_err(|reason| {
            let name = format!("\"{thread}\": {{");
            let line = text.lines().position(|line| line.contains(&name)).unwrap_or(0) + 1;
            Error::line(FORMAT, lines_before + line, format!("thread {thread}: {reason}"))
        })?;
        if is_relative {
            stream.lacks(
                "missed periods: this older jitterdebugger sleeps for a time, not until an instant, so that a late start delays the next one",
            );
        }
        streams.push(stream);
    }

    Ok(streams)
}

impl OfCpu {
    fn put_into(&self, stream: &mut Stream, step_ns: u64) -> Result<(), String> {
        if self.count == 0 {
            return Ok(());
        }

        let stated = Stated::in_units(
            Some(self.count),
            [self.min as f64, self.avg, self.max as f64],
            step_ns as f64,
        );
        let stated = stated.ok_or_else(|| {
            format!("minimum {} and maximum {} contradict each other", self.min, self.max)
        })?;
        let counted = counted(&self.histogram, END_NS / step_ns, stated, step_ns);
        let (resolution, part) = counted.ok_or_else(|| {
            format!("its histogram holds more samples than its count of {}", self.count)
        })?;
        if resolution.beyond.is_some() {
            stream.lacks(BEYOND);
        }

        stream.lacks("order and times of the samples: no figures over time and no intervals");
        stream.lacks("standard deviation: computed from the histogram's buckets");
        stated.put_early(stream, part.series);
        stream.put(part, resolution);
        Ok(())
    }
}

#[derive(Default)]
struct JitterText {
    status: BTreeMap<u32, StatusLine>,
    samples: BTreeMap<u32, Extent>,
    passed_over: PassedOver,
    damage: Damage,
}

impl JitterText {
    fn line(&mut self, line: &Line<'_>) -> Result<(), Error> {
        match (StatusLine::parse(line.text), sample(line.text)) {
            // The status line's end is blanked: one that is cut off has no blank after its maximum.
            (Some(status), _) if status.thread < MOST_THREADS && line.has_end => {
                status.put_into(&mut self.status, (FORMAT, line.number))?;
            }
            (None, Some((thread, t_s, latency))) if line.has_end => {
                let of = self.samples.entry(thread).or_default();
                of.take_in(&Sample { ns: latency, t_s: Some(t_s) });
            }
            _ if is_like_sample(line.text) => {
                let reason =
                    format!("`{}` is not a thread, a time and a latency", line.text.trim());
                let before = self.samples.values().map(|of| of.samples).sum();
                self.damage.unread(line, reason, (FORMAT, before, "samples"))?;
            }
            _ if line.text.starts_with("affinity: ") => {}
            _ => self.passed_over.count(line),
        }
        Ok(())
    }

    fn of_samples(
        &self,
        file: &mut (impl BufRead + Seek),
        unit_ns: u64,
    ) -> Result<Vec<Stream>, Error> {
        let counter = |(thread, extent): (&u32, &Extent)| {
            let resolution = Resolution::even(unit_ns);
            (*thread, SampleCounter::new(Series::WakeupLatency, resolution, *extent, None))
        };
        let unit = i64::try_from(unit_ns).unwrap_or(1);
        let streams = count_each(file, self.samples.iter().map(counter).collect(), |line| {
            let (thread, t_s, latency) = sample(line.text).filter(|_| line.has_end)?;
            Some((thread, Sample { ns: latency.saturating_mul(unit), t_s: Some(t_s) }))
        })?;

        let several = streams.len() > 1;
        // Its times count from boot.
        let described = |(thread, stream): (u32, Stream)| Stream {
            started_unix_s: 0.0,
            label: label(thread, several),
            ..stream
        };
        Ok(streams.into_iter().map(described).collect())
    }

    fn of_status_lines(&self, unit_ns: u64) -> Vec<Stream> {
        let several = self.status.len() > 1;
        let stream = |status: &StatusLine| {
            let cpu = status.cpu.unwrap_or(status.thread);
            let label = if several { format!("CPU {cpu}") } else { String::new() };
            status.stream(label, Series::WakeupLatency, unit_ns)
        };
        self.status.values().filter_map(stream).collect()
    }
}
