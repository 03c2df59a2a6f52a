//! What every format becomes: one stream of samples, counted in the source's cells, and its run
//! file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::format::{FARTHEST_NS, Format};
use super::lines::Damage;
use crate::distribution::MOST_SAMPLES;
use crate::note_numbers::MOST_FLOAT;
use crate::run_file::MOST_SECONDS;
use crate::{
    Cell, EVERY_SECONDS, Early, Header, Import, Interval, LONGEST_NS, Maxima, Moments, Note,
    Remark, Resolution, RunWriter, Series, StepFigures, Trend, WriteError, empty_counts,
};
use onbeat_host::machine::Host;

/// One stream of a source: a thread, a CPU, a tag, or all of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stream {
    /// Which part of the source; empty when it has one part only.
    pub label: String,
    /// The format it was read as.
    pub format: Option<Format>,
    /// The command that recorded it, as far as the source records it.
    pub command: Vec<String>,
    /// What the source records of the machine.
    pub host: Host,
    /// Wall clock at its start, in seconds since 1970; 0 when the source does not say.
    pub started_unix_s: f64,
    /// The loop's period, when it is known.
    pub period_ns: Option<u64>,
    /// The cells of each series.
    pub resolution: BTreeMap<Series, Resolution>,
    /// What was counted, in order of time.
    pub parts: Vec<StreamPart>,
    /// A few figures per step of time, where the source has times.
    pub steps: Option<TrendSteps>,
    /// What the source does not record, one sentence each.
    pub missing: Vec<String>,
    /// What else is to be known of the run, one sentence each: how it was scheduled, which lines
    /// were passed over.
    pub remarks: Vec<String>,
    /// Samples below 0, per series.
    pub early: BTreeMap<Series, Early>,
    /// Series without a distribution: count, extremes and mean alone.
    pub figures_only: BTreeSet<Series>,
    /// Samples that never came or were lost: requests without an answer, dropped messages,
    /// overruns, missed events.
    pub lost: u64,
}

impl Stream {
    /// Adds a part, and the cells of its series.
    pub(super) fn put(&mut self, part: StreamPart, resolution: Resolution) {
        self.resolution.insert(part.series, resolution);
        self.parts.push(part);
    }

    /// Adds a sentence on what the source does not record.
    pub(super) fn lacks(&mut self, what: &str) {
        self.missing.push(what.to_owned());
    }

    /// Adds what is said of damaged lines of a source whose lines are samples.
    pub(super) fn lost_lines(&mut self, damage: &Damage) {
        self.remarks.extend(damage.sentences());
        self.lost = self.lost.saturating_add(damage.lines());
    }

    /// Whether a run file can hold its figures; those of a damaged text may be any.
    pub(super) fn is_in_range(&self) -> bool {
        let samples = self.parts.iter().map(StreamPart::samples).fold(0, u64::saturating_add);
        let beyond = || self.resolution.values().filter_map(|of| of.beyond);
        samples <= MOST_SAMPLES
            && self.period_ns.is_none_or(|ns| ns <= FARTHEST_NS)
            && beyond().all(|of| of.to_ns <= FARTHEST_NS && of.count <= MOST_SAMPLES)
            && self.parts.iter().all(StreamPart::is_in_range)
    }

    /// What its figures leave open, one sentence each: negative samples, and series without a
    /// distribution.
    fn figures_in_words(&self) -> Vec<String> {
        let early = self.early.iter().map(|(series, Early { count, earliest_ns })| {
            let words = series.words();
            // Of other values, an offset of a clock for one, a large negative one is no better than
            // a large positive one.
            let (one, many, both_sides) = if Early::is_wakeup(*series) {
                (" (an early wake-up)", " (early wake-ups)", "")
            } else {
                ("", "", "; import absolute values where both sides count")
            };
            match count {
                Some(1) => format!(
                    "{words}: 1 sample is negative{one}: -{earliest_ns} ns; counted as 0{both_sides}"
                ),
                Some(n) => format!(
                    "{words}: {n} samples are negative{many}, the smallest -{earliest_ns} ns; counted as 0{both_sides}"
                ),
                None => format!(
                    "{words}: the smallest sample is negative{one}: -{earliest_ns} ns; shown as 0{both_sides}"
                ),
            }
        });
        let only = self.figures_only.iter().map(|series| {
            format!(
                "{}: the source states minimum, mean and maximum only; percentiles and SD are not known",
                series.words()
            )
        });
        early.chain(only).collect()
    }
}

/// Steps of a run file's trend are no more than this: longer sources have longer steps.
const MOST_STEPS: f64 = 100_000.0;
/// Steps of one trend note.
const STEPS_PER_NOTE: usize = 600;

/// Figures step by step, from the stream's start on.
#[derive(Clone, Debug, PartialEq)]
pub struct TrendSteps {
    /// Which series.
    pub series: Series,
    /// Seconds from step to step.
    pub every_s: f64,
    /// `None` is a step without a sample.
    pub figures: Vec<Option<StepFigures>>,
}

impl TrendSteps {
    /// Steps of about `every_s`, in a source of `length_s`; `None` for a source without times, or
    /// whose times are apart by more than a run file's steps can be.
    #[must_use]
    pub fn new(series: Series, every_s: f64, length_s: f64) -> Option<Self> {
        // A log of a year in steps of a second would outgrow any page.
        let every_s = every_s.max(length_s / MOST_STEPS);
        EVERY_SECONDS.contains(&every_s).then(|| Self { series, every_s, figures: Vec::new() })
    }

    /// The step of an instant, in seconds since the stream's start.
    #[must_use]
    pub fn place(&self, t: f64) -> usize {
        (t / self.every_s).clamp(0.0, 2.0 * MOST_STEPS) as usize
    }

    /// Adds figures to a step. Of several the largest values are kept, and about the middle of the
    /// medians.
    pub fn put(&mut self, place: usize, figures: StepFigures) {
        // Holes stay empty: a source that paused has no steps there, and a line must not be drawn
        // through them.
        if self.figures.len() <= place {
            self.figures.resize(place + 1, None);
        }

        let Some(step) = self.figures.get_mut(place) else { return };
        *step = Some(step.map_or(figures, |before| StepFigures {
            min_ns: before.min_ns.min(figures.min_ns),
            // Two medians have no common median without their samples. Minimum, p90 and maximum are
            // taken from the side that does not flatter.
            p50_ns: before.p50_ns.midpoint(figures.p50_ns),
            p90_ns: before.p90_ns.max(figures.p90_ns),
            max_ns: before.max_ns.max(figures.max_ns),
            worst_at: if figures.max_ns > before.max_ns {
                figures.worst_at
            } else {
                before.worst_at
            },
        }));
    }

    fn write(&self, writer: &mut RunWriter) -> Result<(), WriteError> {
        for (i, steps) in self.figures.chunks(STEPS_PER_NOTE).enumerate() {
            if steps.iter().any(Option::is_some) {
                let t = (i * STEPS_PER_NOTE) as f64 * self.every_s;
                writer.note(&Note::Trend(Box::new(Trend::from_steps(
                    self.series,
                    t,
                    self.every_s,
                    steps,
                ))))?;
            }
        }
        Ok(())
    }
}

/// What was counted of one series in one stretch of time.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamPart {
    /// Which series.
    pub series: Series,
    /// Start in seconds since the stream's start; 0 when the source does not say times.
    pub t: f64,
    /// Seconds; 0 when the source does not say.
    pub length: f64,
    /// Samples per value that stands for a cell, in nanoseconds.
    pub cells: BTreeMap<u64, u64>,
    /// Count, extremes, mean and spread as the source reports them.
    pub moments: Option<Moments>,
    /// Seconds per value and the largest values, where the source had shorter intervals than the
    /// run file keeps.
    pub maxima: Option<(f64, Vec<u64>)>,
}

impl StreamPart {
    /// A part without times: all that a histogram holds.
    #[must_use]
    pub const fn untimed(series: Series, length: f64) -> Self {
        Self { series, t: 0.0, length, cells: BTreeMap::new(), moments: None, maxima: None }
    }

    /// A part without times, of a histogram's cells and of what lies beyond them.
    pub(super) fn of_cells(
        series: Series,
        resolution: &Resolution,
        cells: impl IntoIterator<Item = (u64, u64)>,
    ) -> Self {
        let mut part = Self::untimed(series, 0.0);
        let beyond = resolution.beyond.map(|beyond| (beyond.from_ns, beyond.count));
        for (ns, n) in cells.into_iter().chain(beyond) {
            part.count(resolution, ns, n);
        }

        part
    }

    /// Counts samples whose value is `ns` in the source.
    pub fn count(&mut self, resolution: &Resolution, ns: u64, samples: u64) {
        if samples > 0 {
            let counted =
                // By the middle of the source's own bucket, however fine the histogram is that it
                // goes into: 20 µs of cyclictest is 20 to 21 µs.
                self.cells.entry(resolution.representative_ns(ns.min(FARTHEST_NS))).or_insert(0);
            // Counts of a damaged text may be any number.
            *counted = counted.saturating_add(samples);
        }
    }

    fn is_in_range(&self) -> bool {
        let are_in_range = |of: &Moments| {
            of.n <= MOST_SAMPLES
                && of.min_ns.max(of.max_ns) <= FARTHEST_NS
                && of.mean_ns.abs() <= FARTHEST_NS as f64
                && of.m2 <= MOST_FLOAT
        };
        (0.0..=MOST_SECONDS).contains(&self.length)
            && self.t.abs() <= MOST_SECONDS
            && self.maxima.iter().all(|(every_s, _)| EVERY_SECONDS.contains(every_s))
            && self.moments.iter().all(are_in_range)
    }

    /// Number of samples.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.cells.values().fold(0, |all, n| all.saturating_add(*n))
    }

    /// The moments of these cells: extremes and mean are the source's own, the spread is that of the cells'
    /// middles.
    #[must_use]
    pub fn moments_around(&self, resolution: &Resolution, source: SourceFigures) -> Moments {
        let n = self.samples();
        let middle_ns = |ns: u64| resolution.cell(ns).middle_ns();
        // Samples and mean of a source are rounded down, by up to a step each: the spread is around the
        // mean of the middles, unless some are beyond the histogram, where no middle is known.
        let around_ns = if resolution.beyond.is_none_or(|beyond| beyond.count == 0) {
            let sum: f64 = self.cells.iter().map(|(&ns, &n)| middle_ns(ns) * n as f64).sum();
            sum / n.max(1) as f64
        } else {
            source.mean_ns
        };
        let square = |(&ns, &n): (&u64, &u64)| (middle_ns(ns) - around_ns).powi(2) * n as f64;
        let m2: f64 = self.cells.iter().map(square).sum();
        // Samples beyond the histogram may be anywhere up to the maximum, but no spread is wider than
        // mean and extremes allow (Bhatia and Davis, 2000), each of which may be rounded down by a step. A
        // minimum of 0 may be one below it.
        let step_ns = resolution.step_ns as f64;
        let below = source.mean_ns + step_ns - source.min_ns as f64;
        let above = source.max_ns as f64 + step_ns - source.mean_ns;
        let is_bounded = source.min_ns > 0 && below >= 0.0 && above >= 0.0;
        Moments {
            n,
            // A damaged text may state a minimum beyond its maximum.
            min_ns: source.min_ns.min(source.max_ns),
            max_ns: source.max_ns,
            mean_ns: source.mean_ns,
            m2: if is_bounded { m2.min(below * above * n as f64) } else { m2 },
        }
    }

    /// The moments of these cells where the source reports the standard deviation too.
    pub(super) fn moments_with_sd(&self, source: SourceFigures, sd_ns: f64) -> Moments {
        let n = self.samples();
        let SourceFigures { min_ns, max_ns, mean_ns } = source;
        Moments { n, min_ns, max_ns, mean_ns, m2: sd_ns * sd_ns * n as f64 }
    }
}

/// Figures that a source reports beside its histogram, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SourceFigures {
    /// Smallest.
    pub min_ns: u64,
    /// Largest.
    pub max_ns: u64,
    pub mean_ns: f64,
}

/// What stands in the run file beside the stream itself.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportLabels {
    /// The import's own command, as typed.
    pub command: Vec<String>,
    /// The source's file name.
    pub file: String,
    /// The cell of the run file: its name beside other streams, and the load that ran.
    pub cell: Cell,
}

/// Writes a stream's run file.
///
/// # Errors
/// [`WriteError`].
pub fn write(stream: &Stream, labels: &ImportLabels, path: &Path) -> Result<(), WriteError> {
    let header = Header {
        schema: Header::SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        // What was measured is the other tool's command, where its text has it. Ours only converted
        // it.
        command: if stream.command.is_empty() {
            labels.command.clone()
        } else {
            stream.command.clone()
        },
        probe: stream.format.map_or("unknown", Format::tool).to_owned(),
        started_unix_s: stream.started_unix_s,
        host: stream.host.clone(),
        cell: Some(labels.cell.clone()),
        // Period, work and deadline of the loop are unknown, and no default stands in for them: a
        // verdict on a deadline would be invented.
        timing: None,
        ..Header::default()
    };

    let mut writer = RunWriter::create(path, &header)?;
    writer.note(&Note::Import(Box::new(Import {
        format: stream.format.map_or("unknown", Format::word).to_owned(),
        file: labels.file.clone(),
        stream: stream.label.clone(),
        period_ns: stream.period_ns,
        resolution: stream.resolution.clone(),
        missing: stream.missing.clone(),
        early: stream.early.clone(),
        figures_only: stream.figures_only.clone(),
        is_closed_by_a_line: false,
    })))?;
    for sentence in stream.remarks.iter().cloned().chain(stream.figures_in_words()) {
        writer.note(&Note::Remark(Remark { sentence }))?;
    }

    for (place, part) in stream.parts.iter().enumerate() {
        // When they should have come is not known.
        let is_last = place + 1 == stream.parts.len();
        let lost = if is_last { stream.lost.min(MOST_SAMPLES) } else { 0 };
        write_part(part, lost, &mut writer)?;
    }

    if let Some(steps) = &stream.steps {
        steps.write(&mut writer)?;
    }

    writer.sync()
}

fn write_part(part: &StreamPart, lost: u64, writer: &mut RunWriter) -> Result<(), WriteError> {
    let mut counts = empty_counts(part.series);
    for (&ns, &n) in &part.cells {
        // Early wake-ups are negative. They count as the smallest value, and their number and the
        // earliest stand in a remark.
        counts.saturating_record_n(ns.clamp(1, LONGEST_NS), n);
    }

    writer.interval(part.series, &counts, part.t, part.length)?;
    if let Some((every, values)) = &part.maxima {
        let series = BTreeMap::from([(part.series, values.clone())]);
        writer.note(&Note::Maxima(Maxima { t: part.t, every: *every, series }))?;
    }

    if part.moments.is_some() || lost > 0 {
        let interval = Interval {
            t: part.t,
            length: part.length,
            cycles: part.moments.map_or(0, |moments| moments.n),
            lost,
            series: part.moments.into_iter().map(|moments| (part.series, moments)).collect(),
            ..Interval::default()
        };
        writer.note(&Note::Interval(Box::new(interval)))?;
    }

    Ok(())
}
