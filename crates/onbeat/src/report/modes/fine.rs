//! Modes that come back within a few steps or faster: found by when the largest value of each step was.
//!
//! Where something makes every seventh cycle late, the largest values of the steps lie whole multiples of seven cycles
//! apart. Differences of neighbours tell a period without a long stretch of the run having to agree.

use std::f64::consts::TAU;

use super::series::{Grid, median};

/// The largest chance of a false alarm, over all frequencies looked at.
const FALSE_ALARM: f64 = 1e-3;
/// This share of the steps must have their largest value in the mode, or it is not looked at.
const LEAST_SHARE: f64 = 0.4;
/// Differences that the search takes; refining takes all.
const MOST_DIFFERENCES: usize = 4096;
/// Frequencies are this part of what one difference can tell apart.
const FINER: f64 = 0.1;
/// A period whose agreement is this near to the best one's, and that is longer, is the period.
const AS_GOOD: f64 = 0.85;
/// The longest period, in steps. Beyond, differences of instants that are anywhere in their steps agree by chance.
const LONGEST: f64 = 1.02;
/// Most multiples that a period is tried for.
const MOST_MULTIPLES: usize = 12;
/// The largest values are kept to this part of a step.
const PLACES: f64 = 4096.0;

/// A mode that is faster than steps.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fine {
    /// In seconds.
    pub(super) period_s: f64,
    /// How much larger than the step's median the mode's values are, in nanoseconds.
    pub(super) size_ns: f64,
    /// Steps whose largest value was the mode's.
    pub(super) seen: u64,
    /// Steps looked at.
    pub(super) steps: u64,
    /// When it was first, in seconds from the grid's begin.
    pub(super) first_s: f64,
    /// Its place in the period, 0 to 1, by the grid's begin.
    pub(super) phase: f64,
}

/// One late instant per step, in seconds from the grid's begin, and how late, beyond the step's median.
struct Event {
    at_s: f64,
    late_ns: f64,
}

/// The mode that makes the largest values of most steps, when there is one. `release_s` is the loop's period: what lies on
/// its grid alone is no mode.
pub(super) fn find(grid: &Grid, release_s: f64) -> Option<Fine> {
    let events: Vec<Event> = (0..grid.len())
        .filter(|&i| !grid.max[i].is_nan())
        .map(|i| Event { at_s: grid.worst_at[i] * grid.step_s, late_ns: grid.max[i] - grid.p50[i] })
        .collect();
    let blur_s = (grid.step_s / PLACES).max(f64::MIN_POSITIVE);
    let shortest_s = (1.9 * release_s).max(4.0 * blur_s);
    let longest_s = LONGEST * grid.step_s;
    if events.len() < 32 || shortest_s >= longest_s {
        return None;
    }
    let differences = |apart: usize, most: usize| -> Vec<f64> {
        let of = |pair: (&Event, &Event)| pair.1.at_s - pair.0.at_s;
        let near = apart as f64 * grid.step_s * 2.0;
        events.iter().zip(events.iter().skip(apart)).map(of).filter(|s| *s <= near).take(most).collect()
    };
    let next = differences(1, MOST_DIFFERENCES);
    let within_s = (release_s * 0.6).max(1.5 * blur_s);
    if let Some(period_s) = once_per_step(&differences, grid.step_s, within_s) {
        return measured(&events, period_s, within_s);
    }
    let resolution = FINER / grid.step_s;
    let (low, high) = (1.0 / longest_s, 1.0 / shortest_s);
    let tried = (high - low) / resolution;
    // Differences of uniform instants agree by chance as a mode would with this share squared.
    let least = ((tried / FALSE_ALARM).ln() / next.len() as f64).sqrt().max(LEAST_SHARE * LEAST_SHARE);
    let best = (0..tried as usize)
        .map(|i| low + i as f64 * resolution)
        .map(|frequency| (agreement(&next, frequency), frequency))
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    if best.0 < least {
        return None;
    }
    let longest = longest_coherent(&next, best, grid.step_s, longest_s);
    let frequency = refined(&differences, longest, grid.step_s, events.len());
    measured(&events, 1.0 / frequency, within_s)
}

/// The period of what comes once per step: differences are all alike then, and agree on any frequency.
fn once_per_step(differences: &dyn Fn(usize, usize) -> Vec<f64>, step_s: f64, within_s: f64) -> Option<f64> {
    let alike = |apart: usize, period_s: f64| {
        let far = differences(apart, MOST_DIFFERENCES);
        let n = far.len();
        let near = |s: &f64| (s - apart as f64 * period_s).abs() <= within_s;
        let near: Vec<f64> = far.into_iter().filter(near).collect();
        (near.len() as f64 >= LEAST_SHARE * LEAST_SHARE * n as f64 && near.len() >= 16).then_some(near)
    };
    let mut period_s = median(&mut differences(1, MOST_DIFFERENCES));
    let mut apart = 1;
    if (period_s / step_s - 1.0).abs() > LONGEST - 1.0 {
        return None;
    }
    while let Some(mut near) = alike(apart, period_s) {
        period_s = median(&mut near) / apart as f64;
        apart *= 2;
    }
    (apart > 1).then_some(period_s)
}

/// How well instants agree on a frequency: the length of the mean of their phases (Rayleigh, 1880), 0 to 1.
fn agreement(instants: &[f64], frequency: f64) -> f64 {
    let (sine, cosine) = instants.iter().fold((0.0, 0.0), |(sine, cosine), at| {
        let (s, c) = (TAU * frequency * at).sin_cos();
        (sine + s, cosine + c)
    });
    f64::hypot(sine, cosine) / instants.len().max(1) as f64
}

/// A mode agrees on every whole multiple of its frequency as well: the lowest frequency that agrees is the mode's own.
fn longest_coherent(differences: &[f64], best: (f64, f64), step_s: f64, longest_s: f64) -> f64 {
    let (best_agreement, best_frequency) = best;
    let near = |frequency: f64| {
        let around = (-10..=10).map(|i| frequency + f64::from(i) * 0.02 / step_s);
        around.map(|f| (agreement(differences, f), f)).fold((0.0, frequency), |a, b| if b.0 > a.0 { b } else { a })
    };
    let multiples = (2..=MOST_MULTIPLES).rev().map(|m| best_frequency / m as f64).filter(|f| *f * longest_s >= 1.0);
    let found = multiples.map(near).find(|(agreement, _)| *agreement >= AS_GOOD * best_agreement);
    found.unwrap_or_else(|| near(best_frequency)).1
}

/// The frequency as exactly as instants further and further apart tell it, while these still agree.
fn refined(differences: &dyn Fn(usize, usize) -> Vec<f64>, frequency: f64, step_s: f64, events: usize) -> f64 {
    let mut best = frequency;
    let mut within = FINER / step_s;
    let mut apart = 1;
    let mut first = None;
    while apart < events {
        let far = differences(apart, MOST_DIFFERENCES);
        if far.len() < 16 {
            break;
        }
        let finest = 0.1 / (apart as f64 * step_s);
        let steps = (within / finest).ceil() as i32;
        let around = (-steps..=steps).map(|i| best + f64::from(i) * finest).map(|f| (agreement(&far, f), f));
        let Some((height, found)) = around.max_by(|a, b| a.0.total_cmp(&b.0)) else { break };
        if height < 0.7 * *first.get_or_insert(height) {
            break;
        }
        (best, within) = (found, finest);
        apart *= 2;
    }
    best
}

/// Counts the steps whose largest value is the mode's, and takes the middle of their sizes. Phases are compared within
/// stretches short enough for the period to be exact.
fn measured(events: &[Event], period_s: f64, within_s: f64) -> Option<Fine> {
    let within = (within_s / period_s).min(0.25);
    let mut sizes = Vec::new();
    let (mut first_s, mut phase) = (f64::NAN, 0.0);
    for stretch in events.chunks(256) {
        let (sine, cosine) = stretch.iter().fold((0.0, 0.0), |(sine, cosine), event| {
            let (s, c) = (TAU * event.at_s / period_s).sin_cos();
            (sine + s, cosine + c)
        });
        let middle = f64::atan2(sine, cosine) / TAU;
        for event in stretch {
            let off = (event.at_s / period_s - middle + 0.5).rem_euclid(1.0) - 0.5;
            if off.abs() <= within {
                if first_s.is_nan() {
                    (first_s, phase) = (event.at_s, middle.rem_euclid(1.0));
                }
                sizes.push(event.late_ns);
            }
        }
    }
    // What lies there by chance does not count.
    let by_chance = 2.0 * within;
    let share = (sizes.len() as f64 / events.len() as f64 - by_chance) / (1.0 - by_chance);
    let seen = (share * events.len() as f64).round().max(0.0) as u64;
    (share >= LEAST_SHARE).then(|| Fine {
        period_s,
        size_ns: median(&mut sizes),
        seen,
        steps: events.len() as u64,
        first_s,
        phase,
    })
}
