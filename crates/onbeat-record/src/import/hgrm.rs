//! HdrHistogram's percentile text (`.hgrm`), as `outputPercentileDistribution` prints it.
//!
//! Programs such as wrk2 print it among other lines: rows begin below its head, where there is one, and end with its summary. With
//! commas it is the text that HdrHistogram writes for spreadsheets.
//!
//! Each row has a value and the number of samples that do not exceed it. Samples between two rows
//! are known to be between their values and no more: the rows' values become the uneven cells of
//! the run.

use super::csv::unit_in;
use super::error::{Error, counted};
use super::format::{Format, SourceOptions, to_ns};
use super::lines::begins;
use super::stated;
use super::stream::{SourceFigures, Stream};
use crate::Series;

const FORMAT: Format = Format::Hgrm;

#[derive(Default)]
struct PercentileText {
    /// Upper end of a cell and how many samples it holds.
    cells: Vec<(u64, u64)>,
    counted: u64,
    /// The value of the first of them, as it is printed.
    min_ns: u64,
    mean: Option<f64>,
    sd: Option<f64>,
    max: Option<f64>,
    last_line: usize,
    /// Of the last row: 1 where none is missing after it.
    share: f64,
    is_comma_separated: bool,
}

/// One stream.
///
/// # Errors
/// [`Error`]; [`Error::NoUnit`] without `--unit`, where the head names none.
pub fn read(text: &str, asked: &SourceOptions) -> Result<Vec<Stream>, Error> {
    let mut all = PercentileText::default();
    let head = text.lines().position(is_head);
    let others = text.lines().filter(|line| is_head(line)).count().saturating_sub(1) as u64;
    let unit_ns = asked.unit_ns.or_else(|| unit_of(text.lines().find(|line| is_head(line))?));
    let mut is_in_summary = false;
    for (line, number) in text.lines().zip(1..).skip(head.unwrap_or(0)) {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix("#[") {
            all.summary(comment);
            is_in_summary = true;
        } else if is_in_summary && !line.is_empty() {
            break;
        } else if is_head(line) {
            all.is_comma_separated = line.contains(',');
        } else if line.starts_with(|c: char| c.is_ascii_digit()) {
            let unit_ns = unit_ns.ok_or(Error::NoUnit { format: FORMAT, line: number })?;
            all.row(line, number, unit_ns)?;
        }
    }

    let (Some(unit_ns), Some(&(last_ns, _))) = (unit_ns, all.cells.last()) else {
        let advice = "its rows are Value, Percentile, TotalCount, 1/(1-Percentile)";
        return Err(Error::NoHistogram { format: FORMAT, lines: text.lines().count(), advice });
    };
    if all.share < 1.0 {
        let reason = format!(
            "its rows end at the share {}: those of the largest samples are missing",
            all.share
        );
        return Err(Error::line(FORMAT, all.last_line, reason));
    }
    let series = asked.series.unwrap_or(Series::Recorded);
    let (resolution, mut part) = stated::uneven(series, &all.cells);
    if let (Some(mean), Some(sd)) = (all.mean, all.sd) {
        let max_ns = all.max.and_then(|max| to_ns(max, unit_ns)).unwrap_or(last_ns);
        let min_ns = all.min_ns.min(max_ns);
        let source = SourceFigures { min_ns, max_ns, mean_ns: mean * unit_ns };
        part.moments = Some(part.moments_with_sd(source, sd * unit_ns));
    }

    let missing = vec![
        "order and times of the samples: no figures over time and no intervals".to_owned(),
        "values between two rows: they are known to lie between the rows' values, and percentiles there are given as the larger one"
            .to_owned(),
        "the machine, the start and the command: the text does not hold them".to_owned(),
    ];
    let resolution = [(series, resolution)].into();

    // wrk2 -U prints a second table, without its correction.
    let remarks =
        (others > 0).then(|| format!("{} below it not imported", counted(others, "tables")));
    let remarks = remarks.into_iter().collect();

    Ok(vec![Stream { resolution, parts: vec![part], missing, remarks, ..Stream::default() }])
}

fn is_head(line: &str) -> bool {
    line.contains("Percentile") && line.contains("TotalCount")
}

/// Nanoseconds per unit, where the head names it: `Value(ms)`, as vegeta writes.
fn unit_of(head: &str) -> Option<f64> {
    let is_around = |c: char| c.is_whitespace() || matches!(c, '"' | ',');
    unit_in(head.split_once("Percentile")?.0.trim_matches(is_around))
}

impl PercentileText {
    fn row(&mut self, line: &str, number: usize, unit_ns: f64) -> Result<(), Error> {
        self.last_line = number;
        let is_between = |c: char| c.is_whitespace() || self.is_comma_separated && c == ',';
        let mut words = line.split(is_between).filter(|word| !word.is_empty());
        let first = words.next().unwrap_or_default();
        let value = first.parse::<f64>().ok();
        let share = words.next().and_then(|word| word.parse::<f64>().ok());
        let total = words.next().and_then(|word| word.parse::<u64>().ok());
        let (Some(value), Some(share), Some(total)) = (value, share, total) else {
            return Err(Error::line(
                FORMAT,
                number,
                format!("`{}` is not a row of value, percentile and count", begins(line)),
            ));
        };
        // A value is printed rounded: it may have been larger by half of its last digit.
        let decimals = first
            .split_once('.')
            .map_or(0, |(_, digits)| i32::try_from(digits.len().min(12)).unwrap_or(0));
        let ns = to_ns(value + 0.5 * 10_f64.powi(-decimals), unit_ns).ok_or_else(|| {
            Error::line(
                FORMAT,
                number,
                format!("the value {value} is out of range; look at --unit"),
            )
        })?;

        if total < self.counted || self.cells.last().is_some_and(|(before, _)| *before > ns) {
            return Err(Error::line(
                FORMAT,
                number,
                "value or count is smaller than in the row before",
            ));
        }

        let more = total - self.counted;
        self.counted = total;
        self.share = share;
        if self.cells.is_empty() && more > 0 {
            self.min_ns = to_ns(value, unit_ns).unwrap_or(ns);
        }
        match self.cells.last_mut() {
            Some((end, n)) if *end == ns => *n += more,
            _ if more > 0 => self.cells.push((ns, more)),
            _ => {}
        }

        Ok(())
    }

    /// `Mean    =       20.123, StdDeviation   =        1.5]`.
    fn summary(&mut self, comment: &str) {
        for pair in comment.trim_end_matches(']').split(',') {
            let Some((name, value)) = pair.split_once('=') else { continue };
            let value =
                value.trim().parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
            match name.trim() {
                "Mean" => self.mean = value,
                "StdDeviation" => self.sd = value,
                "Max" => self.max = value,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = "  1.000 0.500000000000 2 2.00\n  4.000 1.000000000000 3\n";
    const SUMMARY: &str = "#[Mean    =        2.000, StdDeviation   =        1.414]\n";

    fn samples(text: &str) -> Result<u64, Error> {
        let asked = SourceOptions { unit_ns: Some(1e6), ..SourceOptions::default() };
        Ok(read(text, &asked)?[0].parts[0].samples())
    }

    #[test]
    fn rows_stand_between_head_and_summary_whatever_else_a_program_prints() {
        let head = "       Value   Percentile   TotalCount 1/(1-Percentile)\n\n";
        let wrk2 = format!(
            "2 threads and 100 connections\n 50.000%    6.67ms\n{head}{ROWS}{SUMMARY}-----\n60018 requests in 30.00s\n"
        );
        assert_eq!(samples(&wrk2).unwrap(), 3);
        assert_eq!(samples(&format!("{ROWS}{SUMMARY}")).unwrap(), 3);
        assert!(samples(&format!("{head}{ROWS}60018 requests\n{SUMMARY}")).is_err());
        let cut = samples(&ROWS[..ROWS.find("  4.0").unwrap()]).unwrap_err().to_string();
        assert!(cut.contains("line 1: its rows end at the share 0.5"), "{cut}");
    }

    #[test]
    fn a_head_may_name_the_unit() {
        let text = format!("Value(ms)  Percentile  TotalCount  1/(1-Percentile)\n{ROWS}");
        let of = read(&text, &SourceOptions::default()).unwrap();
        assert!(of[0].parts[0].cells.keys().all(|ns| *ns > 100_000), "{of:?}");
        assert!(read(&text.replacen("(ms)", "", 1), &SourceOptions::default()).is_err());
    }

    #[test]
    fn the_text_for_spreadsheets_has_commas() {
        let text = "\"Value\",\"Percentile\",\"TotalCount\",\"1/(1-Percentile)\"\n1.0,0.5,2,2.00\n4.0,1.0,3,Infinity\n";
        assert_eq!(samples(text).unwrap(), 3);
    }
}
