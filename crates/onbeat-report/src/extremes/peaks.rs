//! Largest values of equal stretches of a run, and events among them.

use onbeat_record::{RunFile, Series, Trend};

/// Where seconds are fewer than this, the steps of the trend are taken instead.
const FEW_SECONDS: usize = 1_000;
/// Stretches over a threshold that lie no further apart than this are one event, in stretches.
const APART: usize = 2;

/// Largest values of a series, one for each of equal stretches of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlockMaxima {
    /// How long each is, in seconds.
    pub length_s: f64,
    /// Which stretch since the file's start, and the largest value in it in nanoseconds, in order
    /// of time.
    pub largest_ns: Vec<(u64, f64)>,
}

/// The largest values of a series of a run: of its seconds, or of the steps of its trend where it
/// has few seconds.
#[must_use]
pub fn of_series(run: &RunFile, series: Series) -> BlockMaxima {
    let seconds = of_seconds(run, series);
    if seconds.largest_ns.len() >= FEW_SECONDS {
        return seconds;
    }
    let steps = of_trend(run, series);
    if steps.largest_ns.len() > seconds.largest_ns.len() { steps } else { seconds }
}

fn of_seconds(run: &RunFile, series: Series) -> BlockMaxima {
    let mut largest_ns = Vec::new();
    for note in run.maxima.iter().filter(|note| (note.every - 1.0).abs() < 1e-9) {
        let values =
            note.series.get(&series).into_iter().flatten().enumerate().filter(|(_, ns)| **ns > 0);
        largest_ns.extend(values.map(|(i, ns)| ((note.t + 0.5) as u64 + i as u64, *ns as f64)));
    }

    if largest_ns.is_empty() {
        let whole = run.intervals.iter().filter(|interval| (interval.length - 1.0).abs() < 0.5);
        let largest = |interval: &onbeat_record::Interval| {
            Some(((interval.t + 0.5) as u64, interval.moments(series).max_ns as f64))
                .filter(|(_, ns)| *ns > 0.0)
        };
        largest_ns.extend(whole.filter_map(largest));
    }

    BlockMaxima { length_s: 1.0, largest_ns }
}

/// The trend keeps largest values to within 0.8 %. They are spread over what their codes stand for,
/// in turns, so that many equal ones do not look like a distribution of a few values.
fn of_trend(run: &RunFile, series: Series) -> BlockMaxima {
    let notes = || run.trends.iter().filter(|note| note.series == series);
    let Some(every) = notes().next().map(|note| note.every) else { return BlockMaxima::default() };
    let steps = notes().filter(|note| (note.every - every).abs() < 1e-9).flat_map(Trend::steps);
    let spread = |(i, step): (usize, onbeat_record::TrendStep)| {
        let part = ((i as f64 * 0.618_033_988_75).fract() - 0.5) / 64.0;
        ((step.t / every + 0.5) as u64, step.max_ns * (1.0 + part * 0.7))
    };

    BlockMaxima { length_s: every, largest_ns: steps.enumerate().map(spread).collect() }
}

impl BlockMaxima {
    /// The value that `share` of the stretches are above.
    pub(super) fn above(&self, share: f64) -> f64 {
        let mut sorted: Vec<f64> = self.largest_ns.iter().map(|(_, ns)| *ns).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let n = sorted.len();
        let above = ((share * n as f64).round() as usize).clamp(1, n - 1);
        sorted[n - 1 - above]
    }

    /// The largest value of each event over a threshold, with the stretch it is in. What one stall
    /// makes in stretches next to each other is one event.
    pub(super) fn events(&self, threshold_ns: f64) -> Vec<(u64, f64)> {
        let mut events: Vec<(u64, f64)> = Vec::new();
        let mut last: Option<u64> = None;
        for &(at, ns) in self.largest_ns.iter().filter(|(_, ns)| *ns > threshold_ns) {
            match (last, events.last_mut()) {
                (Some(before), Some(event)) if at.abs_diff(before) < APART as u64 => {
                    event.1 = event.1.max(ns);
                }
                _ => events.push((at, ns)),
            }
            last = Some(at);
        }

        events
    }

    /// The largest of all, in nanoseconds.
    #[must_use]
    pub fn largest(&self) -> f64 {
        self.largest_ns.iter().map(|(_, ns)| *ns).fold(0.0, f64::max)
    }
}
