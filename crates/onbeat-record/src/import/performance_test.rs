//! The CSV log of `performance_test`, ROS 2's test of message latency: a row per second with the
//! messages received and lost, smallest, largest and mean latency. It has no distribution.
//!
//! Lines on the experiment stand before the names of the columns, and a comma may end each row.

use std::collections::BTreeMap;
use std::io::BufRead;

use super::error::Error;
use super::format::{Format, SourceOptions, to_ns};
use super::lines::{Line, each_line};
use super::stream::{Stream, StreamPart};
use crate::{Beyond, Early, Moments, Resolution, Series, interval_ns_for};

const FORMAT: Format = Format::Ros2Perf;
const MS: f64 = 1e6;
/// Names of the columns that are read, in the order of [`Row`].
const COLUMNS: [&str; 7] = [
    "T_experiment",
    "T_loop",
    "received",
    "lost",
    "latency_min (ms)",
    "latency_max (ms)",
    "latency_mean (ms)",
];

/// Whether a line names the columns.
#[must_use]
pub fn is_heading(line: &str) -> bool {
    line.contains("T_experiment") && line.contains("latency_min (ms)")
}

fn fields(line: &str) -> Vec<&str> {
    // A tab may follow each comma.
    let mark = if line.contains(',') { ',' } else { '\t' };
    line.split(mark).map(str::trim).collect()
}

/// What one second had.
struct Row {
    /// When it ended, in seconds since the experiment's start.
    end_s: f64,
    length_s: f64,
    lost: u64,
    moments: Moments,
    /// How far the smallest is below 0.
    below_ns: u64,
}

impl Row {
    fn parse(line: &str, places: &[usize; COLUMNS.len()]) -> Option<Self> {
        let fields = fields(line);
        let figure =
            |place: &usize| fields.get(*place)?.parse::<f64>().ok().filter(|n| n.is_finite());
        let [end_s, length_s, received, lost, min, max, mean] = places;
        let (end_s, length_s) = (figure(end_s)?, figure(length_s)?);
        let (received, lost) = (figure(received)?, figure(lost)?);
        let is_possible = (0.0..1e9).contains(&end_s)
            && (0.0..=1e6).contains(&length_s)
            && (0.0..=1e9).contains(&received);
        let n = is_possible.then_some(received as u64)?;
        // Without a message there is no latency, whatever stands there.
        let (moments, below_ns) = if n == 0 {
            (Moments::default(), 0)
        } else {
            let (min, max, mean) = (figure(min)?, figure(max)?, figure(mean)?);
            // Clocks of two computers may differ: below 0.
            let (min_ns, max_ns) = (to_ns(min.min(max).max(0.0), MS)?, to_ns(max.max(0.0), MS)?);
            let below_ns = to_ns((-min).max(0.0), MS)?;
            (Moments { n, min_ns, max_ns, mean_ns: mean * MS, m2: 0.0 }, below_ns)
        };
        Some(Self { end_s, length_s, lost: lost.max(0.0) as u64, moments, below_ns })
    }
}

/// One stream.
///
/// # Errors
/// [`Error`].
pub fn read(file: &mut impl BufRead, asked: &SourceOptions) -> Result<Vec<Stream>, Error> {
    let mut places = None;
    let mut rows = Vec::new();
    let mut cut = None;
    each_line(file, |line: &Line<'_>| {
        if places.is_none() {
            if is_heading(line.text) {
                places = Some(places_in(line)?);
            }
            return Ok(());
        }
        match places.as_ref().and_then(|places| Row::parse(line.text, places)) {
            Some(row) if line.has_end => rows.push(row),
            _ if !line.has_end => cut = Some(line.number),
            _ if line.text.contains("EXPERIMENT-END") => {}
            _ => {
                let reason = format!("`{}` is not a row of figures", line.text.trim());
                return Err(Error::line(FORMAT, line.number, reason));
            }
        }
        Ok(())
    })?;

    let all = rows.iter().fold(Moments::default(), |all, row: &Row| all.merged(row.moments));
    if all.n == 0 {
        let reason = "no message was received: there is no latency to import";
        return Err(Error::nothing(FORMAT, reason));
    }

    let mut stream = stream(&rows, all, asked.series.unwrap_or(Series::Recorded));
    stream.remarks.extend(
        cut.map(|line| format!("the file is cut off: its last line, {line}, is not imported")),
    );
    Ok(vec![stream])
}

/// Places of the columns in a row.
fn places_in(line: &Line<'_>) -> Result<[usize; COLUMNS.len()], Error> {
    let names = fields(line.text);
    let mut places = [0; COLUMNS.len()];
    for (place, wanted) in places.iter_mut().zip(COLUMNS) {
        *place = names.iter().position(|name| *name == wanted).ok_or_else(|| {
            Error::line(FORMAT, line.number, format!("there is no column `{wanted}`"))
        })?;
    }
    Ok(places)
}

fn stream(rows: &[Row], all: Moments, series: Series) -> Stream {
    let length_s = rows.last().map_or(0.0, |row| row.end_s);
    let interval_s = interval_ns_for((length_s * 1e9) as u64) as f64 / 1e9;
    let mut intervals: BTreeMap<u64, Moments> = BTreeMap::new();
    for row in rows {
        let start_s = (row.end_s - row.length_s).max(0.0);
        let of = intervals.entry((start_s / interval_s) as u64).or_default();
        *of = of.merged(row.moments);
    }

    // Between the extremes nothing is known.
    let beyond = Beyond { from_ns: all.min_ns, to_ns: all.max_ns, count: all.n };
    let resolution = Resolution { beyond: Some(beyond), ..Resolution::exact() };
    let part = |(index, moments): (u64, Moments)| {
        let mut part = StreamPart::untimed(series, interval_s);
        part.t = index as f64 * interval_s;
        part.count(&resolution, beyond.from_ns, moments.n);
        part.moments = Some(moments);
        part
    };
    let mut stream = Stream {
        parts: intervals.into_iter().filter(|(_, of)| of.n > 0).map(part).collect(),
        resolution: [(series, resolution.clone())].into(),
        figures_only: [series].into(),
        missing: vec![
            "the distribution: a row has count, minimum, mean and maximum of a second".to_owned(),
            "the machine and the start: the log does not hold them in a form that is read"
                .to_owned(),
        ],
        ..Stream::default()
    };
    if let Some(earliest_ns @ 1..) = rows.iter().map(|row| row.below_ns).max() {
        stream.early.insert(series, Early { count: None, earliest_ns });
    }
    let lost = rows.iter().fold(0_u64, |lost, row| lost.saturating_add(row.lost));
    stream.remarks.push("latency of messages, from publisher to subscriber".to_owned());
    if lost > 0 {
        stream.lost = lost;
        stream.remarks.push(format!("{lost} messages were lost and are in no figure"));
    }
    stream
}
