//! Samples one per line: a value alone, or with its time, in columns that commas, semicolons, tabs
//! or blanks part.
//!
//! A first line without numbers names the columns, and may name their units (`latency_us`, `time (s)`);
//! a second line may have them instead (`s;us`). Spreadsheets write decimal commas, thousands, quotes, a
//! byte order mark and date-times; all of these are read. The number of decimals shows how finely the
//! source counted.

use std::io::{BufRead, Read, Seek, SeekFrom};

use super::date;
use super::error::Error;
use super::format::{FARTHEST_NS, Format, SourceOptions};
use super::lines::{Damage, Line, begins, each_line};
use super::number::{Mark, Number, Separator};
use super::samples::{Extent, Sample, SampleCounter};
use super::stream::Stream;
use crate::{Resolution, Series};

const FORMAT: Format = Format::Csv;
/// Longer lines are no samples.
const LONGEST_LINE: usize = 4096;
/// The first two lines are within this many bytes.
const BEGINNING: u64 = 64 * 1024;
/// No time is later, in seconds since 1970 or any other instant: the year 5138.
const FARTHEST_S: f64 = 1e11;
/// Names of columns that a sentence lists.
const LISTED: usize = 8;

/// Whether a text begins with lines of samples, or with the names of their columns.
#[must_use]
pub fn is_samples(beginning: &str) -> bool {
    let mut lines =
        beginning.split(['\n', '\r']).map(str::trim).filter(|line| says_something(line));
    let Some(first) = lines.next() else { return false };
    let mut second = lines.next();
    let separator = Separator::of(first, second);
    let names = separator.fields(first);
    let has_units = second.is_some_and(|line| is_of_units(first, line, separator));
    if has_units {
        second = lines.next();
    }
    let is_figure = |field: &&str| is_number(field, separator) || date::stamp_s(field).is_some();
    if names.iter().all(is_figure) {
        return true;
    }

    let are_known = names.iter().all(|name| is_known(name));
    // Names of any kind, where a line of figures with as many fields follows.
    let follows = second.is_some_and(|line| {
        let fields = separator.fields(line);
        let are_figures = if separator == Separator::Blank {
            // Blanks part the words of any text as well.
            let are_named = has_units || names.iter().any(|name| unit_in(name).is_some());
            fields.iter().all(is_figure) && are_named
        } else {
            fields.iter().any(is_figure)
        };
        fields.len() == names.len() && are_figures
    });
    are_known || follows
}

fn is_known(name: &str) -> bool {
    unit_in(name).is_some() || is_time(name) || series_in(name).is_some() || is_plain(name)
}

fn is_number(field: &str, separator: Separator) -> bool {
    Number::parse(field, separator).is_some()
}

/// Whether a line below the names of columns has their units: `s;us;-`.
fn is_of_units(names: &str, line: &str, separator: Separator) -> bool {
    let (names, units) = (separator.fields(names), separator.fields(line));
    let is_figure = |field: &&str| is_number(field, separator) || date::stamp_s(field).is_some();
    // `5 us` is a value with its unit.
    let is_unit =
        |unit: &&str| unit_in(unit).is_some() && !unit.starts_with(|c: char| c.is_ascii_digit());
    names.len() == units.len()
        && !names.iter().chain(&units).any(is_figure)
        && units.iter().any(is_unit)
}

/// One stream.
///
/// # Errors
/// [`Error`].
pub fn read(file: &mut (impl BufRead + Seek), asked: &SourceOptions) -> Result<Vec<Stream>, Error> {
    let (separator, units) = heading(file)?;
    file.seek(SeekFrom::Start(0))?;
    let damage = Damage::new(asked);
    let mut first = FirstPass { separator, units, damage, ..FirstPass::default() };
    let lines = each_line(file, |line| first.line(line, asked))?;
    let Some(columns) = first.columns.filter(|_| first.extent.samples > 0) else {
        let advice = "it needs one value per line";
        return Err(Error::NoHistogram { format: FORMAT, lines, advice });
    };

    let doubtful = first.doubtful_marks()?;
    let step_ns = columns.unit_ns / 10_f64.powi(i32::try_from(first.decimals).unwrap_or(9));
    let resolution = Resolution::even((step_ns.round() as u64).max(1));
    let counter = SampleCounter::new(columns.series, resolution, first.extent, asked.period_ns);
    // The names of columns are not a sample: none of them is a number.
    let sample = |line: &Line<'_>| Some(columns.sample(said(line)?).ok()?.sample);
    let mut stream = counter.count_all(file, sample)?;
    if columns.series == Series::Recorded {
        stream.lacks("what the values are: the file does not say, and --as was not given");
    }
    match first.stamp {
        Some(Stamp::Date) => stream.lacks("the time zone of its date-times: UTC assumed"),
        Some(Stamp::Number) if !columns.is_time_unit_named => {
            stream.lacks(
                "the unit of its times: seconds assumed (a heading such as time_ms names it)",
            );
        }
        _ => {}
    }

    stream.lacks("skipped releases, the machine and the command: the file does not hold them");
    if columns.is_unit_overruled {
        let remark = "values are in the unit of --unit; the name of the column has another one";
        stream.remarks.push(remark.to_owned());
    }
    stream.remarks.extend(first.others);
    stream.remarks.extend(doubtful);
    stream.lost_lines(&first.damage);
    Ok(vec![stream])
}

/// What parts the columns, and the line of their units, by the first two lines.
fn heading(file: &mut impl BufRead) -> Result<(Separator, Option<(usize, String)>), Error> {
    let mut first: Option<String> = None;
    let mut second: Option<(usize, String)> = None;
    each_line(&mut file.by_ref().take(BEGINNING), |line| {
        if let Some(text) = said(line).filter(|_| second.is_none()) {
            match &first {
                None => first = Some(text.to_owned()),
                Some(_) => second = Some((line.number, text.to_owned())),
            }
        }
        Ok(())
    })?;

    let first = first.unwrap_or_default();
    let separator = Separator::of(&first, second.as_ref().map(|(_, text)| text.as_str()));
    let units = second.filter(|(_, text)| is_of_units(&first, text, separator));
    Ok((separator, units))
}

/// The text of a line, unless it is a comment.
fn said<'l>(line: &Line<'l>) -> Option<&'l str> {
    Some(line.text.trim()).filter(|text| says_something(text))
}

/// Whether a line is neither a comment nor the `sep=;` that Excel wants before the others.
fn says_something(text: &str) -> bool {
    let is_separator = text.len() <= "sep=;".len() && text.starts_with("sep=");
    !text.is_empty() && !text.starts_with('#') && !is_separator
}

/// Nanoseconds per unit, of a column's name: `latency_us`, `time [ms]`, `latency(ns)`.
pub(super) fn unit_in(name: &str) -> Option<f64> {
    let bare = name.trim_end_matches([')', ']']);
    // A rate: `speed (m/s)`.
    if bare.rsplit_once(['(', '[']).is_some_and(|(_, unit)| unit.contains('/')) {
        return None;
    }
    let word = bare.rsplit(['_', ' ', '(', '[', '/']).next()?;
    match word.to_ascii_lowercase().as_str() {
        "ns" | "nsec" | "nsecs" | "nanos" | "nanoseconds" => Some(1.0),
        // The last one: `µs` of a file that is not UTF-8.
        "us" | "µs" | "μs" | "usec" | "usecs" | "micros" | "microseconds" | "\u{fffd}s" => {
            Some(1e3)
        }
        "ms" | "msec" | "msecs" | "millis" | "milliseconds" => Some(1e6),
        "s" | "sec" | "secs" | "second" | "seconds" => Some(1e9),
        _ => None,
    }
}

fn is_time(name: &str) -> bool {
    // `__time` of PlotJuggler, `%time` of rostopic.
    let bare = name.trim_start_matches(['_', '%']).to_ascii_lowercase();
    ["time", "timestamp", "datetime", "date", "t", "ts", "zeit", "datum", "uhrzeit"].iter().any(
        |word| {
            bare.strip_prefix(word)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['_', ' ', '(', '[']))
        },
    )
}

/// Whether a column has the day alone, where another one has the clock.
fn is_day(name: &str) -> bool {
    ["date", "datum"].contains(&name.to_ascii_lowercase().as_str())
}

/// Names that columns of samples have without saying more.
fn is_plain(name: &str) -> bool {
    ["latency", "jitter", "value", "sample", "delay", "period"]
        .contains(&name.to_ascii_lowercase().as_str())
}

/// Beside other columns, a sample is a number of it.
fn is_plain_value(name: &str) -> bool {
    is_plain(name) && !name.eq_ignore_ascii_case("sample")
}

/// Whether a column says how often a value came: such a file is a histogram. Some of these names say
/// something else among more columns, such as the frequency of a CPU, or beside the time of a sample;
/// `time_us` may be what was counted.
fn is_count(names: &[&str], place: usize) -> bool {
    let name = names[place].to_ascii_lowercase();
    let is = |words: &[&str]| words.contains(&name.as_str());
    let is_beside_its_time =
        |other: &str| is_time(other) && unit_in(other).is_none_or(|ns| ns.total_cmp(&1e9).is_ge());
    is(&["count", "counts", "occurrences", "hits"])
        || is(&["samples", "frequency", "freq", "events", "anzahl"])
            && names.len() == 2
            && !is_beside_its_time(names[1 - place])
}

/// Whether a column says which percentile a value is: such a file has been summed up.
fn is_percentile(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["percentile", "quantile"].iter().any(|word| name.starts_with(word))
}

/// The series that a column's name stands for: `wakeup_latency_ns`.
fn series_in(name: &str) -> Option<Series> {
    let name = name.to_ascii_lowercase();
    Series::ALL.into_iter().find(|series| {
        name.strip_prefix(series.tag())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['_', ' ', '(', '[']))
    })
}

/// Where the figures stand.
#[derive(Clone, Copy)]
struct Columns {
    line: usize,
    has_names: bool,
    count: usize,
    value: usize,
    unit_ns: f64,
    /// Whether the name of the column has another unit.
    is_unit_overruled: bool,
    /// Place and nanoseconds per unit.
    time: Option<(usize, f64)>,
    /// Place of the clock, where the time is a day.
    clock: Option<usize>,
    is_time_unit_named: bool,
    series: Series,
    separator: Separator,
}

/// How a line states its time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stamp {
    Number,
    ZonedDate,
    Date,
}

/// One line.
struct CsvSample {
    sample: Sample,
    value: Number,
    stamp: Option<Stamp>,
}

impl Columns {
    /// `units` is the line below the names, where it has their units.
    fn from_line(
        (line, units): (&str, Option<&str>),
        number: usize,
        (asked, separator): (&SourceOptions, Separator),
    ) -> Result<Self, Error> {
        let names = separator.fields(line);
        let is_number = |field: &&str| is_number(field, separator);
        let is_date = |field: &&str| date::stamp_s(field).is_some();
        let has_names = !names.iter().any(|field| is_number(field) || is_date(field));
        let units = units.map_or_else(Vec::new, |units| separator.fields(units));
        let unit_of = |place: usize| {
            let below = units.get(place).and_then(|unit| unit_in(unit));
            below.or_else(|| unit_in(names[place])).filter(|_| has_names)
        };
        let time = if has_names {
            names.iter().position(|name| is_time(name))
        } else {
            let first = (names.len() == 2).then_some(0).filter(|_| is_number(&names[0]));
            names.iter().position(|field| is_date(field) && !is_number(field)).or(first)
        };
        // `time_ms` has a unit: it is a duration, as is the only column beside the day.
        let clock = time.map(|place| place + 1).filter(|place| {
            let is_clock = names.get(*place).is_some_and(|name| is_time(name) && !is_day(name));
            let is_beside_values = names.len() > 2 && has_names;
            is_beside_values && is_clock && unit_of(*place).is_none() && is_day(names[place - 1])
        });
        let value = match &asked.column {
            Some(wanted) => by_name_or_number(&names, wanted, number)?,
            None => {
                let is_value = |place: &usize| {
                    let is_of_time = [time, clock].contains(&Some(*place));
                    !is_of_time && (has_names || is_number(&names[*place]))
                };
                let values: Vec<usize> = (0..names.len()).filter(is_value).collect();
                value_column(&names, (&values, &unit_of), number)?
            }
        };

        if names.len() == 2 && asked.column.is_none() && separator.is_doubtful(line) && !has_names {
            let reason = format!(
                "`{line}` is two columns or a number with a decimal comma: name the columns in a first line, such as latency_us, or give --column 2"
            );
            return Err(Error::line(FORMAT, number, reason));
        }

        let named_ns = unit_of(value);
        let unit_ns =
            asked.unit_ns.or(named_ns).ok_or(Error::NoUnit { format: FORMAT, line: number })?;
        let is_unit_overruled = named_ns.is_some_and(|named| named.total_cmp(&unit_ns).is_ne());
        let time_unit = |place: usize| {
            // rostopic writes nanoseconds.
            let usual = if names[place].starts_with('%') { 1.0 } else { 1e9 };
            unit_of(place).unwrap_or(usual)
        };
        let series = asked.series.or_else(|| series_in(names[value])).unwrap_or(Series::Recorded);
        let time = time.filter(|place| *place != value).map(|place| (place, time_unit(place)));
        // PlotJuggler's `__time` is in seconds.
        let is_named =
            |place: usize| unit_of(place).is_some() || names[place].starts_with(['%', '_']);
        let is_time_unit_named = time.is_some_and(|(place, _)| is_named(place));
        Ok(Self {
            line: number,
            has_names,
            count: names.len(),
            value,
            unit_ns,
            is_unit_overruled,
            time,
            clock: clock.filter(|place| *place != value),
            is_time_unit_named,
            series,
            separator,
        })
    }

    /// Which of the columns that a line names are not imported, as a sentence.
    fn others(&self, names: &str) -> Option<String> {
        let names = self.separator.fields(names);
        let is_other = |place: &usize| {
            let of_time = [self.time.map(|(time, _)| time), self.clock];
            *place != self.value && !of_time.contains(&Some(*place))
        };
        let others = (0..names.len()).filter(is_other).map(|place| begins(names[place]));
        let mut others: Vec<String> = others.filter(|name| !name.is_empty()).collect();
        let more = others.len().saturating_sub(LISTED);
        others.truncate(LISTED);
        others.extend((more > 0).then(|| format!("{more} more")));
        (self.has_names && !others.is_empty()).then(|| {
            let value = begins(names[self.value]);
            format!("values of the column {value}; not imported: {}", others.join(", "))
        })
    }

    /// The sample of a line, or what is wrong with it.
    fn sample(&self, line: &str) -> Result<CsvSample, String> {
        if line.len() > LONGEST_LINE {
            return Err(format!(
                "{} bytes; a line of samples has at most {LONGEST_LINE}",
                line.len()
            ));
        }

        let fields = self.separator.fields(line);
        if fields.len() != self.count {
            return Err(format!(
                "{} fields where line {} has {}",
                fields.len(),
                self.line,
                self.count
            ));
        }

        let no_number = |field: &str| format!("`{field}` is not a number");
        let field = fields[self.value];
        let value = Number::parse(field, self.separator).ok_or_else(|| no_number(field))?;
        let ns = (value.figure * self.unit_ns).round();
        if ns.abs() > FARTHEST_NS as f64 {
            return Err(format!("{} is not a latency: above 2,500 hours", value.figure));
        }

        let (t_s, stamp) = match self.time {
            None => (None, None),
            Some((place, unit_ns)) => {
                let field = fields[place];
                let by_number = Number::parse(field, self.separator)
                    .map(|number| (number.figure * (unit_ns / 1e9), Stamp::Number));
                let joined = self.clock.map(|clock| format!("{field} {}", fields[clock]));
                let joined = joined.as_deref().filter(|text| date::stamp_s(text).is_some());
                let by_date = || {
                    let text = joined.unwrap_or(field);
                    let stamp = if date::has_zone(text) { Stamp::ZonedDate } else { Stamp::Date };
                    Some((date::stamp_s(text)?, stamp))
                };
                let (t_s, stamp) = by_number.or_else(by_date).ok_or_else(|| {
                    format!("`{field}` is neither a number nor a date-time (2026-11-27 10:34:27.5)")
                })?;
                if t_s.abs() > FARTHEST_S {
                    return Err(format!(
                        "`{field}` s is not a plausible time: name its unit in a first line, such as time_ms"
                    ));
                }
                (Some(t_s), Some(stamp))
            }
        };

        let sample = Sample { ns: ns as i64, t_s };
        Ok(CsvSample { sample, value, stamp })
    }
}

fn by_name_or_number(names: &[&str], wanted: &str, line: usize) -> Result<usize, Error> {
    let by_number = || {
        let number = wanted.parse::<usize>().ok()?;
        number.checked_sub(1).filter(|place| *place < names.len())
    };
    names.iter().position(|name| *name == wanted).or_else(by_number).ok_or_else(|| {
        let reason = format!("no column `{wanted}` among {}", names.join(", "));
        Error::line(FORMAT, line, reason)
    })
}

/// The column of values: the only one, or the only one that its name says so of.
fn value_column(
    names: &[&str],
    (values, unit_of): (&[usize], &dyn Fn(usize) -> Option<f64>),
    line: usize,
) -> Result<usize, Error> {
    let only = |is: &dyn Fn(usize) -> bool| {
        let mut of = values.iter().filter(|place| is(**place));
        of.next().copied().filter(|_| of.next().is_none())
    };
    let counts = (0..names.len()).find(|place| is_count(names, *place) && names.len() > 1);
    if let Some(counts) = counts.map(|place| names[place]) {
        let reason = format!(
            "`{counts}` is a column of counts: a histogram is not read as samples; where it numbers them, name the column of values with --column"
        );
        return Err(Error::line(FORMAT, line, reason));
    }
    if let Some(percentiles) = names.iter().find(|name| is_percentile(name) && names.len() > 1) {
        let reason = format!(
            "`{percentiles}` is a column of percentiles: they are not samples, and no other figure can be computed from them"
        );
        return Err(Error::line(FORMAT, line, reason));
    }
    let has_units = values.iter().any(|place| unit_of(*place).is_some());
    let first_series = values.iter().copied().find(|place| series_in(names[*place]).is_some());
    only(&|_| true)
        .or(first_series)
        .or_else(|| only(&|place| unit_of(place).is_some()))
        .or_else(|| only(&|place| is_plain_value(names[place])).filter(|_| !has_units))
        .ok_or_else(|| {
            let reason = format!(
                "{} columns ({}); name the one of values with --column",
                names.len(),
                names.join(", ")
            );
            Error::line(FORMAT, line, reason)
        })
}

/// What the first pass over the file finds.
#[derive(Default)]
struct FirstPass {
    separator: Separator,
    /// The line of the columns' units, with its number.
    units: Option<(usize, String)>,
    columns: Option<Columns>,
    extent: Extent,
    decimals: u32,
    stamp: Option<Stamp>,
    /// The first line with a decimal comma, and the first one with a decimal point.
    commas: Option<usize>,
    points: Option<usize>,
    /// The first line whose mark may as well stand between thousands.
    grouped: Option<(usize, String)>,
    /// Whether a value shows that the marks are decimal ones.
    are_decimals: bool,
    /// Whether a value other than 0 has no mark.
    has_whole: bool,
    /// A comment just before the first line: it may name the columns.
    comment: Option<String>,
    /// Columns that are not imported, as a sentence.
    others: Option<String>,
    damage: Damage,
}

impl FirstPass {
    fn line(&mut self, line: &Line<'_>, asked: &SourceOptions) -> Result<(), Error> {
        let Some(text) = said(line) else {
            if self.columns.is_none() {
                self.comment = Some(line.text.trim().trim_start_matches('#').trim().to_owned());
            }
            return Ok(());
        };

        let columns = match self.columns {
            Some(columns) => columns,
            None => {
                let columns = self.named_by_comment(text, line.number, asked);
                let units = self.units.as_ref().map(|(_, units)| units.as_str());
                let columns = columns.map_or_else(
                    || Columns::from_line((text, units), line.number, (asked, self.separator)),
                    Ok,
                )?;
                self.columns = Some(columns);
                let is_of_names = columns.has_names && columns.line == line.number;
                let names = if is_of_names { Some(text) } else { self.comment.as_deref() };
                self.others = names.and_then(|names| columns.others(names));
                if is_of_names {
                    return Ok(());
                }
                columns
            }
        };

        if self.units.as_ref().is_some_and(|(number, _)| *number == line.number) {
            return Ok(());
        }

        match columns.sample(text) {
            Ok(of) => self.take_in(&of, line.number, text),
            // What no sample stands before was not cut off: it is another text.
            Err(reason) if self.extent.samples == 0 => {
                self.damage.meet(line.number, reason, (FORMAT, 0, "samples"))
            }
            Err(reason) => {
                self.damage.unread(line, reason, (FORMAT, self.extent.samples, "samples"))
            }
        }
    }

    /// Columns that a comment names, as numpy writes them: `# time_s,latency_us`.
    fn named_by_comment(
        &self,
        text: &str,
        number: usize,
        asked: &SourceOptions,
    ) -> Option<Columns> {
        let comment = self.comment.as_deref()?;
        let names = self.separator.fields(comment);
        let fields = self.separator.fields(text);
        let has_asked = asked.column.as_deref().is_some_and(|wanted| names.contains(&wanted));
        let is_heading = names.len() == fields.len()
            && (has_asked || names.iter().all(|name| is_known(name)))
            && fields.iter().any(|field| is_number(field, self.separator));
        let before = number.saturating_sub(1);
        is_heading
            .then(|| Columns::from_line((comment, None), before, (asked, self.separator)).ok())
            .flatten()
    }

    fn take_in(&mut self, of: &CsvSample, line: usize, text: &str) -> Result<(), Error> {
        let value = &of.value;
        match value.mark {
            Some(Mark::Comma) => self.commas = self.commas.or(Some(line)),
            Some(Mark::Point) => self.points = self.points.or(Some(line)),
            None => {}
        }
        if let (Some(comma), Some(point)) = (self.commas, self.points) {
            let reason = format!(
                "`{text}`: decimal commas (line {comma}) and decimal points (line {point}) are both in the column: thousands or decimals"
            );
            return Err(Error::line(FORMAT, line, reason));
        }

        // 0 is written so in any file: the first difference, or a latency below the resolution.
        self.has_whole |= value.mark.is_none() && value.figure.abs() > 0.0;
        if value.is_grouped {
            self.grouped.get_or_insert_with(|| (line, text.to_owned()));
        } else {
            self.are_decimals |= value.mark.is_some() || value.figure.abs() >= 1_000.0;
        }
        self.decimals = self.decimals.max(value.decimals);
        self.stamp = self.stamp.max(of.stamp);
        self.extent.take_in(&of.sample);
        Ok(())
    }

    /// Marks that may be decimal ones or stand between thousands are refused where whole values
    /// below 1,000 speak for thousands; where nothing does, commas are named.
    fn doubtful_marks(&self) -> Result<Option<String>, Error> {
        let Some((line, text)) = self.grouped.as_ref().filter(|_| !self.are_decimals) else {
            return Ok(None);
        };
        if self.has_whole {
            let reason = format!(
                "`{text}` may have decimals or thousands: all values with a mark have three digits after it, and all others are below 1,000; remove the marks, or give each value its decimals"
            );
            return Err(Error::line(FORMAT, *line, reason));
        }

        let is_comma = self.commas.is_some();
        Ok(is_comma.then(|| format!("commas are read as decimal marks: line {line} is `{text}`")))
    }
}
