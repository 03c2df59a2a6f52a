//! Text of cyclictest as people keep it: histograms (`-h`, `-H`, `--histfile`), every sample
//! (`-v`), status lines (`-q` or a terminal's), with a prompt and other output around them.
//!
//! Of a text with several of them the most detailed one is imported: samples, then histograms, then
//! status lines, which state count, minimum, average and maximum only.
//!
//! A histogram has rows of a latency and its count per thread; with `-H` a last column adds the
//! threads up. Lines with `#` follow: totals, extremes, and how many samples lie beyond the last
//! row. The text does not state its unit.

use std::collections::BTreeMap;
use std::io::{BufRead, Seek};

use super::error::{Error, counted};
use super::format::{Format, SourceOptions};
use super::lines::{Damage, Line, PassedOver, begins_with, each_line};
use super::rt_tests::{CommandLine, NO_SKIPPED, Overflow, missing};
use super::rt_text::{self, MOST_THREADS, StatusLine};
use super::samples::{Extent, Sample, SampleCounter, count_each};
use super::stream::{SourceFigures, Stream, StreamPart};
use crate::{Resolution, Series};

const FORMAT: Format = Format::Cyclictest;
/// Widths that cyclictest pads figures to: shorter ones at the end of a file are cut off.
const SAMPLE_WIDTH: usize = 8;
const ROW_WIDTH: usize = 6;

/// Whether a line is a status line: `T: 0 (23589) P:80 I:1000 C: 1980 Min: 16 ...`.
#[must_use]
pub fn is_status_line(line: &str) -> bool {
    StatusLine::parse(line)
        // `T: 0 ( 1234) P:80 I:1000 C: ...`. Other tools print lines that begin alike; priority and
        // interval together are cyclictest's.
        .is_some_and(|status| status.priority.is_some() && status.interval_us.is_some())
}

/// Whether a line is one of `-v`.
#[must_use]
pub fn is_sample_line(line: &str) -> bool {
    VerboseLine::parse(line).is_some()
}

/// A sample of `-v`: thread, number of its cycle, latency.
struct VerboseLine {
    thread: u32,
    cycle: u64,
    latency: i64,
    /// Characters of the latency with its padding.
    width: usize,
}

impl VerboseLine {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.trim_end().split(':');
        let (thread, cycle, latency) = (fields.next()?, fields.next()?, fields.next()?);
        // A clock's hours, minutes and seconds are not padded by blanks.
        let is_padded = cycle.starts_with(' ') || latency.starts_with(' ');
        // `--smi` adds a column.
        let mut words = latency.split_whitespace();
        let (value, smis) = (words.next()?, words.next().unwrap_or("0"));
        let is_whole = smis.parse::<u64>().is_ok() && words.next().is_none();
        if fields.next().is_some() || !is_padded || !is_whole {
            return None;
        }

        Some(Self {
            thread: thread.trim().parse().ok().filter(|thread| *thread < MOST_THREADS)?,
            cycle: cycle.trim().parse().ok()?,
            latency: value.parse().ok()?,
            width: latency.len(),
        })
    }
}

/// Samples of one thread, in the first pass.
#[derive(Default)]
struct VerboseThread {
    samples: u64,
    first: u64,
    /// Number of the cycle after the last one.
    next: Option<u64>,
    /// Cycles between the first and the last one that are not in the text.
    absent: u64,
}

/// The parsed text.
#[derive(Default)]
struct CyclictestText {
    /// Latency in units and counts per column, with the line.
    rows: Vec<(usize, u64, Vec<u64>)>,
    /// Whether lines between the heading and the totals are being read.
    is_in_histogram: bool,
    totals: Vec<u64>,
    minima: Vec<u64>,
    averages: Vec<u64>,
    maxima: Vec<u64>,
    overflows: Vec<u64>,
    smis: Vec<u64>,
    /// Threads that the list of overflows names.
    threads: usize,
    status: BTreeMap<u32, StatusLine>,
    samples: BTreeMap<u32, VerboseThread>,
    policy: Option<String>,
    command: Vec<String>,
    /// The latency at which `-b` ended the run, in units.
    break_value: Option<u64>,
    passed_over: PassedOver,
    damage: Damage,
}

/// One stream per thread.
///
/// # Errors
/// [`Error`].
pub fn read(file: &mut (impl BufRead + Seek), asked: &SourceOptions) -> Result<Vec<Stream>, Error> {
    let mut text = CyclictestText::default();
    let lines = each_line(file, |line| text.line(line))?;
    let step_ns = text.step_ns(asked)?;
    let streams = if !text.samples.is_empty() {
        // The first pass has learnt which threads there are and how they count; samples are read in
        // a second one, so that memory holds values and not lines.
        text.samples(file, step_ns, asked.period_ns)?
    } else if let Some((_, _, first)) = text.rows.first() {
        let threads = text.threads_of(first.len());
        let streams = (0..threads).zip(0..).map(|(place, thread)| {
            text.histogram(place, threads, step_ns).map(|stream| (thread, stream))
        });
        streams.collect::<Result<Vec<(u32, Stream)>, Error>>()?
    } else {
        text.figures(step_ns)
    };

    if streams.is_empty() {
        let advice = "run cyclictest to its end with -q, with -h such as -h 1000, or with --json";
        return Err(Error::NoHistogram { format: FORMAT, lines, advice });
    }

    let is_unit_known = asked.unit_ns.is_some() || step_ns == 1;
    let described = |(thread, mut stream): (u32, Stream)| {
        text.describe(&mut stream, thread, is_unit_known);
        stream
    };
    Ok(streams.into_iter().map(described).collect())
}

impl CyclictestText {
    fn step_ns(&self, asked: &SourceOptions) -> Result<u64, Error> {
        let is_in_ns = self.options().has('N', "--nsecs")
            || self.status.values().any(|status| status.is_padded_to_ns);
        let by_text = if is_in_ns { 1.0 } else { 1_000.0 };
        let line = self.rows.first().map_or(1, |(line, _, _)| *line);
        asked.whole_unit_ns(by_text, (FORMAT, line))
    }

    fn options(&self) -> CommandLine {
        CommandLine::new(self.command.clone())
    }

    fn line(&mut self, line: &Line<'_>) -> Result<(), Error> {
        let text = line.text.trim();
        if let Some(sample) = VerboseLine::parse(line.text) {
            if line.has_end || sample.width >= SAMPLE_WIDTH {
                self.sample(&sample, line.number)?;
            } else {
                self.damage.cut(line.number, format!("`{text}`"));
            }
        } else if let Some(status) = StatusLine::parse(text) {
            self.status(status, line)?;
        } else if let Some(stated) = text.strip_prefix('#').map(str::trim) {
            if stated == "Histogram" {
                self.is_in_histogram = true;
            } else if line.has_end {
                self.summary(stated, line.number)?;
            }
        } else if self.is_in_histogram || is_row(text) {
            self.row(line)?;
        } else if !self.is_known(text) {
            self.passed_over.count(line);
        }

        Ok(())
    }

    /// Other lines that cyclictest writes, and the command that was typed.
    fn is_known(&mut self, text: &str) -> bool {
        if let Some(policy) = text.strip_prefix("policy: ") {
            self.policy = policy.split(':').next().map(str::to_owned);
            return true;
        }

        if self.command.is_empty() && text.contains("cyclictest -") {
            let typed = text.split_once("cyclictest ").map_or("", |(_, options)| options);
            let words = typed.split_whitespace().take_while(|word| !is_of_shell(word));
            self.command = std::iter::once("cyclictest").chain(words).map(str::to_owned).collect();
            return true;
        }

        // The interval that -v prints is that of the thread after this one.
        let is_of_thread = text.starts_with("Thread ")
            && (text.contains(" Interval:") || text.contains(" using cpu "));
        let others = ["Max CPUs = ", "Online CPUs = ", "INFO: ", "WARN: ", "spikes = "];
        is_of_thread
            || begins_with(text, &others)
            || (text.starts_with("T:") && text.contains(" Spike:"))
            || (text.starts_with("Using ") && text.ends_with(" cpus."))
    }

    fn sample(&mut self, sample: &VerboseLine, line: usize) -> Result<(), Error> {
        let thread = self.samples.entry(sample.thread).or_default();
        if thread.next.is_some() && sample.cycle <= thread.first {
            return Err(Error::second_run(FORMAT, line));
        }

        thread.samples += 1;
        match thread.next {
            Some(next) => {
                thread.absent = thread.absent.saturating_add(sample.cycle.saturating_sub(next));
            }
            None => thread.first = sample.cycle,
        }

        thread.next = Some(sample.cycle.saturating_add(1));
        Ok(())
    }

    /// The last status line of a thread counts: before it are those of a terminal.
    fn status(&mut self, status: StatusLine, line: &Line<'_>) -> Result<(), Error> {
        if !line.has_end && status.last_width < SAMPLE_WIDTH {
            self.damage.cut(line.number, format!("`{}`", line.text.trim()));
        } else if status.thread < MOST_THREADS {
            status.put_into(&mut self.status, (FORMAT, line.number))?;
        }

        Ok(())
    }

    fn summary(&mut self, stated: &str, number: usize) -> Result<(), Error> {
        let Some((name, rest)) = stated.split_once(':') else { return Ok(()) };
        // `Thread Ids`, which `-b` prints, is not one of them.
        if name.strip_prefix("Thread ").is_some_and(|number| number.parse::<u32>().is_ok()) {
            self.threads += 1;
        }
        if name == "Break value" {
            self.break_value = rest.trim().parse().ok();
        }

        let list = match name {
            "Total" => &mut self.totals,
            "Min Latencies" => &mut self.minima,
            "Avg Latencies" => &mut self.averages,
            "Max Latencies" => &mut self.maxima,
            "Histogram Overflows" => &mut self.overflows,
            "SMIs" => &mut self.smis,
            _ => return Ok(()),
        };

        *list = numbers(rest.split_whitespace(), number)?;
        self.is_in_histogram = false;
        Ok(())
    }

    fn row(&mut self, line: &Line<'_>) -> Result<(), Error> {
        let text = line.text.trim();
        let is_whole =
            line.has_end || text.split_whitespace().last().is_some_and(|n| n.len() >= ROW_WIDTH);
        if !is_whole {
            self.damage.cut(line.number, format!("`{text}`"));
            return Ok(());
        }

        let numbers = numbers(text.split_whitespace(), line.number)?;
        let [latency, counts @ ..] = numbers.as_slice() else { return Ok(()) };
        if let Some((_, previous, columns)) = self.rows.last() {
            if previous >= latency {
                return Err(Error::line(
                    FORMAT,
                    line.number,
                    format!("the row {latency} comes after the row {previous}"),
                ));
            }
            if columns.len() != counts.len() {
                let reason = format!(
                    "{} columns of counts where the row before has {}",
                    counts.len(),
                    columns.len()
                );
                return Err(Error::line(FORMAT, line.number, reason));
            }
        }

        if counts.is_empty() {
            return Err(Error::line(FORMAT, line.number, "a row without a count"));
        }

        self.rows.push((line.number, *latency, counts.to_vec()));
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

    fn histogram(&self, thread: usize, threads: usize, step_ns: u64) -> Result<Stream, Error> {
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
        let (min, max) = (figure(&self.minima), figure(&self.maxima));
        // Status lines of the histogram's own run are within its extremes.
        let status = u32::try_from(thread).ok().and_then(|thread| self.status.get(&thread));
        let is_of_another_run = |status: &StatusLine| {
            let [lowest, _, highest] = status.figures;
            status.cycles > 0
                && (max.is_some_and(|max| highest > max as f64)
                    || min.is_some_and(|min| lowest < min as f64))
        };
        if status.is_some_and(is_of_another_run) {
            return Err(Error::second_run(FORMAT, last_line));
        }
        let overflow = Overflow {
            end: last.saturating_add(1),
            max: max.unwrap_or(last),
            // The maximum is one of them, where their number was cut off.
            count: figure(&self.overflows).unwrap_or_else(|| u64::from(max > Some(last))),
        };

        let resolution = Resolution { beyond: overflow.at(step_ns), ..Resolution::even(step_ns) };
        let cells = column().map(|(latency, n)| (latency.saturating_mul(step_ns), n));
        let mut part = StreamPart::of_cells(Series::WakeupLatency, &resolution, cells);
        if let (Some(min), Some(mean), Some(max)) = (min, figure(&self.averages), max) {
            let at = |units: u64| units.saturating_mul(step_ns);
            let stated =
                SourceFigures { min_ns: at(min), max_ns: at(max), mean_ns: at(mean) as f64 };
            part.moments = Some(part.moments_around(&resolution, stated));
        }

        Ok(Stream {
            label: if threads > 1 { format!("thread {thread}") } else { String::new() },
            missing: missing(&resolution, max.is_some()),
            lost: u64::from(max.is_none()),
            resolution: [(part.series, resolution)].into(),
            parts: vec![part],
            ..Stream::default()
        })
    }

    /// What status lines state, a stream per thread.
    fn figures(&self, step_ns: u64) -> Vec<(u32, Stream)> {
        let several = self.status.len() > 1;
        let of_thread = |(thread, status): (&u32, &StatusLine)| {
            let label = label(*thread, several);
            let mut stream = status.stream(label, Series::WakeupLatency, step_ns)?;
            stream.lacks(NO_SKIPPED);
            Some((*thread, stream))
        };
        self.status.iter().filter_map(of_thread).collect()
    }

    /// The second pass over a text with every sample.
    fn samples(
        &self,
        file: &mut (impl BufRead + Seek),
        step_ns: u64,
        period_ns: Option<u64>,
    ) -> Result<Vec<(u32, Stream)>, Error> {
        let interval_ns = |thread: u32| period_ns.or_else(|| self.interval_ns(thread));
        let counter = |(thread, of): (&u32, &VerboseThread)| {
            let resolution = Resolution::even(step_ns);
            let mut extent = Extent { samples: of.samples, ..Extent::default() };
            if let Some(interval_ns) = interval_ns(*thread) {
                extent.first_s = Some(time_s(of.first, interval_ns));
                extent.last_s = time_s(of.next.unwrap_or(0), interval_ns);
            }
            (*thread, SampleCounter::new(Series::WakeupLatency, resolution, extent, None))
        };
        // Signed, because early wake-ups are negative.
        let unit_ns = i64::try_from(step_ns).unwrap_or(1);
        let streams = count_each(file, self.samples.iter().map(counter).collect(), |line| {
            let VerboseLine { thread, cycle, latency, .. } = VerboseLine::parse(line.text)
                // A last line without its end may have lost digits: 1234 of 12345 is a valid
                // number. cyclictest pads to eight places, and a padded number is whole.
                .filter(|sample| line.has_end || sample.width >= SAMPLE_WIDTH)?;
            let t_s = interval_ns(thread).map(|interval_ns| time_s(cycle, interval_ns));
            Some((thread, Sample { ns: latency.saturating_mul(unit_ns), t_s }))
        })?;

        let several = streams.len() > 1;
        let described = |(thread, mut stream): (u32, Stream)| {
            stream.label = label(thread, several);
            stream.lacks(NO_SKIPPED);
            let of = self.samples.get(&thread);
            if interval_ns(thread).is_some() {
                stream.lacks("times of the samples: cycle numbers times the interval are used");
            }
            if let Some(of) = of.filter(|of| of.absent > 0) {
                // Of -o 2 as many are absent as are in the text, give or take two.
                let of_largest = if of.absent.saturating_mul(2) < of.samples {
                    stream.lost = of.absent;
                    ""
                } else {
                    ": with -o cyclictest prints the largest of several, and percentiles are of those"
                };
                stream.remarks.push(format!(
                    "{} cycles between the first and the last one are not in the text{of_largest}",
                    of.absent
                ));
            }
            (thread, stream)
        };
        Ok(streams.into_iter().map(described).collect())
    }

    /// Time between a thread's cycles, where a status line states it.
    fn interval_ns(&self, thread: u32) -> Option<u64> {
        self.status.get(&thread)?.interval_us.filter(|us| *us > 0)?.checked_mul(1_000)
    }

    /// What the text says of how a thread ran, and what of it is not imported.
    fn describe(&self, stream: &mut Stream, thread: u32, is_unit_known: bool) {
        let status = self.status.get(&thread);
        stream.period_ns = self.interval_ns(thread);
        let options = self.options();
        let priority = status.and_then(|status| status.priority).or_else(|| {
            (!self.command.is_empty()).then(|| options.number('p', "--priority").unwrap_or(0))
        });
        rt_text::describe_scheduling(stream, self.policy.as_deref(), priority);
        stream.command.clone_from(&self.command);
        stream.lacks(
            "the machine and the start: cyclictest's text does not hold them, its --json does",
        );
        if !is_unit_known {
            stream.lacks(
                "the unit: microseconds assumed; cyclictest -N counts nanoseconds (--unit ns)",
            );
        }

        let smis = self.smis.get(thread as usize).copied().or(status.and_then(|of| of.smis));
        if let Some(smis @ 1..) = smis {
            let smis = counted(smis, "SMIs");
            stream.remarks.push(format!("cyclictest states {smis} on the thread's CPU"));
        }
        if let Some(value) = self.break_value {
            let step_ns = stream.resolution.values().next().map_or(1, |of| of.step_ns);
            stream.remarks.push(format!(
                "cyclictest -b ended the run at its first latency beyond the limit: {} ns",
                value.saturating_mul(step_ns)
            ));
        }

        stream.remarks.extend(rt_text::without_cycles(self.status.values()));
        stream.remarks.extend(self.damage.sentences());
        stream.remarks.extend(self.passed_over.sentence("cyclictest"));
    }
}

/// The name of a thread by its number, which is not that of a CPU.
pub(super) fn label(thread: u32, several: bool) -> String {
    if several { format!("thread {thread}") } else { String::new() }
}

/// Instant of a cycle's release, in seconds from the first one.
fn time_s(cycle: u64, interval_ns: u64) -> f64 {
    cycle as f64 * interval_ns as f64 / 1e9
}

/// Whether a line is a row of a histogram as cyclictest pads it: `000012 000345`. Scripts that draw
/// histograms keep these rows alone.
#[must_use]
pub fn is_histogram_row(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let first = words.next().unwrap_or_default();
    let is_padded = first.len() == ROW_WIDTH && first.starts_with('0');
    is_padded && is_row(line) && words.all(|word| word.len() >= ROW_WIDTH)
}

/// Whether all words of a line are digits: a latency and its counts.
fn is_row(text: &str) -> bool {
    let mut words = text.split_whitespace();
    // Rows of the histogram are numbers and nothing else; lines of totals begin with `#`.
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    words.next().is_some_and(is_number)
        && words.next().is_some_and(is_number)
        && words.all(is_number)
}

/// Where a shell's command ends.
fn is_of_shell(word: &str) -> bool {
    word.starts_with(['>', '|', ';', '&', '<']) || word.ends_with(';') || word.starts_with("2>")
}

fn numbers<'w>(words: impl Iterator<Item = &'w str>, line: usize) -> Result<Vec<u64>, Error> {
    let number = |word: &str| {
        word.parse().map_err(|_| Error::line(FORMAT, line, format!("`{word}` is not a count")))
    };
    words.map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn a_thread_alone_keeps_its_interval_and_its_priority() {
        let line =
            "T: 2 (23589) P:80 I:1000 C:   1980 Min:     16 Act:   26 Avg:   49 Max:    5305\n";
        let streams = read(&mut Cursor::new(line), &SourceOptions::default()).expect("figures");
        assert_eq!((streams.len(), streams[0].period_ns), (1, Some(1_000_000)));
        assert_eq!(streams[0].host.fact("scheduling"), Some("SCHED_FIFO 80"));
    }
}
