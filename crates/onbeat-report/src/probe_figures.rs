//! Figures of single probes beyond those of a loop: the parts of a reaction, a chain counted in
//! cycles, and a run second by second.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cell_figures::is_of_program;
use super::statistics::Statistics;
use super::units::{Letters, count, percent, time_ns};
use onbeat_record::{RunFile, Second, Seconds, Series, Timing};

/// Spread of the seconds' figures of wake-up latency: the table that Xenomai's `latency` prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BySecond {
    /// Number of whole seconds.
    pub seconds: u64,
    /// Mean of the seconds' smallest values, in nanoseconds.
    pub min_mean_ns: f64,
    /// Their standard deviation of the population, in nanoseconds.
    pub min_sd_ns: f64,
    /// Number of samples in these seconds.
    pub samples: u64,
    /// Mean of the seconds' means, in nanoseconds.
    pub mean_mean_ns: f64,
    /// Their standard deviation, in nanoseconds.
    pub mean_sd_ns: f64,
    /// Mean of the seconds' largest values, in nanoseconds.
    pub max_mean_ns: f64,
    /// Their standard deviation, in nanoseconds.
    pub max_sd_ns: f64,
    /// Skipped releases in these seconds.
    pub overruns: u64,
}

impl BySecond {
    /// From the notes of a run; `None` without a whole second.
    #[must_use]
    pub fn from_seconds(notes: &[Seconds]) -> Option<Self> {
        let rows: Vec<Second> = notes.iter().flat_map(Seconds::rows).collect();
        if rows.is_empty() {
            return None;
        }

        let (min_mean_ns, min_sd_ns) = spread(&rows, |row| row.min_ns as f64);
        let (mean_mean_ns, mean_sd_ns) = spread(&rows, Second::mean_ns);
        let (max_mean_ns, max_sd_ns) = spread(&rows, |row| row.max_ns as f64);
        Some(Self {
            seconds: rows.len() as u64,
            min_mean_ns,
            min_sd_ns,
            samples: rows.iter().map(|row| row.count).sum(),
            mean_mean_ns,
            mean_sd_ns,
            max_mean_ns,
            max_sd_ns,
            overruns: rows.iter().map(|row| row.overruns).sum(),
        })
    }
}

/// Mean and standard deviation.
fn spread(rows: &[Second], figure: impl Fn(&Second) -> f64) -> (f64, f64) {
    let n = rows.len() as f64;
    let mean = rows.iter().map(&figure).sum::<f64>() / n;
    let variance = rows.iter().map(|row| (figure(row) - mean).powi(2)).sum::<f64>() / n;
    (mean, variance.sqrt())
}

/// The average interval of a loop without a grid, and that minus the sleep, as both papers report
/// it.
fn relative_sleep(timing: &Timing, series: &BTreeMap<Series, Statistics>) -> Option<String> {
    if !timing.wait_kind().is_relative() {
        return None;
    }

    let us = |ns: f64| {
        let hundredths = (ns / 10.0).round() as i64;
        let sign = if hundredths < 0 { "-" } else { "" };
        format!(
            "{sign}{}.{:02} us",
            count(hundredths.unsigned_abs() / 100),
            hundredths.unsigned_abs() % 100
        )
    };

    let (words, average) = [Series::WriteInterval, Series::ObservedPeriod]
        .iter()
        .find_map(|one| Some((one.words(), series.get(one)?.mean_ns)))?;
    let sleep_ns = timing.period_ns as f64;
    Some(format!(
        "A relative sleep of {} per cycle, no grid: average {words} {}; t_w = average - sleep: {}",
        us(sleep_ns),
        us(average),
        us(average - sleep_ns)
    ))
}

/// Conclusions from the figures of a probe, as sentences.
#[must_use]
pub(super) fn derived(run: &RunFile, series: &BTreeMap<Series, Statistics>) -> Vec<String> {
    let Some(timing) = &run.header.timing else { return Vec::new() };
    let formatted = |ns: f64| time_ns(ns.round() as u64, Letters::Ascii);
    let mut sentences = Vec::new();
    // For how long a watched program asks to sleep is not in its run.
    if !is_of_program(run) {
        sentences.extend(relative_sleep(timing, series));
    }
    if let (Some(interval), Some(response)) =
        (series.get(&Series::WriteInterval), series.get(&Series::ResponseTime))
    {
        sentences.push(format!(
            "Jitter of the write interval (max - min): {}; t_w, the mean time from a release to the return of its write: {}",
            formatted(interval.jitter_ns as f64),
            formatted(response.mean_ns)
        ));
    }

    let of_edges =
        [Series::ReadWrite, Series::ReadLatency, Series::ResponseTime].map(|one| series.get(&one));
    if let [Some(whole), Some(read), Some(write)] = of_edges {
        sentences.push(format!(
            "Jitter from edge to output (max - min): {}; t_rw, the mean without the delay of {}: {}; t_w, from the delay's \
             end to the output: {}; t_r = t_rw - t_w, from the edge to the loop: {}",
            formatted(whole.jitter_ns as f64),
            formatted(timing.delay_ns as f64),
            formatted(whole.mean_ns - timing.delay_ns as f64),
            formatted(write.mean_ns),
            formatted(read.mean_ns)
        ));
    }

    let skipped = run.account().skipped;
    if series.contains_key(&Series::ReadWrite) && skipped > 0 {
        let answered = run.account().cycles;
        sentences.push(format!(
            "{} of {} edges ({}) were never answered; they are in no figure and count as over any limit on edge to output",
            count(skipped),
            count(skipped + answered),
            percent(skipped as f64 / (skipped + answered) as f64)
        ));
    }

    if let (Some(chain), true) =
        (series.get(&Series::Chain), timing.period_ns > 0 && run.boards.is_none())
    {
        let cycles = |ns: f64| format!("{:.2}", ns / timing.period_ns as f64);
        sentences.push(format!(
            "From command to output in cycles of {}: {} at least, {} on average, {} at most, SD {}",
            formatted(timing.period_ns as f64),
            cycles(chain.min_ns as f64),
            cycles(chain.mean_ns),
            cycles(chain.max_ns as f64),
            cycles(chain.sd_ns)
        ));
    }

    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_the_rows_of_the_table() {
        let first = Seconds {
            first: 0,
            block: 0,
            count: vec![10, 10],
            min_ns: vec![100, 300],
            sum_ns: vec![2_000, 6_000],
            max_ns: vec![900, 1_100],
            overruns: vec![0, 4],
        };

        let second = Seconds {
            first: 2,
            count: vec![20],
            min_ns: vec![200],
            sum_ns: vec![8_000],
            max_ns: vec![1_000],
            overruns: vec![1],
            block: 0,
        };

        let of = BySecond::from_seconds(&[first, second]).expect("three seconds");
        assert_eq!((of.seconds, of.samples, of.overruns), (3, 40, 5));
        assert!(
            (of.min_mean_ns - 200.0).abs() < 1e-9
                && (of.min_sd_ns - (20_000.0_f64 / 3.0).sqrt()).abs() < 1e-9
        );
        assert!((of.mean_mean_ns - 400.0).abs() < 1e-9, "means 200, 600 and 400");
        assert!((of.max_mean_ns - 1_000.0).abs() < 1e-9);
        assert_eq!(BySecond::from_seconds(&[]), None);
    }
}
