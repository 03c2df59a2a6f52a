//! Samples one per line: a value alone, or with its time, in columns that commas, semicolons, tabs
//! or blanks part.
//!
//! A first line that holds no numbers names the columns, and may name their units: `latency_us`,
//! `time (s)`. The number of decimals shows how finely the source counted.

use std::collections::BTreeMap;
use std::io::{BufRead, Read, Seek, SeekFrom};

use super::error::Error;
use super::format::{Format, SourceOptions, to_ns};
use super::stream::{Stream, StreamPart, TrendSteps};
use crate::record::{Moments, Resolution, Series, StepFigures, interval_ns_for};

const FORMAT: Format = Format::Csv;
/// Longer lines are no samples.
const LONGEST_LINE: usize = 4096;
/// Steps of an interval, a step's length at most, and the samples it has at least, as in onbeat's
/// own runs.
const STEPS_PER_INTERVAL: f64 = 10.0;
const LONGEST_STEP_S: f64 = 1.0;
const LEAST_PER_STEP: f64 = 10.0;

/// Whether a line is one of samples, or the names of its columns.
#[must_use]
pub fn is_samples(line: &str) -> bool {
    let fields = fields(line);
    let numeric = fields.iter().all(|field| field.parse::<f64>().is_ok());
    let is_name = |field: &&str| {
        unit_in(field).is_some() || is_time(field) || series_in(field).is_some() || is_plain(field)
    };
    let names = fields.iter().all(is_name);
    !fields.is_empty() && (numeric || names)
}

/// One stream.
///
/// # Errors
/// [`Error`].
pub fn read(file: &mut (impl BufRead + Seek), asked: &SourceOptions) -> Result<Vec<Stream>, Error> {
    let mut extent = FileExtent::default();
    let mut columns = None;
    each_line(file, |line, number| {
        if columns.is_none() {
            columns = Some(Columns::from_line(line, number, asked)?);
            if columns.as_ref().is_some_and(|columns| columns.has_names) {
                return Ok(());
            }
        }

        let Some(columns) = &columns else { return Ok(()) };
        extent.take_in(&columns.sample(line, number)?);
        Ok(())
    })?;

    let Some(columns) = columns.filter(|_| extent.samples > 0) else {
        return Err(Error::NoHistogram {
            format: FORMAT,
            lines: extent.lines,
            advice: "it needs one value per line",
        });
    };
    file.seek(SeekFrom::Start(0))?;
    let mut counting = SampleCounter::new(&columns, &extent, asked);
    each_line(file, |line, number| {
        if number == columns.line && columns.has_names {
            return Ok(());
        }
        counting.count(&columns.sample(line, number)?);
        Ok(())
    })?;

    Ok(vec![counting.finish(&columns, &extent)])
}

/// Calls `take` with every line that says something, and its number.
fn each_line(
    file: &mut impl BufRead,
    mut take: impl FnMut(&str, usize) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        // A line without an end is cut where it is too long already.
        if file.by_ref().take(2 * LONGEST_LINE as u64).read_until(b'\n', &mut bytes)? == 0 {
            break;
        }

        let text = std::str::from_utf8(&bytes)
            .map_err(|_| Error::line(FORMAT, number, "not UTF-8 text"))?
            .trim();
        if text.len() > LONGEST_LINE {
            return Err(Error::line(
                FORMAT,
                number,
                format!("{} bytes; a line of samples has at most {LONGEST_LINE}", text.len()),
            ));
        }

        if !text.is_empty() && !text.starts_with('#') {
            take(text, number)?;
        }
    }

    Ok(())
}

fn fields(line: &str) -> Vec<&str> {
    let separator = [',', ';', '\t'].into_iter().find(|separator| line.contains(*separator));
    match separator {
        Some(separator) => line.split(separator).map(unquoted).collect(),
        None if line.starts_with('"') || line.contains('(') => vec![unquoted(line)],
        None => line.split_whitespace().collect(),
    }
}

fn unquoted(field: &str) -> &str {
    field.trim().trim_matches('"').trim()
}

/// Nanoseconds per unit, of a column's name: `latency_us`, `time [ms]`, `latency(ns)`.
fn unit_in(name: &str) -> Option<f64> {
    let word = name.trim_end_matches([')', ']']).rsplit(['_', ' ', '(', '[', '/']).next()?;
    match word {
        "ns" => Some(1.0),
        "us" | "µs" | "usec" => Some(1e3),
        "ms" | "msec" => Some(1e6),
        "s" | "sec" | "seconds" => Some(1e9),
        _ => None,
    }
}

fn is_time(name: &str) -> bool {
    let bare = name.to_ascii_lowercase();
    ["time", "timestamp", "t", "ts"].iter().any(|word| {
        bare.strip_prefix(word)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['_', ' ', '(', '[']))
    })
}

/// Names that columns of samples have without saying more.
fn is_plain(name: &str) -> bool {
    ["latency", "jitter", "value", "sample", "delay", "period"]
        .contains(&name.to_ascii_lowercase().as_str())
}

/// Where the figures stand.
struct Columns {
    line: usize,
    has_names: bool,
    count: usize,
    value: usize,
    unit_ns: f64,
    /// Place and nanoseconds per unit.
    time: Option<(usize, f64)>,
    series: Series,
}

/// One line.
struct CsvSample {
    ns: u64,
    /// Smallest step that its digits can show, in units.
    decimals: u32,
    t_s: Option<f64>,
}

impl Columns {
    fn from_line(line: &str, number: usize, asked: &SourceOptions) -> Result<Self, Error> {
        let names = fields(line);
        let has_names = names.iter().any(|field| field.parse::<f64>().is_err());
        let time = if has_names {
            names.iter().position(|name| is_time(name))
        } else {
            (names.len() == 2).then_some(0)
        };
        let value = match &asked.column {
            Some(wanted) => {
                let by_number = wanted
                    .parse::<usize>()
                    .ok()
                    .and_then(|n| n.checked_sub(1))
                    .filter(|n| *n < names.len());
                names.iter().position(|name| name == wanted).or(by_number).ok_or_else(|| {
                    Error::line(
                        FORMAT,
                        number,
                        format!("no column `{wanted}` among {}", names.join(", ")),
                    )
                })?
            }
            None if names.len() > 2 => {
                let known = names.iter().position(|name| series_in(name).is_some());
                known.ok_or_else(|| {
                    let reason =
                        format!("{} columns; name the one of values with --column", names.len());
                    Error::line(FORMAT, number, reason)
                })?
            }
            None => (0..names.len()).rev().find(|place| Some(*place) != time).unwrap_or(0),
        };

        let named = if has_names { unit_in(names[value]) } else { None };
        let unit_ns =
            asked.unit_ns.or(named).ok_or(Error::NoUnit { format: FORMAT, line: number })?;
        let time_unit = |place: usize| unit_in(names[place]).filter(|_| has_names).unwrap_or(1e9);
        let series = asked.series.or_else(|| series_in(names[value])).unwrap_or(Series::Recorded);
        let time = time.filter(|place| *place != value).map(|place| (place, time_unit(place)));
        Ok(Self { line: number, has_names, count: names.len(), value, unit_ns, time, series })
    }

    fn sample(&self, line: &str, number: usize) -> Result<CsvSample, Error> {
        let fields = fields(line);
        if fields.len() != self.count {
            let reason =
                format!("{} fields where line {} has {}", fields.len(), self.line, self.count);
            return Err(Error::line(FORMAT, number, reason));
        }

        let figure = |place: usize| {
            let field = fields[place];
            let figure = field.parse::<f64>().ok().filter(|figure| figure.is_finite());
            figure.ok_or_else(|| Error::line(FORMAT, number, format!("`{field}` is not a number")))
        };

        let value = figure(self.value)?;
        let ns = to_ns(value, self.unit_ns).ok_or_else(|| {
            Error::line(
                FORMAT,
                number,
                format!("{value} is not a latency: below 0 or above 10,000 hours"),
            )
        })?;
        let t_s = self
            .time
            .map(|(place, unit_ns)| Ok::<f64, Error>(figure(place)? * (unit_ns / 1e9)))
            .transpose()?;
        let digits = fields[self.value].split_once('.').map_or("", |(_, digits)| digits);
        let decimals = u32::try_from(digits.len()).unwrap_or(9).min(9);

        Ok(CsvSample { ns, decimals: if digits.contains(['e', 'E']) { 9 } else { decimals }, t_s })
    }
}

/// The series that a column's name stands for: `wakeup_latency_ns`.
fn series_in(name: &str) -> Option<Series> {
    let name = name.to_ascii_lowercase();
    Series::ALL.into_iter().find(|series| {
        name.strip_prefix(series.tag())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['_', ' ', '(', '[']))
    })
}

/// What the first pass over the file finds.
#[derive(Default)]
struct FileExtent {
    samples: u64,
    lines: usize,
    decimals: u32,
    first_s: Option<f64>,
    last_s: f64,
}

impl FileExtent {
    fn take_in(&mut self, sample: &CsvSample) {
        self.samples += 1;
        self.decimals = self.decimals.max(sample.decimals);
        if let Some(t) = sample.t_s {
            self.first_s = Some(self.first_s.map_or(t, |first| first.min(t)));
            self.last_s = if self.samples == 1 { t } else { self.last_s.max(t) };
        }
    }
}

/// The second pass: samples into intervals.
struct SampleCounter {
    resolution: Resolution,
    interval_s: f64,
    period_s: Option<f64>,
    taken: u64,
    origin_s: f64,
    parts: BTreeMap<u64, (BTreeMap<u64, u64>, Moments)>,
    trend: Option<InSteps>,
}

/// Samples step by step, for sources whose samples are in order of time.
struct InSteps {
    steps: TrendSteps,
    place: usize,
    /// Values of the step in the making, with their times since the stream's start.
    samples: Vec<(u64, f64)>,
}

impl InSteps {
    /// Whether the sample was in order.
    fn count(&mut self, ns: u64, t: f64) -> bool {
        let place = self.steps.place(t);
        if place != self.place {
            self.close();
        }

        let is_in_order = place >= self.place;
        self.place = place;
        self.samples.push((ns, t));
        is_in_order
    }

    fn close(&mut self) {
        let start = self.place as f64 * self.steps.every_s;
        let largest = self.samples.iter().map(|(ns, _)| *ns).max().unwrap_or(0);
        // Coarse values have many largest ones; any of them stands for all, and always the first
        // would be a pattern.
        let all: Vec<f64> =
            self.samples.iter().filter(|(ns, _)| *ns == largest).map(|(_, t)| *t).collect();
        let drawn = (self.place as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let worst_t = all.get(drawn as usize % all.len().max(1)).copied();
        self.samples.sort_unstable_by_key(|(ns, _)| *ns);
        let n = self.samples.len();
        let value = |share: f64| {
            self.samples.get(((share * n as f64).ceil() as usize).clamp(1, n.max(1)) - 1)
        };

        if let (Some(min), Some(p50), Some(p90), Some(worst_t)) =
            (value(0.0), value(0.5), value(0.9), worst_t)
        {
            let worst_at = Some((worst_t - start) / self.steps.every_s);
            let figures = StepFigures {
                min_ns: min.0,
                p50_ns: p50.0,
                p90_ns: p90.0,
                max_ns: largest,
                worst_at,
            };
            self.steps.put(self.place, figures);
        }

        self.samples.clear();
    }
}

impl SampleCounter {
    fn new(columns: &Columns, extent: &FileExtent, asked: &SourceOptions) -> Self {
        let period_s = asked.period_ns.map(|ns| ns as f64 / 1e9);
        let origin_s = extent.first_s.unwrap_or(0.0);
        let length_s = match (extent.first_s, period_s) {
            (Some(first), _) => extent.last_s - first,
            (None, Some(period_s)) => period_s * extent.samples as f64,
            (None, None) => 0.0,
        };

        let interval_s = interval_ns_for((length_s.clamp(0.0, 1e9) * 1e9) as u64) as f64 / 1e9;
        let step_ns = columns.unit_ns / 10_f64.powi(i32::try_from(extent.decimals).unwrap_or(9));
        let resolution = Resolution::even((step_ns.round() as u64).max(1));
        let apart_s = length_s / extent.samples.max(2) as f64;
        let step_s =
            (interval_s / STEPS_PER_INTERVAL).min(LONGEST_STEP_S).max(LEAST_PER_STEP * apart_s);
        let steps = TrendSteps::new(columns.series, step_s, length_s).filter(|_| length_s > 0.0);
        let trend = steps.map(|steps| InSteps { steps, place: 0, samples: Vec::new() });

        Self { resolution, interval_s, period_s, taken: 0, origin_s, parts: BTreeMap::new(), trend }
    }

    fn count(&mut self, sample: &CsvSample) {
        let by_period = self.period_s.map(|period_s| period_s * self.taken as f64);
        let t = sample.t_s.map(|t| t - self.origin_s).or(by_period).unwrap_or(0.0);
        self.taken += 1;
        let (cells, moments) = self.parts.entry((t / self.interval_s).max(0.0) as u64).or_default();
        *cells.entry(rounded(self.resolution.representative_ns(sample.ns))).or_insert(0) += 1;
        moments.add(sample.ns);

        if self.trend.as_mut().is_some_and(|trend| !trend.count(sample.ns, t)) {
            self.trend = None;
        }
    }

    fn finish(mut self, columns: &Columns, extent: &FileExtent) -> Stream {
        let is_timed = extent.first_s.is_some() || self.period_s.is_some();
        let mut missing = Vec::new();
        if !is_timed {
            missing.push(
                "times of the samples: no figures over time and no intervals (--period gives their distance)"
                    .to_owned(),
            );
        }

        if let Some(trend) = &mut self.trend {
            trend.close();
        } else if is_timed {
            missing.push(
                "the order of the samples: time stamps do not ascend, so periodic interference cannot be searched"
                    .to_owned(),
            );
        }

        if self.resolution.step_ns > 1 {
            missing.push(format!(
                "values finer than {} ns: the file has no more digits",
                self.resolution.step_ns
            ));
        }
        if columns.series == Series::Recorded {
            missing.push(
                "what the values are: the file does not say, and --as was not given".to_owned(),
            );
        }

        missing.push(
            "skipped releases, the machine and the command: the file does not hold them".to_owned(),
        );
        let length = if is_timed { self.interval_s } else { 0.0 };
        let part = |(index, (cells, moments)): (u64, (BTreeMap<u64, u64>, Moments))| {
            let t = index as f64 * length;
            StreamPart {
                series: columns.series,
                t,
                length,
                cells,
                moments: Some(moments),
                maxima: None,
            }
        };

        // Seconds since 1970 are distinguished from seconds since a start by their size.
        let is_wall_clock = extent.first_s.is_some_and(|first| (1e9..1e11).contains(&first));
        Stream {
            started_unix_s: if is_wall_clock { self.origin_s } else { 0.0 },
            resolution: [(columns.series, self.resolution)].into(),
            parts: self.parts.into_iter().map(part).collect(),
            missing,
            steps: self.trend.map(|trend| trend.steps),
            ..Stream::default()
        }
    }
}

/// Five digits, so that memory does not grow with the number of samples; the run file keeps three
/// or four.
const fn rounded(ns: u64) -> u64 {
    let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(17);
    (ns >> shift << shift) | if shift > 0 { 1 << (shift - 1) } else { 0 }
}
