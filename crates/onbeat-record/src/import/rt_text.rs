//! Text of the other programs of rt-tests: the status lines of signaltest and cyclicdeadline, the
//! pairs of ptsematest, pmqtest, svsematest and sigwaittest.
//!
//! All of them state count, minimum, average and maximum, and no distribution. In a terminal's
//! output the last line of a thread counts.

use std::collections::BTreeMap;
use std::io::BufRead;

use super::error::Error;
use super::format::{Format, SourceOptions};
use super::lines::{Damage, Line, PassedOver, begins_with, each_line, without_interrupt};
use super::stated::{self, Stated};
use super::stream::Stream;
use crate::Series;
use onbeat_host::machine::Host;

const FORMAT: Format = Format::RtTests;
const STEP_NS: u64 = 1_000;
/// More threads than this are not threads.
// A column of numbers makes a thread each; a damaged line must not make a million.
pub(super) const MOST_THREADS: u32 = 8192;
/// Width that cyclictest pads averages in nanoseconds to.
const NS_WIDTH: usize = 8;
/// How other lines begin.
const OTHERS: [&str; 4] = ["deadline thread ", "thread[", "main thread ", "Using all CPUS"];

/// The programs, as their command lines begin.
pub const TOOLS: [&str; 6] =
    ["signaltest", "ptsematest", "pmqtest", "svsematest", "sigwaittest", "cyclicdeadline"];

/// The series of a program's values: only cyclicdeadline measures a wake-up.
pub(super) fn series_of(tool: &str) -> Series {
    if tool == "cyclicdeadline" { Series::WakeupLatency } else { Series::Recorded }
}

/// What a program's values are, as a sentence.
pub(super) fn meaning(tool: &str) -> Option<String> {
    let (from, to) = match tool {
        "signaltest" => ("the sending of a signal", "its receipt by the next thread"),
        "ptsematest" => ("the unlocking of a mutex", "the other thread's having it"),
        "pmqtest" => ("the sending of a POSIX message", "its receipt by the other thread"),
        "svsematest" => ("the release of a System V semaphore", "the other thread's having it"),
        "sigwaittest" => ("the sending of a signal", "the return of sigwait in the other thread"),
        _ => return None,
    };
    Some(format!("{tool} measures from {from} to {to}"))
}

/// Puts policy and priority into a stream, and a remark where it ran without real-time priority.
pub(super) fn describe_scheduling(
    stream: &mut Stream,
    policy: Option<&str>,
    priority: Option<u64>,
) {
    let policy = policy.map(str::to_ascii_uppercase);
    let is_real_time = match (policy.as_deref(), priority) {
        (Some("DEADLINE"), _) | (_, Some(1..)) => true,
        (Some("OTHER" | "BATCH" | "IDLE" | "NORMAL"), _) | (_, Some(0)) => false,
        _ => return,
    };
    let name = policy.unwrap_or_else(|| if is_real_time { "FIFO" } else { "OTHER" }.to_owned());
    let name = match (is_real_time, name.as_str()) {
        // Priority 0 belongs to no real-time policy.
        (false, "FIFO" | "RR") => "SCHED_OTHER".to_owned(),
        _ => format!("SCHED_{name}"),
    };
    let scheduling = match priority {
        Some(priority @ 1..) => format!("{name} {priority}"),
        _ => name.clone(),
    };

    let facts: Vec<(String, String)> =
        stream.host.facts().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let facts = facts.iter().map(|(name, value)| (name.as_str(), Some(value.clone())));
    stream.host = Host::from_facts(facts.chain([("scheduling", Some(scheduling))]));
    if !is_real_time {
        stream.remarks.push(format!(
            "ran without real-time priority ({name}): every thread of the machine could delay it"
        ));
    }
}

/// A status line: `T: 0 (23589) P:80 I:1000 C: 1980 Min: 16 Act: 26 Avg: 49 Max: 5305`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StatusLine {
    pub(super) thread: u32,
    /// The thread's number of the system.
    task: Option<u32>,
    pub(super) priority: Option<u64>,
    pub(super) interval_us: Option<u64>,
    /// The CPU, in jitterdebugger's lines.
    pub(super) cpu: Option<u32>,
    pub(super) cycles: u64,
    /// Minimum, average, maximum.
    pub(super) figures: [f64; 3],
    /// Characters of the maximum with its padding.
    pub(super) last_width: usize,
    /// Whether the average is padded as cyclictest pads nanoseconds (`-N`): to eight characters, and
    /// microseconds to five.
    pub(super) is_padded_to_ns: bool,
    /// Of cyclictest's `--smi`.
    pub(super) smis: Option<u64>,
}

impl StatusLine {
    pub(super) fn parse(line: &str) -> Option<Self> {
        let line = without_interrupt(line.trim());
        // Escape codes before it are still there when a format is detected.
        let line = match line.strip_prefix('\u{1b}') {
            Some(rest) => &rest[rest.find("T:")?..],
            None => line,
        };
        let rest = line.strip_prefix("T:")?.trim_start();
        let number = |key: &str| value_after(rest, key)?.0.parse::<u64>().ok();
        let figure = |key: &str| {
            value_after(rest, key)?.0.parse::<f64>().ok().filter(|figure| figure.is_finite())
        };
        let thread = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        let task = rest.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
        let (average, average_width) = value_after(rest, " Avg:")?;
        Some(Self {
            thread: thread.parse().ok()?,
            task: task.and_then(|(task, _)| task.trim().parse().ok()),
            priority: number(" P:"),
            interval_us: number(" I:"),
            cpu: number(" A:").and_then(|cpu| u32::try_from(cpu).ok()),
            cycles: number(" C:")?,
            figures: [figure(" Min:")?, figure(" Avg:")?, figure(" Max:")?],
            last_width: value_after(rest, " Max:")?.1,
            is_padded_to_ns: average_width == NS_WIDTH && average.len() < NS_WIDTH,
            smis: number(" SMI:"),
        })
    }

    /// Whether it is of another run than the line of its thread before it.
    fn is_of_another_run(&self, before: &Self) -> bool {
        let figures = |of: &Self| (of.cycles, of.figures);
        // A thread that has not begun has no number yet.
        before.cycles > 0
            && (self.task != before.task
                || stated::are_of_another_run(figures(self), figures(before)))
    }

    /// Takes the place of the line of its thread before it, as on a terminal.
    pub(super) fn put_into(
        self,
        all: &mut BTreeMap<u32, Self>,
        (format, line): (Format, usize),
    ) -> Result<(), Error> {
        if all.get(&self.thread).is_some_and(|before| self.is_of_another_run(before)) {
            return Err(Error::second_run(format, line));
        }

        all.insert(self.thread, self);
        Ok(())
    }

    /// A stream of what it states; `None` where its thread had no cycle.
    pub(super) fn stream(&self, label: String, series: Series, step_ns: u64) -> Option<Stream> {
        let n = Some(self.cycles).filter(|cycles| *cycles > 0)?;
        let stated = Stated::in_units(Some(n), self.figures, step_ns as f64)?;
        let mut stream = Stream { label, ..Stream::default() };
        stated.put_into(&mut stream, series, step_ns);
        Some(stream)
    }
}

/// The threads that had no cycle, and so no stream, as a sentence.
pub(super) fn without_cycles<'s>(all: impl Iterator<Item = &'s StatusLine>) -> Option<String> {
    let idle = all.filter(|of| of.cycles == 0).map(|of| of.thread.to_string());
    let idle: Vec<String> = idle.collect();
    (!idle.is_empty()).then(|| format!("threads without a cycle: {}", idle.join(", ")))
}

/// The word after a key, and its length with the blanks before it.
fn value_after<'l>(line: &'l str, key: &str) -> Option<(&'l str, usize)> {
    let after = line.split_once(key)?.1;
    let word = after.split_whitespace().next()?;
    let blanks = after.len() - after.trim_start().len();
    Some((word, blanks + word.len()))
}

/// Whether a line is a status line of signaltest or cyclicdeadline, not of cyclictest.
#[must_use]
pub fn is_status_line(line: &str) -> bool {
    StatusLine::parse(line).is_some_and(|of| of.priority.is_some() != of.interval_us.is_some())
}

/// Whether a line states figures of a pair: `#1 -> #0, Min 1, Cur 2, Avg 2, Max 40`.
#[must_use]
pub fn is_pair_line(line: &str) -> bool {
    PairLine::parse(line).is_some()
}

struct PairLine {
    sender: u32,
    receiver: u32,
    figures: [f64; 3],
    last_width: usize,
}

impl PairLine {
    fn parse(line: &str) -> Option<Self> {
        let (sender, rest) = line.trim().strip_prefix('#')?.split_once(" -> #")?;
        let (receiver, rest) = rest.split_once(',')?;
        let figure = |key: &str| {
            let word = value_after(rest, key)?.0.trim_end_matches(',');
            word.parse::<f64>().ok().filter(|figure| figure.is_finite())
        };
        Some(Self {
            sender: sender.parse().ok()?,
            receiver: receiver.trim().parse().ok()?,
            figures: [figure("Min")?, figure("Avg")?, figure("Max")?],
            last_width: value_after(rest, "Max")?.1,
        })
    }
}

/// The threads of a pair: `#0: ID4725, P80, CPU0, I1000; #1: ID4726, P80, CPU1, Cycles 915`.
#[derive(Clone, Copy, Default)]
struct Ends {
    priority: Option<u64>,
    interval_us: Option<u64>,
    cycles: Option<u64>,
}

/// The ends that a line names, by their numbers.
fn ends(line: &str) -> Option<Vec<(u32, Ends)>> {
    let of = |text: &str| {
        let (number, fields) = text.trim().strip_prefix('#')?.split_once(": ID")?;
        let mut ends = Ends::default();
        for field in fields.split(',').map(str::trim) {
            if let Some(cycles) = field.strip_prefix("Cycles ") {
                ends.cycles = cycles.trim().parse().ok();
            } else if let Some(interval) = field.strip_prefix('I') {
                ends.interval_us = interval.parse().ok();
            } else if let Some(priority) = field.strip_prefix('P') {
                ends.priority = priority.parse().ok();
            }
        }
        Some((number.parse::<u32>().ok()?, ends))
    };
    line.split(';').map(of).collect()
}

#[derive(Default)]
struct RtText {
    status: BTreeMap<u32, StatusLine>,
    ends: BTreeMap<u32, Ends>,
    pairs: BTreeMap<u32, PairLine>,
    tool: &'static str,
    command: Vec<String>,
    passed_over: PassedOver,
    damage: Damage,
}

/// One stream per thread or pair.
///
/// # Errors
/// [`Error`].
pub fn read(file: &mut impl BufRead, asked: &SourceOptions) -> Result<Vec<Stream>, Error> {
    let mut text = RtText::default();
    each_line(file, |line| text.line(line))?;

    let several = text.status.len() + text.pairs.len() > 1;
    let mut streams: Vec<Stream> =
        text.of_status(several, asked).into_iter().chain(text.of_pairs(several, asked)).collect();
    if streams.is_empty() {
        let reason = "no line states cycles with minimum, average and maximum; run it with -q, or with --json";
        return Err(Error::nothing(FORMAT, reason));
    }

    for stream in &mut streams {
        stream.command.clone_from(&text.command);
        stream.remarks.extend(meaning(text.tool));
        stream.remarks.extend(text.damage.sentences());
        stream.remarks.extend(text.passed_over.sentence("rt-tests"));
        stream.lacks("the machine and the start: the text does not hold them, --json does");
    }

    Ok(streams)
}

impl RtText {
    fn line(&mut self, line: &Line<'_>) -> Result<(), Error> {
        let text = line.text.trim();
        if let Some(status) = StatusLine::parse(text) {
            if !line.has_end && status.last_width < 8 {
                self.damage.cut(line.number, format!("`{text}`"));
            } else if status.thread < MOST_THREADS {
                status.put_into(&mut self.status, (FORMAT, line.number))?;
            }
        } else if let Some(pair) = PairLine::parse(text) {
            if !line.has_end && pair.last_width < 5 {
                self.damage.cut(line.number, format!("`{text}`"));
            } else if pair.sender < MOST_THREADS {
                let is_of_another_run = |before: &PairLine| {
                    stated::are_of_another_run((0, pair.figures), (0, before.figures))
                };
                if self.pairs.get(&pair.sender).is_some_and(is_of_another_run) {
                    return Err(Error::second_run(FORMAT, line.number));
                }
                self.pairs.insert(pair.sender, pair);
            }
        } else if let Some(all) = ends(text) {
            self.ends.extend(all.into_iter().filter(|(number, _)| *number < MOST_THREADS));
        } else if let Some((tool, words)) = command(text).filter(|_| self.command.is_empty()) {
            self.tool = tool;
            self.command = words;
        } else if !begins_with(text, &OTHERS) {
            self.passed_over.count(line);
        }

        Ok(())
    }

    fn of_status(&self, several: bool, asked: &SourceOptions) -> Vec<Stream> {
        let of_thread = |(thread, status): (&u32, &StatusLine)| {
            let label = if several { format!("thread {thread}") } else { String::new() };
            let has_deadline = status.priority.is_none();
            let tool = if has_deadline { "cyclicdeadline" } else { "signaltest" };
            let series = asked.series.unwrap_or_else(|| series_of(tool));
            let mut stream = status.stream(label, series, STEP_NS)?;
            stream.period_ns = status.interval_us.and_then(|us| us.checked_mul(1_000));
            describe_scheduling(&mut stream, has_deadline.then_some("deadline"), status.priority);
            if self.tool.is_empty() {
                stream.remarks.extend(meaning(tool));
            }
            stream.remarks.extend(without_cycles(self.status.values()));
            Some(stream)
        };
        self.status.iter().filter_map(of_thread).collect()
    }

    fn of_pairs(&self, several: bool, asked: &SourceOptions) -> Vec<Stream> {
        let of_pair = |pair: &PairLine| {
            let end = |number: &u32| self.ends.get(number).copied().unwrap_or_default();
            let (sender, receiver) = (end(&pair.sender), end(&pair.receiver));
            let n = sender.cycles.or(receiver.cycles);
            let stated = Stated::in_units(n, pair.figures, STEP_NS as f64)?;
            let label = if several { format!("pair {}", pair.sender / 2) } else { String::new() };
            let mut stream = Stream { label, ..Stream::default() };
            stated.put_into(&mut stream, asked.series.unwrap_or(Series::Recorded), STEP_NS);
            let interval_us = sender.interval_us.or(receiver.interval_us);
            stream.period_ns = interval_us.and_then(|us| us.checked_mul(1_000));
            let priority = sender.priority.into_iter().chain(receiver.priority).min();
            describe_scheduling(&mut stream, None, priority);
            Some(stream)
        };
        self.pairs.values().filter_map(of_pair).collect()
    }
}

/// The command of one of these programs, in a line with a shell's prompt.
fn command(text: &str) -> Option<(&'static str, Vec<String>)> {
    let tool = TOOLS.into_iter().find(|tool| text.contains(&format!("{tool} -")))?;
    let words = text.split_once(tool)?.1.split_whitespace();
    Some((tool, std::iter::once(tool).chain(words).map(str::to_owned).collect()))
}
