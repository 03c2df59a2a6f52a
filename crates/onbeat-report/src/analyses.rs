//! The analyses of one run: periodic interference, the tail beside a normal distribution, the worst
//! case, how long to measure. All of it for what the run is about, and for what else it has.

use serde::{Deserialize, Serialize};

use super::enough::{Enough, enough};
use super::extremes::{self, Extremes};
use super::file_facts::about;
use super::modes::{self, Modes};
use super::normal::{self, Normal};
use super::statistics::Statistics;
use onbeat_record::{RunFile, Series};

/// The share that "how long to measure" is given for without a limit, in percent.
const SHARE: f64 = 99.999;

/// Without a mission it is this many times the run.
const TIMES_THE_RUN: f64 = 10.0;

/// The conclusions from one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conclusions {
    /// The main series, to which the following fields apply.
    #[serde(default)]
    pub series: Series,
    /// Periodic interference.
    pub modes: Modes,
    /// Comparison with a normal distribution; `None` without a spread.
    pub normal: Option<Normal>,
    /// Extrapolated worst case (EVT).
    pub extremes: Extremes,
    /// How long to measure; `None` if no number of releases suffices.
    pub enough: Option<Enough>,
    /// The same of the other series.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OfSeries>,
}

/// The conclusions about one series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OfSeries {
    /// The series.
    pub series: Series,
    /// Periodic interference.
    pub modes: Modes,
    /// Comparison with a normal distribution; `None` without a spread.
    pub normal: Option<Normal>,
    /// Extrapolated worst case (EVT).
    pub extremes: Extremes,
}

/// Returns the conclusions from a run; `mission_s` is the time that the worst is wanted for, or
/// else ten times the run.
#[must_use]
pub fn of_run(run: &RunFile, at: Option<f64>, mission_s: Option<f64>) -> Conclusions {
    let period_ns = run.header.timing.as_ref().map(|timing| timing.period_ns);
    let period_ns = period_ns.or_else(|| run.import.as_ref()?.period_ns).unwrap_or(0);
    let mut of_each = about(run).into_iter().map(|series| of_series(run, series, mission_s));
    let OfSeries { series, modes, normal, extremes } = of_each.next().unwrap_or_default();
    let enough = enough(at.unwrap_or(SHARE), period_ns, 0);
    Conclusions { series, modes, normal, extremes, enough, others: of_each.collect() }
}

fn of_series(run: &RunFile, series: Series, mission_s: Option<f64>) -> OfSeries {
    let distribution = run.distribution(series);
    let statistics = Statistics::new(&distribution, &run.moments(series));
    OfSeries {
        series,
        modes: modes::of_series(run, series),
        normal: statistics.and_then(|statistics| normal::of(&statistics, &distribution, series)),
        extremes: extremes::of_series(
            run,
            series,
            mission_s.unwrap_or(TIMES_THE_RUN * measured_s(run, series)),
        ),
    }
}

/// How long a series was measured, in seconds; 0 where it is not known.
fn measured_s(run: &RunFile, series: Series) -> f64 {
    let of_series = run.entries.iter().filter(|entry| entry.series == series);
    of_series.fold(0.0, |all, entry| all + entry.length)
}
