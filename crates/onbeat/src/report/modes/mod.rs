//! Modes: disturbances that come back at their time, found in the trend of a run.
//!
//! | file | what it does |
//! |---|---|
//! | `series` | the trend notes as series on an even grid, with gaps |
//! | `fft`, `comb` | which periods a series may have |
//! | `fold` | the series laid over itself: where, how long, how large, in how many periods, and whether chance would do |
//! | `search` | one mode after the other, harmonics folded to one |
//! | `fine` | modes faster than the steps of the trend |
//! | `tied` | whether a mode keeps time or counts cycles |
//! | `words` | modes in sentences |
//!
//! What is tied to the second and the like (a rule of the scheduler) is found too: one step may hold one of it.
//!
//! What can be found: from `LEAST_PERIODS` (4) times in a run down to every second release. What lasts for a step or
//! longer is seen in the median or the slowest tenth of the steps, with its size over what lies beside it; what is shorter
//! is seen in the largest values, when it stands out there. A period between one step and two is told as a multiple of it.
//! Absent on purpose: a period that wanders by more than the mode's own duration in the course of a run, and a guess at
//! the cause.

mod comb;
mod fft;
mod fine;
mod fold;
mod search;
mod series;
mod tied;
mod words;

use serde::{Deserialize, Serialize};

use fold::{Figure, Stretch};
use search::Found;
use series::{Axis, Grid, Trends};

use crate::record::RunFile;

pub use tied::{Tied, across};

/// Points of a phase plot, where the period has so many steps.
const PLOT_POINTS: usize = 160;
/// A mode is told by the slowest tenth of its steps when this is lifted by so much more than the median, or by no less than
/// this part of what the largest values are.
const MORE_IN_THE_TAIL: f64 = 2.0;
/// Two modes whose periods are within this of a whole ratio are one when they also coincide.
const SAME_PERIOD: f64 = 0.003;

/// Which figure of the steps a mode lifts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifts {
    /// Half of the cycles or more, for as long as it lasts.
    Most,
    /// A tenth of the cycles or more, but not half.
    Some,
    /// Single cycles.
    Single,
}

/// One disturbance that comes back at its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mode {
    /// From one to the next, in seconds.
    pub period_s: f64,
    /// The same in cycles of the loop.
    pub period_cycles: f64,
    /// How much later cycles are: over what lies beside it, or for single cycles over the median meanwhile. Nanoseconds.
    pub size_ns: f64,
    /// Which cycles it makes late.
    pub lifts: Lifts,
    /// How long it lasts each time, in seconds; for single cycles what it lasts at most.
    pub duration_s: f64,
    /// The share of all samples in it, 0 to 1; for single cycles, as if each time were one.
    pub share: f64,
    /// Periods in which it was there; for modes faster than the trend's steps, steps.
    pub seen: u64,
    /// Periods that could have shown it; steps as above.
    pub periods: u64,
    /// When it first was, in seconds since the run file's start.
    pub first_s: f64,
    /// Whether it keeps time or counts cycles.
    pub tied: Tied,
    /// The run laid over itself with the period.
    pub phase: PhasePlot,
    /// All of it in words.
    pub sentence: String,
}

/// Latency by place in the period: what a phase plot is drawn from. The mode begins at a tenth of the period.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhasePlot {
    /// Mean of the steps' medians at each of the places, in nanoseconds; `null` where there is none.
    pub p50_ns: Vec<Option<u64>>,
    /// The same for what nine tenths of a step do not exceed.
    pub p90_ns: Vec<Option<u64>>,
    /// The same for the largest values of the steps.
    pub max_ns: Vec<Option<u64>>,
}

/// What a run's trend says of modes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Modes {
    /// Seconds per step of the trend; 0 without one.
    pub step_s: f64,
    /// Steps with figures.
    pub steps: u64,
    /// The shortest period that could be found, in seconds.
    pub shortest_s: f64,
    /// The longest.
    pub longest_s: f64,
    /// Modes, the one with the most effect first.
    pub found: Vec<Mode>,
    /// What was found, or why nothing could be, in words.
    pub sentence: String,
}

/// Looks for modes in a run.
#[must_use]
pub fn of_run(run: &RunFile) -> Modes {
    let Some(trends) = Trends::of(run) else {
        return Modes { sentence: words::without_a_trend(run), ..Modes::default() };
    };
    let release_s = run.header.timing.as_ref().map_or(0.0, |timing| timing.period_ns as f64 / 1e9);
    let grid = trends.grid(Axis::Time);
    let mut modes = Modes {
        step_s: grid.step_s,
        steps: grid.filled as u64,
        shortest_s: (2.0 * release_s).max(grid.step_s / 1024.0),
        longest_s: grid.len() as f64 * grid.step_s / comb::LEAST_PERIODS as f64,
        ..Modes::default()
    };
    if grid.filled < search::LEAST_STEPS {
        modes.sentence = words::too_short(grid.filled, grid.step_s);
        return modes;
    }
    modes.found = on_axis(&trends, Axis::Time, release_s);
    let parted_s = trends.axes_part_s();
    // Where releases were skipped, what counts cycles has no period in time.
    if parted_s > grid.step_s {
        let by_cycles = on_axis(&trends, Axis::Cycles, release_s);
        modes.found = tied::joined(std::mem::take(&mut modes.found), by_cycles, parted_s);
    }
    modes.found.sort_by(|a, b| (b.size_ns * b.share).total_cmp(&(a.size_ns * a.share)));
    for mode in &mut modes.found {
        mode.sentence = words::of(mode);
    }
    modes.sentence = words::in_all(&modes);
    modes
}

fn on_axis(trends: &Trends, axis: Axis, release_s: f64) -> Vec<Mode> {
    let whole = trends.grid(axis);
    let mut left = whole.clone();
    let slow = search::all(&mut left);
    let fine = fine::find(&left, release_s);
    let slow: Vec<Mode> = slow.iter().map(|found| of_found(&whole, found, release_s)).collect();
    let mut modes: Vec<Mode> = Vec::new();
    for mode in slow.into_iter().chain(fine.map(|fine| of_fine(&whole, &fine, release_s))) {
        if !modes.iter().any(|other| is_part_of(&mode, other)) {
            modes.push(mode);
        }
    }
    modes
}

/// Whether a mode is what another one left over: at a whole multiple or part of its period and at its place.
fn is_part_of(mode: &Mode, other: &Mode) -> bool {
    let ratio = (mode.period_s / other.period_s).max(other.period_s / mode.period_s);
    let (short, long) = (mode.period_s.min(other.period_s), mode.duration_s.max(other.duration_s));
    let apart = (mode.first_s - other.first_s).rem_euclid(short);
    let is_multiple = (ratio - ratio.round()).abs() < SAME_PERIOD * ratio && ratio < 32.5;
    is_multiple && apart.min(short - apart) <= 1.5 * long
}

fn of_found(grid: &Grid, found: &Found, release_s: f64) -> Mode {
    let Stretch { period, width, .. } = found.stretch;
    let period_s = period * grid.step_s;
    let mut mode = Mode {
        period_s,
        period_cycles: period_s / release_s,
        size_ns: found.seen.size_ns,
        lifts: match found.figure {
            Figure::P50 => Lifts::Most,
            Figure::P90 => Lifts::Some,
            Figure::Max => Lifts::Single,
        },
        duration_s: if found.figure == Figure::Max { width } else { found.duration } * grid.step_s,
        share: 0.0,
        seen: found.seen.seen,
        periods: found.seen.periods,
        first_s: grid.from_s + found.seen.first * grid.step_s,
        tied: Tied::CannotTell,
        phase: phase_plot(grid, found.stretch),
        sentence: String::new(),
    };
    let least_ns = match found.figure {
        Figure::P50 => MORE_IN_THE_TAIL * mode.size_ns,
        Figure::P90 => f64::INFINITY,
        Figure::Max => mode.size_ns / MORE_IN_THE_TAIL,
    };
    let tail = fold::seen(grid, Figure::P90, found.stretch, 1.0);
    if let Some(tail) = tail.filter(|tail| tail.size_ns > least_ns) {
        (mode.size_ns, mode.lifts) = (tail.size_ns, Lifts::Some);
    }
    mode.share = match mode.lifts {
        Lifts::Single => (release_s / period_s).min(1.0),
        _ => (mode.duration_s / period_s).min(1.0),
    };
    mode
}

fn of_fine(grid: &Grid, fine: &fine::Fine, release_s: f64) -> Mode {
    let period_s = fine.period_s;
    Mode {
        period_s,
        period_cycles: period_s / release_s,
        size_ns: fine.size_ns,
        lifts: Lifts::Single,
        duration_s: release_s,
        share: (release_s / period_s).min(1.0),
        seen: fine.seen,
        periods: fine.steps,
        first_s: grid.from_s + fine.first_s,
        tied: Tied::CannotTell,
        phase: fine_plot(grid, fine),
        sentence: String::new(),
    }
}

fn phase_plot(grid: &Grid, stretch: Stretch) -> PhasePlot {
    let bins = PLOT_POINTS.min(stretch.period.round() as usize).max(2);
    let whole = |series: &[f64]| {
        let means = fold::by_place(series, stretch, bins).into_iter();
        means.map(|ns| (!ns.is_nan()).then(|| ns.round() as u64)).collect()
    };
    PhasePlot { p50_ns: whole(&grid.p50), p90_ns: whole(&grid.p90), max_ns: whole(&grid.max) }
}

/// For a mode faster than the steps: the largest values by when they were.
fn fine_plot(grid: &Grid, fine: &fine::Fine) -> PhasePlot {
    const PLACES: usize = 40;
    let (mut sums, mut counts) = ([0.0; PLACES], [0_u32; PLACES]);
    for (at, max) in grid.worst_at.iter().zip(&grid.max).filter(|(at, _)| !at.is_nan()) {
        let place = (at * grid.step_s / fine.period_s - fine.phase + 0.1).rem_euclid(1.0);
        let bin = ((place * PLACES as f64) as usize).min(PLACES - 1);
        sums[bin] += max;
        counts[bin] += 1;
    }
    let mean = |(sum, count): (f64, u32)| (count > 0).then(|| (sum / f64::from(count)).round() as u64);
    PhasePlot { max_ns: sums.into_iter().zip(counts).map(mean).collect(), ..PhasePlot::default() }
}
