//! Modes, the periodic interference of reports: disturbances that recur, found in the trend of a
//! run.
//!
//! | file | what it does |
//! |---|---|
//! | `series` | the trend notes as series on an even grid, with gaps |
//! | `fft`, `comb` | which periods a series may have |
//! | `fold` | the series laid over itself: where, how long, how large, in how many periods, and whether chance would do |
//! | `search` | modes that lift a level, one after the other, harmonics folded to one |
//! | `events` | late instants: the largest value of each step, when it was, and by size |
//! | `spectrum`, `pairs` | which periods late instants may have: up to two steps, and from one on |
//! | `comes` | how many of them lie in one part of a period, and whether chance would do |
//! | `single` | modes of single cycles, one after the other |
//! | `tied` | whether a mode keeps time or counts cycles |
//! | `words` | modes in sentences |
//!
//! What is tied to the second and the like (a rule of the scheduler) is found too: one step may
//! hold one of it.
//!
//! What can be found: from `LEAST_PERIODS` (4) times in a run down to every second release. What
//! lasts for a step or longer is seen in the median or the slowest tenth of the steps, with its
//! size over what lies beside it; what is shorter is seen in the largest values, when it stands out
//! there: the trend keeps when in its step each of them was, so that their periods may be of any
//! length. Absent on purpose: a period that wanders by more than the mode's own duration in the
//! course of a run, and a guess at the cause.

mod comb;
mod comes;
mod events;
mod fft;
mod fold;
mod pairs;
mod search;
mod series;
mod single;
mod spectrum;
mod tied;
mod words;

use serde::{Deserialize, Serialize};

use comes::Comes;
use fold::{Figure, PeriodPart};
use search::LevelMode;
use series::{Axis, Recorded, TrendGrid};
use single::Single;

use onbeat_record::{RunFile, Series};

pub use tied::Tied;

/// Points of a phase plot, at most.
const PLOT_POINTS: usize = 160;
/// A mode is reported by the slowest tenth of its steps when this is lifted by this factor more
/// than the median, or by no less than this part of what the largest values are.
const MORE_IN_THE_TAIL: f64 = 2.0;
/// What lifts the slowest tenth for this many steps is not a single cycle.
const LASTING: f64 = 2.0;
/// Multiples of a fast mode's frequency that figures of steps may show.
const SEEN_MULTIPLES: u32 = 4;
/// Two modes whose periods are within this of a whole ratio are one when they also coincide.
const SAME_PERIOD: f64 = 0.003;

/// Which figure of the steps a mode lifts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifts {
    /// Half of the cycles or more, as long as it lasts.
    Most,
    /// A tenth of the cycles or more, but not half.
    Some,
    /// Single cycles.
    Single,
}

/// One periodic disturbance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mode {
    /// Period, in seconds.
    pub period_s: f64,
    /// Period in cycles of the loop; 0 where the loop's period is unknown.
    pub period_cycles: f64,
    /// Additional latency, in nanoseconds: relative to the steps around it, or of single cycles
    /// relative to the median of their step.
    pub size_ns: f64,
    /// Which cycles it makes late.
    pub lifts: Lifts,
    /// Duration of each occurrence, in seconds; of single cycles an upper bound.
    pub duration_s: f64,
    /// Fraction of all samples in it, 0 to 1; of single cycles, as if each occurrence were one.
    pub share: f64,
    /// Number of periods in which it occurred; of interference faster than the steps of the trend,
    /// number of steps.
    pub seen: u64,
    /// Number of periods, or steps, that could have shown it.
    pub periods: u64,
    /// First occurrence, in seconds since the file's start.
    pub first_s: f64,
    /// What it is periodic in.
    pub tied: Tied,
    /// The run folded with the period; the interference begins at a tenth of it.
    pub phase: PhasePlot,
    /// The result as a sentence.
    pub sentence: String,
}

/// Latency by place in the period. The interference begins at a tenth of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhasePlot {
    /// Mean of the steps' medians at each place, in nanoseconds; `null` without a step.
    pub p50_ns: Vec<Option<u64>>,
    /// The same of the steps' 90th percentiles.
    pub p90_ns: Vec<Option<u64>>,
    /// The same of the steps' largest values.
    pub max_ns: Vec<Option<u64>>,
}

/// Periodic interference in a series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Modes {
    /// Length of a step of the trend, in seconds; 0 without a trend.
    pub step_s: f64,
    /// Number of steps with figures.
    pub steps: u64,
    /// The shortest period that could be found, in seconds.
    pub shortest_s: f64,
    /// Longest period that could be found, in seconds.
    pub longest_s: f64,
    /// Interferences found, the one with the largest effect first.
    pub found: Vec<Mode>,
    /// The result, or why there is none, as a sentence.
    pub sentence: String,
}

/// Looks for modes in what a run is about.
#[must_use]
pub fn of_run(run: &RunFile) -> Modes {
    of_series(run, super::file_facts::about(run).first().copied().unwrap_or_default())
}

/// Looks for modes in a series of a run.
#[must_use]
pub fn of_series(run: &RunFile, series: Series) -> Modes {
    let Some(recorded) = Recorded::from_run(run, series) else {
        return Modes { sentence: words::without_a_trend(run, series), ..Modes::default() };
    };
    let release = Release::from_run(run, series);
    let trends = &recorded.levels;
    let grid = trends.grid(Axis::Time);
    let finest =
        recorded.largest.as_ref().map_or_else(|| grid.clone(), |largest| largest.grid(Axis::Time));
    let mut modes = Modes {
        step_s: finest.step_s,
        steps: finest.filled as u64,
        shortest_s: events::of(&finest, release.apart_s).1.shortest_s,
        longest_s: finest.len() as f64 * finest.step_s / comb::LEAST_PERIODS as f64,
        ..Modes::default()
    };

    if finest.filled < search::LEAST_STEPS {
        modes.sentence = words::too_short(finest.filled, finest.step_s);
        return modes;
    }

    modes.found = on_axis(&recorded, Axis::Time, release);
    let parted_s = trends.axes_part_s();
    // Where releases were skipped, what counts cycles has no period in time.
    if parted_s > grid.step_s {
        let by_cycles = on_axis(&recorded, Axis::Cycles, release);
        modes.found = tied::joined(std::mem::take(&mut modes.found), by_cycles, parted_s);
    }

    let (saturated, found) = modes.found.into_iter().partition(is_saturation);
    modes.found = found;
    modes.found.sort_by(|a, b| (b.size_ns * b.share).total_cmp(&(a.size_ns * a.share)));
    for mode in &mut modes.found {
        mode.sentence = words::of(mode, modes.step_s);
    }

    let saturated: Vec<Mode> = saturated;
    modes.sentence = words::in_all(&modes);
    modes.sentence.push_str(&words::saturation(&saturated));
    modes
}

/// Whether a mode makes cycles later than it is apart: the next time would come before this one is
/// over. Such a loop cannot keep up; nothing disturbs it now and then.
fn is_saturation(mode: &Mode) -> bool {
    mode.size_ns >= mode.period_s * 1e9
}

/// How far samples are apart.
#[derive(Clone, Copy, Debug)]
struct Release {
    /// Seconds from one sample to the next, on average without a loop.
    apart_s: f64,
    /// Whether that is the period of a loop.
    is_loop: bool,
}

impl Release {
    fn from_run(run: &RunFile, series: Series) -> Self {
        let timing = run.header.timing.as_ref().map(|timing| timing.period_ns);
        if let Some(period_ns) = timing.or_else(|| run.import.as_ref()?.period_ns) {
            return Self { apart_s: period_ns as f64 / 1e9, is_loop: true };
        }

        let of_series = || run.entries.iter().filter(|entry| entry.series == series);
        let samples: u64 = of_series().map(|entry| entry.counts.count()).sum();
        let begin = of_series().map(|entry| entry.t).fold(f64::MAX, f64::min);
        let end = of_series().map(|entry| entry.t + entry.length).fold(0.0, f64::max);
        Self { apart_s: (end - begin).max(0.0) / samples.max(1) as f64, is_loop: false }
    }

    /// A time in periods of the loop; 0 where there is none.
    fn cycles_of(self, s: f64) -> f64 {
        if self.is_loop && self.apart_s > 0.0 { s / self.apart_s } else { 0.0 }
    }
}

fn on_axis(recorded: &Recorded, axis: Axis, release: Release) -> Vec<Mode> {
    let whole = recorded.levels.grid(axis);
    let mut left = whole.clone();
    let of = |found: Vec<LevelMode>| {
        found.into_iter().map(|found| of_found(&whole, &found, release)).collect::<Vec<_>>()
    };
    let mut all = of(search::levels(&mut left, Figure::P50, 0.0));
    // What makes nearly every second cycle late lifts the median of some steps more than of others.
    if !all.is_empty() && recorded.largest.is_none() {
        let fast = single::all(&mut whole.clone(), release.apart_s);
        let fast: Vec<Mode> = fast.iter().map(|one| of_single(&whole, one, release)).collect();
        if all.iter().any(|mode| fast.iter().any(|fast| is_seen_in_steps(mode, fast, whole.step_s)))
        {
            (all, left) = (Vec::new(), whole.clone());
        }
    }

    // Single late cycles lift the slowest tenth a little, where a step has few: what lasts comes
    // before them, the rest after.
    let lasting = of(search::levels(&mut left, Figure::P90, LASTING));
    let finer = recorded.largest.as_ref().map(|largest| largest.grid(axis));
    let found = match finer.clone() {
        Some(mut finer) => single::all(&mut finer, release.apart_s),
        None => single::all(&mut left, release.apart_s),
    };

    let finer = finer.as_ref().unwrap_or(&whole);
    let single: Vec<Mode> = found.iter().map(|one| of_single(finer, one, release)).collect();
    let tenth = of(search::levels(&mut left, Figure::P90, 0.0));
    let is_shown =
        |mode: &Mode| !single.iter().any(|fast| is_seen_in_steps(mode, fast, whole.step_s));
    all.extend(lasting.into_iter().filter(is_shown));
    let tenth: Vec<Mode> = tenth.into_iter().filter(is_shown).collect();
    let mut modes: Vec<Mode> = Vec::new();
    for mode in all.into_iter().chain(single).chain(tenth) {
        if !modes.iter().any(|other| is_part_of(&mode, other)) {
            modes.push(mode);
        }
    }

    modes
}

/// Whether a mode of levels is what a faster one than two steps looks like when it is seen once per
/// step: figures of steps show its frequency, and multiples of that, only up to whole multiples of
/// one per step.
fn is_seen_in_steps(mode: &Mode, fast: &Mode, step_s: f64) -> bool {
    if fast.period_s >= 2.0 * step_s {
        return false;
    }

    let within = SAME_PERIOD.max(step_s / mode.period_s / mode.periods.max(1) as f64);
    (1..=SEEN_MULTIPLES).any(|multiple| {
        let turns = (f64::from(multiple) * step_s / fast.period_s).fract();
        let folded = turns.min(1.0 - turns);
        (1..=SEEN_MULTIPLES)
            .any(|part| (folded * mode.period_s / step_s / f64::from(part) - 1.0).abs() < within)
    })
}

/// Whether two modes, of two series of one run, have the same period.
#[must_use]
pub fn is_same_period(a: &Mode, b: &Mode) -> bool {
    (a.period_s / b.period_s - 1.0).abs() < SAME_PERIOD
}

/// Whether a mode is what another one left over: at a whole multiple or part of its period and at
/// its place.
fn is_part_of(mode: &Mode, other: &Mode) -> bool {
    let ratio = (mode.period_s / other.period_s).max(other.period_s / mode.period_s);
    let short = mode.period_s.min(other.period_s);
    let long = mode.duration_s.max(other.duration_s);
    let apart = (mode.first_s - other.first_s).rem_euclid(short);
    let is_multiple = (ratio - ratio.round()).abs() < SAME_PERIOD * ratio && ratio < 32.5;
    is_multiple && apart.min(short - apart) <= 1.5 * long
}

fn of_found(grid: &TrendGrid, found: &LevelMode, release: Release) -> Mode {
    let PeriodPart { period, .. } = found.stretch;
    let period_s = period * grid.step_s;
    let mut mode = Mode {
        period_s,
        period_cycles: release.cycles_of(period_s),
        size_ns: found.seen.size_ns,
        lifts: if found.figure == Figure::P50 { Lifts::Most } else { Lifts::Some },
        duration_s: found.duration * grid.step_s,
        share: 0.0,
        seen: found.seen.seen,
        periods: found.seen.periods,
        first_s: grid.from_s + found.seen.first * grid.step_s,
        tied: Tied::Undecided,
        phase: phase_plot(grid, found.stretch),
        sentence: String::new(),
    };

    let tail =
        fold::seen(grid, Figure::P90, found.stretch, 1.0).filter(|_| found.figure == Figure::P50);
    if let Some(tail) = tail.filter(|tail| tail.size_ns > MORE_IN_THE_TAIL * mode.size_ns) {
        (mode.size_ns, mode.lifts) = (tail.size_ns, Lifts::Some);
    }

    mode.share = (mode.duration_s / period_s).min(1.0);
    mode
}

fn of_single(grid: &TrendGrid, single: &Single, release: Release) -> Mode {
    let comes = single.comes;
    let in_steps = |s: f64| s / grid.step_s;
    let width = in_steps(comes.width_s).max(1.0);
    let stretch = PeriodPart {
        period: in_steps(comes.period_s),
        from: in_steps(comes.from_s),
        width,
        score: 0.0,
    };
    let is_slow = comes.period_s >= 2.0 * grid.step_s;
    let mut mode = Mode {
        period_s: comes.period_s,
        period_cycles: release.cycles_of(comes.period_s),
        size_ns: single.size_ns,
        lifts: Lifts::Single,
        duration_s: comes.width_s.max(release.apart_s),
        share: (release.apart_s / comes.period_s).min(1.0),
        seen: single.seen,
        periods: single.periods,
        first_s: grid.from_s + single.first_s,
        tied: Tied::Undecided,
        phase: if is_slow { phase_plot(grid, stretch) } else { fast_plot(grid, comes) },
        sentence: String::new(),
    };

    let tail = if is_slow { fold::seen(grid, Figure::P90, stretch, 1.0) } else { None };
    if let Some(tail) = tail.filter(|tail| tail.size_ns > mode.size_ns / MORE_IN_THE_TAIL) {
        (mode.size_ns, mode.lifts) = (tail.size_ns, Lifts::Some);
        mode.share = (mode.duration_s / comes.period_s).min(1.0);
    }

    mode
}

fn phase_plot(grid: &TrendGrid, stretch: PeriodPart) -> PhasePlot {
    let bins = PLOT_POINTS.min(stretch.period.round() as usize).max(2);
    let whole = |series: &[f64]| {
        let means = fold::by_place(series, stretch, bins).into_iter();
        means.map(|ns| (!ns.is_nan()).then(|| ns.round() as u64)).collect()
    };
    PhasePlot { p50_ns: whole(&grid.p50), p90_ns: whole(&grid.p90), max_ns: whole(&grid.max) }
}

/// For a mode about as fast as the steps: the largest values by when they were.
fn fast_plot(grid: &TrendGrid, comes: Comes) -> PhasePlot {
    const PLACES: usize = 40;
    let mut sums = [0.0; PLACES];
    let mut counts = [0_u32; PLACES];
    for (at, max) in grid.worst_at.iter().zip(&grid.max).filter(|(at, _)| !at.is_nan()) {
        let place = ((at * grid.step_s - comes.from_s) / comes.period_s + 0.1).rem_euclid(1.0);
        let bin = ((place * PLACES as f64) as usize).min(PLACES - 1);
        sums[bin] += max;
        counts[bin] += 1;
    }

    let mean =
        |(sum, count): (f64, u32)| (count > 0).then(|| (sum / f64::from(count)).round() as u64);
    PhasePlot { max_ns: sums.into_iter().zip(counts).map(mean).collect(), ..PhasePlot::default() }
}
