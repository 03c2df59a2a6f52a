//! One line per second, as Xenomai's `latency` prints it: smallest, mean, largest, overruns, and
//! the extremes so far.

use onbeat::probe::{Description, Setting};
use onbeat::record::{Recorder, Second};
use onbeat_report::Letters;

use crate::term::letters;

/// Lines between two heads.
const LINES_PER_HEAD: u64 = 21;

/// The lines of a measurement.
pub(crate) struct Lines {
    /// `None` when no lines are printed.
    title: Option<String>,
    said: u64,
    overruns: u64,
    best_ns: u64,
    worst_ns: u64,
}

impl Lines {
    pub(crate) fn new(probe: &Description, setting: &Setting, quiet: bool) -> Self {
        let unit = if letters() == Letters::Unicode { "µs" } else { "us" };
        let whose = match setting.thread.fifo {
            Some(priority) => format!("priority {priority}"),
            None => "an ordinary thread".to_owned(),
        };

        let title = format!(
            "release latency, {unit}: a release every {} {unit}, {whose}",
            setting.period_ns as f64 / 1e3
        );
        let is_wanted = probe.line_a_second && !quiet;
        Self {
            title: is_wanted.then_some(title),
            said: 0,
            overruns: 0,
            best_ns: u64::MAX,
            worst_ns: 0,
        }
    }

    /// Returns the lines of the seconds that have ended since the last call.
    pub(crate) fn since(&mut self, recorder: &mut Recorder) -> Vec<String> {
        if self.title.is_none() {
            return Vec::new();
        }

        let mut lines = Vec::new();
        for second in recorder.seconds_done() {
            if self.said == 0 {
                lines.extend(self.title.clone());
            }
            if self.said.is_multiple_of(LINES_PER_HEAD) {
                lines
                    .push(row(["second", "min", "avg", "max", "overruns", "best", "worst"]
                        .map(str::to_owned)));
            }

            self.said += 1;
            lines.push(self.line(&second));
        }

        lines
    }

    fn line(&mut self, second: &Second) -> String {
        self.overruns += second.overruns;
        self.best_ns = self.best_ns.min(second.min_ns);
        self.worst_ns = self.worst_ns.max(second.max_ns);
        let us = |ns: f64| format!("{:.3}", ns / 1e3);
        row([
            (second.number + 1).to_string(),
            us(second.min_ns as f64),
            us(second.mean_ns()),
            us(second.max_ns as f64),
            self.overruns.to_string(),
            us(self.best_ns as f64),
            us(self.worst_ns as f64),
        ])
    }
}

fn row([second, figures @ ..]: [String; 7]) -> String {
    let figures: String = figures.iter().map(|figure| format!("{figure:>11}")).collect();
    format!("{second:>7}{figures}")
}
