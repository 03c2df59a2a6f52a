//! The table of `rtla timerlat top`: count, minimum, average and maximum per CPU, and no
//! distribution. Of a terminal's output, with a table per second, the last row of a CPU counts.

use std::collections::BTreeMap;

use super::error::Error;
use super::format::Format;
use super::lines::{Line, PassedOver, each_line};
use super::rtla;
use super::stated::{self, Stated};
use super::stream::Stream;
use crate::Series;

const FORMAT: Format = Format::Rtla;
/// What the tables between `|` are about, in their order.
const SERIES: [Series; 3] =
    [Series::InterruptLatency, Series::WakeupLatency, Series::ReturnLatency];

/// Whether a text is such a table, or that of `rtla osnoise top` and `rtla hwnoise`.
#[must_use]
pub fn is_top(beginning: &str) -> bool {
    is_of_timerlat(beginning) || is_of_osnoise(beginning)
}

fn is_of_timerlat(text: &str) -> bool {
    text.contains("Timer Latency") && text.contains("CPU COUNT")
}

fn is_of_osnoise(text: &str) -> bool {
    ["Operating System Noise", "Hardware-related Noise"].iter().any(|title| text.contains(title))
        && text.contains("CPU Period")
}

/// A row: count, and minimum, average and maximum per table; `None` where there was no sample.
struct Row {
    count: u64,
    tables: Vec<Option<[f64; 3]>>,
}

impl Row {
    /// `  0 #10003     |        0         0         1        59 |        7         3         8        68`.
    fn parse(line: &str) -> Option<(u32, Self)> {
        let (head, tables) = line.split_once('|')?;
        let mut head = head.split_whitespace();
        let cpu = head.next()?.parse().ok()?;
        let count = head.next()?.strip_prefix('#')?.parse().ok()?;
        let tables = tables.split('|').map(|table| {
            let words: Vec<&str> = table.split_whitespace().collect();
            let [_, min, avg, max] = words.as_slice() else { return None };
            let figures = [min, avg, max].map(|word| word.parse::<f64>().ok());
            let [Some(min), Some(avg), Some(max)] = figures else { return Some(None) };
            [min, avg, max].iter().all(|n| n.is_finite()).then_some(Some([min, avg, max]))
        });
        Some((cpu, Self { count, tables: tables.collect::<Option<_>>()? }))
    }

    fn is_of_another_run(&self, before: &Self) -> bool {
        let pairs = self.tables.iter().zip(&before.tables);
        pairs
            .filter_map(|(now, then)| (*now).zip(*then))
            .any(|(now, then)| stated::are_of_another_run((self.count, now), (before.count, then)))
    }
}

/// One stream per CPU.
///
/// # Errors
/// [`Error`].
pub fn read(text: &str) -> Result<Vec<Stream>, Error> {
    if !is_of_timerlat(text) && is_of_osnoise(text) {
        let reason = "rtla osnoise top and rtla hwnoise state sums and the largest noise, neither minimum nor average nor a count; rtla osnoise hist has all of them";
        return Err(Error::nothing(FORMAT, reason));
    }

    let mut rows: BTreeMap<u32, Row> = BTreeMap::new();
    let mut passed_over = PassedOver::default();
    let mut missed = None;
    let mut is_stopped = false;
    let mut step_ns = 1_000;
    each_line(&mut text.as_bytes(), |line: &Line<'_>| {
        if line.text.contains("Timer Latency (ns)") {
            step_ns = 1;
        }
        match Row::parse(line.text).filter(|_| line.has_end) {
            Some((cpu, row)) => {
                if rows.get(&cpu).is_some_and(|before| row.is_of_another_run(before)) {
                    return Err(Error::second_run(FORMAT, line.number));
                }
                rows.insert(cpu, row);
            }
            None if is_heading(line.text) => {}
            None if rtla::is_stop(line.text) => is_stopped = true,
            None => match rtla::missed(line.text) {
                Some(of_trace) => missed = Some(of_trace),
                None if is_stopped => {}
                None => passed_over.count(line),
            },
        }
        Ok(())
    })?;

    let several = rows.len() > 1;
    let mut streams = Vec::new();
    for (cpu, row) in &rows {
        let label = if several { format!("CPU {cpu}") } else { String::new() };
        let mut stream = Stream { label, ..Stream::default() };
        for (series, figures) in SERIES.into_iter().zip(&row.tables) {
            let figures = figures.filter(|_| row.count > 0);
            let stated =
                figures.and_then(|of| Stated::in_units(Some(row.count), of, step_ns as f64));
            if let Some(stated) = stated {
                stated.put_into(&mut stream, series, step_ns);
            }
        }

        stream.missing.dedup();
        stream.lacks(
            "the average to more than a whole unit: rtla top cuts it off; rtla hist states it",
        );
        stream.lacks("the machine, the start and the command: rtla's text does not hold them");
        if let Some((events, sentence)) = &missed {
            stream.lost = *events;
            stream.remarks.push(sentence.clone());
        }
        stream.remarks.extend(is_stopped.then(|| rtla::STOPPED.to_owned()));
        stream.remarks.extend(passed_over.sentence("rtla"));
        streams.push(stream);
    }

    let without = streams.iter().filter(|of| of.parts.is_empty()).map(|of| of.label.clone());
    let without = without.collect::<Vec<_>>().join(", ");
    streams.retain(|stream| !stream.parts.is_empty());
    if !without.is_empty() {
        streams.iter_mut().for_each(|of| of.remarks.push(format!("without a sample: {without}")));
    }
    if streams.is_empty() {
        let reason = "no row of a CPU has samples; rtla timerlat hist has a histogram";
        return Err(Error::nothing(FORMAT, reason));
    }

    Ok(streams)
}

fn is_heading(line: &str) -> bool {
    let line = line.trim();
    line == "Timer Latency"
        || line.contains("Timer Latency (")
        || line.starts_with("CPU COUNT")
        || line.starts_with("---")
        || line.starts_with("ALL ")
}
