//! HdrHistogram interval logs: jHiccup's, HistogramLogWriter's, of format versions 1.0 to 1.3, with
//! tags and without.
//!
//! Lines are `[Tag=NAME,]start,length,max,histogram`. What `start` counts from is given by
//! `#[StartTime: ...]` and `#[BaseTime: ...]`, or, where these are missing, found as
//! HistogramLogReader does: a stamp more than a year before the start counts from it.
//!
//! Where a decimal comma was in force, start, length and maximum have one each. A last line that
//! cannot be read was cut off, and costs no other one.
//!
//! Neighbouring intervals are put together as a run file keeps them ([`interval_ns_for`]); the
//! largest value of each stays.

use std::collections::BTreeMap;
use std::io::{BufRead, Read, Seek, SeekFrom};

use super::error::{Error, counted};
use super::format::{Format, SourceOptions};
use super::lines::{Damage, begins};
use super::stream::{Stream, StreamPart, TrendSteps};
use crate::payload::{Decoder, PayloadError, Scale};
use crate::{EVERY_SECONDS, Resolution, Series, StepFigures, interval_ns_for};

const FORMAT: Format = Format::Hlog;
/// Longest line that is read, in bytes.
const LONGEST_LINE: u64 = 16 << 20;
const YEAR_S: f64 = 365.0 * 24.0 * 3600.0;
/// Tags beyond this many would be files beyond this many.
const MOST_TAGS: usize = 256;

/// Whether a line is one interval of a log.
#[must_use]
pub fn is_interval_line(line: &str) -> bool {
    IntervalLine::from_line(line).is_some_and(|fields| {
        fields.histogram.starts_with("HIST") || fields.histogram.starts_with("DHIST")
    })
}

/// One parsed line.
struct IntervalLine<'l> {
    tag: &'l str,
    start: f64,
    length: f64,
    histogram: &'l str,
}

impl<'l> IntervalLine<'l> {
    fn from_line(line: &'l str) -> Option<Self> {
        let (tag, rest) = match line.strip_prefix("Tag=") {
            // A tag ends at the first comma: HdrHistogram's writers forbid commas in tags.
            Some(rest) => rest.split_once(',')?,
            None => ("", line),
        };

        // From the right: a German locale writes `0,127,1,000,2,769,HIST...`, and the payload
        // itself has no comma.
        let (figures, histogram) = rest.rsplit_once(',')?;
        let mut fields = figures.split(',').map(str::trim);
        let commas = figures.matches(',').count();
        let mut number = || {
            let whole = fields.next()?;
            let number = match commas {
                2 => whole.parse(),
                // Three numbers with a decimal comma each.
                5 => format!("{whole}.{}", fields.next()?).parse(),
                _ => return None,
            };
            number.ok().filter(|n: &f64| n.is_finite())
        };
        let start = number()?;
        let length = number()?;
        let _max = number()?;
        Some(Self { tag, start, length, histogram: histogram.trim() })
    }
}

/// One stream per tag.
///
/// # Errors
/// [`Error`].
pub fn read(file: &mut (impl BufRead + Seek), asked: &SourceOptions) -> Result<Vec<Stream>, Error> {
    let mut clock = LogClock::default();
    let mut is_jhiccup = false;
    let lines = each_line(file, |line, number| match line.strip_prefix('#') {
        Some(comment) => {
            // Only its head tells that the values are hiccups. The lines look like those of any
            // log.
            is_jhiccup |= comment.contains("jHiccup");
            clock.comment(comment);
            Ok(())
        }
        None => {
            // What is damaged is met in the second pass.
            let Ok(fields) = interval(line) else { return Ok(()) };
            if clock.is_of_another_run(&fields) {
                return Err(Error::second_run(FORMAT, number));
            }
            clock.take_in(&fields);
            Ok(())
        }
    })?;

    if clock.intervals == 0 {
        let advice = "it needs lines of start, length, maximum and histogram";
        return Err(Error::NoHistogram { format: FORMAT, lines, advice });
    }

    file.seek(SeekFrom::Start(0))?;
    let unit_ns = asked.whole_unit_ns(1.0, (FORMAT, 1))?;
    let default_series = if is_jhiccup { Series::Hiccup } else { Series::Recorded };
    let mut counting = IntervalMerger::new(&clock, unit_ns, asked.series.unwrap_or(default_series));
    let mut damage = Damage::new(asked);
    let mut before = 0_u64;
    each_line(file, |line, number| {
        if line.starts_with('#') {
            return Ok(());
        }

        // A log whose writer was killed ends in the middle of a line: cut off, not damaged, as long
        // as something stands before it.
        let counted = interval(line).and_then(|fields| counting.line(&fields));
        match counted {
            Ok(()) => before += 1,
            Err(reason) if number == lines && before > 0 => damage.cut(number, reason),
            Err(reason) => damage.meet(number, reason, (FORMAT, before, "intervals"))?,
        }
        Ok(())
    })?;
    let mut streams = counting.finish(lines)?;
    let parts = streams.iter().flat_map(|stream| &stream.parts);
    let samples = parts.map(StreamPart::samples).fold(0_u64, u64::saturating_add);
    let per_line = samples.div_ceil(before.max(1));
    for stream in &mut streams {
        stream.started_unix_s = clock.started_unix_s();
        stream.remarks = damage.sentences();
        if damage.lines() > 0 {
            // Of which tag they were is not known.
            stream.lost = damage.lines().saturating_mul(per_line);
            stream.remarks.push(format!(
                "a damaged line counts as {}, the mean of the others",
                counted(per_line, "lost samples")
            ));
        }
        stream.lacks(
            "skipped releases, the machine and the command: an interval log does not hold them",
        );
        stream.lacks(
            "order and times within an interval, and exact means: computed from the histogram's buckets",
        );
        if asked.unit_ns.is_none() {
            stream.lacks("the unit: nanoseconds assumed, as HdrHistogram's writers use (--unit)");
        }
        if stream.parts.iter().any(|part| part.series == Series::Recorded) {
            stream.lacks("what the values are: the log does not say, and --as was not given");
        }
        if clock.start_s.is_none() {
            stream.lacks("the start: the log has no StartTime; its first time stamp is used");
        }
    }

    Ok(streams)
}

/// The fields of a line, or what is wrong with it.
fn interval(line: &str) -> Result<IntervalLine<'_>, String> {
    let fields = IntervalLine::from_line(line).ok_or_else(|| {
        format!("`{}` is not an interval: start, length, maximum, histogram", begins(line))
    })?;

    if fields.length < 0.0 {
        return Err(format!("an interval of {} s", fields.length));
    }

    Ok(fields)
}

/// Calls `take` with every comment and interval, and its number; returns how many lines there are.
fn each_line(
    file: &mut impl BufRead,
    mut take: impl FnMut(&str, usize) -> Result<(), Error>,
) -> Result<usize, Error> {
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        if file.by_ref().take(LONGEST_LINE + 1).read_until(b'\n', &mut bytes)? == 0 {
            return Ok(number - 1);
        }

        if bytes.len() as u64 > LONGEST_LINE {
            let reason =
                format!("longer than {} MiB, the limit for a histogram line", LONGEST_LINE >> 20);
            return Err(Error::line(FORMAT, number, reason));
        }

        let line = String::from_utf8_lossy(&bytes);
        let line = line.trim_start_matches('\u{feff}').trim();
        if !line.is_empty() && !line.starts_with('"') {
            take(line, number)?;
        }
    }

    Ok(0)
}

/// What the stamps count from, and how far they reach.
#[derive(Default)]
struct LogClock {
    start_s: Option<f64>,
    base_s: Option<f64>,
    first_s: f64,
    end_s: f64,
    intervals: u64,
    /// Whether the head of a log follows intervals, and none that one: logs that were put together.
    is_headed_again: bool,
}

impl LogClock {
    fn comment(&mut self, comment: &str) {
        let seconds = |name: &str| {
            let rest = comment.split_once(name)?.1.trim_start();
            let word = rest.split(|c: char| !(c.is_ascii_digit() || c == '.')).next()?;
            word.parse::<f64>().ok().filter(|s| s.is_finite())
        };
        self.is_headed_again |= self.intervals > 0 && comment.contains("[StartTime:");
        if let Some(start) = seconds("[StartTime:") {
            self.start_s = Some(start);
        } else if let Some(base) = seconds("[BaseTime:") {
            self.base_s = Some(base);
        }
    }

    /// Whether the first interval below a second head counts its time again. Those after it may
    /// have the same time with another tag.
    fn is_of_another_run(&self, fields: &IntervalLine<'_>) -> bool {
        self.is_headed_again && fields.start + fields.length <= self.end_s
    }

    fn take_in(&mut self, fields: &IntervalLine<'_>) {
        self.first_s =
            if self.intervals == 0 { fields.start } else { self.first_s.min(fields.start) };
        self.end_s = if self.intervals == 0 {
            fields.start + fields.length
        } else {
            self.end_s.max(fields.start + fields.length)
        };

        self.intervals += 1;
        self.is_headed_again = false;
    }

    /// Wall clock of the first stamp, in seconds since 1970, 0 where it is not known.
    fn started_unix_s(&self) -> f64 {
        let start = self.start_s.unwrap_or(0.0);
        // The format lets stamps be seconds since the start or since 1970, and states BaseTime for
        // it; many writers leave it out. Stamps a year before the start can only be relative.
        let base = self.base_s.unwrap_or(if self.first_s < start - YEAR_S { start } else { 0.0 });
        let absolute = self.first_s + base;
        // A date between 1973 and 5138. Anything else is a counter, and a run does not claim a date
        // it does not know.
        if (1e8..1e11).contains(&absolute) { absolute } else { 0.0 }
    }

    fn length_s(&self) -> f64 {
        self.end_s - self.first_s
    }
}

/// Puts intervals together, tag by tag.
struct IntervalMerger {
    decoder: Decoder,
    first_s: f64,
    /// A run file's interval, in seconds.
    interval_s: f64,
    length_s: f64,
    unit_ns: u64,
    default_series: Series,
    tags: BTreeMap<String, Tag>,
}

/// A tag that is being counted.
struct Tag {
    series: Series,
    scale: Option<Scale>,
    resolution: Option<Resolution>,
    /// Counts by place, of the part in the making.
    counts: Vec<u64>,
    part: StreamPart,
    index: u64,
    /// Length of the source's intervals, in seconds.
    every_s: f64,
    /// Counts by place, of one line, and how its places stand for values.
    line: Vec<(usize, u64)>,
    line_scale: Option<Scale>,
    steps: Option<TrendSteps>,
    parts: Vec<StreamPart>,
}

impl IntervalMerger {
    fn new(clock: &LogClock, unit_ns: u64, default_series: Series) -> Self {
        let length_ns = (clock.length_s().clamp(0.0, 1e9) * 1e9) as u64;
        let interval_s = interval_ns_for(length_ns) as f64 / 1e9;
        Self {
            decoder: Decoder::default(),
            first_s: clock.first_s,
            interval_s,
            length_s: clock.length_s(),
            unit_ns,
            default_series,
            tags: BTreeMap::new(),
        }
    }

    /// Counts an interval, or says what is wrong with it; then nothing of it is counted.
    fn line(&mut self, fields: &IntervalLine<'_>) -> Result<(), String> {
        let t = fields.start - self.first_s;
        if !self.tags.contains_key(fields.tag) {
            if self.tags.len() == MOST_TAGS {
                return Err(format!("more than {MOST_TAGS} tags"));
            }
            let series = Series::from_tag(fields.tag).unwrap_or(self.default_series);
            self.tags.insert(fields.tag.to_owned(), Tag::new(series, fields.length, self.length_s));
        }

        let Some(tag) = self.tags.get_mut(fields.tag) else { return Ok(()) };
        tag.decode(&mut self.decoder, fields.histogram).map_err(|why| why.to_string())?;
        // Stamps are rounded to milliseconds: half an interval of the source belongs to the next
        // part.
        let index = ((t + tag.every_s / 2.0) / self.interval_s).max(0.0) as u64;
        // Intervals of a second are merged to the length that a run of this duration would have.
        if index != tag.index || fields.length >= self.interval_s {
            tag.close(self.unit_ns);
            tag.index = index;
            tag.part.t = t;
        }

        tag.part.length = tag.part.length.max(t + fields.length - tag.part.t);
        // Kept line by line where the maxima of seconds are wanted: merging keeps counts, not
        // times.
        let largest = tag.count_line(self.unit_ns);
        if fields.length < self.interval_s && EVERY_SECONDS.contains(&tag.every_s) {
            let place = ((t - tag.part.t) / tag.every_s).round().max(0.0) as usize;
            tag.maximum(place, largest);
        }

        tag.step(t + fields.length / 2.0, self.unit_ns);
        Ok(())
    }

    fn finish(self, lines: usize) -> Result<Vec<Stream>, Error> {
        let unit_ns = self.unit_ns;
        let several = self.tags.len() > 1;
        let stream = |(name, mut tag): (String, Tag)| {
            tag.close(unit_ns);
            let label = match several {
                true if name.is_empty() => "untagged".to_owned(),
                // One tag that is a series says nothing that the series does not.
                false if Series::from_tag(&name).is_some() => String::new(),
                _ => name,
            };

            Stream {
                label,
                resolution: tag.resolution.map(|of| (tag.series, of)).into_iter().collect(),
                parts: tag.parts,
                steps: tag.steps.filter(|steps| steps.figures.len() > 1),
                ..Stream::default()
            }
        };

        let streams: Vec<Stream> =
            self.tags.into_iter().map(stream).filter(|stream| !stream.parts.is_empty()).collect();
        if streams.is_empty() {
            let advice = "none of its histograms holds a sample";
            return Err(Error::NoHistogram { format: FORMAT, lines, advice });
        }

        Ok(streams)
    }
}

impl Tag {
    fn new(series: Series, every_s: f64, length_s: f64) -> Self {
        Self {
            series,
            line: Vec::new(),
            line_scale: None,
            steps: TrendSteps::new(series, every_s, length_s),
            scale: None,
            resolution: None,
            counts: Vec::new(),
            part: StreamPart::untimed(series, 0.0),
            index: 0,
            every_s,
            parts: Vec::new(),
        }
    }

    /// Decodes a line's histogram; counts nothing yet.
    fn decode(&mut self, decoder: &mut Decoder, histogram: &str) -> Result<(), PayloadError> {
        let encoded = decoder.decode(histogram.as_bytes())?;
        self.line_scale = Some(encoded.scale);
        let line = &mut self.line;
        line.clear();
        encoded.counts(|index, n| line.push((index, n)))
    }

    /// Counts the line that was decoded last; its largest value in nanoseconds, 0 without one.
    fn count_line(&mut self, unit_ns: u64) -> u64 {
        let Some(scale) = self.line_scale else { return 0 };
        if self.scale != Some(scale) {
            // A writer that changed its mind: what was counted goes first, then its cells are those
            // of both.
            // The cells of the other scale, before the new one decides what a place means.
            self.empty_counts(unit_ns);
            self.scale = Some(scale);
            let resolution = scale.resolution(unit_ns);
            self.resolution = Some(match self.resolution.take() {
                Some(before) => coarser(&before, &resolution),
                None => resolution,
            });
        }

        for &(index, n) in &self.line {
            if self.counts.len() <= index {
                self.counts.resize(index + 1, 0);
            }
            self.counts[index] = self.counts[index].saturating_add(n);
        }

        let largest = self.line.last().and_then(|(index, _)| scale.bucket(*index));
        largest.map_or(0, |bucket| bucket.high_ns().saturating_mul(unit_ns))
    }

    /// Moves counts into the cells of the part.
    fn empty_counts(&mut self, unit_ns: u64) {
        let Some(scale) = self.scale else { return };
        let resolution = scale.resolution(unit_ns);
        for (index, n) in self.counts.iter_mut().enumerate().filter(|(_, n)| **n > 0) {
            if let Some(bucket) = scale.bucket(index) {
                self.part.count(&resolution, bucket.low_ns.saturating_mul(unit_ns), *n);
            }
            *n = 0;
        }
    }

    fn maximum(&mut self, place: usize, largest_ns: u64) {
        let every_s = self.every_s;
        let (_, maxima) = self.part.maxima.get_or_insert_with(|| (every_s, Vec::new()));
        // An interval is at most 300 s; a wrong time stamp must not make a long list.
        if place < 1024 {
            maxima.resize(maxima.len().max(place + 1), 0);
            maxima[place] = maxima[place].max(largest_ns);
        }
    }

    /// The figures of the line that was decoded last, for the step of its middle.
    fn step(&mut self, t: f64, unit_ns: u64) {
        let (Some(scale), Some(steps)) = (self.scale, &mut self.steps) else { return };
        let samples = self.line.iter().fold(0_u64, |all, (_, n)| all.saturating_add(*n));
        let value = |share: f64| {
            // At least the first sample: the share 0 asks for the minimum.
            let rank = (share * samples as f64).max(1.0);
            let mut below = 0.0;
            let reached = self.line.iter().find(|(_, n)| {
                below += *n as f64;
                below >= rank
            });

            let bucket = scale.bucket(reached?.0)?;
            Some(bucket.low_ns.midpoint(bucket.high_ns()).saturating_mul(unit_ns))
        };

        let figures = [0.0, 0.5, 0.9, 1.0].map(value);
        if let [Some(min_ns), Some(p50_ns), Some(p90_ns), Some(max_ns)] = figures {
            let place = steps.place(t);
            steps.put(place, StepFigures { min_ns, p50_ns, p90_ns, max_ns, worst_at: None });
        }
    }

    /// Ends a part and begins the next one.
    fn close(&mut self, unit_ns: u64) {
        self.empty_counts(unit_ns);
        let part = std::mem::replace(&mut self.part, StreamPart::untimed(self.series, 0.0));
        if !part.cells.is_empty() {
            self.parts.push(part);
        }
    }
}

/// Cells that hold the cells of both.
fn coarser(a: &Resolution, b: &Resolution) -> Resolution {
    let sub_buckets = a.doubles_from.unwrap_or(2).min(b.doubles_from.unwrap_or(2));
    Resolution::doubling(a.step_ns.max(b.step_ns), sub_buckets)
}
