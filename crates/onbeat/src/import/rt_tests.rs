//! JSON of rt-tests: `cyclictest --json` and `oslat --json`.
//!
//! cyclictest counts a latency in its whole microseconds (nanoseconds with `-N`): a bucket `22`
//! holds 22 µs up to, not with, 23 µs. oslat rounds up: its bucket `1` holds gaps of up to 1 µs, as
//! a loop of 65 ns shows that is counted there. cyclictest counts samples beyond its last bucket
//! only in `cycles`; oslat counts them in its last bucket.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::date;
use super::error::Error;
use super::format::{Format, SourceOptions};
use super::stream::{SourceFigures, Stream, StreamPart};
use crate::host::Host;
use crate::record::{Beyond, Resolution, Series};

#[derive(Deserialize)]
struct RtTestsJson<T> {
    #[serde(rename = "cmdline:", alias = "cmdline", default)]
    cmdline: String,
    #[serde(rename = "rt_test_version:", alias = "rt_test_version", default)]
    version: String,
    #[serde(default)]
    start_time: String,
    #[serde(default)]
    end_time: String,
    #[serde(default)]
    sysinfo: BTreeMap<String, serde_json::Value>,
    #[serde(default)]
    resolution_in_ns: u64,
    thread: BTreeMap<u32, T>,
}

#[derive(Deserialize)]
struct CyclictestThread {
    histogram: BTreeMap<u64, u64>,
    cycles: u64,
    min: u64,
    max: u64,
    avg: f64,
    cpu: Option<u32>,
}

#[derive(Deserialize)]
struct OslatThread {
    histogram: BTreeMap<u64, u64>,
    min: u64,
    max: u64,
    avg: f64,
    cpu: Option<u32>,
    #[serde(default)]
    duration: f64,
}

/// The command line of an rt-tests program.
struct CommandLine {
    words: Vec<String>,
}

impl CommandLine {
    /// The number of an option in any of its spellings: `-i 1000`, `-i1000`, `--interval=1000`.
    fn number(&self, short: &[&str], long: &[&str]) -> Option<u64> {
        for (i, word) in self.words.iter().enumerate() {
            let next = || self.words.get(i + 1)?.parse().ok();
            if short.contains(&word.as_str()) || long.contains(&word.as_str()) {
                return next();
            }

            let glued = short.iter().find_map(|name| word.strip_prefix(name)).or_else(|| {
                long.iter().find_map(|name| word.strip_prefix(name)?.strip_prefix('='))
            });
            if let Some(number) = glued.and_then(|text| text.parse().ok()) {
                return Some(number);
            }
        }
        None
    }

    fn has(&self, short: char, long: &str) -> bool {
        self.words.iter().skip(1).any(|word| {
            let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
            word == long || letters.is_some_and(|letters| letters.contains(short))
        })
    }
}

impl<T> RtTestsJson<T> {
    fn parse<'t>(text: &'t str, format: Format) -> Result<Self, Error>
    where
        T: Deserialize<'t>,
    {
        serde_json::from_str(text)
            .map_err(|why| Error::line(format, why.line().max(1), why.to_string()))
    }

    fn options(&self) -> CommandLine {
        CommandLine { words: self.cmdline.split_whitespace().map(str::to_owned).collect() }
    }

    /// A stream with what all threads share.
    fn stream(&self, thread: u32, cpu: Option<u32>) -> Stream {
        let label = match (self.thread.len(), cpu) {
            (1, _) => String::new(),
            (_, Some(cpu)) => format!("thread {thread} (CPU {cpu})"),
            (_, None) => format!("thread {thread}"),
        };
        Stream {
            label,
            command: self.options().words,
            host: self.host(),
            started_unix_s: date::unix_s(&self.start_time).unwrap_or(0.0),
            ..Stream::default()
        }
    }

    fn host(&self) -> Host {
        let text =
            |key: &str| self.sysinfo.get(key).and_then(|value| value.as_str()).map(str::to_owned);
        let real_time = self.sysinfo.get("realtime").and_then(serde_json::Value::as_u64) == Some(1);
        Host::from_facts([
            ("kernel", text("release")),
            ("kernel build", text("version")),
            ("architecture", text("machine")),
            ("preemption", real_time.then(|| "PREEMPT_RT".to_owned())),
            (
                "measured with",
                (!self.version.is_empty()).then(|| format!("rt-tests {}", self.version)),
            ),
        ])
    }

    fn elapsed_s(&self) -> f64 {
        let times = date::unix_s(&self.start_time).zip(date::unix_s(&self.end_time));
        times.map_or(0.0, |(start, end)| (end - start).max(0.0))
    }
}

/// The line that a thread's histogram stands on.
fn line_of(text: &str, thread: u32) -> usize {
    let name = format!("\"{thread}\": {{");
    let threads = text.find("\"thread\"").unwrap_or(0);
    let at = text[threads..].find(&name).map_or(threads, |at| threads + at);
    text[..at].matches('\n').count() + 1
}

/// One stream per thread of cyclictest.
///
/// # Errors
/// [`Error`].
pub fn cyclictest(text: &str, _asked: &SourceOptions) -> Result<Vec<Stream>, Error> {
    let format = Format::CyclictestJson;
    let file: RtTestsJson<CyclictestThread> = RtTestsJson::parse(text, format)?;
    let step_ns = if file.resolution_in_ns == 1 { 1 } else { 1_000 };
    let options = file.options();
    let mut streams = Vec::new();
    for (&number, thread) in &file.thread {
        let counted = thread.histogram.values().try_fold(0_u64, |all, n| all.checked_add(*n));
        let counted = counted.filter(|n| *n <= thread.cycles).ok_or_else(|| {
            let reason = format!(
                "thread {number}: its histogram holds more samples than its {} cycles",
                thread.cycles
            );
            Error::line(format, line_of(text, number), reason)
        })?;

        if thread.histogram.is_empty() {
            let advice = "run cyclictest with --json and -h, such as -h 1000";
            return Err(Error::NoHistogram { format, lines: text.lines().count(), advice });
        }

        let mut stream = file.stream(number, thread.cpu);
        let last = thread.histogram.keys().last().copied().unwrap_or(0);
        let end = options
            .number(&["-h", "-H"], &["--histogram", "--histofall"])
            .unwrap_or(0)
            .max(last.saturating_add(1));
        let beyond = Overflow { end, max: thread.max, count: thread.cycles - counted };
        let resolution = Resolution { beyond: beyond.at(step_ns), ..Resolution::even(step_ns) };
        let mut part = StreamPart::untimed(Series::WakeupLatency, file.elapsed_s());
        for (&bucket, &n) in &thread.histogram {
            part.count(&resolution, bucket.saturating_mul(step_ns), n);
        }

        if let Some(beyond) = resolution.beyond {
            part.count(&resolution, beyond.from_ns, beyond.count);
        }

        let unit = step_ns as f64;
        let stated = SourceFigures {
            min_ns: thread.min.saturating_mul(step_ns),
            max_ns: thread.max.saturating_mul(step_ns),
            mean_ns: thread.avg * unit,
        };

        part.moments = Some(part.moments_around(&resolution, stated));
        stream.period_ns = period_ns(&options, number);
        stream.missing = missing(&resolution, true);
        stream.resolution.insert(part.series, resolution);
        stream.parts.push(part);
        streams.push(stream);
    }

    Ok(streams)
}

/// Samples beyond the last bucket, in buckets of the tool.
pub(super) struct Overflow {
    /// The first bucket that there is not.
    pub(super) end: u64,
    pub(super) max: u64,
    pub(super) count: u64,
}

impl Overflow {
    pub(super) fn at(&self, step_ns: u64) -> Option<Beyond> {
        let from_ns = self.end.saturating_mul(step_ns);
        let to_ns = self.max.saturating_mul(step_ns).saturating_add(step_ns - 1).max(from_ns);
        (self.count > 0).then_some(Beyond { from_ns, to_ns, count: self.count })
    }
}

/// Threads have intervals further and further apart (`-d`, 500 µs), unless a histogram or `-S`
/// makes them equal.
fn period_ns(options: &CommandLine, thread: u32) -> Option<u64> {
    let interval_us = options.number(&["-i"], &["--interval"]).unwrap_or(1_000);
    let equal = options.number(&["-h", "-H"], &["--histogram", "--histofall"]).is_some()
        || options.has('S', "--smp");
    let apart_us = if equal { 0 } else { options.number(&["-d"], &["--distance"]).unwrap_or(500) };
    interval_us.checked_add(apart_us.checked_mul(u64::from(thread))?)?.checked_mul(1_000)
}

/// What cyclictest's histograms do not record.
pub(super) fn missing(resolution: &Resolution, has_maximum: bool) -> Vec<String> {
    let mut missing = vec![
        "order and times of the samples: no figures over time and no intervals".to_owned(),
        "skipped releases: cyclictest does not count them, so their slots are in no figure"
            .to_owned(),
        "standard deviation: computed from the histogram's buckets".to_owned(),
    ];
    if resolution.beyond.is_some() {
        missing.push(
            "the size of each sample beyond the histogram: percentiles that fall there are given as the maximum"
                .to_owned(),
        );
    }

    if !has_maximum {
        missing.push(
            "the maximum, and how many samples lie beyond the histogram: the summary lines are missing".to_owned(),
        );
    }

    missing
}

/// One stream per thread of oslat.
///
/// # Errors
/// [`Error`].
pub fn oslat(text: &str) -> Result<Vec<Stream>, Error> {
    const STEP_NS: u64 = 1_000;
    let format = Format::OslatJson;
    let file: RtTestsJson<OslatThread> = RtTestsJson::parse(text, format)?;
    let mut streams = Vec::new();
    for (&number, thread) in &file.thread {
        let Some((&last, &in_last)) = thread.histogram.last_key_value() else {
            let advice = "oslat writes one with --json, unless it was stopped before it began";
            return Err(Error::NoHistogram { format, lines: text.lines().count(), advice });
        };
        if thread.histogram.contains_key(&0) || last > u64::from(u32::MAX) {
            let reason = format!(
                "thread {number}: oslat's buckets count from 1 in microseconds, and one is 0 or {last}"
            );
            return Err(Error::line(format, line_of(text, number), reason));
        }

        let mut stream = file.stream(number, thread.cpu);
        let overflow =
            Overflow { end: last - 1, max: thread.max.saturating_sub(1), count: in_last };
        let beyond = if thread.max > last { overflow.at(STEP_NS) } else { None };
        let resolution = Resolution { beyond, ..Resolution::even(STEP_NS) };
        let mut part = StreamPart::untimed(Series::Gap, thread.duration.clamp(0.0, 1e9));
        for (&bucket, &n) in &thread.histogram {
            part.count(&resolution, (bucket - 1) * STEP_NS, n);
        }

        let stated = SourceFigures {
            min_ns: thread.min.saturating_sub(1).saturating_mul(STEP_NS),
            max_ns: thread.max.saturating_mul(STEP_NS),
            // Each gap is counted rounded up to its microsecond, and so is the mean: half of one
            // too much, on average.
            mean_ns: (thread.avg - 0.5).max(0.0) * STEP_NS as f64,
        };

        part.moments = Some(part.moments_around(&resolution, stated));
        stream.missing = vec![
            "order and times of the gaps: no figures over time and no intervals".to_owned(),
            "gaps to the nanosecond: oslat rounds each up to a microsecond; mean and standard deviation are estimates"
                .to_owned(),
        ];
        if beyond.is_some() {
            stream.missing.push(format!(
                "gaps beyond {} us: oslat counts them in its last bucket; percentiles that fall \
                 there are given as the maximum",
                last - 1
            ));
        }

        stream.resolution.insert(part.series, resolution);
        stream.parts.push(part);
        streams.push(stream);
    }

    Ok(streams)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found_in_all_their_spellings() {
        let options =
            |line: &str| CommandLine { words: line.split(' ').map(str::to_owned).collect() };
        let interval = |line: &str| options(line).number(&["-i"], &["--interval"]);
        assert_eq!(
            ["c -i 200", "c -i200", "c --interval=200", "c --interval 200"].map(interval),
            [Some(200); 4]
        );
        assert_eq!(interval("c -D 2"), None);
        assert!(options("c -mSp90").has('S', "--smp") && !options("c --Smart").has('S', "--smp"));
    }

    #[test]
    fn threads_have_intervals_further_and_further_apart_unless_an_option_makes_them_equal() {
        let of = |line: &str| {
            period_ns(&CommandLine { words: line.split(' ').map(str::to_owned).collect() }, 2)
        };
        assert_eq!(of("cyclictest -i 1000"), Some(2_000_000));
        assert_eq!(of("cyclictest -i 1000 -d 0"), Some(1_000_000));
        assert_eq!(of("cyclictest -S -i 500"), Some(500_000));
        assert_eq!(of("cyclictest -h 100"), Some(1_000_000));
    }
}
