//! The trace of the kernel's tracer timerlat, as `/sys/kernel/tracing/trace` shows it and
//! `rtla timerlat -t` saves it: per activation how late its timer's interrupt was, its thread, and
//! with threads in user space the return to them.
//!
//! The same figures are in the event `osnoise:timerlat_sample`, which `trace-cmd report` and
//! `perf script` print with the names of its fields. Other events of the trace are passed over.

use std::collections::BTreeMap;
use std::io::{BufRead, Seek};

use super::error::{Error, counted};
use super::format::{FARTHEST_NS, Format};
use super::ftrace::{is_of_report, kept, not_kept};
use super::lines::{Damage, Line, PassedOver, each_line};
use super::samples::{Extent, Sample, SampleCounter, count_each};
use super::stream::Stream;
use crate::{Resolution, Series};

const FORMAT: Format = Format::Timerlat;
/// More CPUs than this are not CPUs.
const MOST_CPUS: u32 = 8192;

/// What a line says of an activation.
struct Activation {
    cpu: u32,
    number: u64,
    series: Series,
    sample: Sample,
}

impl Activation {
    /// `<idle>-0 [000] d.h1 54.029328: #1 context irq timer_latency 932 ns`, or
    /// `rtla-867 [000] 54.029328: timerlat_sample: seq:1 context:0 timer_latency:932`.
    fn parse(line: &str) -> Option<Self> {
        let (head, latency) = line.split_once("timer_latency")?;
        let (head, context) = head.rsplit_once("context")?;
        let series = match context.trim_matches([':', ' ', '\t']) {
            "irq" | "0" => Series::InterruptLatency,
            "thread" | "1" => Series::WakeupLatency,
            "user-ret" | "2" => Series::ReturnLatency,
            _ => return None,
        };
        let latency = latency.trim_start_matches([':', ' ', '\t']).split_whitespace().next()?;
        let ns = latency.parse().ok().filter(|ns: &u64| *ns <= FARTHEST_NS)?.cast_signed();
        let (cpu, t_s) = place(head)?;
        Some(Self {
            cpu,
            number: head.rsplit(['#', ':']).next()?.trim().parse().ok()?,
            series,
            sample: Sample { ns, t_s: Some(t_s) },
        })
    }
}

/// CPU and time of a line of a trace.
fn place(line: &str) -> Option<(u32, f64)> {
    let cpu: Option<u32> =
        line.split('[').skip(1).find_map(|rest| rest.split_once(']')?.0.parse().ok());
    let seconds = |word: &str| {
        let stamp = word.strip_suffix(':').filter(|stamp| stamp.contains('.'))?;
        stamp.parse().ok().filter(|t: &f64| (0.0..1e11).contains(t))
    };
    Some((cpu.filter(|cpu| *cpu < MOST_CPUS)?, line.split_whitespace().find_map(seconds)?))
}

/// Whether a line is of an activation.
#[must_use]
pub fn is_activation(line: &str) -> bool {
    Activation::parse(line).is_some()
}

/// The activations of a CPU that one series has.
#[derive(Default)]
struct Numbers {
    samples: u64,
    first: u64,
    last: u64,
}

#[derive(Default)]
struct OfCpu {
    extent: Extent,
    series: BTreeMap<Series, Numbers>,
}

#[derive(Default)]
struct TimerlatText {
    cpus: BTreeMap<u32, OfCpu>,
    /// Places where events were lost.
    lost: u64,
    kept: Option<(u64, u64)>,
    passed_over: PassedOver,
    damage: Damage,
}

/// One stream per CPU.
///
/// # Errors
/// [`Error`].
pub fn read(file: &mut (impl BufRead + Seek)) -> Result<Vec<Stream>, Error> {
    let mut text = TimerlatText::default();
    each_line(file, |line| text.line(line))?;
    if text.cpus.is_empty() {
        let reason = "no line states an activation with its timer_latency";
        return Err(Error::nothing(FORMAT, reason));
    }

    let mut counters: BTreeMap<(u32, Series), SampleCounter> = BTreeMap::new();
    for (cpu, of) in &text.cpus {
        for (series, numbers) in &of.series {
            let extent = Extent { samples: numbers.samples, ..of.extent };
            let counter = SampleCounter::new(*series, Resolution::exact(), extent, None);
            counters.insert((*cpu, *series), counter);
        }
    }
    let counted = count_each(file, counters, |line| {
        let of = Activation::parse(line.text).filter(|_| is_whole(line))?;
        Some(((of.cpu, of.series), of.sample))
    })?;

    let several = text.cpus.len() > 1;
    let mut streams: BTreeMap<u32, Stream> = BTreeMap::new();
    for ((cpu, series), of) in counted {
        merge(streams.entry(cpu).or_default(), series, of);
    }
    for (cpu, stream) in &mut streams {
        stream.label = if several { format!("CPU {cpu}") } else { String::new() };
        stream.parts.sort_by(|a, b| a.t.total_cmp(&b.t));
        text.describe(stream, *cpu);
        stream.remarks.extend(text.damage.sentences());
    }
    Ok(streams.into_values().collect())
}

/// Puts a series beside the others of its CPU.
fn merge(stream: &mut Stream, series: Series, of: Stream) {
    stream.resolution.extend(of.resolution);
    stream.parts.extend(of.parts);
    if series == Series::WakeupLatency || stream.steps.is_none() {
        stream.steps = of.steps;
    }
    for what in of.missing {
        if !stream.missing.contains(&what) {
            stream.missing.push(what);
        }
    }
}

/// A line without its end may have lost digits, unless its unit is there.
fn is_whole(line: &Line<'_>) -> bool {
    line.has_end || line.text.trim_end().ends_with(" ns")
}

impl TimerlatText {
    fn line(&mut self, line: &Line<'_>) -> Result<(), Error> {
        let text = line.text.trim();
        match Activation::parse(text) {
            Some(_) if !is_whole(line) => self.damage.cut(line.number, format!("`{text}`")),
            Some(of) => {
                let cpu = self.cpus.entry(of.cpu).or_default();
                cpu.extent.take_in(&of.sample);
                let numbers = cpu.series.entry(of.series).or_default();
                if numbers.samples == 0 {
                    numbers.first = of.number;
                } else if of.number < numbers.last {
                    return Err(Error::second_run(FORMAT, line.number));
                }
                numbers.samples += 1;
                numbers.last = of.number;
            }
            None => self.other(text, line),
        }

        Ok(())
    }

    fn other(&mut self, text: &str, line: &Line<'_>) {
        if let Some(kept) = kept(text) {
            self.kept = Some(kept);
        } else if text.contains(" EVENTS]") || text.contains("EVENTS DROPPED]") {
            self.lost += 1;
        } else if !text.starts_with("=>") && !is_of_report(text) && place(text).is_none() {
            self.passed_over.count(line);
        }
    }

    fn describe(&self, stream: &mut Stream, cpu: u32) {
        // Times of a trace count from boot or from any other instant.
        stream.started_unix_s = 0.0;
        let numbers = self.cpus.get(&cpu).map(|of| &of.series).into_iter().flatten();
        for (series, of) in numbers {
            let all = of.last.saturating_sub(of.first).saturating_add(1);
            if let absent @ 1.. = all.saturating_sub(of.samples) {
                stream.lost = stream.lost.max(absent);
                stream.remarks.push(format!(
                    "{}: activations that are not in the text, between #{} and #{}: {absent}",
                    series.words(),
                    of.first,
                    of.last
                ));
            }
        }
        stream.remarks.extend(not_kept(self.kept));
        if self.lost > 0 {
            let places = counted(self.lost, "places");
            stream
                .remarks
                .push(format!("the trace lost events in {places}: these are in no figure"));
        }
        stream.remarks.extend(self.passed_over.sentence("timerlat"));
        stream.lacks(
            "skipped releases: timerlat passes over an activation that is past when it would wait for it, and does not number it",
        );
        stream.lacks("the machine and the start: the trace does not hold them");
    }
}
