//! Text of the latency tests of Xenomai and RTAI: lines per second, histograms, closing figures.
//!
//! `RTH` names the columns, each `RTD` has smallest, mean and largest latency of a second, `RTS` has
//! those of the whole run. Xenomai's `HSD|avg|` rows (`-h`, `-H`) count every sample, and a file for
//! gnuplot (`-g`, `-H`) has rows of a bucket's middle and its count plus one, for a logarithmic axis,
//! between two rows of 1 at the outer ends. Latencies may be below 0: both anticipate the timer's own
//! latency. Xenomai 4 (EVL) prints the same lines with its `latmus`, whose file for gnuplot has rows
//! of where a bucket of 1 µs begins, the last one with a `+` where it holds what is longer as well.

use std::io::BufRead;

use super::error::{Error, counted};
use super::format::{Format, SourceOptions};
use super::lines::{Damage, Line, PassedOver, begins_with, each_line};
use super::rt_text;
use super::stated::{self, Stated};
use super::stream::{Stream, StreamPart};
use crate::{Beyond, Early, Resolution, Series};

/// Width of Xenomai's buckets (`-B`), in nanoseconds, where nothing says another one.
const BUCKET_NS: f64 = 1_000.0;

struct LatencyText {
    format: Format,
    unit_ns: f64,
    /// Names of the columns after `RTH`.
    columns: Vec<String>,
    /// Smallest, mean and largest of the lines so far.
    seconds: u64,
    over_all: [f64; 3],
    mean_sum: f64,
    closing: Option<[f64; 3]>,
    /// Whether the line that ends a run was read.
    is_ended: bool,
    /// Begin of a bucket, its end, both in nanoseconds, and its count.
    buckets: Vec<(i64, i64, u64)>,
    /// Middles of a file for gnuplot, in microseconds, and their counts.
    middles: Vec<(f64, u64)>,
    is_gnuplot: bool,
    is_latmus: bool,
    overruns: u64,
    /// Switches of the task out of real-time mode.
    switches: u64,
    period_us: Option<u64>,
    priority: Option<u64>,
    in_timer_handler: bool,
    passed_over: PassedOver,
    damage: Damage,
}

/// One stream.
///
/// # Errors
/// [`Error`].
pub fn read(
    file: &mut impl BufRead,
    (format, asked): (Format, &SourceOptions),
) -> Result<Vec<Stream>, Error> {
    let mut text = LatencyText::new(format, asked);
    each_line(file, |line| text.line(line))?;
    text.buckets_of_gnuplot();
    let stated = text.stated();
    if text.buckets.is_empty() && stated.is_none() {
        return Err(Error::nothing(format, "no line RTD or RTS holds figures"));
    }

    Ok(vec![text.stream(stated)])
}

impl LatencyText {
    fn new(format: Format, asked: &SourceOptions) -> Self {
        Self {
            format,
            // Xenomai's `latency` prints microseconds, RTAI's testsuite nanoseconds, under the same
            // column names.
            unit_ns: if format == Format::Rtai { 1.0 } else { 1e3 },
            columns: Vec::new(),
            seconds: 0,
            // Of an empty text minimum stays above maximum, and no figure comes of it.
            over_all: [f64::INFINITY, 0.0, f64::NEG_INFINITY],
            mean_sum: 0.0,
            closing: None,
            is_ended: false,
            buckets: Vec::new(),
            middles: Vec::new(),
            is_gnuplot: false,
            is_latmus: false,
            overruns: 0,
            switches: 0,
            period_us: None,
            priority: None,
            in_timer_handler: false,
            passed_over: PassedOver::default(),
            damage: Damage::new(asked),
        }
    }

    fn line(&mut self, line: &Line<'_>) -> Result<(), Error> {
        let text = line.text.trim();
        if self.is_ended && begins_with(text, &["RTD|", "HSD|"]) {
            return Err(Error::second_run(self.format, line.number));
        } else if let Some(columns) = text.strip_prefix("RTH|") {
            self.columns = names(columns);
        } else if let Some(figures) = text.strip_prefix("RTD|") {
            self.second(figures, line)?;
        // The closing line is cut off most often: it is written at the end, when a user has already
        // closed the terminal.
        } else if let Some(figures) = text.strip_prefix("RTS|").filter(|_| line.has_end) {
            self.is_ended = true;
            self.closing = self.three(figures).or(self.closing);
            self.count_events(figures);
        } else if let Some(row) = text.strip_prefix("HSD|") {
            self.bucket(row, line)?;
        } else if let Some(comment) = text.strip_prefix('#') {
            self.comment(comment.trim());
        } else if self.is_gnuplot && text.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            self.middle(text, line)?;
        } else if !self.is_known(text) {
            self.passed_over.count(line);
        }

        Ok(())
    }

    fn is_known(&mut self, text: &str) -> bool {
        if let Some(period) = text.strip_prefix("== Sampling period: ") {
            self.period_us = period.split_whitespace().next().and_then(|word| word.parse().ok());
        }
        if text.starts_with("RTT|") {
            self.described_by(text);
        }
        if text.contains("in microseconds") {
            self.unit_ns = 1e3;
        }
        if text.contains("in nanoseconds") {
            self.unit_ns = 1.0;
        }

        let known = ["==", "RTT|", "---|", "HSH|", "HSS|", "warming up", "RTAI Testsuite"];
        begins_with(text, &known)
    }

    /// `(periodic user-mode task, 100 us period, priority 99)`, `(irq, 1000 us period, CPU1)`.
    fn described_by(&mut self, text: &str) {
        let inner = text.rsplit_once('(').map_or("", |(_, inner)| inner);
        let mut parts = inner.trim_end_matches(')').split(", ");
        self.in_timer_handler = parts.next().is_some_and(is_of_interrupt);
        for part in parts {
            if let Some(priority) = part.strip_prefix("priority ") {
                self.priority = priority.trim().parse().ok();
            } else if let Some(period) = part.strip_suffix(" us period") {
                self.period_us = period.trim().parse().ok();
            }
        }
    }

    /// Comments of a file for gnuplot.
    fn comment(&mut self, comment: &str) {
        if comment.contains(" period, priority ") {
            self.is_gnuplot = true;
            self.described_by(comment);
        } else if comment.contains("lat min|") {
            self.columns = names(comment);
        } else if comment.contains('|') {
            self.closing = self.three(comment);
            self.count_events(comment);
        } else if let Some((name, value)) = comment.split_once(": ") {
            self.comment_of_latmus(name, value.split_whitespace().next().unwrap_or_default());
        }
    }

    /// Comments of latmus, the latency test of Xenomai 4.
    fn comment_of_latmus(&mut self, name: &str, value: &str) {
        let figures = ["min latency", "avg latency", "max latency"];
        match name {
            "libevl version" => (self.is_gnuplot, self.is_latmus) = (true, true),
            _ if !self.is_latmus => {}
            "sampling period" => self.period_us = value.parse().ok(),
            "context" => self.in_timer_handler = is_of_interrupt(value),
            "OVERRUNS" => self.overruns = value.parse().unwrap_or(0),
            "IN-BAND SWITCHES" => self.switches = value.parse().unwrap_or(0),
            "thread priority" => self.priority = value.parse().ok(),
            _ => {
                let place = figures.iter().position(|figure| *figure == name);
                let figure = value.parse().ok().filter(|n: &f64| n.is_finite());
                if let (Some(place), Some(figure)) = (place, figure) {
                    self.closing.get_or_insert_default()[place] = figure;
                }
            }
        }
    }

    /// Smallest, mean and largest latency of a row.
    fn three(&self, row: &str) -> Option<[f64; 3]> {
        const NAMES: [&str; 3] = ["lat min", "lat avg", "lat max"];
        let fields: Vec<&str> = row.split('|').map(str::trim).collect();
        let default = NAMES.map(str::to_owned);
        let columns = if self.columns.is_empty() { &default[..] } else { &self.columns[..] };
        let mut found = [0.0; 3];
        for (figure, name) in found.iter_mut().zip(NAMES) {
            // By name: versions of `latency` differ in the columns between them.
            let place = columns.iter().position(|column| column == name)?;
            *figure = fields.get(place)?.parse().ok().filter(|n: &f64| n.is_finite())?;
        }

        // A line of two seconds that were written over each other has parseable numbers in the
        // wrong order.
        (found[0] <= found[2]).then_some(found)
    }

    fn count_events(&mut self, row: &str) {
        let stated = |name: &str| {
            let place = self.columns.iter().position(|column| column.starts_with(name))?;
            row.split('|').nth(place)?.trim().parse::<u64>().ok()
        };
        // These columns count from the start of the run, not per second.
        let (overruns, switches) = (stated("overrun"), stated("msw"));
        self.overruns = self.overruns.max(overruns.unwrap_or(0));
        self.switches = self.switches.max(switches.unwrap_or(0));
    }

    fn second(&mut self, figures: &str, line: &Line<'_>) -> Result<(), Error> {
        // A line that lacks its last columns may have lost digits of the one before.
        let is_whole = figures.split('|').count() >= self.columns.len();
        let read = self.three(figures);
        let Some([min, mean, max]) = read.filter(|_| is_whole) else {
            let reason = format!("`{}` is not a line of figures", line.text.trim());
            let before = (self.format, self.seconds, "lines of figures");
            return self.damage.unread(line, reason, before);
        };

        self.count_events(figures);
        self.seconds += 1;
        self.over_all[0] = self.over_all[0].min(min);
        self.over_all[2] = self.over_all[2].max(max);
        // The mean of seconds, where the closing line with the mean of all samples is missing; its
        // remark says so.
        self.mean_sum += mean;
        Ok(())
    }

    /// `  avg| 0 - 1 |  9953`.
    fn bucket(&mut self, row: &str, line: &Line<'_>) -> Result<(), Error> {
        let fields: Vec<&str> = row.split('|').map(str::trim).collect();
        let damaged = || {
            let reason = format!("`{}` is not a bucket of a histogram", line.text.trim());
            Error::line(self.format, line.number, reason)
        };
        let (kind, bounds, count) = match fields.as_slice() {
            [kind, bounds, count] => (*kind, *bounds, *count),
            _ if !line.has_end => {
                self.damage.cut(line.number, "a bucket of the histogram".to_owned());
                return Ok(());
            }
            _ => return Err(damaged()),
        };
        // Those of smallest and largest latencies are of seconds, not of samples.
        if kind != "avg" {
            return Ok(());
        }

        let low = bounds.split_once('-').and_then(|(low, _)| low.trim().parse::<u32>().ok());
        let (Some(low), Ok(count)) = (low, count.parse()) else { return Err(damaged()) };
        let begin = f64::from(low) * BUCKET_NS;
        self.buckets.push((begin as i64, (begin + BUCKET_NS) as i64, count));
        Ok(())
    }

    fn middle(&mut self, text: &str, line: &Line<'_>) -> Result<(), Error> {
        let mut words = text.split_whitespace();
        // A `+` of latmus: the last bucket holds what is longer as well.
        let first = words.next().and_then(|word| word.trim_end_matches('+').parse::<f64>().ok());
        let middle = first.map(|us| if self.is_latmus { us + 0.5 } else { us });
        let count = words.next().and_then(|word| word.trim_end_matches('+').parse().ok());
        let rest = words.next().filter(|word| *word != "+");
        match (middle.filter(|us| us.abs() < 1e9), count, rest) {
            (Some(middle), Some(count), None) => {
                if self.middles.last().is_some_and(|(before, _)| *before >= middle) {
                    let reason = format!("the row {middle} comes after a later one");
                    return Err(Error::line(self.format, line.number, reason));
                }
                self.middles.push((middle, count));
                Ok(())
            }
            _ if !line.has_end => {
                self.damage.cut(line.number, format!("`{text}`"));
                Ok(())
            }
            _ => {
                let reason = format!("`{text}` is not a bucket's middle and its count");
                Err(Error::line(self.format, line.number, reason))
            }
        }
    }

    /// Buckets from their middles: the least distance is their width. Rows of 1 at the outer ends of
    /// the first and the last bucket hold no sample, and where they are each count is one too many.
    fn buckets_of_gnuplot(&mut self) {
        let first = match self.middles.as_slice() {
            [end, inner, ..] => width_at_end(*end, *inner),
            _ => None,
        };
        let last = match self.middles.as_slice() {
            [.., inner, end] => width_at_end(*end, *inner),
            _ => None,
        };
        if last.is_some() {
            self.middles.pop();
        }
        if first.is_some() {
            self.middles.remove(0);
        }
        let raised = u64::from(first.or(last).is_some());

        let distances = self.middles.windows(2).map(|pair| pair[1].0 - pair[0].0);
        let width_us = first.or(last).unwrap_or_else(|| distances.fold(f64::INFINITY, f64::min));
        let is_known = width_us.is_finite() && !self.is_latmus;
        let width_us = if is_known { width_us } else { BUCKET_NS / 1e3 };
        let bucket = |(middle, count): &(f64, u64)| {
            let begin = ((middle - width_us / 2.0) * 1e3).round() as i64;
            let end = ((middle + width_us / 2.0) * 1e3).round() as i64;
            (begin, end, count.saturating_sub(raised))
        };
        let buckets = self.middles.iter().map(bucket).filter(|(_, _, count)| *count > 0);
        self.buckets.extend(buckets);
    }

    fn stated(&self) -> Option<Stated> {
        let figures = self.closing.or_else(|| {
            let [min, _, max] = self.over_all;
            (self.seconds > 0).then(|| [min, self.mean_sum / self.seconds as f64, max])
        });
        Stated::in_units(None, figures?, self.unit_ns)
    }

    fn series(&self) -> Series {
        if self.in_timer_handler { Series::InterruptLatency } else { Series::WakeupLatency }
    }

    fn stream(&self, stated: Option<Stated>) -> Stream {
        let mut stream = Stream::default();
        match stated {
            Some(stated) if self.buckets.is_empty() => {
                // RTAI and Xenomai print whole nanoseconds.
                stated.put_into(&mut stream, self.series(), 1);
            }
            _ => self.histogram_into(&mut stream, stated),
        }

        stream.period_ns = self.period_us.and_then(|us| us.checked_mul(1_000)).filter(|ns| *ns > 0);
        if let Some(priority @ 1..) = self.priority {
            rt_text::describe_scheduling(&mut stream, None, Some(priority));
        }
        if self.overruns > 0 {
            stream.lost = self.overruns;
            stream.remarks.push(format!(
                "{}: releases that the task missed, which are in no figure",
                counted(self.overruns, "overruns")
            ));
        }

        if self.switches > 0 {
            stream.remarks.push(format!(
                "{} switches of the task out of real-time mode: latencies may come from these",
                self.switches
            ));
        }

        stream.lacks("the machine, the start and the command: the text does not hold them");
        if self.closing.is_some() {
            // The closing line has the extremes of all.
            stream.remarks.extend(self.damage.sentences());
        } else {
            stream.lost_lines(&self.damage);
        }
        stream.remarks.extend(self.passed_over.sentence(self.format.tool()));
        stream
    }

    fn histogram_into(&self, stream: &mut Stream, stated: Option<Stated>) {
        let width = self.buckets.iter().map(|(begin, end, _)| end - begin).min().unwrap_or(1);
        let step_ns = u64::try_from(width).unwrap_or(1).max(1);
        let last = self.buckets.last().copied().unwrap_or_default();
        // The last bucket holds all that is longer.
        let beyond = stated.filter(|of| of.max_ns >= last.1).map(|of| Beyond {
            from_ns: last.0.max(0).unsigned_abs(),
            to_ns: of.floor_ns().1,
            count: last.2,
        });
        let resolution = Resolution { beyond, ..Resolution::even(step_ns) };
        let mut part = StreamPart::untimed(self.series(), 0.0);
        let mut early = Early { count: Some(0), earliest_ns: 0 };
        for &(begin, end, count) in &self.buckets {
            part.count(&resolution, begin.max(0).unsigned_abs(), count);
            if end <= 0 {
                early.count = early.count.map(|n| n.saturating_add(count));
                early.earliest_ns = early.earliest_ns.max(begin.unsigned_abs());
            }
        }

        if let Some(stated) = stated {
            part.moments = Some(stated::moments(&part, &resolution, stated));
            if stated.min_ns < 0 {
                early.earliest_ns = stated.min_ns.unsigned_abs();
                early.count = early.count.filter(|n| *n > 0);
            }
        }
        if early.earliest_ns > 0 {
            stream.early.insert(part.series, early);
            if early.count.is_none() {
                stream.lacks(
                    "how many latencies are negative: Xenomai's histogram counts them by their absolute value",
                );
            }
        }

        stream.lacks("order and times of the samples: no figures over time and no intervals");
        if self.middles.is_empty() {
            stream.lacks("the width of a bucket: 1 us assumed, the default of Xenomai's -B");
        }
        stream.put(part, resolution);
    }
}

/// Whether a mode of Xenomai's `latency`, or a context of latmus, is a timer's handler.
fn is_of_interrupt(mode: &str) -> bool {
    mode.contains("timer handler") || ["irq", "sirq"].contains(&mode)
}

/// The width of buckets, where a row of 1 is at the outer end of a bucket: half a width from its
/// middle, and at a multiple of the width. No middle is.
fn width_at_end(end: (f64, u64), inner: (f64, u64)) -> Option<f64> {
    let width = (end.0 - inner.0).abs() * 2.0;
    let place = end.0 / width;
    (end.1 == 1 && width > 0.0 && (place - place.round()).abs() < 1e-6).then_some(width)
}

/// Names of columns: `----lat min|----lat avg|`.
fn names(columns: &str) -> Vec<String> {
    let name = |column: &str| column.trim_matches(['-', ' ']).to_owned();
    columns.trim_end_matches('|').split('|').map(name).collect()
}
