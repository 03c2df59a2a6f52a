//! The worst value to expect in a longer time than was measured: peaks over a threshold, a
//! generalized Pareto distribution, and an interval; only where the fit holds, and never as a
//! guarantee.
//!
//! The method is that of Davison and Smith (1990), step by step:
//!
//! 1. Largest values of seconds (short runs: of the steps of the trend). Neighbours over the
//!    threshold are one event.
//! 2. Thresholds from what a tenth of the seconds exceed upwards; the lowest one is taken at which
//!    the fit passes.
//! 3. A fit passes when the Anderson–Darling statistic is within what nine of ten samples stay
//!    below, the shape is that of the upper half of the peaks too, and no gap divides the largest
//!    peaks from the others.
//! 4. The level exceeded once per mission on average, with a 95 % interval by profile likelihood
//!    that allows for the number of peaks as well, and for the choice of the threshold by a
//!    calibration (`pareto`).
//!
//! Refused estimates have a reason. A cause that did not occur in the run is in no estimate.

mod pareto;
mod peaks;
mod words;

use serde::{Deserialize, Serialize};

pub use pareto::Pareto;
pub use peaks::{BlockMaxima, of_series as stretches_of};

use super::statistics::Statistics;
use onbeat_record::{RunFile, Series};

/// Shares of the stretches that thresholds let through, the lowest threshold first.
const SHARES: [f64; 9] = [0.1, 0.07, 0.05, 0.035, 0.025, 0.0175, 0.0125, 0.008, 0.005];
const FEWEST_PEAKS: usize = 40;
const MOST_PEAKS: usize = 500;
/// Longest mission, in lengths of the run.
const LONGEST: f64 = 100.0;
/// Intervals beyond this many times the largest observed value are refused.
const WIDEST: f64 = 20.0;
/// Halves of a run may differ in their number of peaks by this many standard deviations.
const EVEN: f64 = 4.0;
/// The shape of the upper half of the peaks may differ by this many standard deviations.
const STABLE: f64 = 3.0;
/// Below this shape an end is so near that the largest value is all that can be said.
const STEEPEST: f64 = -0.42;
/// The chance at which a gap between peaks is called one.
const GAP: f64 = 0.002;
/// Places of the largest peaks at which a gap is looked for.
const GAP_PLACES: usize = 30;
/// Two standard deviations of a count's logarithm, as for 95 %.
const TWO_SIDED: f64 = 1.96;
/// Points of a curve.
const CURVE: i32 = 8;

/// Why an estimate was refused.
#[derive(Clone, Debug, PartialEq)]
pub enum NoEstimate {
    /// The run is too short.
    TooFew {
        /// Stretches that there are.
        stretches: usize,
        /// How many are needed.
        needed: usize,
        /// How long one is, in seconds.
        length_s: f64,
    },
    /// The mission is too long for the run.
    MissionTooLong {
        /// The mission, in seconds.
        mission_s: f64,
        /// The longest that this run supports, in seconds.
        longest_s: f64,
    },
    /// The mission is not longer than what was measured several times over.
    MissionTooShort {
        /// The mission, in seconds.
        mission_s: f64,
        /// The largest value seen, in nanoseconds.
        largest_ns: f64,
    },
    /// The two halves of the run are not alike.
    Changed {
        /// Peaks in the first half.
        first: usize,
        /// Peaks in the second.
        second: usize,
        /// Over which threshold, in nanoseconds.
        threshold_ns: f64,
    },
    /// No threshold passes the test of fit.
    DoesNotFit {
        /// The smallest Anderson–Darling statistic over its critical value.
        times: f64,
        /// Thresholds tried.
        tried: usize,
    },
    /// Some of the largest values stand apart: another cause, seen too rarely to judge.
    StandApart {
        /// How many.
        peaks: usize,
        /// From where on, in nanoseconds.
        from_ns: f64,
        /// Where the others end, in nanoseconds.
        below_ns: f64,
    },
    /// The largest values pile up below an end, where likelihood is of no use.
    Wall {
        /// The largest value seen, in nanoseconds.
        largest_ns: f64,
    },
    /// The shape changes with the threshold.
    Unstable {
        /// Over the threshold.
        shape: f64,
        /// Of the upper half of the peaks.
        upper: f64,
    },
    /// The interval would be too wide to be of use.
    TooWide {
        /// The estimate, in nanoseconds.
        worst_ns: f64,
        /// The largest value seen, in nanoseconds.
        largest_ns: f64,
    },
}

impl NoEstimate {
    /// The same with the largest value as the tables have it.
    fn with_largest(self, largest_ns: f64) -> Self {
        match self {
            Self::MissionTooShort { mission_s, .. } => {
                Self::MissionTooShort { mission_s, largest_ns }
            }
            Self::Wall { .. } => Self::Wall { largest_ns },
            Self::TooWide { worst_ns, .. } => Self::TooWide { worst_ns, largest_ns },
            other => other,
        }
    }
}

/// An estimate that passed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Time that it is for, in seconds.
    pub mission_s: f64,
    /// The value exceeded once in that time on average, in nanoseconds.
    pub worst_ns: f64,
    /// Lower end of its 95 % interval, in nanoseconds.
    pub low_ns: f64,
    /// Upper end, in nanoseconds.
    pub high_ns: f64,
    /// Threshold of the fit, in nanoseconds.
    pub threshold_ns: f64,
    /// Number of events over the threshold.
    pub peaks: u64,
    /// Number of stretches over it; more than events where a stall reaches into several.
    pub stretches_over: u64,
    /// Number of stretches.
    pub stretches: u64,
    /// Length of a stretch, in seconds.
    pub stretch_s: f64,
    /// Shape of the fit: below 0 the tail ends, 0 is exponential, above 0 a power.
    pub shape: f64,
    /// Shape of the upper half of the peaks alone.
    pub shape_above: f64,
    /// Scale of the fit, in nanoseconds.
    pub scale_ns: f64,
    /// Anderson–Darling statistic.
    pub anderson_darling: f64,
    /// Value that one of ten samples of the fitted distribution exceeds.
    pub critical: f64,
    /// Number of thresholds at which the fit did not hold.
    pub passed_over: u64,
    /// Estimates for times from a hundredth of the run to the mission; in reports only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<Level>,
    /// The largest events with their mean time between occurrences by rank; in reports only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed: Vec<Observed>,
}

/// A point of the curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// Time, in seconds.
    pub mission_s: f64,
    /// Value exceeded once in that time on average, in nanoseconds.
    pub worst_ns: f64,
    /// Lower end of its 95 % interval, in nanoseconds.
    pub low_ns: f64,
    /// Upper end, in nanoseconds.
    pub high_ns: f64,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// Mean time between such events by rank, in seconds.
    pub every_s: f64,
    /// Its size, in nanoseconds.
    pub ns: f64,
}

/// Extrapolated worst case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Extremes {
    /// Time that the estimate is for, in seconds.
    pub mission_s: f64,
    /// The estimate; `None` if refused.
    pub estimate: Option<Estimate>,
    /// Largest value seen, in nanoseconds.
    pub largest_ns: f64,
    /// The estimate, or why there is none, as a sentence.
    pub sentence: String,
}

/// The worst to expect in `mission_s` seconds of what a run is about.
#[must_use]
pub fn of_run(run: &RunFile, mission_s: f64) -> Extremes {
    of_series(run, super::file_facts::about(run).first().copied().unwrap_or_default(), mission_s)
}

/// The worst value of a series to expect in `mission_s` seconds, from a run.
#[must_use]
pub fn of_series(run: &RunFile, series: Series, mission_s: f64) -> Extremes {
    let stretches = stretches_of(run, series);
    if stretches.largest_ns.is_empty() {
        return without_times(run, series, mission_s);
    }

    // Steps of the trend have their largest values to within 0.8 %; the run's own is exact.
    let largest_ns = largest_of(run, series).map_or_else(|| stretches.largest(), |ns| ns as f64);
    let estimate = estimate(&stretches, mission_s)
        .map(|estimate| with_curve(estimate, &stretches))
        .map_err(|refusal| refusal.with_largest(largest_ns));
    let sentence = match &estimate {
        Ok(estimate) => words::of(estimate, series, largest_ns),
        Err(refusal) => words::refused(refusal, mission_s),
    };

    Extremes { mission_s, estimate: estimate.ok(), largest_ns, sentence }
}

/// The largest value of a series, the same one as in the tables.
fn largest_of(run: &RunFile, series: Series) -> Option<u64> {
    let statistics = Statistics::new(&run.distribution(series), &run.moments(series));
    statistics.map(|statistics| statistics.max_ns)
}

/// Largest values without times are no peaks.
fn without_times(run: &RunFile, series: Series, mission_s: f64) -> Extremes {
    let largest_ns = largest_of(run, series).unwrap_or(0) as f64;
    let sentence =
        words::without_times(run.import.as_ref().map(|import| import.format.as_str()), series);
    Extremes { mission_s, estimate: None, largest_ns, sentence }
}

/// The level exceeded once per mission of `mission_s` seconds on average.
///
/// # Errors
/// [`NoEstimate`], with the reason.
pub fn estimate(stretches: &BlockMaxima, mission_s: f64) -> Result<Estimate, NoEstimate> {
    let n = stretches.largest_ns.len();
    let needed = (FEWEST_PEAKS as f64 / SHARES[0]) as usize;
    let run_s = n as f64 * stretches.length_s;
    if n < needed {
        return Err(NoEstimate::TooFew { stretches: n, needed, length_s: stretches.length_s });
    }

    if mission_s > LONGEST * run_s {
        return Err(NoEstimate::MissionTooLong { mission_s, longest_s: LONGEST * run_s });
    }

    let mut why_not = None;
    let mut tried = 0;
    for share in SHARES {
        let peaks = share * n as f64;
        if peaks > MOST_PEAKS as f64 && share > SHARES[SHARES.len() - 1] {
            continue;
        }

        let peaks = peaks.min(MOST_PEAKS as f64);
        if peaks < FEWEST_PEAKS as f64 {
            break;
        }

        match at_threshold(stretches, stretches.above(peaks / n as f64), mission_s) {
            Ok(estimate) => return Ok(Estimate { passed_over: tried, ..estimate }),
            Err(refusal) => why_not = Some(more_specific(why_not, refusal)),
        }

        tried += 1;
    }

    Err(match why_not {
        Some(NoEstimate::DoesNotFit { times, .. }) => {
            NoEstimate::DoesNotFit { times, tried: tried as usize }
        }
        Some(other) => other,
        None => NoEstimate::TooFew { stretches: n, needed, length_s: stretches.length_s },
    })
}

/// Of two reasons the one that says more; of two misfits the smaller.
fn more_specific(before: Option<NoEstimate>, now: NoEstimate) -> NoEstimate {
    match (before, now) {
        (Some(before @ NoEstimate::StandApart { .. }), _) => before,
        (
            Some(NoEstimate::DoesNotFit { times, tried }),
            NoEstimate::DoesNotFit { times: other, .. },
        ) => NoEstimate::DoesNotFit { times: times.min(other), tried },
        (_, now) => now,
    }
}

fn at_threshold(
    stretches: &BlockMaxima,
    threshold_ns: f64,
    mission_s: f64,
) -> Result<Estimate, NoEstimate> {
    let events = stretches.events(threshold_ns);
    let excesses: Vec<f64> = events.iter().map(|(_, ns)| ns - threshold_ns).collect();
    let no_fit = |times: f64| NoEstimate::DoesNotFit { times, tried: 1 };
    let n = stretches.largest_ns.len();
    let peaks = excesses.len();
    if peaks * 2 < FEWEST_PEAKS {
        return Err(no_fit(f64::INFINITY));
    }

    let middle = stretches.largest_ns[n / 2].0;
    let first = events.iter().filter(|(at, _)| *at < middle).count();
    if (2.0 * first as f64 - peaks as f64).abs() > EVEN * (peaks as f64).sqrt() {
        return Err(NoEstimate::Changed { first, second: peaks - first, threshold_ns });
    }

    gap(&excesses, threshold_ns)?;
    let fit = Pareto::fitted(&excesses).ok_or(no_fit(f64::INFINITY))?;
    if fit.shape < STEEPEST {
        return Err(NoEstimate::Wall { largest_ns: stretches.largest() });
    }

    let (anderson_darling, critical) = fit.anderson_darling(&excesses);
    if anderson_darling > critical {
        return Err(no_fit(anderson_darling / critical));
    }

    let shape_above = upper_shape(&excesses).unwrap_or(fit.shape);
    let usual = (1.0 + fit.shape.max(shape_above)) / (peaks as f64).sqrt();
    if (shape_above - fit.shape).abs() > STABLE * usual {
        return Err(NoEstimate::Unstable { shape: fit.shape, upper: shape_above });
    }

    let times = mission_s / (n as f64 * stretches.length_s) * peaks as f64;
    let tail = Tail { fit, excesses: &excesses, threshold_ns, largest_ns: stretches.largest() };
    let level = tail.level(times, mission_s)?;
    Ok(Estimate {
        mission_s,
        worst_ns: level.worst_ns,
        low_ns: level.low_ns,
        high_ns: level.high_ns,
        threshold_ns,
        peaks: peaks as u64,
        stretches_over: stretches.largest_ns.iter().filter(|(_, ns)| *ns > threshold_ns).count()
            as u64,
        stretches: n as u64,
        stretch_s: stretches.length_s,
        shape: fit.shape,
        shape_above,
        scale_ns: fit.scale,
        anderson_darling,
        critical,
        ..Estimate::default()
    })
}

/// A fitted tail, from which levels are read.
struct Tail<'e> {
    fit: Pareto,
    excesses: &'e [f64],
    threshold_ns: f64,
    largest_ns: f64,
}

impl Tail<'_> {
    /// The level exceeded once in `times` peaks, which is once in `mission_s` seconds, with its
    /// interval.
    fn level(&self, times: f64, mission_s: f64) -> Result<Level, NoEstimate> {
        let Self { fit, excesses, threshold_ns, largest_ns } = *self;
        let spread = (TWO_SIDED / (excesses.len() as f64).sqrt()).exp();
        if times / spread <= 1.5 {
            return Err(NoEstimate::MissionTooShort { mission_s, largest_ns });
        }

        let worst_ns = threshold_ns + fit.once_in(times);
        let too_wide = NoEstimate::TooWide { worst_ns, largest_ns };
        let most = WIDEST * largest_ns - threshold_ns;
        let (low, high) = fit
            .interval(excesses, (times / spread, times, times * spread), most)
            .ok_or(too_wide)?;
        Ok(Level { mission_s, worst_ns, low_ns: threshold_ns + low, high_ns: threshold_ns + high })
    }
}

/// The shape of the upper half of excesses, over their median.
fn upper_shape(excesses: &[f64]) -> Option<f64> {
    let mut sorted = excesses.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted[sorted.len() / 2];
    let upper: Vec<f64> =
        sorted[sorted.len() / 2 + 1..].iter().map(|x| x - middle).filter(|x| *x > 0.0).collect();
    Pareto::fitted(&upper).map(|fit| fit.shape)
}

/// Looks for a gap below some of the largest excesses that a distribution fitted to the others does
/// not have.
///
/// Of excesses made exponential by the fit, `j` times the distance of the j-th largest to the next
/// is exponential again (Rényi, 1953).
fn gap(excesses: &[f64], threshold_ns: f64) -> Result<(), NoEstimate> {
    let mut sorted = excesses.to_vec();
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    let places = GAP_PLACES.min(sorted.len() / 4);
    let widest = (1..=places).map(|j| ((j as f64) * (sorted[j - 1] / sorted[j]).ln(), j));
    let Some((_, j)) = widest.max_by(|a, b| a.0.total_cmp(&b.0)) else { return Ok(()) };
    let Some(fit) = Pareto::fitted_below(&sorted[j..], j, sorted[j]) else { return Ok(()) };
    let exponential = |x: f64| -fit.beyond(x).max(1e-300).ln();
    let distance = j as f64 * (exponential(sorted[j - 1]) - exponential(sorted[j]));

    if distance > (places as f64 / GAP).ln() {
        let from_ns = threshold_ns + sorted[j - 1];
        let below_ns = threshold_ns + sorted[j];
        return Err(NoEstimate::StandApart { peaks: j, from_ns, below_ns });
    }

    Ok(())
}

/// Adds what a chart is drawn from.
fn with_curve(mut estimate: Estimate, stretches: &BlockMaxima) -> Estimate {
    let events = stretches.events(estimate.threshold_ns);
    let excesses: Vec<f64> = events.iter().map(|(_, ns)| ns - estimate.threshold_ns).collect();
    let run_s = estimate.stretches as f64 * estimate.stretch_s;
    let Some(fit) = Pareto::fitted(&excesses) else { return estimate };
    let tail = Tail {
        fit,
        excesses: &excesses,
        threshold_ns: estimate.threshold_ns,
        largest_ns: stretches.largest(),
    };
    let per_s = excesses.len() as f64 / run_s;
    let from_s = 5.0 / per_s;
    let to_s = estimate.mission_s.max(run_s);
    estimate.curve = (0..=CURVE)
        .map(|i| from_s * (to_s / from_s).powf(f64::from(i) / f64::from(CURVE)))
        .filter_map(|s| tail.level(s * per_s, s).ok())
        .collect();
    let mut largest: Vec<f64> = events.iter().map(|(_, ns)| *ns).collect();
    largest.sort_unstable_by(|a, b| b.total_cmp(a));
    // All of the largest, and fewer and fewer of the others.
    let shown = |rank: usize| rank <= 30 || rank.is_multiple_of(rank / 15);
    let observed = largest.iter().enumerate().filter(|(i, _)| shown(i + 1));
    estimate.observed =
        observed.map(|(i, ns)| Observed { every_s: run_s / (i as f64 + 0.5), ns: *ns }).collect();

    estimate
}
