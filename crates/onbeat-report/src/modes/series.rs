//! The trend of a run as series on an even grid, with gaps where nothing was measured.

use onbeat_record::{Bucket, Entry, RunFile, Series, Trend, TrendStep};

/// More steps than this are taken together, so that the search is bounded: a day and a half of
/// seconds.
const MOST_STEPS: usize = 1 << 17;

/// No step is farther than this from the first one.
const FARTHEST_STEP: usize = 1 << 53;

/// Steps on an even grid. Positions count from 0 in steps; a gap is NaN.
#[derive(Clone, Debug)]
pub(super) struct TrendGrid {
    /// Seconds from step to step.
    pub(super) step_s: f64,
    /// When the grid begins, in seconds since the file's start.
    pub(super) from_s: f64,
    pub(super) p50: Vec<f64>,
    pub(super) p90: Vec<f64>,
    pub(super) max: Vec<f64>,
    /// When the largest value of each step was, in steps from the grid's begin.
    pub(super) worst_at: Vec<f64>,
    /// Whether it is known when in its step a largest value was.
    pub(super) is_placed: bool,
    /// Steps with figures.
    pub(super) filled: usize,
}

/// The axis that the steps of a grid count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Axis {
    Time,
    Cycles,
}

/// A step, and where it stands by either axis, in seconds: for cycles, as if all had come a period
/// apart.
struct PlacedStep {
    step: TrendStep,
    by_cycles_s: f64,
}

/// Steps of a series, and where they are on both axes.
pub(super) struct Trends {
    placed: Vec<PlacedStep>,
    every_s: f64,
    is_placed: bool,
}

/// The steps of a series in a run file.
pub(super) struct Recorded {
    /// All figures of each step.
    pub(super) levels: Trends,
    /// Shorter steps of which only the largest values are known, with the other figures of the step
    /// above around them.
    pub(super) largest: Option<Trends>,
}

impl Recorded {
    /// The trend notes of a series, or its intervals and largest values per second where the file
    /// has no such notes.
    pub(super) fn from_run(run: &RunFile, series: Series) -> Option<Self> {
        if let Some(levels) = Trends::from_run(run, series) {
            return Some(Self { levels, largest: None });
        }

        let steps = of_intervals(run, series);
        let largest = Trends::unplaced(of_maxima(run, series, &steps))
            .filter(|largest| largest.placed.len() > steps.len());
        Some(Self { levels: Trends::unplaced(steps)?, largest })
    }
}

/// A step per interval.
fn of_intervals(run: &RunFile, series: Series) -> Vec<TrendStep> {
    let entries = run.entries.iter().filter(|entry| entry.series == series && entry.length > 0.0);
    let step = |entry: &Entry| {
        let buckets = entry.counts.buckets();
        let n = entry.counts.count();
        let value = |share: f64| {
            let rank = (share * n as f64).max(1.0);
            let mut below = 0;
            let reached = buckets.iter().find(|bucket| {
                below += bucket.count;
                below as f64 >= rank
            });
            reached.map(Bucket::middle_ns)
        };

        let min_ns = value(0.0)?;
        let p50_ns = value(0.5)?;
        let p90_ns = value(0.9)?;
        let max_ns = value(1.0)?;
        Some(TrendStep {
            t: entry.t,
            min_ns,
            p50_ns,
            p90_ns,
            max_ns,
            worst_t: entry.t + entry.length / 2.0,
        })
    };

    entries.filter_map(step).collect()
}

/// A step per largest value, with the other figures of the interval around it.
fn of_maxima(run: &RunFile, series: Series, intervals: &[TrendStep]) -> Vec<TrendStep> {
    let mut steps = Vec::new();
    for note in &run.maxima {
        for (i, ns) in
            note.series.get(&series).into_iter().flatten().enumerate().filter(|(_, ns)| **ns > 0)
        {
            let t = note.t + i as f64 * note.every;
            let Some(around) = intervals.partition_point(|step| step.t <= t).checked_sub(1) else {
                continue;
            };
            let max_ns = (*ns as f64).max(intervals[around].p50_ns);
            steps.push(TrendStep { t, max_ns, worst_t: t + note.every / 2.0, ..intervals[around] });
        }
    }

    steps
}

impl Trends {
    /// The trend notes of a series; `None` when there is none.
    fn from_run(run: &RunFile, series: Series) -> Option<Self> {
        let notes: Vec<&Trend> = run.trends.iter().filter(|note| note.series == series).collect();
        let every_s = notes.first()?.every;
        // An imported source reports no cycles.
        let period_s = run.header.timing.as_ref().map(|timing| timing.period_ns as f64 / 1e9);
        let mut placed = Vec::new();
        for (i, note) in notes
            .iter()
            .enumerate()
            .filter(|(_, note)| (note.every - every_s).abs() < 1e-9 && every_s > 0.0)
        {
            let Some(period_s) = period_s else {
                placed.extend(
                    note.steps().into_iter().map(|step| PlacedStep { by_cycles_s: step.t, step }),
                );
                continue;
            };
            // Cycles of a note are spread evenly over its time: where releases were skipped there
            // are fewer of them.
            let served = notes.get(i + 1).map(|next| next.cycles.saturating_sub(note.cycles));
            let length_s = note.every * (note.max.len() / 2) as f64;
            let rate = served.map_or(1.0, |served| (served as f64 * period_s / length_s).min(1.0));
            let start = note.cycles as f64 * period_s;
            placed.extend(note.steps().into_iter().map(|step| {
                let by_cycles_s = start + (step.t - note.t) * rate;
                PlacedStep { step, by_cycles_s }
            }));
        }

        let is_placed = notes.iter().all(|note| note.is_placed());
        (!placed.is_empty()).then_some(Self { placed, every_s, is_placed })
    }

    /// Steps of which it is not known when in them the largest value was; as long as most of them
    /// are apart.
    fn unplaced(steps: Vec<TrendStep>) -> Option<Self> {
        let mut apart: Vec<f64> =
            steps.windows(2).map(|pair| pair[1].t - pair[0].t).filter(|s| *s > 0.0).collect();
        let every_s = if apart.is_empty() { return None } else { median(&mut apart) };
        let placed =
            steps.into_iter().map(|step| PlacedStep { by_cycles_s: step.t, step }).collect();
        Some(Self { placed, every_s, is_placed: false })
    }

    /// By how much the axes part in the run, in seconds.
    pub(super) fn axes_part_s(&self) -> f64 {
        let apart = self.placed.iter().map(|placed| placed.step.t - placed.by_cycles_s);
        let (low, high) =
            apart.fold((f64::MAX, f64::MIN), |(low, high), s| (low.min(s), high.max(s)));
        high - low
    }

    pub(super) fn grid(&self, axis: Axis) -> TrendGrid {
        let place = |placed: &PlacedStep| match axis {
            Axis::Time => placed.step.t,
            Axis::Cycles => placed.by_cycles_s,
        };

        let starts = || self.placed.iter().map(place);
        let from_s = starts().fold(f64::MAX, f64::min);
        // Times and steps are those of a file, and may be anything.
        let last = ((starts().fold(f64::MIN, f64::max) - from_s) / self.every_s).round();
        let last = (last as usize).min(FARTHEST_STEP);
        let together = (last + 1).div_ceil(MOST_STEPS);
        let step_s = self.every_s * together as f64;
        let mut grid = TrendGrid::empty(step_s, from_s, last / together + 1);
        grid.is_placed = self.is_placed;

        for placed in &self.placed {
            let at_s = place(placed) - from_s;
            let i = ((at_s / self.every_s).round() as usize / together).min(grid.max.len() - 1);
            let worst = (at_s + placed.step.worst_t - placed.step.t) / step_s;
            grid.put(i, &placed.step, worst);
        }

        grid
    }
}

impl TrendGrid {
    pub(super) fn empty(step_s: f64, from_s: f64, n: usize) -> Self {
        let nothing = || vec![f64::NAN; n];
        Self {
            step_s,
            from_s,
            p50: nothing(),
            p90: nothing(),
            max: nothing(),
            worst_at: nothing(),
            is_placed: true,
            filled: 0,
        }
    }

    fn put(&mut self, i: usize, step: &TrendStep, worst_at: f64) {
        if self.max[i].is_nan() {
            self.filled += 1;
            (self.p50[i], self.p90[i]) = (step.p50_ns, step.p90_ns);
        } else {
            // Several steps taken together: the median's mean is near enough.
            (self.p50[i], self.p90[i]) =
                (f64::midpoint(self.p50[i], step.p50_ns), self.p90[i].max(step.p90_ns));
        }
        if self.max[i].is_nan() || step.max_ns > self.max[i] {
            (self.max[i], self.worst_at[i]) = (step.max_ns, worst_at);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.max.len()
    }

    /// Takes the largest value of a step out, and with it what the slowest tenth is lifted by,
    /// where that is wanted.
    pub(super) fn forget_largest(&mut self, step: usize, and_tenth: bool) {
        self.max[step] = f64::NAN;
        if and_tenth {
            self.p90[step] = f64::NAN;
        }
    }

    /// Takes steps out, all their figures.
    pub(super) fn forget(&mut self, from: usize, to: usize) {
        for i in from..to.min(self.len()) {
            if !self.max[i].is_nan() {
                self.filled -= 1;
            }
            for series in [&mut self.p50, &mut self.p90, &mut self.max, &mut self.worst_at] {
                series[i] = f64::NAN;
            }
        }
    }
}

/// A series made comparable: distances from the median in units of the usual spread, nothing beyond
/// `clip` of them; 0 in gaps. With it, where there are figures (1 or 0).
pub(super) fn standardised(series: &[f64], clip: f64) -> (Vec<f64>, Vec<f64>) {
    let mut sorted: Vec<f64> = series.iter().copied().filter(|v| !v.is_nan()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let Some(&median) = sorted.get(sorted.len() / 2) else {
        return (vec![0.0; series.len()], vec![0.0; series.len()]);
    };
    let quantile = |share: f64| sorted[((sorted.len() - 1) as f64 * share) as usize];
    // Half of a normal distribution is within 0.6745 of its standard deviation. What is stored is
    // within 0.02 %.
    let spread = ((quantile(0.75) - quantile(0.25)) / (2.0 * 0.6745))
        .max(median.abs() * 2e-4)
        .max(f64::MIN_POSITIVE);

    centred(
        series
            .iter()
            .map(|v| if v.is_nan() { f64::NAN } else { ((v - median) / spread).clamp(-clip, clip) })
            .collect(),
    )
}

/// Mean 0 and variance 1.
fn centred(mut values: Vec<f64>) -> (Vec<f64>, Vec<f64>) {
    let present: Vec<f64> = values.iter().map(|v| if v.is_nan() { 0.0 } else { 1.0 }).collect();
    let n = present.iter().sum::<f64>().max(1.0);
    let mean = values.iter().filter(|v| !v.is_nan()).sum::<f64>() / n;
    let variance =
        values.iter().filter(|v| !v.is_nan()).map(|v| (v - mean) * (v - mean)).sum::<f64>() / n;
    let scale = if variance > 0.0 { variance.sqrt().recip() } else { 0.0 };
    for value in &mut values {
        *value = if value.is_nan() { 0.0 } else { (*value - mean) * scale };
    }

    (values, present)
}

/// The middle one; NaN of nothing. Changes the order.
pub(super) fn median(values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}
