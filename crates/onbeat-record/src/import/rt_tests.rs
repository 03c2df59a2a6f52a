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
use super::oslat::{MISSING, beyond_in_words, gaps};
use super::rt_text;
use super::stated::{self, Stated};
use super::stream::{Stream, StreamPart};
use crate::{Beyond, Resolution, Series};
use onbeat_host::machine::Host;

#[derive(Deserialize)]
struct RtTestsJson<T> {
    // rt-tests before 2.3 wrote the colon into the key.
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
    #[serde(default)]
    histogram: BTreeMap<u64, u64>,
    cycles: u64,
    min: i64,
    max: i64,
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
pub(super) struct CommandLine {
    words: Vec<String>,
}

impl CommandLine {
    pub(super) const fn new(words: Vec<String>) -> Self {
        Self { words }
    }

    /// The number of an option in any of its spellings: `-i 1000`, `-i1000`, `-mi1000`,
    /// `--interval=1000`.
    pub(super) fn number(&self, short: char, long: &str) -> Option<u64> {
        let words = self.words.get(1..).unwrap_or_default();
        for (word, i) in words.iter().zip(1..) {
            let next = || words.get(i)?.parse().ok();
            if word == long {
                return next();
            }
            if let Some(number) = word.strip_prefix(long).and_then(|rest| rest.strip_prefix('=')) {
                return number.parse().ok();
            }

            // Short options are joined as getopt allows: `-Sp90` is -S and -p 90.
            let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
            let Some(letters) = letters else { continue };
            // A digit begins the argument of another option.
            let flags = letters.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(letters.len());
            if let Some(place) = letters[..flags].find(short) {
                let glued = &letters[place + 1..];
                return if glued.is_empty() { next() } else { glued.parse().ok() };
            }
        }
        None
    }

    pub(super) fn has(&self, short: char, long: &str) -> bool {
        self.words.iter().skip(1).any(|word| {
            let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
            word == long || letters.is_some_and(|letters| letters.contains(short))
        })
    }

    /// The scheduling policy by name: `--policy=rr`.
    fn policy(&self) -> Option<&str> {
        let place = self.words.iter().position(|word| word.starts_with("--policy"))?;
        match self.words[place].strip_prefix("--policy")? {
            "" => self.words.get(place + 1).map(String::as_str),
            rest => rest.strip_prefix('='),
        }
    }
}

impl<T> RtTestsJson<T> {
    fn parse<'t>(text: &'t str, format: Format) -> Result<Self, Error>
    where
        T: Deserialize<'t>,
    {
        serde_json::from_str(text).map_err(|why| {
            let (line, reason) = (why.line().max(1), why.to_string());
            let begins = text.lines().nth(line - 1).unwrap_or_default().trim_start();
            if reason.starts_with("trailing characters") && begins.starts_with('{') {
                return Error::second_run(format, line);
            }
            Error::line(format, line, reason)
        })
    }

    fn options(&self) -> CommandLine {
        CommandLine::new(self.cmdline.split_whitespace().map(str::to_owned).collect())
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
        // /sys/kernel/realtime, which only PREEMPT_RT kernels have.
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
pub fn cyclictest(text: &str) -> Result<Vec<Stream>, Error> {
    let format = Format::CyclictestJson;
    // Of a thread without a cycle the average is 0 / 0.
    let text = &text.replace(": -nan,", ": 0,").replace(": nan,", ": 0,");
    let file: RtTestsJson<CyclictestThread> = RtTestsJson::parse(text, format)?;
    // `-N` counts in nanoseconds; the file states it, the text output does not.
    let step_ns = if file.resolution_in_ns == 1 { 1 } else { 1_000 };
    let options = file.options();
    let mut streams = Vec::new();
    let idle = file.thread.iter().filter(|(_, of)| of.cycles == 0).map(|(number, _)| *number);
    let idle: Vec<u32> = idle.collect();
    for (&number, thread) in file.thread.iter().filter(|(number, _)| !idle.contains(number)) {
        let line = |reason: String| Error::line(format, line_of(text, number), reason);
        let figures = [thread.min as f64, thread.avg, thread.max as f64];
        let stated = Stated::in_units(Some(thread.cycles), figures, step_ns as f64);
        let stated = stated.ok_or_else(|| {
            line(format!("thread {number}: minimum {}, maximum {}", thread.min, thread.max))
        })?;
        let mut stream = file.stream(number, thread.cpu);
        stream.period_ns = period_ns(&options, number);
        let priority =
            (!file.cmdline.is_empty()).then(|| priority(&options, number, file.thread.len()));
        rt_text::describe_scheduling(&mut stream, options.policy(), priority);
        // Without `-h` there are figures and no distribution: they are kept as such, and no
        // percentile is made up from them.
        if thread.histogram.is_empty() {
            stated.put_into(&mut stream, Series::WakeupLatency, step_ns);
            stream.lacks(NO_SKIPPED);
        } else {
            // The end that was asked for, and not the last bucket that was filled: samples beyond
            // lie beyond the whole histogram.
            let end = histogram_end(&options).unwrap_or(0);
            // cyclictest counts what is beyond its histogram in the cycles alone. More samples than
            // cycles is a file that somebody edited.
            let counted = counted(&thread.histogram, end, stated, step_ns).ok_or_else(|| {
                line(format!("a histogram with more samples than its {} cycles", thread.cycles))
            })?;
            let (resolution, mut part) = counted;
            part.length = file.elapsed_s();
            stream.missing = missing(&resolution, true);
            stated.put_early(&mut stream, part.series);
            stream.put(part, resolution);
        }

        stream.remarks.extend(idle.iter().map(|number| format!("thread {number} had no cycle")));
        streams.push(stream);
    }

    if streams.is_empty() {
        let advice = "it states no cycles: cyclictest was stopped before its first one";
        return Err(Error::NoHistogram { format, lines: text.lines().count(), advice });
    }

    Ok(streams)
}

/// Priority of a thread of cyclictest: where a real-time policy or `--priospread` comes without
/// one, it takes one more than its threads; `--priospread` gives each next thread one less.
fn priority(options: &CommandLine, thread: u32, threads: usize) -> u64 {
    let is_spread = options.words.iter().any(|word| word == "--priospread");
    let is_real_time = |policy: &str| ["fifo", "rr"].contains(&policy);
    let is_asked = is_spread || options.policy().is_some_and(is_real_time);
    let first = match options.number('p', "--priority").unwrap_or(0) {
        0 if is_asked => threads as u64 + 1,
        stated => stated,
    };
    if is_spread { first.saturating_sub(u64::from(thread)) } else { first }
}

/// What cyclictest counts in no form.
pub(super) const NO_SKIPPED: &str =
    "skipped releases: cyclictest does not count them, so their slots are in no figure";

/// Where cyclictest's histogram was asked to end, in units; `None` where none was asked for.
fn histogram_end(options: &CommandLine) -> Option<u64> {
    options.number('h', "--histogram").or_else(|| options.number('H', "--histofall"))
}

/// A histogram in units, of a tool that counts what is beyond the `end` in the number of all
/// samples alone; `None` where it has more samples than these.
pub(super) fn counted(
    histogram: &BTreeMap<u64, u64>,
    end: u64,
    stated: Stated,
    step_ns: u64,
) -> Option<(Resolution, StreamPart)> {
    let counted = histogram.values().try_fold(0_u64, |all, n| all.checked_add(*n))?;
    let last = histogram.keys().last().copied().unwrap_or(0);
    let overflow = Overflow {
        end: end.max(last.saturating_add(1)),
        // Negative where the only sample was an early wake-up.
        max: stated.max_ns.max(0).unsigned_abs() / step_ns,
        count: stated.n?.checked_sub(counted)?,
    };
    let resolution = Resolution { beyond: overflow.at(step_ns), ..Resolution::even(step_ns) };
    let cells = histogram.iter().map(|(bucket, n)| (bucket.saturating_mul(step_ns), *n));
    let mut part = StreamPart::of_cells(Series::WakeupLatency, &resolution, cells);
    part.moments = Some(stated::moments(&part, &resolution, stated));
    Some((resolution, part))
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

/// Threads have intervals further and further apart (`-d`, 500 µs), unless a histogram makes them
/// equal.
fn period_ns(options: &CommandLine, thread: u32) -> Option<u64> {
    let interval_us = options.number('i', "--interval").unwrap_or(1_000);
    // With a histogram, cyclictest gives all threads the same interval; otherwise each next one is
    // longer by --distance, with -S as well.
    let apart_us = match histogram_end(options) {
        Some(_) => 0,
        None => options.number('d', "--distance").unwrap_or(500),
    };
    interval_us.checked_add(apart_us.checked_mul(u64::from(thread))?)?.checked_mul(1_000)
}

/// What no histogram records of the samples beyond its end.
pub(super) const BEYOND: &str = "the size of each sample beyond the histogram: percentiles that fall there are given as the maximum";

/// What a histogram lacks that is cut off before its summary.
pub(super) const NO_SUMMARY: &str = "the maximum, and how many samples lie beyond the histogram: the summary lines are missing; 1 lost sample represents them";

/// What cyclictest's histograms do not record.
pub(super) fn missing(resolution: &Resolution, has_maximum: bool) -> Vec<String> {
    let mut missing = vec![
        "order and times of the samples: no figures over time and no intervals".to_owned(),
        NO_SKIPPED.to_owned(),
        "standard deviation: computed from the histogram's buckets".to_owned(),
    ];
    if resolution.beyond.is_some() {
        missing.push(BEYOND.to_owned());
    }

    if !has_maximum {
        missing.push(NO_SUMMARY.to_owned());
    }

    missing
}

/// What the other programs of rt-tests state of a thread, or of a pair of threads.
#[derive(Deserialize)]
#[serde(untagged)]
enum OtherThread {
    Pair { sender: Sender, receiver: Receiver },
    Single(Single),
}

#[derive(Deserialize)]
struct Sender {
    priority: Option<u64>,
    samples: u64,
    interval: Option<u64>,
}

#[derive(Deserialize)]
struct Receiver {
    min: f64,
    avg: f64,
    max: f64,
    cpu: Option<u32>,
    priority: Option<u64>,
    timeoutcount: Option<u64>,
}

#[derive(Deserialize)]
struct Single {
    cycles: u64,
    min: f64,
    avg: f64,
    max: f64,
    cpu: Option<u32>,
}

/// One stream per thread or pair of threads of signaltest, ptsematest, pmqtest, svsematest,
/// sigwaittest or cyclicdeadline.
///
/// # Errors
/// [`Error`].
pub fn others(text: &str, asked: &SourceOptions) -> Result<Vec<Stream>, Error> {
    const STEP_NS: u64 = 1_000;
    let format = Format::RtTestsJson;
    let file: RtTestsJson<OtherThread> = RtTestsJson::parse(text, format)?;
    let options = file.options();
    // The name decides what the figures mean: pi_stress's and ptsematest's files look alike.
    let tool = options.words.first().map_or("", |word| word.rsplit('/').next().unwrap_or(""));
    let step_ns = if file.resolution_in_ns == 1 { 1 } else { STEP_NS };
    let mut streams = Vec::new();
    for (&number, thread) in &file.thread {
        let (count, figures, cpu) = match thread {
            OtherThread::Pair { sender, receiver } => {
                (sender.samples, [receiver.min, receiver.avg, receiver.max], receiver.cpu)
            }
            OtherThread::Single(of) => (of.cycles, [of.min, of.avg, of.max], of.cpu),
        };
        let mut stream = file.stream(number, cpu);
        if count > 0 {
            let stated = Stated::in_units(Some(count), figures, step_ns as f64);
            let stated = stated.ok_or_else(|| {
                let [min, _, max] = figures;
                let reason = format!("thread {number}: minimum {min}, maximum {max}");
                Error::line(format, line_of(text, number), reason)
            })?;
            let series = asked.series.unwrap_or_else(|| rt_text::series_of(tool));
            stated.put_into(&mut stream, series, step_ns);
        }

        stream.remarks.extend(rt_text::meaning(tool));
        thread.describe(&mut stream, &options, tool);
        streams.push(stream);
    }

    streams.retain(|stream| !stream.parts.is_empty());
    if streams.is_empty() {
        let reason = "it states no samples: the program was stopped before its first one";
        return Err(Error::nothing(format, reason));
    }

    Ok(streams)
}

impl OtherThread {
    /// Interval, priority and timeouts.
    fn describe(&self, stream: &mut Stream, options: &CommandLine, tool: &str) {
        match self {
            Self::Pair { sender, receiver } => {
                stream.period_ns = sender.interval.and_then(|us| us.checked_mul(1_000));
                // Both ends have to run for a sample.
                let priority = sender.priority.into_iter().chain(receiver.priority).min();
                rt_text::describe_scheduling(stream, None, priority);
                if let Some(timeouts @ 1..) = receiver.timeoutcount {
                    stream.remarks.push(format!("{timeouts} receptions timed out"));
                }
            }
            Self::Single(_) if tool == "cyclicdeadline" => {
                let interval_us = options.number('i', "--interval").unwrap_or(1_000);
                stream.period_ns = interval_us.checked_mul(1_000);
                rt_text::describe_scheduling(stream, Some("deadline"), None);
            }
            Self::Single(_) => {
                let priority = options.number('p', "--prio").unwrap_or(0);
                rt_text::describe_scheduling(stream, None, Some(priority));
            }
        }
    }
}

/// One stream per thread of oslat.
///
/// # Errors
/// [`Error`].
pub fn oslat(text: &str) -> Result<Vec<Stream>, Error> {
    let format = Format::OslatJson;
    let file: RtTestsJson<OslatThread> = RtTestsJson::parse(text, format)?;
    let mut streams = Vec::new();
    for (&number, thread) in &file.thread {
        let Some((&last, _)) = thread.histogram.last_key_value() else {
            let advice = "oslat writes one with --json, unless it was stopped before it began";
            return Err(Error::NoHistogram { format, lines: text.lines().count(), advice });
        };
        if thread.histogram.contains_key(&0) || last > u64::from(u32::MAX) {
            let reason = format!(
                "thread {number}: oslat's buckets count from 1 in microseconds, and one is 0 or {last}"
            );
            return Err(Error::line(format, line_of(text, number), reason));
        }

        let buckets: Vec<(u64, u64)> = thread.histogram.iter().map(|(us, n)| (*us, *n)).collect();
        let figures = (Some(thread.min), Some(thread.avg), Some(thread.max));
        let (resolution, part) = gaps(&buckets, figures, thread.duration);
        let mut stream = file.stream(number, thread.cpu);
        stream.missing.extend(MISSING.map(str::to_owned));
        stream.missing.extend(beyond_in_words(&resolution, &buckets));
        stream.put(part, resolution);
        streams.push(stream);
    }

    Ok(streams)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found_in_all_their_spellings() {
        let options = |line: &str| CommandLine::new(line.split(' ').map(str::to_owned).collect());
        let interval = |line: &str| options(line).number('i', "--interval");
        assert_eq!(
            ["c -i 200", "c -i200", "c -mi200", "c --interval=200", "c --interval 200"]
                .map(interval),
            [Some(200); 5]
        );
        assert_eq!(options("c -m -Sp90").number('p', "--priority"), Some(90));
        assert_eq!(options("c --policy=rr").policy(), Some("rr"));
        assert_eq!(interval("c -D 2"), None);
        assert!(options("c -mSp90").has('S', "--smp") && !options("c --Smart").has('S', "--smp"));
    }

    #[test]
    fn a_missing_priority_is_zero_unless_a_policy_asks_for_one() {
        let of = |line: &str| {
            priority(&CommandLine::new(line.split(' ').map(str::to_owned).collect()), 1, 4)
        };
        assert_eq!(of("cyclictest -i 1000"), 0);
        assert_eq!(of("cyclictest -p 80 --policy=rr"), 80);
        assert_eq!(of("cyclictest --policy=fifo"), 5);
        assert_eq!(of("cyclictest --priospread"), 4);
        assert_eq!(of("cyclictest --policy=other"), 0);
    }

    #[test]
    fn threads_have_intervals_further_and_further_apart_unless_an_option_makes_them_equal() {
        let of = |line: &str| {
            period_ns(&CommandLine::new(line.split(' ').map(str::to_owned).collect()), 2)
        };
        assert_eq!(of("cyclictest -i 1000"), Some(2_000_000));
        assert_eq!(of("cyclictest -i 1000 -d 0"), Some(1_000_000));
        assert_eq!(of("cyclictest -S -i 500"), Some(1_500_000));
        assert_eq!(of("cyclictest -h 100"), Some(1_000_000));
    }
}
