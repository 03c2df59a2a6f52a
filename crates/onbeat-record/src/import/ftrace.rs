//! Traces as text, as `/sys/kernel/tracing/trace` and `trace-cmd report` print them: from each
//! `sched_wakeup` of a thread to the `sched_switch` that gives it a CPU.
//!
//! That is a part of what a loop sees: the time from the timer's target to the wake-up is not among
//! it. The run says so. Threads with real-time priority are imported, a stream each; where there
//! are none, the others.

use std::collections::BTreeMap;
use std::io::{BufRead, Seek};

use super::error::{Error, counted};
use super::format::{Format, SourceOptions};
use super::lines::{Line, PassedOver, begins_with, each_line};
use super::rt_text;
use super::samples::{Extent, Sample, SampleCounter, count_each};
use super::stream::Stream;
use crate::{Resolution, Series};
use onbeat_host::machine::Host;

const FORMAT: Format = Format::Ftrace;
/// Threads that become streams.
const MOST_STREAMS: usize = 64;
/// Threads that are looked at.
const MOST_THREADS: usize = 65_536;
/// Priorities below this are real-time, as the kernel counts them.
const FIRST_ORDINARY: i32 = 100;

/// A thread as an event names it.
struct Thread<'l> {
    name: &'l str,
    pid: u32,
    /// As the kernel counts: 0 to 99 are real-time, 99 − n.
    prio: i32,
}

/// What a line says.
enum Event<'l> {
    WokenUp(Thread<'l>),
    Switched {
        from_pid: u32,
        to: Thread<'l>,
    },
    /// Events were lost here.
    Lost,
    Other,
}

/// The events of a line with its time in nanoseconds and the digits after its point.
fn event(line: &str) -> Option<(u64, usize, Event<'_>)> {
    // `CPU:2 [LOST 123 EVENTS]` of the kernel, `CPU:2 [123 EVENTS DROPPED]` of trace-cmd.
    let is_lost = line.contains(" EVENTS]") && line.contains("[LOST ");
    if is_lost || line.contains("EVENTS DROPPED]") {
        return Some((0, 0, Event::Lost));
    }

    // Time, then the event's name, then what it says. `trace-cmd report -l` has no brackets around the CPU.
    let of_cpu = line.find('[').and_then(|bracket| stamped(&line[bracket..]));
    let (ns, digits, rest) = of_cpu.or_else(|| stamped(line))?;
    let (name, says) = rest.split_once(':').unwrap_or((rest, ""));
    let name = if name.trim() == "sched" {
        says.split_once(':').map_or("", |(name, _)| name)
    } else {
        name
    };
    let event = match name.trim() {
        "sched_wakeup" | "sched_waking" => Event::WokenUp(thread(says, "")?),
        "sched_switch" => {
            let (from, to) = says.split_once("==>")?;
            Event::Switched { from_pid: from_pid(from)?, to: thread(to, "next_")? }
        }
        _ => Event::Other,
    };
    Some((ns, digits, event))
}

/// The time before the first colon that ends a word, its digits, and what follows.
fn stamped(text: &str) -> Option<(u64, usize, &str)> {
    let (head, rest) = text.split_once(": ")?;
    let (ns, digits) = stamp_ns(head.split_whitespace().last()?)?;
    Some((ns, digits, rest))
}

/// Seconds with a point, as whole nanoseconds.
fn stamp_ns(stamp: &str) -> Option<(u64, usize)> {
    let (seconds, fraction) = stamp.split_once('.')?;
    if fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let scale = 10_u64.pow(9 - u32::try_from(fraction.len()).ok()?);
    let below: u64 = fraction.parse().ok()?;
    let ns = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
    Some((ns.checked_add(below * scale)?, fraction.len()))
}

/// Events that the ring buffer kept, and those that were written into it, of a trace's head.
pub(super) fn kept(line: &str) -> Option<(u64, u64)> {
    let (_, kept) = line.split_once("entries-in-buffer/entries-written: ")?;
    let (kept, all) = kept.split_whitespace().next()?.split_once('/')?;
    kept.parse().ok().zip(all.parse().ok())
}

/// What the ring buffer did not keep, as a sentence.
pub(super) fn not_kept(of: Option<(u64, u64)>) -> Option<String> {
    let (kept, all) = of.filter(|(kept, all)| kept < all)?;
    Some(format!("the ring buffer kept {kept} of {all} events: the oldest are in no figure"))
}

/// Whether a line is a comment, or one that `trace-cmd report` prints above the events.
pub(super) fn is_of_report(line: &str) -> bool {
    let is_empty_cpu = line.starts_with("CPU ") && line.trim_end().ends_with(" is empty");
    is_empty_cpu || begins_with(line, &["#", "cpus=", "version = "])
}

/// `comm=loop pid=812 prio=19`, or `loop:812 [19]` as trace-cmd prints it.
fn thread<'l>(says: &'l str, prefix: &str) -> Option<Thread<'l>> {
    if let Some((_, rest)) = says.split_once(&format!("{prefix}comm=")) {
        let (name, rest) = rest.split_once(&format!(" {prefix}pid="))?;
        let (pid, rest) = rest.split_once(&format!(" {prefix}prio="))?;
        let prio = rest.split_whitespace().next()?;
        return Some(Thread { name, pid: pid.parse().ok()?, prio: prio.parse().ok()? });
    }

    let (who, rest) = says.trim_start().split_once(" [")?;
    let who = who.rsplit(": ").next()?.trim();
    let (name, pid) = who.rsplit_once(':')?;
    let prio = rest.split(']').next()?;
    Some(Thread { name, pid: pid.parse().ok()?, prio: prio.parse().ok()? })
}

fn from_pid(from: &str) -> Option<u32> {
    match from.split_once("prev_pid=") {
        Some((_, rest)) => rest.split_whitespace().next()?.parse().ok(),
        None => thread(from, "prev_").map(|thread| thread.pid),
    }
}

/// From wake-up to switch: what has been woken and has no CPU yet.
#[derive(Default)]
struct Waiting {
    since_ns: BTreeMap<u32, u64>,
}

impl Waiting {
    /// The time that a thread waited, where this event ends its waiting.
    fn take_in(&mut self, ns: u64, event: &Event<'_>) -> Option<u64> {
        match event {
            Event::WokenUp(thread) => {
                if self.since_ns.len() < MOST_THREADS {
                    self.since_ns.entry(thread.pid).or_insert(ns);
                }
                None
            }
            Event::Switched { from_pid, to } => {
                // A thread that was woken while it still ran did not wait.
                self.since_ns.remove(from_pid);
                ns.checked_sub(self.since_ns.remove(&to.pid)?)
            }
            Event::Lost => {
                self.since_ns.clear();
                None
            }
            Event::Other => None,
        }
    }
}

#[derive(Default)]
struct OfThread {
    name: String,
    prio: i32,
    extent: Extent,
}

#[derive(Default)]
struct FtraceText {
    waiting: Waiting,
    threads: BTreeMap<u32, OfThread>,
    digits: usize,
    /// Whether there are events of `sched_waking`, which come first.
    has_waking: bool,
    lost: u64,
    kept: Option<(u64, u64)>,
    passed_over: PassedOver,
}

/// One stream per thread.
///
/// # Errors
/// [`Error`].
pub fn read(file: &mut (impl BufRead + Seek), asked: &SourceOptions) -> Result<Vec<Stream>, Error> {
    let mut text = FtraceText::default();
    each_line(file, |line| {
        text.line(line);
        Ok(())
    })?;
    let (chosen, left_out) = text.chosen();
    if chosen.is_empty() {
        let reason = if text.digits == 0 {
            "no event has its time in seconds, such as 123.456789; clocks that count (x86-tsc, counter) are not read"
        } else {
            "no thread was woken and then switched to; it needs the events sched_wakeup and sched_switch (trace-cmd record -e sched_wakeup -e sched_switch)"
        };
        return Err(Error::nothing(FORMAT, reason));
    }

    let series = asked.series.unwrap_or(Series::WakeupLatency);
    let step_ns = 10_u64.pow(9_u32.saturating_sub(u32::try_from(text.digits).unwrap_or(9)));
    let counter = |pid: &u32| {
        let extent = text.threads.get(pid)?.extent;
        Some((*pid, SampleCounter::new(series, Resolution::even(step_ns), extent, None)))
    };
    let mut waiting = Waiting::default();
    let streams = count_each(file, chosen.iter().filter_map(counter).collect(), |line| {
        let (ns, _, event) = event(line.text).filter(|_| line.has_end)?;
        let waited_ns = waiting.take_in(ns, &event)?;
        let Event::Switched { to, .. } = event else { return None };
        Some((to.pid, sample(ns, waited_ns)))
    })?;

    let several = streams.len() > 1;
    let described = streams.into_iter().map(|(pid, mut stream)| {
        text.describe(&mut stream, pid, several, left_out);
        stream
    });
    Ok(described.collect())
}

fn sample(ns: u64, waited_ns: u64) -> Sample {
    Sample { ns: i64::try_from(waited_ns).unwrap_or(i64::MAX), t_s: Some(ns as f64 / 1e9) }
}

impl FtraceText {
    fn line(&mut self, line: &Line<'_>) {
        let text = line.text;
        let Some((ns, digits, event)) = event(text).filter(|_| line.has_end) else {
            self.kept = kept(text).or(self.kept);
            if !is_of_report(text) {
                self.passed_over.count(line);
            }
            return;
        };
        self.digits = self.digits.max(digits);
        self.has_waking |= text.contains("sched_waking:");
        self.lost += u64::from(matches!(event, Event::Lost));
        if let Some(waited) = self.waiting.take_in(ns, &event)
            && let Event::Switched { to, .. } = event
            && (self.threads.len() < MOST_THREADS || self.threads.contains_key(&to.pid))
        {
            let of = self.threads.entry(to.pid).or_default();
            if of.name != to.name {
                to.name.clone_into(&mut of.name);
            }
            of.prio = to.prio;
            of.extent.take_in(&sample(ns, waited));
        }
    }

    /// The threads that become streams, and how many do not.
    fn chosen(&self) -> (Vec<u32>, usize) {
        let has_real_time = self.threads.values().any(|of| of.prio < FIRST_ORDINARY);
        let mut all: Vec<(u32, u64)> = self
            .threads
            .iter()
            .filter(|(pid, of)| **pid != 0 && (of.prio < FIRST_ORDINARY || !has_real_time))
            .map(|(pid, of)| (*pid, of.extent.samples))
            .collect();
        all.sort_by_key(|(pid, samples)| (std::cmp::Reverse(*samples), *pid));
        all.truncate(MOST_STREAMS);
        let left_out = self.threads.keys().filter(|pid| **pid != 0).count() - all.len();
        (all.into_iter().map(|(pid, _)| pid).collect(), left_out)
    }

    fn describe(&self, stream: &mut Stream, pid: u32, several: bool, left_out: usize) {
        let Some(of) = self.threads.get(&pid) else { return };
        // Times of a trace count from boot or from any other instant.
        stream.started_unix_s = 0.0;
        stream.label = if several { format!("{}-{pid}", of.name) } else { String::new() };
        match of.prio {
            ..0 => rt_text::describe_scheduling(stream, Some("deadline"), None),
            prio @ 0..FIRST_ORDINARY => {
                let priority = format!("real-time priority {}", FIRST_ORDINARY - 1 - prio);
                stream.host = Host::from_facts([("scheduling", Some(priority))]);
            }
            _ => rt_text::describe_scheduling(stream, None, Some(0)),
        }

        let from = if self.has_waking { "sched_waking" } else { "sched_wakeup" };
        stream.remarks.push(format!(
            "{} ({pid}): from {from} to sched_switch; the time from the timer to the wake-up is not among it",
            of.name
        ));
        if left_out > 0 {
            stream.remarks.push(format!(
                "{left_out} other threads of the trace are not imported: those with real-time priority are, {MOST_STREAMS} at most"
            ));
        }
        if self.lost > 0 {
            // Of which thread the events were is not stated; one of each place at least.
            stream.lost = self.lost;
            stream.remarks.push(format!(
                "the trace lost events in {}: a thread that waited then is in no figure",
                counted(self.lost, "places")
            ));
        }
        stream.remarks.extend(not_kept(self.kept));
        stream.remarks.extend(self.passed_over.sentence("ftrace"));
        stream.lacks("skipped releases: a trace does not know the loop's period");
    }
}
