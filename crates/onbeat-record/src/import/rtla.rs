//! Text of `rtla timerlat hist` and `rtla osnoise hist`.
//!
//! Rows of the lower end of a bucket and its counts, a column per CPU: `IRQ-000` to the timer's
//! interrupt, `Thr-000` to the thread, `Usr-000` back to user space, `CPU-000` of osnoise. Then
//! `over:`, `count:`, `min:`, `avg:`, `max:`. How wide a bucket is shows in the distance of the
//! rows; rows of zeros may be left out.

use super::error::{Error, counted};
use super::format::{self, Format};
use super::rt_tests::{BEYOND, NO_SUMMARY};
use super::stream::{SourceFigures, Stream, StreamPart};
use crate::{Beyond, Resolution, Series};

const FORMAT: Format = Format::Rtla;

#[derive(Default)]
struct RtlaText {
    step_of_unit_ns: u64,
    length_s: f64,
    columns: Vec<(Series, u32)>,
    rows: Vec<(u64, Vec<u64>)>,
    over: Vec<Option<f64>>,
    count: Vec<Option<f64>>,
    min: Vec<Option<f64>>,
    avg: Vec<Option<f64>>,
    max: Vec<Option<f64>>,
    last_line: usize,
    missed: Option<(u64, String)>,
    is_stopped: bool,
}

/// Of a run that `-a`, `-i` or `-T` ended.
pub(super) const STOPPED: &str = "rtla ended the run at its first value beyond the threshold";

/// Whether rtla says that a threshold ended the run. What it analysed follows.
pub(super) fn is_stop(line: &str) -> bool {
    line.trim().strip_prefix("rtla ").is_some_and(|rest| rest.ends_with(" hit stop tracing"))
}

/// What rtla says of events that its trace lost, their number and a sentence:
/// `123 (0.45%) events missed, results might not be accurate`.
pub(super) fn missed(line: &str) -> Option<(u64, String)> {
    let stated = line.trim().strip_suffix(", results might not be accurate")?;
    let events = stated.strip_suffix(" events missed")?.split(' ').next()?;
    // `unknown number of events missed`: at least one.
    Some((events.parse().unwrap_or(1), format!("rtla: {stated}; they are in no figure")))
}

/// One stream per CPU.
///
/// # Errors
/// [`Error`].
pub fn read(text: &str) -> Result<Vec<Stream>, Error> {
    let parsed = RtlaText::parse(text)?;
    if parsed.columns.is_empty() || parsed.rows.is_empty() {
        let advice = "run rtla with hist and without --no-header, --no-index and --no-summary; it may have seen nothing";
        return Err(Error::NoHistogram { format: FORMAT, lines: text.lines().count(), advice });
    }

    let mut cpus: Vec<u32> = parsed.columns.iter().map(|(_, cpu)| *cpu).collect();
    cpus.dedup();
    cpus.iter().map(|&cpu| parsed.stream(cpu, cpus.len() > 1)).collect()
}

impl RtlaText {
    fn parse(text: &str) -> Result<Self, Error> {
        let mut all = Self { step_of_unit_ns: 1_000, ..Self::default() };
        let mut is_summed_up = false;
        for (line, number) in text.lines().zip(1..) {
            let line = line.trim();
            let mut words = line.split_whitespace();
            let first = words.next().unwrap_or_default();
            if line.starts_with("# RTLA ") && !all.rows.is_empty() {
                return Err(Error::second_run(FORMAT, number));
            } else if let Some(missed) = missed(line) {
                all.missed = Some(missed);
            } else if is_stop(line) {
                all.is_stopped = true;
            } else if is_summed_up || all.is_stopped {
                // Figures of all CPUs together, and what rtla prints when it stops a trace.
            } else if let Some(stated) = line.strip_prefix("# Time unit is ") {
                all.step_of_unit_ns = if stated.starts_with("nanoseconds") { 1 } else { 1_000 };
            } else if let Some(stated) = line.strip_prefix("# Duration:") {
                all.length_s = duration_s(stated).unwrap_or(0.0);
            } else if first == "Index" {
                if !all.rows.is_empty() {
                    return Err(Error::line(
                        FORMAT,
                        number,
                        "the heading of the columns comes after rows of counts",
                    ));
                }
                all.columns = words.map(|word| column(word, number)).collect::<Result<_, _>>()?;
            } else if first == "ALL:" {
                is_summed_up = true;
            } else if let Ok(index) = first.parse() {
                all.row(index, words, number)?;
            } else {
                all.summary(first, words, number)?;
            }
        }

        Ok(all)
    }

    fn row<'w>(
        &mut self,
        index: u64,
        words: impl Iterator<Item = &'w str>,
        line: usize,
    ) -> Result<(), Error> {
        let no_count = |word: &str| Error::line(FORMAT, line, format!("`{word}` is not a count"));
        let counts = words
            .map(|word| word.parse().map_err(|_| no_count(word)))
            .collect::<Result<Vec<u64>, _>>()?;
        if counts.len() != self.columns.len() {
            let reason = format!("{} counts for {} columns", counts.len(), self.columns.len());
            return Err(Error::line(FORMAT, line, reason));
        }

        if self.rows.last().is_some_and(|(before, _)| *before >= index) {
            return Err(Error::line(
                FORMAT,
                line,
                format!("the row {index} comes after a later one"),
            ));
        }

        self.last_line = line;
        self.rows.push((index, counts));
        Ok(())
    }

    fn summary<'w>(
        &mut self,
        name: &str,
        words: impl Iterator<Item = &'w str>,
        line: usize,
    ) -> Result<(), Error> {
        let list = match name {
            "over:" => &mut self.over,
            "count:" => &mut self.count,
            "min:" => &mut self.min,
            "avg:" => &mut self.avg,
            "max:" => &mut self.max,
            _ => return Ok(()),
        };

        *list = words
            .map(|word| word.parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0))
            .collect();
        if list.len() > self.columns.len() {
            let reason = format!("{} figures for {} columns", list.len(), self.columns.len());
            return Err(Error::line(FORMAT, line, reason));
        }

        Ok(())
    }

    /// Width of a bucket in units: what all rows are multiples of. One row alone is as wide as the
    /// largest maximum within it.
    fn width(&self) -> u64 {
        let common =
            self.rows.iter().fold(0, |common, (index, _)| greatest_common_divisor(common, *index));
        let is_within = |place: &usize| self.over.get(*place).copied().flatten() == Some(0.0);
        let within = (0..self.max.len()).filter(is_within).filter_map(|place| self.max[place]);
        let longest = within.fold(0.0, f64::max);
        if common > 0 { common } else { longest.min(3.6e13) as u64 + 1 }
    }

    fn stream(&self, cpu: u32, is_one_of_several: bool) -> Result<Stream, Error> {
        let is_cut_off = self.over.is_empty();
        let mut stream = Stream {
            label: if is_one_of_several { format!("CPU {cpu}") } else { String::new() },
            missing: vec![
                "order and times of the samples: no figures over time and no intervals".to_owned(),
                "standard deviation: computed from the histogram's buckets".to_owned(),
                "the machine, the start and the command: rtla's text does not hold them".to_owned(),
            ],
            remarks: self.missed.iter().map(|(_, sentence)| sentence.clone()).collect(),
            // Of which CPU they were is not stated.
            lost: self.missed.as_ref().map_or(u64::from(is_cut_off), |(events, _)| *events),
            ..Stream::default()
        };
        stream.missing.extend(is_cut_off.then(|| NO_SUMMARY.to_owned()));
        stream.remarks.extend(self.is_stopped.then(|| STOPPED.to_owned()));

        for (place, (series, _)) in
            self.columns.iter().enumerate().filter(|(_, (_, of))| *of == cpu)
        {
            let (resolution, part) = self.part(place, *series)?;
            // Without their number, which each CPU would state with all the rest.
            let has_beyond = resolution.beyond.is_some_and(|beyond| beyond.count > 0);
            if has_beyond && !stream.missing.iter().any(|what| what == BEYOND) {
                stream.lacks(BEYOND);
            }

            if *series == Series::Gap && self.width() > 1 {
                stream.lacks(
                    "minimum, average and maximum to less than a bucket: rtla osnoise hist rounds each gap down to its bucket",
                );
            }

            if part.samples() > 0 {
                stream.put(part, resolution);
            }
        }

        Ok(stream)
    }

    fn part(&self, place: usize, series: Series) -> Result<(Resolution, StreamPart), Error> {
        let figure = |list: &[Option<f64>]| list.get(place).copied().flatten();
        let step_ns = self.width().saturating_mul(self.step_of_unit_ns);
        let end = self.rows.last().map_or(0, |(last, _)| {
            last.saturating_mul(self.step_of_unit_ns).saturating_add(step_ns)
        });
        let over = figure(&self.over).unwrap_or(0.0) as u64;
        if over > 0 && figure(&self.max).is_none() {
            let reason = format!(
                "{} of CPU {} beyond its rows, and `max:` is missing: run rtla without --no-summary, to its end",
                counted(over, "samples"),
                self.columns[place].1
            );
            return Err(Error::line(FORMAT, self.last_line, reason));
        }
        let at =
            |units: f64| format::to_ns(units, self.step_of_unit_ns as f64).unwrap_or(u64::MAX / 4);
        let to_ns = figure(&self.max)
            .map_or(end, |max| at(max).saturating_add(self.step_of_unit_ns - 1))
            .max(end);
        let beyond = (over > 0).then_some(Beyond { from_ns: end, to_ns, count: over });
        let resolution = Resolution { beyond, ..Resolution::even(step_ns) };
        let cell = |(index, counts): &(u64, Vec<u64>)| {
            (index.saturating_mul(self.step_of_unit_ns), counts[place])
        };
        let mut part = StreamPart::of_cells(series, &resolution, self.rows.iter().map(cell));
        part.length = self.length_s;
        let counted = part.samples();
        if let Some(stated) = figure(&self.count).filter(|stated| *stated as u64 != counted) {
            let (name, cpu) = self.columns[place];
            let reason = format!(
                "{} of CPU {cpu}: its rows and `over:` add up to {counted}, `count:` says {stated}: lines are lost or changed",
                name.words()
            );
            return Err(Error::line(FORMAT, self.last_line, reason));
        }

        if let (Some(min), Some(avg), Some(max)) =
            (figure(&self.min), figure(&self.avg), figure(&self.max))
        {
            let stated = SourceFigures {
                min_ns: at(min),
                max_ns: at(max),
                mean_ns: avg * self.step_of_unit_ns as f64,
            };
            part.moments = Some(part.moments_around(&resolution, stated));
        }

        Ok((resolution, part))
    }
}

fn column(word: &str, line: usize) -> Result<(Series, u32), Error> {
    let stated = word.split_once('-').and_then(|(name, cpu)| {
        let series = match name {
            "IRQ" => Series::InterruptLatency,
            "Thr" => Series::WakeupLatency,
            "Usr" => Series::ReturnLatency,
            "CPU" => Series::Gap,
            _ => return None,
        };
        Some((series, cpu.parse().ok()?))
    });
    stated.ok_or_else(|| {
        Error::line(
            FORMAT,
            line,
            format!("the column `{word}` is none of IRQ-N, Thr-N, Usr-N, CPU-N"),
        )
    })
}

/// Seconds of `0 00:10:00`: days, then the clock.
fn duration_s(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let days: u32 = words.next()?.parse().ok()?;
    Some(f64::from(days) * 86_400.0 + super::date::clock_s(words.next()?)? as f64)
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
